//! Runs a target whose loads from persistent files are answered by the caller, and which forks where there are several
//! answers.
//!
//! [`ExploredTarget::start`] runs a target up to the first load of bytes that the caller has declared *open*. The process
//! then waits at a [`Question`]. [`ExploredTarget::answer`] lets it read the bytes of the caller's choice and runs it up to its next
//! question or its end. If the process is kept, a copy of it goes on instead, and the same question can be answered
//! again with other bytes: so whatever precedes a choice runs once. [`ExploredTarget::answer_freely`] also lets the process answer further
//! questions itself, with what the files hold, which takes no exchange of messages.
//!
//! Processes and this controller exchange messages in memory that they share (`brownout-ring`, module `explore`). One
//! process runs at a time; all others wait at their questions.
//!
//! What a copy of a process would share with others (files that are written, child processes…) ends the branch with
//! [`ExplorationStep::RunAnew`]: the caller has to run the target in another way, with the chosen bytes in the files.

mod branch;
mod idle_time;
mod mailboxes;
mod open_table;

pub use brownout_ring::explore::ALL_FREE;

pub use branch::{BranchEnd, BranchId, OutputPiece, Question, SharedEffect};
pub use open_table::OpenFile;

use self::branch::ExploredProcess;
use self::idle_time::IdleTime;
use self::mailboxes::Mailboxes;
use crate::launch::launch;
use crate::loader_image::LOADER;
use crate::program::Program;
use crate::repetition::{OtherInput, Repetition};
use crate::sys::process::{self, Pid, WaitMode};
use crate::sys::signals::SignalGate;
use crate::target::TargetError;
use crate::wire::Wire;
use brownout_ring::explore::{self, turn};
use brownout_ring::option;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// What to explore.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The files whose open bytes the caller chooses.
    pub files: Vec<OpenFile>,
    /// The processor time after which a process counts as hung. A copy starts with none.
    pub cpu_limit: Duration,
    /// How runs are made alike: the target is started again, and what copies of it have read has to hold then.
    pub repetition: Repetition,
}

/// What a process has come to.
#[derive(Debug)]
pub enum ExplorationStep {
    /// It waits for the bytes of a load.
    Question(Question),
    /// It has ended.
    End(BranchEnd),
    /// It was ended because its copies would disturb each other from here on.
    RunAnew(SharedEffect),
}

/// Why an exploration could not be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot use the explored file {}", path.display())]
    File {
        path: std::path::PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there are more open bytes in separate places than can be explored")]
    TooManyRanges,
    #[error("too many processes wait at a question; release some")]
    TooManyProcesses,
    #[error("no process waits at this question")]
    NotWaiting,
    #[error("the answer has {given} bytes, but the question asks for {asked}")]
    Length { given: usize, asked: usize },
    #[error("cannot determine how a process ended")]
    Wait(#[source] io::Error),
}

/// How often a process that runs is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A target under exploration. Its processes are killed when this is dropped.
pub struct ExploredTarget {
    // Dropped last: processes use the wire until they are killed.
    wire: Wire,
    differing: Option<OtherInput>,
    _gate: SignalGate,
    mailboxes: Mailboxes,
    processes: BTreeMap<u32, ExploredProcess>,
    cpu_limit: Duration,
    /// The questions that the process that runs has answered itself.
    free_reads: Vec<Question>,
}

impl ExploredTarget {
    /// Starts the target and runs it up to its first question or its end.
    pub fn start(options: &ExploreOptions) -> Result<(Self, ExplorationStep), ExploreError> {
        let program = Program::find(&options.command).map_err(TargetError::from)?;
        let table = open_table::encode(&options.files)?;
        let set_up = |error| ExploreError::Target(TargetError::SetUp(error));
        let gate = SignalGate::open().map_err(set_up)?;
        let wire =
            Wire::create(option::LOADS | option::EXPLORE | option::REPEATED).map_err(set_up)?;
        wire.put_open_table(&table).map_err(set_up)?;
        // Nobody reads records.
        wire.turn_off();
        let mailboxes = Mailboxes::map(wire.file()).map_err(set_up)?;
        let differing = options.repetition.prepare();
        let launched =
            launch(LOADER, &program, wire.file(), &gate).map_err(|source| TargetError::Start {
                path: program.path.clone(),
                source,
            })?;
        let mut target = Self {
            wire,
            differing,
            _gate: gate,
            mailboxes,
            processes: BTreeMap::new(),
            cpu_limit: options.cpu_limit,
            free_reads: Vec::new(),
        };
        target
            .processes
            .insert(0, ExploredProcess::first(launched.pid));
        let step = target.run(0)?;
        Ok((target, step))
    }

    /// Answers a question and runs the process up to its next question or its end. If it is to be kept, a copy of it runs
    /// instead, and the question can be answered again.
    pub fn answer(
        &mut self,
        branch: BranchId,
        bytes: &[u8],
        keep: bool,
    ) -> Result<ExplorationStep, ExploreError> {
        self.answer_freely(branch, bytes, keep, 0)
            .map(|(step, _)| step)
    }

    /// Answers a question as [`answer`](Self::answer) does, and lets the process that goes on answer so many further questions itself,
    /// with the bytes that the files hold at that time; all if it is [`ALL_FREE`]. Also returns these questions, in order. It may ask
    /// earlier: it can note only some hundred.
    ///
    /// The bytes of the files that are not open must not change as long as there are processes.
    pub fn answer_freely(
        &mut self,
        branch: BranchId,
        bytes: &[u8],
        keep: bool,
        free: u32,
    ) -> Result<(ExplorationStep, Vec<Question>), ExploreError> {
        let waiting = self
            .processes
            .get(&branch.0)
            .ok_or(ExploreError::NotWaiting)?;
        let asked = waiting.question.clone();
        let asked = asked.ok_or(ExploreError::NotWaiting)?;
        if bytes.len() != asked.len {
            return Err(ExploreError::Length {
                given: bytes.len(),
                asked: asked.len,
            });
        }
        // A process that was kept comes back to its question soon after its copy was made.
        let pid = waiting.pid.ok_or(ExploreError::NotWaiting)?;
        while self.mailboxes.wait(branch.0, POLL_INTERVAL) != turn::QUESTION {
            if process::wait(pid, WaitMode::Poll)
                .map_err(ExploreError::Wait)?
                .is_some()
            {
                self.processes.remove(&branch.0);
                return Err(ExploreError::NotWaiting);
            }
        }
        let child = match keep {
            false => None,
            true => Some(self.free_mailbox().ok_or(ExploreError::TooManyProcesses)?),
        };
        let mut next = waiting.answered(asked, bytes);
        if let Some(child) = child {
            self.mailboxes.clear(child);
            next.pid = None;
        } else {
            self.processes.remove(&branch.0);
        }
        let running = child.unwrap_or(branch.0);
        self.mailboxes.answer(branch.0, bytes, child, free);
        self.processes.insert(running, next);
        self.free_reads.clear();
        let step = self.run(running)?;
        Ok((step, std::mem::take(&mut self.free_reads)))
    }

    /// Ends a process that waits at a question.
    pub fn release(&mut self, branch: BranchId) {
        if let Some(branch) = self.processes.remove(&branch.0) {
            branch.kill();
        }
    }

    /// How many processes wait at a question.
    pub fn waiting(&self) -> usize {
        self.processes.len()
    }

    /// What processes have used that is not the same in each run.
    pub fn other_inputs(&self) -> Vec<OtherInput> {
        let used = OtherInput::of(self.wire.inputs());
        used.chain(self.differing).collect()
    }

    fn free_mailbox(&self) -> Option<u32> {
        (0..explore::PROCESSES as u32).find(|number| !self.processes.contains_key(number))
    }

    /// Waits until the process of a mailbox has come to a question or its end.
    fn run(&mut self, number: u32) -> Result<ExplorationStep, ExploreError> {
        let mut idle = IdleTime::new();
        loop {
            let turn = self.mailboxes.wait(number, POLL_INTERVAL);
            if let Some(branch) = self.processes.get_mut(&number)
                && branch.pid.is_none()
            {
                branch.pid = self.mailboxes.pid(number);
            }
            match turn {
                turn::QUESTION => return Ok(ExplorationStep::Question(self.take_question(number))),
                turn::RUN_ANEW => {
                    let effect = self.mailboxes.effect(number);
                    self.release(BranchId(number));
                    return Ok(ExplorationStep::RunAnew(effect));
                }
                turn => {
                    let mode = match turn {
                        turn::ENDING => WaitMode::Block,
                        _ => WaitMode::Poll,
                    };
                    if let Some(end) = self.ended(number, mode)? {
                        return Ok(ExplorationStep::End(end));
                    }
                    let pid = self.processes.get(&number).and_then(|branch| branch.pid);
                    if pid.is_some_and(|pid| idle.is_over(pid)) {
                        self.release(BranchId(number));
                        return Ok(ExplorationStep::RunAnew(SharedEffect::Wait));
                    }
                }
            }
        }
    }

    fn take_question(&mut self, number: u32) -> Question {
        let output = self.mailboxes.take_output(number);
        let question = self.mailboxes.question(number);
        self.free_reads.extend(self.mailboxes.take_reads(number));
        if let Some(branch) = self.processes.get_mut(&number) {
            branch.output.extend(output);
            branch.question = Some(question.clone());
        }
        question
    }

    /// How the process of a mailbox ended, if it did. Kills it if it has used too much processor time.
    fn ended(&mut self, number: u32, mode: WaitMode) -> Result<Option<BranchEnd>, ExploreError> {
        let Some(pid) = self.processes.get(&number).and_then(|branch| branch.pid) else {
            return Ok(None);
        };
        let hung = mode == WaitMode::Poll
            && process::cpu_time(pid).is_some_and(|used| used > self.cpu_limit);
        if hung {
            process::kill(pid, Signal::KILL);
        }
        let mode = if hung { WaitMode::Block } else { mode };
        let Some(ended) = process::wait(pid, mode).map_err(ExploreError::Wait)? else {
            return Ok(None);
        };
        let output = self.mailboxes.take_output(number);
        self.free_reads.extend(self.mailboxes.take_reads(number));
        let branch = self.processes.remove(&number);
        Ok(branch.map(|branch| branch.ended(ended.end, hung, output)))
    }
}

impl Drop for ExploredTarget {
    fn drop(&mut self) {
        for branch in self.processes.values() {
            branch.kill();
        }
    }
}

/// Kills and waits for a process.
fn end_process(pid: Pid) {
    process::kill(pid, Signal::KILL);
    let _ = process::wait(pid, WaitMode::Block);
}
