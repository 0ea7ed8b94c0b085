//! Starting the processes of a run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use brownout_engine::set_next_pid;
use rustix::io::Errno;
use rustix::process::Pid;

use super::engine_host::{EngineHost, HOST_PID};
use super::worker::{RequestedRun, Worker};
use crate::channel::{EngineMessage, ExecutionMessage};
use crate::command_line::CommandLine;
use crate::{Actor, Refusal, sys, tracer};

/// Where the standard streams of a process go.
pub enum Streams {
    /// Standard output is compared, standard error is shown.
    Separate,
    /// Both are shown.
    Shown,
    /// To the user's terminal.
    Terminal([OwnedFd; 3]),
}

impl Worker<'_> {
    /// Starts a command, through a shell if it needs one.
    pub fn start(
        &self,
        actor: Actor,
        line: &CommandLine,
        request: &RequestedRun,
        streams: &Streams,
    ) -> Result<Pid, Refusal> {
        let refused = |error: io::Error| Refusal::Start {
            command: line.text().to_string_lossy().into_owned(),
            errno: error.into(),
        };
        if let (Actor::Recovery, ExecutionMessage::Engine(observed)) =
            (actor, request.message.execution)
        {
            let started = self.start_under_engine(line, observed, request, streams);
            return started.map_err(refused);
        }
        let start = |mut command: Command| {
            self.equip(&mut command, request, streams)?;
            if request.is_traced() {
                return tracer::start(command);
            }
            spawn(&mut command)
        };
        if let Some(command) = line.direct() {
            match start(command) {
                // It may be a built-in of the shell; otherwise the shell reports the error.
                Err(error) if is_no_program(&error) => {}
                started => return started.map_err(refused),
            }
        }
        start(line.by_shell()).map_err(refused)
    }

    fn start_under_engine(
        &self,
        line: &CommandLine,
        observed: EngineMessage,
        request: &RequestedRun,
        streams: &Streams,
    ) -> io::Result<Pid> {
        let file = request.engine_file.as_ref().map(AsFd::as_fd);
        let original = &self.session.files;
        let here = self.confinement.paths(original).into_iter();
        let persistent_files: Vec<[PathBuf; 2]> = here
            .zip(original)
            .map(|(here, original)| [here, original.clone()])
            .collect();
        let has_own_pids = self.confinement.has_own_pids();
        let (mut host, report) =
            EngineHost::new(line, observed, file, &persistent_files, has_own_pids)?;
        self.equip(&mut host.command, request, streams)?;
        if has_own_pids {
            // If the system does not allow it, it does not allow it to the host either, which reports that.
            set_next_pid(HOST_PID);
        }
        let pid = host.with_descriptors(spawn)?;
        *self.engine_report.borrow_mut() = Some(report);
        Ok(pid)
    }

    /// Must not use anything that runs code between fork and exec: starting is much faster without.
    fn equip(
        &self,
        command: &mut Command,
        request: &RequestedRun,
        streams: &Streams,
    ) -> io::Result<()> {
        let session = self.session;
        let (stdout, stderr) = (&session.stdout, &session.stderr);
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
            .current_dir(&session.setup.recovery.directory)
            .env("TMPDIR", self.confinement.temporary_directory())
            .envs(
                request
                    .message
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(input)
            .stdout(output)
            .stderr(error)
            .process_group(0);
        if request.is_traced() {
            // The leak sanitizer needs to trace the process itself, and fails if it is already traced.
            let mut options = std::env::var_os("LSAN_OPTIONS").unwrap_or_default();
            options.push(":detect_leaks=0");
            command.env("LSAN_OPTIONS", options);
        }
        Ok(())
    }
}

fn spawn(command: &mut Command) -> io::Result<Pid> {
    let child = sys::with_open_signals(|| command.spawn())?;
    Ok(pid_of(child.id()))
}

fn is_no_program(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::ACCESS | Errno::NOEXEC | Errno::NOTDIR)
    )
}

fn pid_of(id: u32) -> Pid {
    Pid::from_raw(id as i32).expect("a started process has a number")
}
