//! Which of two stores persists first: an interval order, computed without building a graph.
//!
//! A store that is guaranteed when another one is issued persists before it, and so does an earlier store of the same unit's
//! sequence. Two numbers for each store say all that Squint's persistence graph says with edges (Neal, §4.4.2). The order of all stores of
//! a run is a [`PersistOrder`].

mod builder;
mod guarantee_index;
mod object_order;
mod run_order;

pub use builder::PersistOrderBuilder;
pub use object_order::ObjectOrder;
pub use run_order::{OrderedStore, PersistOrder, StoreNumber};

use crate::address::{PmAddress, Time};
use crate::observer::StoreKind;

/// When a store was issued and when it became guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistInterval {
    /// The start of the [unit](crate::Profile::unit) stored to.
    pub unit: PmAddress,
    /// How the store travels to memory.
    pub kind: StoreKind,
    /// When the store was issued.
    pub issued: Time,
    /// When it became guaranteed; `None` if it has not.
    pub guaranteed: Option<Time>,
}

impl PersistInterval {
    /// Whether no crash can keep `other` and lose this store: either this store was guaranteed when `other`
    /// was issued, or it is earlier in the sequence of the same unit.
    pub fn persists_before(&self, other: &PersistInterval) -> bool {
        if self.guaranteed.is_some_and(|time| time <= other.issued) {
            return true;
        }
        let in_sequence = self.kind == StoreKind::Cached && other.kind == StoreKind::Cached;
        in_sequence && self.unit == other.unit && self.issued < other.issued
    }

    /// Whether a crash can keep either store without the other.
    ///
    /// ```
    /// use brownout_model::{PersistInterval, PmAddress, SpaceId, StoreKind, Time};
    ///
    /// let store = |offset, issued, guaranteed: Option<u64>| PersistInterval {
    ///     unit: PmAddress { space: SpaceId(0), offset },
    ///     kind: StoreKind::Cached,
    ///     issued: Time(issued),
    ///     guaranteed: guaranteed.map(Time),
    /// };
    /// let (first, other) = (store(0, 1, Some(5)), store(64, 4, Some(5)));
    /// assert!(first.is_unordered_with(&other));
    /// assert!(first.persists_before(&store(64, 6, None)));
    /// ```
    pub fn is_unordered_with(&self, other: &PersistInterval) -> bool {
        !self.persists_before(other) && !other.persists_before(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::SpaceId;

    fn interval(offset: u64, issued: u64, guaranteed: Option<u64>) -> PersistInterval {
        PersistInterval {
            unit: PmAddress {
                space: SpaceId(0),
                offset,
            },
            kind: StoreKind::Cached,
            issued: Time(issued),
            guaranteed: guaranteed.map(Time),
        }
    }

    #[test]
    fn a_guaranteed_store_persists_before_later_stores() {
        let (first, second) = (interval(0, 1, Some(3)), interval(64, 4, None));
        assert!(first.persists_before(&second));
        assert!(!second.persists_before(&first));
    }

    #[test]
    fn overlapping_stores_to_two_lines_are_unordered() {
        assert!(interval(0, 1, Some(5)).is_unordered_with(&interval(64, 4, Some(5))));
        assert!(interval(0, 1, None).is_unordered_with(&interval(64, 4, Some(5))));
    }

    #[test]
    fn stores_to_one_line_persist_in_program_order() {
        let (first, second) = (interval(0, 1, None), interval(0, 4, None));
        assert!(first.persists_before(&second));
        assert!(!second.persists_before(&first));
    }

    #[test]
    fn a_non_temporal_store_is_in_no_sequence() {
        let mut first = interval(0, 1, None);
        first.kind = StoreKind::NonTemporal;
        assert!(first.is_unordered_with(&interval(0, 4, None)));
    }
}
