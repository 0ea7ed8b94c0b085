//! Runs a recovery under the engine, inside the sandbox.
//!
//! The engine needs threads, and the sandbox server must not have any. So the server starts its own executable once more,
//! inside the sandbox, as the *engine host*: a process that runs the recovery under the engine, takes its events and
//! then ends as the recovery did. To the server it looks like the recovery itself.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek as _, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::time::SystemTime;

use brownout_engine::{
    LiveEvents, Notice, OnFull, ProgramError, Repetition, StopReason, Target, TargetError,
    TargetOptions, is_unrecorded_program,
};
use brownout_trace::{Header, ProcessEnd, TraceWriter};
use rustix::io::FdFlags;
use rustix::process::{Signal, getpid, kill_process};

use super::{branching_host, fuzz_host};
use crate::HeldRun;
use crate::channel::EngineMessage;
use crate::command_line::{CommandLine, SHELL};
use crate::input_run;
use crate::reads::observer::ReadObserver;
use crate::reads::{LoadWriter, ReadsQuestion};
use crate::sys;

/// The first argument of an engine host, after those of the sandbox server.
const HOST: &str = "engine-host";
/// The ids of a host and of its recovery, in a sandbox with a pid namespace. They are the same in each run, because a recovery may
/// keep its id in persistent memory, as the locks of libpmemobj do.
pub const HOST_PID: u32 = 100;
const RECOVERY_PID: u32 = 1000;
/// Says whether a host is in a pid namespace of the sandbox.
const OWN_PIDS: &str = "own-pids";
const SHARED_PIDS: &str = "shared-pids";
/// What stands for the number of a descriptor that is not given.
const NO_FILE: &str = "none";

/// The server's end of the pipe on which an engine host reports why it could not run the recovery.
#[derive(Debug)]
pub struct EngineReport(PipeReader);

impl EngineReport {
    /// The reason, once all processes of the run have ended; `None` if the engine ran it.
    pub fn read(mut self) -> Option<String> {
        let mut reason = String::new();
        let _ = self.0.read_to_string(&mut reason);
        Some(reason).filter(|reason| !reason.is_empty())
    }
}

/// A command that starts an engine host, and the descriptors that the host must inherit.
pub struct EngineHost<'a> {
    pub command: Command,
    inherited: Vec<InheritedDescriptor<'a>>,
}

enum InheritedDescriptor<'a> {
    Output(BorrowedFd<'a>),
    RunReport(PipeWriter),
}

impl AsFd for InheritedDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Output(file) => file.as_fd(),
            Self::RunReport(report) => report.as_fd(),
        }
    }
}

impl<'a> EngineHost<'a> {
    /// For a command line that finds persistent files at the first path of each pair, in place of the second. A trace, or the reads, go to
    /// `output` if there is one; it is the connection to the caller if recovery branches.
    pub fn new(
        line: &CommandLine,
        observed: EngineMessage,
        output: Option<BorrowedFd<'a>>,
        persistent_files: &[[PathBuf; 2]],
        has_own_pids: bool,
    ) -> io::Result<(Self, EngineReport)> {
        let (reasons, report) = io::pipe()?;
        let output_number = output.map_or_else(
            || NO_FILE.to_owned(),
            |output| output.as_raw_fd().to_string(),
        );
        let mut command = Command::new("/proc/self/exe");
        command
            .args(std::env::args_os().skip(1))
            .args([HOST, &report.as_raw_fd().to_string(), &output_number])
            .arg(name_of(observed))
            .arg(if has_own_pids { OWN_PIDS } else { SHARED_PIDS })
            .arg((2 * persistent_files.len()).to_string())
            .args(persistent_files.as_flattened())
            .arg(line.text())
            .args(line.words());
        let mut inherited = vec![InheritedDescriptor::RunReport(report)];
        inherited.extend(output.map(InheritedDescriptor::Output));
        let host = Self { command, inherited };
        Ok((host, EngineReport(reasons)))
    }

    /// Runs `start` while children inherit the descriptors. This process has no other thread that could start one.
    pub fn with_descriptors<T>(
        &mut self,
        start: impl FnOnce(&mut Command) -> io::Result<T>,
    ) -> io::Result<T> {
        for descriptor in &self.inherited {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        let started = start(&mut self.command);
        for descriptor in &self.inherited {
            rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
        }
        started
    }
}

fn name_of(observed: EngineMessage) -> &'static str {
    match observed {
        EngineMessage::Stores => "stores",
        EngineMessage::Loads => "loads",
        EngineMessage::Reads => "reads",
        EngineMessage::Branches => "branches",
        EngineMessage::Held => "held",
        EngineMessage::Fuzz => "fuzz",
        EngineMessage::Input => "input",
    }
}

/// The arguments of an engine host, if that is what this process was started as.
pub fn host_arguments(arguments: &[OsString]) -> Option<&[OsString]> {
    match arguments.split_first() {
        Some((first, rest)) if first == HOST => Some(rest),
        _ => None,
    }
}

/// Runs the recovery that the arguments describe, and ends as it did.
pub fn host(arguments: &[OsString]) -> ! {
    let Some(mut assignment) = Assignment::parse(arguments) else {
        // Only a sandbox server of the same build starts this.
        exit(1);
    };
    // A recovery that keeps pointers, or hashes them, does the same in each run then.
    sys::disable_address_randomization();
    match assignment.run() {
        Ok(end) => {
            if let ProcessEnd::Signaled { signal } = end {
                brownout_engine::die_by(signal);
            }
            exit(end.shell_status())
        }
        Err(error) => {
            let _ = assignment.report.write_all(error.to_string().as_bytes());
            exit(1)
        }
    }
}

struct Assignment {
    report: File,
    output: Option<File>,
    observed: EngineMessage,
    has_own_pids: bool,
    /// Where each persistent file is, and its original path.
    persistent_files: Vec<[PathBuf; 2]>,
    /// The commands to try: the words of the command line if it needs no shell, then a shell.
    commands: Vec<Vec<OsString>>,
}

/// An error with its causes, in a line.
pub struct HostError(String);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for HostError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self(text)
    }
}

impl Assignment {
    fn parse(arguments: &[OsString]) -> Option<Self> {
        let [report, output, observed, pids, count, rest @ ..] = arguments else {
            return None;
        };
        let (paths, command) = rest.split_at_checked(count.to_str()?.parse().ok()?)?;
        let (text, words) = command.split_first()?;
        let kinds = [
            EngineMessage::Stores,
            EngineMessage::Loads,
            EngineMessage::Reads,
            EngineMessage::Branches,
            EngineMessage::Held,
            EngineMessage::Fuzz,
            EngineMessage::Input,
        ];
        let descriptor = |number: &OsStr| -> Option<File> {
            let number: RawFd = number.to_str()?.parse().ok()?;
            let descriptor: OwnedFd = sys::take_inherited(number)?;
            rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
            Some(descriptor.into())
        };
        let shell = vec![SHELL.into(), "-c".into(), text.clone()];
        let direct = Some(words.to_vec()).filter(|words| !words.is_empty());
        Some(Self {
            report: descriptor(report)?,
            output: match output {
                none if none == NO_FILE => None,
                number => Some(descriptor(number)?),
            },
            has_own_pids: pids == OWN_PIDS,
            observed: kinds.into_iter().find(|&kind| observed == name_of(kind))?,
            persistent_files: paths
                .as_chunks()
                .0
                .iter()
                .map(|[here, original]| [here.into(), original.into()])
                .collect(),
            commands: direct.into_iter().chain([shell]).collect(),
        })
    }

    fn run(&mut self) -> Result<ProcessEnd, HostError> {
        if self.observed == EngineMessage::Branches
            && let Some(connection) = self.output.take()
        {
            let repetition = self.repetition();
            branching_host::serve(
                connection.into(),
                &self.commands,
                &self.persistent_files,
                repetition,
            )?;
            return Ok(ProcessEnd::Exited { status: 0 });
        }
        if self.observed == EngineMessage::Fuzz
            && let Some(connection) = self.output.take()
        {
            fuzz_host::serve(connection.into(), &self.persistent_files, self.repetition())?;
            return Ok(ProcessEnd::Exited { status: 0 });
        }
        if self.observed == EngineMessage::Held
            && let Some(output) = self.output.take()
        {
            return self.run_held(output);
        }
        if self.observed == EngineMessage::Input
            && let Some(output) = self.output.take()
        {
            return input_run::host::run(output, self.repetition(), self.has_own_pids);
        }
        let (target, command) = self.prepare()?;
        let Some(output) = self.output.take() else {
            return Ok(target.run(LiveEvents::discard(), &mut |_| ())?.end);
        };
        if self.observed == EngineMessage::Reads {
            return self.observe_reads(target, output);
        }
        let header = Header {
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            cwd: std::env::current_dir()?,
            pm: Vec::new(),
            loads: self.observed == EngineMessage::Loads,
            shared_loads: false,
            started: SystemTime::now(),
        };
        let writer = TraceWriter::new(output, &header)?;
        Ok(target.run(writer, &mut |_| ())?.finish().end)
    }

    /// Runs a target whose threads are held, and writes its trace. Processes that it leaves behind are not waited for.
    fn run_held(&self, mut output: File) -> Result<ProcessEnd, HostError> {
        let mut held = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut held)?;
        let held: HeldRun = postcard::from_bytes(&held)?;
        output.set_len(0)?;
        output.rewind()?;
        let command = held.command();
        let target = Target::prepare(&TargetOptions {
            patch: None,
            command: command.clone(),
            loads: held.holds(),
            locks: held.holds(),
            shared_loads: false,
            reads: false,
            coverage: false,
            watch: held.watch(),
            on_full: OnFull::Continue,
            repetition: Some(self.repetition()),
            hold: held.holds().then(|| held.plan()),
            schedule: None,
            symbolic: Vec::new(),
            client: None,
        })?;
        let header = Header {
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            cwd: std::env::current_dir()?,
            pm: held.patterns(),
            loads: held.holds(),
            shared_loads: false,
            started: SystemTime::now(),
        };
        let writer = TraceWriter::new(output, &header)?;
        let run = target.run(writer, &mut |notice| {
            if let Notice::Waiting = notice {
                let _ = kill_process(getpid(), Signal::TERM);
            }
        })?;
        Ok(run.finish().end)
    }

    /// Runs the recovery and writes what it reads. Processes that it leaves behind are not waited for: natively, they are killed.
    fn observe_reads(&self, target: Target, mut output: File) -> Result<ProcessEnd, HostError> {
        let mut question = Vec::new();
        output.read_to_end(&mut question)?;
        let question: ReadsQuestion = postcard::from_bytes(&question)?;
        let with_stacks = question.with_stacks;
        let mut observer = ReadObserver::new(&self.persistent_files, question)?;
        if with_stacks {
            observer.write_loads(LoadWriter::new(output.try_clone()?)?);
        }
        let run = target.run(observer, &mut |notice| {
            if let Notice::Waiting = notice {
                // The engine stops waiting when this process is asked to end.
                let _ = kill_process(getpid(), Signal::TERM);
            }
        })?;
        let mut observer = run.destination;
        if observer.finish_loads()? {
            return Ok(run.end);
        }
        let mut message = observer.finish()?;
        message.other_inputs = run.other_inputs.iter().map(ToString::to_string).collect();
        let gaps = &mut message.reads.gaps;
        let unrecorded = run.notes.into_iter();
        gaps.extend(unrecorded.filter(|note| is_unrecorded_program(note)));
        let stopped = run
            .stopped
            .filter(|reason| !matches!(reason, StopReason::Interrupted));
        gaps.extend(stopped.map(|reason| reason.to_string()));
        output.set_len(0)?;
        output.write_all_at(&postcard::to_stdvec(&message)?, 0)?;
        Ok(run.end)
    }

    fn repetition(&self) -> Repetition {
        Repetition {
            pid: self.has_own_pids.then_some(RECOVERY_PID),
        }
    }

    fn prepare(&self) -> Result<(Target, Vec<OsString>), TargetError> {
        first_program(&self.commands, |command| {
            let options = TargetOptions {
                command: command.clone(),
                loads: self.observed == EngineMessage::Loads,
                locks: false,
                shared_loads: false,
                reads: self.observed == EngineMessage::Reads,
                coverage: false,
                watch: Vec::new(),
                on_full: OnFull::Continue,
                repetition: Some(self.repetition()),
                hold: None,
                patch: None,
                schedule: None,
                symbolic: Vec::new(),
                client: None,
            };
            Ok((Target::prepare(&options)?, command.clone()))
        })
    }
}

/// Starts the first command that can be run. What is not a program may be a built-in of the shell; otherwise the shell
/// reports the error.
pub fn first_program<T>(
    commands: &[Vec<OsString>],
    mut start: impl FnMut(&Vec<OsString>) -> Result<T, TargetError>,
) -> Result<T, TargetError> {
    let mut missing = None;
    for command in commands {
        match start(command) {
            Err(TargetError::Program(
                error @ (ProgramError::NotInPath { .. }
                | ProgramError::NotAccessible { .. }
                | ProgramError::Directory { .. }
                | ProgramError::NotAProgram { .. }),
            )) => missing = Some(error),
            started => return started,
        }
    }
    Err(missing.unwrap_or(ProgramError::NoName).into())
}
