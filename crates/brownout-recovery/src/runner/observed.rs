//! Recoveries under the engine: what they read and what they do to the persistent files.
//!
//! A recovery that does not pass under the engine is run natively on the same image, and that decides. Can miss: what recovery
//! does natively and not under the engine, if both runs pass.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Instant;

use brownout_trace::replay::Content;
use rustix::fs::MemfdFlags;

use super::{Attempt, RecoveryRunner, RecoveryTask, RunnerError};
use crate::branching::{CPU_LIMIT, ReadGuide, RunAnew};
use crate::file_content::holds;
use crate::reads::{ReadsMessage, ReadsQuestion, read_loads};
use crate::{
    Actor, ByteRanges, End, EngineRun, Observation, Orphans, Outcome, ReadBytes, RecoveryActions,
    RecoveryLoad, RecoveryReads,
};

/// Under the engine, recovery may take this many times as long as natively.
const ENGINE_FACTOR: u32 = 8;

const UNRECORDED_CHANGES: &str = "recovery writes to persistent files that it has not mapped, so not all crashes inside recovery are explored";

impl RecoveryRunner {
    /// Runs recovery once, under the engine, and learns what it reads. The reads are not known if recovery runs out of time.
    pub fn observe_reads(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
    ) -> Result<(Attempt, Option<RecoveryReads>), RunnerError> {
        let (attempt, message) = self.observe(image, task, &ReadsQuestion::default())?;
        Ok((attempt, message.map(|message| message.reads)))
    }

    /// Runs recovery once, under the engine, and learns in which order it first reads some bytes, which are given for each
    /// persistent file. If it does not pass, what it does natively decides, as in [`attempt`](Self::attempt).
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

    /// Runs recovery as [`attempt_observed`](Self::attempt_observed) does, and also learns what it does to the persistent files.
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
                    is_contradicted: false,
                    other_inputs: message.other_inputs,
                    // Which other files it has read is not known.
                    is_repeatable: false,
                    actions: message.actions,
                }
            }
        };
        self.decide(image, task, attempt, observation)
    }

    /// Runs recovery as [`attempt_observed`](Self::attempt_observed) does. If possible it does so with a copy of a process of an earlier
    /// run that has read the same bytes until then, and keeps processes where `guide` says that others will be wanted.
    pub fn attempt_branch(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<Attempt, RunnerError> {
        let started = Instant::now();
        let run = match self.recovery.client {
            None => {
                let task = (task, self.durations.until_branch_hangs(CPU_LIMIT));
                self.branches.run(&self.sandbox, image, task, wanted, guide)
            }
            Some(_) => Err(RunAnew::because("it is a server".to_owned())),
        };
        let run = match run {
            Ok(run) => run,
            Err(anew) => {
                let mut attempt = self.attempt_observed(image, task, wanted)?;
                if let Some(observation) = &mut attempt.observation {
                    observation.run_anew = anew.reason;
                    observation.is_contradicted = anew.is_contradicted;
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
            is_contradicted: false,
            is_repeatable: run.outcome.other_inputs.is_empty(),
            other_inputs: run.outcome.other_inputs,
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
            self.branches.be_patient(task.time_limit * ENGINE_FACTOR);
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

    /// Runs recovery once, under the engine, and learns where it first reads some bytes, which are given for each persistent file. If it
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
}

/// Whether the persistent files are as these actions leave them.
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
