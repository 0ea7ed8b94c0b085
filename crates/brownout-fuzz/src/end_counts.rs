//! How the executions of a campaign have ended: if none has succeeded, or all were cut off, the campaign shows little.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::executor::ExecutionEnd;

/// How many executions have ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCounts {
    /// With status 0.
    pub succeeded: u64,
    /// With another status.
    pub failed: u64,
    /// By a signal, or for want of memory.
    pub killed: u64,
    /// Not within the time limit. What they have shown is not judged.
    pub timed_out: u64,
}

impl EndCounts {
    pub fn all(&self) -> u64 {
        self.succeeded + self.failed + self.killed + self.timed_out
    }
}

/// The same, counted by several threads.
#[derive(Debug, Default)]
pub struct EndCounters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    killed: AtomicU64,
    timed_out: AtomicU64,
}

impl EndCounters {
    /// Goes on from where an earlier process was.
    pub fn after(counts: EndCounts) -> Self {
        Self {
            succeeded: counts.succeeded.into(),
            failed: counts.failed.into(),
            killed: counts.killed.into(),
            timed_out: counts.timed_out.into(),
        }
    }

    pub fn add(&self, end: ExecutionEnd) {
        let counter = match end {
            ExecutionEnd::Exited(0) => &self.succeeded,
            ExecutionEnd::Exited(_) => &self.failed,
            ExecutionEnd::Killed(_) | ExecutionEnd::OutOfMemory => &self.killed,
            ExecutionEnd::TimedOut => &self.timed_out,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> EndCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EndCounts {
            succeeded: count(&self.succeeded),
            failed: count(&self.failed),
            killed: count(&self.killed),
            timed_out: count(&self.timed_out),
        }
    }
}
