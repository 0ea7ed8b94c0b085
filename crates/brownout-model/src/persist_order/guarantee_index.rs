//! The stores of one thread by the time of their guarantee, to find the one that was issued last among those that became guaranteed
//! within some time.
//!
//! A segment tree without pointers: node *n* has the children *2n* and *2n + 1*, and the leaves are the stores in the order of
//! their guarantees.

use std::ops::Range;

use super::run_order::{OrderedStore, StoreNumber};
use crate::address::Time;

/// The guaranteed stores of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct GuaranteeIndex {
    /// In the order of their guarantees.
    stores: Vec<StoreNumber>,
    /// For each inner node, the position of the store below it that was issued last.
    nodes: Vec<u32>,
}

impl GuaranteeIndex {
    /// `numbers` are those of the thread's guaranteed stores, in the order of issue.
    pub(super) fn new(mut numbers: Vec<StoreNumber>, all: &[OrderedStore]) -> Self {
        numbers.sort_by_key(|number| all[number.index()].guaranteed);
        numbers.shrink_to_fit();
        let count = numbers.len();
        let mut index = Self {
            nodes: vec![0; count],
            stores: numbers,
        };
        for node in (1..count).rev() {
            index.nodes[node] =
                index.newer(index.newest_of(2 * node), index.newest_of(2 * node + 1));
        }
        index
    }

    /// The position that a node stands for: inner nodes come first, then the stores.
    fn newest_of(&self, node: usize) -> u32 {
        match node.checked_sub(self.stores.len()) {
            Some(leaf) => leaf as u32,
            None => self.nodes[node],
        }
    }

    /// Of two positions, that of the store that was issued later.
    fn newer(&self, a: u32, b: u32) -> u32 {
        match self.stores[a as usize] < self.stores[b as usize] {
            true => b,
            false => a,
        }
    }

    /// The position of the store in `range` that was issued last.
    fn newest_in(&self, range: Range<usize>) -> Option<usize> {
        let count = self.stores.len();
        let (mut from, mut to) = (range.start + count, range.end + count);
        let mut newest: Option<u32> = None;
        let mut take = |node| {
            let found = self.newest_of(node);
            newest = Some(newest.map_or(found, |known| self.newer(known, found)));
        };
        while from < to {
            if from % 2 == 1 {
                take(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                take(to);
            }
            (from, to) = (from / 2, to / 2);
        }
        newest.map(|position| position as usize)
    }

    /// The store that was issued last, at `from` or later, of those that became guaranteed within the given time and that
    /// `is_wanted` accepts.
    pub(super) fn newest(
        &self,
        from: Time,
        (since, until): (Option<Time>, Time),
        all: &[OrderedStore],
        is_wanted: impl Fn(StoreNumber) -> bool,
    ) -> Option<StoreNumber> {
        let store = |number: &StoreNumber| &all[number.index()];
        let before = |time: Time| {
            let known = |number: &StoreNumber| store(number).guaranteed <= time;
            self.stores.partition_point(known)
        };
        let start = since.map_or(0, before);
        let mut found: Option<StoreNumber> = None;
        // A store that is not wanted divides its range in two.
        let mut ranges = vec![(start, before(until))];
        while let Some((start, end)) = ranges.pop() {
            let Some(position) = self.newest_in(start..end) else {
                continue;
            };
            let number = self.stores[position];
            if store(&number).issued < from || found.is_some_and(|found| number < found) {
                continue;
            }
            if is_wanted(number) {
                found = Some(number);
            } else {
                ranges.push((start, position));
                ranges.push((position + 1, end));
            }
        }
        found
    }
}
