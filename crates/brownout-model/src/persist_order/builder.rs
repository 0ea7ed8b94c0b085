//! Follows a run and finds the persist order of its stores.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::run_order::{NEVER, NO_UNIT, OrderedStore, PersistOrder, StoreNumber};
use crate::address::{LINE, PmAddress, SpaceId, ThreadSlot, line_parts};
use crate::byte_mask::ByteMask;
use crate::line_marks::Marks;
use crate::live_stores::LiveStore;
use crate::observer::{Access, FlushEffect, PersistObserver, StoreKind};
use crate::profile::Profile;
use crate::shadow::LineRef;
use crate::tracker::Tracker;

/// Takes the effects of a run in order, and yields its [`PersistOrder`].
///
/// ```
/// use brownout_model::*;
///
/// let mut builder = PersistOrderBuilder::new(Profile::ADR);
/// let thread = builder.add_thread();
/// let by = |time| Access { thread, time: Time(time) };
/// let at = |offset| PmAddress { space: SpaceId(0), offset };
///
/// let data = builder.store(by(1), at(0), 8, StoreKind::Cached);
/// let flag = builder.store(by(2), at(64), 8, StoreKind::Cached);
/// builder.flush(by(3), at(0), FlushEffect::Deferred);
/// builder.fence(by(4));
/// let late = builder.store(by(5), at(128), 8, StoreKind::Cached);
///
/// let order = builder.finish();
/// assert!(order.persists_before(data, late));
/// // A crash can keep either of these without the other: nothing orders the two lines.
/// assert!(!order.persists_before(data, flag) && !order.persists_before(flag, data));
/// ```
pub struct PersistOrderBuilder {
    tracker: Tracker<IntervalGuarantees>,
    guarantees: IntervalGuarantees,
}

/// The stores so far, completed as their parts become guaranteed.
#[derive(Default)]
struct IntervalGuarantees {
    stores: Vec<OrderedStore>,
    /// For stores to several lines, how many of their parts a crash can lose.
    open_parts: FxHashMap<StoreNumber, u32>,
}

impl IntervalGuarantees {
    /// Adds parts of a store, each in one line.
    fn add(&mut self, by: Access, unit: PmAddress, parts: u32) -> StoreNumber {
        let next = StoreNumber(self.stores.len() as u32);
        match self.stores.last_mut() {
            Some(last) if last.issued == by.time => {
                let number = StoreNumber(next.0 - 1);
                let is_open = u32::from(last.guaranteed == NEVER);
                *self.open_parts.entry(number).or_insert(is_open) += parts;
                last.unit.offset = NO_UNIT;
                last.guaranteed = NEVER;
                number
            }
            _ => {
                self.stores.push(OrderedStore {
                    thread: by.thread,
                    issued: by.time,
                    guaranteed: NEVER,
                    unit,
                });
                if parts > 1 {
                    self.open_parts.insert(next, parts);
                }
                next
            }
        }
    }

    /// A crash can no longer lose a part of a store.
    fn complete(&mut self, number: StoreNumber, by: Access) {
        if let Some(open) = self.open_parts.get_mut(&number) {
            *open -= 1;
            if *open > 0 {
                return;
            }
            self.open_parts.remove(&number);
        }
        self.stores[number.index()].guaranteed = by.time;
    }
}

impl PersistObserver for IntervalGuarantees {
    type Store = StoreNumber;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(
        &mut self,
        _: LineRef<'_>,
        _: Marks<'_>,
        store: &LiveStore<StoreNumber>,
        by: Access,
    ) {
        self.complete(store.tag, by);
    }
}

impl PersistOrderBuilder {
    /// For a run on a machine of this kind.
    pub fn new(profile: Profile) -> Self {
        Self {
            tracker: Tracker::new(profile),
            guarantees: IntervalGuarantees::default(),
        }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.tracker.add_thread()
    }

    /// Processes a store to `len` bytes. Stores at the same time are one: an instruction that stores to several mappings.
    pub fn store(&mut self, by: Access, at: PmAddress, len: u64, kind: StoreKind) -> StoreNumber {
        let profile = *self.tracker.profile();
        let first = at.offset - at.offset % profile.unit;
        let last = at.offset + len.max(1) - 1;
        let is_in_sequence = kind == StoreKind::Cached || profile.non_temporal == profile.cached;
        let unit = match is_in_sequence && last < first + profile.unit {
            true => first,
            false => NO_UNIT,
        };
        let unit = PmAddress { offset: unit, ..at };
        let parts = line_parts(at.offset, len).count() as u32;
        let number = self.guarantees.add(by, unit, parts);
        for (offset, mask, _) in line_parts(at.offset, len) {
            let line = self.tracker.line(PmAddress { offset, ..at });
            let guarantees = &mut self.guarantees;
            self.tracker.store(guarantees, by, line, mask, kind, number);
        }
        number
    }

    /// Processes a flush of the line that contains `at`.
    pub fn flush(&mut self, by: Access, at: PmAddress, effect: FlushEffect) {
        let line = self.tracker.line(at);
        self.tracker
            .flush(&mut self.guarantees, by, line, effect, ());
    }

    /// Processes a fence.
    pub fn fence(&mut self, by: Access) {
        self.tracker.fence(&mut self.guarantees, by);
    }

    /// Processes a write-back by the kernel.
    pub fn write_back(&mut self, by: Access, space: SpaceId, range: Range<u64>) {
        self.tracker
            .write_back(&mut self.guarantees, by, space, range);
    }

    /// Processes that bytes are removed or replaced by other means: there is nothing left of their stores that a crash can lose.
    pub fn discard(&mut self, by: Access, space: SpaceId, range: Range<u64>) {
        let guarantees = &mut self.guarantees;
        let gone = range.clone();
        self.tracker.retain(space, range, |line, _, store| {
            let from = gone.start.saturating_sub(line.offset).min(LINE);
            let to = gone.end.saturating_sub(line.offset).min(LINE);
            store.bytes = store.bytes.without(ByteMask::range(from, to - from));
            if store.bytes.is_empty() && !store.guaranteed {
                guarantees.complete(store.tag, by);
            }
            !store.bytes.is_empty()
        });
    }

    /// The order of all stores.
    pub fn finish(self) -> PersistOrder {
        PersistOrder::new(self.guarantees.stores)
    }
}
