//! The findings of all analyses in a fixed order, duplicates merged. Findings with one cause are [joined](Report::join).

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    Baseline, Category, Conclusion, FailOn, Finding, FindingId, Frame, RuleInfo, Severity, Sources,
    StoredFile, Suppressions,
};
use crate::{explain, join};

/// Everything that an output format can show.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub subject: Subject,
    /// How the run ended.
    pub conclusion: Conclusion,
    /// The rules that were applied, whether they found anything or not.
    pub rules: Vec<RuleInfo>,
    /// Which findings make the check fail.
    pub fail_on: FailOn,
    /// Sorted, no two with the same id.
    findings: Vec<Finding>,
    suppressed: Vec<Suppressed>,
    known: Vec<Finding>,
    /// Findings known from the baseline of which only the number is left.
    known_before: usize,
}

/// What was examined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The target and its arguments.
    pub command: Vec<String>,
    /// Paths below this directory are shown relative to it.
    pub directory: Option<String>,
    /// What could not be examined, one sentence each.
    pub gaps: Vec<String>,
    /// The persistent files, as far as rules were applied to the stores to them.
    pub files: Vec<StoredFile>,
    /// Ends of the target that count as success besides exit status 0, as options name them.
    pub accepted_ends: Vec<String>,
}

/// A finding that the user has suppressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suppressed {
    pub finding: Finding,
    pub reason: String,
}

impl Report {
    pub fn new(subject: Subject, rules: Vec<RuleInfo>, findings: Vec<Finding>) -> Self {
        Self {
            subject,
            conclusion: Conclusion::default(),
            rules,
            fail_on: FailOn::default(),
            findings: merged(findings),
            suppressed: Vec::new(),
            known: Vec::new(),
            known_before: 0,
        }
    }

    /// The findings that are neither suppressed nor known from a baseline.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub fn suppressed(&self) -> &[Suppressed] {
        &self.suppressed
    }

    /// Findings that are also in the baseline.
    pub fn known(&self) -> &[Finding] {
        &self.known
    }

    /// How many findings are also in the baseline.
    pub fn known_count(&self) -> usize {
        self.known.len() + self.known_before
    }

    /// How many findings an earlier run knew from the baseline, of which nothing else is left.
    pub(crate) fn known_before(&self) -> usize {
        self.known_before
    }

    /// Adds findings that the baseline contained in an earlier run.
    pub fn with_known(mut self, count: usize) -> Self {
        self.known_before += count;
        self
    }

    /// Joins findings with one cause, and puts crash findings under the findings that explain them. To be called when suppressions
    /// and the baseline have been applied: these look at each finding.
    pub fn join(&mut self) {
        let mut findings = join::join(std::mem::take(&mut self.findings));
        explain::explain(&mut findings);
        self.findings = ordered(join::join_crashes(findings));
    }

    /// The findings that no other finding of the report explains: one for each cause.
    pub fn causes(&self) -> impl Iterator<Item = &Finding> {
        let ids: HashSet<&FindingId> = self.findings.iter().map(|finding| &finding.id).collect();
        self.findings
            .iter()
            .filter(move |finding| !finding.cause.as_ref().is_some_and(|id| ids.contains(id)))
    }

    /// The crash findings that a finding explains.
    pub fn explained_by(&self, cause: &Finding) -> impl Iterator<Item = &Finding> {
        let id = &cause.id;
        self.findings
            .iter()
            .filter(move |finding| finding.cause.as_ref() == Some(id))
    }

    pub fn bugs(&self) -> impl Iterator<Item = &Finding> {
        self.of(Severity::Bug)
    }

    /// Findings of other severities than [`Severity::Bug`].
    pub fn lesser(&self) -> impl Iterator<Item = &Finding> {
        self.causes()
            .filter(|finding| finding.severity != Severity::Bug)
    }

    /// Whether this finding makes the check fail.
    pub fn fails_on(&self, finding: &Finding) -> bool {
        self.fail_on.is_reached_by(finding.severity)
    }

    /// Whether any finding makes the check fail.
    pub fn fails(&self) -> bool {
        self.findings.iter().any(|finding| self.fails_on(finding))
    }

    /// The findings of a severity, without those that others explain.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.causes()
            .filter(move |finding| finding.severity == severity)
    }

    /// Moves suppressed findings out of [`findings`](Self::findings), and marks the suppressions that were used.
    pub fn suppress(&mut self, suppressions: &mut Suppressions, sources: &Sources) {
        for finding in std::mem::take(&mut self.findings) {
            match suppressions.reason_for(&finding, sources) {
                Some(reason) => self.suppressed.push(Suppressed { finding, reason }),
                None => self.findings.push(finding),
            }
        }
    }

    /// Adds findings that were suppressed before.
    pub fn with_suppressed(mut self, suppressed: Vec<Suppressed>) -> Self {
        self.suppressed.extend(suppressed);
        self
    }

    /// Moves findings that the baseline contains out of [`findings`](Self::findings).
    pub fn compare_with(&mut self, baseline: &Baseline, sources: &Sources) {
        let (known, new) = baseline.split(std::mem::take(&mut self.findings), sources);
        self.findings = new;
        self.known.extend(known);
    }

    /// The rules that have findings, also those whose findings are joined with others.
    pub(crate) fn rules_with_findings(&self) -> BTreeSet<&str> {
        let rules = self.findings.iter().flat_map(|finding| {
            let joined = finding.evidence.joined.iter();
            let joined = joined.map(|other| other.rule.as_str());
            joined.chain([finding.rule.as_str()])
        });
        rules.filter(|rule| !rule.is_empty()).collect()
    }

    /// The description of a rule.
    pub fn rule(&self, id: &str) -> Option<&RuleInfo> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// A path as shown to people: relative to the subject's directory if it is below it.
    pub fn shown_path<'a>(&self, path: &'a str) -> &'a str {
        self.subject
            .directory
            .as_deref()
            .and_then(|directory| path.strip_prefix(directory.trim_end_matches('/')))
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|rest| !rest.is_empty())
            .unwrap_or(path)
    }

    /// A sentence for each file to which a notable share of the stores is never guaranteed.
    pub fn weights(&self) -> impl Iterator<Item = String> {
        let files = self.subject.files.iter();
        files.filter_map(|file| file.weight(self.shown_path(&file.path)))
    }

    /// A frame with its path shortened.
    pub(crate) fn shown_frame(&self, frame: &Frame) -> Frame {
        Frame {
            file: frame
                .file
                .as_deref()
                .map(|file| self.shown_path(file).into()),
            ..frame.clone()
        }
    }
}

/// Merges findings with the same id: the counts are added, and the evidence of the earliest is kept.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut indices: HashMap<FindingId, usize> = HashMap::new();
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match indices.get(&finding.id) {
            Some(&at) => merged[at].absorb(finding),
            None => {
                indices.insert(finding.id.clone(), merged.len());
                merged.push(finding);
            }
        }
    }
    ordered(merged)
}

/// Sorts findings. A finding that another one explains follows it.
fn ordered(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_cached_key(order);
    let ids: HashSet<FindingId> = findings.iter().map(|finding| finding.id.clone()).collect();
    let mut explained: HashMap<FindingId, Vec<Finding>> = HashMap::new();
    let mut causes = Vec::with_capacity(findings.len());
    for finding in findings {
        match &finding.cause {
            Some(cause) if ids.contains(cause) => {
                explained.entry(cause.clone()).or_default().push(finding);
            }
            _ => causes.push(finding),
        }
    }
    let mut sorted = Vec::new();
    for cause in causes {
        let effects = explained.remove(&cause.id);
        sorted.push(cause);
        sorted.extend(effects.into_iter().flatten());
    }
    sorted
}

impl Finding {
    fn absorb(&mut self, mut other: Self) {
        let count = self.count.saturating_add(other.count);
        let related = other
            .evidence
            .same_object
            .iter()
            .chain(&self.evidence.same_object);
        let related: Vec<FindingId> = related.cloned().collect();
        if other.first_event() < self.first_event() {
            std::mem::swap(self, &mut other);
        }
        self.count = count;
        self.evidence.same_object = related;
        self.adopt_confirmation(&other);
    }

    pub(crate) fn first_event(&self) -> u64 {
        self.evidence
            .events
            .iter()
            .min()
            .copied()
            .unwrap_or(u64::MAX)
    }
}

/// Of the findings of a severity, those about bytes that recovery reads come first if they are warnings, and those about bytes that it
/// never reads come last, unless it fails because of them.
fn concern(finding: &Finding) -> u8 {
    match (finding.severity, finding.read_by_recovery) {
        _ if finding.confirmed == Some(true) => 1,
        (Severity::Warning, Some(true)) => 0,
        (_, Some(false)) => 2,
        _ => 1,
    }
}

/// Findings that endanger data come first, those that name the mistake before those that show its consequences; then findings are
/// ordered by source location.
fn order(finding: &Finding) -> (Severity, u8, bool, u8, String, Option<Frame>, FindingId) {
    let urgency = match finding.category {
        Category::Durability => 0,
        Category::Ordering => 1,
        Category::Atomicity => 2,
        Category::Race => 3,
        Category::Performance => 4,
    };
    let location = finding.primary_frame().map(|frame| Frame {
        // Order by file, not by function or offset.
        function: None,
        offset: 0,
        ..frame.clone()
    });
    let rule = finding.rule.clone();
    (
        finding.severity,
        concern(finding),
        finding.is_of_crash_testing(),
        urgency,
        rule,
        location,
        finding.id.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FENCE_RULE, FLUSH_RULE, finding, finding_at, stack};
    use crate::stack::role;

    fn ids(report: &Report) -> Vec<String> {
        let source = |finding: &Finding| finding.primary_frame().and_then(Frame::source).unwrap();
        report
            .findings()
            .iter()
            .map(|f| format!("{} {}", f.rule, source(f)))
            .collect()
    }

    #[test]
    fn the_order_does_not_depend_on_that_of_the_analysis() {
        let findings = [
            finding_at(&FENCE_RULE, "kv.c", 9),
            finding_at(&FLUSH_RULE, "kv.c", 12),
            finding_at(&FLUSH_RULE, "kv.c", 7),
            finding_at(&FLUSH_RULE, "a.c", 70),
        ];
        let forward = Report::new(Subject::default(), vec![], findings.to_vec());
        let backward = findings.into_iter().rev().collect();
        let backward = Report::new(Subject::default(), vec![], backward);
        assert_eq!(
            ids(&forward),
            [
                "missing-flush a.c:70",
                "missing-flush kv.c:7",
                "missing-flush kv.c:12",
                "redundant-fence kv.c:9"
            ]
        );
        assert_eq!(ids(&forward), ids(&backward));
    }

    #[test]
    fn equal_findings_are_counted_and_the_first_is_kept() {
        let mut late = finding();
        late.count = 3;
        late.evidence.events = vec![900];
        let mut early = finding();
        early.count = 2;
        early.evidence.events = vec![5];
        let report = Report::new(Subject::default(), vec![], vec![late, early]);
        assert_eq!(report.findings().len(), 1);
        assert_eq!(report.findings()[0].count, 5);
        assert_eq!(report.findings()[0].evidence.events, [5]);
    }

    #[test]
    fn an_explained_finding_follows_its_cause_and_is_not_counted() {
        let lint = finding_at(&FLUSH_RULE, "kv.c", 70);
        let point = finding_at(&FLUSH_RULE, "kv.c", 7).stacks.remove(0).frames;
        let stacks = vec![
            stack(role::FAILURE_POINT, point),
            stack(role::STORE_MISSING, lint.stacks[0].frames.clone()),
        ];
        let mut crash = finding_at(&FLUSH_RULE, "kv.c", 7);
        crash.rule = "recovery-failed".into();
        crash.stacks = stacks;
        crash.id = FindingId("0".into());
        let other = finding_at(&FLUSH_RULE, "z.c", 1);
        let findings = vec![crash, lint.clone(), other];
        let mut report = Report::new(Subject::default(), vec![], findings);
        report.join();
        let rules: Vec<&str> = report.findings().iter().map(|f| f.rule.as_str()).collect();
        assert_eq!(rules, ["missing-flush", "recovery-failed", "missing-flush"]);
        assert_eq!(report.bugs().count(), 2);
        let explained: Vec<_> = report.explained_by(&report.findings()[0]).collect();
        assert_eq!(explained.len(), 1);
        assert_eq!(explained[0].cause, Some(lint.id));
        let again = Report::new(Subject::default(), vec![], report.findings().to_vec());
        assert_eq!(again.findings(), report.findings());
    }

    #[test]
    fn one_confirmed_finding_confirms_those_counted_with_it() {
        let tried = |confirmed, event, token: &str| {
            let mut tried = finding();
            tried.confirmed = confirmed;
            tried.evidence.events = vec![event];
            tried.replay = Some(token.to_owned());
            tried
        };
        let merged = |one, other| {
            let findings = vec![tried(one, 5, "first"), tried(other, 900, "second")];
            let report = Report::new(Subject::default(), vec![], findings);
            let merged = report.findings()[0].clone();
            (merged.confirmed, merged.replay.unwrap())
        };
        let first = || "first".to_owned();
        assert_eq!(
            merged(Some(false), Some(true)),
            (Some(true), "second".to_owned())
        );
        assert_eq!(merged(Some(true), None), (Some(true), first()));
        assert_eq!(merged(Some(false), Some(false)), (Some(false), first()));
        assert_eq!(merged(Some(false), None), (None, first()));
    }

    #[test]
    fn what_recovery_reads_decides_the_order_of_a_severity() {
        let at = |line, severity, read| {
            let mut finding = finding_at(&FLUSH_RULE, "kv.c", line);
            finding.severity = severity;
            finding.read_by_recovery = read;
            finding
        };
        let mut confirmed = at(3, Severity::Bug, Some(false));
        confirmed.confirmed = Some(true);
        let findings = vec![
            at(1, Severity::Bug, Some(false)),
            at(2, Severity::Bug, None),
            confirmed,
            at(4, Severity::Bug, Some(true)),
            at(5, Severity::Warning, None),
            at(6, Severity::Warning, Some(false)),
            at(7, Severity::Warning, Some(true)),
        ];
        let report = Report::new(Subject::default(), vec![], findings);
        let lines = report.findings().iter().map(|finding| {
            let frame = finding.primary_frame().unwrap();
            frame.line.unwrap()
        });
        assert_eq!(lines.collect::<Vec<_>>(), [2, 3, 4, 1, 7, 5, 6]);
    }

    #[test]
    fn findings_counted_as_one_are_unread_only_if_all_are() {
        let merged = |one, other| {
            let findings = [one, other].map(|read| {
                let mut finding = finding();
                finding.read_by_recovery = read;
                finding
            });
            let report = Report::new(Subject::default(), vec![], findings.to_vec());
            report.findings()[0].read_by_recovery
        };
        assert_eq!(merged(Some(false), Some(true)), Some(true));
        assert_eq!(merged(Some(false), Some(false)), Some(false));
        assert_eq!(merged(Some(false), None), None);
    }

    #[test]
    fn paths_below_the_directory_are_shown_relative_to_it() {
        let mut report = Report::default();
        report.subject.directory = Some("/home/u/project/".into());
        assert_eq!(report.shown_path("/home/u/project/src/kv.c"), "src/kv.c");
        assert_eq!(
            report.shown_path("/home/u/project2/kv.c"),
            "/home/u/project2/kv.c"
        );
        assert_eq!(report.shown_path("kv.c"), "kv.c");
    }
}
