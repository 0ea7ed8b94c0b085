//! What concerns all lines of a range: writing back, discarding, and the states that a crash can leave.

use std::ops::Range;

use super::Tracker;
use crate::address::{LINE, LineSlot, PAGE, PmAddress, SpaceId};
use crate::byte_mask::ByteMask;
use crate::crash_states::CrashStates;
use crate::live_stores::LiveStore;
use crate::observer::{Access, PersistObserver};
use crate::unit_states::Tearing;

impl<W: PersistObserver> Tracker<W> {
    /// Processes a write-back by the kernel of the pages that contain bytes of `range`.
    pub fn write_back(&mut self, observer: &mut W, by: Access, space: SpaceId, range: Range<u64>) {
        for (_, first) in self.pages.live_pages_in(space, range) {
            for number in 0..PAGE / LINE {
                self.guarantee(observer, by, first.in_page(number), |_| true);
            }
        }
    }

    /// The stores to bytes of `range` that are not settled, ordered by address, then by issue.
    pub fn live_in(
        &self,
        space: SpaceId,
        range: Range<u64>,
    ) -> impl Iterator<Item = (PmAddress, LineSlot, &LiveStore<W::Store>)> {
        let pages = self.pages.live_pages_in(space, range.clone()).into_iter();
        let lines = pages.flat_map(|(offset, first)| {
            (0..PAGE / LINE).map(move |number| (offset + number * LINE, first.in_page(number)))
        });
        lines.flat_map(move |(offset, line)| {
            let inside = bytes_in(offset, &range);
            let stores = self.live(line);
            stores
                .filter(move |store| !store.bytes.and(inside).is_empty())
                .map(move |store| (PmAddress { space, offset }, line, store))
        })
    }

    /// Calls `visit` with every live store to bytes of `range`, ordered by address, then by issue. It returns
    /// whether to keep the store.
    pub fn retain(
        &mut self,
        space: SpaceId,
        range: Range<u64>,
        mut visit: impl FnMut(PmAddress, LineSlot, &mut LiveStore<W::Store>) -> bool,
    ) {
        for (offset, first) in self.pages.live_pages_in(space, range.clone()) {
            for number in 0..PAGE / LINE {
                let start = offset + number * LINE;
                let inside = bytes_in(start, &range);
                let line = first.in_page(number);
                if self.live_bytes(line).and(inside).is_empty() {
                    continue;
                }
                let address = self.address(line);
                let page = &mut self.pages[line];
                self.live.retain(page, line.number(), |store| {
                    store.bytes.and(inside).is_empty() || visit(address, line, store)
                });
            }
        }
    }

    /// Drops live stores to the bytes of `range`, which no longer exist or were replaced by other means. Calls `dropped` with
    /// the tag of each store of which no byte is left.
    pub fn discard(
        &mut self,
        space: SpaceId,
        range: Range<u64>,
        mut dropped: impl FnMut(&W::Store),
    ) {
        let gone = range.clone();
        self.retain(space, range, |address, _, store| {
            store.bytes = store.bytes.without(bytes_in(address.offset, &gone));
            if store.bytes.is_empty() {
                dropped(&store.tag);
            }
            !store.bytes.is_empty()
        });
    }

    /// The states that a crash at this time can leave. Needs [history](PersistObserver::HISTORY).
    pub fn crash_states(&self, tearing: Tearing) -> CrashStates<W::Store> {
        self.states_of(self.pages.live_pages(), tearing, |_| true)
    }

    /// Like [`crash_states`](Self::crash_states), of the units that contain bytes of `range` alone.
    pub fn crash_states_in(
        &self,
        space: SpaceId,
        range: Range<u64>,
        tearing: Tearing,
    ) -> CrashStates<W::Store> {
        let (units, pages) = self.live_units(space, range);
        self.states_of(pages, tearing, |line| units.contains(&line.offset))
    }

    /// How many stores a crash now can lose of the units that contain bytes of `range`, by their parts in lines. Counts up to `most`.
    pub fn live_stores_in(&self, space: SpaceId, range: Range<u64>, most: usize) -> usize {
        let (units, pages) = self.live_units(space, range);
        let live = self.live_lines(pages, |line| units.contains(&line.offset));
        live.flat_map(|(_, stores)| stores).take(most).count()
    }

    /// The bytes of the units that contain bytes of `range`, and their pages with stores that a crash can lose.
    fn live_units(
        &self,
        space: SpaceId,
        range: Range<u64>,
    ) -> (Range<u64>, Vec<(PmAddress, LineSlot)>) {
        let unit = self.profile.unit;
        let end = range.end.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        let units = range.start - range.start % unit..end;
        let pages = self.pages.live_pages_in(space, units.clone()).into_iter();
        let pages = pages.map(|(offset, first)| (PmAddress { space, offset }, first));
        (units, pages.collect())
    }

    fn states_of(
        &self,
        pages: impl IntoIterator<Item = (PmAddress, LineSlot)>,
        tearing: Tearing,
        wanted: impl Fn(PmAddress) -> bool,
    ) -> CrashStates<W::Store> {
        let live = self.live_lines(pages, wanted);
        CrashStates::new(&self.profile, tearing, live)
    }

    /// The lines with stores that a crash can lose, with these stores.
    fn live_lines(
        &self,
        pages: impl IntoIterator<Item = (PmAddress, LineSlot)>,
        wanted: impl Fn(PmAddress) -> bool,
    ) -> impl Iterator<Item = (PmAddress, impl Iterator<Item = &LiveStore<W::Store>>)> {
        let lines = pages.into_iter().flat_map(|(address, first)| {
            (0..PAGE / LINE).map(move |number| {
                let offset = address.offset + number * LINE;
                (PmAddress { offset, ..address }, first.in_page(number))
            })
        });
        lines
            .filter(move |&(address, _)| wanted(address))
            .filter(|&(_, line)| self.has_live(line))
            .map(|(address, line)| (address, self.live(line)))
    }
}

/// The bytes of the line at `start` that are in `range`.
fn bytes_in(start: u64, range: &Range<u64>) -> ByteMask {
    let from = range.start.saturating_sub(start).min(LINE);
    let to = range.end.saturating_sub(start).min(LINE);
    ByteMask::range(from, to.saturating_sub(from))
}
