//! Where and when things happen: lines, bytes in a line, threads, time.

use std::fmt;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Bytes of a page, the unit of writing back by the kernel.
pub const PAGE: u64 = 4096;

pub(crate) const LINES_IN_PAGE: usize = (PAGE / LINE) as usize;

/// Position of an event in the one order of all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// Something with persistent bytes from offset 0 on: a file or a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// A byte of persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub space: SpaceId,
    pub offset: u64,
}

/// A thread the tracker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadSlot(pub(crate) u32);

impl ThreadSlot {
    /// Threads are numbered from 0 on in the order of their announcement.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A line the tracker holds state for; good until the tracker forgets idle lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineSlot(pub(crate) u32);

impl LineSlot {
    /// The line `number` lines further in the same page.
    #[inline]
    pub fn in_page(self, number: u64) -> LineSlot {
        debug_assert!(self.number() == 0 && number < LINES_IN_PAGE as u64);
        LineSlot(self.0 + number as u32)
    }

    /// The first line of the page with this number.
    #[inline]
    pub(crate) fn first_of(page: u32) -> LineSlot {
        LineSlot(page * LINES_IN_PAGE as u32)
    }

    /// The number of its page.
    #[inline]
    pub(crate) fn page(self) -> usize {
        self.0 as usize / LINES_IN_PAGE
    }

    /// Which line of its page it is.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.0 as usize % LINES_IN_PAGE
    }
}

/// Bytes of one line: bit *n* stands for the byte at *n*.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteMask(pub u64);

impl ByteMask {
    pub const NONE: ByteMask = ByteMask(0);
    pub const ALL: ByteMask = ByteMask(u64::MAX);

    /// `len` bytes from `start` on; they must lie in the line.
    #[inline]
    pub fn range(start: u64, len: u64) -> ByteMask {
        debug_assert!(start + len <= LINE);
        if len == 0 {
            return ByteMask::NONE;
        }
        ByteMask((u64::MAX >> (LINE - len)) << start)
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn and(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 & other.0)
    }

    #[inline]
    pub fn or(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 | other.0)
    }

    #[inline]
    pub fn without(self, other: ByteMask) -> ByteMask {
        ByteMask(self.0 & !other.0)
    }

    #[inline]
    pub fn contains(self, byte: u32) -> bool {
        self.0 >> byte & 1 != 0
    }

    /// The first byte, 64 if there is none.
    #[inline]
    pub fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// The aligned 8-byte word `word` of the line, from 0 to 7.
    pub fn word(word: u32) -> ByteMask {
        ByteMask(0xff << (word * 8))
    }

    /// The bytes as runs of start and length.
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

/// Cuts `len` bytes at `offset` at the borders of lines: the offset of each line, its bytes, and how
/// many bytes came before.
#[inline]
pub fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, ByteMask, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset.checked_add(done)?;
        let start = at % LINE;
        let count = (LINE - start).min(len - done);
        let part = (at - start, ByteMask::range(start, count), done);
        done += count;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_made_of_runs() {
        let mask = ByteMask::range(0, 4).or(ByteMask::range(60, 4));
        assert_eq!(mask.runs().collect::<Vec<_>>(), [(0, 4), (60, 4)]);
        assert_eq!(ByteMask::ALL.runs().collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(ByteMask::range(0, 64), ByteMask::ALL);
        assert_eq!(ByteMask::range(9, 0), ByteMask::NONE);
    }

    #[test]
    fn bytes_that_cross_lines_are_cut() {
        let cut: Vec<_> = parts(0x7c, 72).collect();
        assert_eq!(
            cut,
            [
                (0x40, ByteMask::range(60, 4), 0),
                (0x80, ByteMask::ALL, 4),
                (0xc0, ByteMask::range(0, 4), 68)
            ]
        );
        assert_eq!(parts(5, 0).count(), 0);
    }

    #[test]
    fn the_last_offset_does_not_wrap() {
        assert_eq!(parts(u64::MAX - 3, 16).count(), 1);
    }
}
