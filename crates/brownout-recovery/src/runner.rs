//! Runs recovery on one image after the other and judges how it ended.

mod observed;
mod output_excerpt;
mod shared;

pub use shared::IndirectVerdict;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brownout_trace::replay::Content;

use self::output_excerpt::shown_lines;
use crate::branching::{Branches, BranchingHost};
use crate::file_content::write_content;
use crate::run_durations::RunDurations;
use crate::{
    End, EngineRun, ExecutionMode, Expectation, Isolation, Observation, Orphans, Outcome, RawFrame,
    Recovery, RunRequest, Sandbox, SandboxError, Verdict,
};

/// How long the processes of a pipeline, or a helper that is about to end, may take longer than the first process of a recovery.
const STRAGGLER_TIME: Duration = Duration::from_secs(1);

/// What recovery learns about the crash that it recovers from, and its time limit.
#[derive(Clone, Debug)]
pub struct RecoveryTask {
    /// Environment variables beyond those that brownout itself has.
    pub environment: Vec<(String, String)>,
    /// How many operations of the workload may have taken effect; `0..=0` if operations are not counted.
    pub operations: RangeInclusive<u64>,
    pub time_limit: Duration,
}

impl RecoveryTask {
    fn request(&self, execution: ExecutionMode) -> RunRequest {
        RunRequest {
            environment: self.environment.clone(),
            execution,
            ..RunRequest::new(self.time_limit)
        }
    }
}

/// The result of recovering from one image.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub verdict: Verdict,
    pub duration: Duration,
    /// The last lines printed, if recovery did not pass. If they are not what is expected, the first difference.
    pub output: Vec<String>,
    /// Where recovery was when it failed, innermost first.
    pub frames: Vec<RawFrame>,
    /// The verdict of a second run on the same image, if it differs.
    pub second_verdict: Option<Verdict>,
    /// What recovery reads on this image, if that was observed.
    pub observation: Option<Observation>,
    /// How the verdict was reached, if recovery did not run natively.
    pub indirect: Option<IndirectVerdict>,
}

/// A sandbox and what recovery must do in it to pass.
#[derive(Debug)]
pub struct RecoveryRunner {
    sandbox: Sandbox,
    recovery: Recovery,
    expected: Expectation,
    branches: Branches,
    /// For recoveries that share their start with others.
    shared_host: BranchingHost,
    durations: Arc<RunDurations>,
}

/// Why recovery could not be run on an image. Recovery itself is never the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("cannot write a crash image; is there enough free memory for it?")]
    Image(#[source] io::Error),
    #[error("cannot run the program again")]
    Target(#[source] io::Error),
    #[error("cannot observe what recovery reads")]
    Reads(#[source] io::Error),
    #[error("a thread that runs recoveries ended unexpectedly")]
    ThreadDied,
}

impl RecoveryRunner {
    pub fn new(sandbox: Sandbox, recovery: Recovery, expected: Expectation) -> Self {
        Self {
            sandbox,
            recovery,
            expected,
            branches: Branches::default(),
            shared_host: BranchingHost::default(),
            durations: Arc::default(),
        }
    }

    /// Lets runners of the same recovery share what they know about how long it takes.
    pub(crate) fn share_durations(runners: &mut [Self]) -> Arc<RunDurations> {
        let shared = Arc::<RunDurations>::default();
        for runner in runners {
            shared.unite(&runner.durations);
            runner.durations = Arc::clone(&shared);
        }
        shared
    }

    /// The isolation of recoveries.
    pub fn isolation(&self) -> Isolation {
        self.sandbox.isolation()
    }

    /// Whether recovery passes, and nothing else: for images that are tried during a search. One that takes much longer than those
    /// that pass does not: many images of a search may let recovery hang.
    ///
    /// An image has a content for each persistent file; `None` for a file that does not exist.
    pub fn passes(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<bool, RunnerError> {
        let request = RunRequest {
            time_limit: self.durations.until_given_up(task.time_limit),
            ..task.request(ExecutionMode::Native)
        };
        let started = Instant::now();
        let outcome = self.run(image, request)?;
        let passed = self.verdict(&outcome, task).passed();
        if passed {
            self.durations.took(started.elapsed());
        }
        Ok(passed)
    }

    /// Runs recovery on the user's terminal, without a time limit.
    pub fn run_interactively(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<(), RunnerError> {
        let request = RunRequest {
            interactive: true,
            ..task.request(ExecutionMode::Native)
        };
        self.run(image, request)?;
        Ok(())
    }

    /// Runs recovery. If it does not pass, runs it again: traced, to learn where it fails, and with more time if it ran
    /// out of time.
    pub fn attempt(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<Attempt, RunnerError> {
        let (attempt, _) = self.attempt_with(image, task, Duration::ZERO)?;
        Ok(attempt)
    }

    /// Runs recovery as [`attempt`](Self::attempt) does. Also returns whether there are processes whose ends no verdict depends on.
    pub fn attempt_without_crash(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<(Attempt, Orphans), RunnerError> {
        self.attempt_with(image, task, STRAGGLER_TIME)
    }

    fn attempt_with(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        patience: Duration,
    ) -> Result<(Attempt, Orphans), RunnerError> {
        let time_limit = self.durations.until_hung(task.time_limit);
        let request = RunRequest {
            patience,
            time_limit,
            ..task.request(ExecutionMode::Native)
        };
        let first = self.run(image, request)?;
        let orphans = first.orphans;
        let attempt = self.conclude(image, task, first, time_limit)?;
        Ok((attempt, orphans))
    }

    /// Runs recovery as [`attempt`](Self::attempt) does, but gives up if it takes much longer than those that pass: then returns
    /// `None`, and whether it hangs is yet to be found out.
    pub fn attempt_briefly(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<Option<Attempt>, RunnerError> {
        let time_limit = self.durations.until_hung(task.time_limit);
        let brief = self.durations.until_put_off();
        let started = Instant::now();
        let request = RunRequest {
            time_limit: brief.min(time_limit),
            ..task.request(ExecutionMode::Native)
        };
        let first = self.run(image, request)?;
        if first.end == End::TimedOut && brief < time_limit {
            return Ok(None);
        }
        let took = started.elapsed();
        let attempt = self.conclude(image, task, first, time_limit)?;
        if attempt.verdict.passed() {
            self.durations.took(took);
        }
        Ok(Some(attempt))
    }

    /// Judges the first run on an image, which had `time_limit`. If recovery did not pass, it runs again.
    fn conclude(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        first: Outcome,
        time_limit: Duration,
    ) -> Result<Attempt, RunnerError> {
        let verdict = self.verdict(&first, task);
        if verdict.passed() {
            self.durations.passed(first.duration);
            return Ok(Attempt {
                verdict,
                duration: first.duration,
                output: Vec::new(),
                frames: Vec::new(),
                second_verdict: None,
                observation: None,
                indirect: None,
            });
        }
        let mut second_request = task.request(ExecutionMode::Traced);
        if verdict == Verdict::Hung {
            second_request.time_limit = self.durations.until_surely_hung(time_limit);
        }
        let second = self.run(image, second_request)?;
        let second_verdict = self.verdict(&second, task);
        // A recovery that ends when it has more time is slow, not hung; its end then decides.
        let slow = verdict == Verdict::Hung && second_verdict != Verdict::Hung;
        let same = verdict == second_verdict;
        if same && verdict == Verdict::Hung {
            self.durations.hung();
        }
        let reported = if slow || same { second } else { first };
        let verdict = if slow {
            second_verdict.clone()
        } else {
            verdict
        };
        Ok(Attempt {
            output: self.output(&reported, &verdict, task),
            verdict,
            duration: reported.duration,
            frames: reported.frames,
            second_verdict: (!slow && !same).then_some(second_verdict),
            observation: None,
            indirect: None,
        })
    }

    /// Runs recovery once, under the engine. Its events are in `engine.trace` afterwards, if there is one. The stack of a
    /// recovery that fails is not known.
    pub fn run_under_engine(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        engine: EngineRun,
    ) -> Result<Attempt, RunnerError> {
        let outcome = self.run(image, task.request(ExecutionMode::Engine(engine)))?;
        Ok(self.attempt_of(outcome, task))
    }

    /// The result of a single run.
    fn attempt_of(&self, outcome: Outcome, task: &RecoveryTask) -> Attempt {
        let verdict = self.verdict(&outcome, task);
        Attempt {
            output: self.output(&outcome, &verdict, task),
            verdict,
            duration: outcome.duration,
            frames: outcome.frames,
            second_verdict: None,
            observation: None,
            indirect: None,
        }
    }

    fn verdict(&self, outcome: &Outcome, task: &RecoveryTask) -> Verdict {
        Verdict::of(outcome, &self.recovery, &self.expected, &task.operations)
    }

    /// The lines to report of a recovery that ended with this verdict.
    fn output(&self, outcome: &Outcome, verdict: &Verdict, task: &RecoveryTask) -> Vec<String> {
        match verdict {
            Verdict::Passed => Vec::new(),
            Verdict::WrongOutput => {
                let difference = self.expected.difference(&outcome.stdout, &task.operations);
                let printed = shown_lines(&[&outcome.stderr]);
                difference.into_iter().chain(printed).collect()
            }
            _ => shown_lines(&[&outcome.stderr, &outcome.stdout]),
        }
    }

    /// Runs recovery once on an image.
    pub(crate) fn run(
        &mut self,
        image: &[Option<Content>],
        mut request: RunRequest,
    ) -> Result<Outcome, RunnerError> {
        let files = self.sandbox.files()?;
        for (number, (content, file)) in image.iter().zip(files).enumerate() {
            match content {
                Some(content) => write_content(content, file).map_err(RunnerError::Image)?,
                None => request.absent.push(number),
            }
        }
        Ok(self.sandbox.run(&request)?)
    }
}
