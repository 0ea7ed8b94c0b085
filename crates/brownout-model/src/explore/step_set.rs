//! How many stores of a sequence can be present: a set of numbers.
//!
//! Jaaru (§4) keeps an interval for each line. Once equal bytes are merged, an interval is not enough: a word that goes
//! from 0 to 1 and back to 0 is read as 0 before the first and after the second store.

use std::ops::Range;

/// A set of numbers, as ranges that are ordered and neither overlap nor touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StepSet {
    ranges: Vec<Range<u32>>,
}

impl StepSet {
    /// The numbers from 0 to `last`.
    pub(super) fn up_to(last: u32) -> Self {
        StepSet {
            ranges: std::iter::once(0..last + 1).collect(),
        }
    }

    /// One number.
    pub(super) fn only(number: u32) -> Self {
        StepSet {
            ranges: std::iter::once(number..number + 1).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether there is one number.
    pub(super) fn is_one(&self) -> bool {
        matches!(&self.ranges[..], [range] if range.len() == 1)
    }

    /// The largest number.
    pub(super) fn last(&self) -> Option<u32> {
        self.ranges.last().map(|range| range.end - 1)
    }

    /// Splits the set into the numbers below `number`, and those from `number` on.
    pub(super) fn split(mut self, number: u32) -> (StepSet, StepSet) {
        let at = self.ranges.partition_point(|range| range.end <= number);
        let mut from = self.ranges.split_off(at);
        if let Some(first) = from.first_mut()
            && first.start < number
        {
            self.ranges.push(first.start..number);
            first.start = number;
        }
        (self, StepSet { ranges: from })
    }

    /// The numbers of all sets together.
    pub(super) fn union(sets: impl IntoIterator<Item = StepSet>) -> Self {
        let mut all: Vec<Range<u32>> = sets.into_iter().flat_map(|set| set.ranges).collect();
        all.sort_unstable_by_key(|range| range.start);
        all.dedup_by(|range, last| {
            let joins = range.start <= last.end;
            if joins {
                last.end = last.end.max(range.end);
            }
            joins
        });
        StepSet { ranges: all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> StepSet {
        StepSet::union(numbers.iter().map(|&number| StepSet::only(number)))
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(set(&[2, 0, 1]), StepSet::up_to(2));
        assert_eq!(set(&[0, 2]).ranges.len(), 2);
    }

    #[test]
    fn a_split_divides_a_range() {
        let (below, from) = StepSet::up_to(4).split(2);
        assert_eq!((below, from), (set(&[0, 1]), set(&[2, 3, 4])));
        let (below, from) = set(&[0, 4]).split(2);
        assert_eq!((below, from), (set(&[0]), set(&[4])));
        let (below, from) = set(&[3]).split(3);
        assert!(below.is_empty());
        assert_eq!(from, set(&[3]));
    }

    #[test]
    fn a_set_has_gaps() {
        let (below, from) = set(&[0, 1, 5]).split(2);
        assert_eq!((below.last(), from.last()), (Some(1), Some(5)));
        assert_eq!(set(&[]).last(), None);
    }
}
