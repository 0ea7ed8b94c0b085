//! An executor that starts the target for each execution, in a sandbox and under the engine.
//!
//! It works for any program that the engine can run. Per execution it costs the start of the program and of the engine.

use std::ffi::OsString;
use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brownout_engine::{ThreadSchedule, WatchedFunction};
use brownout_recovery::{
    End, InputRun, Isolation, Outcome, RecordedPath, Recovery, RunnerError, Sandbox,
    SandboxServerCommand, StartString, SymbolicInput,
};
use brownout_trace::replay::Content;
use rustix::process::Signal;

use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd, Executor};
use crate::image::StartImage;

/// A native run may take this many times the time limit before it counts as hung.
const NATIVE_FACTOR: u32 = 4;
/// A run whose path is recorded may take this many times the time limit.
const PATH_FACTOR: u32 = 5;
/// What a server gets after its last client.
const CLIENT_SIGNALS: [i32; 2] = [Signal::TERM.as_raw(), Signal::KILL.as_raw()];

/// The target, as the user describes it.
#[derive(Clone, Debug)]
pub struct TargetDescription {
    /// The program and its arguments, in which the path of the input file stands for `@@`.
    pub command: Vec<OsString>,
    /// The same as a command line of a shell, with standard input redirected if the input is that.
    pub command_line: String,
    pub directory: PathBuf,
    /// Where the target finds its input. Nothing is written there outside of sandboxes.
    pub input: PathBuf,
    pub is_standard_input: bool,
    /// The strings that come first in inputs, in place of those of the command.
    pub strings: Vec<StartString>,
    /// Whether it is a server, and the input what its clients send.
    pub is_server: bool,
    /// What selects persistent files; empty if they are recognised by their use.
    pub patterns: Vec<OsString>,
    pub watch: Vec<WatchedFunction>,
    /// How long an execution may take.
    pub time_limit: Duration,
    pub schedule: ThreadSchedule,
    /// The function before which it is copied, instead of the first use of the input.
    pub fork_at: Option<String>,
    pub server: SandboxServerCommand,
}

/// Starts the target for each execution.
pub struct StartPerRun {
    target: TargetDescription,
    sandbox: Sandbox,
    run: InputRun,
    files: Vec<PathBuf>,
    /// The persistent files as the last execution has left them.
    left: Vec<Option<Content>>,
}

impl StartPerRun {
    pub fn new(target: TargetDescription, files: &[PathBuf]) -> Result<Self, FuzzError> {
        let (sandbox, run) = prepare(&target, files)?;
        Ok(Self {
            target,
            sandbox,
            run,
            files: files.to_vec(),
            left: Vec::new(),
        })
    }
}

impl StartPerRun {
    /// Runs the command line of the target on the user's terminal.
    pub fn run_interactively(&mut self, image: &StartImage, input: &[u8]) -> Result<(), FuzzError> {
        let rest = self.target.parts(input).rest;
        Ok(self.sandbox.run_input_interactively(&image.files, &rest)?)
    }

    /// How the target runs on an input, and the bytes that it reads.
    fn run_on(&self, input: &[u8]) -> (InputRun, Vec<u8>) {
        let parts = self.target.parts(input);
        let run = self.run.clone().with_strings(self.target.valued(&parts));
        (run, parts.rest)
    }
}

fn prepare(
    target: &TargetDescription,
    files: &[PathBuf],
) -> Result<(Sandbox, InputRun), FuzzError> {
    let native = Recovery::new(&target.command_line, &target.directory);
    let with_input: Vec<PathBuf> = files.iter().chain([&target.input]).cloned().collect();
    let sandbox = Sandbox::start(&target.server, &native, &with_input)?;
    if sandbox.isolation() != Isolation::Layered {
        return Err(FuzzError::Isolation(sandbox.isolation()));
    }
    let run = InputRun::new(&target.command, files, &target.input)
        .with_patterns(&target.patterns)
        .watching(&target.watch)
        .from_standard_input(target.is_standard_input)
        .from_clients(target.is_server)
        .under(target.schedule)
        .with_time_limit(target.time_limit);
    Ok((sandbox, run))
}

impl StartPerRun {
    /// Runs in the sandbox. If it is gone, because the target has killed it, a new one is tried once; and the next run gets one, too.
    fn in_sandbox<T>(
        &mut self,
        mut run: impl FnMut(&mut Self) -> Result<T, RunnerError>,
    ) -> Result<T, FuzzError> {
        if let Ok(done) = run(self) {
            return Ok(done);
        }
        self.renew()?;
        match run(self) {
            Ok(done) => Ok(done),
            Err(error) => {
                self.renew()?;
                Err(error.into())
            }
        }
    }

    fn renew(&mut self) -> Result<(), FuzzError> {
        (self.sandbox, self.run) = prepare(&self.target, &self.files)?;
        Ok(())
    }
}

/// Empties the file that a run writes.
fn begin_anew(file: &File) -> Result<(), RunnerError> {
    let emptied = file.set_len(0).and_then(|()| { file }.rewind());
    emptied.map_err(RunnerError::Target)
}

impl Executor for StartPerRun {
    fn execute(&mut self, image: &StartImage, input: &[u8]) -> Result<Execution, FuzzError> {
        let (run, input) = self.run_on(input);
        let (outcome, observation) =
            self.in_sandbox(|this| this.sandbox.count_input(&run, &image.files, &input))?;
        let end = match outcome.end {
            _ if observation.timed_out => ExecutionEnd::TimedOut,
            _ if observation.ended_by_client => ExecutionEnd::Exited(0),
            End::Exited(status) => ExecutionEnd::Exited(status),
            End::Signaled(signal) => ExecutionEnd::Killed(signal),
            End::TimedOut => ExecutionEnd::TimedOut,
            End::OutOfMemory => ExecutionEnd::OutOfMemory,
        };
        self.left = observation.files();
        let may_use_others = {
            let mut persistent = observation.persistent();
            persistent.any(|path| !self.files.contains(&path))
        };
        Ok(Execution {
            end,
            duration: outcome.duration,
            may_use_others,
            may_have_used_input: true,
            is_copied: false,
            transitions: observation.transitions,
            lost_transitions: 0,
            edges: observation.edges,
            unpinned: observation.unpinned,
        })
    }

    fn files(&mut self) -> Result<Vec<Option<Content>>, FuzzError> {
        Ok(self.left.clone())
    }

    fn persistent(&mut self, image: &StartImage, input: &[u8]) -> Result<Vec<PathBuf>, FuzzError> {
        let (run, input) = self.run_on(input);
        let (_, observation) =
            self.in_sandbox(|this| this.sandbox.count_input(&run, &image.files, &input))?;
        Ok(observation.persistent().collect())
    }

    fn record(
        &mut self,
        image: &StartImage,
        input: &[u8],
        trace: &Path,
    ) -> Result<Outcome, FuzzError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(trace)
            .map_err(|source| FuzzError::Write {
                path: trace.to_owned(),
                source,
            })?;
        let (run, input) = self.run_on(input);
        let file = Arc::new(file);
        self.in_sandbox(|this| {
            // What a run that failed has written is gone.
            begin_anew(&file)?;
            (this.sandbox).record_input(&run, &image.files, &input, &file)
        })
    }

    fn record_path(
        &mut self,
        image: &StartImage,
        input: &[u8],
        inputs: &[SymbolicInput],
    ) -> Result<RecordedPath, FuzzError> {
        let folder = self.target.input.parent().unwrap_or(Path::new("/tmp"));
        let answer = tempfile::tempfile_in(folder).map_err(|source| FuzzError::Write {
            path: folder.to_owned(),
            source,
        })?;
        let limit = self.target.time_limit * PATH_FACTOR;
        let (run, input) = self.run_on(input);
        let run = run.with_time_limit(limit);
        let answer = Arc::new(answer);
        let (_, path) = self.in_sandbox(|this| {
            begin_anew(&answer)?;
            let case = (&image.files[..], &input[..]);
            this.sandbox.record_path(&run, inputs, case, &answer)
        })?;
        Ok(path)
    }

    fn diagnose(&mut self, image: &StartImage, input: &[u8]) -> Result<Outcome, FuzzError> {
        let limit = self.target.time_limit * NATIVE_FACTOR;
        // The command of a sandbox is always the same, so another one is needed for other strings.
        let mut outcome = match self.target.strings.is_empty() {
            true => self.in_sandbox(|this| this.sandbox.trace_input(&image.files, input, limit))?,
            false => {
                let parts = self.target.parts(input);
                let target = self.target.started_with(&parts);
                let (mut sandbox, _) = prepare(&target, &self.files)?;
                sandbox.trace_input(&image.files, &parts.rest, limit)?
            }
        };
        let is_asked = |signal: i32| CLIENT_SIGNALS.contains(&signal);
        if self.target.is_server && matches!(outcome.end, End::Signaled(signal) if is_asked(signal))
        {
            outcome.end = End::Exited(0);
        }
        Ok(outcome)
    }

    fn use_files(&mut self, files: &[PathBuf]) -> Result<(), FuzzError> {
        (self.sandbox, self.run) = prepare(&self.target, files)?;
        self.files = files.to_vec();
        Ok(())
    }

    fn mode(&self) -> String {
        "started for each execution".to_owned()
    }
}
