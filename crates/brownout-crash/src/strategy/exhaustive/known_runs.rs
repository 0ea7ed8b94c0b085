//! What runs have shown, kept to build the tree of behaviours anew.
//!
//! A crash inside recovery makes bytes differ that recovery has written, in addition to those that the target has. Which these are
//! is known only once recovery has run. Runs that have read such bytes before must be observed again, because it is not known when
//! they read them. Crashes inside a recovery that writes such bytes wait until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use brownout_model::StoreHistory;
use brownout_recovery::{ByteRanges, Observation, RecoveryActions};
use brownout_trace::ReadError;

use super::admission::ActedRun;
use super::crash_times::Start;
use crate::crash_point::CrashPoint;
use crate::recovery_run::RecoveryRun;

/// A run of recovery that was observed.
#[derive(Clone)]
pub struct KnownRun {
    pub point: CrashPoint,
    pub start: Start,
    pub observation: Observation,
    pub passes: bool,
    pub hangs: bool,
    /// Whether a recovery that was interrupted before would have failed otherwise.
    pub fails_anyway: bool,
}

/// All runs that were observed, if recovery may crash.
#[derive(Default)]
pub struct KnownRuns {
    by_point: BTreeMap<CrashPoint, KnownRun>,
    /// The bytes of each persistent file that recovery has written and that are not observed.
    unobserved: Vec<ByteRanges>,
    /// Crashes inside recoveries that wait until these are.
    waiting: u64,
}

impl KnownRuns {
    pub fn add(&mut self, run: KnownRun) {
        self.by_point.insert(run.point.clone(), run);
    }

    /// How many crashes inside recoveries wait until what they can leave is observed.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// What a run did after a crash of the target, whose stores persist in the same way; `None` if it has written bytes that are not
    /// observed.
    pub fn acted(
        &mut self,
        actions: &RecoveryActions,
        target: &StoreHistory,
        observed: &[ByteRanges],
    ) -> Result<Option<Arc<ActedRun>>, ReadError> {
        let recovery = RecoveryRun::new(Arc::new(actions.clone()));
        let inner = recovery.crashes(*target.profile(), target.tearing())?;
        if inner.crashes.is_empty() {
            return Ok(Some(Arc::new(ActedRun { recovery, inner })));
        }
        let mut is_observed = true;
        for (file, written) in inner.written.iter().enumerate() {
            let others = written.ranges().flat_map(|range| match observed.get(file) {
                Some(observed) => observed.missing(range),
                None => vec![range],
            });
            for range in others {
                is_observed = false;
                if self.unobserved.len() <= file {
                    self.unobserved.resize_with(file + 1, ByteRanges::exact);
                }
                self.unobserved[file].insert(range);
            }
        }
        if !is_observed {
            self.waiting += inner.crashes.len() as u64;
            return Ok(None);
        }
        Ok(Some(Arc::new(ActedRun { recovery, inner })))
    }

    /// Observes what recovery has written, too. Returns the bytes that are observed from now on, and the runs that have read nothing
    /// else of them; the others are forgotten.
    pub fn observe_more(&mut self, observed: &[ByteRanges]) -> (Arc<[ByteRanges]>, Vec<KnownRun>) {
        self.waiting = 0;
        let mut more = observed.to_vec();
        for (known, new) in more.iter_mut().zip(self.unobserved.drain(..)) {
            new.ranges().for_each(|range| known.insert(range));
        }
        self.by_point
            .retain(|_, run| is_observed_with(&run.observation, &more));
        (more.into(), self.by_point.values().cloned().collect())
    }
}

/// Whether a run shows when it has read each of these bytes for the first time.
pub fn is_observed_with(observation: &Observation, wanted: &[ByteRanges]) -> bool {
    let Some(actions) = &observation.actions else {
        return true;
    };
    let files = actions.other_reads.iter().zip(wanted);
    files
        .flat_map(|(read, wanted)| read.ranges().map(move |range| (range, wanted)))
        .all(|(range, wanted)| !wanted.overlaps(range))
}
