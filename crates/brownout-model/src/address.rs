//! Where and when things happen: lines, bytes in a line, threads, time.

use crate::byte_mask::ByteMask;

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
pub struct PmAddress {
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

/// Cuts `len` bytes at `offset` at the borders of lines: the offset of each line, its bytes, and how
/// many bytes came before.
#[inline]
pub fn line_parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, ByteMask, u64)> {
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
    fn bytes_that_cross_lines_are_cut() {
        let cut: Vec<_> = line_parts(0x7c, 72).collect();
        assert_eq!(
            cut,
            [
                (0x40, ByteMask::range(60, 4), 0),
                (0x80, ByteMask::ALL, 4),
                (0xc0, ByteMask::range(0, 4), 68)
            ]
        );
        assert_eq!(line_parts(5, 0).count(), 0);
    }

    #[test]
    fn the_last_offset_does_not_wrap() {
        assert_eq!(line_parts(u64::MAX - 3, 16).count(), 1);
    }
}
