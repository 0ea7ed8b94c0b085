//! The path of a target from the first symbolic byte on (`brownout_engine::PathRecording`), for symbolic replay.
//!
//! The answer is a file: the length of a [`PathObservation`], the observation, and the records. Recording an instruction takes much longer
//! than executing it, so the caller gives such runs more time; a path that is cut off by the time limit is what was recorded until then.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_engine::{EventDestination, LiveEvents, Repetition, SymbolicSource};
use brownout_libraries::is_library_module;
use brownout_trace::replay::Content;
use brownout_trace::{
    AppPc, ContextId, Definitions, Event, EventKind, FileId, FileIdentity, FunctionId, ProcessEnd,
    ProcessId, WriteError,
};
use serde::{Deserialize, Serialize};

use super::host::{end_with_target, limited, prepare};
use super::{InputRun, Observed, StartString, failed};
use crate::path_text;
use crate::sandbox_server::HostError;
use crate::{Outcome, RunnerError, Sandbox};

/// An input of which each byte is symbolic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SymbolicInput {
    /// The input file, or standard input.
    Input,
    /// A string that the target is started with.
    Start(StartString),
    /// The persistent file with this number.
    Persistent(usize),
}

/// A mapping of code in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedModule {
    #[serde(with = "path_text")]
    pub path: PathBuf,
    pub address: u64,
    pub len: u64,
    pub file_offset: u64,
}

/// What is known of a path besides its records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathObservation {
    /// The target was killed because its time was over.
    pub timed_out: bool,
    /// The path is longer than what can be recorded; the target was killed.
    pub is_cut_off: bool,
    /// Processes that read symbolic bytes and were not recorded.
    pub other_processes: u32,
    pub modules: Vec<LoadedModule>,
    /// Instructions that have stored to files that may be persistent, flushed or fenced them.
    pub operations: Vec<u64>,
    /// Where calls return to in which a library has done that.
    pub calls: Vec<u64>,
}

/// A path.
#[derive(Clone, Debug, Default)]
pub struct RecordedPath {
    pub observation: PathObservation,
    /// Empty if no symbolic byte was read.
    pub records: Vec<u8>,
}

impl Sandbox {
    /// Runs a target on an input and an image, and records its path from the first byte of one of `inputs` on. `answer` is an empty file.
    pub fn record_path(
        &mut self,
        run: &InputRun,
        inputs: &[SymbolicInput],
        (image, input): (&[Option<Content>], &[u8]),
        answer: &Arc<File>,
    ) -> Result<(Outcome, RecordedPath), RunnerError> {
        let run = run.observing(Observed::Path(inputs.to_vec()));
        let outcome = self.run_input(&run, image, input, answer)?;
        let path = read(answer).map_err(failed)?;
        Ok((outcome, path))
    }
}

fn read(answer: &File) -> io::Result<RecordedPath> {
    let size = answer.metadata()?.len();
    let mut length = [0; 8];
    answer.read_exact_at(&mut length, 0)?;
    let length = u64::from_le_bytes(length);
    let records = (size.checked_sub(8)).and_then(|left| left.checked_sub(length));
    let records = records.ok_or(io::ErrorKind::InvalidData)?;
    let mut observation = vec![0; length as usize];
    answer.read_exact_at(&mut observation, 8)?;
    let observation = postcard::from_bytes(&observation).map_err(io::Error::other)?;
    let mut path = RecordedPath {
        observation,
        records: vec![0; records as usize],
    };
    answer.read_exact_at(&mut path.records, 8 + length)?;
    Ok(path)
}

/// Runs the target in an engine host, and writes the answer.
pub(super) fn host(
    run: &InputRun,
    inputs: &[SymbolicInput],
    answer: &File,
    repetition: Repetition,
    has_own_pids: bool,
) -> Result<ProcessEnd, HostError> {
    let sources = inputs.iter().map(|input| source(run, input)).collect();
    let target = prepare(run, repetition, sources)?;
    let (run, timed_out) = limited(run, has_own_pids, || {
        Ok(target.run(Operations::default(), &mut end_with_target)?)
    })?;
    let path = run.path.unwrap_or_default();
    let observation = PathObservation {
        timed_out,
        is_cut_off: path.is_cut_off,
        other_processes: path.other_processes,
        ..run.destination.finish()
    };
    let observation = postcard::to_stdvec(&observation)?;
    answer.write_all_at(&(observation.len() as u64).to_le_bytes(), 0)?;
    answer.write_all_at(&observation, 8)?;
    answer.write_all_at(&path.records, 8 + observation.len() as u64)?;
    Ok(run.end)
}

/// An input as the engine names it.
fn source(run: &InputRun, input: &SymbolicInput) -> SymbolicSource {
    let file = |text: &str| path_text::from_text(text).unwrap_or_default();
    match input {
        SymbolicInput::Input => SymbolicSource::File(file(&run.input)),
        SymbolicInput::Persistent(number) => {
            let path = run.persistent.get(*number);
            SymbolicSource::File(path.map_or_else(PathBuf::new, |text| file(text)))
        }
        SymbolicInput::Start(StartString::Argument(number)) => SymbolicSource::Argument(*number),
        SymbolicInput::Start(string @ StartString::Variable(name)) => {
            use std::os::unix::ffi::OsStringExt as _;
            let value = run.strings.iter().find(|(known, _)| known == string);
            let value = value.map(|(_, value)| value.clone()).unwrap_or_default();
            SymbolicSource::Variable {
                name: name.into(),
                value: std::ffi::OsString::from_vec(value),
            }
        }
    }
}

/// Collects where the target has operated on files that may be persistent.
struct Operations {
    live: LiveEvents<fn(&Event<'_>, &Definitions)>,
    operations: BTreeSet<u64>,
    calls: BTreeSet<u64>,
}

impl Default for Operations {
    fn default() -> Self {
        Self {
            live: LiveEvents::discard(),
            operations: BTreeSet::new(),
            calls: BTreeSet::new(),
        }
    }
}

impl Operations {
    fn finish(self) -> PathObservation {
        let processes = self.live.definitions().processes();
        let mut modules: Vec<LoadedModule> = Vec::new();
        for module in processes.flat_map(|process| process.modules()) {
            let module = LoadedModule {
                path: module.path.clone(),
                address: module.addr.0,
                len: module.len,
                file_offset: module.file_offset,
            };
            if !modules.contains(&module) {
                modules.push(module);
            }
        }
        PathObservation {
            modules,
            operations: self.operations.into_iter().collect(),
            calls: self.calls.into_iter().collect(),
            ..PathObservation::default()
        }
    }

    fn operation(&mut self, event: &Event<'_>) {
        if !self.operations.insert(event.pc.0) && !self.is_library(event.process, event.pc) {
            return;
        }
        let mut at = event.pc;
        let frames = self.live.definitions();
        let frames: Vec<AppPc> = frames
            .context_frames(event.process, event.context)
            .collect();
        for caller in frames {
            if !self.is_library(event.process, at) {
                return;
            }
            self.calls.insert(caller.0);
            at = caller;
        }
    }

    fn is_library(&self, process: ProcessId, pc: AppPc) -> bool {
        let module = self.live.definitions().module_at(process, pc);
        let name = module.and_then(|module| module.path.file_name());
        name.is_some_and(|name| name.to_str().is_some_and(is_library_module))
    }
}

impl EventDestination for Operations {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        self.live.function(name)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.live.known_file(identity)
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        self.live.file(identity, path)
    }

    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        self.live.context(process, context, parent, return_address)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        self.live.event(event)?;
        let modifies = matches!(
            event.kind,
            EventKind::Store { .. }
                | EventKind::Flush {
                    volatile: false,
                    ..
                }
                | EventKind::Fence { .. }
                | EventKind::Sync(_)
        );
        if modifies {
            self.operation(event);
        }
        Ok(())
    }

    fn events(&self) -> u64 {
        self.live.events()
    }
}
