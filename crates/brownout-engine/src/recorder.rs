//! Recording a program from start to end.
//!
//! Two threads share the work: the drain (see [`crate::drain`]) moves records from the wire to the
//! trace, and the supervisor (see [`crate::supervisor`]) looks after the target.

use crate::drain::{Signals, drain};
use crate::holders::Holders;
use crate::launch::launch;
use crate::merge::Losses;
use crate::program::{Program, ProgramError};
use crate::supervisor::{Drained, Supervisor, TargetEnd};
use crate::sys::process::Pid;
use crate::sys::signals::SignalGate;
use crate::trace_sink::{EventSink, StopReason};
use crate::watch::{WatchError, WatchTable, WatchedFunction};
use crate::wire::Wire;
use brownout_ring::option;
use brownout_trace::{EarlyStop, Ending, EventCounts, Header, ProcessEnd, TraceWriter, WriteError};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// What to record and where to.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where the trace is written.
    pub trace: PathBuf,
    /// Patterns for the files that are persistent memory, kept in the trace for those who read it.
    pub pm: Vec<OsString>,
    /// Record loads too.
    pub loads: bool,
    /// Functions whose calls are recorded.
    pub watch: Vec<WatchedFunction>,
    /// What happens to the target when the trace cannot be written any more.
    pub on_full: OnFull,
}

/// What happens to a target when its trace cannot be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It goes on, unrecorded.
    Continue,
    /// It is asked to end, and killed if it does not.
    Stop,
}

/// What an observer is told while a recording runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A few times a second.
    Progress {
        /// Events written so far.
        events: u64,
        /// Bytes of trace written so far.
        bytes: u64,
    },
    /// Recording stopped, once, before the target ended.
    Stopped(&'a StopReason),
    /// The target has ended, and processes that it started have not.
    Waiting,
}

/// A recording that is over.
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
    /// Why the trace does not reach to the end of the target, if it does not.
    pub stopped: Option<StopReason>,
    /// What could not be recorded of what the target did, in sentences.
    pub notes: Vec<String>,
}

/// Why nothing, or nothing that could be told, was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("the trace {} cannot be created", path.display())]
    CreateTrace {
        path: PathBuf,
        #[source]
        source: WriteError,
    },
    #[error("the machine does not allow what recording needs")]
    SetUp(#[source] io::Error),
    #[error("{} cannot be started under instrumentation", path.display())]
    Start {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("how the program ended cannot be told")]
    Wait(#[source] io::Error),
}

/// Runs a program from start to end and records what it does, telling `observe` how it goes.
///
/// While it runs, signals that ask this process to end are the target's.
pub fn record(
    options: &RecordOptions,
    observe: &mut dyn FnMut(Notice<'_>),
) -> Result<Recording, RecordError> {
    record_with(crate::loader_image::LOADER, options, observe)
}

fn record_with(
    loader: &[u8],
    options: &RecordOptions,
    observe: &mut dyn FnMut(Notice<'_>),
) -> Result<Recording, RecordError> {
    let program = Program::find(&options.command)?;
    let watched = WatchTable::of(&options.watch)?;
    let gate = SignalGate::open().map_err(RecordError::SetUp)?;
    let wire = Wire::create(if options.loads { option::LOADS } else { 0 });
    let wire = wire.map_err(RecordError::SetUp)?;
    wire.put_watch_table(&watched.bytes)
        .map_err(RecordError::SetUp)?;
    let writer = create_trace(options)?;

    let started = Instant::now();
    let launched = launch(loader, &program, wire.file(), &gate).map_err(|source| {
        // An empty trace would only be taken for a result.
        let _ = fs::remove_file(&options.trace);
        RecordError::Start {
            path: program.path.clone(),
            source,
        }
    })?;
    let holders = Holders::of(wire.file(), launched.descriptor).map_err(RecordError::SetUp)?;

    let signals = Signals::default();
    let (ended, drained) = thread::scope(|scope| {
        let drain = scope.spawn(|| {
            let mut sink = EventSink::new(writer);
            let result = sink
                .watch(&watched.names)
                .map_err(StopReason::from)
                .and_then(|()| drain(&wire, &holders, &signals, &mut sink));
            // From here on nobody takes records, so nobody may wait for that.
            wire.turn_off();
            signals.drain_over.store(true, Ordering::SeqCst);
            gate.wake();
            Drained { sink, result }
        });
        let supervisor = Supervisor {
            target: launched.pid,
            started,
            gate: &gate,
            wire: &wire,
            signals: &signals,
            on_full: options.on_full,
        };
        supervisor.run(drain, observe)
    });
    drop(gate);
    let interrupted = signals.stop_waiting.load(Ordering::SeqCst);
    finish(
        launched.pid,
        ended.map_err(RecordError::Wait)?,
        drained,
        interrupted,
    )
}

fn create_trace(options: &RecordOptions) -> Result<TraceWriter, RecordError> {
    let header = Header {
        brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        cwd: std::env::current_dir().map_err(RecordError::SetUp)?,
        pm: options.pm.clone(),
        loads: options.loads,
        started: SystemTime::now(),
    };
    TraceWriter::create(&options.trace, &header).map_err(|source| RecordError::CreateTrace {
        path: options.trace.clone(),
        source,
    })
}

/// Completes the trace.
fn finish(
    target: Pid,
    ended: TargetEnd,
    drained: Drained,
    interrupted: bool,
) -> Result<Recording, RecordError> {
    let Drained { mut sink, result } = drained;
    let added = result.and_then(|losses| {
        sink.ended(target.0 as u32, ended.end)?;
        if losses != Losses::default() {
            let Losses { numbers, found } = losses;
            sink.remark(&format!(
                "threads were killed while they were being recorded: {numbers} records were begun and not finished; \
                 {found} stores are told from what the files held, without their calling contexts"
            ))?;
        }
        if interrupted {
            Err(StopReason::Interrupted)
        } else {
            Ok(())
        }
    });
    let stopped = added.err();
    let notes = sink.take_notes();
    let writer = sink.into_writer();
    let written = writer.bytes();
    let ending = Ending {
        target: Some(ended.end),
        wall: Some(ended.wall),
        cpu: Some(ended.cpu),
        stopped: stopped.as_ref().map(early_stop),
    };
    let (counts, bytes, stopped) = match writer.finish(ending) {
        Ok((summary, file)) => {
            let bytes = file.metadata().map_or(written, |metadata| metadata.len());
            (summary.counts, bytes, stopped)
        }
        // What was written before is readable without its closing.
        Err(error) => (
            EventCounts::default(),
            written,
            stopped.or(Some(error.into())),
        ),
    };
    let TargetEnd { end, wall, cpu } = ended;
    Ok(Recording {
        end,
        wall,
        cpu,
        counts,
        bytes,
        stopped,
        notes,
    })
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
