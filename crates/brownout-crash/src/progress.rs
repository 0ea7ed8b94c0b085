//! How far testing has come, and who observes it.

use std::time::Duration;

use brownout_trace::EventIndex;

use crate::coverage::TrialPurpose;
use crate::trial::Trial;

/// Observes how testing goes, and decides when it stops.
pub trait ProgressObserver {
    fn progress(&mut self, progress: Progress);

    /// So many searches for causes are finished.
    fn explained(&mut self, done: usize, of: usize);

    /// Testing is over, and recoveries have not ended: the lines of their failure points, without repetitions.
    fn still_running(&mut self, lines: Vec<String>) {
        let _ = lines;
    }

    /// Events read in a pass over the trace.
    fn reading(&mut self, event: EventIndex);

    /// Whether testing must stop: it was interrupted, or its time is over.
    fn stop(&mut self) -> bool;

    /// Whether someone asked it to stop.
    fn interrupted(&self) -> bool;

    /// The time that is left; `None` if it is not limited.
    fn time_left(&self) -> Option<Duration>;
}

/// Events between two checks whether a pass has to stop.
pub(crate) const STOP_INTERVAL: u64 = 4096;

/// Whether a pass over the trace must stop at this event. The observer is not asked at each.
pub(crate) fn must_stop(event: EventIndex, observer: &mut dyn ProgressObserver) -> bool {
    event.0.is_multiple_of(STOP_INTERVAL) && observer.stop()
}

/// How far testing has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Proposed crash points whose results are known.
    pub done: u64,
    /// Crash points to try, as far as the strategy knows; at the end, those that were tried.
    pub points: u64,
    /// Recoveries on different images.
    pub recoveries: u64,
    /// Trials in which recovery does not pass.
    pub failed: u64,
    /// First tries of failure points whose results are known, or that other shards try.
    pub first_tries: u64,
    /// Recoveries that had not ended when testing was stopped.
    pub running: u64,
}

impl Progress {
    /// Counts a trial.
    pub(crate) fn count(&mut self, trial: &Trial) {
        self.done += u64::from(trial.reached_from.is_none());
        let first = trial.purpose == TrialPurpose::FailurePoint && trial.reached_from.is_none();
        self.first_tries += u64::from(first);
        self.failed += u64::from(trial.is_failure());
    }

    /// Takes back what was counted for a trial.
    pub(crate) fn discount(&mut self, trial: &Trial) {
        let mut counted = Self::default();
        counted.count(trial);
        self.done = self.done.saturating_sub(counted.done);
        self.first_tries = self.first_tries.saturating_sub(counted.first_tries);
        self.failed = self.failed.saturating_sub(counted.failed);
        self.recoveries = self
            .recoveries
            .saturating_sub(u64::from(trial.same_as.is_none()));
    }
}
