//! What a thread has begun to make persistent and its next fence will finish.

use rustc_hash::FxHashMap;

use crate::address::{LineSlot, Time};

/// A flush or a non-temporal store that waits for a fence of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending<F> {
    /// A flush of stores to `line` that were issued before `time`.
    Flush { line: LineSlot, time: Time, tag: F },
    /// The non-temporal store issued at `time`.
    NonTemporal { line: LineSlot, time: Time },
}

impl<F> Pending<F> {
    pub fn line(&self) -> LineSlot {
        match self {
            Pending::Flush { line, .. } | Pending::NonTemporal { line, .. } => *line,
        }
    }
}

/// The pending operations of one thread, oldest first.
#[derive(Debug)]
pub(crate) struct PendingList<F> {
    entries: Vec<Pending<F>>,
    /// Length past which it is worth looking for what is out of date.
    limit: usize,
}

const FIRST_LIMIT: usize = 1024;

impl<F: Copy> PendingList<F> {
    pub(crate) fn new() -> Self {
        PendingList {
            entries: Vec::new(),
            limit: FIRST_LIMIT,
        }
    }

    /// Adds an operation. `true` when the list has grown so much that it should be
    /// [compacted](Self::compact).
    #[inline]
    pub(crate) fn push(&mut self, pending: Pending<F>) -> bool {
        self.entries.push(pending);
        self.entries.len() > self.limit
    }

    #[inline]
    pub(crate) fn entries(&self) -> &[Pending<F>] {
        &self.entries
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Vec<Pending<F>> {
        std::mem::take(&mut self.entries)
    }

    /// Gives the room of a list that was taken back.
    #[inline]
    pub(crate) fn reuse(&mut self, mut entries: Vec<Pending<F>>) {
        entries.clear();
        self.entries = entries;
        self.limit = FIRST_LIMIT;
    }

    /// Drops entries whose line `matters` no more, and all but the last flush of each line: it
    /// covers what the earlier ones do. Keeps a thread that never fences from growing without bound.
    pub(crate) fn compact(&mut self, matters: impl Fn(&Pending<F>) -> bool) {
        let mut last = FxHashMap::default();
        for (number, entry) in self.entries.iter().enumerate() {
            if let Pending::Flush { line, .. } = entry {
                last.insert(*line, number);
            }
        }
        let mut number = 0;
        self.entries.retain(|entry| {
            let newest = match entry {
                Pending::Flush { line, .. } => last[line] == number,
                Pending::NonTemporal { .. } => true,
            };
            number += 1;
            newest && matters(entry)
        });
        self.limit = FIRST_LIMIT.max(self.entries.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_keeps_the_last_flush_of_each_line_that_matters() {
        let flush = |line, time| Pending::Flush {
            line: LineSlot(line),
            time: Time(time),
            tag: (),
        };
        let nt = |line, time| Pending::NonTemporal {
            line: LineSlot(line),
            time: Time(time),
        };
        let mut list = PendingList::new();
        for entry in [flush(1, 1), nt(1, 2), flush(2, 3), flush(1, 4), nt(3, 5)] {
            list.push(entry);
        }
        list.compact(|entry| entry.line() != LineSlot(3));
        assert_eq!(list.entries(), [nt(1, 2), flush(2, 3), flush(1, 4)]);
    }
}
