//! Which of two stores persists first: an interval order, asked without building any graph.

use crate::address::{PmAddress, Time};
use crate::tracker::StoreKind;

/// When a store was issued, and from when on it was guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistInterval {
    /// The start of the [unit](crate::Profile::unit) stored to.
    pub unit: PmAddress,
    pub kind: StoreKind,
    pub issued: Time,
    /// `None` while it is not.
    pub guaranteed: Option<Time>,
}

impl PersistInterval {
    /// No crash can leave `other` in persistent memory without this store having been there: it was
    /// guaranteed when `other` was issued, or comes earlier in the sequence of the same unit.
    pub fn persists_before(&self, other: &PersistInterval) -> bool {
        if self.guaranteed.is_some_and(|time| time <= other.issued) {
            return true;
        }
        let in_sequence = self.kind == StoreKind::Cached && other.kind == StoreKind::Cached;
        in_sequence && self.unit == other.unit && self.issued < other.issued
    }

    /// Either can be in persistent memory without the other.
    pub fn is_open_to(&self, other: &PersistInterval) -> bool {
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
    fn a_store_that_was_guaranteed_persists_before_later_ones() {
        let (first, second) = (interval(0, 1, Some(3)), interval(64, 4, None));
        assert!(first.persists_before(&second));
        assert!(!second.persists_before(&first));
    }

    #[test]
    fn overlapping_stores_to_two_lines_are_open() {
        assert!(interval(0, 1, Some(5)).is_open_to(&interval(64, 4, Some(5))));
        assert!(interval(0, 1, None).is_open_to(&interval(64, 4, Some(5))));
    }

    #[test]
    fn stores_to_one_line_persist_in_their_order() {
        let (first, second) = (interval(0, 1, None), interval(0, 4, None));
        assert!(first.persists_before(&second));
        assert!(!second.persists_before(&first));
    }

    #[test]
    fn a_non_temporal_store_is_in_no_sequence() {
        let mut first = interval(0, 1, None);
        first.kind = StoreKind::NonTemporal;
        assert!(first.is_open_to(&interval(0, 4, None)));
    }
}
