//! Runs recovery on one image after the other and judges how it ended.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brownout_trace::replay::Content;
use rustix::fs::MemfdFlags;

use crate::branching::{Branches, ReadGuide};
use crate::file_content::{holds, write_content};
use crate::reads::{ReadsMessage, ReadsQuestion, read_loads};
use crate::{
    Actor, ByteRanges, End, EngineRun, Execution, Expectation, Isolation, Observation, Orphans,
    Outcome, RawFrame, ReadBytes, Recovery, RecoveryActions, RecoveryLoad, RecoveryReads,
    RunRequest, Sandbox, SandboxError, Verdict,
};

/// A recovery that runs out of time is run again with this many times the time limit before it counts as hung.
const RETRY_FACTOR: u32 = 4;

/// How long the processes of a pipeline, or a helper that is about to end, may take longer than the first process of a recovery.
const PATIENCE: Duration = Duration::from_secs(1);

/// Under the engine, recovery may take this many times as long as natively.
const ENGINE_FACTOR: u32 = 8;

/// So many recoveries that hang get the full time limit. Further ones get this, or many times what those that pass take.
const HANGS_IN_FULL: u32 = 2;
const HANG_CHECK: Duration = Duration::from_secs(1);
const PASSES_IN_A_HANG: u32 = 20;

const UNRECORDED_CHANGES: &str = "recovery writes to persistent files that it has not mapped, so that crashes inside of it are not all explored";

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
    fn request(&self, execution: Execution) -> RunRequest {
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
}

/// A sandbox and what recovery must do in it to pass.
#[derive(Debug)]
pub struct RecoveryRunner {
    sandbox: Sandbox,
    recovery: Recovery,
    expected: Expectation,
    branches: Branches,
    /// Recoveries that have hung, and the time of the slowest that has passed.
    hangs: u32,
    slowest_pass: Duration,
}

/// Why recovery could not be run on an image. Recovery itself is never the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("cannot write a crash image; is there enough free memory for it?")]
    Image(#[source] io::Error),
    #[error("cannot observe what recovery reads")]
    Reads(#[source] io::Error),
    #[error("a thread that runs recoveries has died")]
    ThreadDied,
}

impl RecoveryRunner {
    pub fn new(sandbox: Sandbox, recovery: Recovery, expected: Expectation) -> Self {
        Self {
            sandbox,
            recovery,
            expected,
            branches: Branches::default(),
            hangs: 0,
            slowest_pass: Duration::ZERO,
        }
    }

    /// The isolation of recoveries.
    pub fn isolation(&self) -> Isolation {
        self.sandbox.isolation()
    }

    /// Whether recovery passes, and nothing else: for images that are tried during a search.
    ///
    /// An image has a content for each PM file; `None` for a file that does not exist.
    pub fn passes(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<bool, RunnerError> {
        let outcome = self.run(image, task.request(Execution::Native))?;
        Ok(self.verdict(&outcome, task).passed())
    }

    /// Runs recovery on the user's terminal, without a time limit.
    pub fn run_interactively(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<(), RunnerError> {
        let request = RunRequest {
            interactive: true,
            ..task.request(Execution::Native)
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
        self.attempt_with(image, task, PATIENCE)
    }

    fn attempt_with(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        patience: Duration,
    ) -> Result<(Attempt, Orphans), RunnerError> {
        let time_limit = self.time_until_hung(task);
        let request = RunRequest {
            patience,
            time_limit,
            ..task.request(Execution::Native)
        };
        let first = self.run(image, request)?;
        let orphans = first.orphans;
        let verdict = self.verdict(&first, task);
        if verdict.passed() {
            self.slowest_pass = self.slowest_pass.max(first.duration);
            let passed = Attempt {
                verdict,
                duration: first.duration,
                output: Vec::new(),
                frames: Vec::new(),
                second_verdict: None,
                observation: None,
            };
            return Ok((passed, orphans));
        }
        let mut second_request = task.request(Execution::Traced);
        if verdict == Verdict::Hung {
            second_request.time_limit = time_limit * RETRY_FACTOR;
        }
        let second = self.run(image, second_request)?;
        let second_verdict = self.verdict(&second, task);
        // A recovery that ends when it has more time is slow, not hung; its end then decides.
        let slow = verdict == Verdict::Hung && second_verdict != Verdict::Hung;
        let same = verdict == second_verdict;
        self.hangs += u32::from(same && verdict == Verdict::Hung);
        let reported = if slow || same { second } else { first };
        let verdict = if slow {
            second_verdict.clone()
        } else {
            verdict
        };
        let failed = Attempt {
            output: self.output(&reported, &verdict, task),
            verdict,
            duration: reported.duration,
            frames: reported.frames,
            second_verdict: (!slow && !same).then_some(second_verdict),
            observation: None,
        };
        Ok((failed, orphans))
    }

    /// When a recovery seems to hang. If several have hung, nobody waits as long for further ones as for the first.
    fn time_until_hung(&self, task: &RecoveryTask) -> Duration {
        if self.hangs < HANGS_IN_FULL {
            return task.time_limit;
        }
        let plenty = PASSES_IN_A_HANG * self.slowest_pass;
        task.time_limit.min(plenty.max(HANG_CHECK))
    }

    /// Runs recovery once, under the engine. Its events are in `engine.trace` afterwards, if there is one. The stack of a
    /// recovery that fails is not known.
    pub fn run_under_engine(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        engine: EngineRun,
    ) -> Result<Attempt, RunnerError> {
        let outcome = self.run(image, task.request(Execution::Engine(engine)))?;
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
        }
    }

    /// Runs recovery once, under the engine, and learns what it reads. The reads are not known if recovery runs out of time.
    pub fn observe_reads(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<(Attempt, Option<RecoveryReads>), RunnerError> {
        let (attempt, message) = self.observe(image, task, &ReadsQuestion::default())?;
        Ok((attempt, message.map(|message| message.reads)))
    }

    /// Runs recovery once, under the engine, and learns in which order it first reads some bytes, which are given for each PM
    /// file. If it does not pass, what it does natively decides, as in [`attempt`](Self::attempt).
    pub fn attempt_observed(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
    ) -> Result<Attempt, RunnerError> {
        let question = ReadsQuestion {
            in_order: wanted.to_vec(),
            ..ReadsQuestion::default()
        };
        self.attempt_question(image, task, &question)
    }

    /// Runs recovery as [`attempt_observed`](Self::attempt_observed) does, and also learns what it does to the PM files.
    pub fn attempt_with_actions(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
    ) -> Result<Attempt, RunnerError> {
        let question = ReadsQuestion {
            in_order: wanted.to_vec(),
            actions: true,
            ..ReadsQuestion::default()
        };
        self.attempt_question(image, task, &question)
    }

    fn attempt_question(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        question: &ReadsQuestion,
    ) -> Result<Attempt, RunnerError> {
        let observed_task = RecoveryTask {
            time_limit: task.time_limit * ENGINE_FACTOR,
            ..task.clone()
        };
        let files = match question.actions {
            // A sandbox that has to be restored after the run gets other files.
            true => self.sandbox.files()?.iter().map(File::try_clone).collect(),
            false => Ok(Vec::new()),
        };
        let files: Vec<File> = files.map_err(RunnerError::Reads)?;
        let (attempt, message) = self.observe(image, &observed_task, question)?;
        let observation = match message {
            None => Observation::unknown(),
            Some(message) => {
                let mut gaps = message.reads.gaps;
                let actions = message.actions.as_ref();
                if actions.is_some_and(|actions| !are_result_of(&files, actions, image)) {
                    gaps.push(UNRECORDED_CHANGES.to_owned());
                }
                Observation {
                    reads: Some(ReadBytes::of(&message.first_reads, image)),
                    gaps,
                    is_copy: false,
                    run_anew: None,
                    actions: message.actions,
                }
            }
        };
        self.decide(image, task, attempt, observation)
    }

    /// Runs recovery as [`attempt_observed`](Self::attempt_observed) does. If possible it does so with a copy of a process of an earlier run that has read the
    /// same bytes until then, and keeps processes where `guide` says that others will be wanted.
    pub fn attempt_branch(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<Attempt, RunnerError> {
        let started = Instant::now();
        let run = match self.recovery.client {
            None => self.branches.run(&self.sandbox, image, task, wanted, guide),
            Some(_) => Err(Some("it is a server".to_owned())),
        };
        let run = match run {
            Ok(run) => run,
            Err(reason) => {
                let mut attempt = self.attempt_observed(image, task, wanted)?;
                if let Some(observation) = &mut attempt.observation {
                    observation.run_anew = reason;
                }
                return Ok(attempt);
            }
        };
        let outcome = Outcome {
            end: run.outcome.end,
            actor: Actor::Recovery,
            duration: started.elapsed(),
            stdout: run.outcome.stdout,
            stdout_complete: true,
            stderr: run.outcome.stderr,
            orphans: Orphans::None,
            frames: Vec::new(),
        };
        let observation = Observation {
            reads: Some(run.reads.into_iter().collect()),
            gaps: Vec::new(),
            is_copy: run.is_copy,
            run_anew: None,
            actions: None,
        };
        if outcome.end == End::TimedOut {
            return self.decide_hang(image, task, wanted, observation);
        }
        let attempt = self.attempt_of(outcome, task);
        self.decide(image, task, attempt, observation)
    }

    /// A branch has used more processor time than recoveries usually do. What recovery does natively decides whether it hangs.
    fn decide_hang(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        observation: Observation,
    ) -> Result<Attempt, RunnerError> {
        let mut attempt = self.attempt(image, task)?;
        if attempt.verdict.passed() {
            self.branches.allow_time(task.time_limit * ENGINE_FACTOR);
            return self.attempt_observed(image, task, wanted);
        }
        attempt.observation = Some(observation);
        Ok(attempt)
    }

    /// If an observed recovery does not pass, what it does natively decides.
    fn decide(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        mut attempt: Attempt,
        mut observation: Observation,
    ) -> Result<Attempt, RunnerError> {
        if !attempt.verdict.passed() {
            let observed = std::mem::replace(&mut attempt, self.attempt(image, task)?).verdict;
            if observed != attempt.verdict {
                observation.gaps.push(format!(
                    "recovery {} when it is observed, and {} natively",
                    observed, attempt.verdict
                ));
            }
        }
        attempt.observation = Some(observation);
        Ok(attempt)
    }

    /// Runs recovery once, under the engine, and learns where it first reads some bytes, which are given for each PM file. If it
    /// runs out of time, these are the reads until then.
    pub fn observe_loads(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
    ) -> Result<(Attempt, Vec<RecoveryLoad>), RunnerError> {
        let observed_task = RecoveryTask {
            time_limit: task.time_limit * ENGINE_FACTOR,
            ..task.clone()
        };
        let question = ReadsQuestion {
            in_order: wanted.to_vec(),
            with_stacks: true,
            ..ReadsQuestion::default()
        };
        let (attempt, question, answer) = self.ask(image, &observed_task, &question)?;
        let loads = answer.strip_prefix(&question[..]).map(read_loads);
        Ok((attempt, loads.unwrap_or_default()))
    }

    fn observe(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        question: &ReadsQuestion,
    ) -> Result<(Attempt, Option<ReadsMessage>), RunnerError> {
        let (attempt, question, stored) = self.ask(image, task, question)?;
        if stored == question {
            return Ok((attempt, None));
        }
        let message: Option<ReadsMessage> = postcard::from_bytes(&stored).ok();
        let message = message.map(|mut message| {
            if self.recovery.client.is_some() {
                let unobserved = "what the client of the recovered server reads is not observed";
                message.reads.gaps.push(unobserved.to_owned());
                // A server is meant to run on when its client has ended.
                message.reads.left_processes = false;
            }
            message
        });
        Ok((attempt, message))
    }

    /// Runs recovery under the engine and returns the question about its reads as it was put, and what the file of the
    /// question holds then.
    fn ask(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        question: &ReadsQuestion,
    ) -> Result<(Attempt, Vec<u8>, Vec<u8>), RunnerError> {
        let unusable = |source: io::Error| RunnerError::Reads(source);
        let file = rustix::fs::memfd_create("recovery-reads", MemfdFlags::CLOEXEC);
        let file = Arc::new(File::from(file.map_err(|errno| unusable(errno.into()))?));
        let question =
            postcard::to_stdvec(question).map_err(|error| unusable(io::Error::other(error)))?;
        file.write_all_at(&question, 0).map_err(unusable)?;
        let engine = EngineRun {
            reads: Some(Arc::clone(&file)),
            ..EngineRun::default()
        };
        let attempt = self.run_under_engine(image, task, engine)?;
        let mut stored = vec![0; file.metadata().map_err(unusable)?.len() as usize];
        file.read_exact_at(&mut stored, 0).map_err(unusable)?;
        Ok((attempt, question, stored))
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
    fn run(
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

/// Whether the PM files are as these actions leave them.
fn are_result_of(files: &[File], actions: &RecoveryActions, image: &[Option<Content>]) -> bool {
    let Ok(expected) = actions.files_after(image) else {
        return false;
    };
    let mut files = expected.iter().zip(files);
    files.all(|(content, file)| match content {
        Some(content) => holds(content, file).unwrap_or(false),
        None => true,
    })
}

/// Lines of output that are reported of a recovery that failed: the first ones, which are the message of a panic with a backtrace,
/// and the last ones.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 8;
/// Longer lines are cut.
const COLUMNS: usize = 400;

/// The first and the last lines of the first stream that is not empty.
fn shown_lines(streams: &[&Vec<u8>]) -> Vec<String> {
    let mut streams = streams.iter();
    let printed = streams.find(|stream| !stream.trim_ascii().is_empty());
    let Some(printed) = printed else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(printed.trim_ascii_end());
    let lines: Vec<&str> = text.lines().collect();
    let omitted = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
    if omitted < 2 {
        return lines.into_iter().map(shortened).collect();
    }
    let (first, rest) = lines.split_at(FIRST_LINES);
    let first = first.iter().copied().map(shortened);
    let last = rest[omitted..].iter().copied().map(shortened);
    let gap = format!("… {omitted} lines …");
    first.chain([gap]).chain(last).collect()
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(COLUMNS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_lines_of_output_are_shown() {
        let printed = |lines: usize| -> Vec<u8> {
            let lines: Vec<String> = (1..=lines).map(|line| line.to_string()).collect();
            lines.join("\n").into_bytes()
        };
        assert_eq!(shown_lines(&[&printed(0), &printed(2)]), ["1", "2"]);
        assert_eq!(shown_lines(&[&printed(13)]).len(), 13);
        let shown = shown_lines(&[&printed(40)]);
        let expected = "1 2 3 4|… 28 lines …|33 34 35 36 37 38 39 40";
        let parts = [shown[..4].join(" "), shown[4].clone(), shown[5..].join(" ")];
        assert_eq!(parts.join("|"), expected);
        let long = shown_lines(&[&vec![b'x'; 500]]);
        assert!(long[0].ends_with("x…") && long[0].chars().count() == 401);
    }
}
