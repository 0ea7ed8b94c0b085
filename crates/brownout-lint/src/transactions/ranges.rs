//! Sets of bytes of files, each with a note on how it was first added.

use std::cell::Cell;
use std::collections::BTreeMap;

use brownout_trace::{FileId, FileRange};

/// A set of bytes. Each byte keeps the note of its first insertion.
#[derive(Debug)]
pub(crate) struct ByteRanges<T: Copy> {
    /// Ranges that do not overlap: file and start, end, and note.
    ranges: BTreeMap<(FileId, u64), (u64, T)>,
    /// The range that was inserted or found last: after a range is logged, the program stores to it.
    last: Cell<Option<KnownRange<T>>>,
}

#[derive(Clone, Copy, Debug)]
struct KnownRange<T> {
    file: FileId,
    start: u64,
    end: u64,
    note: T,
}

impl<T: Copy> Default for ByteRanges<T> {
    fn default() -> Self {
        ByteRanges {
            ranges: BTreeMap::new(),
            last: Cell::new(None),
        }
    }
}

impl<T: Copy> ByteRanges<T> {
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.last.set(None);
    }

    /// Adds those bytes that are not in the set yet.
    pub(crate) fn insert(&mut self, range: FileRange, note: T) {
        let (file, start) = (range.file, range.offset);
        let end = start.saturating_add(range.len);
        let before = self.ranges.range(..(file, end)).next_back();
        let is_new = before.is_none_or(|(&(of, _), &(end, _))| of != file || end <= start);
        if !is_new {
            return self.insert_missing(range, note);
        }
        if start < end {
            self.ranges.insert((file, start), (end, note));
            self.last.set(Some(KnownRange {
                file,
                start,
                end,
                note,
            }));
        }
    }

    /// Adds those bytes of a range that are not in the set; some are.
    fn insert_missing(&mut self, range: FileRange, note: T) {
        let (mut from, to) = (range.offset, range.offset.saturating_add(range.len));
        while from < to {
            if let Some((end, _)) = self.around(range.file, from) {
                from = end;
                continue;
            }
            let next = self.ranges.range((range.file, from)..(range.file, to));
            let until = next.map(|(&(_, start), _)| start).next().unwrap_or(to);
            self.ranges.insert((range.file, from), (until, note));
            from = until;
        }
    }

    /// The note of the first byte, if all of the range is in the set.
    pub(crate) fn cover(&self, range: FileRange) -> Option<T> {
        let (mut from, to) = (range.offset, range.offset.saturating_add(range.len));
        let (_, first) = self.around(range.file, from)?;
        while from < to {
            (from, _) = self.around(range.file, from)?;
        }
        Some(first)
    }

    /// The end of the range that holds a byte, and its note.
    #[inline]
    fn around(&self, file: FileId, byte: u64) -> Option<(u64, T)> {
        match self.last.get() {
            Some(last) if last.file == file && (last.start..last.end).contains(&byte) => {
                Some((last.end, last.note))
            }
            _ => self.look_up(file, byte),
        }
    }

    #[inline(never)]
    fn look_up(&self, file: FileId, byte: u64) -> Option<(u64, T)> {
        let (&(of, start), &(end, note)) = self.ranges.range(..=(file, byte)).next_back()?;
        if of != file || end <= byte {
            return None;
        }
        self.last.set(Some(KnownRange {
            file,
            start,
            end,
            note,
        }));
        Some((end, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(offset: u64, len: u64) -> FileRange {
        FileRange {
            file: FileId(1),
            offset,
            len,
        }
    }

    #[test]
    fn adjacent_ranges_cover_together_and_the_first_note_wins() {
        let mut ranges = ByteRanges::default();
        assert_eq!(ranges.cover(range(0, 1)), None);
        ranges.insert(range(0, 8), 'a');
        ranges.insert(range(8, 4), 'b');
        ranges.insert(range(4, 12), 'c');
        assert_eq!(ranges.cover(range(0, 16)), Some('a'));
        assert_eq!(ranges.cover(range(6, 4)), Some('a'));
        assert_eq!(ranges.cover(range(8, 4)), Some('b'));
        assert_eq!(ranges.cover(range(13, 1)), Some('c'));
        assert_eq!(ranges.cover(range(13, 4)), None);
        let elsewhere = FileRange {
            file: FileId(2),
            ..range(0, 8)
        };
        assert_eq!(ranges.cover(elsewhere), None);
        ranges.clear();
        assert_eq!(ranges.cover(range(0, 8)), None);
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_bytes(
            inserted in prop::collection::vec((0u64..64, 1u64..20), 0..20),
            (from, len) in (0u64..70, 1u64..20),
        ) {
            let mut ranges = ByteRanges::default();
            let mut bytes = [None; 100];
            for (number, &(from, len)) in inserted.iter().enumerate() {
                ranges.insert(range(from, len), number);
                for byte in from..from + len {
                    bytes[byte as usize].get_or_insert(number);
                }
            }
            let wanted = &bytes[from as usize..(from + len) as usize];
            let expected = if wanted.contains(&None) { None } else { wanted[0] };
            prop_assert_eq!(ranges.cover(range(from, len)), expected);
        }
    }
}
