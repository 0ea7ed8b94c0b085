//! Sets of bytes in one cache line.

use std::fmt;

use crate::address::LINE;

/// A set of bytes of one cache line: bit *n* represents byte *n*.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteMask(pub u64);

impl ByteMask {
    /// No bytes.
    pub const NONE: ByteMask = ByteMask(0);
    /// All bytes of the line.
    pub const ALL: ByteMask = ByteMask(u64::MAX);

    /// The `len` bytes from `start`; they must be in the line.
    #[inline]
    pub fn range(start: u64, len: u64) -> ByteMask {
        debug_assert!(start + len <= LINE);
        if len == 0 {
            return ByteMask::NONE;
        }
        ByteMask((u64::MAX >> (LINE - len)) << start)
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bytes in both sets.
    #[inline]
    pub fn and(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 & other.0)
    }

    /// The bytes in either set.
    #[inline]
    pub fn or(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 | other.0)
    }

    /// The bytes of this set that are not in `other`.
    #[inline]
    pub fn without(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 & !other.0)
    }

    /// Whether the set contains byte number `byte`.
    #[inline]
    pub fn contains(self, byte: u32) -> bool {
        self.0 >> byte & 1 != 0
    }

    /// The first byte; 64 if the set is empty.
    #[inline]
    pub fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// The bytes of the aligned 8-byte word number `word`, from 0 to 7.
    pub fn word(word: u32) -> ByteMask {
        ByteMask(0xff << (word * 8))
    }

    /// The maximal runs of consecutive bytes, as start and length.
    pub fn runs(self) -> impl Iterator<Item = (u64, u64)> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let start = left.trailing_zeros();
            let len = (left >> start).trailing_ones();
            left &= !ByteMask::range(u64::from(start), u64::from(len)).0;
            Some((u64::from(start), u64::from(len)))
        })
    }
}

impl fmt::Debug for ByteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_split_into_runs() {
        let mask = ByteMask::range(0, 4).or(ByteMask::range(60, 4));
        assert_eq!(mask.runs().collect::<Vec<_>>(), [(0, 4), (60, 4)]);
        assert_eq!(ByteMask::ALL.runs().collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(ByteMask::range(0, 64), ByteMask::ALL);
        assert_eq!(ByteMask::range(9, 0), ByteMask::NONE);
    }
}
