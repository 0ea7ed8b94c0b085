//! Where one update of an object ends and the next begins (C3).
//!
//! Two criteria end an epoch, independently of each other:
//!
//! 1. a store to a field that was updated before, if all that was stored to the object so far is guaranteed. Then tracking of fields
//!    starts again. Such an end divides only what is ordered anyway: no crash can lose a store before it and keep one after it;
//! 2. a store V to something else that persists between two stores of the object, the first of them in this epoch. The stores that were
//!    issued before V belong to the earlier epoch (Fig. 4.5b). This is repeated with the stores after V.
//!
//! Only guarantees count: that two stores are in one line is chance.
//!
//! Deviations from Squint, which follows one thread: V ends an epoch only if one of the two stores around it, or another one of the epoch
//! before V, is of the same thread. The order of threads by locks and other means is not followed, so a V of another thread ends no epoch
//! although it may be ordered with those of the object: such epochs are larger, and allow more orders.

use std::ops::Range;

use brownout_model::{ObjectOrder, PersistOrder, StoreNumber, ThreadSlot, Time};
use rustc_hash::FxHashSet;

use super::instances::Update;

/// Divides the updates of an instance, which are in the order of issue.
pub(super) fn epochs(updates: &[Update], order: &PersistOrder) -> Vec<Range<u32>> {
    let mut starts = interrupted(updates, order);
    starts.extend(repeated(updates, order));
    starts.extend([0, updates.len()]);
    starts.sort_unstable();
    starts.dedup();
    let neighbours = starts.windows(2);
    neighbours
        .map(|ends| ends[0] as u32..ends[1] as u32)
        .collect()
}

/// The updates that begin an epoch by the first criterion.
fn repeated(updates: &[Update], order: &PersistOrder) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut object = ObjectOrder::default();
    let mut slots = FxHashSet::default();
    for (at, update) in updates.iter().enumerate() {
        let store = order.store(update.store);
        if slots.contains(&update.slot) && object.is_persisted_at(store.issued) {
            starts.push(at);
            slots.clear();
        }
        slots.insert(update.slot);
        object.add(store);
    }
    starts
}

/// The updates that begin an epoch by the second criterion.
fn interrupted(updates: &[Update], order: &PersistOrder) -> Vec<usize> {
    let mut starts = Vec::new();
    let Some(last) = updates.last() else {
        return starts;
    };
    let issued = |update: &Update| order.store(update.store).issued;
    let until = issued(last);
    // For each update, when the first of it and all later ones is guaranteed.
    let mut first_guaranteed: Vec<Option<Time>> = Vec::with_capacity(updates.len());
    for update in updates.iter().rev() {
        let later = first_guaranteed.last().copied().flatten();
        let own = order.store(update.store).guaranteed();
        first_guaranteed.push(own.into_iter().chain(later).min());
    }
    first_guaranteed.reverse();
    let mut threads = threads_of(updates, order);
    let mut start = 0;
    while let Some(from) = first_guaranteed.get(start).copied().flatten() {
        let began = issued(&updates[start]);
        let found = threads
            .iter_mut()
            .filter_map(|thread| thread.interrupting((began, from, until), updates, order));
        let Some(between) = found.min() else {
            break;
        };
        start = updates.partition_point(|update| issued(update) < between);
        starts.push(start);
    }
    starts
}

/// A thread that updates an instance, and the next stores of it that may end an epoch.
struct UpdatingThread {
    thread: ThreadSlot,
    /// When it issued its updates.
    issued: Vec<Time>,
    /// A store that persists before an update of this thread.
    before_own: NextStore,
    /// A store after an update of this thread.
    after_own: NextStore,
}

fn threads_of(updates: &[Update], order: &PersistOrder) -> Vec<UpdatingThread> {
    let mut threads: Vec<UpdatingThread> = Vec::new();
    for update in updates {
        let store = order.store(update.store);
        let known = threads
            .iter()
            .position(|known| known.thread == store.thread);
        let known = known.unwrap_or_else(|| {
            threads.push(UpdatingThread {
                thread: store.thread,
                issued: Vec::new(),
                before_own: NextStore::NotSought,
                after_own: NextStore::NotSought,
            });
            threads.len() - 1
        });
        threads[known].issued.push(store.issued);
    }
    threads
}

impl UpdatingThread {
    /// When the thread issued the first store that ends an epoch, which began at `began`, and of which something is guaranteed at `from`.
    /// The last update of the instance is issued at `until`.
    fn interrupting(
        &mut self,
        (began, from, until): (Time, Time, Time),
        updates: &[Update],
        order: &PersistOrder,
    ) -> Option<Time> {
        let is_other = |store: StoreNumber| {
            let own = updates.binary_search_by_key(&store, |update| update.store);
            own.is_err()
        };
        let thread = self.thread;
        let seek = |from, until| {
            let found = order.persisted_between(thread, from, until, is_other)?;
            Some(order.store(found).issued)
        };
        let last_own = self.issued.last().copied();
        let before_own =
            last_own.and_then(|last| self.before_own.from(from, |from| seek(from, last)));
        let first_own = self.issued.partition_point(|&issued| issued < began);
        let first_own = self.issued.get(first_own).copied();
        let after_own = first_own.and_then(|first| {
            let from = from.max(first);
            self.after_own.from(from, |from| seek(from, until))
        });
        before_own.into_iter().chain(after_own).min()
    }
}

/// When the next store of some kind was issued, as far as it was sought: what one epoch does not reach may end a later one.
#[derive(Clone, Copy, Debug)]
enum NextStore {
    NotSought,
    At(Time),
    None,
}

impl NextStore {
    /// The first store at `from` or later, which is not earlier than the last time.
    fn from(&mut self, from: Time, seek: impl Fn(Time) -> Option<Time>) -> Option<Time> {
        match *self {
            Self::At(known) if known >= from => Some(known),
            Self::None => None,
            Self::NotSought | Self::At(_) => {
                let found = seek(from);
                *self = found.map_or(Self::None, Self::At);
                found
            }
        }
    }
}
