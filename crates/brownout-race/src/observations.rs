//! Loads that have read, in this run, what a crash could still lose, and what their threads did with it.
//!
//! A thread depends on what it has read if it stores into what a pointer points to that it has read, also through further pointers
//! that it reads there, or if it stores the value that it has read. Values that are small numbers are too common to be recognised
//! again.
//!
//! Can miss: values that are computed from what was read, decisions, and everything that leaves the process by a system call.

use brownout_model::{ByteMask, ThreadSlot, Time};
use brownout_trace::FileRange;
use rustc_hash::FxHashMap;

use crate::lines::LineNumber;
use crate::sites::RaceSite;

/// How many of the last observed loads of a thread its stores are compared with.
const TAINTS: usize = 16;
/// How many pointers are followed from one of them.
const TARGETS: usize = 8;
/// Values below this are not recognised again.
const DISTINCTIVE: u64 = 0x1_0000;

/// A store and a load that were observed to race.
pub(crate) type PairKey = (RaceSite, RaceSite);

/// A load that has read what a crash could still lose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedLoad {
    pub(crate) pair: PairKey,
    pub(crate) line: LineNumber,
    pub(crate) bytes: ByteMask,
    /// When the store was made that it has read.
    pub(crate) source: Time,
    pub(crate) time: Time,
    /// The eight bytes that it has read, if it has read as many.
    pub(crate) value: Option<u64>,
    /// Where the value points to, if it is a pointer or an offset.
    pub(crate) target: Option<FileRange>,
    /// Its thread has flushed the line since.
    pub(crate) flushed: bool,
}

/// What the thread of an observed load has done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Harm {
    /// It has made durable what depends on it.
    Dependent {
        /// The store that depends on it.
        store: Time,
        site: RaceSite,
        how: Dependence,
        /// Whether that was durable before the data that it depends on.
        overtook: bool,
    },
    /// Not known.
    Unknown,
}

/// How a store depends on a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dependence {
    /// It stores to where a pointer points that was loaded.
    Target,
    /// It stores the value that was loaded.
    Copy,
}

/// All observed loads of one pair of sites.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedPair {
    pub(crate) count: u64,
    /// The first one.
    pub(crate) store: Time,
    pub(crate) load: Time,
    pub(crate) line: LineNumber,
    pub(crate) bytes: ByteMask,
    pub(crate) harm: Harm,
}

/// A store that depends on an observed load, until it is durable.
#[derive(Clone, Copy, Debug)]
struct Dependent {
    pair: PairKey,
    source: Time,
    how: Dependence,
}

/// Identifies a store that depends on an observed load; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DependentId(u32);

/// A thread that has made a store durable, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persist {
    pub(crate) by: ThreadSlot,
    pub(crate) time: Time,
}

/// What a thread has read lately that a crash could lose.
#[derive(Debug, Default)]
pub(crate) struct Taints {
    taints: Vec<Taint>,
}

#[derive(Clone, Debug)]
struct Taint {
    pair: PairKey,
    line: LineNumber,
    bytes: ByteMask,
    source: Time,
    /// When it was loaded.
    time: Time,
    /// As it was loaded, and only if it is distinctive.
    loaded: Option<u64>,
    value: Option<u64>,
    targets: Vec<FileRange>,
}

impl Taints {
    pub(crate) fn add(&mut self, load: &ObservedLoad) {
        if self.taints.len() == TAINTS {
            self.taints.remove(0);
        }
        self.taints.push(Taint {
            pair: load.pair,
            line: load.line,
            bytes: load.bytes,
            source: load.source,
            time: load.time,
            loaded: load.value,
            value: load.value.filter(|&value| value >= DISTINCTIVE),
            targets: load.target.into_iter().collect(),
        });
    }

    /// What was loaded at `time` is durable now.
    pub(crate) fn remove(&mut self, time: Time) {
        self.taints.retain(|taint| taint.time != time);
    }

    /// The thread loads `value` from a line, of which a crash cannot lose the `durable` bytes. If it is the value that it loaded when a
    /// crash could lose it, what the thread stores from now on depends on what is durable.
    pub(crate) fn read_again(&mut self, line: LineNumber, durable: ByteMask, value: u64) {
        let is_read = |taint: &Taint| {
            let known = (taint.line, taint.loaded);
            known == (line, Some(value)) && taint.bytes.without(durable).is_empty()
        };
        self.taints.retain(|taint| !is_read(taint));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taints.is_empty()
    }

    /// The thread loads `target`, the address of something, from `range`.
    pub(crate) fn loaded_pointer(&mut self, range: FileRange, target: FileRange) {
        for taint in &mut self.taints {
            if taint.targets.len() < TARGETS
                && taint.targets.iter().any(|known| contains(known, range))
                && !taint.targets.contains(&target)
            {
                taint.targets.push(target);
            }
        }
    }

    /// The last load that a store to `range` depends on.
    fn dependence(&self, range: FileRange, bytes: &[u8]) -> Option<Dependent> {
        let found = self.taints.iter().rev().find_map(|taint| {
            let into_target = taint.targets.iter().any(|known| contains(known, range));
            let is_copy = || taint.value.is_some_and(|value| has_word(bytes, value));
            let how = match into_target {
                true => Dependence::Target,
                false if is_copy() => Dependence::Copy,
                false => return None,
            };
            Some((taint, how))
        });
        found.map(|(taint, how)| Dependent {
            pair: taint.pair,
            source: taint.source,
            how,
        })
    }
}

fn contains(range: &FileRange, other: FileRange) -> bool {
    range.file == other.file
        && other.offset >= range.offset
        && other.offset - range.offset < range.len
}

fn has_word(bytes: &[u8], value: u64) -> bool {
    let mut words = bytes.chunks_exact(8);
    words.any(|word| word == value.to_le_bytes())
}

/// All observed loads of a run.
#[derive(Default)]
pub(crate) struct Observations {
    pairs: FxHashMap<PairKey, ObservedPair>,
    dependents: Vec<Dependent>,
    /// Stores that were read before they were durable, and what made them durable since.
    sources: FxHashMap<Time, Option<Persist>>,
}

impl Observations {
    /// A load is observed for good: its thread has not persisted what it has read before it stored something.
    pub(crate) fn add(&mut self, load: &ObservedLoad) {
        let pair = self.pairs.entry(load.pair).or_insert(ObservedPair {
            count: 0,
            store: load.source,
            load: load.time,
            line: load.line,
            bytes: load.bytes,
            harm: Harm::Unknown,
        });
        pair.count += 1;
    }

    /// A store was read that a crash could still lose.
    pub(crate) fn read(&mut self, source: Time) {
        self.sources.entry(source).or_insert(None);
    }

    /// A store is durable.
    pub(crate) fn persisted(&mut self, source: Time, persist: Persist) {
        if self.sources.is_empty() {
            return;
        }
        if let Some(end) = self.sources.get_mut(&source) {
            end.get_or_insert(persist);
        }
    }

    /// A thread with these taints stores to `range`.
    pub(crate) fn stored(
        &mut self,
        taints: &Taints,
        range: FileRange,
        bytes: &[u8],
    ) -> DependentId {
        match taints.dependence(range, bytes) {
            None => DependentId::default(),
            Some(dependent) => {
                self.dependents.push(dependent);
                DependentId(self.dependents.len() as u32)
            }
        }
    }

    /// A store that may depend on an observed load is durable. `knows` says whether something happened before the store.
    pub(crate) fn dependent_persisted(
        &mut self,
        dependent: DependentId,
        (store, site): (Time, RaceSite),
        knows: impl FnOnce(Persist) -> bool,
    ) {
        let Some(index) = dependent.0.checked_sub(1) else {
            return;
        };
        let dependent = self.dependents[index as usize];
        let persist = self.sources.get(&dependent.source).copied().flatten();
        if persist.is_some_and(knows) {
            return;
        }
        let harm = Harm::Dependent {
            store,
            site,
            how: dependent.how,
            overtook: persist.is_none(),
        };
        if let Some(pair) = self.pairs.get_mut(&dependent.pair)
            && is_worse(harm, pair.harm)
        {
            pair.harm = harm;
        }
    }

    pub(crate) fn has(&self, pair: PairKey) -> bool {
        self.pairs.contains_key(&pair)
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&PairKey, &ObservedPair)> {
        self.pairs.iter()
    }
}

/// The first harm counts, unless a later one is clearer.
fn is_worse(new: Harm, known: Harm) -> bool {
    let rank = |harm| match harm {
        Harm::Dependent { overtook: true, .. } => 2,
        Harm::Dependent { .. } => 1,
        Harm::Unknown => 0,
    };
    rank(new) > rank(known)
}
