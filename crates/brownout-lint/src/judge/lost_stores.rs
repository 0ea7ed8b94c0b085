//! The stores that are lost: at the end of the trace, nothing that is still live becomes guaranteed any more.
//!
//! Stores are judged only then, because only then is it known which lines were ever flushed.

use brownout_model::{LineSlot, LiveStore, PmAddress, SpaceId, StoreKind, Wait};
use brownout_trace::FileId;
use brownout_trace::selection::Selection;

use crate::follower::Follower;
use crate::follower::line_marks::FLUSHED;
use crate::follower::unfenced_flushes::UnfencedFlushes;
use crate::rule_inputs::{LossReason, LostStore, StoreTag};

/// Decides which stores of a run are lost, and why.
pub(crate) struct LostStores<'a, A> {
    follower: &'a mut Follower<A>,
    flushes: UnfencedFlushes,
}

impl<'a, A> LostStores<'a, A> {
    pub(crate) fn new(follower: &'a mut Follower<A>) -> Self {
        let flushes = UnfencedFlushes::new(&follower.tracker);
        LostStores { follower, flushes }
    }

    /// The lost stores to files that are persistent memory.
    pub(crate) fn find(mut self, selection: &Selection) -> Vec<LostStore> {
        let persistent = selection.candidates().filter(|file| file.reason.is_some());
        let mut lost: Vec<LostStore> = Vec::new();
        for candidate in persistent {
            let space = SpaceId(candidate.file.0);
            // Finding the reason needs the tracker that is being iterated.
            let live = self.follower.tracker.live_in(space, 0..u64::MAX);
            let live: Vec<_> = live
                .filter(|(_, _, store)| !store.tag.is_judged() && !self.in_flight(store))
                .map(|(line, slot, store)| (line, slot, *store))
                .collect();
            for (line, slot, store) in live {
                let Some(reason) = self.loss_reason((line, slot), &store) else {
                    continue;
                };
                lost.push(LostStore::new(line, &store, reason));
                if matches!(reason, LossReason::NotFlushed | LossReason::NeverFlushed) {
                    self.lost_below(&store.tag, reason, &mut lost);
                }
            }
        }
        let undecided = std::mem::take(&mut self.follower.guarantees.undecided);
        let mut undecided: Vec<_> = undecided.into_iter().collect();
        undecided.sort_unstable_by_key(|((site, line), store)| (store.time, *line, *site));
        for ((_, line), store) in undecided {
            lost.push(LostStore::new(line, &store, self.not_flushed(line)));
        }
        let judged_by_page = self.follower.tracker.profile().cached == Wait::WriteBack;
        for store in &mut lost {
            store.by_page = judged_by_page || self.relies_on_syncs(store.file());
            store.not_waited_for = self.follower.not_waited_for.contains(store.line);
            let calls = &self.follower.failed_syncs;
            store.failed_sync = calls.after(store.first_byte(), store.time);
            if store.failed_sync.is_some() && store.reason == LossReason::NeverFlushed {
                store.reason = LossReason::NotFlushed;
            }
        }
        // A finding describes its first occurrence.
        lost.sort_by_key(|store| store.time);
        lost
    }

    /// Whether system calls alone make stores to the file durable.
    fn relies_on_syncs(&self, file: FileId) -> bool {
        let follower = &self.follower;
        !follower.persists_by_instruction
            && (follower.written_back.has(file)
                || follower.not_waited_for.has(file)
                || follower.failed_syncs.has(file))
    }

    /// `None` if a library has flushed the line, whose fence is its own business.
    fn loss_reason(
        &self,
        (line, slot): (PmAddress, LineSlot),
        store: &LiveStore<StoreTag>,
    ) -> Option<LossReason> {
        if store.kind == StoreKind::NonTemporal && self.follower.tracker.profile().needs_fences() {
            return Some(LossReason::NotFenced);
        }
        match self.flushes.of(slot, store.time) {
            Some((flush, time)) if !store.tag.is_abandoned() => {
                let users = self.follower.guarantees.sites.is_users(flush);
                users.then_some(LossReason::FlushNotFenced { flush, time })
            }
            _ => Some(self.not_flushed(line)),
        }
    }

    /// The stores that a lost store has overwritten were lost before it. Stores to bytes that were unmapped in between are
    /// judged on their own.
    fn lost_below(&mut self, tag: &StoreTag, reason: LossReason, lost: &mut Vec<LostStore>) {
        let overwrites = &mut self.follower.guarantees.overwrites;
        overwrites.take(tag.overwrote, |overwriting| {
            if !overwriting.older_value.is_abandoned() {
                lost.push(LostStore {
                    line: overwriting.line,
                    bytes: overwriting.bytes,
                    time: overwriting.older_time,
                    thread: overwriting.older_thread,
                    tag: overwriting.older_value,
                    count: overwriting.count,
                    reason,
                    is_of_lock: false,
                    by_page: false,
                    not_waited_for: false,
                    failed_sync: None,
                });
            }
        });
    }

    /// Whether the target may still have been about to persist the store when its process was killed or the recording
    /// stopped: its thread had not executed a fence after it.
    fn in_flight(&self, store: &LiveStore<StoreTag>) -> bool {
        let thread = &self.follower.guarantees.threads[store.thread.index()];
        let cut_short =
            !self.follower.completed.contains(&thread.process) && !store.tag.is_abandoned();
        cut_short && thread.last_fence < store.time.0
    }

    fn not_flushed(&self, line: PmAddress) -> LossReason {
        let known = self.follower.tracker.known_line(line);
        let flushed = known.is_some_and(|line| self.follower.tracker.has_mark(line, FLUSHED));
        if flushed || self.follower.written_back.contains(line) {
            LossReason::NotFlushed
        } else {
            LossReason::NeverFlushed
        }
    }
}
