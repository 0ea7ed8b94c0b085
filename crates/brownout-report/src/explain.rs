//! Which finding of crash testing, and which race, a finding of lint explains.
//!
//! Lint names the store that is not persisted as it should be; crash testing shows what recovery makes of it. If the search for the
//! cause of a failed recovery leads to a store that a finding of lint names, the two have one cause: the crash
//! finding gets the id of the other in [`Finding::cause`], and they are shown and counted as one. The failed recovery confirms a
//! warning, which becomes a bug.
//!
//! A finding about a store that is not persistent in time explains only failures for which that store was made and is missing: if the store
//! is there, or the target had not made it yet, its flush has nothing to do with the failure. Other findings, such as that of a store
//! outside the log of its transaction, also explain failures for which their store is there.
//!
//! A store is the same if it is the same event, or on the same line and called by the same function: two callers of a function that stores
//! can make different mistakes. It also counts if it is in the same function and has bytes in common
//! with those that lint names, and lint saw it first no later: one assignment can be several stores on several lines. Bytes alone are not
//! enough, because two functions can make different mistakes with one field. A store that is missing counts before one that is there, and
//! one that was made before the crash before one that the target had not made yet.
//!
//! A race has one cause with the finding of lint that says of its store that it is not persistent in time.
//!
//! Can miss: crash findings for which no stores were found.

use std::collections::HashMap;

use crate::code_location::FrameLocation;
use crate::stack::role;
use crate::{
    ByteRange, Category, Finding, FindingId, Frame, Mistake, Severity, Stack, primary_frame,
};

/// The stores that a failed recovery is due to.
struct Culprit<'a> {
    stack: &'a Stack,
    /// When it was made, if known.
    event: Option<u64>,
    /// Its bytes, if known.
    range: Option<&'a ByteRange>,
    is_missing: bool,
    /// It was made before the crash, as far as is known.
    was_made: bool,
}

/// The stores of a crash finding, those that are missing first.
fn culprits(crash: &Finding) -> Vec<Culprit<'_>> {
    let stacks = crash.stacks.iter().filter(|stack| stack.is_of_cause());
    let count = stacks.clone().count();
    // The first event is that of the failure point, the others are those of the stores.
    let (failure_point, events) = match &crash.evidence.events[..] {
        [first, stores @ ..] if stores.len() == count => (Some(*first), stores),
        _ => (None, &[][..]),
    };
    let ranges = match &crash.evidence.ranges[..] {
        ranges if ranges.len() == count => ranges,
        _ => &[],
    };
    let culprits = stacks.enumerate().map(|(at, stack)| {
        let event = events.get(at).copied();
        Culprit {
            stack,
            event,
            range: ranges.get(at),
            is_missing: stack.role == role::STORE_MISSING,
            was_made: event.is_none_or(|event| Some(event) < failure_point),
        }
    });
    let mut culprits: Vec<Culprit<'_>> = culprits.collect();
    culprits.sort_by_key(|culprit| (!culprit.is_missing, !culprit.was_made));
    culprits
}

/// A store as a finding of lint names it.
struct NamedStore<'a> {
    frames: &'a [Frame],
    event: Option<u64>,
    has_unknown_callers: bool,
}

/// The frame that is shown of a stack, and the function that has called it.
fn called(frames: &[Frame]) -> Option<(&Frame, Option<&str>)> {
    let at = primary_frame(frames)?;
    let caller = frames
        .get(at + 1)
        .and_then(|frame| frame.function.as_deref());
    Some((frames.get(at)?, caller))
}

/// The findings that name a store, by the store.
#[derive(Default)]
struct NamedStores<'a> {
    by_event: HashMap<u64, usize>,
    by_call: HashMap<(FrameLocation<'a>, Option<&'a str>), usize>,
    /// Only for findings with so many stacks that not all callers are known.
    by_location: HashMap<FrameLocation<'a>, usize>,
    by_function: HashMap<&'a str, Vec<usize>>,
}

impl<'a> NamedStores<'a> {
    /// Earlier findings win: findings are in the order of their importance.
    fn add(&mut self, number: usize, store: &NamedStore<'a>) {
        if let Some((frame, caller)) = called(store.frames) {
            let location = FrameLocation::of(frame);
            if store.has_unknown_callers {
                self.by_location.entry(location).or_insert(number);
            }
            self.by_call.entry((location, caller)).or_insert(number);
            if let Some(function) = frame.function.as_deref() {
                self.by_function.entry(function).or_default().push(number);
            }
        }
        if let Some(event) = store.event {
            self.by_event.entry(event).or_insert(number);
        }
    }

    /// The finding, one of `findings`, that names one of these stores.
    fn find(&self, stores: &[Culprit<'_>], findings: &[Finding]) -> Option<usize> {
        let same_event = |store: &Culprit<'_>| self.by_event.get(&store.event?).copied();
        let same_line = |store: &Culprit<'_>| {
            let (frame, caller) = called(&store.stack.frames)?;
            let location = FrameLocation::of(frame);
            let known = self.by_call.get(&(location, caller));
            known.or_else(|| self.by_location.get(&location)).copied()
        };
        let same_bytes = |store: &Culprit<'_>| {
            let function = store.stack.primary_frame()?.function.as_deref()?;
            let range = store.range?;
            let mut named = self.by_function.get(function)?.iter().copied();
            named.find(|&number| {
                let evidence = &findings[number].evidence;
                let is_earlier =
                    store.event.is_some() && store.event < evidence.events.first().copied();
                !is_earlier && evidence.ranges.iter().any(|named| named.overlaps(range))
            })
        };
        stores
            .iter()
            .find_map(same_event)
            .or_else(|| stores.iter().find_map(same_line))
            .or_else(|| stores.iter().find_map(same_bytes))
    }
}

/// What the findings of lint say about stores.
#[derive(Default)]
struct Explanations<'a> {
    /// Stores that are not persistent in time.
    unpersisted: NamedStores<'a>,
    /// Stores with other mistakes.
    others: NamedStores<'a>,
}

impl<'a> Explanations<'a> {
    fn of(findings: &'a [Finding]) -> Self {
        let mut explanations = Self::default();
        let explains = |finding: &Finding| {
            !finding.is_crash_finding() && finding.category != Category::Performance
        };
        let findings = findings.iter().enumerate();
        for (number, finding) in findings.filter(|(_, finding)| explains(finding)) {
            let named = explanations.of_mistake(finding.mistake);
            let is_unpersisted = finding.mistake.explains_missing_only();
            let joined = &finding.evidence.joined;
            let has_unknown_callers = joined.iter().any(|other| other.frames.is_empty());
            for (position, stack) in finding.stacks.iter().enumerate() {
                let store = NamedStore {
                    frames: &stack.frames,
                    event: finding.evidence.events.get(position).copied(),
                    has_unknown_callers,
                };
                // Of a pair such as `store` and `later store`, only the first is not persistent.
                if stack.role == "store" || !is_unpersisted && is_store(stack) {
                    named.add(number, &store);
                }
            }
            for other in joined {
                let store = NamedStore {
                    frames: &other.frames,
                    event: other.event,
                    has_unknown_callers,
                };
                // Its first stack is that of the pointer; the stores are those of the finding that it is joined with.
                if !matches!(other.mistake, Mistake::UnpersistedTarget { .. }) {
                    explanations.of_mistake(other.mistake).add(number, &store);
                }
            }
        }
        explanations
    }

    fn of_mistake(&mut self, mistake: Mistake) -> &mut NamedStores<'a> {
        match mistake.explains_missing_only() {
            true => &mut self.unpersisted,
            false => &mut self.others,
        }
    }

    /// The finding that names the store of a race because it is not persistent in time: had it been, nobody could have read it too
    /// early.
    fn find_unpersisted(&self, race: &Finding) -> Option<usize> {
        let stack = race.stacks.first()?;
        let store = Culprit {
            stack,
            event: race.evidence.events.first().copied(),
            range: None,
            is_missing: true,
            was_made: true,
        };
        self.unpersisted.find(&[store], &[])
    }

    /// The finding, one of `findings`, that names a store which causes this crash finding.
    fn find(&self, crash: &Finding, findings: &[Finding]) -> Option<usize> {
        let culprits = culprits(crash);
        let is_lost = |store: &&Culprit<'_>| store.is_missing && store.was_made;
        let lost = culprits.iter().filter(is_lost).count();
        let explained = self.unpersisted.find(&culprits[..lost], findings);
        explained.or_else(|| self.others.find(&culprits, findings))
    }
}

/// Whether the stack is that of a store, such as `store` or `later store`.
fn is_store(stack: &Stack) -> bool {
    stack.role.split(' ').any(|word| word == "store")
}

/// Gives crash findings and races their causes.
pub(crate) fn explain(findings: &mut [Finding]) {
    let explanations = Explanations::of(findings);
    let explained: Vec<(usize, usize)> = findings
        .iter()
        .enumerate()
        .filter_map(|(number, finding)| {
            let cause = match finding.category {
                _ if finding.is_crash_finding() => explanations.find(finding, findings),
                Category::Race => explanations.find_unpersisted(finding),
                _ => None,
            };
            Some((number, cause?))
        })
        .collect();
    // Findings of an earlier run may have causes that are gone.
    findings.iter_mut().for_each(|finding| finding.cause = None);
    for (crash, cause) in explained {
        let id: FindingId = findings[cause].id.clone();
        if findings[crash].severity == Severity::Bug {
            findings[cause].caused_failure();
        }
        findings[crash].cause = Some(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{
        FAILED_RULE, FENCE_RULE, FLUSH_RULE, WARNING_RULE, finding_at, frame, stack,
    };
    use crate::{Evidence, JoinedFinding, RuleInfo, RulePolicy};

    const UNLOGGED_RULE: RuleInfo = RuleInfo {
        id: "tx-unlogged-store",
        category: Category::Atomicity,
        policy: RulePolicy::NONE,
        ..FLUSH_RULE
    };

    /// A recovery fails if power is lost at event 100 and a store at event 90 is there or missing.
    fn crash(role: &str, line: u32, offset: u64) -> Finding {
        let stacks = vec![
            stack(role::FAILURE_POINT, vec![frame("put", "kv.c", 30)]),
            stack(
                role,
                vec![frame("put", "kv.c", line), frame("main", "kv.c", 90)],
            ),
        ];
        let evidence = Evidence {
            ranges: vec![ByteRange {
                file: "/mnt/pmem/pool".into(),
                offset,
                len: 8,
            }],
            events: vec![100, 90],
            ..Evidence::default()
        };
        Finding::new(&FAILED_RULE, "recovery fails", stacks, evidence)
    }

    fn cause_of(crash: Finding, lint: Finding) -> (bool, Severity) {
        let mut findings = [lint, crash];
        explain(&mut findings);
        let [lint, crash] = findings;
        (crash.cause.as_ref() == Some(&lint.id), lint.severity)
    }

    /// Far from the bytes that lint names.
    const FAR: u64 = 4096;

    #[test]
    fn a_missing_store_that_lint_names_is_the_cause() {
        let lint = || finding_at(&FLUSH_RULE, "kv.c", 7);
        assert!(cause_of(crash(role::STORE_MISSING, 7, FAR), lint()).0);
        assert!(!cause_of(crash(role::STORE_MISSING, 8, FAR), lint()).0);
        let same_bytes = crash(role::STORE_MISSING, 8, 68);
        assert!(cause_of(same_bytes, lint()).0);
    }

    #[test]
    fn a_store_that_is_not_persistent_in_time_is_the_cause_of_its_race() {
        let race_rule = RuleInfo {
            id: "persistency-race",
            category: Category::Race,
            severity: Severity::Warning,
            policy: RulePolicy::NONE,
            ..FLUSH_RULE
        };
        let race = |line| {
            let mut race = finding_at(&race_rule, "kv.c", line);
            race.evidence.events = vec![40];
            race
        };
        let lint = |rule| finding_at(rule, "kv.c", 7);
        assert_eq!(
            cause_of(race(7), lint(&WARNING_RULE)),
            (true, Severity::Warning)
        );
        assert!(cause_of(race(7), lint(&FLUSH_RULE)).0);
        assert!(!cause_of(race(8), lint(&FLUSH_RULE)).0);
        assert!(!cause_of(race(7), lint(&UNLOGGED_RULE)).0);
    }

    #[test]
    fn callers_of_a_function_that_stores_are_distinguished() {
        let mut lint = finding_at(&FLUSH_RULE, "kv.c", 7);
        lint.stacks[0].frames = vec![frame("set", "kv.c", 7), frame("put", "kv.c", 20)];
        let called_by = |function: &str| {
            let mut failed = crash(role::STORE_MISSING, 7, FAR);
            failed.stacks[1].frames = vec![frame("set", "kv.c", 7), frame(function, "kv.c", 30)];
            failed
        };
        assert!(cause_of(called_by("put"), lint.clone()).0);
        assert!(!cause_of(called_by("link"), lint.clone()).0);
        let mut many = JoinedFinding::from(finding_at(&FLUSH_RULE, "kv.c", 7));
        many.frames.clear();
        lint.evidence.joined.push(many);
        assert!(
            cause_of(called_by("link"), lint).0,
            "not all callers are known"
        );
    }

    #[test]
    fn a_failed_recovery_confirms_its_cause_whatever_other_images_have_shown() {
        let mut lint = finding_at(&WARNING_RULE, "kv.c", 7);
        (lint.confirmed, lint.read_by_recovery) = (Some(false), Some(false));
        let mut findings = [lint, crash(role::STORE_MISSING, 7, FAR)];
        explain(&mut findings);
        let [lint, _] = findings;
        assert_eq!(lint.severity, Severity::Bug);
        assert_eq!(
            (lint.confirmed, lint.read_by_recovery),
            (Some(true), Some(true))
        );
    }

    #[test]
    fn a_flush_has_nothing_to_do_with_a_store_that_is_there() {
        let lint = || finding_at(&FLUSH_RULE, "kv.c", 7);
        assert!(!cause_of(crash(role::STORE_PRESENT, 7, FAR), lint()).0);
        assert!(!cause_of(crash(role::STORE_PRESENT, 8, 68), lint()).0);
    }

    #[test]
    fn a_flush_has_nothing_to_do_with_a_store_that_was_not_made_yet() {
        let lint = || finding_at(&FLUSH_RULE, "kv.c", 7);
        let mut failed = crash(role::STORE_MISSING, 7, FAR);
        failed.evidence.events = vec![100, 110];
        assert!(!cause_of(failed, lint()).0);
    }

    #[test]
    fn a_store_before_the_first_one_that_lint_names_is_another_one() {
        let lint = |first| {
            let mut finding = finding_at(&FLUSH_RULE, "kv.c", 7);
            finding.evidence.events = vec![first];
            finding
        };
        assert!(cause_of(crash(role::STORE_MISSING, 8, 68), lint(80)).0);
        assert!(!cause_of(crash(role::STORE_MISSING, 8, 68), lint(95)).0);
    }

    #[test]
    fn a_store_that_was_made_counts_before_one_that_was_not() {
        let of_line = |line| finding_at(&UNLOGGED_RULE, "kv.c", line);
        let mut failed = crash(role::STORE_MISSING, 7, FAR);
        let later = vec![frame("put", "kv.c", 8), frame("main", "kv.c", 90)];
        let later = stack(role::STORE_MISSING, later);
        failed.stacks.insert(1, later);
        failed.evidence.events = vec![100, 110, 90];
        let mut findings = [of_line(8), of_line(7), failed];
        explain(&mut findings);
        assert_eq!(findings[2].cause.as_ref(), Some(&findings[1].id));
    }

    #[test]
    fn a_store_outside_the_log_explains_failures_with_it() {
        let lint = || finding_at(&UNLOGGED_RULE, "kv.c", 7);
        assert!(cause_of(crash(role::STORE_PRESENT, 7, FAR), lint()).0);
        assert!(cause_of(crash(role::STORE_MISSING, 7, FAR), lint()).0);
    }

    #[test]
    fn a_joined_finding_names_its_store() {
        let mut lint = finding_at(&FLUSH_RULE, "kv.c", 7);
        let other = finding_at(&WARNING_RULE, "kv.c", 8);
        lint.evidence.joined.push(JoinedFinding::from(other));
        assert!(cause_of(crash(role::STORE_MISSING, 8, FAR), lint.clone()).0);
        assert!(!cause_of(crash(role::STORE_PRESENT, 8, FAR), lint).0);
    }

    #[test]
    fn a_failed_recovery_makes_a_warning_a_bug() {
        let lint = finding_at(&WARNING_RULE, "kv.c", 7);
        let (explained, severity) = cause_of(crash(role::STORE_MISSING, 7, FAR), lint);
        assert!(explained);
        assert_eq!(severity, Severity::Bug);
    }

    #[test]
    fn performance_findings_explain_no_failure() {
        let lint = finding_at(&FENCE_RULE, "kv.c", 7);
        assert!(!cause_of(crash(role::STORE_MISSING, 7, 64), lint).0);
    }
}
