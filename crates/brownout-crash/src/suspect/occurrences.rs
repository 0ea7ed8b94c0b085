//! Where suspects occur in a run, and at which failure points they are tried.
//!
//! Of a store that may be lost, several occurrences are tried: the one that lint has seen comes first, then some from the first to
//! the last, each at several [instants](super::live_store). If lint says that the store never becomes guaranteed,
//! occurrences that do are another matter and not tried. Of a fence, several
//! occurrences are tried, each at the failure point before it: all that it orders is stored then, and nothing guaranteed.

use std::collections::BTreeSet;

use brownout_model::{Profile, line_parts};
use brownout_trace::selection::Selection;
use brownout_trace::{Address, Definitions, Event, EventIndex, EventKind, FileRange};
use rustc_hash::{FxHashMap, FxHashSet};

use super::followed::{Followed, OpenFence, VICTIMS};
use super::live_store::{LiveStore, Loss, Newest, UnitKey};
use super::open_orders::{OpenOrders, OrderLosses};
use super::open_syncs::{OpenSyncs, PAGE};
use super::{NoImage, Suspect, SuspectSite, Suspicion};
use crate::failure_point::{FailurePoint, StackId};
use crate::persistency::GuaranteedPart;

/// Follows the occurrences of suspects through a run.
pub(super) struct SuspectOccurrences<'a> {
    selection: &'a Selection,
    unit: u64,
    suspects: Vec<Followed>,
    /// For each store that is followed, the suspects that follow it.
    followers: FxHashMap<EventIndex, Vec<usize>>,
    /// The suspects that follow a store.
    following: BTreeSet<usize>,
    stores: FxHashMap<SuspectSite, Vec<usize>>,
    /// The events of stores that lint has seen, and their suspects.
    own: FxHashSet<(EventIndex, usize)>,
    fences: FxHashMap<SuspectSite, Vec<usize>>,
    stored: Newest,
    guaranteed: Newest,
    /// The last failure point.
    last: Option<FailurePoint>,
    syncs: OpenSyncs,
    /// Of what is written back at once: units, or pages if the target only writes back pages.
    orders: OpenOrders,
}

/// The losses that are tried.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// For each suspect, the most promising first; or why there are none.
    pub(super) suspects: Vec<Result<Vec<Loss>, NoImage>>,
    /// For each write-back of several pages.
    pub(super) syncs: Vec<Vec<Loss>>,
    pub(super) orders: OrderLosses,
}

impl<'a> SuspectOccurrences<'a> {
    /// `only_pages` if the target writes back pages and never flushes lines.
    pub(super) fn new(
        suspects: &[Suspect],
        selection: &'a Selection,
        profile: &Profile,
        only_pages: bool,
    ) -> Self {
        let mut stores: FxHashMap<SuspectSite, Vec<usize>> = FxHashMap::default();
        let mut fences: FxHashMap<SuspectSite, Vec<usize>> = FxHashMap::default();
        let mut own = FxHashSet::default();
        for (number, suspect) in suspects.iter().enumerate() {
            match &suspect.suspicion {
                Suspicion::LostStore { stores: lost, .. } => {
                    for store in lost {
                        let suspects = stores.entry(store.site).or_default();
                        if !suspects.contains(&number) {
                            suspects.push(number);
                        }
                        own.insert((store.event, number));
                    }
                }
                Suspicion::OpenOrder(site) => fences.entry(*site).or_default().push(number),
            }
        }
        let followed = suspects.iter();
        let followed = followed.map(|suspect| Followed::new(suspect.suspicion.is_forever()));
        Self {
            selection,
            unit: profile.unit,
            suspects: followed.collect(),
            followers: FxHashMap::default(),
            following: BTreeSet::new(),
            stores,
            own,
            fences,
            stored: Newest::default(),
            guaranteed: Newest::default(),
            last: None,
            syncs: OpenSyncs::default(),
            orders: match only_pages {
                true => OpenOrders::new(profile.unit.max(PAGE), false),
                // What is written back in larger units is not torn inside a line.
                false => OpenOrders::new(profile.unit, profile.lines_of_unit() == 1),
            },
        }
    }

    /// A failure point is reached, before the event that it precedes takes effect.
    pub(super) fn reach(&mut self, point: FailurePoint) {
        self.last = Some(point);
        self.orders.reach(point);
        let (stored, guaranteed) = (self.stored, self.guaranteed);
        let completed = point.occurrence.operation.completed;
        for &number in &self.following {
            for live in self.suspects[number].live_mut() {
                let event = live.store.0;
                if stored.is_past(live.unit, event) {
                    live.followed.get_or_insert(point);
                }
                if guaranteed.is_past(live.unit, event) {
                    live.overtaken.get_or_insert(point);
                }
                if completed > live.completed {
                    live.ended.get_or_insert(point);
                }
            }
        }
    }

    /// A state between stores is reached, before the next store takes effect.
    pub(super) fn reach_between(&mut self, state: FailurePoint) {
        self.orders.reach_between(state);
    }

    /// An event has taken effect, and these parts of stores have become guaranteed by it. `completed` operations are over.
    /// `stack` is the calling context, if it is a store and open orders are wanted.
    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
        stack: Option<StackId>,
        definitions: &Definitions,
        completed: u64,
        guaranteed: &[GuaranteedPart],
    ) {
        for part in guaranteed {
            let unit = (part.file, part.offset - part.offset % self.unit);
            self.guaranteed.add(unit, part.store.0);
        }
        if !guaranteed.is_empty() {
            self.settle(guaranteed);
            self.syncs.observe(event, guaranteed, self.last);
            self.orders.guaranteed(guaranteed);
            if let Some(numbers) = self.fences.get(&SuspectSite::of(event)) {
                self.open_fence(&numbers.clone(), guaranteed);
            }
        }
        let written = match event.kind {
            EventKind::FileWrite { file, .. } | EventKind::FileResize { file, .. } => Some(file),
            _ => None,
        };
        if written.is_some_and(|file| self.selection.is_persistent(file)) {
            self.orders.overtake(event.index);
        }
        let EventKind::Store {
            addr,
            bytes,
            locked,
            ..
        } = event.kind
        else {
            return;
        };
        let Some(process) = definitions.process(event.process) else {
            return;
        };
        let (mut addr, mut left) = (addr, bytes.len() as u64);
        while left > 0 {
            let Some(range) = process.address_space().resolve(addr, left) else {
                break;
            };
            if !self.selection.is_persistent(range.file) {
                break;
            }
            addr = Address(addr.0.wrapping_add(range.len));
            left -= range.len;
            self.store(event, stack, range, completed, locked);
        }
    }

    /// A persistent file has another name since before this event.
    pub(super) fn rename(&mut self, before: EventIndex) {
        self.orders.overtake(before);
    }

    /// A store to one range of a file.
    fn store(
        &mut self,
        event: &Event<'_>,
        stack: Option<StackId>,
        range: FileRange,
        completed: u64,
        is_locked: bool,
    ) {
        let unit = |offset: u64| offset - offset % self.unit;
        let first = (range.file, unit(range.offset));
        let last_unit = unit(range.offset + range.len - 1);
        self.stored.add(first, event.index.0);
        let site = SuspectSite::of(event);
        let last = range.offset + range.len - 1;
        let start = (range.file, range.offset);
        let source = (site, stack);
        self.orders
            .store(start, last, event.index, source, is_locked);
        let Some(numbers) = self.stores.get(&site) else {
            return;
        };
        let live = LiveStore {
            store: event.index,
            unit: first,
            last_unit,
            lines: line_parts(range.offset, range.len).count() as u64,
            completed,
            is_over: false,
            followed: None,
            overtaken: None,
            ended: None,
            last: None,
        };
        for &number in numbers {
            let is_own = self.own.contains(&(event.index, number));
            let dropped = self.suspects[number].add(live, is_own);
            self.following.insert(number);
            self.followers.entry(live.store).or_default().push(number);
            if let Some(dropped) = dropped {
                forget(&mut self.followers, dropped.store, number);
            }
        }
    }

    /// Stores of suspects that are guaranteed are over.
    fn settle(&mut self, guaranteed: &[GuaranteedPart]) {
        let mut settled: BTreeSet<usize> = BTreeSet::new();
        for part in guaranteed {
            let unit = part.offset - part.offset % self.unit;
            let followers = self.followers.get(&part.store).into_iter().flatten();
            let followers: BTreeSet<usize> = followers.copied().collect();
            for number in followers {
                for live in self.suspects[number].live_mut() {
                    let is_part = live.store == part.store
                        && live.unit.0 == part.file
                        && (live.unit.1..=live.last_unit).contains(&unit);
                    live.lines -= u64::from(is_part && live.lines > 0);
                    if is_part && live.lines == 0 {
                        settled.insert(number);
                    }
                }
            }
        }
        for number in settled {
            let followed = &mut self.suspects[number];
            for ended in followed.settle(self.last) {
                forget(&mut self.followers, ended, number);
            }
            if followed.live_mut().next().is_none() {
                self.following.remove(&number);
            }
        }
    }

    /// A fence of some suspects has guaranteed these parts.
    fn open_fence(&mut self, suspects: &[usize], guaranteed: &[GuaranteedPart]) {
        // For each unit its first and its newest store.
        let mut units: FxHashMap<UnitKey, (EventIndex, EventIndex)> = FxHashMap::default();
        for part in guaranteed {
            let unit = (part.file, part.offset - part.offset % self.unit);
            let (first, newest) = units.entry(unit).or_insert((part.store, part.store));
            *first = part.store.min(*first);
            *newest = part.store.max(*newest);
        }
        let mut units: Vec<_> = units.into_iter().collect();
        units.sort_unstable_by_key(|&(unit, (first, newest))| (newest, first, unit));
        // To lose the newest alone is what program order leaves a little earlier.
        units.pop();
        let Some(point) = self.last.filter(|_| !units.is_empty()) else {
            return;
        };
        let mut victims = [None; VICTIMS];
        let before = units
            .iter()
            .filter(|(_, (_, newest))| *newest < point.occurrence.event);
        for (victim, &(unit, (first, _))) in victims.iter_mut().zip(before) {
            *victim = Some((unit, first));
        }
        for &number in suspects {
            self.suspects[number].seen = true;
            self.suspects[number]
                .fences
                .offer(OpenFence { point, victims });
        }
    }

    /// The losses to try. `end` is the last instant of the run.
    pub(super) fn finish(self, end: Option<FailurePoint>, cut: bool) -> Found {
        let last = end.or(self.last);
        let results = self.suspects.into_iter().map(|mut followed| {
            for live in followed.live_mut() {
                live.last = last.filter(|point| point.occurrence.event > live.store);
            }
            let losses = followed.losses(self.unit);
            match (losses.is_empty(), followed.seen) {
                (false, _) => Ok(losses),
                (true, _) if cut => Err(NoImage::TooManyStores),
                (true, true) => Err(NoImage::NothingToLose),
                (true, false) => Err(NoImage::NotReached),
            }
        });
        Found {
            suspects: results.collect(),
            syncs: self.syncs.losses().collect(),
            orders: self.orders.losses(),
        }
    }
}

/// A suspect no longer follows a store.
fn forget(followers: &mut FxHashMap<EventIndex, Vec<usize>>, store: EventIndex, suspect: usize) {
    if let Some(numbers) = followers.get_mut(&store) {
        let at = numbers.iter().position(|&number| number == suspect);
        at.map(|at| numbers.swap_remove(at));
        if numbers.is_empty() {
            followers.remove(&store);
        }
    }
}
