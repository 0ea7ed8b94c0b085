//! Eight-byte values by plane: the lowest bytes of all words, then the next lowest, up to the highest.
//!
//! Most words that programs store are small numbers or pointers into one region. Their high bytes are nearly constant, but
//! a compressor can use this only if these bytes are adjacent.

pub(crate) const WORD: usize = 8;

/// Converts words to planes. The length of `words` is a multiple of the word size.
pub(crate) fn to_planes(words: &[u8], planes: &mut Vec<u8>) {
    let count = words.len() / WORD;
    planes.clear();
    planes.resize(words.len(), 0);
    let (blocks, rest) = words.as_chunks::<{ WORD * WORD }>();
    for (number, block) in blocks.iter().enumerate() {
        let turned = transpose(load(|word| *chunk(block, word * WORD)));
        for (plane, bytes) in turned.into_iter().enumerate() {
            let at = plane * count + number * WORD;
            planes[at..at + WORD].copy_from_slice(&bytes.to_le_bytes());
        }
    }
    let done = blocks.len() * WORD;
    for (number, word) in rest.as_chunks::<WORD>().0.iter().enumerate() {
        for (plane, byte) in word.iter().enumerate() {
            planes[plane * count + done + number] = *byte;
        }
    }
}

/// Converts planes to words, which replace those in `words`. The length of `planes` is a multiple of the word size.
pub(crate) fn from_planes(planes: &[u8], words: &mut Vec<u8>) {
    words.clear();
    words.resize(planes.len(), 0);
    let count = planes.len() / WORD;
    let (blocks, rest) = words.as_chunks_mut::<{ WORD * WORD }>();
    let done = blocks.len() * WORD;
    let columns: [&[[u8; WORD]]; WORD] = std::array::from_fn(|plane| {
        let plane = &planes[plane * count..][..done];
        plane.as_chunks().0
    });
    for (number, block) in blocks.iter_mut().enumerate() {
        let turned = transpose(load(|plane| columns[plane][number]));
        for (word, turned) in block.as_chunks_mut().0.iter_mut().zip(turned) {
            *word = turned.to_le_bytes();
        }
    }
    for (number, word) in (done..).zip(rest.as_chunks_mut::<WORD>().0) {
        *word = std::array::from_fn(|plane| planes[plane * count + number]);
    }
}

#[inline]
fn chunk(bytes: &[u8], at: usize) -> &[u8; WORD] {
    bytes[at..]
        .first_chunk()
        .expect("a block has eight whole words")
}

#[inline]
fn load(row: impl Fn(usize) -> [u8; WORD]) -> [u64; WORD] {
    std::array::from_fn(|number| u64::from_le_bytes(row(number)))
}

/// Transposes eight rows of eight bytes by swapping smaller and smaller squares across the diagonal.
#[inline]
fn transpose(mut rows: [u64; WORD]) -> [u64; WORD] {
    // The pairs are listed because a loop that selects them is not unrolled.
    swap_squares(
        &mut rows,
        [(0, 4), (1, 5), (2, 6), (3, 7)],
        0x0000_0000_ffff_ffff,
    );
    swap_squares(
        &mut rows,
        [(0, 2), (1, 3), (4, 6), (5, 7)],
        0x0000_ffff_0000_ffff,
    );
    swap_squares(
        &mut rows,
        [(0, 1), (2, 3), (4, 5), (6, 7)],
        0x00ff_00ff_00ff_00ff,
    );
    rows
}

/// Swaps the squares above the bits of `mask` in the first row of each pair with those at these bits in the second row.
#[inline(always)]
fn swap_squares(rows: &mut [u64; WORD], pairs: [(usize, usize); WORD / 2], mask: u64) {
    let shift = mask.trailing_ones();
    for (low, high) in pairs {
        let swapped = ((rows[low] >> shift) ^ rows[high]) & mask;
        rows[low] ^= swapped << shift;
        rows[high] ^= swapped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_has_the_bytes_of_the_same_position() {
        let words: Vec<u8> = (0..10u64)
            .flat_map(|n| ((n << 56) | (n + 100)).to_le_bytes())
            .collect();
        let mut planes = Vec::new();
        to_planes(&words, &mut planes);
        assert_eq!(
            planes[..10],
            [100, 101, 102, 103, 104, 105, 106, 107, 108, 109]
        );
        assert_eq!(planes[10..70], [0; 60]);
        assert_eq!(planes[70..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn every_count_of_words_round_trips() {
        for count in 0..40 {
            let words: Vec<u8> = (0..count * WORD).map(|byte| (byte * 7 + 3) as u8).collect();
            let (mut planes, mut back) = (Vec::new(), Vec::new());
            to_planes(&words, &mut planes);
            from_planes(&planes, &mut back);
            assert_eq!(back, words);
        }
    }
}
