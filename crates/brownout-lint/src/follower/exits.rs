//! Threads and processes end, and files are unmapped: what was flushed and not fenced by then is reported.
//!
//! The C library executes locked instructions when a thread or the process ends. They would be fences, but nobody
//! can rely on them, so flushes are judged when `exit` begins.
//!
//! Can miss: a thread that returns from its first function is recognised by stacks that belong entirely to the C library;
//! without them, its locked instructions count as fences.

use brownout_model::{LINE, Pending, StoreKind, ThreadSlot};
use brownout_trace::FileRange;

use crate::attribution::Attribution;
use crate::follower::Follower;
use crate::follower::store_marks::StoreMarks;
use crate::rule_inputs::{LossReason, LostStore};

/// The most stores that are kept to be judged at the end of the trace; others are reported at once.
const MOST_UNFENCED: usize = 4096;

impl<A: Attribution> Follower<A> {
    /// The thread calls `exit` or a similar function.
    pub(crate) fn leave(&mut self, thread: ThreadSlot) {
        self.judge_unfenced(thread, None);
        self.guarantees.threads[thread.index()].leaving = true;
    }

    /// Reports the stores to the bytes of `within`, or to any, that wait for a fence of this thread.
    pub(crate) fn judge_unfenced(&mut self, thread: ThreadSlot, within: Option<&[FileRange]>) {
        if !self.tracker.profile().needs_fences() {
            return;
        }
        let mut lost: Vec<LostStore> = Vec::new();
        let pending = self.tracker.pending(thread).to_vec();
        for pending in pending {
            let line = self.tracker.address(pending.line());
            let covers = |range: &FileRange| {
                let end = range.offset.saturating_add(range.len);
                range.file.0 == line.space.0
                    && line.offset < end
                    && range.offset < line.offset.saturating_add(LINE)
            };
            if within.is_some_and(|ranges| !ranges.iter().any(covers)) {
                continue;
            }
            // A fence after a library's flush is the library's business.
            let reason = match pending {
                Pending::Flush { tag, .. } if !self.guarantees.sites.is_users(tag) => continue,
                Pending::Flush { tag, time, .. } => LossReason::FlushNotFenced {
                    flush: tag,
                    time: time.0,
                },
                Pending::NonTemporal { .. } => LossReason::NotFenced,
            };
            let bytes = line.offset..line.offset.saturating_add(LINE);
            self.tracker.retain(line.space, bytes, |line, _, store| {
                let waits = match pending {
                    Pending::Flush { time, .. } => {
                        store.kind == StoreKind::Cached && store.time <= time
                    }
                    Pending::NonTemporal { time, .. } => {
                        store.kind == StoreKind::NonTemporal && store.time == time
                    }
                };
                if waits && !store.tag.is_judged() && !store.tag.is_abandoned() {
                    store.tag.marks.set(StoreMarks::JUDGED);
                    lost.push(LostStore::new(line, store, reason));
                }
                true
            });
        }
        let room = MOST_UNFENCED.saturating_sub(self.guarantees.unfenced.len());
        let rest = lost.split_off(room.min(lost.len()));
        self.guarantees.unfenced.extend(lost);
        let (rules, sites) = (&mut self.guarantees.rules, &self.guarantees.sites);
        for lost in &rest {
            rules.lost(sites, lost);
        }
    }

    /// The trace has ended, and with it all threads.
    pub(crate) fn end(&mut self) {
        for thread in self.tracker.threads() {
            self.thread_ended(thread, false);
        }
    }

    /// A thread has ended; `completed` if it was not killed.
    pub(crate) fn thread_ended(&mut self, thread: ThreadSlot, completed: bool) {
        let state = &mut self.guarantees.threads[thread.index()];
        if !std::mem::replace(&mut state.ended, true) {
            state.completed = completed;
            self.guarantees.rules.thread_end(state);
        }
    }
}
