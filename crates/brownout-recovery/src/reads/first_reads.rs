//! The order in which a recovery first reads bytes: what it does next depends on nothing else that a crash leaves.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::ByteRanges;

/// Bytes that a recovery read at once, for the first time, and had not written itself before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FirstRead {
    /// Number of the persistent file.
    pub file: usize,
    pub offset: u64,
    pub len: u64,
}

/// Collects first reads of some bytes.
#[derive(Debug)]
pub(crate) struct FirstReads {
    /// The bytes that are wanted of each persistent file.
    wanted: Vec<ByteRanges>,
    /// Those of them that were read or written.
    known: Vec<ByteRanges>,
    found: Vec<FirstRead>,
}

impl FirstReads {
    pub(crate) fn new(wanted: Vec<ByteRanges>) -> Self {
        Self {
            known: vec![ByteRanges::exact(); wanted.len()],
            wanted,
            found: Vec::new(),
        }
    }

    /// Takes a read, and returns those of its bytes that are read for the first time.
    pub(crate) fn read(&mut self, file: usize, range: Range<u64>) -> &[FirstRead] {
        let known = self.found.len();
        for part in self.take_unknown(file, range) {
            self.found.push(FirstRead {
                file,
                offset: part.start,
                len: part.end - part.start,
            });
        }
        &self.found[known..]
    }

    pub(crate) fn write(&mut self, file: usize, range: Range<u64>) {
        self.take_unknown(file, range);
    }

    /// The bytes that are wanted of each persistent file.
    pub(crate) fn wanted(&self) -> &[ByteRanges] {
        &self.wanted
    }

    pub(crate) fn finish(self) -> Vec<FirstRead> {
        self.found
    }

    /// The wanted bytes of a range that were not known; from now on they are.
    fn take_unknown(&mut self, file: usize, range: Range<u64>) -> Vec<Range<u64>> {
        let Some(wanted) = self.wanted.get(file) else {
            return Vec::new();
        };
        let known = &mut self.known[file];
        let mut unknown = Vec::new();
        for part in wanted.common(range) {
            unknown.extend(known.missing(part.clone()));
            known.insert(part);
        }
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_read_for_the_first_time_once_and_not_if_it_was_written() {
        let mut wanted = ByteRanges::exact();
        wanted.insert(0..32);
        wanted.insert(64..72);
        let mut reads = FirstReads::new(vec![ByteRanges::exact(), wanted]);
        reads.read(0, 0..8); // not wanted
        reads.read(1, 24..68);
        reads.write(1, 4..8);
        reads.read(1, 0..32);
        reads.read(1, 60..80);
        reads.read(2, 0..8); // no persistent file
        let found: Vec<_> = reads
            .finish()
            .iter()
            .map(|read| (read.offset, read.len))
            .collect();
        assert_eq!(found, [(24, 8), (64, 4), (0, 4), (8, 16), (68, 4)]);
    }
}
