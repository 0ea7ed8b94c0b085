//! The search for repairs: candidates are tried until the trace shows none of the findings, then what is not needed is dropped.
//!
//! All repairs are judged together: one may cure the finding of another, or make its fence unnecessary. First each task has its
//! first candidate. As long as the patched trace still shows the finding of a task, the task takes its next candidate. Then each
//! repair that another one follows in its block, with no jump in between, is left out for trial (the reduction of §3.4.2): if nothing
//! comes back, it stays out. What other repairs happen to flush does not count: on other paths they flush something else, or too late.
//! Fences are left out in the same way. The repairs count as minimal only if, at last, a finding comes back without any one of the flushes
//! and fences.

use brownout_fix::{AddedCounts, RepairOperation, RepairRefusal};
use brownout_report::{Finding, FindingId, Severity};

use super::candidates::RepairTask;
use super::planned_repair::PlannedRepair;
use super::trace_proof::{FindingKey, PatchedFindings, TraceProof, key};
use crate::failure::Failure;

/// A task with the repairs that are possible for it.
pub struct TaskSearch {
    /// The number of the finding that the task is a part of.
    finding: usize,
    key: FindingKey,
    id: FindingId,
    /// The function at which the finding is shown.
    function: Option<String>,
    is_pinned: bool,
    options: Vec<PlannedRepair>,
    /// The repair in use.
    at: usize,
    /// Why candidates are impossible, the last of them.
    refusal: Option<RepairRefusal>,
    /// Another repair makes this one unnecessary.
    is_covered: bool,
    is_refused: bool,
    /// Every place costs, so it stays in the function that stores.
    is_settled: bool,
}

/// What the search has found.
pub struct SearchOutcome {
    pub tasks: Vec<TaskSearch>,
    /// Findings that the repairs add: their cost.
    pub added: Vec<Finding>,
    pub counts: AddedCounts,
    /// Without any of the repairs a finding comes back, as far as that was tried.
    pub is_minimal: bool,
}

impl TaskSearch {
    /// `plan` makes the edits of a candidate.
    pub fn new(
        finding: usize,
        task: &RepairTask,
        plan: &dyn Fn(&super::candidates::Candidate) -> Result<PlannedRepair, RepairRefusal>,
    ) -> Self {
        let mut options: Vec<PlannedRepair> = Vec::new();
        let mut refusal = None;
        for candidate in &task.candidates {
            match plan(candidate) {
                Ok(planned) if !options.contains(&planned) => options.push(planned),
                Ok(_) => {}
                // The last candidate is the plainest: what prevents it prevents the others.
                Err(reason) => refusal = Some(reason),
            }
        }
        Self {
            finding,
            key: key(&task.rule, &task.stack),
            id: task.id.clone(),
            function: task
                .stack
                .frames
                .iter()
                .find(|frame| !frame.is_library() && frame.line.is_some())
                .and_then(|frame| frame.function.clone()),
            is_pinned: task.is_pinned,
            is_refused: options.is_empty(),
            options,
            at: 0,
            refusal,
            is_covered: false,
            is_settled: false,
        }
    }

    /// The number of the finding that it is a part of.
    pub fn finding(&self) -> usize {
        self.finding
    }

    /// The repair in use, if there is one.
    pub fn repair(&self) -> Option<&PlannedRepair> {
        let is_used = !self.is_refused && !self.is_covered;
        self.options.get(self.at).filter(|_| is_used)
    }

    /// Why there is no repair.
    pub fn refusal(&self) -> Option<RepairRefusal> {
        let fallback = RepairRefusal::Rule(
            "no flush or fence that can be inserted here makes the finding go away in the trace; the order of the stores \
             themselves may be wrong",
        );
        self.is_refused
            .then(|| self.refusal.clone().unwrap_or(fallback))
    }

    /// Whether it changes what a trace shows: log entries do not.
    fn shows_in_trace(&self) -> bool {
        self.repair()
            .is_none_or(|repair| repair.source.operation != RepairOperation::Log)
    }

    /// Whether one of these findings is at the repaired statement.
    fn is_at_fault(&self, added: &[&Finding]) -> bool {
        let Some(repair) = self.repair() else {
            return false;
        };
        let stacks = added.iter().flat_map(|finding| &finding.stacks);
        let mut frames = stacks.flat_map(|stack| &stack.frames);
        frames.any(|frame| repair.statement.contains(frame))
    }

    /// Takes the next repair at another place, if there is one. At the same place, or inside of it, a repair costs no less. If every place
    /// costs, the repair is made in the function that stores.
    fn move_elsewhere(&mut self) -> bool {
        if self.is_settled {
            return false;
        }
        let now = &self.options[self.at].statement;
        let is_elsewhere = |option: &PlannedRepair| !option.statement.is_within(now);
        let rest = self.options[self.at + 1..].iter();
        if let Some(next) = rest.into_iter().position(is_elsewhere) {
            self.at += next + 1;
            return true;
        }
        self.is_settled = true;
        let is_own = |option: &PlannedRepair| !option.statement.includes_callees;
        let own = self.options.iter().position(is_own);
        match own.filter(|_| !is_own(&self.options[self.at])) {
            Some(own) => {
                self.at = own;
                true
            }
            None => false,
        }
    }

    /// The same repair without its fence, if that was tried, too.
    fn without_fence(&self) -> Option<usize> {
        let now = self.options.get(self.at)?;
        let is_flush = |option: &PlannedRepair| {
            option.statement == now.statement && option.source.operation == RepairOperation::Flush
        };
        let does_both = now.source.operation == RepairOperation::FlushAndFence;
        let before = self.options[..self.at].iter();
        before.clone().position(is_flush).filter(|_| does_both)
    }

    /// Whether a trace still shows the finding, at this store or at another one that is reported with it.
    fn is_shown(&self, shown: &PatchedFindings) -> bool {
        shown.keys.contains(&self.key) || shown.ids.contains(&self.id)
    }

    /// Refuses the task because its finding is about several stores.
    fn refuse_several(&mut self) {
        self.is_refused = true;
        self.refusal = Some(RepairRefusal::Rule(
            "the finding is about several stores of a line, and the repair of one does not cure the others; put them on lines \
             of their own, build and check again",
        ));
    }

    /// Takes the next repair; none is left if this was the last.
    fn advance(&mut self) {
        self.at += 1;
        self.is_refused = self.at >= self.options.len();
    }
}

/// Makes the tasks of a finding that the repair of another one, of this number, has brought to light.
pub type FurtherTasks<'a> = dyn Fn(usize, &Finding) -> Vec<TaskSearch> + 'a;

/// So many times repairs are looked for that the repairs before have made necessary.
const ROUNDS: usize = 3;

/// Finds repairs for the tasks. An optimising compiler can have moved a store behind those that it has to precede; it then belongs to a
/// finding only once the others are repaired. Such a store is repaired as a part of the finding.
pub fn search(
    mut tasks: Vec<TaskSearch>,
    proof: &mut TraceProof<'_>,
    further: &FurtherTasks<'_>,
) -> Result<SearchOutcome, Failure> {
    let mut shown = settle(&mut tasks, proof)?;
    for _ in 0..ROUNDS {
        let more = brought_to_light(&tasks, &shown.added, further);
        if more.is_empty() {
            break;
        }
        let before = tasks.len();
        tasks.extend(more);
        let with = settle(&mut tasks, proof)?;
        // What does not help is not tried further.
        if bugs(&with.added) >= bugs(&shown.added) {
            tasks.truncate(before);
            shown = settle(&mut tasks, proof)?;
            break;
        }
        shown = with;
    }
    if fence_alone(&mut tasks, proof)? {
        shown = proof.judge(&repairs(&tasks))?;
    }
    let was_tried =
        reduce(&mut tasks, proof, &mut shown)? && drop_fences(&mut tasks, proof, &mut shown)?;
    let is_minimal = was_tried && is_each_needed(&tasks, proof)?;
    tasks.sort_by_key(|task| task.finding);
    Ok(SearchOutcome {
        tasks,
        added: shown.added,
        counts: shown.counts,
        is_minimal,
    })
}

fn bugs(findings: &[Finding]) -> usize {
    let bugs = findings.iter();
    bugs.filter(|finding| finding.severity == Severity::Bug)
        .count()
}

/// Tasks for new bugs in the functions of repairs.
fn brought_to_light(
    tasks: &[TaskSearch],
    added: &[Finding],
    further: &FurtherTasks<'_>,
) -> Vec<TaskSearch> {
    let function = |finding: &Finding| finding.primary_frame().and_then(|at| at.function.clone());
    let bugs = added
        .iter()
        .filter(|finding| finding.severity == Severity::Bug && function(finding).is_some());
    let found = bugs.flat_map(|bug| {
        let at = function(bug);
        let mut repaired = tasks.iter().filter(|task| task.repair().is_some());
        let cause = repaired.find(|task| task.function == at);
        cause.map_or_else(Vec::new, |cause| further(cause.finding, bug))
    });
    found.filter(|task| !task.is_refused).collect()
}

/// Tries candidates until the trace shows none of the findings of tasks that are not refused.
fn settle(
    tasks: &mut [TaskSearch],
    proof: &mut TraceProof<'_>,
) -> Result<PatchedFindings, Failure> {
    refuse_together(tasks);
    loop {
        let shown = proof.judge(&repairs(tasks))?;
        let mut changed = false;
        let in_use: Vec<PlannedRepair> = repairs(tasks).into_iter().cloned().collect();
        for task in tasks.iter_mut() {
            if task.is_refused || !task.shows_in_trace() {
                continue;
            }
            let is_there = task.is_shown(&shown);
            // Another store of the same line, which the repair does not reach.
            if is_there && !shown.keys.contains(&task.key) {
                task.refuse_several();
                changed = true;
                continue;
            }
            // Of repairs after one statement, those that repeat what another does are dropped later.
            let is_repeated = |repair: &PlannedRepair| in_use.iter().any(|it| it.is_beside(repair));
            let is_repeated = bugs(&shown.added) == 0 && task.repair().is_some_and(is_repeated);
            let (costs, harm): (Vec<&Finding>, Vec<&Finding>) = shown
                .added
                .iter()
                .partition(|finding| finding.severity == Severity::Performance);
            // A repair that does harm is used only if there is no other.
            let does_harm = task.at + 1 < task.options.len() && task.is_at_fault(&harm);
            if is_there || does_harm {
                task.advance();
                changed = true;
            } else if !is_repeated && task.is_at_fault(&costs) {
                changed |= task.move_elsewhere();
            }
        }
        if !changed {
            return Ok(shown);
        }
        refuse_together(tasks);
    }
}

/// Adds fences where a flush relies on the fence of another repair that is not always executed after it. Returns whether there are any.
fn fence_alone(tasks: &mut [TaskSearch], proof: &mut TraceProof<'_>) -> Result<bool, Failure> {
    let mut changed = false;
    for index in 0..tasks.len() {
        let Some(repair) = tasks[index].repair().cloned() else {
            continue;
        };
        let task = &tasks[index];
        let next = task.options.get(task.at + 1);
        let may_fence = next.is_some_and(|next| next.statement == repair.statement);
        let mut own = repairs(tasks);
        let is_alone = own.len() == 1;
        if repair.source.operation != RepairOperation::Flush || !may_fence || is_alone {
            continue;
        }
        own.retain(|other| **other == repair || other.always_follows(&repair));
        // On a long trace, a fence too many is the cheaper error.
        let is_needed = !proof.may_try_more() || {
            let alone = proof.judge(&own)?;
            alone.keys.contains(&tasks[index].key)
        };
        if is_needed {
            tasks[index].advance();
            changed = true;
        }
    }
    Ok(changed)
}

/// Half a repair of a finding is none: if one of its tasks is refused, so are the others.
fn refuse_together(tasks: &mut [TaskSearch]) {
    let refused: Vec<(usize, Option<RepairRefusal>)> = tasks
        .iter()
        .filter(|task| task.is_refused)
        .map(|task| (task.finding, task.refusal()))
        .collect();
    for task in tasks.iter_mut().filter(|task| !task.is_refused) {
        let culprit = refused.iter().find(|(finding, _)| *finding == task.finding);
        if let Some((_, refusal)) = culprit {
            task.is_refused = true;
            task.refusal.clone_from(refusal);
        }
    }
}

/// Leaves out what is not needed. Returns whether everything was tried.
fn reduce(
    tasks: &mut [TaskSearch],
    proof: &mut TraceProof<'_>,
    shown: &mut PatchedFindings,
) -> Result<bool, Failure> {
    for index in 0..tasks.len() {
        let Some(repair) = tasks[index].repair().cloned() else {
            continue;
        };
        let users: Vec<usize> = (0..tasks.len())
            .filter(|&other| tasks[other].repair() == Some(&repair))
            .collect();
        let is_first = users.first() == Some(&index);
        let is_pinned = users.iter().any(|&user| tasks[user].is_pinned);
        let is_needed = is_pinned || !tasks[index].shows_in_trace();
        let mut followers = repairs(tasks);
        followers.retain(|other| other.always_follows(&repair));
        if !is_first || is_needed || followers.is_empty() {
            continue;
        }
        if !proof.may_try_more() {
            return Ok(false);
        }
        // What another repair flushes by chance in this run must not count.
        let alone = proof.judge(&followers)?;
        if users.iter().any(|&user| tasks[user].is_shown(&alone)) {
            continue;
        }
        users.iter().for_each(|&user| tasks[user].is_covered = true);
        let without = proof.judge(&repairs(tasks))?;
        if shows_any(tasks, &without) || without.added.len() > shown.added.len() {
            users
                .iter()
                .for_each(|&user| tasks[user].is_covered = false);
        } else {
            *shown = without;
        }
    }
    Ok(true)
}

/// Leaves out fences that always follow by another repair. Returns whether everything was tried.
fn drop_fences(
    tasks: &mut [TaskSearch],
    proof: &mut TraceProof<'_>,
    shown: &mut PatchedFindings,
) -> Result<bool, Failure> {
    for index in 0..tasks.len() {
        let Some(repair) = tasks[index].repair().cloned() else {
            continue;
        };
        let users: Vec<usize> = (0..tasks.len())
            .filter(|&other| tasks[other].repair() == Some(&repair))
            .collect();
        let Some(flush) = tasks[index].without_fence().filter(|_| users == [index]) else {
            continue;
        };
        let mut followers = repairs(tasks);
        followers.retain(|other| other.always_follows(&repair));
        let fences = |other: &&PlannedRepair| other.source.operation.fences();
        if tasks[index].is_pinned || !followers.iter().any(fences) {
            continue;
        }
        if !proof.may_try_more() {
            return Ok(false);
        }
        // What other repairs fence by chance in this run must not count.
        let mut alone = followers;
        alone.push(&tasks[index].options[flush]);
        let alone = proof.judge(&alone)?;
        if tasks[index].is_shown(&alone) {
            continue;
        }
        let at = std::mem::replace(&mut tasks[index].at, flush);
        let without = proof.judge(&repairs(tasks))?;
        let comes_back = shows_any(tasks, &without);
        if comes_back || without.added.len() > shown.added.len() {
            tasks[index].at = at;
        } else {
            *shown = without;
        }
    }
    Ok(true)
}

/// Whether a trace shows a finding that repairs are for.
fn shows_any(tasks: &[TaskSearch], shown: &PatchedFindings) -> bool {
    tasks.iter().any(|task| {
        let is_repaired = !task.is_refused && task.shows_in_trace();
        is_repaired && task.is_shown(shown)
    })
}

/// Whether the trace shows a finding again, or a new one, if any flush or fence of the repairs is left out. It does not show what an entry
/// in a log is for, nor always the order that a fence is for.
fn is_each_needed(tasks: &[TaskSearch], proof: &mut TraceProof<'_>) -> Result<bool, Failure> {
    let all = repairs(tasks);
    if all.is_empty() {
        return Ok(true);
    }
    let with_all = proof.judge(&all)?;
    for (index, repair) in all.iter().enumerate() {
        let parts: &[RepairOperation] = match repair.source.operation {
            RepairOperation::FlushAndFence => &[RepairOperation::Flush, RepairOperation::Fence],
            RepairOperation::Flush | RepairOperation::Fence => &[],
            RepairOperation::Log | RepairOperation::Removal => return Ok(false),
        };
        let less = parts.iter().map(|&part| {
            let mut less = (*repair).clone();
            less.source.operation = part;
            Some(less)
        });
        let less: Vec<Option<PlannedRepair>> = match parts.is_empty() {
            true => vec![None],
            false => less.collect(),
        };
        for less in less {
            if !proof.may_try_more() {
                return Ok(false);
            }
            let mut others = all.clone();
            others.remove(index);
            others.extend(&less);
            let without = proof.judge(&others)?;
            let comes_back = shows_any(tasks, &without);
            if !comes_back && without.added.len() <= with_all.added.len() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The repairs in use, each once. Of two for one statement, the one that does more.
pub fn repairs(tasks: &[TaskSearch]) -> Vec<&PlannedRepair> {
    let mut found: Vec<&PlannedRepair> = Vec::new();
    for repair in tasks.iter().filter_map(TaskSearch::repair) {
        let same = found
            .iter()
            .position(|known| known.statement == repair.statement);
        match same {
            Some(at) if repair.source.operation == RepairOperation::FlushAndFence => {
                found[at] = repair
            }
            Some(_) if repair.source.operation != RepairOperation::Log => {}
            _ => found.push(repair),
        }
    }
    found
}
