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
        for offset in range {
            let page = self.pages.entry(offset / PAGE);
            let bits = page.or_insert_with(|| Box::new([0; WORDS]));
            let index = (offset % PAGE) as usize;
            bits[index / 64] |= 1 << (index % 64);
        }
    }

    /// The open bytes among `len` bytes on one page, one bit for each; `None` if there are none.
    pub fn open(&self, offset: u64, len: usize) -> Option<[u64; WORDS]> {
        let bits = self.pages.get(&(offset / PAGE))?;
        let first = (offset % PAGE) as usize;
        let mut open = [0; WORDS];
        for index in 0..len {
            let bit = bits[(first + index) / 64] >> ((first + index) % 64) & 1;
            open[index / 64] |= bit << (index % 64);
        }
        open.iter().any(|&word| word != 0).then_some(open)
    }

    /// `len` bytes on one page are no longer open.
    pub fn close(&mut self, offset: u64, len: usize) {
        if let Some(bits) = self.pages.get_mut(&(offset / PAGE)) {
            let first = (offset % PAGE) as usize;
            for index in first..first + len {
                bits[index / 64] &= !(1 << (index % 64));
            }
        }
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

/// Reads the table of open bytes from the wire.
pub fn read_table() -> Vec<ExploredFile> {
    let mut words = Words {
        position: TABLE as u64,
        end: (TABLE + TABLE_BYTES) as u64,
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
}

impl Words {
    fn next(&mut self) -> u64 {
        let mut word = [0u8; 8];
        if self.position < self.end {
            sys::pread(wire::descriptor(), &mut word, self.position);
            self.position += 8;
        }
        u64::from_le_bytes(word)
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
    fn pages_with_open_bytes_form_runs() {
        assert_eq!(file().page_runs(0..1 << 20), [0..3 * 4096, 40960..45056]);
        assert_eq!(file().page_runs(4096..8192).first(), Some(&(4096..8192)));
    }
}
