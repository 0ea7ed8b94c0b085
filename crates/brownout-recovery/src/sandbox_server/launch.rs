//! Starting the processes of a run.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::worker::Worker;
use crate::channel::Request;
use crate::command_line::CommandLine;
use crate::{Refusal, sys, tracer};

/// Where the standard streams of a process lead.
pub enum Streams {
    /// To what is compared and what is shown.
    Separate,
    /// Both to what is shown.
    Shown,
    /// To the user.
    Terminal([OwnedFd; 3]),
}

impl Worker<'_> {
    /// Starts a command; a shell reads it if it has to.
    pub fn start(
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
            let child = sys::with_open_signals(|| command.spawn());
            child.map(|child| pid_of(child.id()))
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
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(input)
            .stdout(output)
            .stderr(error)
            .process_group(0);
        if request.trace {
            // A sanitizer looks for leaks by tracing, which only one can do; it would take this for a fault.
            let mut options = std::env::var_os("LSAN_OPTIONS").unwrap_or_default();
            options.push(":detect_leaks=0");
            command.env("LSAN_OPTIONS", options);
        }
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
