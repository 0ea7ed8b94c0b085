//! Executions of repaired statements in a trace.
//!
//! The events of one execution of a statement are consecutive events of a thread; the execution ends before the thread's next event
//! elsewhere, or when an instruction of the statement itself stores or flushes a second time.
//!
//! Two executions of a statement whose stores are all made by a library are taken for one if no other event of the thread lies
//! between them; their end then comes later than it would.

use brownout_trace::{Definitions, Event, EventKind, FenceKind, ProcessId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) const LINE: u64 = 64;

/// Which of the repaired statements an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The number of the repair.
    pub repair: usize,
    /// The statement's own instruction caused the event, not a library on its behalf.
    pub is_direct: bool,
    /// The repair flushes what this event stores.
    pub is_flushed: bool,
    /// How many calls lie between the function with the statement, and all that is inlined into it, and the event.
    pub calls: usize,
}

/// Decides to which repaired statements events belong.
pub trait RepairedStatements {
    fn memberships(&mut self, event: &Event<'_>, definitions: &Definitions) -> Vec<Membership>;
}

/// An execution of a repaired statement.
#[derive(Debug)]
pub struct StatementExecution {
    pub repair: usize,
    /// The last event of the execution. Only its position counts, not its kind.
    pub last: Event<'static>,
    /// The last store, flush or fence of the execution, and how many calls lie between it and the statement.
    pub last_operation: Option<(Event<'static>, usize)>,
    /// The cache lines to flush, in the order of the stores.
    pub lines: Vec<u64>,
    known_lines: FxHashSet<u64>,
    /// Instructions of the statement itself that have stored or flushed.
    done: FxHashSet<u64>,
}

/// The executions that have not ended, of all threads.
#[derive(Default)]
pub struct OpenExecutions(FxHashMap<(ProcessId, ThreadId), Vec<StatementExecution>>);

impl OpenExecutions {
    /// The executions that an event ends because it lies behind them.
    pub fn ended_by(
        &mut self,
        event: &Event<'_>,
        memberships: &[Membership],
    ) -> Vec<StatementExecution> {
        let Some(executions) = self.0.get_mut(&(event.process, event.thread)) else {
            return Vec::new();
        };
        let (ended, rest) = std::mem::take(executions)
            .into_iter()
            .partition::<Vec<_>, _>(|execution| execution.is_over(event, memberships));
        *executions = rest;
        ended
    }

    /// Adds an event to the executions that it belongs to.
    pub fn note(&mut self, event: &Event<'_>, memberships: &[Membership]) {
        if memberships.is_empty() {
            return;
        }
        let executions = self.0.entry((event.process, event.thread)).or_default();
        for membership in memberships {
            note(executions, event, membership);
        }
    }
}

fn note(executions: &mut Vec<StatementExecution>, event: &Event<'_>, membership: &Membership) {
    let repair = membership.repair;
    let at = executions
        .iter()
        .position(|execution| execution.repair == repair);
    let at = at.unwrap_or_else(|| {
        executions.push(StatementExecution {
            repair,
            last: position(event),
            last_operation: None,
            lines: Vec::new(),
            known_lines: FxHashSet::default(),
            done: FxHashSet::default(),
        });
        executions.len() - 1
    });
    let execution = &mut executions[at];
    execution.last = position(event);
    if let EventKind::Store { .. } | EventKind::Flush { .. } | EventKind::Fence { .. } = event.kind
    {
        execution.last_operation = Some((position(event), membership.calls));
    }
    if membership.is_direct && is_step(event) {
        execution.done.insert(event.pc.0);
    }
    if let EventKind::Store { addr, bytes, .. } = event.kind
        && membership.is_flushed
    {
        let last = addr.0 + (bytes.len() as u64).max(1) - 1;
        for line in addr.0 / LINE..=last / LINE {
            if execution.known_lines.insert(line) {
                execution.lines.push(line);
            }
        }
    }
}

/// Whether an instruction does this once in each execution of its statement.
fn is_step(event: &Event<'_>) -> bool {
    matches!(
        event.kind,
        EventKind::Store { string: false, .. } | EventKind::Flush { .. }
    )
}

/// The event without what it borrows.
fn position(event: &Event<'_>) -> Event<'static> {
    Event {
        index: event.index,
        process: event.process,
        thread: event.thread,
        pc: event.pc,
        context: event.context,
        kind: EventKind::Fence {
            kind: FenceKind::Sfence,
        },
    }
}

impl StatementExecution {
    fn is_over(&self, event: &Event<'_>, memberships: &[Membership]) -> bool {
        let member = memberships
            .iter()
            .find(|member| member.repair == self.repair);
        let Some(member) = member else { return true };
        member.is_direct && is_step(event) && self.done.contains(&event.pc.0)
    }
}
