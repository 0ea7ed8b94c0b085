//! Baselines: the findings of an earlier run, so that only new findings fail a check.
//!
//! A finding that has become worse since then is new: a warning of which crash testing shows that it is a bug.
//!
//! A finding is known if the baseline contains its id, which depends on the text of the source line and not on its
//! number: code that moves stays known, and a new bug near an old one is new.
//!
//! Where no source text is available, ids contain line numbers. Such findings and baseline entries, as far as their
//! ids differ, are matched one to one by [`LinelessId`]: a finding whose line number has changed is still known, and a
//! second finding in the same function is new. This can miss a new finding, if the same change fixes an old one with the
//! same rule and stack in the same function.
//!
//! A crash finding that another finding explains is known if that one is. Of the others, the [marks](FailureMarks) of the failure
//! must agree, too; and one at another failure point is known if all stores that make the difference are those of known ones.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::failure_marks::FailureMarks;
use crate::{Finding, FindingId, LinelessId, Severity, Sources, explain};

/// The version of the file format.
const VERSION: u32 = 2;

/// The findings of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Entry {
    rule: String,
    /// Where the finding is, for people who read the file.
    #[serde(rename = "place")]
    location: String,
    id: FindingId,
    /// Absent in files of earlier versions of brownout: then whatever the finding is now, it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    severity: Option<Severity>,
    /// Only if the id contains line numbers.
    #[serde(rename = "site", default, skip_serializing_if = "Option::is_none")]
    lineless_id: Option<LinelessId>,
    /// Only of crash findings; absent in files of earlier versions of brownout, in which the id decides alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureMarks>,
}

/// A finding of this run, to be compared with the baseline.
struct Candidate<'a> {
    finding: &'a Finding,
    failure: Option<FailureMarks>,
}

#[derive(Deserialize)]
struct Document {
    version: u32,
    findings: Vec<Entry>,
}

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    #[error("not a baseline written by brownout")]
    Syntax(#[from] serde_json::Error),
    #[error(
        "unsupported version {0}; this version of brownout reads version {VERSION}; write a new baseline with --write-baseline"
    )]
    Version(u32),
}

impl Baseline {
    pub fn of(findings: &[Finding], sources: &Sources) -> Self {
        let findings = explained(findings);
        let mut entries: Vec<Entry> = candidates(&findings, sources).map(Entry::new).collect();
        entries.sort();
        entries.dedup();
        Self { entries }
    }

    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let document: Document = serde_json::from_str(text)?;
        if document.version != VERSION {
            return Err(BaselineError::Version(document.version));
        }
        Ok(Self {
            entries: document.findings,
        })
    }

    /// The entries for which `keep` is true, given the rule and the id.
    pub fn filtered(mut self, keep: impl Fn(&str, &FindingId) -> bool) -> Self {
        self.entries.retain(|entry| keep(&entry.rule, &entry.id));
        self
    }

    /// These entries, and those of `others` with other ids.
    pub fn with_missing(mut self, others: &Self) -> Self {
        let ids: HashSet<&FindingId> = self.entries.iter().map(|entry| &entry.id).collect();
        let missing = others.entries.iter();
        let missing: Vec<Entry> = missing
            .filter(|entry| !ids.contains(&entry.id))
            .cloned()
            .collect();
        self.entries.extend(missing);
        self.entries.sort();
        self
    }

    /// JSON with one finding per line, so that diffs are readable.
    pub fn to_text(&self) -> String {
        let mut text = format!("{{\n\"version\": {VERSION},\n\"findings\": [");
        for (index, entry) in self.entries.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let line = serde_json::to_string(entry).expect("strings always serialize");
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}\n{line}");
        }
        text.push_str("\n]\n}\n");
        text
    }

    /// Splits findings into known and new ones, keeping their order.
    pub(crate) fn split(
        &self,
        findings: Vec<Finding>,
        sources: &Sources,
    ) -> (Vec<Finding>, Vec<Finding>) {
        let known = self.known(&explained(&findings), sources);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (finding, known) in findings.into_iter().zip(known) {
            if known {
                old.push(finding)
            } else {
                new.push(finding)
            }
        }
        (old, new)
    }

    /// For each finding, whether it is known.
    fn known(&self, findings: &[Finding], sources: &Sources) -> Vec<bool> {
        let mut known = self.known_by_themselves(findings, sources);
        let numbers: HashMap<&FindingId, usize> = findings
            .iter()
            .enumerate()
            .map(|(number, finding)| (&finding.id, number))
            .collect();
        for (number, finding) in findings.iter().enumerate() {
            if let Some(cause) = finding.cause.as_ref().and_then(|id| numbers.get(id)) {
                known[number] = known[*cause];
            }
        }
        known
    }

    /// For each finding, whether it is known regardless of its cause.
    fn known_by_themselves(&self, findings: &[Finding], sources: &Sources) -> Vec<bool> {
        let ids: HashMap<&FindingId, &Entry> = self
            .entries
            .iter()
            .map(|entry| (&entry.id, entry))
            .collect();
        let seen: HashSet<&FindingId> = findings.iter().map(|finding| &finding.id).collect();
        let mut moved: HashMap<&LinelessId, Vec<&Entry>> = HashMap::new();
        for entry in self
            .entries
            .iter()
            .filter(|entry| !seen.contains(&entry.id))
        {
            if let Some(lineless_id) = &entry.lineless_id {
                moved.entry(lineless_id).or_default().push(entry);
            }
        }
        let is_known = |candidate: Candidate<'_>| {
            let finding = candidate.finding;
            let by_numbers = finding.is_identified_by_numbers();
            let entry = ids.get(&finding.id);
            entry.is_some_and(|entry| entry.covers(&candidate))
                || candidate.has_only(&self.stores_as_bad_as(finding))
                || by_numbers
                    && moved.get_mut(&finding.lineless_id()).is_some_and(|left| {
                        let found = left.iter().position(|entry| entry.covers(&candidate));
                        found.map(|at| left.remove(at)).is_some()
                    })
        };
        candidates(findings, sources).map(is_known).collect()
    }

    /// The stores of crash findings that were at least as bad.
    fn stores_as_bad_as(&self, finding: &Finding) -> HashSet<&String> {
        let entries = self
            .entries
            .iter()
            .filter(|entry| entry.is_as_bad_as(finding));
        let failures = entries.filter_map(|entry| entry.failure.as_ref());
        failures.flat_map(|marks| &marks.stores).collect()
    }
}

/// The findings with their causes, and as bad as recovery shows them to be.
fn explained(findings: &[Finding]) -> Vec<Finding> {
    let mut findings = findings.to_vec();
    explain::explain(&mut findings);
    findings
}

fn candidates<'a>(
    findings: &'a [Finding],
    sources: &Sources,
) -> impl Iterator<Item = Candidate<'a>> {
    findings.iter().map(|finding| Candidate {
        failure: FailureMarks::of(finding, sources),
        finding,
    })
}

impl Candidate<'_> {
    /// Whether all stores that make the difference are among these.
    fn has_only(&self, stores: &HashSet<&String>) -> bool {
        self.failure.as_ref().is_some_and(|marks| {
            !marks.stores.is_empty() && marks.stores.iter().all(|store| stores.contains(store))
        })
    }
}

impl Entry {
    fn new(Candidate { finding, failure }: Candidate<'_>) -> Self {
        Self {
            rule: finding.rule.clone(),
            location: finding
                .primary_frame()
                .map(ToString::to_string)
                .unwrap_or_default(),
            id: finding.id.clone(),
            severity: Some(finding.severity),
            lineless_id: finding
                .is_identified_by_numbers()
                .then(|| finding.lineless_id()),
            failure,
        }
    }

    /// Whether the finding is no worse than it was, and recovery fails as it did.
    fn covers(&self, Candidate { finding, failure }: &Candidate<'_>) -> bool {
        let same_failure = match (&self.failure, failure) {
            (Some(known), Some(now)) => now.agree_with(known),
            _ => true,
        };
        same_failure && self.is_as_bad_as(finding)
    }

    fn is_as_bad_as(&self, finding: &Finding) -> bool {
        self.severity.is_none_or(|known| known <= finding.severity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FAILED_RULE, FLUSH_RULE, WARNING_RULE, finding_at, frame, stack};
    use crate::{Evidence, role};

    const NONE: [u32; 0] = [];

    fn sources() -> Sources {
        Sources::from_fn(|_| Err(std::io::ErrorKind::NotFound.into()))
    }

    fn at(line: u32) -> Finding {
        finding_at(&FLUSH_RULE, "kv.c", line)
    }

    /// The lines of the new findings.
    fn new(before: &[u32], now: &[u32]) -> Vec<u32> {
        let before: Vec<Finding> = before.iter().copied().map(at).collect();
        let text = Baseline::of(&before, &sources()).to_text();
        let baseline = Baseline::parse(&text).unwrap();
        let (_, new) = baseline.split(now.iter().copied().map(at).collect(), &sources());
        new.iter()
            .map(|f| f.primary_frame().unwrap().line.unwrap())
            .collect()
    }

    #[test]
    fn findings_of_the_earlier_run_are_known() {
        assert_eq!(new(&[7, 9], &[7, 9]), NONE);
        assert_eq!(new(&[], &[7]), [7]);
        assert_eq!(new(&[7, 9], &[9]), NONE);
    }

    #[test]
    fn a_finding_that_moved_is_known_and_a_second_one_is_new() {
        assert_eq!(new(&[7], &[8]), NONE);
        assert_eq!(new(&[7, 9], &[8, 10]), NONE);
        assert_eq!(new(&[7], &[7, 9]), [9]);
        assert_eq!(new(&[7], &[8, 10]), [10]);
    }

    #[test]
    fn an_old_line_does_not_stand_in_for_a_new_bug_above_it() {
        let identified = |text: &'static str, line: u32| {
            let mut finding = at(line);
            finding.identify(&crate::Sources::from_fn(move |_| Ok(text.to_owned())));
            finding
        };
        let baseline = Baseline::of(&[identified("a = 1;\nb = 2;\n", 2)], &sources());
        let split = |now| baseline.split(now, &sources());
        let now = "a = 1;\nc = 3;\nd = 4;\nb = 2;\n";
        let (known, new) = split(vec![identified(now, 2), identified(now, 4)]);
        let lines = |findings: &[Finding]| -> Vec<Option<u32>> {
            findings
                .iter()
                .map(|f| f.primary_frame().unwrap().line)
                .collect()
        };
        assert_eq!((lines(&known), lines(&new)), (vec![Some(4)], vec![Some(2)]));
        let (known, new) = split(vec![identified(now, 2)]);
        assert_eq!(
            (lines(&known), lines(&new)),
            (vec![], vec![Some(2)]),
            "b is fixed, c is new"
        );
    }

    #[test]
    fn a_warning_that_turns_out_to_be_a_bug_is_new() {
        let with = |severity| Finding { severity, ..at(7) };
        let known = |before, now| {
            let baseline = Baseline::of(&[with(before)], &sources());
            let baseline = Baseline::parse(&baseline.to_text()).unwrap();
            baseline.split(vec![with(now)], &sources()).1.is_empty()
        };
        assert!(!known(Severity::Warning, Severity::Bug));
        assert!(known(Severity::Bug, Severity::Warning));
        assert!(known(Severity::Bug, Severity::Bug));
        let text = Baseline::of(&[with(Severity::Warning)], &sources()).to_text();
        let without = text.replace("\"severity\":\"warning\",", "");
        assert_ne!(text, without);
        let old = Baseline::parse(&without).unwrap();
        assert!(
            old.split(vec![with(Severity::Bug)], &sources())
                .1
                .is_empty()
        );
    }

    /// Recovery fails if power is lost at a line and the stores of other lines are missing; it prints `said`.
    fn failure(point: u32, missing: &[u32], said: &str) -> Finding {
        let function = format!("point_{point}");
        let point = stack(role::FAILURE_POINT, vec![frame(&function, "kv.c", point)]);
        let store = |line: &u32| {
            let calls = vec![frame("put", "kv.c", *line), frame("main", "kv.c", 90)];
            stack(role::STORE_MISSING, calls)
        };
        let stacks = [point].into_iter().chain(missing.iter().map(store));
        let evidence = Evidence {
            details: [(Evidence::LAST_OUTPUT.to_owned(), said.to_owned())].into(),
            ..Evidence::default()
        };
        Finding::new(&FAILED_RULE, "recovery fails", stacks.collect(), evidence)
    }

    fn is_known(before: &[Finding], now: Finding) -> bool {
        let baseline = Baseline::parse(&Baseline::of(before, &sources()).to_text()).unwrap();
        baseline.split(vec![now], &sources()).1.is_empty()
    }

    #[test]
    fn a_failed_recovery_is_known_by_the_stores_that_make_the_difference() {
        let before = [failure(30, &[7], "rec 1"), failure(31, &[8], "rec 1")];
        assert!(is_known(&before, failure(30, &[7], "rec 2")));
        assert!(
            !is_known(&before, failure(30, &[9], "rec 1")),
            "another store"
        );
        assert!(!is_known(&before, failure(30, &[7, 9], "rec 1")));
        assert!(is_known(&before, failure(50, &[7], "x")), "another point");
        assert!(is_known(&before, failure(50, &[7, 8], "x")));
        assert!(!is_known(&before, failure(50, &[], "rec 1")));
    }

    #[test]
    fn without_stores_and_stack_the_output_distinguishes_failures() {
        let before = [failure(30, &[], "rec 1 is bad")];
        assert!(is_known(&before, failure(30, &[], "rec 12 is bad")));
        assert!(is_known(&before, failure(30, &[7], "rec 1 is bad")));
        assert!(!is_known(&before, failure(30, &[], "count 1 is bad")));
    }

    #[test]
    fn a_failed_recovery_with_a_cause_is_known_if_its_cause_is() {
        let cause = |line| finding_at(&WARNING_RULE, "kv.c", line);
        let before = [cause(7), failure(30, &[7], "bad")];
        let baseline = Baseline::of(&before, &sources());
        let new = |now: Vec<Finding>| baseline.split(now, &sources()).1.len();
        assert_eq!(new(before.to_vec()), 0);
        assert_eq!(new(vec![cause(7), failure(50, &[7], "worse")]), 0);
        // The same failure point and output, but another mistake.
        let other = finding_at(&FLUSH_RULE, "kv.c", 9);
        assert_eq!(new(vec![cause(7), other, failure(30, &[9], "bad")]), 2);
        // Until then, recovery had not shown that it is a bug.
        let warned = Baseline::of(&[cause(7)], &sources());
        assert_eq!(warned.split(before.to_vec(), &sources()).1.len(), 2);
    }

    #[test]
    fn the_file_does_not_depend_on_the_order() {
        assert_eq!(
            Baseline::of(&[at(7), at(9), at(7)], &sources()).to_text(),
            Baseline::of(&[at(9), at(7)], &sources()).to_text()
        );
        assert_eq!(
            Baseline::parse(&Baseline::default().to_text()).unwrap(),
            Baseline::default()
        );
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(
            Baseline::parse("[]"),
            Err(BaselineError::Syntax(_))
        ));
        let future = "{\"version\": 9, \"findings\": []}";
        assert!(matches!(
            Baseline::parse(future),
            Err(BaselineError::Version(9))
        ));
    }
}
