//! Identifies the location and time of events: addresses in persistent memory, cache lines, threads and time.

use crate::byte_mask::ByteMask;

/// The size of a cache line in bytes.
pub const LINE: u64 = 64;
/// The size of a page in bytes, the unit in which the kernel writes back files.
pub const PAGE: u64 = 4096;

pub(crate) const LINES_IN_PAGE: usize = (PAGE / LINE) as usize;

/// The position of an event in the order of all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A file or device with persistent bytes, starting at offset 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// The address of a byte of persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PmAddress {
    /// The file or device.
    pub space: SpaceId,
    /// The offset in it.
    pub offset: u64,
}

/// A thread that was [added](crate::Tracker::add_thread) to a tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadSlot(pub(crate) u32);

impl ThreadSlot {
    /// The number of the thread: threads are numbered from 0 in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A cache line for which the tracker keeps state. If its page has no live stores and no marks, the slot is valid
/// only until the next call of [`Tracker::line`](crate::Tracker::line), which may drop such pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineSlot(pub(crate) u32);

impl LineSlot {
    /// No line.
    pub const NONE: LineSlot = LineSlot(u32::MAX);

    /// Line `number` of the page; `self` must be its first line.
    #[inline]
    pub fn in_page(self, number: u64) -> LineSlot {
        debug_assert!(self.number() == 0 && number < LINES_IN_PAGE as u64);
        LineSlot(self.0 + number as u32)
    }

    /// The first line of page number `page`.
    #[inline]
    pub(crate) fn first_of(page: u32) -> LineSlot {
        LineSlot(page * LINES_IN_PAGE as u32)
    }

    /// The number of the page.
    #[inline]
    pub(crate) fn page(self) -> usize {
        self.0 as usize / LINES_IN_PAGE
    }

    /// The index of the line in its page.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.0 as usize % LINES_IN_PAGE
    }
}

/// Splits `len` bytes at `offset` at cache-line boundaries. Yields the offset of each line, the bytes in it, and the
/// number of bytes in the lines before.
///
/// ```
/// use brownout_model::{ByteMask, line_parts};
///
/// let parts: Vec<_> = line_parts(60, 8).collect();
/// assert_eq!(parts, [(0, ByteMask::range(60, 4), 0), (64, ByteMask::range(0, 4), 4)]);
/// ```
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
    fn bytes_are_split_at_line_boundaries() {
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
