//! One cause, one finding: joins findings that one mistake causes.
//!
//! Two findings of a rule are one if they are at one source line. The same line is reached on many stacks: at each depth of
//! a recursion, and from each caller of a function. Code without line information is distinguished by its
//! offset in the module, so that two mistakes in one library stay two.
//!
//! Findings of crash testing are one if also recovery fails at one line or, where that is not known, with one last line of output, and if
//! the stores that cause them are the same. Where a recovery that does not end was interrupted depends on chance, and is ignored.
//!
//! The earliest finding keeps its id and stacks; its evidence lists the others.
//!
//! Can join too much: two mistakes in one line, or two callers of a function that each forget what it leaves to them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::stack::role;
use crate::{Finding, Frame, JoinedFinding, Stack};

/// The joined findings whose stacks are kept; of the others only the ids.
const STACKS_KEPT: usize = 16;

/// A location in the code of the target or of recovery.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CodeLocation<'a> {
    Line(&'a str, u32),
    Offset(&'a str, u64),
}

impl<'a> CodeLocation<'a> {
    fn of(frame: &'a Frame) -> Self {
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) => CodeLocation::Line(file, line),
            _ => CodeLocation::Offset(&frame.module, frame.offset),
        }
    }

    pub(crate) fn of_stack(stack: &'a Stack) -> Option<Self> {
        stack.primary_frame().map(CodeLocation::of)
    }
}

/// Equal for findings that may have one cause.
#[derive(Clone, PartialEq, Eq, Hash)]
struct JoinKey<'a> {
    rule: &'a str,
    location: CodeLocation<'a>,
    symptom: Option<Symptom<'a>>,
}

/// How recovery failed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Symptom<'a> {
    location: Option<CodeLocation<'a>>,
    last_output: Option<&'a str>,
}

impl<'a> JoinKey<'a> {
    /// `None` for a finding without a location, which is joined with no other.
    fn of(finding: &'a Finding) -> Option<Self> {
        let first = finding.stacks.first()?;
        Some(JoinKey {
            rule: &finding.rule,
            location: CodeLocation::of_stack(first)?,
            symptom: Symptom::of(finding),
        })
    }
}

impl<'a> Symptom<'a> {
    /// `None` if the finding is not one of crash testing, or recovery did not end.
    fn of(finding: &'a Finding) -> Option<Self> {
        if !finding.is_of_crash_testing() || finding.rule == "recovery-hung" {
            return None;
        }
        let recovery = finding
            .stacks
            .iter()
            .find(|stack| stack.role == role::RECOVERY);
        let location = recovery.and_then(CodeLocation::of_stack);
        let last_output = match location {
            Some(CodeLocation::Line(..)) => None,
            _ => finding.last_output(),
        };
        Some(Symptom {
            location,
            last_output,
        })
    }
}

/// The stores that cause a crash finding, as far as they are known.
fn stores(finding: &Finding) -> Vec<(&str, Option<CodeLocation<'_>>)> {
    let stores = finding.stacks.iter().filter(|stack| stack.is_of_cause());
    stores
        .map(|stack| (stack.role.as_str(), CodeLocation::of_stack(stack)))
        .collect()
}

/// Joins findings, keeping the order of those that remain.
pub(crate) fn join(findings: Vec<Finding>) -> Vec<Finding> {
    let leaders = leaders(&findings);
    let mut joined: Vec<Option<Finding>> = Vec::with_capacity(findings.len());
    for (finding, leader) in findings.into_iter().zip(leaders) {
        match joined.get_mut(leader) {
            Some(Some(first)) => {
                first.join_with(finding);
                joined.push(None);
            }
            _ => joined.push(Some(finding)),
        }
    }
    joined.into_iter().flatten().collect()
}

/// For each finding, the first one with the same cause, which may be itself.
fn leaders(findings: &[Finding]) -> Vec<usize> {
    let mut by_key: HashMap<JoinKey<'_>, usize> = HashMap::new();
    let mut by_stores: HashMap<_, usize> = HashMap::new();
    let leaders = findings.iter().enumerate().map(|(index, finding)| {
        let Some(key) = JoinKey::of(finding) else {
            return index;
        };
        let stores = stores(finding);
        if stores.is_empty() {
            return *by_key.entry(key).or_insert(index);
        }
        match by_stores.entry((key.clone(), stores)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(index);
                // A finding for which no stores were found belongs to the first one for which they were.
                by_key.entry(key).or_insert(index);
                index
            }
        }
    });
    leaders.collect()
}

impl Finding {
    /// The last line that a failed recovery printed.
    fn last_output(&self) -> Option<&str> {
        self.evidence.details.get("last output")?.lines().last()
    }

    /// Adds a finding with the same cause.
    fn join_with(&mut self, mut other: Finding) {
        if other.first_event() < self.first_event() {
            std::mem::swap(self, &mut other);
            let earlier = std::mem::take(&mut other.evidence.joined);
            self.evidence.joined.splice(0..0, earlier);
        }
        self.count = self.count.saturating_add(other.count);
        self.adopt_confirmation(&other);
        // The worst comes first in the order of severities.
        self.severity = self.severity.min(other.severity);
        let joined = &mut self.evidence.joined;
        let keep_stack = joined.len() < STACKS_KEPT;
        let first = other.stacks.into_iter().next().filter(|_| keep_stack);
        joined.push(JoinedFinding {
            id: other.id,
            event: other.evidence.events.first().copied(),
            frames: first.map_or_else(Vec::new, |stack| stack.frames_of_program().to_vec()),
        });
        joined.append(&mut other.evidence.joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FENCE_RULE, FLUSH_RULE, finding_at, frame, stack};
    use crate::{Category, Evidence, RuleInfo, Severity};

    const FAILED: RuleInfo = RuleInfo {
        id: "recovery-failed",
        severity: Severity::Bug,
        category: Category::Atomicity,
        pedantic: false,
        summary: "recovery fails",
        explanation: "",
    };
    const HUNG: RuleInfo = RuleInfo {
        id: "recovery-hung",
        ..FAILED
    };

    fn called_from(line: u32, event: u64) -> Finding {
        let mut finding = finding_at(&FLUSH_RULE, "kv.c", 7);
        finding.stacks[0].frames[1].line = Some(line);
        let stacks = finding.stacks;
        let evidence = Evidence {
            events: vec![event],
            ..Evidence::default()
        };
        Finding::new(&FLUSH_RULE, "lost", stacks, evidence)
    }

    fn crash(rule: &RuleInfo, recovery: Vec<Frame>, said: &str) -> Finding {
        let stacks = vec![
            stack(role::FAILURE_POINT, vec![frame("put", "kv.c", 7)]),
            stack(role::RECOVERY, recovery),
        ];
        let details = [("last output".to_owned(), said.to_owned())].into();
        let evidence = Evidence {
            details,
            ..Evidence::default()
        };
        Finding::new(rule, "recovery fails", stacks, evidence)
    }

    fn bare(offset: u64) -> Vec<Frame> {
        vec![Frame {
            module: "/opt/libindex.so".into(),
            offset,
            ..Frame::default()
        }]
    }

    #[test]
    fn one_line_on_many_stacks_is_one_finding() {
        let (late, early) = (called_from(90, 20), called_from(95, 10));
        let ids = [late.id.clone(), early.id.clone()];
        let joined = join(vec![late, early]);
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].count, 2);
        assert_eq!(joined[0].id, ids[1], "the earliest represents them");
        assert_eq!(joined[0].evidence.joined.len(), 1);
        let other = &joined[0].evidence.joined[0];
        assert_eq!((&other.id, other.event), (&ids[0], Some(20)));
        assert_eq!(other.frames[1].line, Some(90));
    }

    #[test]
    fn rules_and_lines_are_distinguished() {
        let findings = vec![
            finding_at(&FLUSH_RULE, "kv.c", 7),
            finding_at(&FENCE_RULE, "kv.c", 7),
            finding_at(&FLUSH_RULE, "kv.c", 8),
        ];
        assert_eq!(join(findings.clone()), findings);
    }

    #[test]
    fn code_without_lines_is_distinguished_by_offset_and_output() {
        let findings = vec![
            crash(&FAILED, bare(0x10), "bad count"),
            crash(&FAILED, bare(0x20), "bad count"),
            crash(&FAILED, bare(0x20), "lost key"),
        ];
        assert_eq!(join(findings).len(), 3);
        let same = vec![
            crash(&FAILED, bare(0x10), "bad count"),
            crash(&FAILED, bare(0x10), "bad count"),
        ];
        assert_eq!(join(same).len(), 1);
    }

    #[test]
    fn it_does_not_matter_where_a_hang_was_interrupted() {
        let findings = vec![
            crash(&HUNG, bare(0x10), ""),
            crash(&HUNG, vec![frame("walk", "kv.c", 70)], ""),
        ];
        assert_eq!(join(findings).len(), 1);
    }

    #[test]
    fn failures_that_different_stores_cause_are_not_joined() {
        let with_store = |line| {
            let mut finding = crash(&FAILED, vec![frame("check", "kv.c", 70)], "");
            let store = stack(role::STORE_MISSING, vec![frame("put", "kv.c", line)]);
            finding.stacks.push(store);
            finding
        };
        let without = crash(&FAILED, vec![frame("check", "kv.c", 70)], "");
        let findings = vec![with_store(4), with_store(5), without, with_store(5)];
        let joined = join(findings);
        let counts: Vec<u64> = joined.iter().map(|finding| finding.count).collect();
        assert_eq!(counts, [2, 2], "one without stores belongs to the first");
    }

    #[test]
    fn thousands_of_findings_are_joined_in_one_pass() {
        let findings = (0..5_000).map(|number| called_from(number, u64::from(number)));
        let joined = join(findings.collect());
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].evidence.joined.len(), 4_999);
        let shown = joined[0].evidence.joined.iter();
        assert_eq!(
            shown.filter(|other| !other.frames.is_empty()).count(),
            STACKS_KEPT
        );
    }
}
