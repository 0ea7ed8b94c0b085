//! The side of the engine host: runs the target of an [`InputRun`] and answers with counts, a trace or a path.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::SystemTime;

use brownout_engine::{
    Notice, OnFull, Repetition, SymbolicSource, Target, TargetOptions, ThreadSchedule,
    WatchedFunction,
};
use brownout_trace::replay::PAGE;
use brownout_trace::selection::Patterns;
use brownout_trace::{Header, ProcessEnd, TraceWriter};
use rustix::process::{Signal, getpid, kill_process};

use super::counting::{CountedEvents, edges_of};
use super::{FilePages, InputObservation, InputRun, Observed, StartString, path_run};
use crate::held_run::os_texts;
use crate::sandbox_server::HostError;
use crate::{path_text, sys};

/// Runs the target that `output` describes, and writes the answer to it.
pub fn run(
    mut output: File,
    repetition: Repetition,
    has_own_pids: bool,
) -> Result<ProcessEnd, HostError> {
    let mut question = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut question)?;
    let run: InputRun = postcard::from_bytes(&question)?;
    output.set_len(0)?;
    output.rewind()?;
    if run.is_standard_input {
        let input = path_text::from_text(&run.input).unwrap_or_default();
        rustix::stdio::dup2_stdin(File::open(input)?)?;
    }
    for (string, value) in &run.strings {
        if let StartString::Variable(name) = string {
            sys::set_variable(name, OsStr::from_bytes(value));
        }
    }
    match &run.observed {
        Observed::Trace => record(&run, output, repetition, has_own_pids),
        Observed::Counts => count(&run, &output, repetition, has_own_pids),
        Observed::Path(inputs) => path_run::host(&run, inputs, &output, repetition, has_own_pids),
    }
}

/// The target, observed as the run says. `symbolic` are the inputs of which the path is recorded.
pub(super) fn prepare(
    run: &InputRun,
    repetition: Repetition,
    symbolic: Vec<SymbolicSource>,
) -> Result<Target, HostError> {
    let (seed, length) = run.schedule;
    let watch = run.watch.iter().map(|(name, arguments)| WatchedFunction {
        name: name.clone().into(),
        arguments: *arguments,
    });
    Ok(Target::prepare(&TargetOptions {
        command: run.words(),
        loads: run.observed == Observed::Counts,
        locks: false,
        shared_loads: run.observed == Observed::Trace,
        reads: false,
        coverage: run.observed == Observed::Counts,
        watch: watch.collect(),
        on_full: OnFull::Continue,
        repetition: Some(repetition),
        hold: None,
        patch: None,
        schedule: Some(ThreadSchedule { seed, length }),
        symbolic,
        client: match run.is_server {
            true => path_text::from_text(&run.input),
            false => None,
        },
    })?)
}

fn count(
    run: &InputRun,
    output: &File,
    repetition: Repetition,
    has_own_pids: bool,
) -> Result<ProcessEnd, HostError> {
    let target = prepare(run, repetition, Vec::new())?;
    let here = std::env::current_dir()?;
    let patterns = Patterns::new(&os_texts(&run.patterns), &here)?;
    let ((ended, counts), timed_out) = limited(run, has_own_pids, || {
        let ended = target.run(CountedEvents::default(), &mut end_with_target)?;
        let counts = ended.destination.finish(patterns.as_ref());
        let scheduled = (ended.scheduled, ended.ended_by_client);
        Ok(((ended.end, ended.coverage, scheduled), counts))
    })?;
    let (end, coverage, (scheduled, ended_by_client)) = ended;
    let unpinned = scheduled.map(|scheduled| scheduled.unpinned);
    let observation = InputObservation {
        transitions: counts.transitions,
        edges: coverage.as_ref().map(edges_of).unwrap_or_default(),
        timed_out,
        ended_by_client,
        shares_memory: counts.shares_memory,
        unpinned: unpinned
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect(),
        persistent: counts
            .persistent
            .iter()
            .map(|path| path_text::to_text(path))
            .collect(),
        files: run
            .persistent
            .iter()
            .map(|text| read_file(&path_text::from_text(text).unwrap_or_default()))
            .collect::<io::Result<_>>()?,
    };
    output.write_all_at(&postcard::to_stdvec(&observation)?, 0)?;
    Ok(end)
}

fn record(
    run: &InputRun,
    output: File,
    repetition: Repetition,
    has_own_pids: bool,
) -> Result<ProcessEnd, HostError> {
    let target = prepare(run, repetition, Vec::new())?;
    let header = Header {
        brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: run.words(),
        cwd: std::env::current_dir()?,
        pm: os_texts(&run.patterns),
        loads: false,
        shared_loads: true,
        started: SystemTime::now(),
    };
    let writer = TraceWriter::new(output, &header)?;
    let (end, _) = limited(run, has_own_pids, || {
        Ok(target.run(writer, &mut end_with_target)?.finish().end)
    })?;
    Ok(end)
}

/// Processes that the target leaves behind are not waited for.
pub(super) fn end_with_target(notice: Notice<'_>) {
    if let Notice::Waiting = notice {
        // The engine stops waiting when this process is asked to end.
        let _ = kill_process(getpid(), Signal::TERM);
    }
}

/// Runs a target, and kills it when its time is over. Returns whether that happened.
pub(super) fn limited<T>(
    run: &InputRun,
    has_own_pids: bool,
    target: impl FnOnce() -> Result<T, HostError>,
) -> Result<(T, bool), HostError> {
    let (ended, ends) = mpsc::channel::<()>();
    let timed_out = Arc::new(AtomicBool::new(false));
    let (noted, limit) = (Arc::clone(&timed_out), run.time_limit);
    let guard = thread::spawn(move || {
        if ends.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            noted.store(true, Ordering::SeqCst);
            match has_own_pids {
                true => sys::kill_others(),
                // The engine passes it on. A target that ignores it runs until the limit of the sandbox.
                false => drop(kill_process(getpid(), Signal::TERM)),
            }
        }
    });
    let result = target();
    drop(ended);
    // It only waits for the end of the target.
    let _ = guard.join();
    Ok((result?, timed_out.load(Ordering::SeqCst)))
}

/// A file as length and pages that are not zero; `None` if it does not exist.
fn read_file(path: &Path) -> io::Result<Option<FilePages>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.metadata()?.len();
    let mut pages = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = crate::file_content::data_from(&file, at)? {
        let page = PAGE as u64;
        for number in start / page..end.div_ceil(page) {
            let mut bytes = vec![0; PAGE];
            crate::file_content::read_padded(&file, number * page, &mut bytes)?;
            if bytes.iter().any(|&byte| byte != 0) {
                pages.push((number, bytes));
            }
        }
        at = end.next_multiple_of(page);
    }
    Ok(Some((len, pages)))
}

/// What a finished count consists of.
#[derive(Debug, Default)]
pub struct EventCounts {
    pub transitions: Vec<(u64, u32)>,
    pub shares_memory: bool,
    pub persistent: Vec<PathBuf>,
}
