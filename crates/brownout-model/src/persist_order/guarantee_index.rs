//! The stores of one thread in the order of issue, to find the first one of those that were guaranteed by some time.
//!
//! A segment tree without pointers: node *n* has the children *2n* and *2n + 1*, and the leaves are the stores. Their number is
//! rounded up to a power of two, so that the leaves below a node are neighbours.

use std::ops::Range;

use super::run_order::{OrderedStore, StoreNumber};
use crate::address::Time;

/// Stands for a node without stores.
const NONE: u32 = u32::MAX;

/// The guaranteed stores of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct GuaranteeIndex {
    /// In the order of issue.
    stores: Vec<StoreNumber>,
    /// For each inner node, the position of the store below it that was guaranteed first.
    nodes: Vec<u32>,
}

impl GuaranteeIndex {
    /// `numbers` are those of the thread's guaranteed stores, in the order of issue.
    pub(super) fn new(mut numbers: Vec<StoreNumber>, all: &[OrderedStore]) -> Self {
        numbers.shrink_to_fit();
        let leaves = numbers.len().next_power_of_two();
        let mut index = Self {
            nodes: vec![NONE; leaves],
            stores: numbers,
        };
        for node in (1..leaves).rev() {
            let [left, right] = [2 * node, 2 * node + 1].map(|child| index.first_of(child));
            let time = |position| index.guaranteed(position, all);
            index.nodes[node] = if time(right) < time(left) {
                right
            } else {
                left
            };
        }
        index
    }

    /// The position that a node stands for.
    fn first_of(&self, node: usize) -> u32 {
        match node.checked_sub(self.nodes.len()) {
            Some(leaf) if leaf < self.stores.len() => leaf as u32,
            Some(_) => NONE,
            None => self.nodes[node],
        }
    }

    /// When the store at a position was guaranteed; later than all others if there is none.
    fn guaranteed(&self, position: u32, all: &[OrderedStore]) -> Time {
        let number = self.stores.get(position as usize);
        number.map_or(Time(u64::MAX), |number| all[number.index()].guaranteed)
    }

    /// The first position from `start` on, below a node with the leaves in `range`, whose store is guaranteed at `until`.
    fn first_in(
        &self,
        (node, range): (usize, Range<usize>),
        start: usize,
        until: Time,
        all: &[OrderedStore],
    ) -> Option<usize> {
        let first = self.first_of(node);
        if range.end <= start || first == NONE || self.guaranteed(first, all) > until {
            return None;
        }
        if range.len() == 1 {
            return Some(range.start);
        }
        let middle = range.start.midpoint(range.end);
        let left = self.first_in((2 * node, range.start..middle), start, until, all);
        left.or_else(|| self.first_in((2 * node + 1, middle..range.end), start, until, all))
    }

    /// The store that was issued first, at `from` or later, of those that are guaranteed at `until` and that `is_wanted` accepts.
    pub(super) fn first(
        &self,
        from: Time,
        until: Time,
        all: &[OrderedStore],
        is_wanted: impl Fn(StoreNumber) -> bool,
    ) -> Option<StoreNumber> {
        let is_before = |number: &StoreNumber| all[number.index()].issued < from;
        let mut start = self.stores.partition_point(is_before);
        loop {
            let root = (1, 0..self.nodes.len());
            let position = self.first_in(root, start, until, all)?;
            let number = self.stores[position];
            if is_wanted(number) {
                return Some(number);
            }
            start = position + 1;
        }
    }
}
