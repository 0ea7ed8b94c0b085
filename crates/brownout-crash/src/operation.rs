//! Operations of the workload: calls of one function.

use brownout_trace::{Definitions, Event, EventKind, ProcessId, ThreadId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// How far a workload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The number of complete operations.
    pub completed: u64,
    /// Whether another operation was active.
    pub active: bool,
}

/// Counts calls of the function that performs one operation. A call within a call is part of the outer one.
#[derive(Debug)]
pub struct Operations {
    function: Option<String>,
    completed: u64,
    /// Open calls of each thread.
    open: FxHashMap<(ProcessId, ThreadId), u64>,
    seen: bool,
}

impl Operations {
    pub fn new(function: Option<&str>) -> Self {
        Self {
            function: function.map(str::to_owned),
            completed: 0,
            open: FxHashMap::default(),
            seen: function.is_none(),
        }
    }

    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let (EventKind::Call { function, .. } | EventKind::Return { function, .. }) = event.kind
        else {
            return;
        };
        if self.function.is_none() || definitions.function(function) != self.function.as_deref() {
            return;
        }
        let thread = (event.process, event.thread);
        if let EventKind::Call { .. } = event.kind {
            self.seen = true;
            *self.open.entry(thread).or_default() += 1;
        } else if let Some(open) = self.open.get_mut(&thread) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&thread);
                self.completed += 1;
            }
        }
    }

    pub fn now(&self) -> Operation {
        Operation {
            completed: self.completed,
            active: !self.open.is_empty(),
        }
    }

    /// Whether the function was called at all; true if none is named.
    pub fn seen(&self) -> bool {
        self.seen
    }
}
