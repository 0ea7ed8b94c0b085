//! Waits for the next event of a run: a process that ends, the time limit or that it is stuck, the memory limit.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FallocateFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::Errno;
use super::process_tree::anonymous_memory;
use super::stall::StallDetector;
use super::sys::ALL_CHILDREN;

/// How often memory and output are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How much later than the deadline an end before the deadline may be noticed, on a busy machine.
const LATENESS: Duration = Duration::from_secs(1);
/// Bytes that are kept of the beginning of an output.
pub const OUTPUT_HEAD: u64 = 8 << 20;
/// Bytes that are kept of the end of an output.
pub const OUTPUT_TAIL: u64 = 64 << 10;

/// An event of a run.
#[derive(Clone, Copy, Debug)]
pub enum RunEvent {
    /// A process ended, or stopped if it is traced.
    Changed(Pid, WaitStatus),
    /// The time limit is over, or the run is stuck and would exceed it.
    TimeOver,
    MemoryOver,
    /// Nothing happened for the time that was asked for.
    Nothing,
}

/// Why waiting failed.
#[derive(Debug)]
pub enum MonitorError {
    /// Brownout has ended.
    Abandoned,
    Fault(Errno),
}

impl From<rustix::io::Errno> for MonitorError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Fault(errno.into())
    }
}

impl From<io::Error> for MonitorError {
    fn from(error: io::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// Waits for the events of one run.
#[derive(Debug)]
pub struct RunMonitor<'a> {
    /// Readable when a child has ended or stopped.
    pub children: &'a OwnedFd,
    /// Hung up when brownout has ended.
    pub channel: BorrowedFd<'a>,
    pub deadline: Option<Instant>,
    /// Recognises a run that is stuck.
    pub stall: Option<StallDetector>,
    pub memory_limit: Option<u64>,
    /// The files that receive the output of the run.
    pub outputs: [&'a File; 2],
    pub next_check: Instant,
}

impl<'a> RunMonitor<'a> {
    pub fn new(
        children: &'a OwnedFd,
        channel: BorrowedFd<'a>,
        outputs: [&'a File; 2],
        memory_limit: Option<u64>,
        time_limit: Option<Duration>,
    ) -> Self {
        let now = Instant::now();
        Self {
            children,
            channel,
            outputs,
            memory_limit,
            deadline: time_limit.and_then(|limit| now.checked_add(limit)),
            stall: None,
            next_check: now + CHECK_INTERVAL,
        }
    }

    /// The next event; [`RunEvent::Nothing`] if there is none for `patience`.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<RunEvent, MonitorError> {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            // A run that starts processes endlessly must not postpone its deadline.
            let is_late = |deadline| Instant::now() >= deadline + LATENESS;
            if self.deadline.is_some_and(is_late) {
                return Ok(RunEvent::TimeOver);
            }
            match rustix::process::wait(WaitOptions::NOHANG | ALL_CHILDREN) {
                Ok(Some((pid, status))) => return Ok(RunEvent::Changed(pid, status)),
                Ok(None) | Err(rustix::io::Errno::CHILD) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = Instant::now();
            // An end before the deadline counts even if this process notices it late.
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(RunEvent::TimeOver);
            }
            if let Some(stall) = &mut self.stall
                && stall.is_stuck(now)
            {
                return Ok(RunEvent::TimeOver);
            }
            if now >= self.next_check {
                self.next_check = now + CHECK_INTERVAL;
                if self.check()? {
                    return Ok(RunEvent::MemoryOver);
                }
            }
            if until.is_some_and(|until| now >= until) {
                return Ok(RunEvent::Nothing);
            }
            let wake = [self.deadline, until]
                .into_iter()
                .flatten()
                .fold(self.next_check, Instant::min);
            self.sleep(wake.saturating_duration_since(now))?;
        }
    }

    /// Waits for children for at most `patience`: whether there were any, and whether one is still there.
    pub fn wait_for_children(&self, patience: Duration) -> Result<(bool, bool), MonitorError> {
        let until = Instant::now() + patience;
        let mut were_any = false;
        loop {
            let ended = match rustix::process::wait(WaitOptions::NOHANG | ALL_CHILDREN) {
                Err(rustix::io::Errno::CHILD) => return Ok((were_any, false)),
                ended => ended?,
            };
            were_any = true;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok((true, true));
            }
            if ended.is_none() {
                self.sleep(left)?;
            }
        }
    }

    fn sleep(&self, time: Duration) -> Result<(), MonitorError> {
        let timeout = Timespec::try_from(time).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut descriptors = [
            PollFd::new(self.children, PollFlags::IN),
            // Only whether it is hung up; messages are read later.
            PollFd::new(&self.channel, PollFlags::empty()),
        ];
        match rustix::event::poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !descriptors[1].revents().is_empty() {
            return Err(MonitorError::Abandoned);
        }
        if !descriptors[0].revents().is_empty() {
            let mut signals = [0; 1024];
            // The content does not matter: all children are asked next.
            let _ = rustix::io::read(self.children.as_fd(), &mut signals);
        }
        Ok(())
    }

    /// Frees the middle of a long output. Returns whether the memory limit is exceeded.
    fn check(&self) -> Result<bool, MonitorError> {
        for output in self.outputs {
            let length = output.metadata()?.len();
            if length > OUTPUT_HEAD + 2 * OUTPUT_TAIL {
                let middle = length - OUTPUT_TAIL - OUTPUT_HEAD;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(output, hole, OUTPUT_HEAD, middle)?;
            }
        }
        Ok(self
            .memory_limit
            .is_some_and(|limit| anonymous_memory() > limit))
    }
}
