//! The stores to one object, in the order of issue: whether all of them are guaranteed at some time.

use super::run_order::OrderedStore;
use crate::address::Time;

/// Answers whether all that was stored to an object before some time is guaranteed then.
#[derive(Clone, Debug, Default)]
pub struct ObjectOrder {
    issued: Vec<Time>,
    /// For each store, when it and all earlier ones were guaranteed.
    complete: Vec<Time>,
}

impl ObjectOrder {
    /// Adds the next store to the object.
    pub fn add(&mut self, store: &OrderedStore) {
        let earlier = self.complete.last().copied().unwrap_or_default();
        self.issued.push(store.issued);
        self.complete.push(earlier.max(store.guaranteed));
    }

    /// Whether all stores to the object that were issued before `time` are guaranteed then.
    pub fn is_persisted_at(&self, time: Time) -> bool {
        let before = self.issued.partition_point(|&issued| issued < time);
        before == 0 || self.complete[before - 1] <= time
    }
}
