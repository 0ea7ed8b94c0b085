//! What happens in a run in which threads are held between a store and its persist: whether others read the store, and what they do
//! before it is durable.
//!
//! A read counts if its thread then makes something durable, or sends something out, while a crash can still lose what it has read. A
//! crash at that instant leaves the effect without its reason.
//!
//! Can miss: effects that other threads make durable. A thread that waits for a lock is only seen if a function acquires the lock.

use brownout_model::{Access, LiveStore, ThreadSlot, Time};
use brownout_trace::FileRange;
use rustc_hash::FxHashMap;

use crate::lifetimes::StoreTag;
use crate::locks::LockName;

/// Reads that are kept.
const MOST_READS: usize = 64;

/// A load that has read a store whose thread was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedRead {
    pub store: Time,
    pub load: Time,
    /// The bytes that it has read, in one line.
    pub range: FileRange,
    /// What its thread did before the store was durable.
    pub act: Option<ReaderAct>,
    /// The event from which on a crash cannot lose the store any more; `None` if that did not come.
    pub until: Option<Time>,
}

/// What a thread did that has read a store which a crash could lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReaderAct {
    /// It has made a store of its own durable.
    Persisted { store: Time, persist: Time },
    /// It has sent something out, and the call has returned.
    Sent { returned: Time },
}

impl ReaderAct {
    /// When it was done.
    pub fn time(self) -> Time {
        match self {
            ReaderAct::Persisted { persist, .. } => persist,
            ReaderAct::Sent { returned } => returned,
        }
    }
}

/// What a run has shown in which threads were held.
#[derive(Clone, Debug, Default)]
pub struct ForcedOutcome {
    /// How often the store was made.
    pub stores: u64,
    /// The loads that have read it before it was durable. Those whose threads acted on it come first.
    pub reads: Vec<ForcedRead>,
    /// The locks of the thread that was held for which other threads waited that came to the load later.
    pub blocking: Vec<LockName>,
}

/// Follows a run in which threads are held.
#[derive(Default)]
pub(crate) struct ForcedReads {
    outcome: ForcedOutcome,
    /// Threads that have made the store, which a crash can still lose, and when.
    held: FxHashMap<ThreadSlot, Time>,
    /// Reads of what a crash can still lose, with their threads.
    open: Vec<(ThreadSlot, ForcedRead)>,
    /// Threads that have waited for a lock of a held thread, and have not come to the load since.
    waits: Vec<(ThreadSlot, LockName)>,
}

impl ForcedReads {
    #[inline]
    pub(crate) fn has_held_threads(&self) -> bool {
        !self.held.is_empty()
    }

    /// A thread has made the store.
    pub(crate) fn stored(&mut self, thread: ThreadSlot, source: Time) {
        let known = self.held.insert(thread, source);
        // One store can be recorded in several parts.
        if known != Some(source) {
            self.outcome.stores += 1;
        }
    }

    /// Whether a thread has made the store, which a crash can still lose.
    pub(crate) fn is_held(&self, thread: ThreadSlot) -> bool {
        self.held.contains_key(&thread)
    }

    /// A thread waits for a lock of another one that has made the store. Whether it is a reader, the load will show.
    pub(crate) fn waits(&mut self, thread: ThreadSlot, lock: LockName) {
        if !self.waits.contains(&(thread, lock)) {
            self.waits.push((thread, lock));
        }
    }

    #[inline]
    pub(crate) fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// A thread has come to the load: what it waited for has kept it from loading earlier.
    pub(crate) fn loaded(&mut self, thread: ThreadSlot) {
        let blocking = &mut self.outcome.blocking;
        for (_, lock) in self.waits.extract_if(.., |(waiter, _)| *waiter == thread) {
            if !blocking.contains(&lock) {
                blocking.push(lock);
            }
        }
    }

    /// A load has read the store made at `store`, which a crash can lose.
    pub(crate) fn read(&mut self, store: Time, by: Access, range: FileRange) {
        let mut open = self.open.iter();
        let is_known = open.any(|(thread, read)| *thread == by.thread && read.store == store);
        if !is_known && self.open.len() < MOST_READS {
            let read = ForcedRead {
                store,
                load: by.time,
                range,
                act: None,
                until: None,
            };
            self.open.push((by.thread, read));
        }
    }

    /// A store is durable.
    pub(crate) fn guaranteed(&mut self, store: &LiveStore<StoreTag>, by: Access) {
        if !self.open.is_empty() {
            let act = ReaderAct::Persisted {
                store: store.time,
                persist: by.time,
            };
            self.acted(store.thread, store.time, act);
        }
        self.ended(store.time, by.time);
    }

    /// A thread has sent something out.
    pub(crate) fn sent(&mut self, by: Access) {
        let act = ReaderAct::Sent { returned: by.time };
        self.acted(by.thread, by.time, act);
    }

    fn acted(&mut self, thread: ThreadSlot, since: Time, act: ReaderAct) {
        for (reader, read) in &mut self.open {
            if *reader == thread && read.load < since && read.act.is_none() {
                read.act = Some(act);
            }
        }
    }

    /// A crash cannot lose a store any more, or nobody can read it, from the event at `at` on.
    pub(crate) fn ended(&mut self, store: Time, at: Time) {
        self.held.retain(|_, made| *made != store);
        let ended = self.open.extract_if(.., |(_, read)| read.store == store);
        for (_, mut read) in ended {
            // What becomes durable together with the store does not lose its reason.
            read.act = read.act.filter(|act| act.time() < at);
            read.until = Some(at);
            self.outcome.reads.push(read);
        }
    }

    pub(crate) fn outcome(mut self) -> ForcedOutcome {
        let open = self.open.into_iter().map(|(_, read)| read);
        self.outcome.reads.extend(open);
        let reads = &mut self.outcome.reads;
        reads.sort_by_key(|read| (read.act.is_none(), read.load));
        reads.truncate(MOST_READS);
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::FileId;

    use super::*;

    const RANGE: FileRange = FileRange {
        file: FileId(0),
        offset: 64,
        len: 8,
    };

    fn access(tracker: &mut brownout_model::Tracker<crate::lifetimes::Knowledge>) -> ThreadSlot {
        tracker.add_thread()
    }

    fn two_threads() -> [ThreadSlot; 2] {
        let profile = brownout_model::Profile::named("adr").expect("the default profile");
        let mut tracker = brownout_model::Tracker::new(profile);
        [access(&mut tracker), access(&mut tracker)]
    }

    fn at(thread: ThreadSlot, time: u64) -> Access {
        Access {
            thread,
            time: Time(time),
        }
    }

    #[test]
    fn output_after_a_read_counts_until_the_store_is_durable() {
        let [writer, reader] = two_threads();
        let mut reads = ForcedReads::default();
        reads.stored(writer, Time(1));
        reads.read(Time(1), at(reader, 2), RANGE);
        reads.sent(at(reader, 3));
        reads.ended(Time(1), Time(4));
        reads.sent(at(reader, 5));
        let outcome = reads.outcome();
        let sent = ReaderAct::Sent { returned: Time(3) };
        assert_eq!(outcome.reads[0].act, Some(sent));
        assert_eq!(outcome.reads[0].until, Some(Time(4)));
        assert_eq!(outcome.stores, 1);
    }

    #[test]
    fn what_is_durable_together_with_the_store_is_no_harm() {
        let [writer, reader] = two_threads();
        let mut reads = ForcedReads::default();
        reads.stored(writer, Time(1));
        reads.read(Time(1), at(reader, 2), RANGE);
        reads.acted(
            reader,
            Time(3),
            ReaderAct::Persisted {
                store: Time(3),
                persist: Time(4),
            },
        );
        reads.ended(Time(1), Time(4));
        assert_eq!(reads.outcome().reads[0].act, None);
    }

    #[test]
    fn only_a_thread_that_comes_to_the_load_was_blocked() {
        let [writer, reader] = two_threads();
        let lock = LockName::InMemory {
            process: brownout_trace::ProcessId(1),
            addr: brownout_trace::Address(64),
        };
        let mut reads = ForcedReads::default();
        reads.stored(writer, Time(1));
        assert!(reads.is_held(writer) && !reads.is_held(reader));
        reads.waits(reader, lock);
        reads.waits(reader, lock);
        // The writer loads what it has stored itself.
        reads.loaded(writer);
        assert_eq!(reads.outcome.blocking, []);
        reads.loaded(reader);
        reads.loaded(reader);
        assert_eq!(reads.outcome().blocking, [lock]);
    }
}
