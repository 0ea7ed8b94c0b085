//! Runs recovery until each of its behaviours after one crash has been seen (Jaaru, §4, Explore).
//!
//! A run is started with the contents that are still possible. Where a load can see several byte strings, the run goes on
//! with one of them; for each of the others a later run is started, whose contents are narrowed to it. The choice is in these
//! contents, not in the number of the load: what the later run reads is possible also if its threads are scheduled in another way.
//!
//! All behaviours are found if recovery is a function of what it reads. If it also depends on a schedule or on time, every run
//! is still possible, but some that are possible may be missing.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::possible_memory::PossibleMemory;
use super::recovery_memory::{PathDigest, RecoveryMemory};

/// The runs of recovery that show all its behaviours after one crash of the target.
///
/// ```
/// use std::sync::Arc;
///
/// use brownout_model::*;
///
/// // The target stores data and then a valid flag in another line, and forgets to flush.
/// let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
/// let thread = run.add_thread();
/// let [data, valid] = [0, 64].map(|offset| PmAddress { space: SpaceId(0), offset });
/// run.store(Access { thread, time: Time(1) }, data, &[7], StoreKind::Cached);
/// run.store(Access { thread, time: Time(2) }, valid, &[1], StoreKind::Cached);
/// let history = Arc::new(run.finish());
/// let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
/// let end = history.crash_times()[0];
/// let crashed = PossibleMemory::new(Arc::new(zeros), history, end);
///
/// // Recovery reads the data only if it is valid: three behaviours instead of four states.
/// let mut seen = Vec::new();
/// let mut exploration = Exploration::new(crashed, 1);
/// while let Some(mut recovery) = exploration.next_run() {
///     let is_valid = recovery.load(valid, 1) == [1];
///     seen.push(is_valid.then(|| recovery.load(data, 1)[0]));
///     exploration.finish(recovery);
/// }
/// seen.sort();
/// assert_eq!(seen, [None, Some(0), Some(7)]); // valid, and the data is lost
/// ```
#[derive(Debug)]
pub struct Exploration {
    /// Contents to start runs with, and the path of the run that crashed.
    untried: Vec<(PossibleMemory, PathDigest)>,
    depth: usize,
    /// The paths at whose end a crash was tried.
    crashed: FxHashSet<PathDigest>,
}

impl Exploration {
    /// Explores recovery of `crashed`. At most `depth` runs crash in a row: with 1, recovery itself does not; with 2, it also
    /// crashes before each operation that narrows what may be lost of its stores, and recovery is run again.
    pub fn new(crashed: PossibleMemory, depth: usize) -> Self {
        Exploration {
            untried: vec![(crashed, PathDigest::default())],
            depth,
            crashed: FxHashSet::default(),
        }
    }

    /// The memory of the next run of recovery, which the caller executes and then [finishes](Self::finish); `None` if no behaviour is
    /// left.
    pub fn next_run(&mut self) -> Option<RecoveryMemory> {
        let (possible, path) = self.untried.pop()?;
        Some(RecoveryMemory::on_path(possible, path))
    }

    /// Adds the runs that a finished run shows to be needed.
    pub fn finish(&mut self, mut run: RecoveryMemory) {
        let path = run.start();
        let untried = std::mem::take(&mut run.untried).into_iter();
        self.untried
            .extend(untried.map(|possible| (possible, path)));
        if run.crashes_before() >= self.depth {
            return;
        }
        let (history, crashes) = run.finish();
        let history = Arc::new(history);
        for crash in crashes {
            // Runs that differ only in what they read later crash in the same way; the first one has the crash with all its states.
            if self.crashed.insert(crash.path) {
                let possible = crash.memory.crash(&history, crash.time);
                self.untried.push((possible, crash.path));
            }
        }
    }
}
