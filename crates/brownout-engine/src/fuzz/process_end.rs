//! Waits for the end of an execution, and kills it when its time is over.

use super::execution::CopyEnd;
use crate::sys::process::{self, Pid, WaitMode};
use brownout_trace::ProcessEnd;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{PidfdFlags, Signal};
use std::io;
use std::time::{Duration, Instant};

/// Waits until a child has ended, at most until `deadline`; then it is killed.
pub(super) fn wait_until(pid: Pid, deadline: Instant) -> io::Result<CopyEnd> {
    let is_over = !ends_before(pid, deadline)?;
    if is_over {
        process::kill(pid, Signal::KILL);
    }
    let ended = process::wait(pid, WaitMode::Block)?;
    Ok(match ended.map(|ended| ended.end) {
        // It may have ended by itself before it was killed.
        Some(ProcessEnd::Signaled { signal }) if is_over && signal == Signal::KILL.as_raw() => {
            CopyEnd::TimedOut
        }
        Some(end) => of(end),
        None => CopyEnd::TimedOut,
    })
}

/// How a process has ended.
pub(super) fn of(end: ProcessEnd) -> CopyEnd {
    match end {
        ProcessEnd::Signaled { signal } => CopyEnd::Killed(signal),
        other => CopyEnd::Exited(other.shell_status()),
    }
}

fn ends_before(pid: Pid, deadline: Instant) -> io::Result<bool> {
    let Some(number) = rustix::process::Pid::from_raw(pid.0) else {
        return Ok(true);
    };
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut descriptors = [PollFd::new(&process, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut descriptors, Some(&limit)) {
            Ok(0) if left > Duration::ZERO => {}
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
