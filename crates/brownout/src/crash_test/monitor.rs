//! Shows the progress of crash testing, and decides when it stops.

use std::time::{Duration, Instant};

use brownout_crash::{Progress as Tried, ProgressObserver};
use brownout_trace::EventIndex;

use super::interrupt::Interrupt;
use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::quantity::{number_of, recoveries};

/// A search after the trials may take half as long as the trials, but at least this long, as far as the time limit allows it.
const USUAL_SEARCH: Duration = Duration::from_secs(10);
/// All searches together may exceed the time limit of the trials by this part of it.
const EXCESS_PART: u32 = 5;
/// Each may take this long in any case, unless the time limit is shorter.
const LEAST_SEARCH: Duration = Duration::from_secs(2);

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
    /// How long the trials took; known when they are over.
    trials_took: Option<Duration>,
    progress: Progress,
    /// Crash points tried in an earlier run.
    before: Option<u64>,
    /// What the deadline is for.
    phase: Phase,
    /// Whether the search that is running was stopped.
    search_stopped: bool,
    /// How many searches for causes are finished, and of how many.
    searched: (usize, usize),
    /// The same of earlier rounds of the search.
    searched_before: (usize, usize),
    /// Why earlier phases were not finished.
    cut: Vec<String>,
    /// Whether crashes were left untried because of an interruption or the time limit.
    trials_stopped: bool,
    /// The lines of the failure points whose recoveries had not ended.
    running: Vec<String>,
}

impl CrashTestMonitor {
    pub fn new(time_limit: Option<Duration>, console: &Console) -> Self {
        Self {
            console: *console,
            interrupt: None,
            time_limit,
            deadline: None,
            trials_started: Instant::now(),
            trials_took: None,
            progress: console.progress("reading", None),
            before: None,
            phase: Phase::Trials,
            search_stopped: false,
            searched: (0, 0),
            searched_before: (0, 0),
            cut: Vec::new(),
            running: Vec::new(),
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
        self.searched = (0, findings);
        self.console.remark(format_args!(
            "searching for the stores that cause {}",
            number_of(findings as u64, "finding")
        ));
    }

    /// The search for causes goes on with further findings, in the time that it has left.
    pub fn continue_narrowing(&mut self, findings: usize) {
        self.searched_before = self.searched;
        self.explained(0, findings);
    }

    /// Finding out what recovery can read has its own share of time, after that of the search for causes.
    pub fn begin_explaining(&mut self) {
        self.begin_search(Phase::Explaining, "observing what recovery reads");
    }

    fn begin_search(&mut self, phase: Phase, what: &'static str) {
        self.cut.extend(self.cut_short());
        let elapsed = self.trials_started.elapsed();
        let took = *self.trials_took.get_or_insert(elapsed);
        let share = share_of_search(phase, took, elapsed, self.time_limit);
        self.deadline = Some(Instant::now() + share);
        self.phase = phase;
        self.search_stopped = false;
        self.progress = self.console.progress(what, None);
    }

    /// Why searches after the trials were not finished, as far as they were not.
    pub fn gaps(&self) -> impl Iterator<Item = String> {
        self.cut.iter().cloned().chain(self.cut_short())
    }

    /// Why the search that is running was not finished, if it was not.
    fn cut_short(&self) -> Option<String> {
        let (done, of) = self.searched;
        let what = match self.phase {
            Phase::Trials => return None,
            Phase::Narrowing => {
                let findings = number_of(of as u64, "finding");
                format!("the search for causes ended early, after {done} of {findings}")
            }
            Phase::Explaining => {
                "the search for reads that can see several stores ended early".to_owned()
            }
        };
        let why = match self.interrupted() {
            true => self.reason(),
            false => "its part of the time limit was used up",
        };
        self.search_stopped.then(|| format!("{what}: {why}"))
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

impl CrashTestMonitor {
    /// The lines of the failure points whose recoveries had not ended when testing was over.
    pub fn running(&self) -> &[String] {
        &self.running
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
        let (done_before, of_before) = self.searched_before;
        let (done, of) = (done_before + done, of_before + of);
        self.searched = (done, of);
        self.progress
            .show(|| format!("causes: {done} of {of} searches finished"));
    }

    fn still_running(&mut self, lines: Vec<String>) {
        self.running = lines;
    }

    fn reading(&mut self, event: EventIndex) {
        self.progress.step(event.0);
    }

    fn stop(&mut self) -> bool {
        let stop = self.interrupted() || self.is_over();
        match self.phase {
            Phase::Trials => self.trials_stopped |= stop,
            Phase::Narrowing | Phase::Explaining => self.search_stopped |= stop,
        }
        stop
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::asked)
    }
}

/// How long a search may take. The trials `took` so long, and it begins when so much time has `elapsed` since they began.
fn share_of_search(
    phase: Phase,
    took: Duration,
    elapsed: Duration,
    time_limit: Option<Duration>,
) -> Duration {
    let usual = (took / 2).max(USUAL_SEARCH);
    let Some(limit) = time_limit else {
        return usual;
    };
    let left = (limit + limit / EXCESS_PART).saturating_sub(elapsed);
    let left = match phase {
        // The searches that follow need some of it.
        Phase::Narrowing => left * 3 / 4,
        Phase::Trials | Phase::Explaining => left,
    };
    usual.min(left).max(limit.min(LEAST_SEARCH))
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

    #[test]
    fn searches_exceed_the_time_limit_by_a_fifth() {
        let seconds = Duration::from_secs;
        let limit = Some(seconds(30));
        let causes = |took, limit| share_of_search(Phase::Narrowing, took, took, limit);
        assert_eq!(causes(seconds(30), limit), Duration::from_millis(4500));
        let reads = share_of_search(Phase::Explaining, seconds(30), seconds(34), limit);
        assert_eq!(reads, seconds(2));
        // What the trials leave of their time is free for searches.
        assert_eq!(causes(seconds(1), limit), seconds(10));
        assert_eq!(causes(seconds(600), Some(seconds(600))), seconds(90));
        assert_eq!(causes(seconds(1), Some(seconds(1))), seconds(1));
        assert_eq!(causes(seconds(60), None), seconds(30));
    }
}
