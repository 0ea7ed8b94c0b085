//! The caller's end of a sandbox.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::channel::{
    Channel, ChannelError, EngineMessage, ExecutionMessage, Follows, Reply, RunMessage, RunReport,
    Setup,
};
use super::run_monitor::{OUTPUT_HEAD, OUTPUT_TAIL};
use super::{
    EngineRun, ExecutionMode, Isolation, Outcome, Recovery, RunRequest, SandboxError,
    SandboxServerCommand, sys,
};

/// Runs recoveries, one after the other. Any thread may use it.
///
/// Before each run the caller writes the image to the [persistent files](Self::files). Nothing else carries over from one run to
/// the next.
#[derive(Debug)]
pub struct Sandbox {
    /// `None` only while the sandbox is dropped.
    channel: Option<Channel>,
    server: Child,
    stdout: File,
    stderr: File,
    isolation: Isolation,
    files: Vec<File>,
    /// What the server sends next without being asked.
    follows: Follows,
    origin: Origin,
}

/// What a sandbox was started with.
#[derive(Clone, Debug)]
struct Origin {
    server: SandboxServerCommand,
    recovery: Recovery,
    files: Vec<PathBuf>,
}

impl Sandbox {
    /// Prepares a sandbox for `recovery` on these persistent files, given by absolute paths. They need not exist.
    pub fn start(
        server: &SandboxServerCommand,
        recovery: &Recovery,
        files: &[PathBuf],
    ) -> Result<Self, SandboxError> {
        let (ours, theirs) = Channel::pair()?;
        let stdout = output_file()?;
        let stderr = output_file()?;
        let mut command = Command::new(server.program());
        if let Some(environment) = server.environment() {
            let variables = environment.iter().map(|(name, value)| (name, value));
            command.env_clear().envs(variables);
        }
        let child = command
            .args(server.arguments())
            .stdin(Stdio::from(theirs.into_socket()))
            .stdout(Stdio::null())
            // Ctrl-C must reach brownout only.
            .process_group(0)
            .spawn()
            .map_err(|source| SandboxError::StartSandboxServer {
                program: server.program().to_owned(),
                source,
            })?;
        let setup = Setup {
            recovery: recovery.clone(),
            files: files
                .iter()
                .map(|path| path.as_os_str().as_bytes().to_vec())
                .collect(),
            strongest: server.strongest(),
        };
        let sent = ours.send(&setup, &[stdout.as_fd(), stderr.as_fd()]);
        let mut sandbox = Self {
            channel: Some(ours),
            server: child,
            stdout,
            stderr,
            isolation: Isolation::Directory,
            files: Vec::new(),
            follows: Follows::Ready,
            origin: Origin {
                server: server.clone(),
                recovery: recovery.clone(),
                files: files.to_vec(),
            },
        };
        gone(sent)?;
        sandbox.receive_files()?;
        Ok(sandbox)
    }

    /// Prepares another sandbox for the same recovery and persistent files.
    pub fn another(&self) -> Result<Self, SandboxError> {
        let Origin {
            server,
            recovery,
            files,
        } = &self.origin;
        Self::start(server, recovery, files)
    }

    /// The isolation of recoveries here.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The persistent files, in the order given, as the last run left them. A file that it removed, renamed or replaced is new and
    /// empty.
    pub fn files(&mut self) -> Result<&[File], SandboxError> {
        self.receive_files()?;
        Ok(&self.files)
    }

    /// Runs recovery once on the present content of the persistent files.
    pub fn run(&mut self, run: &RunRequest) -> Result<Outcome, SandboxError> {
        self.receive_files()?;
        for output in [&self.stdout, &self.stderr] {
            output.set_len(0).map_err(SandboxError::Prepare)?;
        }
        let streams = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let terminal: [BorrowedFd<'_>; 3] =
            [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd()];
        let mut descriptors = Vec::new();
        if run.interactive {
            descriptors.extend(terminal);
        }
        if let ExecutionMode::Engine(EngineRun { trace, reads, .. }) = &run.execution {
            let file = reads.as_ref().or(trace.as_ref());
            descriptors.extend(file.map(|file| file.as_fd()));
        }
        gone(self.channel().send(&RunMessage::from(run), &descriptors))?;
        let report = self.receive_report()?;
        if run.interactive {
            sys::take_terminal(terminal[0]);
        }
        self.outcome(report).map_err(SandboxError::Prepare)
    }

    /// Starts a [branching](crate::branching) recovery on the present content of the persistent files, and returns the connection to its
    /// host. Nothing else can be run until [`finish_branching`](Self::finish_branching).
    pub(crate) fn start_branching(
        &mut self,
        environment: Vec<(String, String)>,
        absent: Vec<usize>,
    ) -> Result<Channel, SandboxError> {
        self.start_host(EngineMessage::Branches, environment, absent)
    }

    fn start_host(
        &mut self,
        purpose: EngineMessage,
        environment: Vec<(String, String)>,
        absent: Vec<usize>,
    ) -> Result<Channel, SandboxError> {
        self.receive_files()?;
        let (ours, theirs) = Channel::pair()?;
        let message = RunMessage {
            // The host limits the time of each process.
            time_limit: Duration::MAX,
            environment,
            absent,
            execution: ExecutionMessage::Engine(purpose),
            interactive: false,
            patience: Duration::ZERO,
        };
        gone(self.channel().send(&message, &[theirs.as_fd()]))?;
        Ok(ours)
    }

    /// Starts a host for [fuzzing](crate::fuzzing), and returns the connection to it. Nothing else can be run until
    /// [`finish_branching`](Self::finish_branching).
    pub(crate) fn start_fuzzing(&mut self) -> Result<Channel, SandboxError> {
        self.start_host(EngineMessage::Fuzz, Vec::new(), Vec::new())
    }

    /// Waits until the host of a branching recovery has ended, which it does when the connection is closed.
    pub(crate) fn finish_branching(&mut self) -> Result<(), SandboxError> {
        self.receive_report().map(|_| ())
    }

    fn receive_report(&mut self) -> Result<RunReport, SandboxError> {
        let report = match self.receive()? {
            (Reply::Ended(report), _) => report,
            (Reply::Refused(refusal), _) => return Err(refusal.into()),
            _ => return Err(ChannelError::Unexpected.into()),
        };
        self.follows = report.follows;
        Ok(report)
    }

    fn outcome(&self, report: RunReport) -> std::io::Result<Outcome> {
        let written = self.stdout.metadata()?.len();
        let shown = self.stderr.metadata()?.len();
        Ok(Outcome {
            end: report.end,
            actor: report.actor,
            duration: report.duration,
            stdout: read(&self.stdout, 0, written.min(OUTPUT_HEAD))?,
            stdout_complete: written <= OUTPUT_HEAD,
            stderr: read(&self.stderr, shown.saturating_sub(OUTPUT_TAIL), shown)?,
            orphans: report.orphans,
            frames: report.frames,
        })
    }

    fn channel(&mut self) -> &mut Channel {
        self.channel
            .as_mut()
            .expect("the channel exists until the sandbox is dropped")
    }

    fn receive(&mut self) -> Result<(Reply, Vec<OwnedFd>), SandboxError> {
        gone(self.channel().receive())
    }

    /// Receives what the server sends after a run.
    fn receive_files(&mut self) -> Result<(), SandboxError> {
        if self.follows == Follows::Ready {
            match self.receive()? {
                (Reply::Ready { isolation, files }, _) => {
                    self.isolation = isolation;
                    self.files.clear();
                    self.follows = if files == 0 {
                        Follows::Nothing
                    } else {
                        Follows::Files
                    };
                }
                (Reply::Refused(refusal), _) => return Err(refusal.into()),
                _ => return Err(ChannelError::Unexpected.into()),
            }
        }
        while self.follows == Follows::Files {
            let (Reply::Files { numbers, more }, descriptors) = self.receive()? else {
                return Err(ChannelError::Unexpected.into());
            };
            for (number, descriptor) in numbers.into_iter().zip(descriptors) {
                let file = File::from(descriptor);
                match self.files.get_mut(number) {
                    Some(old) => *old = file,
                    None => self.files.push(file),
                }
            }
            if !more {
                self.follows = Follows::Nothing;
            }
        }
        Ok(())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The server ends when the connection is closed.
        self.channel = None;
        let _ = self.server.wait();
    }
}

fn gone<T>(result: Result<T, ChannelError>) -> Result<T, SandboxError> {
    result.map_err(|error| match error {
        ChannelError::Closed => SandboxError::SandboxServerGone,
        error => error.into(),
    })
}

/// A file in memory, in append mode.
fn output_file() -> Result<File, SandboxError> {
    let prepare = |errno: rustix::io::Errno| SandboxError::Prepare(errno.into());
    let file = rustix::fs::memfd_create("recovery-output", MemfdFlags::CLOEXEC).map_err(prepare)?;
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).map_err(prepare)?;
    Ok(file.into())
}

fn read(file: &File, from: u64, to: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}
