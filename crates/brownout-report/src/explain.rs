//! Which finding of crash testing a finding of lint explains.
//!
//! Lint names the store that is not persisted as it should be; crash testing shows what recovery makes of it. If the search for the
//! cause of a failed recovery leads to a store that a finding of lint names, the two have one cause: the crash
//! finding gets the id of the other in [`Finding::cause`], and they are shown and counted as one. The failed recovery confirms a
//! warning, which becomes a bug.
//!
//! A store is the same if it is the same event or on the same line. It also counts if it is in the same function and has bytes in common
//! with those that lint names: one assignment can be several stores on several lines. Bytes alone are not enough, because two functions
//! can make different mistakes with one field. A store that is missing counts before one that is there.
//!
//! Can miss: crash findings for which no stores were found.

use std::collections::HashMap;

use crate::join::CodeLocation;
use crate::stack::role;
use crate::{Category, Finding, FindingId, Severity, Stack};

/// The findings that name a store, by the store.
#[derive(Default)]
struct NamedStores<'a> {
    by_event: HashMap<u64, usize>,
    by_location: HashMap<CodeLocation<'a>, usize>,
    by_function: HashMap<&'a str, Vec<usize>>,
}

impl<'a> NamedStores<'a> {
    /// Earlier findings win: findings are in the order of their importance.
    fn of(findings: &'a [Finding]) -> Self {
        let mut named = Self::default();
        let names_stores = |finding: &&(usize, &Finding)| {
            let finding = finding.1;
            !finding.is_of_crash_testing() && finding.category != Category::Performance
        };
        let findings: Vec<(usize, &Finding)> = findings.iter().enumerate().collect();
        for &(number, finding) in findings.iter().filter(names_stores) {
            for (position, stack) in finding.stacks.iter().enumerate() {
                if !is_store(stack) {
                    continue;
                }
                if let Some(location) = CodeLocation::of_stack(stack) {
                    named.by_location.entry(location).or_insert(number);
                }
                if let Some(function) = function_of(stack) {
                    named.by_function.entry(function).or_default().push(number);
                }
                if let Some(&event) = finding.evidence.events.get(position) {
                    named.by_event.entry(event).or_insert(number);
                }
            }
        }
        named
    }

    /// The finding, one of `findings`, that names a store which causes this crash finding.
    fn explain(&self, crash: &Finding, findings: &[Finding]) -> Option<usize> {
        // The first event is that of the failure point, the others are those of the stores.
        let events = crash.evidence.events.iter().skip(1);
        let same_event = events.filter_map(|event| self.by_event.get(event)).next();
        let at = |wanted: &'static str| {
            let stores = crash
                .stacks
                .iter()
                .filter(move |stack| stack.role == wanted);
            let mut locations = stores.filter_map(CodeLocation::of_stack);
            locations.find_map(|location| self.by_location.get(&location))
        };
        let overlaps = |number: &usize| {
            let named = &findings[*number].evidence.ranges;
            let of_stores = &crash.evidence.ranges;
            named
                .iter()
                .any(|one| of_stores.iter().any(|other| one.overlaps(other)))
        };
        let same_bytes = || {
            let stores = crash.stacks.iter().filter(|stack| stack.is_of_cause());
            let functions = stores.filter_map(function_of);
            let mut named = functions.filter_map(|function| self.by_function.get(function));
            named.find_map(|numbers| numbers.iter().find(|number| overlaps(number)))
        };
        same_event
            .or_else(|| at(role::STORE_MISSING))
            .or_else(|| at(role::STORE_PRESENT))
            .or_else(same_bytes)
            .copied()
    }
}

fn function_of(stack: &Stack) -> Option<&str> {
    stack.primary_frame()?.function.as_deref()
}

/// Whether the stack is that of a store, such as `store` or `later store`.
fn is_store(stack: &Stack) -> bool {
    stack.role.split(' ').any(|word| word == "store")
}

/// Gives crash findings their causes.
pub(crate) fn explain(findings: &mut [Finding]) {
    let named = NamedStores::of(findings);
    let explained: Vec<(usize, usize)> = findings
        .iter()
        .enumerate()
        .filter(|(_, finding)| finding.is_of_crash_testing())
        .filter_map(|(number, crash)| Some((number, named.explain(crash, findings)?)))
        .collect();
    // Findings of an earlier run may have causes that are gone.
    findings.iter_mut().for_each(|finding| finding.cause = None);
    for (crash, cause) in explained {
        let id: FindingId = findings[cause].id.clone();
        if findings[crash].severity == Severity::Bug {
            findings[cause].severity = Severity::Bug;
        }
        findings[crash].cause = Some(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FENCE_RULE, FLUSH_RULE, WARNING_RULE, finding_at, frame, stack};
    use crate::{ByteRange, Evidence, RuleInfo};

    const FAILED: RuleInfo = RuleInfo {
        id: "recovery-failed",
        severity: Severity::Bug,
        category: Category::Atomicity,
        pedantic: false,
        summary: "recovery fails",
        explanation: "",
    };

    fn crash(role: &str, line: u32, offset: u64) -> Finding {
        let stacks = vec![
            stack(role::FAILURE_POINT, vec![frame("put", "kv.c", 30)]),
            stack(role, vec![frame("put", "kv.c", line)]),
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
        Finding::new(&FAILED, "recovery fails", stacks, evidence)
    }

    fn cause_of(crash: Finding, lint: Finding) -> (bool, Severity) {
        let mut findings = [lint, crash];
        explain(&mut findings);
        let [lint, crash] = findings;
        (crash.cause.as_ref() == Some(&lint.id), lint.severity)
    }

    #[test]
    fn a_store_that_lint_names_is_the_cause() {
        let lint = || finding_at(&FLUSH_RULE, "kv.c", 7);
        let far = 4096;
        assert!(cause_of(crash(role::STORE_MISSING, 7, far), lint()).0);
        assert!(cause_of(crash(role::STORE_PRESENT, 7, far), lint()).0);
        assert!(!cause_of(crash(role::STORE_MISSING, 8, far), lint()).0);
        assert!(
            cause_of(crash(role::STORE_MISSING, 8, 68), lint()).0,
            "the same bytes"
        );
    }

    #[test]
    fn a_failed_recovery_makes_a_warning_a_bug() {
        let lint = finding_at(&WARNING_RULE, "kv.c", 7);
        let (explained, severity) = cause_of(crash(role::STORE_MISSING, 7, 4096), lint);
        assert!(explained);
        assert_eq!(severity, Severity::Bug);
    }

    #[test]
    fn performance_findings_explain_no_failure() {
        let lint = finding_at(&FENCE_RULE, "kv.c", 7);
        assert!(!cause_of(crash(role::STORE_MISSING, 7, 64), lint).0);
    }
}
