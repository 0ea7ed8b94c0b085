//! Where suspects occur in a run, and at which failure points they are tried.
//!
//! Of a store that may be lost, several occurrences are tried, from the first to the last, each at up to four instants
//! while it is not guaranteed: when something else was stored since; when something stored later is guaranteed; when its
//! operation has ended; and at the last failure point before it is guaranteed, or of the run. Of a fence, several
//! occurrences are tried, each at the failure point before it: all that it orders is stored then, and nothing guaranteed.

use std::collections::VecDeque;

use brownout_model::Profile;
use brownout_trace::{Definitions, Event, EventIndex, EventKind, FileId};
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

/// Which store is lost in an image, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) point: FailurePoint,
    pub(super) store: EventIndex,
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
    unit: UnitKey,
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
    fn losses(&self) -> impl Iterator<Item = Loss> + use<> {
        let instants = [self.overtaken, self.followed, self.ended, self.last];
        let store = self.store;
        let points = instants.into_iter().flatten();
        points.map(move |point| Loss { point, store })
    }
}

/// An occurrence of a fence: the failure point before it, and the stores to lose.
#[derive(Clone, Copy, Debug)]
struct OpenFence {
    point: FailurePoint,
    victims: [Option<EventIndex>; VICTIMS],
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
pub(super) struct Instances {
    unit: u64,
    suspects: Vec<Followed>,
    stores: FxHashMap<Instruction, Vec<usize>>,
    fences: FxHashMap<Instruction, Vec<usize>>,
    stored: Newest,
    guaranteed: Newest,
    /// The last failure point.
    last: Option<FailurePoint>,
}

impl Instances {
    pub(super) fn new(suspects: &[Suspect], profile: &Profile) -> Self {
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
            unit: profile.unit,
            suspects: followed.collect(),
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
        for followed in &mut self.suspects {
            for live in followed.first.iter_mut().chain(&mut followed.newest) {
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
        let EventKind::Store { addr, .. } = event.kind else {
            return;
        };
        let process = definitions.process(event.process);
        let range = process.and_then(|process| process.address_space().resolve(addr, 1));
        let Some(range) = range else {
            return;
        };
        let unit = (range.file, range.offset - range.offset % self.unit);
        self.stored.add(unit, event.index.0);
        for &number in self
            .stores
            .get(&Instruction::of(event))
            .into_iter()
            .flatten()
        {
            self.suspects[number].add(Live {
                store: event.index,
                unit,
                completed,
                followed: None,
                overtaken: None,
                ended: None,
                last: None,
            });
        }
    }

    /// Stores of suspects that are guaranteed are over.
    fn settle(&mut self, guaranteed: &[GuaranteedPart]) {
        let last = self.last;
        let is_over = |live: &Live| guaranteed.iter().any(|part| part.store == live.store);
        for followed in &mut self.suspects {
            let Followed {
                first,
                newest,
                over,
                ..
            } = followed;
            let mut end = |live: &mut Live| {
                let ended = is_over(live);
                if ended {
                    live.last = last.filter(|point| point.occurrence.event > live.store);
                    over.offer(*live);
                }
                !ended
            };
            first.retain_mut(&mut end);
            newest.retain_mut(&mut end);
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
        let mut units: Vec<_> = units.into_values().collect();
        units.sort_unstable_by_key(|&(first, newest)| (newest, first));
        // To lose the newest alone is what program order leaves a little earlier.
        units.pop();
        let Some(point) = self.last.filter(|_| !units.is_empty()) else {
            return;
        };
        let mut victims = [None; VICTIMS];
        let before = units
            .iter()
            .filter(|(_, newest)| *newest < point.occurrence.event);
        for (victim, (first, _)) in victims.iter_mut().zip(before) {
            *victim = Some(*first);
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
            for live in followed.first.iter_mut().chain(&mut followed.newest) {
                live.last = last.filter(|point| point.occurrence.event > live.store);
            }
            let losses = followed.losses();
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

impl Followed {
    fn add(&mut self, live: Live) {
        self.seen = true;
        if self.first.len() < FIRST {
            self.first.push(live);
            return;
        }
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(live);
    }

    /// One loss of each occurrence in turn.
    fn losses(&self) -> Vec<Loss> {
        let mut occurrences: Vec<Vec<Loss>> = Vec::new();
        let live = self.first.iter().chain(self.newest.iter().rev()).copied();
        let over = self.over.is_offered().then(|| self.over.chosen());
        let stores = live.chain(over.into_iter().flatten());
        occurrences.extend(stores.map(|live| live.losses().collect()));
        let fences = self.fences.is_offered().then(|| self.fences.chosen());
        for fence in fences.into_iter().flatten() {
            let victims = fence.victims.into_iter().flatten();
            let losses = victims.map(|store| Loss {
                point: fence.point,
                store,
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
