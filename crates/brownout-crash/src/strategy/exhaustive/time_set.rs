//! A set of crash times.

use std::ops::Range;

/// Numbers of crash times, as ranges that are ordered and neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSet {
    ranges: Vec<Range<u32>>,
}

impl TimeSet {
    /// The earliest time.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|range| range.start)
    }

    /// The smallest range with all times.
    pub fn hull(&self) -> Range<u32> {
        let end = self.ranges.last().map_or(0, |range| range.end);
        self.first().unwrap_or(0)..end
    }

    pub fn contains(&self, time: u32) -> bool {
        self.parts(time..time + 1).next().is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        let ranges = self.ranges.iter();
        ranges.map(|range| u64::from(range.end - range.start)).sum()
    }

    /// The times in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(Range::clone)
    }

    /// The times of `within`, as ranges in order.
    pub fn parts(&self, within: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let first = self
            .ranges
            .partition_point(|range| range.end <= within.start);
        let ranges = self.ranges[first..].iter();
        let reached = ranges.take_while(move |range| range.start < within.end);
        reached.map(move |range| range.start.max(within.start)..range.end.min(within.end))
    }

    /// The ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> {
        self.ranges.iter().cloned()
    }

    /// The times from number `from` to number `to` of the set, in the order of time, as ranges.
    pub fn numbered(&self, from: u32, to: u32) -> impl Iterator<Item = Range<u32>> {
        let mut before = 0;
        let parts = self.ranges.iter().map(move |range| {
            let first = before;
            before += range.end - range.start;
            let start = range.start + from.clamp(first, before) - first;
            start..range.start + to.clamp(first, before) - first
        });
        parts.filter(|part| !part.is_empty())
    }

    /// Adds times after all others.
    pub fn push(&mut self, times: Range<u32>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == times.start => last.end = times.end,
            _ if times.is_empty() => {}
            _ => self.ranges.push(times),
        }
    }

    /// Adds the times of another set.
    pub fn unite(&mut self, other: &Self) {
        let mut ranges: Vec<Range<u32>> = self.ranges.drain(..).collect();
        ranges.extend(other.ranges.iter().cloned());
        ranges.sort_by_key(|range| range.start);
        for range in ranges {
            match self.ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.ranges.push(range),
            }
        }
    }
}

impl FromIterator<u32> for TimeSet {
    /// The numbers have to be in order.
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::default();
        for number in numbers {
            set.push(number..number + 1);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_times_are_one_range() {
        let set: TimeSet = [1, 2, 3, 7, 8].into_iter().collect();
        assert_eq!(set.ranges, [1..4, 7..9]);
        assert_eq!((set.first(), set.count()), (Some(1), 5));
        assert_eq!((set.hull(), TimeSet::default().hull()), (1..9, 0..0));
        assert!(set.contains(7) && !set.contains(6));
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 2, 3, 7, 8]);
        assert!(TimeSet::default().is_empty() && !set.is_empty());
    }

    #[test]
    fn parts_are_cut_at_both_ends() {
        let set: TimeSet = [1, 2, 3, 7, 8].into_iter().collect();
        let parts = |within| set.parts(within).collect::<Vec<_>>();
        assert_eq!(parts(2..8), [2..4, 7..8]);
        assert_eq!(parts(4..7), []);
        assert_eq!(parts(0..99), [1..4, 7..9]);
    }

    #[test]
    fn times_have_numbers_in_their_order() {
        let set: TimeSet = [1, 2, 3, 7, 8, 20].into_iter().collect();
        let numbered = |from, to| set.numbered(from, to).collect::<Vec<_>>();
        assert_eq!(numbered(0, 6), [1..4, 7..9, 20..21]);
        assert_eq!(numbered(2, 4), [3..4, 7..8]);
        assert_eq!(numbered(4, 6), [8..9, 20..21]);
        assert_eq!(numbered(3, 3), []);
    }

    #[test]
    fn a_union_has_the_times_of_both() {
        let mut set: TimeSet = [1, 2, 7].into_iter().collect();
        set.unite(&[0, 3, 7, 12].into_iter().collect());
        assert_eq!(set.ranges, [0..4, 7..8, 12..13]);
    }
}
