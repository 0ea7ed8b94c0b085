//! The source lines that cause the most events.
//!
//! Events are counted by their full stack. Stacks are then grouped by their innermost source line. If that line is in a
//! caller of a library without debug information, they are also grouped by the library function.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use brownout_symbols::SourceFrame;
use brownout_trace::{Definitions, Event, EventClass, EventCounts};

use crate::stacks::{PrimaryFrame, StackId, StackTable};

/// Only this many of the busiest stacks are symbolised. The others hardly affect the first few lines, and symbolising all
/// of them can take longer than reading the trace.
const SYMBOLISED_STACKS: usize = 5_000;

/// Events counted by stack.
#[derive(Default)]
pub struct SiteCounts {
    /// Each stack with its counts, at the stack's index.
    by_stack: Vec<Option<(StackId, EventCounts)>>,
}

/// A source line and its counts.
pub struct BusySite {
    pub primary: Arc<PrimaryFrame>,
    pub counts: EventCounts,
}

impl SiteCounts {
    pub fn observe(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        stacks: &mut StackTable,
    ) {
        let class = event.kind.class();
        if is_access(class)
            && let Some(stack) = stacks.stack_of(event, definitions)
        {
            if self.by_stack.len() <= stack.index() {
                self.by_stack.resize_with(stack.index() + 1, || None);
            }
            self.by_stack[stack.index()]
                .get_or_insert_with(|| (stack, EventCounts::default()))
                .1
                .add(class);
        }
    }

    /// The `top` busiest lines, busiest first.
    pub fn busiest(self, top: usize, stacks: &mut StackTable) -> Vec<BusySite> {
        let mut by_stack: Vec<_> = self.by_stack.into_iter().flatten().collect();
        by_stack.sort_by_key(|(_, counts)| Reverse(counts.total()));
        by_stack.truncate(SYMBOLISED_STACKS.max(top));
        let mut sites: Vec<BusySite> = Vec::new();
        let mut known: HashMap<(SourceFrame, Option<String>), usize> = HashMap::new();
        for (stack, counts) in by_stack {
            let primary = stacks.primary_frame(stack);
            // All instructions of a line are counted together.
            let mut source = primary.frame.clone();
            if source.line.is_some() {
                source.offset = 0;
                source.column = None;
            }
            let number = *known
                .entry((source, primary.through.clone()))
                .or_insert_with(|| {
                    sites.push(BusySite {
                        primary,
                        counts: EventCounts::default(),
                    });
                    sites.len() - 1
                });
            sites[number].counts.merge(&counts);
        }
        sites.sort_by_key(|site| Reverse(site.counts.total()));
        sites.truncate(top);
        sites
    }
}

/// Whether a source line causes events of this class by accessing memory or files.
fn is_access(class: EventClass) -> bool {
    matches!(
        class,
        EventClass::Store
            | EventClass::Load
            | EventClass::Flush
            | EventClass::Fence
            | EventClass::KernelWrite
            | EventClass::FileWrite
            | EventClass::FileResize
            | EventClass::Sync
    )
}
