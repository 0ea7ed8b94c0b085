//! Runs a recovery under the engine, inside the sandbox.
//!
//! The engine needs threads, and the sandbox server must not have any. So the server starts its own executable once more,
//! inside the sandbox, as the *engine host*: a process that runs the recovery under the engine, takes its events and
//! then ends as the recovery did. To the server it looks like the recovery itself.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{Command, exit};
use std::time::SystemTime;

use brownout_engine::{LiveEvents, OnFull, ProgramError, Target, TargetError, TargetOptions};
use brownout_trace::{Header, ProcessEnd, TraceWriter};
use rustix::io::FdFlags;

use crate::command_line::{CommandLine, SHELL};
use crate::sys;

/// The first argument of an engine host, after those of the sandbox server.
const HOST: &str = "engine-host";
/// What stands for the number of a descriptor that is not given.
const NO_TRACE: &str = "none";

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
    Trace(BorrowedFd<'a>),
    RunReport(PipeWriter),
}

impl AsFd for InheritedDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Trace(trace) => trace.as_fd(),
            Self::RunReport(report) => report.as_fd(),
        }
    }
}

impl<'a> EngineHost<'a> {
    /// For a command line whose events go to `trace`, if there is one.
    pub fn new(
        line: &CommandLine,
        loads: bool,
        trace: Option<BorrowedFd<'a>>,
    ) -> io::Result<(Self, EngineReport)> {
        let (reasons, report) = io::pipe()?;
        let trace_number = trace.map_or_else(
            || NO_TRACE.to_owned(),
            |trace| trace.as_raw_fd().to_string(),
        );
        let mut command = Command::new("/proc/self/exe");
        command
            .args(std::env::args_os().skip(1))
            .args([HOST, &report.as_raw_fd().to_string(), &trace_number])
            .arg(if loads { "loads" } else { "stores" })
            .arg(line.text())
            .args(line.words());
        let mut inherited = vec![InheritedDescriptor::RunReport(report)];
        inherited.extend(trace.map(InheritedDescriptor::Trace));
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
    trace: Option<File>,
    loads: bool,
    /// The commands to try: the words of the command line if it needs no shell, then a shell.
    commands: Vec<Vec<OsString>>,
}

/// An error with its causes, in a line.
struct HostError(String);

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
        let [report, trace, observed, text, words @ ..] = arguments else {
            return None;
        };
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
            trace: match trace {
                none if none == NO_TRACE => None,
                number => Some(descriptor(number)?),
            },
            loads: observed == "loads",
            commands: direct.into_iter().chain([shell]).collect(),
        })
    }

    fn run(&mut self) -> Result<ProcessEnd, HostError> {
        let (target, command) = self.prepare()?;
        let Some(trace) = self.trace.take() else {
            return Ok(target.run(LiveEvents::discard(), &mut |_| ())?.end);
        };
        let header = Header {
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            cwd: std::env::current_dir()?,
            pm: Vec::new(),
            loads: self.loads,
            started: SystemTime::now(),
        };
        let writer = TraceWriter::new(trace, &header)?;
        Ok(target.run(writer, &mut |_| ())?.finish().end)
    }

    /// The first command that can be run. What is not a program may be a built-in of the shell; otherwise the shell
    /// reports the error.
    fn prepare(&self) -> Result<(Target, Vec<OsString>), TargetError> {
        let mut missing = None;
        for command in &self.commands {
            let options = TargetOptions {
                command: command.clone(),
                loads: self.loads,
                coverage: false,
                watch: Vec::new(),
                on_full: OnFull::Continue,
            };
            match Target::prepare(&options) {
                Ok(target) => return Ok((target, command.clone())),
                Err(TargetError::Program(
                    error @ (ProgramError::NotInPath { .. }
                    | ProgramError::NotAccessible { .. }
                    | ProgramError::Directory { .. }
                    | ProgramError::NotAProgram { .. }),
                )) => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(missing.unwrap_or(ProgramError::NoName).into())
    }
}
