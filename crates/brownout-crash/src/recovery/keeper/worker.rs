//! The loop of a keeper: one run after the other.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitStatus};

use super::Assignment;
use super::place::Place;
use crate::recovery::command_line::CommandLine;
use crate::recovery::server::ReadinessProbe;
use crate::recovery::tracer::{self, Tracer};
use crate::recovery::view::Condition;
use crate::recovery::watch::{Happening, Watch, WatchError};
use crate::recovery::wire::{
    Channel, DESCRIPTORS_AT_ONCE, Follows, Reply, Report, Request, WireError,
};
use crate::recovery::{Actor, End, Readiness, Refusal, sys};

/// The longest time between two looks at whether a server is ready.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Why a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Nobody wants anything any more.
    Done,
    /// Its place is spoilt; another is to go on in a new one.
    Renew,
}

/// Runs recoveries in a place.
pub struct Worker<'a> {
    assignment: &'a Assignment,
    place: Place,
    channel: Channel,
    /// Readable when a child has changed.
    children: OwnedFd,
    tracer: RefCell<Tracer>,
}

/// Why a run has no end that could be told.
enum RunError {
    Refused(Refusal),
    /// Brownout is gone.
    Abandoned,
}

impl From<WatchError> for RunError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Abandoned => Self::Abandoned,
            WatchError::Fault(errno) => Self::Refused(Refusal::Watch { errno }),
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

/// The commands with the paths put in.
struct Commands {
    recovery: CommandLine,
    client: Option<CommandLine>,
}

/// Where the standard streams of a process lead.
enum Streams {
    /// To what is compared and what is shown.
    Separate,
    /// Both to what is shown.
    Shown,
    /// To the user.
    Terminal([OwnedFd; 3]),
}

impl<'a> Worker<'a> {
    pub fn new(
        assignment: &'a Assignment,
        place: Place,
        channel: Channel,
    ) -> Result<Self, WireError> {
        let children = sys::child_events().map_err(|_| WireError::Unexpected)?;
        Ok(Self {
            assignment,
            place,
            channel,
            children,
            tracer: RefCell::default(),
        })
    }

    /// Works until nobody wants anything any more.
    pub fn work(&mut self) -> Result<Departure, WireError> {
        let commands = match self.prepare() {
            Ok(commands) => commands,
            Err(refusal) => {
                self.channel.send(&Reply::Refused(refusal), &[])?;
                return Ok(Departure::Done);
            }
        };
        let isolation = self.place.isolation();
        let files = self.assignment.files.len();
        self.channel.send(&Reply::Ready { isolation, files }, &[])?;
        self.send_files(&(0..files).collect::<Vec<_>>())?;
        loop {
            let (request, descriptors) = self.channel.receive::<Request>()?;
            match self.run(&commands, &request, descriptors) {
                Ok(Departure::Done) => {}
                Ok(Departure::Renew) => return Ok(Departure::Renew),
                Err(RunError::Abandoned) => {
                    // Without namespaces nobody else does.
                    let _ = self.place.end_all();
                    return Ok(Departure::Done);
                }
                Err(RunError::Refused(refusal)) => {
                    let _ = self.place.end_all();
                    self.channel.send(&Reply::Refused(refusal), &[])?;
                    return Ok(Departure::Done);
                }
            }
        }
    }

    fn prepare(&self) -> Result<Commands, Refusal> {
        let paths = self.place.paths(&self.assignment.files);
        let recovery = &self.assignment.setup.recovery;
        let commands = Commands {
            recovery: CommandLine::new(&recovery.command, &paths)?,
            client: recovery
                .client
                .as_ref()
                .map(|client| CommandLine::new(client, &paths))
                .transpose()?,
        };
        // A limit of 1 rather than 0 keeps the kernel from starting a program that collects dumps, too.
        limit(Resource::Core, 1);
        if let Some(size) = recovery.file_size_limit {
            limit(Resource::Fsize, size);
        }
        // If the machine runs out of memory, it is to be the recovery that goes.
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        Ok(commands)
    }

    fn send_files(&self, numbers: &[usize]) -> Result<(), WireError> {
        let files = self.place.pm_files();
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
        request: &Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Departure, RunError> {
        self.place.hide(&request.absent)?;
        self.tracer.borrow_mut().begin();
        let started = Instant::now();
        let (end, actor) = match &commands.client {
            Some(client) => self.run_server(&commands.recovery, client, request)?,
            None => (
                self.run_alone(&commands.recovery, request, descriptors)?,
                Actor::Recovery,
            ),
        };
        let duration = started.elapsed();
        let frames = match end {
            _ if !request.trace => Vec::new(),
            End::TimedOut | End::OutOfMemory => self.tracer.borrow_mut().frames_now(),
            end => self.tracer.borrow().frames(end),
        };
        self.place.end_all().map_err(cleanup)?;
        let is_clean = self.place.condition().map_err(cleanup)? == Condition::Unchanged;
        let mut report = Report {
            end,
            actor,
            duration,
            frames,
            follows: Follows::Nothing,
        };
        if is_clean {
            self.reply(&Reply::Ended(report))?;
            return Ok(Departure::Done);
        }
        // What is not as it was and cannot be made so is replaced as a whole.
        let restored = self.place.restore().unwrap_or(None);
        report.follows = match &restored {
            None => Follows::Ready,
            Some(new) if new.is_empty() => Follows::Nothing,
            Some(_) => Follows::Files,
        };
        self.reply(&Reply::Ended(report))?;
        match restored {
            None => Ok(Departure::Renew),
            Some(new) => {
                self.send_files(&new).map_err(|_| RunError::Abandoned)?;
                Ok(Departure::Done)
            }
        }
    }

    fn reply(&self, reply: &Reply) -> Result<(), RunError> {
        // A reply that cannot be sent has nobody to go to.
        self.channel
            .send(reply, &[])
            .map_err(|_| RunError::Abandoned)
    }

    fn watch(&self, request: &Request) -> Watch<'_> {
        Watch::new(
            &self.children,
            self.channel.as_fd(),
            [&self.assignment.stdout, &self.assignment.stderr],
            self.assignment.setup.recovery.memory_limit,
            (!request.interactive).then_some(request.time_limit),
        )
    }

    /// What happens next, stops for tracing aside.
    fn next(
        &self,
        watch: &mut Watch<'_>,
        patience: Option<Duration>,
    ) -> Result<Happening, WatchError> {
        loop {
            match watch.next(patience)? {
                Happening::Changed(thread, status)
                    if self.tracer.borrow_mut().handle(thread, status) => {}
                happening => return Ok(happening),
            }
        }
    }

    fn run_alone(
        &self,
        command: &CommandLine,
        request: &Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<End, RunError> {
        let streams = match <[OwnedFd; 3]>::try_from(descriptors) {
            Ok(terminal) => Streams::Terminal(terminal),
            Err(_) => Streams::Separate,
        };
        let mut watch = self.watch(request);
        let main = self.start(command, request, &streams)?;
        if let Streams::Terminal([input, ..]) = &streams {
            // It may have been stopped for reading before it was its turn.
            let _ = rustix::termios::tcsetpgrp(input, main);
            let _ = rustix::process::kill_process_group(main, Signal::CONT);
        }
        loop {
            match self.next(&mut watch, None)? {
                Happening::Changed(pid, status) if pid == main => {
                    if let Some(end) = end_of(status) {
                        return Ok(end);
                    }
                }
                Happening::Changed(..) | Happening::Nothing => {}
                Happening::TimeOver => return Ok(End::TimedOut),
                Happening::MemoryOver => return Ok(End::OutOfMemory),
            }
        }
    }

    /// Starts a server, waits until it is ready, and runs the client.
    fn run_server(
        &self,
        command: &CommandLine,
        client: &CommandLine,
        request: &Request,
    ) -> Result<(End, Actor), RunError> {
        let mut watch = self.watch(request);
        let server = self.start(command, request, &Streams::Shown)?;
        let mut is_running = true;
        if let Some(readiness) = &self.assignment.setup.recovery.ready
            && let Some(end) = self.await_ready(readiness, server, &mut is_running, &mut watch)?
        {
            return Ok((end, Actor::Recovery));
        }
        let client = self.start(client, request, &Streams::Separate)?;
        let verdict = loop {
            match self.next(&mut watch, None)? {
                Happening::Changed(pid, status) if pid == client => {
                    if let Some(end) = end_of(status) {
                        break (end, Actor::Client);
                    }
                }
                Happening::Changed(pid, status) if pid == server => {
                    match end_of(status) {
                        // A client may have asked it to end, and is to say what came of it.
                        Some(end) if self.is_success(end) => is_running = false,
                        Some(end) => return Ok((end, Actor::Recovery)),
                        None => {}
                    }
                }
                Happening::Changed(..) | Happening::Nothing => {}
                Happening::TimeOver => return Ok((End::TimedOut, Actor::Client)),
                Happening::MemoryOver => return Ok((End::OutOfMemory, Actor::Recovery)),
            }
        };
        self.stop(server, is_running, watch)?;
        Ok(verdict)
    }

    fn is_success(&self, end: End) -> bool {
        let success = &self.assignment.setup.recovery.success;
        matches!(end, End::Exited(status) if success.contains(&status))
    }

    /// Waits until a server is ready; returns its end if it never will be.
    fn await_ready(
        &self,
        readiness: &Readiness,
        server: Pid,
        is_running: &mut bool,
        watch: &mut Watch<'_>,
    ) -> Result<Option<End>, RunError> {
        let directory = &self.assignment.setup.recovery.directory;
        let mut probe = ReadinessProbe::new(readiness, directory);
        let mut pause = Duration::from_micros(200);
        while !probe
            .is_ready(&self.assignment.stderr)
            .map_err(WatchError::from)?
        {
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.next(watch, Some(pause))? {
                Happening::Changed(pid, status) if pid == server => match end_of(status) {
                    // A server that goes into the background leaves a process there.
                    Some(end) if self.is_success(end) && has_children() => *is_running = false,
                    Some(end) => return Ok(Some(end)),
                    None => {}
                },
                Happening::Changed(..) if !*is_running && !has_children() => {
                    return Ok(Some(End::Exited(0)));
                }
                Happening::Changed(..) | Happening::Nothing => {}
                Happening::TimeOver => return Ok(Some(End::TimedOut)),
                Happening::MemoryOver => return Ok(Some(End::OutOfMemory)),
            }
        }
        Ok(None)
    }

    /// Asks a server to end and gives it some time for that.
    fn stop(&self, server: Pid, is_running: bool, mut watch: Watch<'_>) -> Result<(), RunError> {
        if is_running {
            let _ = rustix::process::kill_process_group(server, Signal::TERM);
        } else {
            self.place.ask_to_end();
        }
        let grace = self.assignment.setup.recovery.stop_grace;
        watch.deadline = Instant::now().checked_add(grace);
        while has_children() {
            match self.next(&mut watch, None)? {
                Happening::Changed(pid, _) if pid == server && is_running => break,
                Happening::TimeOver | Happening::MemoryOver => break,
                Happening::Changed(..) | Happening::Nothing => {}
            }
        }
        Ok(())
    }

    fn start(
        &self,
        line: &CommandLine,
        request: &Request,
        streams: &Streams,
    ) -> Result<Pid, Refusal> {
        let refused = |error: io::Error| Refusal::Start {
            command: line.text().to_owned(),
            errno: error.into(),
        };
        let start = |mut command: Command| {
            self.equip(&mut command, request, streams)?;
            if request.trace {
                return tracer::start(command);
            }
            command.spawn().map(|child| pid_of(child.id()))
        };
        if let Some(command) = line.direct() {
            match start(command) {
                // A shell may know it, or can say better what is wrong.
                Err(error) if is_no_program(&error) => {}
                started => return started.map_err(refused),
            }
        }
        start(line.by_shell()).map_err(refused)
    }

    /// Nothing here may need code to run between fork and exec: without it starting is much faster.
    fn equip(&self, command: &mut Command, request: &Request, streams: &Streams) -> io::Result<()> {
        let assignment = self.assignment;
        let (stdout, stderr) = (&assignment.stdout, &assignment.stderr);
        let [input, output, error]: [Stdio; 3] = match streams {
            Streams::Separate => [
                Stdio::null(),
                stdout.try_clone()?.into(),
                stderr.try_clone()?.into(),
            ],
            Streams::Shown => [
                Stdio::null(),
                stderr.try_clone()?.into(),
                stderr.try_clone()?.into(),
            ],
            Streams::Terminal([input, output, error]) => [
                input.try_clone()?.into(),
                output.try_clone()?.into(),
                error.try_clone()?.into(),
            ],
        };
        command
            .current_dir(&assignment.setup.recovery.directory)
            .env("TMPDIR", self.place.temporary_directory())
            .envs(
                request
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(input)
            .stdout(output)
            .stderr(error)
            .process_group(0);
        Ok(())
    }
}

fn is_no_program(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ENOTDIR)
    )
}

fn pid_of(id: u32) -> Pid {
    Pid::from_raw(id as i32).expect("a process that was started has a number")
}

fn limit(resource: Resource, value: u64) {
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    // A lower limit that holds already is as good.
    let _ = rustix::process::setrlimit(resource, limit);
}

/// How a process ended; `None` if it only stopped.
fn end_of(status: WaitStatus) -> Option<End> {
    status
        .exit_status()
        .map(End::Exited)
        .or_else(|| status.terminating_signal().map(End::Signaled))
}

/// Whether any process of the run is left, ended or not.
fn has_children() -> bool {
    use rustix::process::{WaitId, WaitIdOptions};
    let options = WaitIdOptions::EXITED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT
        | WaitIdOptions::from_bits_retain(libc::__WALL as u32);
    !matches!(
        rustix::process::waitid(WaitId::All, options),
        Err(rustix::io::Errno::CHILD)
    )
}
