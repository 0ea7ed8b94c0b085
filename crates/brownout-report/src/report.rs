//! The findings of all analyses in a fixed order, duplicates merged. Findings with one cause are [joined](Report::join).

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::left_out::first_quoted;
use crate::{
    Baseline, Category, Conclusion, FailOn, Finding, FindingId, Frame, RuleInfo, Severity,
    SourceFix, Sources, StoredFile, Suppressions,
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
    /// What the baseline of an earlier run says about them.
    known_entries: Baseline,
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
    /// Mapped files that the target stores to and that were not judged: they were not taken for persistent.
    pub not_judged: Vec<String>,
    /// Ends of the target that count as success besides exit status 0, as options name them.
    pub accepted_ends: Vec<String>,
    /// The name of the persistency profile by which the trace was linted; `None` if it is not known.
    pub model: Option<String>,
    /// The patterns that select the persistent files; empty if they were found automatically.
    pub patterns: Vec<String>,
    /// The options of the crash test and of the configuration file, by which it can be repeated.
    pub crash_options: Vec<String>,
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
            known_entries: Baseline::default(),
        }
    }

    /// Notes how a finding can be repaired, in place of what was known before.
    pub fn set_fix(&mut self, id: &FindingId, fix: Option<SourceFix>) {
        if let Some(finding) = self.findings.iter_mut().find(|finding| finding.id == *id) {
            finding.fix = fix;
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

    /// Keeps what the results of an earlier run say about findings that its baseline contained: they are not gone.
    pub fn keep_known(&mut self, entries: Baseline) {
        self.known_entries = entries;
    }

    /// All findings, also those that are known, as a baseline.
    pub(crate) fn to_baseline(&self, sources: &Sources) -> Baseline {
        let mut alone = self.clone().separated();
        let known = std::mem::take(&mut alone.known);
        alone.findings.extend(known);
        Baseline::of(&alone.findings, sources).with_missing(&self.known_entries)
    }

    /// Joins findings with one cause, and puts crash findings under the findings that explain them. To be called when suppressions
    /// and the baseline have been applied: these look at each finding.
    pub fn join(&mut self) {
        let mut findings = join::join(std::mem::take(&mut self.findings));
        explain::explain(&mut findings);
        self.findings = ordered(join::join_crashes(findings));
    }

    /// The report with each of its joined findings on its own.
    pub fn separated(mut self) -> Self {
        let findings = std::mem::take(&mut self.findings).into_iter();
        self.findings = merged(findings.flat_map(Finding::separated).collect());
        self
    }

    /// Keeps the findings for which `keep` is true.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Finding) -> bool) {
        self.findings.retain(keep);
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

    /// A sentence for each file to which a notable share of the stores is never guaranteed, and one about files that were not judged.
    pub fn file_sentences(&self) -> impl Iterator<Item = String> {
        let files = self.subject.files.iter();
        let weights = files.filter_map(|file| file.weight(self.shown_path(&file.path)));
        weights.chain(self.not_judged_sentence())
    }

    fn not_judged_sentence(&self) -> Option<String> {
        let names = self.subject.not_judged.iter();
        let names: Vec<String> = names.map(|path| self.shown_path(path).to_owned()).collect();
        let why = match self.subject.patterns.is_empty() {
            true => "the program stores there and never flushes or syncs it; `--pm` selects files",
            false => "the program stores there, and no `--pm` matches",
        };
        let names = first_quoted(&names);
        (!names.is_empty()).then(|| format!("considered and not judged: {names}: {why}"))
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
        finding.is_crash_finding(),
        urgency,
        rule,
        location,
        finding.id.clone(),
    )
}

#[cfg(test)]
mod tests;
