//! Supervises a target: passes signals on to it, and waits for its end.
//!
//! - The terminal sends `SIGINT` and `SIGQUIT` to the target too; the recorder ignores them and ends when the target does. If
//!   a process sends them to the recorder, it passes them on, like `SIGTERM`, `SIGHUP`, `SIGUSR1` and `SIGUSR2`.
//! - After the target has ended, the recorder waits for the descendants that it has followed. Any of these signals except
//!   `SIGUSR1` and `SIGUSR2` makes it stop waiting.
//! - The recorder is not a subreaper: the parent of an orphan is init, as it would be natively. The drain detects the end of
//!   processes that are not children of the recorder in `/proc`.

use crate::drain::SharedStatus;
use crate::event_destination::EventDestination;
use crate::merge::Losses;

use crate::event_sink::{EventSink, StopReason};
use crate::sys::process::{self, Ended, Pid, WaitMode};
use crate::sys::signals::{Origin, SignalGate};
use crate::target::{Notice, OnFull};
use crate::wire::Wire;
use brownout_trace::ProcessEnd;
use rustix::process::Signal;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How long after the target's end waiting for its descendants is reported.
const QUIET_WAIT: Duration = Duration::from_secs(1);
/// How long a target may take to stop before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The results of the drain.
pub(crate) struct Drained<D: EventDestination> {
    pub(crate) sink: EventSink<D>,
    /// The losses of killed threads, or why the drain failed.
    pub(crate) result: Result<Losses, StopReason>,
}

/// How the target ended, and how long it ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetEnd {
    pub(crate) end: ProcessEnd,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// Supervises one target.
pub(crate) struct Supervisor<'a> {
    pub(crate) target: Pid,
    pub(crate) started: Instant,
    pub(crate) gate: &'a SignalGate,
    pub(crate) wire: &'a Wire,
    pub(crate) status: &'a SharedStatus,
    pub(crate) on_full: OnFull,
}

impl Supervisor<'_> {
    /// Runs until the target has ended and the drain is finished.
    pub(crate) fn run<D: EventDestination>(
        &self,
        drain: ScopedJoinHandle<'_, Drained<D>>,
        observe: &mut dyn FnMut(Notice<'_>),
    ) -> (io::Result<TargetEnd>, Drained<D>) {
        let mut drain = Some(drain);
        let mut drained = None;
        let mut ended = None;
        let mut kill_at = None;
        let mut report_waiting_at = None;
        loop {
            let signal = self.gate.next(PROGRESS_INTERVAL);
            if ended.is_none() {
                self.pass_on(signal);
                ended = self.look_for_end();
                report_waiting_at = ended.is_some().then(|| Instant::now() + QUIET_WAIT);
            } else {
                self.stop_waiting_on(signal);
            }

            if self.status.drain_over.load(Ordering::SeqCst)
                && let Some(thread) = drain.take()
            {
                let result = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if let Err(reason) = &result.result {
                    observe(Notice::Stopped(reason));
                    if self.on_full == OnFull::Stop && ended.is_none() {
                        process::kill(self.target, Signal::TERM);
                        kill_at = Some(Instant::now() + STOP_GRACE);
                    }
                }
                drained = Some(result);
            }
            if ended.is_none() && is_due(&mut kill_at) {
                process::kill(self.target, Signal::KILL);
            }

            match (ended, drained) {
                (Some(ended), Some(drained)) => return (ended, drained),
                (still_ended, still_drained) => (ended, drained) = (still_ended, still_drained),
            }
            if is_due(&mut report_waiting_at) {
                observe(Notice::Waiting);
            }
            observe(Notice::Progress {
                events: self.status.events.load(Ordering::Relaxed),
                bytes: self.status.bytes.load(Ordering::Relaxed),
            });
        }
    }

    /// Passes a signal on to the target.
    fn pass_on(&self, signal: Option<(Signal, Origin)>) {
        if let Some((signal, Origin::Process)) = signal
            && signal != Signal::CHILD
        {
            process::kill(self.target, signal);
        }
    }

    fn stop_waiting_on(&self, signal: Option<(Signal, Origin)>) {
        const ENDING: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];
        if signal.is_some_and(|(signal, _)| ENDING.contains(&signal)) {
            self.status.stop_waiting.store(true, Ordering::SeqCst);
            self.wire.ring_doorbell();
        }
    }

    fn look_for_end(&self) -> Option<io::Result<TargetEnd>> {
        let ended = process::wait(self.target, WaitMode::Poll).transpose()?;
        let wall = self.started.elapsed();
        self.status.target_ended.store(true, Ordering::SeqCst);
        self.wire.ring_doorbell();
        Some(ended.map(|Ended { end, cpu }| TargetEnd { end, wall, cpu }))
    }
}

/// Whether the time has passed. Returns true only once.
fn is_due(time: &mut Option<Instant>) -> bool {
    time.take_if(|time| *time <= Instant::now()).is_some()
}
