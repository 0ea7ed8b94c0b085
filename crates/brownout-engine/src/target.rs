//! Runs a target under the runtime, from start to end, and sends its events to a destination that the caller chooses.
//!
//! Two threads share the work: the drain (see [`crate::drain`]) moves records from the wire to the destination, and the
//! supervisor (see [`crate::supervisor`]) passes signals on and waits for the end.

use crate::client;
use crate::coverage::Coverage;
use crate::drain::{SharedStatus, drain};
use crate::event_destination::EventDestination;
use crate::event_sink::{EventSink, StopReason};
use crate::hold::{self, HeldEvents, HoldPlan, HoldProgress};
use crate::launch::{Launch, launch_with};
use crate::loader_image::LOADER;
use crate::merge::{LATER_RECORDS_LOST, Losses};
use crate::patch::{PatchCounts, PatchPlan};
use crate::path::{self, PathRecording, SymbolicSource};
use crate::program::{Program, ProgramError};
use crate::repetition::{OtherInput, Repetition};
use crate::schedule::{ScheduleDeadlock, ScheduledRun, ThreadSchedule, Unpinned};
use crate::supervisor::{Drained, Supervisor, TargetEnd};
use crate::sys::memory::Table;
use crate::sys::process::{FixedAddresses, with_file_size_limit_raised};
use crate::sys::signals::SignalGate;
use crate::watched_functions::{WatchError, WatchTable, WatchedFunction};
use crate::wire::Wire;
use crate::wire_processes::WireProcesses;
use brownout_ring::option;
use brownout_trace::ProcessEnd;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// What to run, and what to observe of it.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Observe loads too.
    pub loads: bool,
    /// Recognise locks by their atomic instructions.
    pub locks: bool,
    /// Observe loads and recognise locks in each process from the time on at which it shares persistent memory: it creates a thread, it
    /// forks, or another process has mapped the same file.
    pub shared_loads: bool,
    /// Observe loads and all other [uses of files](crate::FileUse). The content of mapped files is then not observed.
    pub reads: bool,
    /// Count how often each instruction is executed.
    pub coverage: bool,
    /// Functions whose calls are observed.
    pub watch: Vec<WatchedFunction>,
    /// What happens to the target when the destination fails.
    pub on_full: OnFull,
    /// How runs are made alike, if the target is run several times.
    pub repetition: Option<Repetition>,
    /// Which threads are held, if any.
    pub hold: Option<HoldPlan>,
    /// Flushes and fences that are added to the target, if any.
    pub patch: Option<PatchPlan>,
    /// The order in which threads run; they run freely if there is none.
    pub schedule: Option<ThreadSchedule>,
    /// Inputs that are symbolic: the path is recorded from the first of their bytes on. Empty if none is.
    pub symbolic: Vec<SymbolicSource>,
    /// The file that holds what clients send, if the target is a server. Needs a schedule.
    pub client: Option<PathBuf>,
}

/// What happens to a target when its events can no longer be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// It continues without being observed.
    Continue,
    /// It is asked to end, and killed if it does not.
    Stop,
}

/// What is reported to the caller while a target runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Reported a few times per second.
    Progress {
        /// Events received so far.
        events: u64,
        /// Bytes of trace written so far.
        bytes: u64,
    },
    /// The destination failed before the target ended. Reported once.
    Stopped(&'a StopReason),
    /// The target has ended, but processes that it started have not.
    Waiting,
}

/// Why a target could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("the system does not allow an operation that recording needs")]
    SetUp(#[source] io::Error),
    #[error("cannot start {} under instrumentation", path.display())]
    Start {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot determine how the program ended")]
    Wait(#[source] io::Error),
    #[error("cannot read the coverage of the program")]
    Coverage(#[source] io::Error),
    #[error("cannot read the path of the program")]
    Path(#[source] io::Error),
}

/// A target that is ready to start: the program exists and can be run, and the wire is set up.
///
/// While this exists, signals that ask this process to end are passed on to the target.
pub struct Target {
    program: Program,
    watched: WatchTable,
    gate: SignalGate,
    wire: Wire,
    coverage: bool,
    on_full: OnFull,
    repetition: Option<Repetition>,
    hold: Option<HoldPlan>,
    patch: Option<PatchPlan>,
    schedule: Option<ThreadSchedule>,
    symbolic: Vec<SymbolicSource>,
}

/// A target that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct TargetRun<D> {
    /// How the target ended.
    pub end: ProcessEnd,
    pub wall: Duration,
    /// Processor time of the target and of those of its descendants that were waited for.
    pub cpu: Duration,
    /// Why the events end before the target does, if they do.
    pub stopped: Option<StopReason>,
    /// What could not be observed, in sentences.
    pub notes: Vec<String>,
    /// What differs between runs that should be alike.
    pub other_inputs: Vec<OtherInput>,
    /// What became of the schedule, if there was one.
    pub scheduled: Option<ScheduledRun>,
    /// How often flushes and fences were added, if any were to be.
    pub patched: Option<PatchCounts>,
    /// How often code was executed, if that was asked for.
    pub coverage: Option<Coverage>,
    /// The path from the first symbolic byte on, if there are symbolic inputs.
    pub path: Option<PathRecording>,
    /// Whether the target is a server that has ended because its input was consumed, and not by itself.
    pub ended_by_client: bool,
    /// The destination, with all events.
    pub destination: D,
}

impl Target {
    /// Finds the program and sets up the wire. Does not start the program.
    pub fn prepare(options: &TargetOptions) -> Result<Self, TargetError> {
        let program = Program::find(&options.command)?;
        let watched = WatchTable::of(&options.watch)?;
        let gate = SignalGate::open().map_err(TargetError::SetUp)?;
        let wanted = [
            (options.loads, option::LOADS),
            (options.locks, option::LOCKS),
            (options.shared_loads, option::SHARED_LOADS),
            (options.reads, option::LOADS | option::READS),
            (options.coverage, option::COVERAGE),
            (options.repetition.is_some(), option::REPEATED),
            (options.hold.is_some(), option::HOLD),
            (options.patch.is_some(), option::PATCH),
            (options.schedule.is_some(), option::SCHEDULE),
            (!options.symbolic.is_empty(), option::PATH),
            (options.client.is_some(), option::CLIENT),
        ];
        let wanted = wanted.iter().filter(|(is_wanted, _)| *is_wanted);
        let wire = Wire::create(wanted.fold(0, |all, (_, bits)| all | bits))
            .map_err(TargetError::SetUp)?;
        if let Some(schedule) = options.schedule {
            wire.put_schedule(schedule).map_err(TargetError::SetUp)?;
        }
        wire.put_watch_table(&watched.bytes)
            .map_err(TargetError::SetUp)?;
        // The caller's file size limit is not meant for the wire.
        with_file_size_limit_raised(|| {
            if let Some(plan) = &options.hold {
                hold::put_plan(wire.file(), plan)?;
            }
            if let Some(plan) = &options.patch {
                plan.put(wire.file())?;
            }
            if let Some(input) = &options.client {
                client::put(&wire, input)?;
            }
            path::put_sources(wire.file(), &options.symbolic)
        })
        .map_err(TargetError::SetUp)?;
        Ok(Self {
            program,
            watched,
            gate,
            wire,
            coverage: options.coverage,
            on_full: options.on_full,
            repetition: options.repetition,
            hold: options.hold.clone(),
            patch: options.patch.clone(),
            schedule: options.schedule,
            symbolic: options.symbolic.clone(),
        })
    }

    /// Runs the target until it and all its followed descendants have ended. Calls `observe` while it runs.
    pub fn run<D: EventDestination>(
        mut self,
        destination: D,
        observe: &mut dyn FnMut(Notice<'_>),
    ) -> Result<TargetRun<D>, TargetError> {
        match self.hold.take() {
            Some(plan) => self.run_held(plan, destination, observe),
            None => self.run_with(LOADER, destination, observe),
        }
    }

    /// Runs the target, and holds its threads.
    fn run_held<D: EventDestination>(
        self,
        plan: HoldPlan,
        destination: D,
        observe: &mut dyn FnMut(Notice<'_>),
    ) -> Result<TargetRun<D>, TargetError> {
        let page = hold::map(self.wire.file()).map_err(TargetError::SetUp)?;
        let table = Table::map(self.wire.file()).map_err(TargetError::SetUp)?;
        let progress = Arc::new(HoldProgress::default());
        let events = HeldEvents::new(destination, plan.clone(), Arc::clone(&progress));
        let run = thread::scope(|scope| {
            scope.spawn(|| hold::supervise(&plan, &progress, &page, &table));
            let run = self.run_with(LOADER, events, observe);
            progress.end();
            run
        })?;
        let TargetRun {
            end,
            wall,
            cpu,
            stopped,
            notes,
            other_inputs,
            coverage,
            path,
            ended_by_client,
            scheduled,
            patched,
            destination,
        } = run;
        Ok(TargetRun {
            end,
            wall,
            cpu,
            stopped,
            notes,
            other_inputs,
            coverage,
            path,
            ended_by_client,
            scheduled,
            patched,
            destination: destination.into_destination(),
        })
    }

    /// Like [`run`](Self::run), with another loader.
    pub(crate) fn run_with<D: EventDestination>(
        self,
        loader: &[u8],
        destination: D,
        observe: &mut dyn FnMut(Notice<'_>),
    ) -> Result<TargetRun<D>, TargetError> {
        let Self {
            program,
            watched,
            gate,
            wire,
            coverage,
            on_full,
            repetition,
            hold: _,
            patch,
            schedule,
            symbolic,
        } = self;
        let started = Instant::now();
        let status = SharedStatus::default();
        let finished = thread::scope(|scope| {
            let (launches, launched) = mpsc::channel();
            let (wire, gate, status, watched) = (&wire, &gate, &status, &watched);
            // It is started before the target, so that it does not matter for the ids of the target's threads which is faster.
            let drain = scope.spawn(move || {
                let mut sink = EventSink::new(destination);
                let result = match launched.recv() {
                    Ok(wire_processes) => sink
                        .watch(watched)
                        .map_err(StopReason::from)
                        .and_then(|()| drain(wire, &wire_processes, status, &mut sink)),
                    // The target could not be started.
                    Err(_) => Ok(Losses::default()),
                };
                // From here on records are not read any more, so no thread may wait for that.
                wire.turn_off();
                status.drain_over.store(true, Ordering::SeqCst);
                gate.wake();
                Drained { sink, result }
            });
            let differing = repetition.and_then(Repetition::prepare);
            let fixed = schedule.map(|_| FixedAddresses::begin());
            let details = Launch {
                environment: &path::variables(&symbolic),
                ..Launch::default()
            };
            let launched = launch_with(loader, &program, wire.file(), gate, &details);
            let launched = launched.map_err(|source| TargetError::Start {
                path: program.path.clone(),
                source,
            })?;
            let has_fixed_addresses = fixed.is_some_and(|fixed| fixed.is_allowed());
            let wire_processes =
                WireProcesses::of(wire.file(), launched.descriptor).map_err(TargetError::SetUp)?;
            // It is received as long as the thread lives, and the supervisor detects its end.
            let _ = launches.send(wire_processes);
            let supervisor = Supervisor {
                target: launched.pid,
                started,
                gate,
                wire,
                status,
                on_full,
            };
            let (ended, drained) = supervisor.run(drain, observe);
            Ok::<_, TargetError>((
                launched.pid,
                (differing, has_fixed_addresses),
                ended,
                drained,
            ))
        });
        drop(gate);
        let (pid, (differing, has_fixed_addresses), ended, drained) = finished?;
        let interrupted = status.stop_waiting.load(Ordering::SeqCst);
        let ended = ended.map_err(TargetError::Wait)?;
        let patched = patch.map(|plan| plan.counts(wire.file()));
        let counted = coverage.then(|| Coverage::read(wire.file(), wire.slots_used()));
        let path = (!symbolic.is_empty()).then(|| path::read(wire.file()));
        let deadlock = schedule.zip(wire.deadlocked());
        let deadlock = deadlock.map(|(schedule, threads)| ScheduleDeadlock { schedule, threads });
        let ended_by_client =
            matches!(ended.end, ProcessEnd::Signaled { signal } if client::has_sent(&wire, signal));
        let run = conclude(pid.0 as u32, ended, drained, interrupted, deadlock);
        Ok(TargetRun {
            coverage: counted.transpose().map_err(TargetError::Coverage)?,
            path: path.transpose().map_err(TargetError::Path)?,
            ended_by_client,
            other_inputs: OtherInput::of(wire.inputs()).chain(differing).collect(),
            patched: patched.transpose().map_err(TargetError::SetUp)?,
            scheduled: schedule.map(|schedule| ScheduledRun {
                schedule,
                steps: wire.steps(),
                unpinned: Unpinned::of(wire.inputs(), has_fixed_addresses),
                deadlock,
            }),
            ..run
        })
    }
}

/// Whether a note of a trace says that records were lost.
pub fn is_lost_record(note: &str) -> bool {
    note.contains(LATER_RECORDS_LOST)
}

/// Adds the end of the target to its events.
fn conclude<D: EventDestination>(
    target: u32,
    ended: TargetEnd,
    drained: Drained<D>,
    interrupted: bool,
    deadlock: Option<ScheduleDeadlock>,
) -> TargetRun<D> {
    let Drained { mut sink, result } = drained;
    let added = result.and_then(|losses| {
        sink.ended(target, ended.end)?;
        if let Some(deadlock) = deadlock {
            sink.remark(&deadlock.to_string())?;
        }
        sink.remark_names()?;
        // What a killed thread was about to record may have changed a file.
        if losses.numbers == 0 && !interrupted {
            sink.remark_contents()?;
        }
        if losses != Losses::default() {
            let Losses { numbers, found } = losses;
            sink.remark(&format!(
                "threads were killed while they were being recorded (unfinished records: {numbers}; stores reconstructed from the \
                 content of the files, without their calling contexts: {found})"
            ))?;
        }
        if interrupted {
            Err(StopReason::Interrupted)
        } else {
            Ok(())
        }
    });
    let TargetEnd { end, wall, cpu } = ended;
    TargetRun {
        end,
        wall,
        cpu,
        stopped: added.err(),
        notes: sink.take_notes(),
        other_inputs: Vec::new(),
        scheduled: None,
        patched: None,
        coverage: None,
        path: None,
        ended_by_client: false,
        destination: sink.into_destination(),
    }
}

#[cfg(test)]
mod tests;
