//! Records a target: runs it and writes its events to a trace.

use crate::coverage::Coverage;
use crate::event_sink::StopReason;
use crate::loader_image::LOADER;
use crate::patch::{PatchCounts, PatchPlan};
use crate::path::{PathRecording, SymbolicSource};
use crate::schedule::{ScheduledRun, ThreadSchedule};
use crate::target::{Notice, OnFull, Target, TargetError, TargetOptions, TargetRun};
use crate::watched_functions::WatchedFunction;
use brownout_ring::UNRECORDED;
use brownout_trace::{EarlyStop, Ending, EventCounts, Header, ProcessEnd, TraceWriter, WriteError};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What to record, and where to write it.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The file to write the trace to.
    pub trace: PathBuf,
    /// Patterns for the files that are persistent memory, stored in the trace for its readers.
    pub pm: Vec<OsString>,
    /// Record loads and recognised locks too.
    pub loads: bool,
    /// Record loads and recognised locks from the time on at which persistent memory is shared by threads or processes.
    pub shared_loads: bool,
    /// Count how often each instruction is executed.
    pub coverage: bool,
    /// Functions whose calls are recorded.
    pub watch: Vec<WatchedFunction>,
    /// What happens to the target when the trace can no longer be written.
    pub on_full: OnFull,
    /// The order in which threads run; they run freely if there is none.
    pub schedule: Option<ThreadSchedule>,
    /// Flushes and fences that are added to the target, if any.
    pub patch: Option<PatchPlan>,
    /// Inputs that are symbolic: the path is recorded from the first of their bytes on. Empty if none is.
    pub symbolic: Vec<SymbolicSource>,
}

/// A finished recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recording {
    /// How the target ended.
    pub end: ProcessEnd,
    pub wall: Duration,
    /// Processor time of the target and of those of its descendants that were waited for.
    pub cpu: Duration,
    /// Events in the trace.
    pub counts: EventCounts,
    /// Size of the trace.
    pub bytes: u64,
    /// Why the trace ends before the target does, if it does.
    pub stopped: Option<StopReason>,
    /// What could not be recorded, in sentences.
    pub notes: Vec<String>,
    /// How often code was executed, if that was asked for.
    pub coverage: Option<Coverage>,
    /// What became of the schedule, if there was one.
    pub scheduled: Option<ScheduledRun>,
    /// How often flushes and fences were added, if any were to be.
    pub patched: Option<PatchCounts>,
    /// The path from the first symbolic byte on, if there are symbolic inputs.
    pub path: Option<PathRecording>,
}

/// Whether a note of a trace names a program that ran without being recorded.
pub fn is_unrecorded_program(note: &str) -> bool {
    note.contains(UNRECORDED)
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot create the trace {}", path.display())]
    CreateTrace {
        path: PathBuf,
        #[source]
        source: WriteError,
    },
    #[error("cannot determine the current directory")]
    CurrentDirectory(#[source] io::Error),
}

/// Runs a program from start to end and records its events. Calls `observe` while it runs.
///
/// While it runs, signals that ask this process to end are passed on to the target.
pub fn record(
    options: &RecordOptions,
    observe: &mut dyn FnMut(Notice<'_>),
) -> Result<Recording, RecordError> {
    record_with(LOADER, options, observe)
}

fn record_with(
    loader: &[u8],
    options: &RecordOptions,
    observe: &mut dyn FnMut(Notice<'_>),
) -> Result<Recording, RecordError> {
    let target = Target::prepare(&TargetOptions {
        command: options.command.clone(),
        loads: options.loads,
        locks: options.loads,
        shared_loads: options.shared_loads && !options.loads,
        reads: false,
        coverage: options.coverage,
        watch: options.watch.clone(),
        on_full: options.on_full,
        repetition: None,
        hold: None,
        patch: options.patch.clone(),
        schedule: options.schedule,
        symbolic: options.symbolic.clone(),
        client: None,
    })?;
    let writer = create_trace(options)?;
    let run = target
        .run_with(loader, writer, observe)
        .inspect_err(|error| {
            if matches!(error, TargetError::Start { .. }) {
                // An empty trace would be mistaken for a result.
                let _ = fs::remove_file(&options.trace);
            }
        })?;
    Ok(run.finish())
}

fn create_trace(options: &RecordOptions) -> Result<TraceWriter, RecordError> {
    let header = Header {
        brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        cwd: std::env::current_dir().map_err(RecordError::CurrentDirectory)?,
        pm: options.pm.clone(),
        loads: options.loads,
        shared_loads: options.shared_loads,
        started: SystemTime::now(),
    };
    TraceWriter::create(&options.trace, &header).map_err(|source| RecordError::CreateTrace {
        path: options.trace.clone(),
        source,
    })
}

impl TargetRun<TraceWriter<File>> {
    /// Completes the trace.
    pub fn finish(self) -> Recording {
        let TargetRun {
            end,
            wall,
            cpu,
            stopped,
            notes,
            coverage,
            other_inputs: _,
            scheduled,
            patched,
            path,
            ended_by_client: _,
            destination: writer,
        } = self;
        let written = writer.bytes();
        let ending = Ending {
            target: Some(end),
            wall: Some(wall),
            cpu: Some(cpu),
            stopped: stopped.as_ref().map(early_stop),
        };
        let (counts, bytes, stopped) = match writer.finish(ending) {
            Ok((summary, file)) => {
                let bytes = file.metadata().map_or(written, |metadata| metadata.len());
                (summary.counts, bytes, stopped)
            }
            // The part that was written is readable without the closing sections.
            Err(error) => (
                EventCounts::default(),
                written,
                stopped.or(Some(error.into())),
            ),
        };
        Recording {
            end,
            wall,
            cpu,
            counts,
            bytes,
            stopped,
            notes,
            coverage,
            scheduled,
            patched,
            path,
        }
    }
}

fn early_stop(reason: &StopReason) -> EarlyStop {
    match reason {
        StopReason::Trace(WriteError::StorageFull { .. }) => EarlyStop::StorageFull,
        StopReason::Interrupted => EarlyStop::Interrupted,
        other => EarlyStop::Failure(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
