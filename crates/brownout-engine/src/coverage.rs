//! How often the target's code was executed: what the runtime counted, added up over all threads and processes.
//!
//! The runtime counts entries of blocks, which may overlap, and conditional branches that were not taken (see
//! `brownout_ring::coverage`). Here these become counts of instructions, by file and offset. Processes that mapped
//! the same file count together.
//!
//! The memory that this reads belongs to the target, which may have overwritten it. Counts are then wrong, but nothing
//! here fails.

use brownout_ring::SLOTS;
use brownout_ring::coverage::{
    COUNTER_TABLE, COUNTERS, CountedModule, Counter, HEAD, Head, MAX_PATH, MODULE_TABLE, MODULES,
    NO_MODULE, counts_offset, kind,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// How often the code of a target was executed.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The files with code that was executed, by path.
    pub modules: BTreeMap<PathBuf, CoveredModule>,
    /// How often blocks of code that is in no file were entered: generated code and the vDSO.
    pub outside_modules: u64,
    /// Blocks, branches and threads that were not counted, because there were too many.
    pub uncounted: u32,
}

/// How often the code of one file was executed.
#[derive(Debug, Default)]
pub struct CoveredModule {
    /// Changes of the count of executions, by offset in the file.
    changes: BTreeMap<u64, i64>,
    /// Conditional branches that were executed, by offset in the file, and how often they were not taken.
    fall_throughs: BTreeMap<u64, u64>,
}

/// How often a conditional branch went which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    pub offset: u64,
    pub taken: u64,
    pub not_taken: u64,
}

impl CoveredModule {
    /// Ranges of the file with the same number of executions, in order; what they leave out was not executed.
    pub fn executed(&self) -> Vec<(Range<u64>, u64)> {
        let mut count = 0_i64;
        let ends = self.changes.keys().skip(1);
        (self.changes.iter().zip(ends))
            .filter_map(|((&start, &change), &end)| {
                count = count.wrapping_add(change);
                (count > 0).then_some((start..end, count as u64))
            })
            .collect()
    }

    /// The conditional branches that were executed, in order.
    pub fn branches(&self) -> Vec<Branch> {
        let mut changes = self.changes.iter().peekable();
        let mut count = 0_i64;
        (self.fall_throughs.iter())
            .map(|(&offset, &not_taken)| {
                while let Some((_, &change)) = changes.next_if(|&(&at, _)| at <= offset) {
                    count = count.wrapping_add(change);
                }
                Branch {
                    offset,
                    taken: (count.max(0) as u64).saturating_sub(not_taken),
                    not_taken,
                }
            })
            .filter(|branch| branch.taken + branch.not_taken > 0)
            .collect()
    }

    /// Adds `count` executions of the code in `range`.
    fn add(&mut self, range: Range<u64>, count: i64) {
        let start = self.changes.entry(range.start).or_default();
        *start = start.wrapping_add(count);
        let end = self.changes.entry(range.end).or_default();
        *end = end.wrapping_sub(count);
    }
}

impl Coverage {
    /// Reads what was counted from the wire, of which the first `slots` slots were used.
    pub(crate) fn read(wire: &File, slots: usize) -> io::Result<Coverage> {
        let head = read(wire, HEAD, size_of::<Head>())?;
        let counters = 1 + u32_at(&head, offset_of!(Head, counters)) as usize;
        let counters = counters.min(COUNTERS);
        let counts = Self::sums(wire, slots.min(SLOTS), counters)?;
        let modules = u32_at(&head, offset_of!(Head, modules)) as usize;
        let modules = (0..modules.min(MODULES))
            .map(|index| ModuleEntry::read(wire, index))
            .collect::<io::Result<Vec<_>>>()?;
        let table = read(wire, COUNTER_TABLE, counters * size_of::<Counter>())?;

        let mut coverage = Coverage {
            outside_modules: counts[NO_MODULE as usize],
            uncounted: u32_at(&head, offset_of!(Head, uncounted)),
            ..Coverage::default()
        };
        for (entry, &count) in table.chunks_exact(size_of::<Counter>()).zip(&counts) {
            let index = u32_at(entry, offset_of!(Counter, module)) as usize;
            if let Some(module) = modules.get(index) {
                coverage.add(entry, count, module);
            }
        }
        Ok(coverage)
    }

    /// The count of each counter, over all slots.
    fn sums(wire: &File, slots: usize, counters: usize) -> io::Result<Vec<u64>> {
        let mut sums = vec![0_u64; counters];
        for slot in 0..slots {
            let counts = read(wire, counts_offset(slot), counters * 8)?;
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(u64_at(&counts, index * 8));
            }
        }
        Ok(sums)
    }

    /// Adds the count of one counter.
    fn add(&mut self, entry: &[u8], count: u64, module: &ModuleEntry) {
        let address = u64_at(entry, offset_of!(Counter, address));
        let size = u16_at(entry, offset_of!(Counter, size));
        let start = (address.wrapping_sub(module.start)).wrapping_add(module.file_offset);
        let Some(end) = start.checked_add(u64::from(size)) else {
            return;
        };
        let covered = match self.modules.get_mut(&module.path) {
            Some(covered) => covered,
            None => self.modules.entry(module.path.clone()).or_default(),
        };
        match u16_at(entry, offset_of!(Counter, kind)) {
            kind::BLOCK => covered.add(start..end, count as i64),
            kind::INTERRUPTED => covered.add(start..end, (count as i64).wrapping_neg()),
            kind::FALL_THROUGH => {
                let sum = covered.fall_throughs.entry(start).or_default();
                *sum = sum.wrapping_add(count);
            }
            _ => {}
        }
    }
}

/// An entry of the table of modules.
struct ModuleEntry {
    start: u64,
    file_offset: u64,
    path: PathBuf,
}

impl ModuleEntry {
    fn read(wire: &File, index: usize) -> io::Result<Self> {
        let bytes = size_of::<CountedModule>();
        let entry = read(wire, MODULE_TABLE + index * bytes, bytes)?;
        let path = &entry[offset_of!(CountedModule, path)..];
        let len = u64_at(&entry, offset_of!(CountedModule, path_len)).min(MAX_PATH as u64);
        Ok(Self {
            start: u64_at(&entry, offset_of!(CountedModule, start)),
            file_offset: u64_at(&entry, offset_of!(CountedModule, file_offset)),
            path: Path::new(OsStr::from_bytes(&path[..len as usize])).to_owned(),
        })
    }
}

fn read(wire: &File, offset: usize, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    wire.read_exact_at(&mut bytes, offset as u64)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_blocks_add_up() {
        let mut module = CoveredModule::default();
        module.add(10..20, 3);
        module.add(15..20, 4);
        assert_eq!(module.executed(), [(10..15, 3), (15..20, 7)]);
    }

    #[test]
    fn code_that_was_interrupted_was_not_executed() {
        let mut module = CoveredModule::default();
        module.add(10..20, 1);
        module.add(14..20, -1);
        assert_eq!(module.executed(), [(10..14, 1)]);
    }

    #[test]
    fn a_branch_is_taken_as_often_as_it_does_not_fall_through() {
        let mut module = CoveredModule::default();
        module.add(10..20, 5);
        module.fall_throughs.insert(18, 2);
        let branch = Branch {
            offset: 18,
            taken: 3,
            not_taken: 2,
        };
        assert_eq!(module.branches(), [branch]);
    }
}
