//! Where suspects occur in a run, and at which failure points they are tried.
//!
//! Of a store that may be lost, several occurrences are tried, from the first to the last, each at up to four instants
//! while it is not guaranteed: when something else was stored since; when something stored later is guaranteed; when its
//! operation has ended; and at the last failure point before it is guaranteed, or of the run. A store to several units is
//! lost as a whole, and in its first or its last unit alone; it is guaranteed when all of it is. Of a fence, several
//! occurrences are tried, each at the failure point before it: all that it orders is stored then, and nothing guaranteed.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use brownout_model::{Profile, line_parts};
use brownout_trace::selection::Selection;
use brownout_trace::{Address, Definitions, Event, EventIndex, EventKind, FileId, FileRange};
use rustc_hash::FxHashMap;

use super::{Instruction, NoImage, Suspect, Suspicion};
use crate::even_sample::EvenSample;
use crate::failure_point::FailurePoint;
use crate::persistency::GuaranteedPart;

/// Occurrences that are followed at the same time: the first ones, and the newest ones.
const FIRST: usize = 2;
const NEWEST: usize = 3;
/// Occurrences that are over which are tried.
const SAMPLED: usize = 3;
/// Lines of one fence that are lost in turn.
const VICTIMS: usize = 3;

/// A unit of the model: a line, or a page.
type UnitKey = (FileId, u64);

/// Which store is lost in an image, in which units, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) point: FailurePoint,
    pub(super) store: EventIndex,
    pub(super) units: (FileId, Range<u64>),
}

/// The newest of some stores, and the newest of those to another unit.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    unit: Option<UnitKey>,
    event: u64,
    elsewhere: u64,
}

impl Newest {
    fn add(&mut self, unit: UnitKey, event: u64) {
        if self.unit != Some(unit) {
            if event < self.event {
                self.elsewhere = self.elsewhere.max(event);
                return;
            }
            self.elsewhere = self.event;
            self.unit = Some(unit);
        }
        self.event = self.event.max(event);
    }

    /// Whether one of them is newer than `event` and in another unit.
    fn is_past(&self, unit: UnitKey, event: u64) -> bool {
        let newest = if self.unit == Some(unit) {
            self.elsewhere
        } else {
            self.event
        };
        newest > event
    }
}

/// A store of a suspect that is not guaranteed yet.
#[derive(Clone, Copy, Debug)]
struct Live {
    store: EventIndex,
    /// The first unit, and where the last one starts.
    unit: UnitKey,
    last_unit: u64,
    /// Lines with a part that is not guaranteed.
    lines: u64,
    /// Operations that were complete.
    completed: u64,
    /// Something else was stored since.
    followed: Option<FailurePoint>,
    /// Something stored later is guaranteed.
    overtaken: Option<FailurePoint>,
    /// Its operation has ended.
    ended: Option<FailurePoint>,
    last: Option<FailurePoint>,
}

impl Live {
    /// What to lose of it, and when. Another `turn` begins with another part of a store to several units.
    fn losses(&self, unit: u64, turn: usize) -> Vec<Loss> {
        let (file, first) = self.unit;
        let last = self.last_unit;
        let whole = first..last + unit;
        let mut parts = vec![whole];
        if first != last {
            parts.extend([first..first + unit, last..last + unit]);
            parts.rotate_left(turn % 3);
        }
        let instants = [self.overtaken, self.followed, self.ended, self.last];
        let points = instants.into_iter().flatten();
        let losses = points.flat_map(|point| {
            let store = self.store;
            parts.iter().map(move |part| Loss {
                point,
                store,
                units: (file, part.clone()),
            })
        });
        losses.collect()
    }
}

/// An occurrence of a fence: the failure point before it, and the stores to lose, each in one unit.
#[derive(Clone, Copy, Debug)]
struct OpenFence {
    point: FailurePoint,
    victims: [Option<(UnitKey, EventIndex)>; VICTIMS],
}

/// What is known about one suspect.
#[derive(Debug)]
struct Followed {
    first: Vec<Live>,
    newest: VecDeque<Live>,
    over: EvenSample<Live>,
    fences: EvenSample<OpenFence>,
    seen: bool,
}

/// Follows the occurrences of suspects through a run.
pub(super) struct Instances<'a> {
    selection: &'a Selection,
    unit: u64,
    suspects: Vec<Followed>,
    /// For each store that is followed, the suspects that follow it.
    followers: FxHashMap<EventIndex, Vec<usize>>,
    /// The suspects that follow a store.
    following: BTreeSet<usize>,
    stores: FxHashMap<Instruction, Vec<usize>>,
    fences: FxHashMap<Instruction, Vec<usize>>,
    stored: Newest,
    guaranteed: Newest,
    /// The last failure point.
    last: Option<FailurePoint>,
}

impl<'a> Instances<'a> {
    pub(super) fn new(suspects: &[Suspect], selection: &'a Selection, profile: &Profile) -> Self {
        let mut stores: FxHashMap<Instruction, Vec<usize>> = FxHashMap::default();
        let mut fences: FxHashMap<Instruction, Vec<usize>> = FxHashMap::default();
        for (number, suspect) in suspects.iter().enumerate() {
            match &suspect.suspicion {
                Suspicion::LostStore(sites) => {
                    for &site in sites {
                        stores.entry(site).or_default().push(number);
                    }
                }
                Suspicion::OpenOrder(site) => fences.entry(*site).or_default().push(number),
            }
        }
        let followed = suspects.iter().map(|_| Followed {
            first: Vec::new(),
            newest: VecDeque::new(),
            over: EvenSample::new(SAMPLED),
            fences: EvenSample::new(SAMPLED),
            seen: false,
        });
        Self {
            selection,
            unit: profile.unit,
            suspects: followed.collect(),
            followers: FxHashMap::default(),
            following: BTreeSet::new(),
            stores,
            fences,
            stored: Newest::default(),
            guaranteed: Newest::default(),
            last: None,
        }
    }

    /// A failure point is reached, before the event that it precedes takes effect.
    pub(super) fn reach(&mut self, point: FailurePoint) {
        self.last = Some(point);
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

    /// An event has taken effect, and these parts of stores have become guaranteed by it. `completed` operations are over.
    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
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
            if let Some(numbers) = self.fences.get(&Instruction::of(event)) {
                self.open_fence(&numbers.clone(), guaranteed);
            }
        }
        let EventKind::Store { addr, bytes, .. } = event.kind else {
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
            self.store(event, range, completed);
        }
    }

    /// A store to one range of a file.
    fn store(&mut self, event: &Event<'_>, range: FileRange, completed: u64) {
        let unit = |offset: u64| offset - offset % self.unit;
        let first = (range.file, unit(range.offset));
        let last_unit = unit(range.offset + range.len - 1);
        self.stored.add(first, event.index.0);
        let Some(numbers) = self.stores.get(&Instruction::of(event)) else {
            return;
        };
        let live = Live {
            store: event.index,
            unit: first,
            last_unit,
            lines: line_parts(range.offset, range.len).count() as u64,
            completed,
            followed: None,
            overtaken: None,
            ended: None,
            last: None,
        };
        for &number in numbers {
            let dropped = self.suspects[number].add(live);
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
            let Followed {
                first,
                newest,
                over,
                ..
            } = &mut self.suspects[number];
            let mut end = |live: &mut Live| {
                let ended = live.lines == 0;
                if ended {
                    let last = self.last;
                    live.last = last.filter(|point| point.occurrence.event > live.store);
                    over.offer(*live);
                    forget(&mut self.followers, live.store, number);
                }
                !ended
            };
            first.retain_mut(&mut end);
            newest.retain_mut(&mut end);
            if first.is_empty() && newest.is_empty() {
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

    /// The losses with which each suspect is tried, the most promising first, or why there are none. `end` is the last
    /// instant of the run.
    pub(super) fn finish(
        self,
        end: Option<FailurePoint>,
        cut: bool,
    ) -> Vec<Result<Vec<Loss>, NoImage>> {
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
        results.collect()
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

impl Followed {
    /// Follows a store; returns the one that is not followed any more because of it.
    fn add(&mut self, live: Live) -> Option<Live> {
        self.seen = true;
        if self.first.len() < FIRST {
            self.first.push(live);
            return None;
        }
        let is_full = self.newest.len() == NEWEST;
        let dropped = is_full.then(|| self.newest.pop_front()).flatten();
        self.newest.push_back(live);
        dropped
    }

    fn live_mut(&mut self) -> impl Iterator<Item = &mut Live> {
        self.first.iter_mut().chain(&mut self.newest)
    }

    /// One loss of each occurrence in turn.
    fn losses(&self, unit: u64) -> Vec<Loss> {
        let mut occurrences: Vec<Vec<Loss>> = Vec::new();
        let live = self.first.iter().chain(self.newest.iter().rev()).copied();
        let over = self.over.is_offered().then(|| self.over.chosen());
        let stores = live.chain(over.into_iter().flatten());
        let stores = stores.enumerate();
        occurrences.extend(stores.map(|(turn, live)| live.losses(unit, turn)));
        let fences = self.fences.is_offered().then(|| self.fences.chosen());
        for fence in fences.into_iter().flatten() {
            let victims = fence.victims.into_iter().flatten();
            let losses = victims.map(|((file, start), store)| Loss {
                point: fence.point,
                store,
                units: (file, start..start + unit),
            });
            occurrences.push(losses.collect());
        }
        let queues = occurrences.into_iter().map(VecDeque::from).collect();
        let mut losses: Vec<Loss> = Vec::new();
        for loss in crate::strategy::in_turns(queues) {
            if !losses.contains(&loss) {
                losses.push(loss);
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_in_another_unit_is_known_without_keeping_all() {
        let (a, b, c) = ((FileId(0), 0), (FileId(0), 64), (FileId(0), 128));
        let mut newest = Newest::default();
        newest.add(a, 5);
        assert!(!newest.is_past(a, 3), "only the same unit");
        assert!(newest.is_past(b, 3));
        newest.add(b, 7);
        newest.add(b, 9);
        assert!(newest.is_past(a, 6) && newest.is_past(b, 4));
        assert!(!newest.is_past(b, 6));
        newest.add(c, 8);
        assert!(newest.is_past(b, 7), "an older one elsewhere counts");
        assert!(!newest.is_past(c, 9));
    }
}
