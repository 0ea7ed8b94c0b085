//! Shows the progress of crash testing, and decides when it stops.

use std::time::{Duration, Instant};

use brownout_crash::{Progress as Tried, ProgressObserver};
use brownout_trace::EventIndex;

use super::interrupt::Interrupt;
use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::quantity::{number_of, recoveries};

/// The search for causes may take this long, or half as long as the trials, but this long only if the time limit of the
/// trials is not shorter.
const LEAST_SEARCH: Duration = Duration::from_secs(10);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Trials,
    Narrowing,
    Explaining,
}

/// Shows progress and decides when to stop.
pub struct CrashTestMonitor {
    console: Console,
    /// Set from the first trial on: before that, nothing is lost by an interruption.
    interrupt: Option<Interrupt>,
    /// How long crashes are tried.
    time_limit: Option<Duration>,
    /// When to stop.
    deadline: Option<Instant>,
    trials_started: Instant,
    progress: Progress,
    /// Crash points tried in an earlier run.
    before: Option<u64>,
    /// What the deadline is for.
    phase: Phase,
    /// Why earlier phases were not finished.
    cut: Vec<String>,
    /// Whether crashes were left untried because of an interruption or the time limit.
    trials_stopped: bool,
}

impl CrashTestMonitor {
    pub fn new(time_limit: Option<Duration>, console: &Console) -> Self {
        Self {
            console: *console,
            interrupt: None,
            time_limit,
            deadline: None,
            trials_started: Instant::now(),
            progress: console.progress("reading", None),
            before: None,
            phase: Phase::Trials,
            cut: Vec::new(),
            trials_stopped: false,
        }
    }

    /// A pass over the trace, which has so many events, starts.
    pub fn begin_reading(&mut self, events: u64) {
        self.progress = self.console.progress("reading the trace", Some(events));
    }

    pub fn begin_uncrashed(&mut self) {
        let what = "running recovery on the files that the program left";
        self.progress = self.console.progress(what, None);
        self.console.remark(what);
    }

    pub fn begin_trials(&mut self) -> Result<(), Failure> {
        self.interrupt = Some(Interrupt::catch().map_err(Failure::Signals)?);
        self.trials_started = Instant::now();
        self.deadline = self.time_limit.map(|limit| self.trials_started + limit);
        self.progress = self.console.progress("trying crashes", None);
        Ok(())
    }

    /// The search for causes has its own share of time, after that of the trials.
    pub fn begin_narrowing(&mut self, findings: usize) {
        self.begin_search(Phase::Narrowing, "searching for causes");
        self.console.remark(format_args!(
            "searching for the stores that cause {}",
            number_of(findings as u64, "finding")
        ));
    }

    /// Finding out what recovery can read has its own share of time, after that of the search for causes.
    pub fn begin_explaining(&mut self) {
        self.begin_search(Phase::Explaining, "observing what recovery reads");
    }

    fn begin_search(&mut self, phase: Phase, what: &'static str) {
        self.cut.extend(self.cut_short());
        let least = self.time_limit.unwrap_or(LEAST_SEARCH).min(LEAST_SEARCH);
        let share = (self.trials_started.elapsed() / 2).max(least);
        self.deadline = Some(Instant::now() + share);
        self.phase = phase;
        self.progress = self.console.progress(what, None);
    }

    /// Why searches after the trials were not finished, as far as they were not.
    pub fn gaps(&self) -> impl Iterator<Item = String> {
        self.cut.iter().cloned().chain(self.cut_short())
    }

    /// Why the search that is running was not finished, if it was not.
    fn cut_short(&self) -> Option<String> {
        let what = match self.phase {
            Phase::Trials => return None,
            Phase::Narrowing => "the search for causes",
            Phase::Explaining => "the search for reads that can see several stores",
        };
        let cut = self.interrupted() || self.is_over();
        cut.then(|| format!("{what} ended early: {}", self.reason()))
    }

    /// Whether an interruption or the time limit kept crashes from being tried.
    pub fn has_stopped_trials(&self) -> bool {
        self.trials_stopped
    }

    /// Why testing ended before everything was tried.
    pub fn reason(&self) -> &'static str {
        if self.interrupted() {
            "it was interrupted"
        } else {
            "the time limit was reached"
        }
    }

    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl ProgressObserver for CrashTestMonitor {
    fn progress(&mut self, tried: Tried) {
        let before = *self.before.get_or_insert(tried.done.saturating_sub(1));
        let elapsed = self.trials_started.elapsed();
        let left = self.time_limit.map(|limit| limit.saturating_sub(elapsed));
        self.progress
            .show(|| describe(tried, before, elapsed, left));
    }

    fn explained(&mut self, done: usize, of: usize) {
        self.progress
            .show(|| format!("causes: {done} of {of} searches finished"));
    }

    fn reading(&mut self, event: EventIndex) {
        self.progress.step(event.0);
    }

    fn stop(&mut self) -> bool {
        let stop = self.interrupted() || self.is_over();
        self.trials_stopped |= stop && self.phase == Phase::Trials;
        stop
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::asked)
    }
}

fn describe(tried: Tried, before: u64, elapsed: Duration, most_left: Option<Duration>) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let rate = tried.recoveries as f64 / seconds;
    let now = tried.done.saturating_sub(before).max(1);
    let left = tried.points.saturating_sub(tried.done) as f64 * seconds / now as f64;
    let left = most_left.map_or(left, |most| left.min(most.as_secs_f64()));
    format!(
        "crashes: {} of {}, {} ({rate:.0}/s), {} failed, {} left",
        tried.done,
        number_of(tried.points, "crash point"),
        recoveries(tried.recoveries),
        tried.failed,
        clock(left)
    )
}

fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_rate_and_time_left() {
        let tried = Tried {
            done: 150,
            points: 1050,
            recoveries: 100,
            failed: 2,
            ..Tried::default()
        };
        let shown = |most_left| describe(tried, 50, Duration::from_secs(10), most_left);
        let start = "crashes: 150 of 1050 crash points, 100 recoveries (10/s), 2 failed";
        assert_eq!(shown(None), format!("{start}, 1:30 min left"));
        let limited = shown(Some(Duration::from_secs(20)));
        assert_eq!(limited, format!("{start}, 20 s left"));
    }
}
