//! Pairs of stores and loads that can be concurrent (HawkSet, Algorithm 1).
//!
//! A pair is left out only if the load happened before the store, or if the store was durable, or overwritten, before the load, or if a
//! common lock keeps the load out of the whole time in between. Algorithm 1 compares the clock of the persist alone, and so leaves
//! out a store before the creation of the reading thread that is made durable after the thread was joined.
//!
//! Whether locks exclude a pair, and whether it has bytes in common, is decided once for all loads of a line that are alike but for their
//! order. Those of them that are concurrent with a store follow each other, because what a thread knows only grows: a search finds the
//! first and the last one. So a line that threads use in many rounds, each ordered after the one before, takes time in proportion to the
//! rounds, not to their square.

use std::collections::BTreeMap;

use brownout_model::{ByteMask, ThreadSlot, Time};
use brownout_trace::selection::Selection;
use brownout_trace::{FileId, FileRange};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accesses::{AccessGroup, LoadKind, StoreEnd, StoreExample, StoreLife};
use crate::lifetimes::Knowledge;
use crate::lines::LineNumber;
use crate::locks::{LocksetId, Protection};
use crate::observations::{Harm, ObservedPair, PairKey};
use crate::outcome::{
    ExcludedPair, RaceCounts, RaceOutcome, RacyAccess, RacyEnd, RacyLoad, RawRace,
};
use crate::sites::RaceSite;

/// The pairs of one store site and one load site that race.
#[derive(Clone, Copy)]
struct SitePair {
    count: u64,
    store: (StoreLife, StoreExample),
    load: (LoadKind, Time),
    line: LineNumber,
    bytes: ByteMask,
    observed: Option<ObservedPair>,
}

type KeyedPair = (PairKey, SitePair);

/// Stores to some bytes of a line.
#[derive(Clone, Copy)]
struct LineStores {
    group: AccessGroup,
    life: StoreLife,
    example: StoreExample,
}

impl LineStores {
    /// What decides with whom they can race, apart from order.
    fn alike(&self) -> (ThreadSlot, RaceSite, LocksetId, ByteMask) {
        let life = &self.life;
        (life.thread, life.site, life.locks, self.group.bytes)
    }
}

/// Loads of some bytes of a line.
#[derive(Clone, Copy)]
struct LineLoads {
    group: AccessGroup,
    kind: LoadKind,
}

impl LineLoads {
    /// What decides with whom they can race, apart from order.
    fn alike(&self) -> (ThreadSlot, RaceSite, LocksetId, ByteMask) {
        let kind = &self.kind;
        (kind.thread, kind.site, kind.locks, self.group.bytes)
    }
}

/// Compares the accesses of a run.
pub(crate) struct Pairing {
    knowledge: Knowledge,
    counts: RaceCounts,
    races: FxHashMap<PairKey, SitePair>,
    excluded: FxHashSet<ExcludedPair>,
}

impl Pairing {
    pub(crate) fn new(mut knowledge: Knowledge, selection: &Selection, counts: RaceCounts) -> Self {
        let (mut stores, mut loads) = knowledge.accesses.take_groups();
        let lines = &knowledge.lines;
        let is_persistent = |group: &AccessGroup| {
            let file = FileId(lines.address(group.line).space.0);
            selection.is_persistent(file)
        };
        for groups in [&mut stores, &mut loads] {
            groups.retain_mut(|group| {
                let words = &knowledge.lock_words;
                group.bytes = words.data(lines.address(group.line), group.bytes, group.first);
                !group.bytes.is_empty() && is_persistent(group)
            });
        }
        let mut pairing = Pairing {
            knowledge,
            counts,
            races: FxHashMap::default(),
            excluded: FxHashSet::default(),
        };
        pairing.compare_all(&stores, &loads);
        pairing.add_observed(selection);
        pairing
    }

    /// Compares the stores and loads of each line.
    fn compare_all(&mut self, stores: &[AccessGroup], loads: &[AccessGroup]) {
        let mut loads = loads;
        for stores in stores.chunk_by(|one, other| one.line == other.line) {
            let line = stores[0].line;
            let skipped = loads.partition_point(|load| load.line < line);
            loads = &loads[skipped..];
            let here = loads.partition_point(|load| load.line == line);
            let (here, later) = loads.split_at(here);
            self.compare_line(stores, here);
            loads = later;
        }
    }

    fn compare_line(&mut self, stores: &[AccessGroup], loads: &[AccessGroup]) {
        if loads.is_empty() {
            return;
        }
        let accesses = &self.knowledge.accesses;
        let stores = stores.iter().map(|&group| {
            let (life, example) = accesses.store_life(group.number);
            LineStores {
                group,
                life,
                example,
            }
        });
        let loads = loads.iter().map(|&group| LineLoads {
            group,
            kind: accesses.load_kind(group.number),
        });
        let (mut stores, mut loads): (Vec<_>, Vec<_>) = (stores.collect(), loads.collect());
        stores.sort_by_key(LineStores::alike);
        loads.sort_by_key(|load| (load.alike(), load.group.last));
        for stores in stores.chunk_by(|one, other| one.alike() == other.alike()) {
            for loads in loads.chunk_by(|one, other| one.alike() == other.alike()) {
                self.compare_alike(stores, loads);
            }
        }
    }

    /// Compares stores that are alike with loads that are alike, in their order.
    fn compare_alike(&mut self, stores: &[LineStores], loads: &[LineLoads]) {
        let (group, life, kind) = (&stores[0].group, &stores[0].life, &loads[0].kind);
        let bytes = group.bytes.and(loads[0].group.bytes);
        if bytes.is_empty() || life.thread == kind.thread {
            return;
        }
        let key = (life.site, kind.site);
        let protection = match self.knowledge.observations.has(key) {
            // It is a race, whatever is known of locks.
            true => Protection::None,
            false => self.knowledge.locks.protection(life.locks, kind.locks),
        };
        if protection == Protection::Known {
            return;
        }
        for store in stores {
            self.counts.comparisons += 1;
            let concurrent = concurrent(store, loads, &self.knowledge);
            let Some(first) = concurrent.first() else {
                continue;
            };
            if let Protection::RecognisedOnly(lock) = protection {
                self.excluded.insert(ExcludedPair {
                    store: key.0,
                    load: key.1,
                    lock: self.knowledge.locks.name(lock),
                });
                return;
            }
            let found = SitePair {
                count: 0,
                store: (store.life, store.example),
                load: (first.kind, first.group.first),
                line: group.line,
                bytes,
                observed: None,
            };
            let pair = self.races.entry(key).or_insert(found);
            let count = pair.count + concurrent.len() as u64;
            // The earliest example, however the accesses are grouped.
            if (found.store.1.time, found.load.1) < (pair.store.1.time, pair.load.1) {
                *pair = found;
            }
            pair.count = count;
        }
    }

    /// Adds what was observed to the pairs.
    fn add_observed(&mut self, selection: &Selection) {
        let observed: Vec<_> = self.knowledge.observations.pairs().collect();
        let lines = &self.knowledge.lines;
        for (key, pair) in observed {
            let file = FileId(lines.address(pair.line).space.0);
            if let Some(race) = self.races.get_mut(key)
                && selection.is_persistent(file)
            {
                race.observed = Some(*pair);
            }
        }
    }

    pub(crate) fn outcome<C>(mut self, selection: Selection, code: C) -> RaceOutcome<C> {
        let mut by_store: BTreeMap<RaceSite, Vec<KeyedPair>> = BTreeMap::new();
        for (key, pair) in std::mem::take(&mut self.races) {
            by_store.entry(key.0).or_default().push((key, pair));
        }
        let races = by_store.into_values().map(|pairs| self.race(pairs));
        let mut races: Vec<RawRace> = races.collect();
        races.sort_by_key(|race| (race.store.time, race.store.site));
        let races_of = |pair: &ExcludedPair| {
            let mut same_store = races.iter().filter(|race| race.store.site == pair.store);
            same_store.any(|race| race.loads.iter().any(|load| load.load.site == pair.load))
        };
        let mut excluded: Vec<ExcludedPair> = self.excluded.iter().copied().collect();
        excluded.retain(|pair| !races_of(pair));
        excluded.sort_unstable();
        self.counts.threads = {
            let threads = self.knowledge.threads.all();
            threads.filter(|thread| thread.has_accessed).count()
        };
        RaceOutcome {
            selection,
            races,
            by_recognised_locks: excluded,
            counts: self.counts,
            forced: std::mem::take(&mut self.knowledge.forced).outcome(),
            code,
        }
    }

    fn race(&self, mut pairs: Vec<KeyedPair>) -> RawRace {
        pairs.sort_by_key(|(key, pair)| {
            let observed = pair.observed.as_ref();
            let harm = observed.map_or(Harm::Unknown, |observed| observed.harm);
            let first = observed.map_or(pair.load.1, |observed| observed.load);
            (harm, observed.is_none(), first, key.1)
        });
        let count = pairs.iter().map(|(_, pair)| pair.count).sum();
        let (_, shown) = &pairs[0];
        let (life, example) = shown.store;
        let (line, bytes) = match &shown.observed {
            Some(observed) => (observed.line, observed.bytes),
            None => (shown.line, shown.bytes),
        };
        let address = self.knowledge.lines.address(line);
        let (start, len) = bytes.runs().next().unwrap_or((0, 0));
        let store_time = shown.observed.map_or(example.time, |pair| pair.store);
        let end = |site, by| {
            let locks = example.end_locks;
            self.access(site, example.end_time, by, locks)
        };
        RawRace {
            store: self.access(life.site, store_time, life.thread, example.locks),
            end: match life.end {
                StoreEnd::Persisted { by, site } => RacyEnd::Persisted(end(site, by)),
                StoreEnd::Overwritten { by, site } => RacyEnd::Overwritten(end(site, by)),
                StoreEnd::Never => RacyEnd::Never,
            },
            loads: pairs.iter().map(|(_, pair)| self.load(pair)).collect(),
            range: FileRange {
                file: FileId(address.space.0),
                offset: address.offset + start,
                len,
            },
            count,
        }
    }

    fn load(&self, pair: &SitePair) -> RacyLoad {
        let (kind, first) = pair.load;
        let observed = pair.observed.as_ref();
        let time = observed.map_or(first, |observed| observed.load);
        RacyLoad {
            load: self.access(kind.site, time, kind.thread, kind.locks),
            observed: observed.map_or(0, |observed| observed.count),
            harm: observed.map_or(Harm::Unknown, |observed| observed.harm),
        }
    }

    fn access(
        &self,
        site: RaceSite,
        time: Time,
        thread: brownout_model::ThreadSlot,
        locks: LocksetId,
    ) -> RacyAccess {
        let (process, thread) = self.knowledge.threads[thread].key;
        RacyAccess {
            site,
            time,
            process,
            thread,
            locks: self.knowledge.locks.members(locks).collect(),
        }
    }
}

/// Those of the loads, which are alike and in their order, that are concurrent with a store.
fn concurrent<'l>(
    store: &LineStores,
    loads: &'l [LineLoads],
    knowledge: &Knowledge,
) -> &'l [LineLoads] {
    let Some(first) = loads.first() else {
        return loads;
    };
    let reader = first.kind.thread;
    let knows = |clock, thread, time| {
        let component = knowledge.threads[thread].component;
        knowledge.clocks.knows(clock, component, time)
    };
    let is_before = |load: &LineLoads| knows(store.life.clock, reader, load.group.last);
    let loads = &loads[loads.partition_point(is_before)..];
    let Some(by) = store.life.end.by() else {
        return loads;
    };
    let end = store.group.last;
    // A thread does not know its own events, and needs not: what it has ended itself, it cannot read any more.
    let is_after = |load: &LineLoads| match store.life.end {
        _ if by != reader => knows(load.kind.clock, by, end),
        // A locked instruction is a fence before it loads, and stores after that.
        StoreEnd::Persisted { .. } => end <= load.group.last,
        _ => end < load.group.last,
    };
    &loads[..loads.partition_point(|load| !is_after(load))]
}
