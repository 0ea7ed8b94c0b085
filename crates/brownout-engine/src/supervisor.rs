//! Looking after a target: signals to it, and how it ends.
//!
//! - `SIGINT` and `SIGQUIT` from the terminal reach the target by themselves; the recorder ignores
//!   them and ends when the target does. Sent to the recorder by a process, they are passed on, as
//!   are `SIGTERM`, `SIGHUP`, `SIGUSR1` and `SIGUSR2`.
//! - After the target has ended, the recorder waits for the processes that were followed from it. Any
//!   of these signals but the last two makes it stop waiting.
//! - The recorder is no subreaper: an orphan's parent is init, as it would be without us. The drain
//!   sees the ends of processes that are not our children in `/proc`.

use crate::drain::Signals;
use crate::event_destination::EventDestination;
use crate::merge::Losses;

use crate::sys::process::{self, Ended, Pid, Waiting};
use crate::sys::signals::{Origin, SignalGate};
use crate::target::{Notice, OnFull};
use crate::trace_sink::{EventSink, StopReason};
use crate::wire::Wire;
use brownout_trace::ProcessEnd;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How often the observer is told how far the recording is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How long after the target's end the observer is told that there is something to wait for.
const QUIET_WAIT: Duration = Duration::from_secs(1);
/// How long a target that is to stop may take before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What the drain leaves behind.
pub(crate) struct Drained<D: EventDestination> {
    pub(crate) sink: EventSink<D>,
    /// What became of the records of killed threads, or why the drain gave up.
    pub(crate) result: Result<Losses, StopReason>,
}

/// How and after what time the target ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetEnd {
    pub(crate) end: ProcessEnd,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// Looks after one target.
pub(crate) struct Supervisor<'a> {
    pub(crate) target: Pid,
    pub(crate) started: Instant,
    pub(crate) gate: &'a SignalGate,
    pub(crate) wire: &'a Wire,
    pub(crate) signals: &'a Signals,
    pub(crate) on_full: OnFull,
}

impl Supervisor<'_> {
    /// Runs until the target has ended and the drain is through.
    pub(crate) fn run<D: EventDestination>(
        &self,
        drain: ScopedJoinHandle<'_, Drained<D>>,
        observe: &mut dyn FnMut(Notice<'_>),
    ) -> (io::Result<TargetEnd>, Drained<D>) {
        let mut drain = Some(drain);
        let mut drained = None;
        let mut ended = None;
        let mut kill_at = None;
        let mut tell_waiting_at = None;
        loop {
            let signal = self.gate.next(PROGRESS_INTERVAL);
            if ended.is_none() {
                self.pass_on(signal);
                ended = self.look_for_end();
                tell_waiting_at = ended.is_some().then(|| Instant::now() + QUIET_WAIT);
            } else {
                self.stop_waiting_on(signal);
            }

            if self.signals.drain_over.load(Ordering::SeqCst)
                && let Some(thread) = drain.take()
            {
                let result = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if let Err(reason) = &result.result {
                    observe(Notice::Stopped(reason));
                    if self.on_full == OnFull::Stop && ended.is_none() {
                        process::kill(self.target, libc::SIGTERM);
                        kill_at = Some(Instant::now() + STOP_GRACE);
                    }
                }
                drained = Some(result);
            }
            if ended.is_none() && is_due(&mut kill_at) {
                process::kill(self.target, libc::SIGKILL);
            }

            match (ended, drained) {
                (Some(ended), Some(drained)) => return (ended, drained),
                (still_ended, still_drained) => (ended, drained) = (still_ended, still_drained),
            }
            if is_due(&mut tell_waiting_at) {
                observe(Notice::Waiting);
            }
            observe(Notice::Progress {
                events: self.signals.events.load(Ordering::Relaxed),
                bytes: self.signals.bytes.load(Ordering::Relaxed),
            });
        }
    }

    /// Gives the target a signal that was meant for it.
    fn pass_on(&self, signal: Option<(libc::c_int, Origin)>) {
        if let Some((signal, Origin::Process)) = signal
            && signal != libc::SIGCHLD
        {
            process::kill(self.target, signal);
        }
    }

    fn stop_waiting_on(&self, signal: Option<(libc::c_int, Origin)>) {
        use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        if let Some((SIGINT | SIGQUIT | SIGTERM | SIGHUP, _)) = signal {
            self.signals.stop_waiting.store(true, Ordering::SeqCst);
            self.wire.ring_doorbell();
        }
    }

    fn look_for_end(&self) -> Option<io::Result<TargetEnd>> {
        let ended = process::wait(self.target, Waiting::Poll).transpose()?;
        let wall = self.started.elapsed();
        self.signals.target_ended.store(true, Ordering::SeqCst);
        self.wire.ring_doorbell();
        Some(ended.map(|Ended { status, cpu }| TargetEnd {
            end: end(status),
            wall,
            cpu,
        }))
    }
}

/// Whether the time has come, which it does once.
fn is_due(time: &mut Option<Instant>) -> bool {
    time.take_if(|time| *time <= Instant::now()).is_some()
}

fn end(status: libc::c_int) -> ProcessEnd {
    if libc::WIFSIGNALED(status) {
        ProcessEnd::Signaled {
            signal: libc::WTERMSIG(status),
        }
    } else {
        ProcessEnd::Exited {
            status: libc::WEXITSTATUS(status),
        }
    }
}
