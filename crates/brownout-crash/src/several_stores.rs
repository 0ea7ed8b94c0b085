//! Reads of recovery that can see several stores (Jaaru, ASPLOS'21, §4, "Debugging support").
//!
//! A missing flush lets recovery read what was there before the store. The reads of a run of recovery are followed with the model,
//! from all that the crash can have left. Where the bytes can differ, given all that recovery has read before, the stores that
//! they can come from are found, and those that were read. Deviations from Jaaru: stores of equal bytes are no choice,
//! and a read is looked at once, the first time that recovery reads a byte.
//!
//! Can miss: choices after a read of bytes that the model does not expect. Never reports a read whose bytes are the same
//! after every crash that leads there.

use std::collections::BTreeSet;

use brownout_model::{LINE, PmAddress, PossibleMemory, ReadSource};
use brownout_recovery::FirstRead;
use brownout_trace::FileId;

use crate::effect::address;

/// A read of recovery in one cache line whose bytes can come from several stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedRead {
    /// The number of the first read of recovery that it belongs to, from 0.
    pub number: usize,
    /// How many reads were before it, each in one line.
    pub position: usize,
    pub read: FirstRead,
    pub at: PmAddress,
    /// What the bytes can come from.
    pub sources: BTreeSet<ReadSource>,
    /// Those of them that recovery has read. Several if they are about different bytes, or if their bytes are equal.
    pub seen: BTreeSet<ReadSource>,
}

/// Follows the first reads of a recovery, with the bytes that it has read, from all memory that a crash can leave.
/// `holders` has the file of each persistent file.
pub fn several_stores<'b>(
    memory: &mut PossibleMemory,
    holders: &[Option<FileId>],
    reads: impl IntoIterator<Item = (FirstRead, &'b [u8])>,
) -> Vec<SourcedRead> {
    let mut found = Vec::new();
    let reads = reads.into_iter().enumerate();
    let parts = reads.flat_map(|(number, (whole, bytes))| {
        let parts = by_line(whole, bytes);
        parts.map(move |(read, bytes)| (number, read, bytes))
    });
    for (position, (number, read, bytes)) in parts.enumerate() {
        // A file that is not mapped yet has its initial content.
        if let Some(file) = holders.get(read.file).copied().flatten() {
            let at = address(file, read.offset);
            let classes = memory.may_read(at, read.len);
            if classes.count() == 1 {
                continue;
            }
            let Some(class) = classes.iter().find(|class| class.bytes == bytes) else {
                continue;
            };
            let sources = memory.sources(at, read.len);
            memory.choose(&class);
            found.push(SourcedRead {
                number,
                position,
                read,
                at,
                sources,
                seen: memory.sources(at, read.len),
            });
        }
    }
    found
}

/// Splits a read at lines: they persist independently of each other.
pub fn by_line(read: FirstRead, bytes: &[u8]) -> impl Iterator<Item = (FirstRead, &[u8])> {
    let mut offset = read.offset;
    let mut rest = &bytes[..bytes.len().min(read.len as usize)];
    std::iter::from_fn(move || {
        let len = (LINE - offset % LINE).min(rest.len() as u64);
        let (part, left) = rest.split_at(len as usize);
        let part_read = FirstRead {
            offset,
            len,
            ..read
        };
        offset += len;
        rest = left;
        (len > 0).then_some((part_read, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use brownout_model::{
        Access, FlushEffect, Profile, StoreHistoryBuilder, StoreKind, Tearing, Time,
    };

    const X: u64 = 0;
    const Y: u64 = 8;
    /// In another line.
    const DATA: u64 = 64;

    enum Step {
        Store(u64, u8),
        Clflush(u64),
        Clwb(u64),
        Fence,
    }
    use Step::*;

    /// What a crash at the end of a run leaves. Steps have the times 1, 2, and so on.
    fn crashed(run: &[Step]) -> PossibleMemory {
        let mut history = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
        let thread = history.add_thread();
        for (time, step) in (1..).zip(run) {
            let by = Access {
                thread,
                time: Time(time),
            };
            let at = |offset: u64| address(FileId(3), offset);
            match *step {
                Store(offset, value) => {
                    history.store(by, at(offset), &[value], StoreKind::Cached);
                }
                Clflush(offset) => history.flush(by, at(offset), FlushEffect::Immediate),
                Clwb(offset) => history.flush(by, at(offset), FlushEffect::Deferred),
                Fence => history.fence(by),
            }
        }
        let history = Arc::new(history.finish());
        let end = *history.crash_times().last().unwrap();
        let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
        PossibleMemory::new(Arc::new(zeros), history, end)
    }

    /// For each read that can see several stores: its offset, the times of the stores, and of those that were seen; 0 is what is
    /// settled.
    fn explained(run: &[Step], reads: &[(u64, u8)]) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
        let values: Vec<[u8; 1]> = reads.iter().map(|&(_, value)| [value]).collect();
        let reads = reads.iter().zip(&values).map(|(&(offset, _), value)| {
            let read = FirstRead {
                file: 0,
                offset,
                len: 1,
            };
            (read, &value[..])
        });
        let times = |sources: &BTreeSet<ReadSource>| -> Vec<u64> {
            let time = |source: &ReadSource| match source {
                ReadSource::Settled => 0,
                ReadSource::Store { issued, .. } => issued.0,
            };
            sources.iter().map(time).collect()
        };
        several_stores(&mut crashed(run), &[Some(FileId(3))], reads)
            .iter()
            .map(|read| (read.read.offset, times(&read.sources), times(&read.seen)))
            .collect()
    }

    /// Jaaru, Fig. 2: x and y are in one line.
    const FIG_2: [Step; 7] = [
        Store(Y, 1),
        Store(X, 2),
        Clflush(X),
        Store(Y, 3),
        Store(X, 4),
        Store(Y, 5),
        Store(X, 6),
    ];

    #[test]
    fn a_read_can_see_each_store_since_the_last_flush() {
        // The settled store x = 2, x = 4 and x = 6.
        assert_eq!(
            explained(&FIG_2, &[(X, 6)]),
            [(X, vec![0, 5, 7], vec![7])],
            "a newer store was read"
        );
        assert_eq!(explained(&FIG_2, &[(X, 2)]), [(X, vec![0, 5, 7], vec![0])]);
    }

    #[test]
    fn what_was_read_before_leaves_fewer_stores() {
        // Fig. 3: after x = 4, y is 3 or 5.
        assert_eq!(
            explained(&FIG_2, &[(X, 4), (Y, 5)]),
            [(X, vec![0, 5, 7], vec![5]), (Y, vec![4, 6], vec![6])]
        );
        // After x = 6, it can only be 5.
        assert_eq!(
            explained(&FIG_2, &[(X, 6), (Y, 5)]),
            [(X, vec![0, 5, 7], vec![7])]
        );
    }

    #[test]
    fn data_behind_a_commit_store_can_only_be_one_store() {
        // Fig. 4: the data is durable before the commit store.
        let run = [Store(DATA, 7), Clflush(DATA), Store(X, 1)];
        assert_eq!(
            explained(&run, &[(X, 1), (DATA, 7)]),
            [(X, vec![0, 3], vec![3])]
        );
        // The same without the flush of the data.
        let run = [Store(DATA, 7), Store(X, 1)];
        assert_eq!(
            explained(&run, &[(X, 1), (DATA, 0)]),
            [(X, vec![0, 2], vec![2]), (DATA, vec![0, 1], vec![0])]
        );
    }

    #[test]
    fn a_flush_counts_when_it_is_fenced() {
        let unfenced = [Store(DATA, 7), Clwb(DATA)];
        assert_eq!(
            explained(&unfenced, &[(DATA, 0)]),
            [(DATA, vec![0, 1], vec![0])]
        );
        let fenced = [Store(DATA, 7), Clwb(DATA), Fence];
        assert_eq!(explained(&fenced, &[(DATA, 7)]), []);
    }

    #[test]
    fn equal_bytes_and_impossible_ones_are_no_choice() {
        assert_eq!(explained(&[Store(X, 0)], &[(X, 0)]), []);
        assert_eq!(explained(&[Store(X, 1)], &[(X, 9)]), []);
    }

    #[test]
    fn reads_are_split_at_lines() {
        let read = FirstRead {
            file: 0,
            offset: 60,
            len: 8,
        };
        let parts: Vec<_> = by_line(read, &[1, 2, 3, 4, 5, 6, 7, 8])
            .map(|(read, bytes)| (read.offset, bytes.to_vec()))
            .collect();
        assert_eq!(parts, [(60, vec![1, 2, 3, 4]), (64, vec![5, 6, 7, 8])]);
    }
}
