//! Which repairs are tried for a finding, in which order.
//!
//! A store that is not flushed is repaired in the function that makes it (§3.4.2.2), or at the caller of a function that copies (§3.4.2.4):
//! a flush first, and a flush with a fence if no later fence of the thread suffices. A missing fence goes after the loop around the flush,
//! or after the flush; if a wrapper flushes, at its caller first. Candidates above the function of the deadline (`deadline`) are never
//! tried, nor a loop or call that contains it.
//!
//! Where the order of two stores matters (a pointer and its target, a confirmed `delayed-persist`, data that another thread reads), the
//! fence is needed even if the trace would show none of the findings without it: the later line can be evicted first.

use brownout_fix::{RepairOperation, RepairRefusal, RepairScope};
use brownout_report::{Finding, FindingId, Frame, RuleRepair, Stack, role};

use super::deadline::{Deadline, Deadlines};
use crate::rules;

/// Where and how a repair is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub frame: Frame,
    pub scope: RepairScope,
    pub operation: RepairOperation,
    /// Whether events of functions that the statement calls belong to it.
    pub includes_callees: bool,
    /// The frames from the store to the one that the statement calls, the store first; empty if the statement itself stores.
    pub called: Vec<Frame>,
    /// The callee must store to memory of no particular type.
    pub only_generic: bool,
    /// Where the function gets to the deadline, which the statement or loop must not contain.
    pub before: Vec<Frame>,
}

/// A store or flush of a finding that has to be repaired.
#[derive(Clone, Debug)]
pub struct RepairTask {
    /// The rule and the first stack by which the finding is known in the trace.
    pub rule: String,
    pub stack: Stack,
    /// The id of the finding, which all stores of its source lines share.
    pub id: FindingId,
    pub candidates: Vec<Candidate>,
    /// The operation must not be reduced, although the trace shows no difference.
    pub is_pinned: bool,
}

impl RepairTask {
    /// The same with a fence after each flush, which must not be left out.
    pub fn with_fence(&self) -> Self {
        let mut task = self.clone();
        task.candidates
            .retain(|candidate| candidate.operation != RepairOperation::Flush);
        task.is_pinned = true;
        task
    }
}

/// How findings of a rule are repaired.
pub fn repair_of(rule: &str) -> RuleRepair {
    rules::policy(rule).repair
}

/// Whether findings of a rule are repaired without being named.
pub fn is_repaired(rule: &str) -> bool {
    repair_of(rule).is_automatic()
}

/// Whether findings of a rule are repaired if they are named.
pub fn is_on_request(rule: &str) -> bool {
    repair_of(rule).is_on_request()
}

/// Why findings of a rule are not repaired, if they are not.
pub fn refusal(rule: &str) -> Option<&'static str> {
    match repair_of(rule) {
        RuleRepair::FlushOnRequest(why) | RuleRepair::ByHand(why) => Some(why),
        RuleRepair::Removal { .. } => Some(
            "removing what looks redundant in one run can harm another; --performance suggests removals",
        ),
        RuleRepair::None => Some(
            "there is no automatic repair for this rule; `brownout explain` says how to fix its findings",
        ),
        _ => None,
    }
}

/// The order of the places of a repair among the frames of a stack, if it is known: the best first.
pub type LevelOrder<'a> = dyn Fn(&[&Frame]) -> Option<Vec<usize>> + 'a;

/// What decides where repairs can be.
#[derive(Clone, Copy)]
pub struct TaskBounds<'a> {
    pub deadlines: &'a Deadlines,
    pub levels: &'a LevelOrder<'a>,
}

/// The functions on the way to the stores of a finding, which callers that are in time call.
pub fn called_functions(finding: &Finding, deadlines: &Deadlines) -> Vec<String> {
    let stacks = finding.stacks.iter();
    let names = stacks.flat_map(|stack| {
        let frames = frames_in_time(stack, &deadlines.of_stack(stack)).unwrap_or_default();
        let called = frames.len().saturating_sub(1);
        let names = frames[..called]
            .iter()
            .filter(|(_, frame)| !frame.inlined)
            .filter_map(|(_, frame)| frame.function.clone());
        names.collect::<Vec<String>>()
    });
    names.collect()
}

/// What has to be repaired for a finding of the trace.
pub fn tasks(
    finding: &Finding,
    is_confirmed: bool,
    bounds: &TaskBounds<'_>,
) -> Result<Vec<RepairTask>, RepairRefusal> {
    let deadlines = bounds.deadlines;
    let first = finding.stacks.first().ok_or(RepairRefusal::NoSource)?;
    let task = |stack: &Stack, operations: &[RepairOperation], is_pinned| {
        let deadline = deadlines.of_stack(stack);
        let candidates = stores(stack, operations, &deadline, bounds.levels)?;
        Ok(RepairTask {
            rule: finding.rule.clone(),
            stack: first.clone(),
            id: finding.id.clone(),
            candidates,
            is_pinned,
        })
    };
    let both = [RepairOperation::FlushAndFence];
    let least = [RepairOperation::Flush, RepairOperation::FlushAndFence];
    match repair_of(&finding.rule) {
        RuleRepair::Flush | RuleRepair::FlushOnRequest(_) => Ok(vec![task(first, &least, false)?]),
        RuleRepair::FlushBeforeLaterStore if is_confirmed => Ok(vec![task(first, &both, true)?]),
        RuleRepair::FlushBeforeLaterStore => Ok(vec![task(first, &least, false)?]),
        RuleRepair::FlushAndFence => Ok(vec![task(first, &both, true)?]),
        RuleRepair::LogEntry => Ok(vec![task(first, &[RepairOperation::Log], true)?]),
        RuleRepair::FlushTarget => targets(finding, &task),
        RuleRepair::Fence { .. } => {
            let candidates = fences(first, &deadlines.of_stack(first))?;
            Ok(vec![RepairTask {
                rule: finding.rule.clone(),
                stack: first.clone(),
                id: finding.id.clone(),
                candidates,
                is_pinned: false,
            }])
        }
        RuleRepair::Removal { .. } | RuleRepair::ByHand(_) | RuleRepair::None => {
            let why = refusal(&finding.rule).unwrap_or("there is no automatic repair");
            Err(RepairRefusal::Rule(why))
        }
    }
}

/// Makes the task of one stack of a finding: with these operations, and whether it is pinned.
type TaskOfStack<'a> =
    dyn Fn(&Stack, &[RepairOperation], bool) -> Result<RepairTask, RepairRefusal> + 'a;

/// The stores into the target of a pointer: all are flushed, and a fence follows the last one.
fn targets(finding: &Finding, task: &TaskOfStack<'_>) -> Result<Vec<RepairTask>, RepairRefusal> {
    let events = finding.evidence.events.iter().copied();
    let stores = finding
        .stacks
        .iter()
        .zip(events.chain(std::iter::repeat(0)));
    let stores = stores.filter(|(stack, _)| stack.role == role::STORE);
    let mut stores: Vec<(&Stack, u64)> = stores.collect();
    stores.sort_by_key(|(_, event)| *event);
    let last = stores.len().saturating_sub(1);
    let tasks = stores.iter().enumerate().map(|(index, (stack, _))| {
        if index == last {
            task(stack, &[RepairOperation::FlushAndFence], true)
        } else {
            task(stack, &[RepairOperation::Flush], false)
        }
    });
    tasks.collect()
}

/// The frames that a repair can be in: of the program, with a line, and in time; innermost first. One that stores through a library is
/// always in time.
fn frames_in_time<'s>(
    stack: &'s Stack,
    deadline: &Deadline,
) -> Result<Vec<(usize, &'s Frame)>, RepairRefusal> {
    let frames = stack.frames.iter().enumerate();
    let frames = frames.filter(|(_, frame)| !frame.is_library() && frame.line.is_some());
    let mut frames: Vec<(usize, &Frame)> = frames.collect();
    let (innermost, _) = *frames.first().ok_or(RepairRefusal::NoSource)?;
    frames.retain(|(index, _)| *index == innermost || deadline.permits(*index));
    Ok(frames)
}

/// A store is repaired at the place with the best alias score. Without scores it is repaired where it is made, or, if a wrapper or a
/// function that is given bytes makes it, at the caller, if that can name the object. A caller flushes what it has passed, or calls a
/// copy of the function that flushes.
fn stores(
    stack: &Stack,
    operations: &[RepairOperation],
    deadline: &Deadline,
    order: &LevelOrder<'_>,
) -> Result<Vec<Candidate>, RepairRefusal> {
    let frames = frames_in_time(stack, deadline)?;
    let only: Vec<&Frame> = frames.iter().map(|(_, frame)| *frame).collect();
    let outermost = frames.iter().position(|(_, frame)| !frame.wrapper);
    let outermost = outermost.unwrap_or(0);
    let scored = order(&only);
    let is_scored = scored.is_some();
    // The caller of a wrapper, or of a function that may turn out to serve any memory, and then the function itself.
    let caller = outermost.max(1).min(frames.len().saturating_sub(1));
    let mut levels = match (caller, scored) {
        (0, _) => vec![0],
        (_, None) => vec![caller, 0],
        (_, Some(levels)) => levels,
    };
    if is_scored && outermost > 0 {
        levels.retain(|level| *level != outermost);
        levels.insert(0, outermost);
    }
    let logs = operations.contains(&RepairOperation::Log);
    let mut candidates = Vec::new();
    for level in levels {
        let (index, frame) = frames[level];
        let scopes: &[RepairScope] = match level {
            0 => &[RepairScope::Loop, RepairScope::Statement],
            _ if is_scored && !logs => {
                &[RepairScope::Loop, RepairScope::Statement, RepairScope::Copy]
            }
            _ => &[RepairScope::Loop, RepairScope::Statement],
        };
        for &scope in scopes {
            candidates.extend(operations.iter().map(|&operation| Candidate {
                frame: frame.clone(),
                scope,
                operation,
                includes_callees: level > 0,
                only_generic: outermost == 0 && !is_scored,
                called: only[..level].iter().map(|frame| (*frame).clone()).collect(),
                before: deadline.within(index).to_vec(),
            }));
        }
    }
    // An entry in a log precedes each store.
    candidates.retain(|candidate| {
        candidate.operation != RepairOperation::Log || candidate.scope == RepairScope::Statement
    });
    Ok(candidates)
}

fn fences(stack: &Stack, deadline: &Deadline) -> Result<Vec<Candidate>, RepairRefusal> {
    let frames = frames_in_time(stack, deadline)?;
    let outermost = frames.iter().position(|(_, frame)| !frame.wrapper);
    let last = outermost.unwrap_or(frames.len().saturating_sub(1));
    let mut candidates = Vec::new();
    // The caller of wrappers first, the flush itself last.
    for (index, frame) in frames[..=last].iter().rev() {
        for scope in [RepairScope::Loop, RepairScope::Statement] {
            candidates.push(Candidate {
                frame: (*frame).clone(),
                scope,
                operation: RepairOperation::Fence,
                includes_callees: true,
                called: Vec::new(),
                only_generic: false,
                before: deadline.within(*index).to_vec(),
            });
        }
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32, wrapper: bool) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some("x.c".into()),
            line: Some(line),
            module: "/program".into(),
            wrapper,
            ..Frame::default()
        }
    }

    fn functions(candidates: &[Candidate]) -> Vec<&str> {
        let names = candidates
            .iter()
            .filter_map(|candidate| candidate.frame.function.as_deref());
        let mut names: Vec<&str> = names.collect();
        names.dedup();
        names
    }

    #[test]
    fn no_candidate_is_above_the_function_of_the_deadline() {
        let stack = Stack {
            role: role::STORE.into(),
            frames: vec![
                frame("copy", 2, true),
                frame("set", 6, false),
                frame("main", 9, false),
            ],
        };
        let both = [RepairOperation::FlushAndFence];
        let late = stores(&stack, &both, &Deadline::default(), &|_| None).unwrap();
        assert_eq!(functions(&late), ["set", "copy"]);
        let inside = Deadline {
            level: Some(0),
            at: vec![frame("copy", 3, true)],
        };
        let early = stores(&stack, &both, &inside, &|_| None).unwrap();
        assert_eq!(functions(&early), ["copy"]);
        assert_eq!(early[0].before, [frame("copy", 3, true)]);
        let fenced = fences(&stack, &inside).unwrap();
        assert_eq!(functions(&fenced), ["copy"]);
    }

    #[test]
    fn scores_order_the_places_and_permit_copies() {
        let stack = Stack {
            role: role::STORE.into(),
            frames: vec![
                frame("update", 2, false),
                frame("modify", 6, false),
                frame("main", 9, false),
            ],
        };
        let flush = [RepairOperation::Flush];
        let order = |_: &[&Frame]| Some(vec![2, 0, 1]);
        let found = stores(&stack, &flush, &Deadline::default(), &order).unwrap();
        assert_eq!(functions(&found), ["main", "update", "modify"]);
        let copies = found
            .iter()
            .filter(|candidate| candidate.scope == RepairScope::Copy);
        assert_eq!(
            copies.map(|copy| copy.called.len()).collect::<Vec<_>>(),
            [2, 1]
        );
    }
}
