//! Whether processes of a recovery that use persistent files outlive its first process. They are killed, and no verdict depends on them: if
//! they do the work of recovery, nothing is tested.
//!
//! The order of events says it exactly, however short a process lives. Can miss: one that is as fast as the first process in this
//! run, and not in others; one that used a file before and is killed by a signal afterwards, because it is not known when.

use std::collections::{HashMap, HashSet};

use brownout_trace::{Event, EventKind, ProcessEnd, ProcessId};

/// Follows the processes of a recovery. They are distinguished by their process ids, which stay when they execute another program.
#[derive(Debug, Default)]
pub(super) struct OutlivingProcesses {
    pids: HashMap<ProcessId, u32>,
    first: Option<u32>,
    first_has_ended: bool,
    /// Those that have used a persistent file and did not end before the first process.
    users: HashSet<u32>,
    used_afterwards: bool,
}

impl OutlivingProcesses {
    /// Follows starts and ends.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::ProcessStart { pid, .. } => {
                self.pids.insert(event.process, pid);
                self.first.get_or_insert(pid);
            }
            EventKind::ProcessExit { end } => {
                let pid = self.pids.get(&event.process).copied();
                if pid.is_some() && pid == self.first {
                    self.first_has_ended = true;
                } else if let Some(pid) = pid
                    && (!self.first_has_ended || matches!(end, ProcessEnd::Signaled { .. }))
                {
                    self.users.remove(&pid);
                }
            }
            _ => {}
        }
    }

    /// A process uses a persistent file.
    pub(super) fn uses(&mut self, process: ProcessId) {
        self.used_afterwards |= self.first_has_ended;
        if let Some(&pid) = self.pids.get(&process) {
            self.users.insert(pid);
        }
    }

    /// Whether there are such processes.
    pub(super) fn exist(&self) -> bool {
        let mut users = self.users.iter();
        let is_left = self.first_has_ended && users.any(|&pid| Some(pid) != self.first);
        self.used_afterwards || is_left
    }
}
