//! Operations of the workload: calls of the functions that perform one.

use brownout_names::FunctionPattern;
use brownout_trace::{Definitions, Event, EventKind, ProcessId, ThreadId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::function_set::FunctionSet;

/// How far a workload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The number of complete operations.
    pub completed: u64,
    /// Whether another operation was active.
    pub active: bool,
}

/// Counts calls of the functions that perform an operation. A call within a call is part of the outer one.
#[derive(Debug)]
pub struct Operations {
    functions: FunctionSet,
    completed: u64,
    /// Open calls of each thread.
    open: FxHashMap<(ProcessId, ThreadId), u64>,
}

impl Operations {
    pub fn new(functions: &[FunctionPattern]) -> Self {
        Self {
            functions: FunctionSet::new(functions),
            completed: 0,
            open: FxHashMap::default(),
        }
    }

    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let (EventKind::Call { function, .. } | EventKind::Return { function, .. }) = event.kind
        else {
            return;
        };
        if !self.functions.contains(function, definitions) {
            return;
        }
        let thread = (event.process, event.thread);
        if let EventKind::Call { .. } = event.kind {
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

    /// The patterns that no function called in the run matches.
    pub fn missing(&self) -> impl Iterator<Item = &FunctionPattern> {
        self.functions.missing()
    }
}
