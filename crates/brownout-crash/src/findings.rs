//! From groups of failures to findings: one cause is one finding.
//!
//! Several groups are one finding if narrowing finds the same stores for them: lines that are reached by the same calls, or after
//! which recovery fails in the same way, or if their crashes have lost stores of [one update](crate::one_update). Two mistakes may use
//! one function that stores. A recovery that fails and then passes
//! on the same image is a warning: it does not show what the image does to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use brownout_report::{Evidence, Finding, Frame, Severity, Stack, primary_frame, role};

use crate::cause::{Cause, Culprit};
use crate::crash_point::{Choice, CrashPoint, Interruption};
use crate::explained_read::Explanation;
use crate::failure_point::PointKind;
use crate::group::Group;
use crate::group_split::split_if_known;
use crate::one_update::is_one_update;
use crate::rules::rule_of;
use crate::token::Token;
use crate::trial::{Failure, InterruptedRecovery, Trial};
use crate::update_behaviour::open_order;

/// The source line that a stack points at.
pub fn line_of(stack: &[Frame]) -> String {
    let Some(frame) = primary_frame(stack).and_then(|at| stack.get(at)) else {
        return String::new();
    };
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => match &frame.function {
            Some(function) => format!("{}:{function}+{:#x}", frame.module, frame.offset),
            None => format!("{}+{:#x}", frame.module, frame.offset),
        },
    }
}

/// Turns groups, their causes and explanations into findings. `token` gives the token of a trial.
pub fn findings(
    groups: Vec<Group>,
    causes: &[Cause],
    explanations: &[Explanation],
    token: impl Fn(&Trial) -> Token,
) -> Vec<Finding> {
    let explanations: HashMap<&CrashPoint, &Explanation> = explanations
        .iter()
        .map(|explanation| (&explanation.explains, explanation))
        .collect();
    merged(groups, causes)
        .iter()
        .filter_map(|(group, cause)| {
            let first = group.first();
            let mut finding = finding(group, *cause, token(first))?;
            if let Some(explanation) = explanations.get(&first.point) {
                explanation.add_to(&mut finding);
            }
            Some(finding)
        })
        .collect()
}

/// The trial that represents each finding.
pub fn representatives(groups: Vec<Group>, causes: &[Cause]) -> Vec<Trial> {
    let merged = merged(groups, causes).into_iter();
    merged.map(|(group, _)| group.first().clone()).collect()
}

/// The groups of each finding as one, with its cause.
fn merged(groups: Vec<Group>, causes: &[Cause]) -> Vec<(Group, Option<&Cause>)> {
    let groups = split_if_known(groups, causes);
    let causes: HashMap<&CrashPoint, &Cause> = causes
        .iter()
        .map(|cause| (&cause.cause_of, cause))
        .collect();
    let mut merged: Vec<(Group, Option<&Cause>)> = Vec::new();
    let mut by_stores: HashMap<String, Vec<(CauseIdentity, usize)>> = HashMap::new();
    for mut group in groups {
        // The failures of a group may have been searched in different parts of a test, or at different times.
        group.put_first(|trial| {
            let cause = causes.get(&trial.point);
            cause.is_some_and(|cause| cause.names_stores())
        });
        let cause = causes.get(&group.first().point).copied();
        let identity = cause.and_then(|cause| CauseIdentity::of(&group, cause));
        let Some(identity) = identity else {
            merged.push((group, cause));
            continue;
        };
        let of_one_update = || {
            let cause = cause?;
            merged.iter().position(|(known, other)| {
                let is_alike = known.signature() == group.signature();
                is_alike && other.is_some_and(|other| is_one_update(other, cause))
            })
        };
        let same_stores = by_stores.entry(identity.stores.clone()).or_default();
        let mut known = same_stores.iter();
        let known = known.find(|(known, _)| known.is_same(&identity));
        let known = known.map(|(_, number)| *number).or_else(of_one_update);
        let number = known.unwrap_or(merged.len());
        same_stores.push((identity, number));
        match merged.get_mut(number) {
            Some((known, _)) => known.failures.extend(group.failures),
            None => merged.push((group, cause)),
        }
    }
    merged
}

/// What distinguishes causes.
struct CauseIdentity {
    /// The lines of the stores, and how recovery ends.
    stores: String,
    /// The lines of all calls that lead to the stores.
    calls: String,
    /// How recovery fails.
    symptom: String,
}

impl CauseIdentity {
    /// `None` if no stores are known.
    fn of(group: &Group, cause: &Cause) -> Option<Self> {
        let first = group.first();
        let failure = first.failure.as_ref()?;
        let may_be_lost = !first.point.is_in_program_order();
        let is_lost = may_be_lost && !cause.absent.is_empty();
        if cause.present.is_empty() && !is_lost {
            return None;
        }
        let each = |name: fn(&[Frame]) -> String| -> String {
            let names = |culprits: &[Culprit]| -> String {
                let names = culprits.iter().map(|culprit| name(&culprit.stack));
                names.collect::<Vec<String>>().join("|")
            };
            format!("{}||{}", names(&cause.present), names(&cause.absent))
        };
        let symptom = failure.signature(&first.verdict);
        // If both the present and the absent stores are known, it does not matter how recovery fails.
        let end = match cause.absent.is_empty() {
            true => &symptom,
            false => rule_of(&first.verdict)?.id,
        };
        Some(Self {
            stores: format!("{end}||{}", each(line_of)),
            calls: each(path_of),
            symptom,
        })
    }

    /// Whether a cause with the same stores is the same.
    fn is_same(&self, other: &Self) -> bool {
        self.calls == other.calls || self.symptom == other.symptom
    }
}

/// The lines of all calls of a stack.
pub(crate) fn path_of(stack: &[Frame]) -> String {
    let lines = stack.iter().map(|frame| match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => format!("{}+{:#x}", frame.module, frame.offset),
    });
    lines.collect::<Vec<String>>().join("<")
}

fn finding(group: &Group, cause: Option<&Cause>, token: Token) -> Option<Finding> {
    let first = group.first();
    let failure = first.failure.as_ref()?;
    let rule = rule_of(&first.verdict)?;
    let mut stacks = vec![stack(role::FAILURE_POINT, &failure.stack)];
    // What recovery was doing when it was interrupted last comes first: that is what it cannot cope with.
    let known = failure.interrupted.iter();
    for interrupted in known.filter(|interrupted| !interrupted.stack.is_empty()) {
        stacks.insert(0, stack(role::INTERRUPTED_RECOVERY, &interrupted.stack));
    }
    if !failure.recovery.is_empty() {
        stacks.push(stack(role::RECOVERY, &failure.recovery));
    }
    let mut evidence = Evidence {
        events: vec![first.point.event],
        details: details(group, failure),
        ..Evidence::default()
    };
    let mut message = interruption_sentence(first, failure);
    if let Some(operation) = first.operation.filter(|operation| operation.active) {
        message.push_str(&format!(", in operation {}", operation.completed + 1));
    }
    if let Some(cause) = cause {
        message.push_str(&reason(cause));
    }
    if let Some(order) = open_order(&failure.updates, cause) {
        message.push_str(&format!("; {order}"));
    }
    let mut finding = Finding::new(rule, message, stacks, Evidence::default());
    if let Some(cause) = cause {
        for (role, culprits) in [
            (role::STORE_PRESENT, &cause.present),
            (role::STORE_MISSING, &cause.absent),
        ] {
            for culprit in culprits {
                finding.stacks.push(stack(role, &culprit.stack));
                // The events of recovery are not in the trace.
                if !cause.is_inside_recovery() {
                    evidence.events.push(culprit.event);
                }
                for range in &culprit.ranges {
                    if !evidence.ranges.contains(range) {
                        evidence.ranges.push(range.clone());
                    }
                }
            }
        }
        let torn: Vec<String> = cause.absent.iter().filter_map(torn_text).collect();
        if !torn.is_empty() {
            evidence
                .details
                .insert("torn store".into(), torn.join("\n"));
        }
        if !cause.names_stores() {
            let none = "no small set of stores was found that explains the failure";
            evidence.details.insert("cause".into(), none.into());
        }
        if let Some(stores) = cause.stores {
            let since = match cause.is_inside_recovery() {
                true => "recovery stores present",
                false => "stores since the last image that passed",
            };
            evidence.details.insert(since.into(), stores.to_string());
        }
        let tests = cause.tests.to_string();
        evidence
            .details
            .insert("recoveries run to find the cause".into(), tests);
    }
    if first.is_flaky() {
        finding.severity = Severity::Warning;
        finding
            .message
            .push_str("; it passes when it runs again on the same image");
    }
    finding.evidence = evidence;
    finding.count = group.count();
    finding.replay = Some(token.to_string());
    Some(finding)
}

/// When recovery fails.
fn interruption_sentence(first: &Trial, failure: &Failure) -> String {
    let lost_at = |choice: &Option<Choice>| match choice {
        None => "",
        Some(choice) if choice.has_torn_stores() => {
            ", with a store before it that has reached persistent memory only in part"
        }
        Some(_) => ", with stores before it that have not reached persistent memory",
    };
    let verdict = &first.verdict;
    let of_target = lost_at(&first.point.choice);
    let inside = failure.interrupted.iter().zip(&first.point.interruptions);
    let mut inside = inside.rev().map(|(recovery, interruption)| {
        let lost = lost_at(&interruption.choice);
        (recovery, lost)
    });
    let Some((last, lost)) = inside.next() else {
        let before = first.kind.describe();
        let shown = match first.kind {
            // No instruction of the program is the exit; its last store is shown.
            PointKind::Exit if !failure.stack.is_empty() => ", after this store",
            _ => "",
        };
        return format!("recovery {verdict} after power is lost before {before}{shown}{of_target}");
    };
    let place = match last.before {
        // The stack is shown first.
        Some(kind) if !last.stack.is_empty() => format!("before {}", kind.describe()),
        _ => place_of(last),
    };
    let mut text = format!("recovery {verdict} after power is lost inside recovery, {place}{lost}");
    text.push_str("; before that, power was lost ");
    for (recovery, lost) in inside {
        let place = place_of(recovery);
        text.push_str(&format!("inside an earlier recovery, {place}{lost}, and "));
    }
    let before = first.kind.noun();
    text.push_str(&format!("before {before} of the program{of_target}"));
    text
}

/// What the cause adds to the sentence.
fn reason(cause: &Cause) -> String {
    let whose = match cause.is_inside_recovery() {
        true => " of recovery",
        false => "",
    };
    match (cause.present.is_empty(), cause.absent.is_empty()) {
        (false, false) => {
            format!("; one store{whose} is present and another that belongs to it is missing")
        }
        (false, true) => format!("; recovery cannot handle a store{whose} that is present"),
        (true, false) if cause.is_torn() => "; recovery needs all of that store".to_owned(),
        (true, false) => format!("; recovery needs a store{whose} that is missing"),
        (true, true) => String::new(),
    }
}

/// Which bytes of a torn store are persisted; `None` if it is not torn.
fn torn_text(store: &Culprit) -> Option<String> {
    let ranges = store.persisted.iter().map(|range| {
        let end = range.offset + range.len;
        format!("{:#x}..{end:#x}", range.offset)
    });
    let ranges = ranges.collect::<Vec<String>>().join(", ");
    (!ranges.is_empty()).then(|| {
        let line = line_of(&store.stack);
        format!("{line}: bytes {ranges} of this store are persisted, the rest is not")
    })
}

fn details(group: &Group, failure: &Failure) -> BTreeMap<String, String> {
    let first = group.first();
    let mut details = BTreeMap::new();
    if !failure.output.is_empty() {
        details.insert(Evidence::LAST_OUTPUT.to_owned(), failure.output.join("\n"));
    }
    if let Some(operation) = first.operation {
        let state = if operation.active {
            "active"
        } else {
            "not started"
        };
        let text = format!("{} complete, the next {state}", operation.completed);
        details.insert("operations".to_owned(), text);
    }
    if let Some(choice) = &first.point.choice {
        details.insert(Evidence::CRASH_STATE.to_owned(), choice.describe());
    }
    if !first.point.interruptions.is_empty() {
        let interrupted = failure.interrupted.iter().zip(&first.point.interruptions);
        let lines: Vec<String> = interrupted.map(describe_interruption).collect();
        details.insert(Evidence::INTERRUPTED.to_owned(), lines.join("\n"));
    }
    if let Some(again) = &failure.again {
        let text = format!("run again on the same image, recovery {again}");
        details.insert("not deterministic".to_owned(), text);
    }
    let failures = || {
        group
            .failures
            .iter()
            .filter_map(|trial| trial.failure.as_ref())
    };
    let last = |failure: &Failure| Some(failure.interrupted.last()?.line.clone());
    let places: [(&str, BTreeSet<String>); 2] = [
        (
            "failure points",
            failures().map(|failure| failure.line.clone()).collect(),
        ),
        ("interruptions", failures().filter_map(last).collect()),
    ];
    for (name, lines) in places {
        if lines.len() > 1 {
            let lines: Vec<String> = lines.into_iter().collect();
            details.insert(name.to_owned(), lines.join("\n"));
        }
    }
    details
}

/// Where a recovery was interrupted, in words.
fn place_of(interrupted: &InterruptedRecovery) -> String {
    match interrupted.before {
        Some(kind) => format!("before {}", kind.noun()),
        None => "at its end".to_owned(),
    }
}

/// Where a recovery was interrupted, and which of its stores are there.
fn describe_interruption((at, interruption): (&InterruptedRecovery, &Interruption)) -> String {
    let place = place_of(at);
    let line = match at.line.is_empty() {
        true => String::new(),
        false => format!(" at {}", at.line),
    };
    let choice = interruption.choice.as_ref();
    let left = choice.map_or_else(
        || "with all its stores".to_owned(),
        |choice| choice.describe(),
    );
    format!(
        "{place}{line}, after {} of its actions on persistent memory (stores, flushes, fences), {left}",
        interruption.actions
    )
}

pub(crate) fn stack(role: &str, frames: &[Frame]) -> Stack {
    Stack {
        role: role.to_owned(),
        frames: frames.to_vec(),
    }
}
