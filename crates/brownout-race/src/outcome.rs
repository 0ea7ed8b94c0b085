//! The races of a run, in terms of the trace.

use brownout_model::Time;
use brownout_trace::selection::Selection;
use brownout_trace::{FileRange, LockMode, ProcessId, ThreadId};

use crate::forced::ForcedOutcome;
use crate::locks::{LockName, LockSource};
use crate::observations::Harm;
use crate::sites::RaceSite;

/// The result of a pass.
pub struct RaceOutcome<C> {
    /// Which files are persistent memory.
    pub selection: Selection,
    /// One for each store in its calling context, in the order in which the stores were first made.
    pub races: Vec<RawRace>,
    /// Pairs that only a lock keeps apart which was recognised by its instructions.
    pub by_recognised_locks: Vec<ExcludedPair>,
    pub counts: RaceCounts,
    /// What holding threads has shown, if a race was forced.
    pub forced: ForcedOutcome,
    /// As it was given to the detector.
    pub code: C,
}

/// What was examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaceCounts {
    /// Loads from all candidates, and stores of the user to them.
    pub loads: u64,
    pub stores: u64,
    /// Threads that have accessed persistent files.
    pub threads: usize,
    /// Comparisons: of the stores to some bytes with one order, thread, site and lockset, with all such loads that differ in order.
    pub comparisons: u64,
}

/// A store that other threads can load before it is durable.
#[derive(Clone, Debug)]
pub struct RawRace {
    pub store: RacyAccess,
    pub end: RacyEnd,
    /// Those with the worst harm first, then those observed, then by time.
    pub loads: Vec<RacyLoad>,
    /// The bytes that are loaded, of the first pair.
    pub range: FileRange,
    /// How many pairs of accesses race.
    pub count: u64,
}

/// An access that is part of a race; of several, the first.
#[derive(Clone, Debug)]
pub struct RacyAccess {
    pub site: RaceSite,
    pub time: Time,
    pub process: ProcessId,
    pub thread: ThreadId,
    /// The locks that its thread held.
    pub locks: Vec<(LockName, LockMode, LockSource)>,
}

/// What ended the time in which a store could be lost.
#[derive(Clone, Debug)]
pub enum RacyEnd {
    Persisted(RacyAccess),
    Overwritten(RacyAccess),
    Never,
}

/// A load that can read a store before it is durable.
#[derive(Clone, Debug)]
pub struct RacyLoad {
    pub load: RacyAccess,
    /// How often it has done that in this run.
    pub observed: u64,
    pub harm: Harm,
}

impl RawRace {
    /// Whether a load has read the store in this run before it was durable.
    pub fn is_observed(&self) -> bool {
        self.loads.iter().any(|load| load.observed > 0)
    }

    /// The load to look at first.
    pub fn first_load(&self) -> &RacyLoad {
        &self.loads[0]
    }
}

/// Two sites whose accesses a recognised lock keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExcludedPair {
    pub store: RaceSite,
    pub load: RaceSite,
    pub lock: LockName,
}
