//! A target that is run on an input and an image, in a sandbox: what fuzzing does thousands of times.
//!
//! The sandbox shows the persistent files of the image, and discards what the target writes. The input is a file of the sandbox, too, and
//! standard input if the target is not given its name. The target runs under the engine, under a schedule, so that time, random numbers and
//! the order of its threads are the same in each run. Its events are counted, or written to a trace, or its path through the code is
//! recorded from the first symbolic byte on.
//!
//! Can miss: what the target does after the time limit.

pub(crate) mod counting;
pub(crate) mod host;
mod path_run;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brownout_engine::{ThreadSchedule, WatchedFunction};
use brownout_trace::replay::{Content, PAGE};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::file_content::write_content;
use crate::path_text;
use crate::{EngineRun, ExecutionMode, Outcome, RunRequest, RunnerError, Sandbox};

pub use path_run::{LoadedModule, PathObservation, RecordedPath, SymbolicInput};

/// What the sandbox may take longer than the target.
const SANDBOX_TIME: Duration = Duration::from_secs(10);

/// How a target is run on inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputRun {
    command: Vec<String>,
    patterns: Vec<String>,
    watch: Vec<(String, u8)>,
    /// The paths of the persistent files that are known.
    persistent: Vec<String>,
    /// The path of the input, which is the last file of the sandbox.
    input: String,
    /// Whether the input is standard input.
    is_standard_input: bool,
    /// Whether the target is a server, and the input what its clients send.
    is_server: bool,
    schedule: (u64, u64),
    time_limit: Duration,
    /// Values of arguments that replace those of the command, and of environment variables.
    strings: Vec<(StartString, Vec<u8>)>,
    observed: Observed,
}

/// What is observed of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Observed {
    /// The number of times that things happened.
    Counts,
    /// All events, as a trace.
    Trace,
    /// The path from the first byte of these inputs on.
    Path(Vec<SymbolicInput>),
}

/// A string that a target is started with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StartString {
    /// An argument; the first one behind the name of the program is 1.
    Argument(u32),
    /// The value of an environment variable.
    Variable(String),
}

impl InputRun {
    /// Runs of `command`. Its persistent files are known to be at these paths, which are those of the sandbox; the sandbox has one
    /// file more, which is the input.
    pub fn new(command: &[OsString], persistent: &[PathBuf], input: &Path) -> Self {
        let text = |one: &OsString| path_text::to_text(Path::new(one));
        Self {
            command: command.iter().map(text).collect(),
            patterns: Vec::new(),
            watch: Vec::new(),
            persistent: persistent
                .iter()
                .map(|path| path_text::to_text(path))
                .collect(),
            input: path_text::to_text(input),
            is_standard_input: false,
            is_server: false,
            schedule: (1, ThreadSchedule::LENGTH),
            time_limit: Duration::from_secs(1),
            strings: Vec::new(),
            observed: Observed::Counts,
        }
    }

    /// Files that match these patterns are persistent.
    pub fn with_patterns(mut self, patterns: &[OsString]) -> Self {
        let texts = patterns.iter();
        self.patterns = texts
            .map(|one| path_text::to_text(Path::new(one)))
            .collect();
        self
    }

    /// Calls of these functions are observed.
    pub fn watching(mut self, watch: &[WatchedFunction]) -> Self {
        let watch = watch.iter();
        self.watch = watch
            .map(|function| (function.name.to_string(), function.arguments))
            .collect();
        self
    }

    /// The input is standard input, too.
    pub fn from_standard_input(mut self, is_standard_input: bool) -> Self {
        self.is_standard_input = is_standard_input;
        self
    }

    /// The target is a server, and the input is what its clients send.
    pub fn from_clients(mut self, is_server: bool) -> Self {
        self.is_server = is_server;
        self
    }

    pub fn under(mut self, schedule: ThreadSchedule) -> Self {
        self.schedule = (schedule.seed, schedule.length);
        self
    }

    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// The target is started with these strings.
    pub fn with_strings(mut self, strings: Vec<(StartString, Vec<u8>)>) -> Self {
        self.strings = strings;
        self
    }

    /// The same run, of which something else is observed.
    fn observing(&self, observed: Observed) -> Self {
        Self {
            observed,
            ..self.clone()
        }
    }

    /// The program and its arguments.
    fn words(&self) -> Vec<OsString> {
        let mut words = crate::held_run::os_texts(&self.command);
        for (string, value) in &self.strings {
            if let StartString::Argument(number) = string
                && let Some(word) = words.get_mut(*number as usize)
            {
                *word = OsString::from_vec(value.clone());
            }
        }
        words
    }
}

/// What a run on an input has shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InputObservation {
    /// How often the target went from one operation on persistent memory to another, by the identity of the transition, in ascending order.
    pub transitions: Vec<(u64, u32)>,
    /// How often parts of its code were executed, by their identity, in ascending order.
    pub edges: Vec<(u64, u32)>,
    /// The target was killed because its time was over.
    pub timed_out: bool,
    /// The target is a server that was ended because its input was consumed.
    pub ended_by_client: bool,
    /// Whether several threads, or several processes, accessed persistent memory.
    pub shares_memory: bool,
    /// What can make runs on the same input differ, one phrase each.
    pub unpinned: Vec<String>,
    /// The paths of persistent files, as in [`path_text`].
    persistent: Vec<String>,
    /// The persistent files at the end, in the order of those that were known: length and pages.
    files: Vec<Option<FilePages>>,
}

/// A file as it is sent: its length, and the pages that are not zero with their numbers.
pub(crate) type FilePages = (u64, Vec<(u64, Vec<u8>)>);

impl InputObservation {
    /// The persistent files that the target has used, also those that were not known.
    pub fn persistent(&self) -> impl Iterator<Item = PathBuf> {
        self.persistent
            .iter()
            .filter_map(|text| path_text::from_text(text))
    }

    /// The known persistent files as the run left them; `None` for one that does not exist.
    pub fn files(&self) -> Vec<Option<Content>> {
        let files = self.files.iter();
        let contents = files.map(|file| {
            let (len, pages) = file.as_ref()?;
            let mut content = Content::default();
            content.resize(*len);
            for (number, bytes) in pages {
                content.write(number.saturating_mul(PAGE as u64), bytes);
            }
            Some(content)
        });
        contents.collect()
    }
}

impl Sandbox {
    /// Runs a target on an input and an image, and counts what it does. The sandbox has the files of the image, and the input.
    pub fn count_input(
        &mut self,
        run: &InputRun,
        image: &[Option<Content>],
        input: &[u8],
    ) -> Result<(Outcome, InputObservation), RunnerError> {
        let memory = rustix::fs::memfd_create("input-run", MemfdFlags::CLOEXEC);
        let file: Arc<File> = Arc::new(memory.map_err(io::Error::from).map_err(failed)?.into());
        let run = run.observing(Observed::Counts);
        let outcome = self.run_input(&run, image, input, &file)?;
        let mut answer = Vec::new();
        let mut reader = &*file;
        reader.rewind().map_err(failed)?;
        reader.read_to_end(&mut answer).map_err(failed)?;
        let observation =
            postcard::from_bytes(&answer).map_err(|error| failed(io::Error::other(error)))?;
        Ok((outcome, observation))
    }

    /// Runs a target on an input and an image, and records it. `trace` is an empty file, which gets its events.
    pub fn record_input(
        &mut self,
        run: &InputRun,
        image: &[Option<Content>],
        input: &[u8],
        trace: &Arc<File>,
    ) -> Result<Outcome, RunnerError> {
        let run = run.observing(Observed::Trace);
        self.run_input(&run, image, input, trace)
    }

    /// Runs the command of the sandbox on an input and an image, natively, and determines where it fails.
    pub fn trace_input(
        &mut self,
        image: &[Option<Content>],
        input: &[u8],
        time_limit: Duration,
    ) -> Result<Outcome, RunnerError> {
        let mut request = RunRequest {
            execution: ExecutionMode::Traced,
            ..RunRequest::new(time_limit)
        };
        request.absent = self.write_files(image, input)?;
        Ok(self.run(&request)?)
    }

    /// Runs the command of the sandbox on an input and an image, on the user's terminal.
    pub fn run_input_interactively(
        &mut self,
        image: &[Option<Content>],
        input: &[u8],
    ) -> Result<(), RunnerError> {
        let mut request = RunRequest {
            interactive: true,
            ..RunRequest::new(Duration::MAX)
        };
        request.absent = self.write_files(image, input)?;
        self.run(&request)?;
        Ok(())
    }

    fn run_input(
        &mut self,
        run: &InputRun,
        image: &[Option<Content>],
        input: &[u8],
        file: &Arc<File>,
    ) -> Result<Outcome, RunnerError> {
        let question = postcard::to_stdvec(run).map_err(|error| failed(io::Error::other(error)))?;
        file.write_all_at(&question, 0).map_err(failed)?;
        let engine = EngineRun {
            trace: Some(Arc::clone(file)),
            input: true,
            ..EngineRun::default()
        };
        let mut request = RunRequest {
            execution: ExecutionMode::Engine(engine),
            ..RunRequest::new(run.time_limit + SANDBOX_TIME)
        };
        request.absent = self.write_files(image, input)?;
        Ok(self.run(&request)?)
    }

    /// Writes an image and an input. Returns the numbers of the files that do not exist.
    fn write_files(
        &mut self,
        image: &[Option<Content>],
        input: &[u8],
    ) -> Result<Vec<usize>, RunnerError> {
        let files = self.files()?;
        let mut absent = Vec::new();
        let Some((input_file, persistent)) = files.split_last() else {
            return Ok(absent);
        };
        for (number, file) in persistent.iter().enumerate() {
            match image.get(number).and_then(Option::as_ref) {
                Some(content) => write_content(content, file).map_err(RunnerError::Image)?,
                None => absent.push(number),
            }
        }
        let mut content = Content::default();
        content.resize(input.len() as u64);
        content.write(0, input);
        write_content(&content, input_file).map_err(RunnerError::Image)?;
        Ok(absent)
    }
}

fn failed(source: io::Error) -> RunnerError {
    RunnerError::Target(source)
}
