//! The places in the source that cause most events.
//!
//! Events are counted by their full stack and put together by what a reader can tell apart: the
//! innermost source line, and, where that lies in a caller because a library has no debug information,
//! the function of the library.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use brownout_symbols::SourceFrame;
use brownout_trace::{Definitions, Event, EventClass, EventCounts};

use crate::stacks::{PrimaryFrame, StackId, StackTable};

/// Only so many of the busiest stacks are symbolised: the rest cannot change the first few places,
/// and looking them all up can take longer than reading the trace.
const SYMBOLISED_STACKS: usize = 5_000;

/// Events counted by stack.
#[derive(Default)]
pub struct SiteCounts {
    /// With the stack of each, at the stack's number.
    by_stack: Vec<Option<(StackId, EventCounts)>>,
}

/// A place in the source and what happened there.
pub struct BusySite {
    pub told: Arc<PrimaryFrame>,
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

    /// The `top` busiest places, busiest first.
    pub fn busiest(self, top: usize, stacks: &mut StackTable) -> Vec<BusySite> {
        let mut by_stack: Vec<_> = self.by_stack.into_iter().flatten().collect();
        by_stack.sort_by_key(|(_, counts)| Reverse(counts.total()));
        by_stack.truncate(SYMBOLISED_STACKS.max(top));
        let mut sites: Vec<BusySite> = Vec::new();
        let mut known: HashMap<(SourceFrame, Option<String>), usize> = HashMap::new();
        for (stack, counts) in by_stack {
            let told = stacks.primary_frame(stack);
            // Several instructions of a line are one place.
            let mut place = told.frame.clone();
            if place.line.is_some() {
                place.offset = 0;
                place.column = None;
            }
            let number = *known
                .entry((place, told.through.clone()))
                .or_insert_with(|| {
                    sites.push(BusySite {
                        told,
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

/// Whether a kind of event is something a line of source does to memory or files.
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
