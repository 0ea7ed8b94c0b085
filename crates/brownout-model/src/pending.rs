//! The flushes and non-temporal stores of a thread that its next fence will complete.

use rustc_hash::FxHashMap;

use crate::address::{LineSlot, Time};

/// A flush or a non-temporal store that waits for a fence of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending<F> {
    /// A deferred flush.
    Flush {
        /// The flushed line.
        line: LineSlot,
        /// When the flush was issued; it covers earlier stores.
        time: Time,
        /// What the observer keeps with the flush.
        tag: F,
    },
    /// A non-temporal store.
    NonTemporal {
        /// The line stored to.
        line: LineSlot,
        /// When the store was issued.
        time: Time,
    },
}

impl<F> Pending<F> {
    /// The line that is flushed or stored to.
    pub fn line(&self) -> LineSlot {
        match self {
            Pending::Flush { line, .. } | Pending::NonTemporal { line, .. } => *line,
        }
    }
}

/// The pending operations of one thread, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct PendingList<F> {
    entries: Vec<Pending<F>>,
    /// The length above which the list should be compacted.
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

    /// Adds an operation. Returns `true` if the list should be [compacted](Self::compact).
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

    /// Returns the memory of a list that was [taken](Self::take).
    #[inline]
    pub(crate) fn reuse(&mut self, mut entries: Vec<Pending<F>>) {
        entries.clear();
        self.entries = entries;
        self.limit = FIRST_LIMIT;
    }

    /// Removes entries that no longer `matter`, and all but the last flush of each line, which covers the
    /// same stores as the earlier ones. This bounds the memory of a thread that never fences.
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
