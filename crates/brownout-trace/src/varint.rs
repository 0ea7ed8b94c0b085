//! Variable-length integers whose first byte determines their length.
//!
//! A value below 2^(7n) takes n bytes, n ≤ 8: the value shifted left by n with bit n-1 set, little endian. The first byte
//! has n-1 trailing zero bits, so one unaligned load, a shift and a mask decode the value without a loop. Larger values
//! take nine bytes: a zero byte, then eight.

/// Longest encoding.
pub(crate) const MAX_LEN: usize = 9;

/// Zero bytes that must follow the end of a buffer given to [`split_first`].
pub(crate) const PADDING: usize = 16;

#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, value: u64) {
    let len = usize::from(LENGTHS[(value | 1).ilog2() as usize]);
    if len > 8 {
        return encode_long(out, value);
    }
    let word = (value << len) | (1 << (len - 1));
    let end = out.len() + len;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// Kept apart, so that the usual case needs no room on the stack.
#[cold]
#[inline(never)]
fn encode_long(out: &mut Vec<u8>, value: u64) {
    out.push(0);
    out.extend_from_slice(&value.to_le_bytes());
}

/// The length of a value, by the number of its highest bit.
const LENGTHS: [u8; 64] = {
    let mut lengths = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        lengths[bit] = (bit / 7 + 1) as u8;
        bit += 1;
    }
    lengths
};

/// The bits of a value, by its length minus 1. A table takes fewer instructions than shifts.
const MASKS: [u64; 8] = {
    let mut masks = [0; 8];
    let mut len = 1;
    while len <= 8 {
        masks[len - 1] = u64::MAX >> (64 - 7 * len);
        len += 1;
    }
    masks
};

/// Returns the first value of a buffer and the rest. `buffer` must end with [`PADDING`] bytes that belong to no value.
/// Returns `None` if the value does not end before them.
#[inline]
pub(crate) fn split_first(buffer: &[u8]) -> Option<(u64, &[u8])> {
    let word = u64::from_le_bytes(*buffer.first_chunk()?);
    let zeros = word.trailing_zeros();
    let (value, len) = if zeros < 8 {
        let len = zeros as usize + 1;
        ((word >> len) & MASKS[zeros as usize], len)
    } else {
        let tail = buffer.get(1..)?.first_chunk()?;
        (u64::from_le_bytes(*tail), MAX_LEN)
    };
    let rest = buffer.get(len..)?;
    (rest.len() >= PADDING).then_some((value, rest))
}

/// Maps small magnitudes of either sign to small values.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interesting() -> impl Iterator<Item = u64> {
        (0..64)
            .flat_map(|shift| {
                let power = 1u64 << shift;
                [power - 1, power, power + 1]
            })
            .chain([u64::MAX, u64::MAX - 1])
    }

    #[test]
    fn every_length_round_trips() {
        let mut buffer = Vec::new();
        for value in interesting() {
            encode(&mut buffer, value);
        }
        buffer.resize(buffer.len() + PADDING, 0);
        let mut rest = &buffer[..];
        for value in interesting() {
            let (decoded, after) = split_first(rest).unwrap();
            assert_eq!(decoded, value);
            rest = after;
        }
        assert_eq!(rest, [0; PADDING]);
        assert_eq!(split_first(rest), None);
    }

    #[test]
    fn each_byte_has_seven_bits() {
        for (value, len) in [(0, 1), (127, 1), (128, 2), ((1 << 56) - 1, 8), (1 << 56, 9)] {
            let mut buffer = Vec::new();
            encode(&mut buffer, value);
            assert_eq!(buffer.len(), len, "{value:#x}");
        }
    }

    #[test]
    fn a_truncated_value_is_rejected() {
        for value in interesting().filter(|&value| value > 127) {
            let mut buffer = Vec::new();
            encode(&mut buffer, value);
            buffer.resize(buffer.len() - 1 + PADDING, 0);
            assert_eq!(split_first(&buffer), None);
        }
    }

    #[test]
    fn zigzag_keeps_small_magnitudes_small() {
        for (signed, unsigned) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MIN, u64::MAX)] {
            assert_eq!(zigzag(signed), unsigned);
            assert_eq!(unzigzag(unsigned), signed);
        }
    }
}
