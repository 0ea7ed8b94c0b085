//! Inputs in which what the target has compared is equal: a value of the input is replaced by what it was compared with (REDQUEEN, NDSS'19,
//! §III).
//!
//! An operand is looked for in the input as it is in memory, in the other byte order, and as a decimal number. Of a call, which may be
//! `memcmp` or `strcmp`, the operands are what its arguments point to; how much of it is compared is not known, so several lengths are
//! tried.
//!
//! Can miss: operands that the target has computed from the input in another way.

use std::collections::BTreeSet;

use brownout_engine::fuzz::Comparison;

/// Inputs that are tried for one that is kept.
const MOST: usize = 192;
/// Places in the input at which one value is replaced.
const PLACES: usize = 4;
/// Shorter operands are found by chance.
const SHORTEST: usize = 2;
/// Bytes by which an operand of a call is recognised.
const RECOGNISED: usize = 3;
/// Bytes of an operand of a call that are put into the input, besides all up to a NUL.
const LENGTHS: [usize; 3] = [4, 8, 16];

/// Inputs like this one, each of which makes one comparison equal.
pub fn matching_inputs(input: &[u8], comparisons: &[Comparison]) -> Vec<Vec<u8>> {
    let mut found = BTreeSet::new();
    for comparison in comparisons {
        let Comparison { left, right, .. } = comparison;
        for (known, wanted) in [(left, right), (right, left)] {
            let replacements = match comparison.is_call {
                true => of_memory(input, known, wanted),
                false => of_values(known, wanted),
            };
            for (old, new) in replacements {
                found.extend(replaced(input, &old, &new));
                if found.len() >= MOST {
                    return found.into_iter().collect();
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Strings with which calls have compared something, as tokens.
pub fn compared_strings(comparisons: &[Comparison]) -> Vec<Vec<u8>> {
    let calls = comparisons.iter().filter(|one| one.is_call);
    let strings = calls.flat_map(|one| [until_nul(&one.left), until_nul(&one.right)]);
    let is_word = |text: &&[u8]| text.len() >= RECOGNISED && text.iter().all(u8::is_ascii_graphic);
    let words: BTreeSet<&[u8]> = strings.filter(is_word).collect();
    words.into_iter().map(<[u8]>::to_vec).collect()
}

/// What stands for two values in an input.
fn of_values(known: &[u8], wanted: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    if known.len() >= SHORTEST {
        let reversed = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<u8>>();
        pairs.push((known.to_vec(), wanted.to_vec()));
        pairs.push((reversed(known), reversed(wanted)));
        // A part of the input that was extended to the size of the comparison.
        let half = known.len() / 2;
        if half >= SHORTEST && is_zero(&known[half..]) && is_zero(&wanted[half..]) {
            pairs.extend(of_values(&known[..half], &wanted[..half]));
        }
    }
    if let (Some(known), Some(wanted)) = (number(known), number(wanted)) {
        pairs.push((known.to_string().into(), wanted.to_string().into()));
    }
    pairs
}

/// What stands for the operands of a call, of which the first is recognised in the input.
fn of_memory(input: &[u8], known: &[u8], wanted: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let string = until_nul(wanted);
    let mut pairs = Vec::new();
    let lengths = LENGTHS.into_iter().chain([string.len()]);
    for len in lengths.filter(|&len| len >= 1 && len <= wanted.len()) {
        // At the end of the input, less of the operand is from the input.
        let longest = (RECOGNISED.min(len)..=len.min(known.len())).rev();
        let mut lengths = longest.filter(|&taken| position(input, &known[..taken]).is_some());
        if let Some(taken) = lengths.next() {
            pairs.push((known[..taken].to_vec(), wanted[..len].to_vec()));
        }
    }
    // A word of the input of another length, as `strcmp` gets it.
    let word = until_nul(known);
    if !word.is_empty() && !string.is_empty() {
        pairs.push((word.to_vec(), string.to_vec()));
    }
    pairs
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A value as a number.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

fn position(input: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    input.windows(part.len()).position(|window| window == part)
}

/// The input with a part replaced, at each of the first places that it has.
fn replaced(input: &[u8], old: &[u8], new: &[u8]) -> Vec<Vec<u8>> {
    if old.is_empty() || old == new {
        return Vec::new();
    }
    let places = input.windows(old.len()).enumerate();
    let places = places.filter(|(_, window)| *window == old);
    places
        .take(PLACES)
        .map(|(at, _)| [&input[..at], new, &input[at + old.len()..]].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(left: &[u8], right: &[u8], is_call: bool) -> Comparison {
        Comparison {
            place: 1,
            left: left.to_vec(),
            right: right.to_vec(),
            is_call,
        }
    }

    fn has(found: &[Vec<u8>], input: &[u8]) -> bool {
        found.iter().any(|one| one == input)
    }

    #[test]
    fn a_value_is_replaced_by_what_it_was_compared_with_in_both_byte_orders() {
        let little = comparison(b"ello", &0xdead_c0de_u32.to_le_bytes(), false);
        let found = matching_inputs(b"hello\n", std::slice::from_ref(&little));
        assert!(has(&found, b"h\xde\xc0\xad\xde\n"), "{found:?}");
        let swapped = comparison(b"olle", &0xdead_c0de_u32.to_le_bytes(), false);
        let found = matching_inputs(b"hello\n", &[swapped]);
        assert!(has(&found, b"h\xde\xad\xc0\xde\n"), "{found:?}");
    }

    #[test]
    fn a_decimal_number_is_replaced() {
        let one = comparison(&7_u64.to_le_bytes(), &123_456_u64.to_le_bytes(), false);
        assert!(has(&matching_inputs(b"put 7\n", &[one]), b"put 123456\n"));
    }

    #[test]
    fn a_value_that_was_extended_is_found() {
        let known = u64::from(u16::from_le_bytes(*b"ab")).to_le_bytes();
        let wanted = u64::from(u16::from_le_bytes(*b"OK")).to_le_bytes();
        let found = matching_inputs(b"xaby", &[comparison(&known, &wanted, false)]);
        assert!(has(&found, b"xOKy"), "{found:?}");
    }

    #[test]
    fn memory_that_a_call_has_compared_is_replaced_in_several_lengths() {
        let one = comparison(b"12345678rest of it", b"PMEMFUZZ\0\0\0\0\0\0\0\0\0\0", true);
        let found = matching_inputs(b"ab12345678", std::slice::from_ref(&one));
        assert!(has(&found, b"abPMEMFUZZ"), "{found:?}");
        assert!(has(&found, b"abPMEM5678"), "{found:?}");
        assert_eq!(compared_strings(&[one]), [b"PMEMFUZZ".to_vec()]);
    }

    #[test]
    fn a_word_becomes_one_of_another_length() {
        let one = comparison(b"x\0\0", b"resize\0", true);
        assert!(has(&matching_inputs(b"x 4\n", &[one]), b"resize 4\n"));
    }

    #[test]
    fn the_number_of_inputs_is_limited() {
        let all: Vec<Comparison> = (0..1000_u32)
            .map(|value| comparison(b"aaaa", &value.to_le_bytes(), false))
            .collect();
        assert!(matching_inputs(b"aaaaaaaa", &all).len() <= MOST + PLACES);
    }
}
