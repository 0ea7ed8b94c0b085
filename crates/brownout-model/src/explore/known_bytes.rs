//! Bytes of a unit whose value is known.

use crate::address::LINE;
use crate::byte_mask::ByteMask;

/// The number of bytes in a word, which a crash never tears.
pub(super) const WORD: usize = 8;
const WORDS_IN_LINE: usize = LINE as usize / WORD;

/// The bytes of one word.
pub(super) type Word = [u8; WORD];

/// Which bytes of a word are meant, one bit each.
pub(super) type WordMask = u8;

/// The values of some bytes of a unit.
#[derive(Clone, Debug)]
pub(super) struct KnownBytes {
    lines: Box<[(ByteMask, [u8; LINE as usize])]>,
}

impl KnownBytes {
    /// No bytes of a unit of `size` bytes.
    pub(super) fn none(size: u64) -> Self {
        KnownBytes {
            lines: vec![(ByteMask::NONE, [0; LINE as usize]); (size / LINE) as usize].into(),
        }
    }

    /// Sets the bytes from `start` on; they must be in one line.
    pub(super) fn set(&mut self, start: usize, bytes: &[u8]) {
        let (mask, values) = &mut self.lines[start / LINE as usize];
        let at = start % LINE as usize;
        values[at..at + bytes.len()].copy_from_slice(bytes);
        *mask = mask.or(ByteMask::range(at as u64, bytes.len() as u64));
    }

    /// Sets the bytes from `start` to `end` that are not known to zero.
    pub(super) fn default_to_zero(&mut self, start: usize, end: usize) {
        for byte in start..end {
            let (mask, _) = &mut self.lines[byte / LINE as usize];
            *mask = mask.or(ByteMask::range((byte % LINE as usize) as u64, 1));
        }
    }

    /// The known bytes of a word.
    pub(super) fn word(&self, word: usize) -> (WordMask, &[u8]) {
        let (mask, values) = &self.lines[word / WORDS_IN_LINE];
        let start = word % WORDS_IN_LINE * WORD;
        (mask_of_word(*mask, word), &values[start..start + WORD])
    }
}

/// The bytes that `mask`, of the line that contains the word, has in the word.
pub(super) fn mask_of_word(mask: ByteMask, word: usize) -> WordMask {
    (mask.0 >> (word % WORDS_IN_LINE * WORD)) as WordMask
}

/// Copies the bytes of `mask` to a word.
pub(super) fn copy_word(into: &mut Word, from: &[u8], mask: WordMask) {
    for byte in (0..WORD).filter(|byte| mask >> byte & 1 != 0) {
        into[byte] = from[byte];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_were_set_are_known() {
        let mut bytes = KnownBytes::none(512);
        bytes.set(70, &[1, 2, 3, 4]);
        assert_eq!(bytes.word(8), (0b1100_0000, &[0, 0, 0, 0, 0, 0, 1, 2][..]));
        assert_eq!(bytes.word(9).0, 0b11);
        assert_eq!(bytes.word(0).0, 0);
        bytes.default_to_zero(68, 72);
        assert_eq!(bytes.word(8), (0b1111_0000, &[0, 0, 0, 0, 0, 0, 1, 2][..]));
    }
}
