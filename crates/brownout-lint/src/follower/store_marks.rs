//! What is special about a live store, in one byte: when a store becomes guaranteed, one comparison decides that nothing is.

/// A set of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreMarks(u8);

impl StoreMarks {
    pub(crate) const NONE: StoreMarks = StoreMarks(0);
    /// It stored an object identifier of libpmemobj.
    pub(crate) const OBJECT_ID: StoreMarks = StoreMarks(1);
    /// A pointer to it was guaranteed before it.
    pub(crate) const TARGET: StoreMarks = StoreMarks(1 << 1);
    /// Its value may be a [pointer](super::pointers).
    pub(crate) const POINTER: StoreMarks = StoreMarks(1 << 2);
    /// Its value is a number that is no [offset](super::offsets), and its site was not known to store such numbers.
    pub(crate) const OTHER_NUMBER: StoreMarks = StoreMarks(1 << 3);
    /// Findings may not name its site.
    pub(crate) const LIBRARY: StoreMarks = StoreMarks(1 << 4);
    /// Its bytes were unmapped before they were flushed.
    pub(crate) const ABANDONED: StoreMarks = StoreMarks(1 << 5);
    /// It was reported as not fenced in time.
    pub(crate) const JUDGED: StoreMarks = StoreMarks(1 << 6);
    /// Its site copies for its callers: it may be one of several stores of one copy. That is nothing special when it becomes
    /// guaranteed.
    pub(crate) const COPY: StoreMarks = StoreMarks(1 << 7);

    #[inline]
    pub(crate) fn contain(self, mark: StoreMarks) -> bool {
        self.0 & mark.0 != 0
    }

    /// Whether there are marks that matter when the store becomes guaranteed.
    #[inline]
    pub(crate) fn are_special(self) -> bool {
        self.0 & !Self::COPY.0 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, mark: StoreMarks) {
        self.0 |= mark.0;
    }

    #[inline]
    pub(crate) fn with(self, marks: StoreMarks) -> Self {
        StoreMarks(self.0 | marks.0)
    }

    /// What overwrites a target is part of it.
    pub(crate) fn inherit(&mut self, overwritten: StoreMarks) {
        self.0 |= overwritten.0 & Self::TARGET.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_only_mark_that_is_not_special() {
        assert!(!StoreMarks::NONE.are_special() && !StoreMarks::COPY.are_special());
        for mark in (0..7).map(|bit| StoreMarks(1 << bit)) {
            assert!(mark.with(StoreMarks::COPY).are_special());
        }
    }

    #[test]
    fn only_being_a_target_is_inherited() {
        let mut newer = StoreMarks::POINTER;
        newer.inherit(StoreMarks::JUDGED.with(StoreMarks::OBJECT_ID));
        assert_eq!(newer, StoreMarks::POINTER);
        newer.inherit(StoreMarks::TARGET);
        assert_eq!(newer, StoreMarks::POINTER.with(StoreMarks::TARGET));
    }
}
