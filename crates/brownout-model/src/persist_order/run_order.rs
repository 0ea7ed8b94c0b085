//! The persist order of all stores of a run.

use super::guarantee_index::GuaranteeIndex;
use crate::address::{PmAddress, ThreadSlot, Time};

/// The number of a store of a run, in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreNumber(pub u32);

impl StoreNumber {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a store was issued and when all of it became guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedStore {
    /// The thread that issued it.
    pub thread: ThreadSlot,
    /// When it was issued.
    pub issued: Time,
    pub(super) guaranteed: Time,
    pub(super) unit: PmAddress,
}

/// Later than every event.
pub(super) const NEVER: Time = Time(u64::MAX);
/// The offset of the unit of a store that is in no single sequence.
pub(super) const NO_UNIT: u64 = u64::MAX;

impl OrderedStore {
    /// When it became guaranteed; `None` if it has not.
    pub fn guaranteed(&self) -> Option<Time> {
        (self.guaranteed != NEVER).then_some(self.guaranteed)
    }

    /// The unit of whose sequence it is part. `None` if it lies in several units, or in no sequence because it is non-temporal.
    pub fn unit(&self) -> Option<PmAddress> {
        (self.unit.offset != NO_UNIT).then_some(self.unit)
    }

    /// Whether it is guaranteed when an event at `time` takes place.
    pub fn is_guaranteed_at(&self, time: Time) -> bool {
        self.guaranteed <= time
    }

    /// Whether both are part of the sequence of one unit.
    pub fn shares_sequence_with(&self, other: &Self) -> bool {
        self.unit == other.unit && self.unit.offset != NO_UNIT
    }

    /// Whether no crash can keep any byte of `other` and lose a byte of this store.
    pub fn persists_before(&self, other: &Self) -> bool {
        self.is_guaranteed_at(other.issued)
            || self.issued < other.issued && self.shares_sequence_with(other)
    }
}

/// The stores of a run in the order of issue, with an index by which questions about them take logarithmic time.
///
/// It keeps no edges: a run of *n* stores takes memory proportional to *n*.
#[derive(Clone, Debug, Default)]
pub struct PersistOrder {
    stores: Vec<OrderedStore>,
    /// By thread.
    indexes: Vec<GuaranteeIndex>,
}

impl PersistOrder {
    pub(super) fn new(stores: Vec<OrderedStore>) -> Self {
        let threads = stores.iter().map(|store| store.thread.index() + 1);
        let mut by_thread: Vec<Vec<StoreNumber>> = vec![Vec::new(); threads.max().unwrap_or(0)];
        for (number, store) in (0..).map(StoreNumber).zip(&stores) {
            if store.guaranteed != NEVER {
                by_thread[store.thread.index()].push(number);
            }
        }
        let indexes = by_thread.into_iter();
        Self {
            indexes: indexes
                .map(|numbers| GuaranteeIndex::new(numbers, &stores))
                .collect(),
            stores,
        }
    }

    /// All stores, in the order of issue.
    pub fn stores(&self) -> &[OrderedStore] {
        &self.stores
    }

    /// The store with this number.
    pub fn store(&self, number: StoreNumber) -> &OrderedStore {
        &self.stores[number.index()]
    }

    /// Whether no crash can keep `second` and lose `first`.
    pub fn persists_before(&self, first: StoreNumber, second: StoreNumber) -> bool {
        self.store(first).persists_before(self.store(second))
    }

    /// A store V of `thread` that persists between two others: the first is guaranteed when V is issued, at `from` or later, and V
    /// is guaranteed at `until`, when the second is issued. Of several the one that was issued first.
    ///
    /// Stores for which `is_other` does not hold are passed over. The question takes logarithmic time, once more for
    /// each of them that would be the answer.
    pub fn persisted_between(
        &self,
        thread: ThreadSlot,
        from: Time,
        until: Time,
        is_other: impl Fn(StoreNumber) -> bool,
    ) -> Option<StoreNumber> {
        let index = self.indexes.get(thread.index())?;
        index.first(from, until, &self.stores, is_other)
    }
}
