//! A set of bytes of a file that takes a bounded amount of memory.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ranges in a set; if there are more, neighbouring bytes are put together.
const MOST: usize = 4096;
/// The bytes that are put together when there are too many ranges: a cache line, then more and more.
const FIRST_GRAIN: u64 = 64;
const GRAIN_FACTOR: u64 = 8;

/// A set of bytes, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRanges {
    /// The end of each range by its start.
    by_start: BTreeMap<u64, u64>,
    /// Ranges start and end at multiples of this.
    grain: u64,
    /// Ranges that the set may have before bytes are put together.
    most: usize,
}

impl Default for ByteRanges {
    fn default() -> Self {
        Self {
            by_start: BTreeMap::new(),
            grain: 1,
            most: MOST,
        }
    }
}

impl ByteRanges {
    /// An empty set that takes as much memory as its ranges need.
    pub fn exact() -> Self {
        Self {
            most: usize::MAX,
            ..Self::default()
        }
    }

    /// The ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.by_start.iter().map(|(&start, &end)| start..end)
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|range| range.end - range.start).sum()
    }

    /// Whether one of these bytes is in the set.
    pub fn overlaps(&self, range: Range<u64>) -> bool {
        let before = self.by_start.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(_, &end)| end > range.start)
    }

    /// Adds bytes, and others near them if there are too many ranges: the set is never too small.
    pub fn insert(&mut self, range: Range<u64>) {
        self.join(range);
        while self.by_start.len() > self.most {
            self.grain = (self.grain * GRAIN_FACTOR).max(FIRST_GRAIN);
            for (start, end) in std::mem::take(&mut self.by_start) {
                self.join(start..end);
            }
        }
    }

    /// Adds exactly these bytes, or nothing if there are too many ranges: the set is never too large.
    pub(crate) fn insert_if_room(&mut self, range: Range<u64>) {
        if self.by_start.len() < self.most {
            self.join(range);
        }
    }

    /// The parts of a range that are not in the set.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let before = self.by_start.range(..=at).next_back();
        if let Some((_, &end)) = before {
            at = at.max(end);
        }
        for (&start, &end) in self.by_start.range(at..range.end.max(at)) {
            if start > at {
                parts.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            parts.push(at..range.end);
        }
        parts
    }

    /// The parts of a range that are in the set.
    pub fn common(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let first = self.by_start.range(..=range.start).next_back();
        let from = first.map_or(range.start, |(&start, _)| start);
        let parts = self.by_start.range(from..range.end.max(from));
        let parts = parts.map(|(&start, &end)| start.max(range.start)..end.min(range.end));
        parts.filter(|part| !part.is_empty()).collect()
    }

    fn join(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut start = range.start - range.start % self.grain;
        let mut end = range
            .end
            .checked_next_multiple_of(self.grain)
            .unwrap_or(u64::MAX);
        while let Some((&first, &last)) = self.by_start.range(..=end).next_back()
            && last >= start
        {
            start = start.min(first);
            end = end.max(last);
            self.by_start.remove(&first);
        }
        self.by_start.insert(start, end);
    }
}

/// As a list of pairs: where a range starts and where it ends.
impl Serialize for ByteRanges {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.ranges().map(|range| (range.start, range.end)))
    }
}

impl<'de> Deserialize<'de> for ByteRanges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut set = Self::exact();
        for (start, end) in Vec::<(u64, u64)>::deserialize(from)? {
            set.insert(start..end);
        }
        set.most = MOST;
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::single_range_in_vec_init,
        reason = "a list of one range is meant"
    )]

    use super::*;

    fn set(ranges: &[Range<u64>]) -> ByteRanges {
        let mut set = ByteRanges::default();
        for range in ranges {
            set.insert(range.clone());
        }
        set
    }

    fn listed(set: &ByteRanges) -> Vec<Range<u64>> {
        set.ranges().collect()
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let set = set(&[8..16, 0..4, 4..8, 32..40, 20..22, 30..34]);
        assert_eq!(listed(&set), [0..16, 20..22, 30..40]);
        assert_eq!(set.bytes(), 28);
    }

    #[test]
    fn a_range_overlaps_if_it_shares_a_byte() {
        let set = set(&[8..16]);
        assert!(set.overlaps(15..20) && set.overlaps(0..9) && set.overlaps(0..99));
        assert!(!set.overlaps(16..20) && !set.overlaps(0..8));
        let empty = 9..9;
        assert!(!set.overlaps(empty));
    }

    #[test]
    fn what_is_missing_of_a_range_is_found() {
        let set = set(&[8..16, 24..32]);
        assert_eq!(set.missing(0..40), [0..8, 16..24, 32..40]);
        assert_eq!(set.missing(10..28), [16..24]);
        assert_eq!(set.missing(8..16), []);
        assert_eq!(set.missing(16..20), [16..20]);
    }

    #[test]
    fn what_is_common_with_a_range_is_found() {
        let set = set(&[8..16, 24..32]);
        assert_eq!(set.common(0..40), [8..16, 24..32]);
        assert_eq!(set.common(10..28), [10..16, 24..28]);
        assert_eq!(set.common(16..24), []);
        assert_eq!(set.common(9..10), [9..10]);
    }

    #[test]
    fn many_ranges_become_fewer_and_lose_no_byte() {
        let scattered: Vec<Range<u64>> = (0..20_000).map(|n| n * 96..n * 96 + 1).collect();
        let all = set(&scattered);
        assert!(all.ranges().count() <= MOST);
        assert!(scattered.iter().all(|range| all.overlaps(range.clone())));
        let mut exact = ByteRanges::default();
        scattered
            .iter()
            .for_each(|range| exact.insert_if_room(range.clone()));
        assert_eq!(exact.bytes(), MOST as u64);
    }

    #[test]
    fn a_stored_set_is_a_list_of_starts_and_ends() {
        let set = set(&[8..16, 24..32]);
        let stored = postcard::to_stdvec(&set).unwrap();
        assert_eq!(stored, [2, 8, 16, 24, 32]);
        assert_eq!(postcard::from_bytes::<ByteRanges>(&stored).unwrap(), set);
    }
}
