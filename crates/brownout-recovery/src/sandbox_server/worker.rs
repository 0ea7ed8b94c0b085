//! The loop of the sandbox server: one run after the other.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, WaitStatus};

use super::Session;
use super::confinement::Confinement;
use super::engine_host::EngineReport;
use super::launch::Streams;
use super::left_processes::{FileUseNotices, orphans};
use crate::channel::{
    Channel, ChannelError, DESCRIPTORS_AT_ONCE, ExecutionMessage, Follows, Reply, RunMessage,
    RunReport,
};
use crate::command_line::CommandLine;
use crate::run_monitor::{MonitorError, RunEvent, RunMonitor};
use crate::stall::StallDetector;
use crate::tracer::Tracer;
use crate::view::Condition;
use crate::{Actor, End, Orphans, Refusal, sys};

/// Why a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// There are no more requests.
    Done,
    /// The file system cannot be restored; another worker must continue in a new sandbox.
    Renew,
}

/// Runs recoveries.
pub struct Worker<'a> {
    pub session: &'a Session,
    pub confinement: Confinement,
    channel: Channel,
    /// Readable when a child has ended or stopped.
    children: OwnedFd,
    tracer: RefCell<Tracer>,
    /// The report of the present run under the engine.
    pub engine_report: RefCell<Option<EngineReport>>,
}

/// A run that was asked for, with its descriptors.
pub struct RequestedRun {
    pub message: RunMessage,
    /// The user's terminal, if recovery gets it.
    terminal: Option<[OwnedFd; 3]>,
    /// Where a trace, or the reads, are written to.
    pub engine_file: Option<OwnedFd>,
}

impl RequestedRun {
    fn new(message: RunMessage, descriptors: Vec<OwnedFd>) -> Result<Self, ChannelError> {
        let mut descriptors = descriptors.into_iter();
        let terminal = if message.interactive {
            let three: Vec<OwnedFd> = descriptors.by_ref().take(3).collect();
            Some(<[OwnedFd; 3]>::try_from(three).map_err(|_| ChannelError::Unexpected)?)
        } else {
            None
        };
        Ok(Self {
            message,
            terminal,
            engine_file: descriptors.next(),
        })
    }

    pub fn is_traced(&self) -> bool {
        self.message.execution == ExecutionMessage::Traced
    }

    fn is_under_engine(&self) -> bool {
        matches!(self.message.execution, ExecutionMessage::Engine(_))
    }
}

/// Why a run has no outcome.
pub enum RunError {
    Refused(Refusal),
    /// Brownout has ended.
    Abandoned,
}

impl From<MonitorError> for RunError {
    fn from(error: MonitorError) -> Self {
        match error {
            MonitorError::Abandoned => Self::Abandoned,
            MonitorError::Fault(errno) => Self::Refused(Refusal::Wait { errno }),
        }
    }
}

impl From<Refusal> for RunError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn cleanup(error: io::Error) -> RunError {
    RunError::Refused(Refusal::Cleanup {
        errno: error.into(),
    })
}

/// The commands with the paths of the persistent files inserted.
struct Commands {
    recovery: CommandLine,
    client: Option<CommandLine>,
}

impl<'a> Worker<'a> {
    pub fn new(
        session: &'a Session,
        confinement: Confinement,
        channel: Channel,
    ) -> Result<Self, ChannelError> {
        let children = sys::child_events().map_err(|_| ChannelError::Unexpected)?;
        Ok(Self {
            session,
            confinement,
            channel,
            children,
            tracer: RefCell::default(),
            engine_report: RefCell::default(),
        })
    }

    /// Handles requests until there are no more.
    pub fn work(&mut self) -> Result<WorkerExit, ChannelError> {
        let commands = match self.prepare() {
            Ok(commands) => commands,
            Err(refusal) => {
                self.channel.send(&Reply::Refused(refusal), &[])?;
                return Ok(WorkerExit::Done);
            }
        };
        let isolation = self.confinement.isolation();
        let files = self.session.files.len();
        self.channel.send(&Reply::Ready { isolation, files }, &[])?;
        self.send_files(&(0..files).collect::<Vec<_>>())?;
        loop {
            let (message, descriptors) = self.channel.receive::<RunMessage>()?;
            let mut request = RequestedRun::new(message, descriptors)?;
            match self.run(&commands, &mut request) {
                Ok(WorkerExit::Done) => {}
                Ok(WorkerExit::Renew) => return Ok(WorkerExit::Renew),
                Err(RunError::Abandoned) => {
                    // Without namespaces nothing else ends the processes.
                    let _ = self.confinement.end_all();
                    return Ok(WorkerExit::Done);
                }
                Err(RunError::Refused(refusal)) => {
                    let _ = self.confinement.end_all();
                    self.channel.send(&Reply::Refused(refusal), &[])?;
                    return Ok(WorkerExit::Done);
                }
            }
        }
    }

    fn prepare(&self) -> Result<Commands, Refusal> {
        let paths = self.confinement.paths(&self.session.files);
        let recovery = &self.session.setup.recovery;
        let commands = Commands {
            recovery: CommandLine::new(&recovery.command, &paths)?,
            client: recovery
                .client
                .as_ref()
                .map(|client| CommandLine::new(client, &paths))
                .transpose()?,
        };
        // A limit of 1 rather than 0 also keeps the kernel from starting a program that collects dumps.
        limit(Resource::Core, 1);
        if let Some(size) = recovery.file_size_limit {
            limit(Resource::Fsize, size);
        }
        // If the machine runs out of memory, the kernel should kill the recovery.
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        Ok(commands)
    }

    fn send_files(&self, numbers: &[usize]) -> Result<(), ChannelError> {
        let files = self.confinement.persistent_files();
        let mut packets = numbers.chunks(DESCRIPTORS_AT_ONCE).peekable();
        while let Some(packet) = packets.next() {
            let descriptors: Vec<_> = packet.iter().map(|&number| files[number].as_fd()).collect();
            let message = Reply::Files {
                numbers: packet.to_vec(),
                more: packets.peek().is_some(),
            };
            self.channel.send(&message, &descriptors)?;
        }
        Ok(())
    }

    /// Runs recovery once, cleans up and reports.
    fn run(
        &mut self,
        commands: &Commands,
        request: &mut RequestedRun,
    ) -> Result<WorkerExit, RunError> {
        self.confinement.hide(&request.message.absent)?;
        self.tracer.borrow_mut().begin();
        // A server is meant to run on when its client has ended.
        let patience = request.message.patience;
        let files = match patience.is_zero() || commands.client.is_some() {
            true => None,
            false => Some(FileUseNotices::new(
                &self.confinement.paths(&self.session.files),
            )),
        };
        let started = Instant::now();
        let ((end, actor), have_ended) = match &commands.client {
            Some(client) => (self.run_server(&commands.recovery, client, request)?, false),
            None => {
                let (end, have_ended) = self.run_alone(&commands.recovery, request)?;
                ((end, Actor::Recovery), have_ended)
            }
        };
        let duration = started.elapsed();
        let orphans = match files {
            Some(files) if matches!(end, End::Exited(_)) => {
                orphans(&self.monitor(request), &files, patience, have_ended)?
            }
            _ => Orphans::None,
        };
        let frames = match end {
            _ if !request.is_traced() => Vec::new(),
            End::TimedOut | End::OutOfMemory => self.tracer.borrow_mut().frames_now(),
            end => self.tracer.borrow().frames(end),
        };
        self.confinement.end_all().map_err(cleanup)?;
        let report = self.engine_report.borrow_mut().take();
        if let Some(reason) = report.and_then(EngineReport::read) {
            return Err(Refusal::Engine { reason }.into());
        }
        let is_clean = self.confinement.condition().map_err(cleanup)? == Condition::Unchanged;
        let mut report = RunReport {
            end,
            actor,
            duration,
            orphans,
            frames,
            follows: Follows::Nothing,
        };
        if is_clean {
            self.reply(&Reply::Ended(report))?;
            return Ok(WorkerExit::Done);
        }
        // A file system that cannot be restored is replaced.
        let restored = self.confinement.restore().unwrap_or(None);
        report.follows = match &restored {
            None => Follows::Ready,
            Some(new) if new.is_empty() => Follows::Nothing,
            Some(_) => Follows::Files,
        };
        self.reply(&Reply::Ended(report))?;
        match restored {
            None => Ok(WorkerExit::Renew),
            Some(new) => {
                self.send_files(&new).map_err(|_| RunError::Abandoned)?;
                Ok(WorkerExit::Done)
            }
        }
    }

    fn reply(&self, reply: &Reply) -> Result<(), RunError> {
        // A reply cannot be sent only if brownout has ended.
        self.channel
            .send(reply, &[])
            .map_err(|_| RunError::Abandoned)
    }

    pub fn monitor(&self, request: &RequestedRun) -> RunMonitor<'_> {
        let time_limit = (!request.message.interactive).then_some(request.message.time_limit);
        let mut monitor = RunMonitor::new(
            &self.children,
            self.channel.as_fd(),
            [&self.session.stdout, &self.session.stderr],
            self.session.setup.recovery.memory_limit,
            time_limit,
        );
        // Under the engine, processes also wait for the recorder.
        if let Some(limit) = time_limit.filter(|_| !request.is_under_engine()) {
            monitor.stall = Some(StallDetector::new(limit / 2, Instant::now()));
        }
        monitor
    }

    /// The next event, except stops of traced threads.
    pub fn next(
        &self,
        monitor: &mut RunMonitor<'_>,
        patience: Option<Duration>,
    ) -> Result<RunEvent, MonitorError> {
        loop {
            match monitor.next(patience)? {
                RunEvent::Changed(thread, status)
                    if self.tracer.borrow_mut().handle(thread, status) => {}
                happening => return Ok(happening),
            }
        }
    }

    /// Runs a command until its first process ends. Also returns whether others have ended before for which nobody had waited.
    fn run_alone(
        &self,
        command: &CommandLine,
        request: &mut RequestedRun,
    ) -> Result<(End, bool), RunError> {
        let terminal = request.terminal.take();
        let streams = terminal.map_or(Streams::Separate, Streams::Terminal);
        let mut monitor = self.monitor(request);
        let main = self.start(Actor::Recovery, command, request, &streams)?;
        if let Streams::Terminal([input, ..]) = &streams {
            // It may have been stopped for reading before it was in the foreground.
            let _ = rustix::termios::tcsetpgrp(input, main);
            let _ = rustix::process::kill_process_group(main, Signal::CONT);
        }
        let mut have_ended = false;
        let end = loop {
            match self.next(&mut monitor, None)? {
                RunEvent::Changed(pid, status) if pid == main => {
                    if let Some(end) = end_of(status) {
                        break end;
                    }
                }
                RunEvent::Changed(_, status) => have_ended |= end_of(status).is_some(),
                RunEvent::Nothing => {}
                RunEvent::TimeOver => break End::TimedOut,
                RunEvent::MemoryOver => break End::OutOfMemory,
            }
        };
        Ok((end, have_ended))
    }
}

fn limit(resource: Resource, value: u64) {
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    // Fails if a lower limit is already in force, which is fine.
    let _ = rustix::process::setrlimit(resource, limit);
}

/// How a process ended; `None` if it only stopped.
pub fn end_of(status: WaitStatus) -> Option<End> {
    status
        .exit_status()
        .map(End::Exited)
        .or_else(|| status.terminating_signal().map(End::Signaled))
}
