//! Which instructions of the running program stand for the statements that repairs change.
//!
//! The recorded trace says which instructions stored for each statement, and where each of its executions ended: behind its last store or
//! flush, at the return from the call that made it, or, if the statement is a loop, before the thread's next event elsewhere. The same
//! instructions do that in another run of the program.
//!
//! Can miss: instructions that only another run executes, such as another variant of `memcpy` for another length.

use std::path::Path;

use brownout_engine::{
    CodeLocation, InstructionRole, PatchOperations, PatchPlan, PatchedInstruction,
};
use brownout_fix::{OpenExecutions, RepairedStatements};
use brownout_trace::{Definitions, Event, EventKind, TraceReader};
use rustc_hash::FxHashSet;

use super::planned_repair::PlannedRepair;
use super::repaired_statements::{StatementPlace, StatementsInStacks};
use crate::failure::Failure;
use crate::race_confirmation::{code_location, code_stack};

/// The plan by which a running program does what these repairs add, in the order of the repairs.
pub fn patch_plan(
    trace: &Path,
    repairs: &[&PlannedRepair],
    syncs: bool,
) -> Result<PatchPlan, Failure> {
    let failed = |error| Failure::trace(trace, error);
    let mut reader = TraceReader::open(trace).map_err(failed)?;
    let statements: Vec<StatementPlace> = repairs
        .iter()
        .map(|repair| repair.statement.clone())
        .collect();
    let directory = reader.header().cwd.clone();
    let mut matcher = StatementsInStacks::new(&statements, &directory);
    let mut plan = PlanBuilder {
        patches: repairs
            .iter()
            .map(|repair| operations(repair, syncs))
            .collect(),
        sites: Vec::new(),
        known: FxHashSet::default(),
        directory: &directory,
    };
    let mut open = OpenExecutions::default();
    while let Some((event, definitions)) = reader.next_defined().map_err(failed)? {
        let memberships = matcher.memberships(&event, definitions);
        for ended in open.ended_by(&event, &memberships) {
            match (plan.patches[ended.repair].is_loop, ended.last_operation) {
                (true, _) => plan.add_before(ended.repair, &event, definitions),
                (false, Some((last, calls))) => {
                    plan.add_end(ended.repair, &last, calls, definitions)
                }
                (false, None) => {}
            }
        }
        for member in &memberships {
            let is_operation = matches!(
                event.kind,
                EventKind::Store { .. } | EventKind::Flush { .. } | EventKind::Fence { .. }
            );
            if is_operation && plan.patches[member.repair].is_loop {
                plan.add_end(member.repair, &event, member.calls, definitions);
            }
            if let EventKind::Store { .. } = event.kind
                && member.is_flushed
            {
                plan.add_store(member.repair, &event, member.calls, definitions);
            }
        }
        open.note(&event, &memberships);
    }
    Ok(PatchPlan {
        patches: plan.patches,
        sites: plan.sites,
    })
}

fn operations(repair: &PlannedRepair, syncs: bool) -> PatchOperations {
    let operation = repair.source.operation;
    PatchOperations {
        flush: operation.flushes() && !syncs,
        fence: operation.fences() && !syncs,
        sync: syncs,
        is_loop: repair.statement.is_loop,
    }
}

struct PlanBuilder<'a> {
    patches: Vec<PatchOperations>,
    sites: Vec<PatchedInstruction>,
    known: FxHashSet<PatchedInstruction>,
    /// The directory the target was started in.
    directory: &'a Path,
}

impl PlanBuilder<'_> {
    /// The statement stores what is flushed.
    fn add_store(
        &mut self,
        patch: usize,
        event: &Event<'_>,
        calls: usize,
        definitions: &Definitions,
    ) {
        let at = code_location(event.process, event.pc, definitions);
        if calls == 0 {
            self.add(patch, at, InstructionRole::Store);
        } else {
            self.add(patch, at, InstructionRole::StoreInCall);
            // Which call the thread is in is known by where that returns to.
            self.add_end(patch, event, calls, definitions);
        }
    }

    /// The statement ends with this event.
    fn add_end(
        &mut self,
        patch: usize,
        event: &Event<'_>,
        calls: usize,
        definitions: &Definitions,
    ) {
        let mut stack = code_stack(event, definitions);
        let role = match calls {
            0 => InstructionRole::BehindIt,
            _ => InstructionRole::ReturnsHere,
        };
        let at = (calls < stack.len()).then(|| stack.swap_remove(calls));
        self.add(patch, at, role);
    }

    /// The statement, a loop, has ended before this event.
    fn add_before(&mut self, patch: usize, event: &Event<'_>, definitions: &Definitions) {
        let at = code_location(event.process, event.pc, definitions);
        self.add(patch, at, InstructionRole::BeforeIt);
    }

    fn add(&mut self, patch: usize, at: Option<CodeLocation>, role: InstructionRole) {
        let Some(CodeLocation { path, offset }) = at else {
            return;
        };
        let at = CodeLocation {
            path: self.directory.join(path),
            offset,
        };
        let site = PatchedInstruction { at, patch, role };
        if self.known.insert(site.clone()) {
            self.sites.push(site);
        }
    }
}
