//! Waits for what happens to a run: an end, the end of its time, too much memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FallocateFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::Errno;
use super::process_tree::anonymous_memory;

/// How often memory and output are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How late an end in time may be seen, on a busy machine.
const LATENESS: Duration = Duration::from_secs(1);
/// What is kept of output from its beginning.
pub const OUTPUT_HEAD: u64 = 8 << 20;
/// What is kept of output up to its end.
pub const OUTPUT_TAIL: u64 = 64 << 10;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum RunEvent {
    /// A process ended, or stopped if it is traced.
    Changed(Pid, WaitStatus),
    TimeOver,
    MemoryOver,
    /// Nothing, for as long as was asked.
    Nothing,
}

/// Why waiting came to an end.
#[derive(Debug)]
pub enum MonitorError {
    /// Brownout is gone; nobody wants to know any more.
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

/// Watches over one run.
#[derive(Debug)]
pub struct RunMonitor<'a> {
    /// Readable when a child has changed.
    pub children: &'a OwnedFd,
    /// Hung up when brownout is gone.
    pub channel: BorrowedFd<'a>,
    pub deadline: Option<Instant>,
    pub memory_limit: Option<u64>,
    /// What the run writes to.
    pub outputs: [&'a File; 2],
    pub next_look: Instant,
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
            next_look: now + LOOK_INTERVAL,
        }
    }

    /// The next thing that happens, or nothing for `patience`.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<RunEvent, MonitorError> {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            // Whoever starts processes without end does not put this off.
            let is_late = |deadline| Instant::now() >= deadline + LATENESS;
            if self.deadline.is_some_and(is_late) {
                return Ok(RunEvent::TimeOver);
            }
            // Threads of traced processes are children too.
            let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WALL as u32);
            match rustix::process::wait(options) {
                Ok(Some((pid, status))) => return Ok(RunEvent::Changed(pid, status)),
                Ok(None) | Err(rustix::io::Errno::CHILD) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = Instant::now();
            // An end in time counts even if this process was late to see it.
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(RunEvent::TimeOver);
            }
            if now >= self.next_look {
                self.next_look = now + LOOK_INTERVAL;
                if self.look()? {
                    return Ok(RunEvent::MemoryOver);
                }
            }
            if until.is_some_and(|until| now >= until) {
                return Ok(RunEvent::Nothing);
            }
            let wake = [self.deadline, until]
                .into_iter()
                .flatten()
                .fold(self.next_look, Instant::min);
            self.sleep(wake.saturating_duration_since(now))?;
        }
    }

    fn sleep(&self, time: Duration) -> Result<(), MonitorError> {
        let timeout = Timespec::try_from(time).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut descriptors = [
            PollFd::new(self.children, PollFlags::IN),
            // Only that it is hung up; what it says is not for now.
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
            let mut news = [0; 1024];
            // That there is news is all there is to know.
            let _ = rustix::io::read(self.children.as_fd(), &mut news);
        }
        Ok(())
    }

    /// Gives back the middle of long output; says whether there is too much memory.
    fn look(&self) -> Result<bool, MonitorError> {
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
