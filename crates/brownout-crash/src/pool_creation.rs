//! Creation of pools by libraries, as in `pmemobj_create`. It is not expected to survive a crash: a program whose pool is
//! not complete creates it again. Failure points inside it are left out unless they are asked for.
//!
//! Can miss: creation by functions that were not recorded, such as those of a library that is linked without symbols.

use std::collections::BTreeSet;

use brownout_libraries::Purpose;
use brownout_trace::{Definitions, Event, EventKind, FunctionId, ProcessId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::failure_point::{PointKind, StackId};

/// Follows the calls that create pools, and counts the failure points inside them.
#[derive(Debug, Default)]
pub struct PoolCreations {
    known: FxHashMap<FunctionId, bool>,
    /// The open calls of each thread, the outermost first.
    open: FxHashMap<(ProcessId, ThreadId), Vec<FunctionId>>,
    left_out: FxHashSet<(PointKind, Option<StackId>)>,
    functions: BTreeSet<String>,
}

impl PoolCreations {
    /// Takes the next call or return.
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let thread = (event.process, event.thread);
        match event.kind {
            EventKind::Call { function, .. } if self.creates(function, definitions) => {
                self.open.entry(thread).or_default().push(function);
            }
            EventKind::Return { function, .. } if self.creates(function, definitions) => {
                if let Some(open) = self.open.get_mut(&thread) {
                    open.pop();
                    if open.is_empty() {
                        self.open.remove(&thread);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether the thread of an event is creating a pool.
    pub fn is_inside(&self, event: &Event<'_>) -> bool {
        self.open.contains_key(&(event.process, event.thread))
    }

    /// Whether the thread of an event is creating a pool. If it is, the failure point before the event is counted.
    pub fn leave_out(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        point: (PointKind, Option<StackId>),
    ) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let open = self.open.get(&(event.process, event.thread));
        let Some(&function) = open.and_then(|open| open.first()) else {
            return false;
        };
        self.left_out.insert(point);
        if let Some(name) = definitions.function(function) {
            self.functions.insert(name.to_owned());
        }
        true
    }

    /// The number of failure points that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out.len() as u64
    }

    /// The functions inside which they were.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(String::as_str)
    }

    fn creates(&mut self, function: FunctionId, definitions: &Definitions) -> bool {
        *self.known.entry(function).or_insert_with(|| {
            let name = definitions.function(function);
            let known = name.and_then(brownout_libraries::function);
            known.is_some_and(|function| function.purpose == Purpose::CreatePool)
        })
    }
}
