//! Shows the progress of crash testing, and decides when it stops.

use std::time::{Duration, Instant};

use brownout_crash::{Progress as Tried, ProgressObserver};
use brownout_trace::EventIndex;

use super::coverage_gap::unfinished;
use super::interrupt::Interrupt;
use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;

/// The least time for the search for causes.
const LEAST_SEARCH: Duration = Duration::from_secs(15);

/// Shows progress and decides when to stop.
pub struct CrashTestMonitor {
    console: Console,
    /// Set from the first trial on: before that, nothing is lost by an interruption.
    interrupt: Option<Interrupt>,
    /// When to stop.
    deadline: Option<Instant>,
    started: Instant,
    trials_started: Instant,
    progress: Progress,
    /// Crash points tried in an earlier run.
    before: Option<u64>,
    /// Whether the deadline is that of the search for causes.
    narrowing: bool,
}

impl CrashTestMonitor {
    pub fn new(time_limit: Option<Duration>, console: &Console) -> Self {
        let started = Instant::now();
        Self {
            console: *console,
            interrupt: None,
            deadline: time_limit.map(|limit| started + limit),
            started,
            trials_started: started,
            progress: console.progress("reading", None),
            before: None,
            narrowing: false,
        }
    }

    /// A pass over the trace, which has so many events, starts.
    pub fn begin_reading(&mut self, events: u64) {
        self.progress = self.console.progress("reading the trace", Some(events));
    }

    pub fn begin_baseline(&mut self) {
        let what = "running recovery on the files that the program left";
        self.progress = self.console.progress(what, None);
        self.console.remark(what);
    }

    pub fn begin_trials(&mut self) -> Result<(), Failure> {
        self.interrupt = Some(Interrupt::catch().map_err(Failure::Signals)?);
        self.trials_started = Instant::now();
        self.progress = self.console.progress("trying crashes", None);
        Ok(())
    }

    /// The search for causes may take as long as the trials took, within the time limit.
    pub fn begin_narrowing(&mut self, findings: usize) {
        let now = Instant::now();
        let usual = now + self.trials_started.elapsed().max(LEAST_SEARCH);
        self.deadline = Some(match self.deadline {
            Some(deadline) => deadline.max(now + LEAST_SEARCH).min(usual),
            None => usual,
        });
        self.narrowing = true;
        self.progress = self.console.progress("searching for causes", None);
        self.console.remark(format_args!(
            "searching for the stores that cause {}",
            counted(findings as u64, "finding")
        ));
    }

    /// What was not finished.
    pub fn gap(&self, complete: bool, tried: Tried) -> Option<String> {
        if complete && !self.interrupted() && !(self.narrowing && self.is_over()) {
            return None;
        }
        let why = if self.interrupted() {
            "it was interrupted"
        } else {
            "the time limit was reached"
        };
        Some(if complete {
            format!("the search for causes ended early: {why}")
        } else {
            let why = format!("{why}; --resume continues");
            unfinished(tried.done, tried.points, &why)
        })
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::asked)
    }

    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// What was done, in a sentence.
    pub fn summary(&self, tried: Tried) -> String {
        format!(
            "crashes tested at {}, with {} on different images in {:.1} s; recovery failed at {}",
            counted(tried.done, "crash point"),
            recoveries(tried.recoveries),
            self.started.elapsed().as_secs_f64(),
            tried.failed
        )
    }
}

impl ProgressObserver for CrashTestMonitor {
    fn progress(&mut self, tried: Tried) {
        let before = *self.before.get_or_insert(tried.done.saturating_sub(1));
        let elapsed = self.trials_started.elapsed();
        self.progress.show(|| describe(tried, before, elapsed));
    }

    fn explained(&mut self, done: usize, of: usize) {
        self.progress
            .show(|| format!("causes: {done} of {of} searches finished"));
    }

    fn reading(&mut self, event: EventIndex) {
        self.progress.step(event.0);
    }

    fn stop(&mut self) -> bool {
        self.interrupted() || self.is_over()
    }
}

fn describe(tried: Tried, before: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let rate = tried.recoveries as f64 / seconds;
    let now = tried.done.saturating_sub(before).max(1);
    let left = tried.points.saturating_sub(tried.done) as f64 * seconds / now as f64;
    format!(
        "crashes: {} of {}, {} ({rate:.0}/s), {} failed, {} left",
        tried.done,
        counted(tried.points, "crash point"),
        recoveries(tried.recoveries),
        tried.failed,
        clock(left)
    )
}

/// `1 crash point`, `2 crash points`.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

fn recoveries(count: u64) -> String {
    match count {
        1 => "1 recovery".to_owned(),
        _ => format!("{count} recoveries"),
    }
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
        };
        assert_eq!(
            describe(tried, 50, Duration::from_secs(10)),
            "crashes: 150 of 1050 crash points, 100 recoveries (10/s), 2 failed, 1:30 min left"
        );
    }
}
