//! Which repairs are tried for a finding, in which order.
//!
//! A store that is not flushed is repaired in the function that makes it (§3.4.2.2), or at the caller of a function that copies (§3.4.2.4): a flush first, and a flush with a fence if no later
//! fence of the thread suffices. A missing fence goes after the loop around the flush, or after the flush; if a wrapper flushes, at its
//! caller first. Candidates above the function of the deadline are never tried: what is reported is late there already.
//!
//! Where the order of two stores matters (a pointer and its target, a confirmed `delayed-persist`, data that another thread reads), the
//! fence is needed even if the trace would show none of the findings without it: the later line can be evicted first.

use brownout_fix::{RepairOperation, RepairRefusal, RepairScope};
use brownout_report::{Finding, FindingId, Frame, Stack, role};

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

/// The rules whose findings are repaired.
pub const REPAIRED: [&str; 7] = [
    "missing-flush",
    "missing-fence",
    "delayed-persist",
    "accidental-fence",
    "unpersisted-target",
    "tx-unlogged-store",
    "persistency-race",
];

/// The rule whose findings are repaired if they are named.
pub const ON_REQUEST: &str = "transient-data";

/// Why findings of a rule are not repaired, if they are not.
pub fn refusal(rule: &str) -> Option<&'static str> {
    let is_repaired = REPAIRED.contains(&rule);
    let reason = match rule {
        _ if is_repaired => return None,
        ON_REQUEST => {
            "nothing in the run says that these bytes have to survive; name the finding or the rule to have them flushed: \
             `brownout fix DIR transient-data`"
        }
        "recovery-failed" | "recovery-crashed" | "recovery-hung" | "unpersisted-read" => {
            "flushes and fences cannot change the order of stores or join two steps into one; change the order of the two \
             stores that it names, or make them one update (a log, a transaction, one word)"
        }
        "dirty-overwrite" => {
            "the bytes were stored twice before they were persistent, which can be meant so; persist the first store by hand \
             if recovery needs it"
        }
        "redundant-flush" | "redundant-fence" | "flush-volatile" | "flush-of-nt-store"
        | "tx-redundant-add" => {
            "removing what looks redundant in one run can harm another; remove it by hand if no path needs it"
        }
        "flush-covers-many" | "fence-orders-many" => {
            "the finding describes a pattern, not a missing operation; flush or fence each object by hand if their order matters"
        }
        "tx-not-ended" => {
            "where the transaction should end is a decision of its author; end it on every path"
        }
        _ => {
            "there is no automatic repair for this rule; `brownout explain` says how to fix its findings"
        }
    };
    Some(reason)
}

/// What has to be repaired for a finding of the trace.
pub fn tasks(finding: &Finding, is_confirmed: bool) -> Result<Vec<RepairTask>, RepairRefusal> {
    let first = finding.stacks.first().ok_or(RepairRefusal::NoSource)?;
    let task = |stack: &Stack, operations: &[RepairOperation], is_pinned| {
        let candidates = stores(stack, operations)?;
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
    match finding.rule.as_str() {
        "missing-flush" | ON_REQUEST => Ok(vec![task(first, &least, false)?]),
        "delayed-persist" if is_confirmed => Ok(vec![task(first, &both, true)?]),
        "delayed-persist" => Ok(vec![task(first, &least, false)?]),
        "persistency-race" => Ok(vec![task(first, &both, true)?]),
        "tx-unlogged-store" => Ok(vec![task(first, &[RepairOperation::Log], true)?]),
        "unpersisted-target" => targets(finding, &task),
        "missing-fence" | "accidental-fence" => {
            let candidates = fences(first)?;
            Ok(vec![RepairTask {
                rule: finding.rule.clone(),
                stack: first.clone(),
                id: finding.id.clone(),
                candidates,
                is_pinned: true,
            }])
        }
        other => Err(RepairRefusal::Rule(
            refusal(other).unwrap_or("there is no automatic repair"),
        )),
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

/// The frames that a repair can be in: of the program, with a line, innermost first.
fn program_frames(stack: &Stack) -> Vec<(usize, &Frame)> {
    let frames = stack.frames.iter().enumerate();
    let frames = frames.filter(|(_, frame)| !frame.is_library() && frame.line.is_some());
    frames.collect()
}

/// A store is repaired where it is made. One that a wrapper, or a function that is given bytes, makes for its callers is repaired at the
/// caller, if that can name the object: the function may also serve volatile memory.
fn stores(stack: &Stack, operations: &[RepairOperation]) -> Result<Vec<Candidate>, RepairRefusal> {
    let frames: Vec<&Frame> = program_frames(stack)
        .into_iter()
        .map(|(_, frame)| frame)
        .collect();
    let outermost = frames.iter().position(|frame| !frame.wrapper).unwrap_or(0);
    // The caller of a wrapper, or of a function that may turn out to serve any memory, and then the function itself.
    let caller = outermost.max(1).min(frames.len().saturating_sub(1));
    let levels = match caller {
        0 => vec![0],
        _ => vec![caller, 0],
    };
    let mut candidates = Vec::new();
    for level in levels {
        let frame = *frames.get(level).ok_or(RepairRefusal::NoSource)?;
        candidates.extend(operations.iter().map(|&operation| {
            Candidate {
                frame: frame.clone(),
                scope: RepairScope::Statement,
                operation,
                includes_callees: level > 0,
                only_generic: outermost == 0,
                called: frames[..level]
                    .iter()
                    .map(|frame| (*frame).clone())
                    .collect(),
            }
        }));
    }
    Ok(candidates)
}

fn fences(stack: &Stack) -> Result<Vec<Candidate>, RepairRefusal> {
    let frames = program_frames(stack);
    let outermost = frames.iter().position(|(_, frame)| !frame.wrapper);
    let last = outermost.unwrap_or(frames.len().saturating_sub(1));
    let within = frames.get(..=last).ok_or(RepairRefusal::NoSource)?;
    let mut candidates = Vec::new();
    // The caller of wrappers first, the flush itself last.
    for (_, frame) in within.iter().rev() {
        for scope in [RepairScope::Loop, RepairScope::Statement] {
            candidates.push(Candidate {
                frame: (*frame).clone(),
                scope,
                operation: RepairOperation::Fence,
                includes_callees: true,
                called: Vec::new(),
                only_generic: false,
            });
        }
    }
    Ok(candidates)
}
