//! How long a process of an exploration has waited for something else than its controller: a copy that sleeps would be waited for without
//! end, because it uses no processor time.

use crate::sys::process::{self, Pid};
use std::time::{Duration, Instant};

/// A process that has used no processor time for so long, and does not wait for a processor, is not waited for any longer.
const LONGEST: Duration = Duration::from_secs(3);

/// The processor time that a process had used when it was last seen to use some.
pub(super) struct IdleTime {
    used: Duration,
    since: Instant,
}

impl IdleTime {
    pub(super) fn new() -> Self {
        Self {
            used: Duration::ZERO,
            since: Instant::now(),
        }
    }

    /// Looks after the process. Whether it waits for too long.
    pub(super) fn is_over(&mut self, pid: Pid) -> bool {
        let used = process::cpu_time(pid).unwrap_or(self.used);
        if used != self.used || process::is_runnable(pid.0 as u32, pid.0 as u32) {
            self.used = used;
            self.since = Instant::now();
        }
        self.since.elapsed() > LONGEST
    }
}
