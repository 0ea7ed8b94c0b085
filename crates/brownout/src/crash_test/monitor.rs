//! How crash testing is seen from outside: progress, time, and when to stop.

use std::time::{Duration, Instant};

use brownout_crash::{Progress as Tried, ProgressObserver};
use brownout_trace::EventIndex;

use super::coverage_gap::unfinished;
use super::interrupt::Interrupt;
use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;

/// What was found is worth some seconds to explain.
const LEAST_SEARCH: Duration = Duration::from_secs(15);

/// Shows progress and decides when there was enough.
pub struct CrashTestMonitor {
    console: Console,
    /// From the first trial on: what comes before can be cut off without loss.
    interrupt: Option<Interrupt>,
    /// When to stop trying.
    deadline: Option<Instant>,
    started: Instant,
    trials_started: Instant,
    progress: Progress,
    /// Tried in an earlier run.
    before: Option<u64>,
    /// The deadline is that of the search for causes.
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

    /// A pass over the trace, of so many events, begins.
    pub fn begin_reading(&mut self, events: u64) {
        self.progress = self.console.progress("reading the trace", Some(events));
    }

    pub fn begin_baseline(&mut self) {
        let what = "running recovery on the files that the program left";
        self.progress = self.console.progress(what, None);
        self.console.remark(what);
    }

    pub fn begin_trials(&mut self) -> Result<(), Failure> {
        self.interrupt = Some(Interrupt::watch().map_err(Failure::Signals)?);
        self.trials_started = Instant::now();
        self.progress = self.console.progress("trying crashes", None);
        Ok(())
    }

    /// The search for causes may take as long as the trials took, but not much longer than there is time.
    pub fn begin_narrowing(&mut self, findings: usize) {
        let now = Instant::now();
        let usual = now + self.trials_started.elapsed().max(LEAST_SEARCH);
        self.deadline = Some(match self.deadline {
            Some(deadline) => deadline.max(now + LEAST_SEARCH).min(usual),
            None => usual,
        });
        self.narrowing = true;
        self.progress = self.console.progress("looking for causes", None);
        self.console.remark(format_args!(
            "looking for the stores that make the difference in {findings} {}",
            if findings == 1 { "case" } else { "cases" }
        ));
    }

    /// What was left undone.
    pub fn gap(&self, complete: bool, tried: Tried) -> Option<String> {
        if complete && !self.interrupted() && !(self.narrowing && self.is_over()) {
            return None;
        }
        let why = if self.interrupted() {
            "it was interrupted"
        } else {
            "its time was over"
        };
        Some(if complete {
            format!("the search for causes ended early: {why}")
        } else {
            let why = format!("{why}; --resume goes on");
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

    /// What was done.
    pub fn summary(&self, tried: Tried) -> String {
        format!(
            "crashes tried at {} failure points, {} recoveries on different images in {:.1} s; recovery failed at {}",
            tried.done,
            tried.recoveries,
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
            .show(|| format!("causes: {done} of {of} searched for"));
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
        "crashes: {} of {} failure points, {} recoveries ({rate:.0}/s), {} failed, {} left",
        tried.done,
        tried.points,
        tried.recoveries,
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
    fn progress_tells_rate_and_time_left() {
        let tried = Tried {
            done: 150,
            points: 1050,
            recoveries: 100,
            failed: 2,
        };
        assert_eq!(
            describe(tried, 50, Duration::from_secs(10)),
            "crashes: 150 of 1050 failure points, 100 recoveries (10/s), 2 failed, 1:30 min left"
        );
    }
}
