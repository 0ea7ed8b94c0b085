//! Runs of a recovered server with its client.
//!
//! The end of the client decides, unless the server fails first or never becomes ready.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::launch::Streams;
use super::worker::{RequestedRun, RunError, Worker, end_of};
use crate::command_line::CommandLine;
use crate::readiness::ReadinessProbe;
use crate::run_monitor::{MonitorError, RunEvent, RunMonitor};
use crate::{Actor, End, Readiness};

/// The longest time between two checks whether a server is ready.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How long to wait for the death of a server after its client has failed.
const SERVER_DEATH_WAIT: Duration = Duration::from_millis(200);

impl Worker<'_> {
    /// Starts a server, waits until it is ready, and runs the client.
    pub fn run_server(
        &self,
        command: &CommandLine,
        client: &CommandLine,
        request: &RequestedRun,
    ) -> Result<(End, Actor), RunError> {
        let mut monitor = self.monitor(request);
        let server = self.start(Actor::Recovery, command, request, &Streams::Shown)?;
        let mut is_running = true;
        if let Some(readiness) = &self.session.setup.recovery.ready
            && let Some(end) = self.await_ready(readiness, server, &mut is_running, &mut monitor)?
        {
            return Ok((end, Actor::Recovery));
        }
        let client = self.start(Actor::Client, client, request, &Streams::Separate)?;
        let verdict = loop {
            match self.next(&mut monitor, None)? {
                RunEvent::Changed(pid, status) if pid == client => {
                    if let Some(end) = end_of(status) {
                        break (end, Actor::Client);
                    }
                }
                RunEvent::Changed(pid, status) if pid == server => {
                    match end_of(status) {
                        // The client may have asked it to end; the end of the client decides.
                        Some(end) if self.is_success(end) => is_running = false,
                        Some(end) => return Ok((end, Actor::Recovery)),
                        None => {}
                    }
                }
                RunEvent::Changed(..) | RunEvent::Nothing => {}
                RunEvent::TimeOver => return Ok((End::TimedOut, Actor::Client)),
                RunEvent::MemoryOver => return Ok((End::OutOfMemory, Actor::Recovery)),
            }
        };
        // A client may fail because its server has just died, and end first.
        if is_running
            && !self.is_success(verdict.0)
            && let Some(end) = self.await_death(server, &mut is_running, &mut monitor)?
        {
            return Ok((end, Actor::Recovery));
        }
        self.stop(server, is_running, monitor)?;
        Ok(verdict)
    }

    /// The signal that kills a server shortly after its client has failed, if one does.
    fn await_death(
        &self,
        server: Pid,
        is_running: &mut bool,
        monitor: &mut RunMonitor<'_>,
    ) -> Result<Option<End>, RunError> {
        let until = Instant::now() + SERVER_DEATH_WAIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.next(monitor, Some(left))? {
                RunEvent::Changed(pid, status) if pid == server => match end_of(status) {
                    Some(end @ End::Signaled(_)) => return Ok(Some(end)),
                    Some(_) => {
                        *is_running = false;
                        return Ok(None);
                    }
                    None => {}
                },
                RunEvent::Changed(..) => {}
                _ => return Ok(None),
            }
        }
    }

    fn is_success(&self, end: End) -> bool {
        let success = &self.session.setup.recovery.success;
        matches!(end, End::Exited(status) if success.contains(&status))
    }

    /// Waits until a server is ready. Returns its end if it ends before that.
    fn await_ready(
        &self,
        readiness: &Readiness,
        server: Pid,
        is_running: &mut bool,
        monitor: &mut RunMonitor<'_>,
    ) -> Result<Option<End>, RunError> {
        let directory = &self.session.setup.recovery.directory;
        let mut probe = ReadinessProbe::new(readiness, directory);
        let mut pause = Duration::from_micros(200);
        while !probe
            .is_ready(&self.session.stderr)
            .map_err(MonitorError::from)?
        {
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.next(monitor, Some(pause))? {
                RunEvent::Changed(pid, status) if pid == server => match end_of(status) {
                    // A server that daemonizes leaves a process behind.
                    Some(end) if self.is_success(end) && has_children() => *is_running = false,
                    Some(end) => return Ok(Some(end)),
                    None => {}
                },
                RunEvent::Changed(..) if !*is_running && !has_children() => {
                    return Ok(Some(End::Exited(0)));
                }
                RunEvent::Changed(..) | RunEvent::Nothing => {}
                RunEvent::TimeOver => return Ok(Some(End::TimedOut)),
                RunEvent::MemoryOver => return Ok(Some(End::OutOfMemory)),
            }
        }
        Ok(None)
    }

    /// Asks a server to end, and waits for that for a limited time.
    fn stop(
        &self,
        server: Pid,
        is_running: bool,
        mut monitor: RunMonitor<'_>,
    ) -> Result<(), RunError> {
        if is_running {
            let _ = rustix::process::kill_process_group(server, Signal::TERM);
        } else {
            self.confinement.ask_to_end();
        }
        let grace = self.session.setup.recovery.stop_grace;
        monitor.deadline = Instant::now().checked_add(grace);
        while has_children() {
            match self.next(&mut monitor, None)? {
                RunEvent::Changed(pid, _) if pid == server && is_running => break,
                RunEvent::TimeOver | RunEvent::MemoryOver => break,
                RunEvent::Changed(..) | RunEvent::Nothing => {}
            }
        }
        Ok(())
    }
}

/// Whether any process of the run is left, including zombies.
fn has_children() -> bool {
    use rustix::process::{WaitId, WaitIdOptions};
    let options = WaitIdOptions::EXITED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT
        | crate::sys::ALL_CHILDREN_BY_ID;
    !matches!(
        rustix::process::waitid(WaitId::All, options),
        Err(rustix::io::Errno::CHILD)
    )
}
