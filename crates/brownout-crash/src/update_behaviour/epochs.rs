//! Where one update of an object ends and the next begins (C3).
//!
//! An epoch ends before a store to a field that it has updated before, if all that was stored to the object so far is guaranteed; and
//! where a store V to something else persists between two of its stores. In the second case the stores that were issued before V
//! belong to the earlier epoch. Only guarantees count: that two stores are in one line is chance.
//!
//! Deviation from Squint, which follows one thread: V ends an epoch only if a thread that stores to the object in this epoch has issued it.

use std::ops::Range;

use brownout_model::{ObjectOrder, PersistOrder, ThreadSlot, Time};
use rustc_hash::FxHashSet;

use super::fields::SlotNumber;
use super::instances::Update;

/// Divides the updates of an instance, which are in the order of issue.
pub(super) fn epochs(updates: &[Update], order: &PersistOrder) -> Vec<Range<u32>> {
    let mut found = Vec::new();
    let mut object = ObjectOrder::default();
    let mut epoch = Epoch::default();
    for (at, update) in updates.iter().enumerate() {
        let store = order.store(update.store);
        let is_again = epoch.slots.contains(&update.slot);
        let mut next = None;
        if is_again && object.is_persisted_at(store.issued) {
            next = Some(at);
        } else if let Some(between) = epoch.interrupted(at, updates, order) {
            let issued = |update: &Update| order.store(update.store).issued < between;
            let earlier = updates[epoch.start..at].partition_point(issued);
            next = Some(epoch.start + earlier);
        }
        if let Some(next) = next.filter(|&next| next > epoch.start) {
            found.push(epoch.start as u32..next as u32);
            epoch = Epoch {
                start: next,
                ..Epoch::default()
            };
            for update in &updates[next..at] {
                epoch.add(update, order);
            }
        }
        epoch.add(update, order);
        object.add(store);
    }
    if epoch.start < updates.len() {
        found.push(epoch.start as u32..updates.len() as u32);
    }
    found
}

/// The epoch that is not over.
#[derive(Default)]
struct Epoch {
    /// Its first update.
    start: usize,
    /// The fields that it has updated.
    slots: FxHashSet<SlotNumber>,
    /// The threads that have.
    threads: Vec<ThreadSlot>,
    /// When the first of its stores to be guaranteed was.
    first_guaranteed: Option<Time>,
}

impl Epoch {
    fn add(&mut self, update: &Update, order: &PersistOrder) {
        let store = order.store(update.store);
        self.slots.insert(update.slot);
        if !self.threads.contains(&store.thread) {
            self.threads.push(store.thread);
        }
        let known = self.first_guaranteed.into_iter();
        self.first_guaranteed = known.chain(store.guaranteed()).min();
    }

    /// When a store to something else was issued that persists between a store of this epoch and the update at `at`.
    fn interrupted(&self, at: usize, updates: &[Update], order: &PersistOrder) -> Option<Time> {
        let from = self.first_guaranteed?;
        let until = order.store(updates[at].store);
        if from > until.issued {
            return None;
        }
        // What became guaranteed before the last update was considered then.
        let since = order.store(updates[at - 1].store).issued;
        let is_other = |store| {
            let own = updates.binary_search_by_key(&store, |update| update.store);
            own.is_err()
        };
        let last_thread = (!self.threads.contains(&until.thread)).then_some(until.thread);
        let threads = self.threads.iter().copied().chain(last_thread);
        let between = threads.filter_map(|thread| {
            let times = (Some(since), until.issued);
            order.persisted_between(thread, from, times, is_other)
        });
        let last = between.max()?;
        Some(order.store(last).issued)
    }
}
