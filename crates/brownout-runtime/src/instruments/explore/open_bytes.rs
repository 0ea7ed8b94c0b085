//! Which bytes of the explored files are open: neither decided by an answer nor stored by the process.

use super::mapping::FileMappings;
use crate::memory::PAGE;
use crate::sys;
use crate::wire;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use brownout_ring::explore::{TABLE, TABLE_BYTES};
use core::ops::Range;

const WORDS: usize = PAGE as usize / 64;
/// No access but that of a register area, which is always looked up, touches more bytes.
const LONGEST_ACCESS: u64 = 512;
/// Pages before and after one in which closed bytes are looked for.
const NEAR_PAGES: u64 = 16;

/// A file whose open bytes the controller chooses.
pub struct ExploredFile {
    pub dev: u64,
    pub ino: u64,
    pub mappings: FileMappings,
    /// The open bytes of each page that has had some, one bit for each.
    pages: BTreeMap<u64, Box<[u64; WORDS]>>,
}

impl ExploredFile {
    pub fn new(dev: u64, ino: u64, open: impl Iterator<Item = Range<u64>>) -> ExploredFile {
        let mut file = ExploredFile {
            dev,
            ino,
            mappings: FileMappings::default(),
            pages: BTreeMap::new(),
        };
        for range in open {
            file.add(range);
        }
        file
    }

    fn add(&mut self, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end {
            let page = at / PAGE;
            let end = range.end.min((page + 1) * PAGE);
            let bits = self.pages.entry(page);
            let bits = bits.or_insert_with(|| Box::new([0; WORDS]));
            for (word, mask) in masks((at % PAGE) as usize, (end - at) as usize) {
                bits[word] |= mask;
            }
            at = end;
        }
    }

    /// The open bytes among `len` bytes on one page, one bit for each; `None` if there are none.
    pub fn open(&self, offset: u64, len: usize) -> Option<[u64; WORDS]> {
        let bits = self.pages.get(&(offset / PAGE))?;
        let first = (offset % PAGE) as usize;
        if masks(first, len).all(|(word, mask)| bits[word] & mask == 0) {
            return None;
        }
        let mut open = [0; WORDS];
        for (word, mask) in masks(first, len) {
            // The first bit of the word is that many bytes after the first one, or before it.
            let position = (word * 64).wrapping_sub(first) as isize;
            let found = bits[word] & mask;
            match position {
                ..0 => open[0] |= found >> -position,
                _ => {
                    let (at, shift) = (position as usize / 64, position as usize % 64);
                    open[at] |= found << shift;
                    if shift != 0 && at + 1 < WORDS {
                        open[at + 1] |= found >> (64 - shift);
                    }
                }
            }
        }
        Some(open)
    }

    /// `len` bytes on one page are no longer open.
    pub fn close(&mut self, offset: u64, len: usize) {
        if let Some(bits) = self.pages.get_mut(&(offset / PAGE)) {
            for (word, mask) in masks((offset % PAGE) as usize, len) {
                bits[word] &= !mask;
            }
        }
    }

    /// Bytes around one at which accesses can begin that touch no open bytes, if they stay on one page. They never will: bytes that are not
    /// open stay so. Empty if there are none.
    pub fn settled(&self, offset: u64, within: Range<u64>) -> Range<u64> {
        let page = offset / PAGE * PAGE;
        let first = page.saturating_sub(NEAR_PAGES * PAGE).max(within.start);
        let last = (page + (NEAR_PAGES + 1) * PAGE).min(within.end);
        let before = self.last_open(first..offset);
        let after = self.first_open(offset..last);
        let end = after.map_or(last, |open| {
            let room = open.saturating_sub(LONGEST_ACCESS - 1);
            room.max(open / PAGE * PAGE)
        });
        let start = before.map_or(first, |open| open + 1);
        match (start..end).contains(&offset) {
            true => start..end,
            false => offset..offset,
        }
    }

    fn first_open(&self, range: Range<u64>) -> Option<u64> {
        self.open_words(&range)
            .next()
            .map(|(at, bits)| at + u64::from(bits.trailing_zeros()))
    }

    fn last_open(&self, range: Range<u64>) -> Option<u64> {
        self.open_words(&range)
            .next_back()
            .map(|(at, bits)| at + 63 - u64::from(bits.leading_zeros()))
    }

    /// Words with open bytes in a range: the offset of the first bit, and the bits.
    fn open_words(&self, range: &Range<u64>) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let (start, end) = (range.start, range.end.max(range.start));
        let pages = self.pages.range(start / PAGE..end.div_ceil(PAGE));
        let words = pages.flat_map(|(page, bits)| {
            let words = bits.iter().enumerate();
            words.map(move |(word, &bits)| (page * PAGE + 64 * word as u64, bits))
        });
        words.filter_map(move |(at, bits)| {
            let from = start.saturating_sub(at).min(64) as u32;
            let to = end.saturating_sub(at).min(64) as u32;
            let kept = (from < to).then(|| bits & mask(from, to))?;
            (kept != 0).then_some((at, kept))
        })
    }

    /// Maximal runs of pages in a range that have had open bytes, as ranges of bytes.
    pub fn page_runs(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &page in self
            .pages
            .range(range.start / PAGE..range.end.div_ceil(PAGE))
            .map(|(page, _)| page)
        {
            let start = page * PAGE;
            match runs.last_mut() {
                Some(run) if run.end == start => run.end = start + PAGE,
                _ => runs.push(start..start + PAGE),
            }
        }
        runs
    }
}

/// The bits from one to another, which is not included. There is at least one.
fn mask(from: u32, to: u32) -> u64 {
    u64::MAX >> (64 - (to - from)) << from
}

/// The words in which `len` bits from `first` on are, each with the mask of those bits.
fn masks(first: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = first + len;
    (first / 64..end.div_ceil(64)).map(move |word| {
        let from = first.saturating_sub(word * 64) as u32;
        let to = (end - word * 64).min(64) as u32;
        (word, mask(from, to))
    })
}

/// Reads the table of open bytes from the wire.
pub fn read_table() -> Vec<ExploredFile> {
    let mut words = Words {
        position: TABLE as u64,
        end: (TABLE + TABLE_BYTES) as u64,
        buffer: [0; PAGE as usize],
        rest: 0..0,
    };
    let files = words.next();
    (0..files)
        .map(|_| {
            let (dev, ino, ranges) = (words.next(), words.next(), words.next());
            let ranges: Vec<_> = (0..ranges).map(|_| words.next()..words.next()).collect();
            ExploredFile::new(dev, ino, ranges.into_iter())
        })
        .collect()
}

/// The words of the table.
struct Words {
    position: u64,
    end: u64,
    buffer: [u8; PAGE as usize],
    /// The bytes of the buffer that were not returned yet.
    rest: Range<usize>,
}

impl Words {
    fn next(&mut self) -> u64 {
        if self.rest.is_empty() && self.position < self.end {
            let len = (self.end - self.position).min(PAGE) as usize;
            sys::pread(wire::descriptor(), &mut self.buffer[..len], self.position);
            self.position += len as u64;
            self.rest = 0..len;
        }
        let word = self.rest.start..self.rest.start + 8;
        self.rest.start = word.end.min(self.rest.end);
        let bytes = self.buffer.get(word).and_then(|word| word.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ExploredFile {
        ExploredFile::new(1, 2, [4090..4100, 8192..8200, 40960..40961].into_iter())
    }

    #[test]
    fn bytes_are_open_until_they_are_closed() {
        let mut file = file();
        assert_eq!(file.open(0, 4090), None);
        assert_eq!(file.open(4088, 8).map(|open| open[0]), Some(0b1111_1100));
        file.close(4090, 4);
        assert_eq!(file.open(4088, 8).map(|open| open[0]), Some(0b1100_0000));
        file.close(4094, 2);
        assert_eq!(file.open(4088, 8), None);
        assert_eq!(file.open(4096, 1).map(|open| open[0]), Some(1));
    }

    #[test]
    fn ranges_are_the_same_as_bytes_one_by_one() {
        let is_open = |at: u64| !(at / 7 + at / 100).is_multiple_of(3);
        let bytes = (0..3 * PAGE).filter(|&at| is_open(at)).map(|at| at..at + 1);
        let mut file = ExploredFile::new(1, 2, bytes);
        for first in (PAGE..2 * PAGE).step_by(61) {
            for len in [1, 2, 8, 63, 64, 65, 300, (2 * PAGE - first) as usize] {
                let len = len.min((2 * PAGE - first) as usize);
                let open = file.open(first, len).unwrap_or([0; WORDS]);
                let bit = |index: usize| open[index / 64] >> (index % 64) & 1 != 0;
                let expected = (0..len).map(|index| is_open(first + index as u64));
                assert!(expected.enumerate().all(|(index, is)| bit(index) == is));
                assert!((len..PAGE as usize).all(|index| !bit(index)));
            }
        }
        file.close(PAGE + 70, 500);
        assert!(file.open(PAGE + 70, 500).is_none());
        assert!(file.open(PAGE, 70).is_some() && file.open(PAGE + 570, 70).is_some());
    }

    #[test]
    fn accesses_around_a_closed_byte_need_not_be_looked_up_if_they_cannot_reach_open_ones() {
        let mut file = file();
        let all = 0..20 * PAGE;
        // An access that begins here can reach no open byte on its page.
        let before = file.settled(0, all.clone());
        assert_eq!(before, 0..4090 - (LONGEST_ACCESS - 1));
        assert!(file.settled(before.end, all.clone()).is_empty());
        assert!(
            file.settled(4095, all.clone()).is_empty(),
            "it is open itself"
        );
        // The next open byte is the first of its page: no access that stays on a page reaches it.
        assert_eq!(file.settled(5000, all.clone()), 4100..8192);
        assert_eq!(file.settled(5000, 4800..6000), 4800..6000);
        for (offset, len) in [(4090, 6), (4096, 4), (8192, 8)] {
            file.close(offset, len);
        }
        assert_eq!(file.settled(5000, all), 0..40960);
    }

    #[test]
    fn pages_with_open_bytes_form_runs() {
        assert_eq!(file().page_runs(0..1 << 20), [0..3 * 4096, 40960..45056]);
        assert_eq!(file().page_runs(4096..8192).first(), Some(&(4096..8192)));
    }
}
