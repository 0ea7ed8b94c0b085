//! What has changed between the findings of two runs.
//!
//! Findings are recognised as by a [`Baseline`]: by the text of their source lines, not by line numbers. A finding that has become
//! worse, such as a warning that crash testing has confirmed, is new. Of crash findings with one id, one store that makes the
//! difference in both runs suffices: how far a search narrows them down depends on the strategy. For the same reason a crash finding
//! is in both if one that is joined with it is.
//!
//! A finding of the earlier run is gone only if the later one would have shown it: its rule was applied, the run was
//! conclusive, and no [difference](RunDifference) between the runs can hide it. Otherwise it is *undecided*. One that the later run has
//! suppressed, or knew from its baseline, is in both.
//!
//! Can miss: differences that results do not record, such as the environment and the content of input files.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::failure_marks::FailureMarks;
use crate::{Baseline, Finding, FindingId, Report, RunDifference, Severity, Sources};

/// The findings of two runs, compared.
#[derive(Debug)]
pub struct FindingChanges {
    /// Those that only the later run has, or that are worse there.
    pub new: Report,
    /// Those of the later run that the earlier one has, too.
    pub common: Report,
    /// Those of the earlier run that the later one has, but suppressed or known from its baseline.
    pub hidden: Vec<(HiddenBy, Report)>,
    /// Those of the earlier run that the later one would have shown, and has not.
    pub gone: Report,
    /// Those of the earlier run that the later one has not shown, and need not have shown, by the reason.
    pub undecided: Vec<(String, Report)>,
}

/// What has become of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    New,
    Common,
    Gone,
    Undecided,
}

/// Why the later run does not list a finding that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HiddenBy {
    #[serde(rename = "suppressed")]
    Suppression,
    #[serde(rename = "known")]
    Baseline,
}

/// A finding with what has become of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChangedFinding<'a> {
    pub change: Change,
    /// Of a common finding that the later run does not list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenBy>,
    /// Why it is undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    #[serde(flatten)]
    pub finding: &'a Finding,
}

impl FindingChanges {
    /// Compares the findings of two runs, each with the baseline that was written with them: source lines may have changed since.
    pub fn between(
        before: (Report, &Baseline),
        after: (Report, &Baseline),
        differences: &[RunDifference],
        sources: &Sources,
    ) -> Self {
        let (known_before, known_after) = (before.1, after.1);
        let (before, after) = (before.0.separated(), after.0.separated());
        let mut new = only_later(&before, &after, known_before, sources);
        let mut missing = only_earlier(&before, &after, known_after, sources);
        missing.fail_on = after.fail_on;
        let found_after = ids(after.findings());
        let suppressed = suppressed(&after);
        let known = known_after.clone();
        let known = known.filtered(|_, id| !found_after.contains(id));
        let by_suppression = take_known(
            &mut missing,
            &Baseline::of(&suppressed, sources),
            &ids(&suppressed),
            sources,
        );
        let by_baseline = take_known(&mut missing, &known, &HashSet::new(), sources);

        let reason = |finding: &Finding| why_undecided(finding, &after, differences);
        let mut gone = missing.clone();
        gone.retain(|finding| reason(finding).is_none());
        let undecided = by_reason(&missing, reason);

        let new_ids = ids(new.findings());
        let mut common = after;
        common.retain(|finding| !new_ids.contains(&finding.id));
        for report in [&mut new, &mut common, &mut gone] {
            report.join();
        }
        let hidden = [
            (HiddenBy::Suppression, by_suppression),
            (HiddenBy::Baseline, by_baseline),
        ];
        Self {
            new,
            common,
            hidden: hidden.into_iter().map(joined).collect(),
            gone,
            undecided: undecided.into_iter().map(joined).collect(),
        }
    }

    /// All findings with what has become of them.
    pub fn all(&self) -> impl Iterator<Item = ChangedFinding<'_>> {
        let plain = [
            (Change::New, &self.new),
            (Change::Gone, &self.gone),
            (Change::Common, &self.common),
        ];
        let plain = plain.map(|(change, report)| (change, None, None, report));
        let undecided = self.undecided.iter();
        let undecided =
            undecided.map(|(why, report)| (Change::Undecided, None, Some(why.as_str()), report));
        let hidden = self.hidden.iter();
        let hidden = hidden.map(|(by, report)| (Change::Common, Some(*by), None, report));
        let all = plain.into_iter().chain(hidden).chain(undecided);
        all.flat_map(|(change, hidden, reason, report)| {
            let findings = report.findings().iter();
            findings.map(move |finding| ChangedFinding {
                change,
                hidden,
                reason,
                finding,
            })
        })
    }

    /// How many findings are in both runs, one for each cause.
    pub fn in_both(&self) -> usize {
        let hidden = self.hidden.iter().map(|(_, report)| report);
        let reports = hidden.chain([&self.common]);
        reports.map(|report| report.causes().count()).sum()
    }
}

/// The findings of the later run that the earlier one does not have, or not as bad.
fn only_later(before: &Report, after: &Report, known: &Baseline, sources: &Sources) -> Report {
    let suppressed = suppressed(before);
    let mut new = after.clone();
    new.compare_with(known, sources);
    new.compare_with(&Baseline::of(&suppressed, sources), sources);
    let marks = |finding: &Finding| FailureMarks::of(finding, sources);
    let earlier: HashMap<&FindingId, &Finding> = before
        .findings()
        .iter()
        .chain(&suppressed)
        .map(|finding| (&finding.id, finding))
        .collect();
    new.retain(|finding| {
        let earlier = earlier.get(&finding.id);
        let earlier = earlier.filter(|earlier| earlier.severity <= finding.severity);
        let marks = earlier.and_then(|earlier| Some((marks(earlier)?, marks(finding)?)));
        !marks.is_some_and(|(one, other)| one.shares_store_with(&other))
    });
    remove_joined_with_others(after.findings(), &mut new);
    new
}

/// The findings of the earlier run that the later one does not list.
fn only_earlier(before: &Report, after: &Report, known: &Baseline, sources: &Sources) -> Report {
    let found = ids(after.findings());
    let listed = known.clone().filtered(|_, id| found.contains(id));
    let mut missing = before.clone();
    missing.compare_with(&listed, sources);
    // One that is less severe now is not gone.
    missing.retain(|finding| !found.contains(&finding.id));
    remove_joined_with_others(before.findings(), &mut missing);
    missing
}

/// Removes crash findings from `rest` that are joined with one of `all` that is not in `rest` and at least as bad.
fn remove_joined_with_others(all: &[Finding], rest: &mut Report) {
    let left = ids(rest.findings());
    let mut decided: HashMap<&FindingId, Severity> = HashMap::new();
    for finding in all.iter().filter(|finding| finding.is_crash_finding()) {
        if let Some(group) = &finding.evidence.joined_before
            && !left.contains(&finding.id)
        {
            let worst = decided.entry(group).or_insert(finding.severity);
            *worst = finding.severity.min(*worst);
        }
    }
    rest.retain(|finding| {
        let group = finding.evidence.joined_before.as_ref();
        let worst = group.and_then(|group| decided.get(group));
        !(finding.is_crash_finding() && worst.is_some_and(|worst| *worst <= finding.severity))
    });
}

/// Removes the findings from `missing` that the baseline contains, or that have one of the ids, and returns them.
fn take_known(
    missing: &mut Report,
    baseline: &Baseline,
    ids_there: &HashSet<FindingId>,
    sources: &Sources,
) -> Report {
    let all = missing.clone();
    missing.compare_with(baseline, sources);
    missing.retain(|finding| !ids_there.contains(&finding.id));
    let left = ids(missing.findings());
    let mut known = all;
    known.retain(|finding| !left.contains(&finding.id));
    known
}

/// Why the later run need not have shown the finding; `None` if it would have.
fn why_undecided(
    finding: &Finding,
    after: &Report,
    differences: &[RunDifference],
) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    if after.rule(&finding.rule).is_none() {
        reasons.push("the later run did not apply the rule");
    }
    if !after.conclusion.is_conclusive() {
        reasons.push("the later run did not test everything");
    }
    let hiding = differences.iter().filter(|other| other.can_hide(finding));
    reasons.extend(hiding.map(|difference| difference.text.as_str()));
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The findings that have a reason, by the reason.
fn by_reason(
    missing: &Report,
    reason: impl Fn(&Finding) -> Option<String>,
) -> Vec<(String, Report)> {
    let mut reasons: Vec<String> = Vec::new();
    for why in missing.findings().iter().filter_map(&reason) {
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    let with_findings = reasons.into_iter().map(|why| {
        let mut report = missing.clone();
        report.retain(|finding| reason(finding).as_ref() == Some(&why));
        (why, report)
    });
    with_findings.collect()
}

fn joined<T>((label, mut report): (T, Report)) -> (T, Report) {
    report.join();
    (label, report)
}

fn suppressed(report: &Report) -> Vec<Finding> {
    let suppressed = report.suppressed().iter();
    suppressed.map(|other| other.finding.clone()).collect()
}

fn ids(findings: &[Finding]) -> HashSet<FindingId> {
    findings.iter().map(|finding| finding.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FAILED_RULE, FLUSH_RULE, WARNING_RULE, finding_at, frame, stack};
    use crate::{
        Conclusion, Evidence, Hides, Reason, Reasons, RunEnd, Severity, Subject, Suppressed, role,
    };

    fn report(findings: Vec<Finding>) -> Report {
        let rules = vec![FLUSH_RULE, WARNING_RULE];
        Report::new(Subject::default(), rules, findings)
    }

    fn compared(before: Report, after: Report, differences: &[RunDifference]) -> FindingChanges {
        let sources = Sources::from_fn(|_| Err(std::io::ErrorKind::NotFound.into()));
        let known = [&before, &after].map(|report| report.to_baseline(&sources));
        let (before, after) = ((before, &known[0]), (after, &known[1]));
        FindingChanges::between(before, after, differences, &sources)
    }

    fn shown(changes: &FindingChanges) -> Vec<(Change, String)> {
        let all = changes.all();
        all.map(|changed| (changed.change, changed.finding.message.clone()))
            .collect()
    }

    fn changes(before: Vec<Finding>, after: Report) -> Vec<(Change, String)> {
        shown(&compared(report(before), after, &[]))
    }

    fn named(rule: &crate::RuleInfo, line: u32, message: &str) -> Finding {
        Finding {
            message: message.to_owned(),
            ..finding_at(rule, "kv.c", line)
        }
    }

    #[test]
    fn findings_are_new_gone_or_in_both() {
        let before = vec![named(&FLUSH_RULE, 1, "one"), named(&FLUSH_RULE, 9, "two")];
        let after = vec![
            named(&FLUSH_RULE, 9, "two"),
            named(&WARNING_RULE, 5, "three"),
        ];
        let expected = [
            (Change::New, "three".to_owned()),
            (Change::Gone, "one".to_owned()),
            (Change::Common, "two".to_owned()),
        ];
        assert_eq!(changes(before, report(after)), expected);
    }

    #[test]
    fn what_was_not_tested_again_is_not_gone() {
        let failed = || vec![named(&FAILED_RULE, 3, "fails")];
        let undecided = [(Change::Undecided, "fails".to_owned())];
        assert_eq!(
            changes(failed(), report(Vec::new())),
            undecided,
            "no such rule"
        );

        let mut unfinished = report(Vec::new());
        unfinished.conclusion = Conclusion {
            end: RunEnd::NothingTested,
            reasons: Reasons(vec![Reason::other("it was killed")]),
            ..Conclusion::default()
        };
        let flush = vec![named(&FLUSH_RULE, 3, "lost")];
        let undecided = [(Change::Undecided, "lost".to_owned())];
        assert_eq!(changes(flush, unfinished), undecided, "not conclusive");
    }

    #[test]
    fn a_finding_that_becomes_worse_is_new_and_one_that_becomes_better_is_not_gone() {
        let with = |severity| Finding {
            severity,
            ..named(&WARNING_RULE, 4, "open")
        };
        let worse = changes(
            vec![with(Severity::Warning)],
            report(vec![with(Severity::Bug)]),
        );
        assert_eq!(worse, [(Change::New, "open".to_owned())]);
        let better = changes(
            vec![with(Severity::Bug)],
            report(vec![with(Severity::Warning)]),
        );
        assert_eq!(better, [(Change::Common, "open".to_owned())]);
    }

    #[test]
    fn a_difference_between_the_runs_decides_nothing_that_it_can_hide() {
        let crash_rules = |findings| {
            let rules = vec![FLUSH_RULE, FAILED_RULE];
            Report::new(Subject::default(), rules, findings)
        };
        let before = || crash_rules(vec![named(&FLUSH_RULE, 1, "lost"), failure(&[7])]);
        let with = |hides| {
            let difference = RunDifference::new(hides, "it differs");
            let changes = compared(before(), crash_rules(Vec::new()), &[difference]);
            let all = changes.all();
            let found = all.map(|changed| {
                let reason = changed.reason.map(str::to_owned);
                (changed.change, changed.finding.rule.clone(), reason)
            });
            let mut found: Vec<_> = found.collect();
            found.sort_by(|one, other| one.1.cmp(&other.1));
            found
        };
        let why = Some("it differs".to_owned());
        let flush = || FLUSH_RULE.id.to_owned();
        let failed = (Change::Undecided, FAILED_RULE.id.to_owned(), why.clone());
        let expected = [(Change::Gone, flush(), None), failed.clone()];
        assert_eq!(with(Hides::CrashFindings), expected);
        let expected = [(Change::Undecided, flush(), why), failed];
        assert_eq!(with(Hides::AnyFinding), expected);
    }

    #[test]
    fn what_is_suppressed_or_known_in_one_run_is_in_both() {
        let lost = || named(&FLUSH_RULE, 3, "lost");
        let plain = || report(vec![lost()]);
        let suppressed = || {
            report(Vec::new()).with_suppressed(vec![Suppressed {
                finding: lost(),
                reason: "accepted".to_owned(),
            }])
        };
        let known = || {
            let sources = Sources::from_fn(|_| Err(std::io::ErrorKind::NotFound.into()));
            let mut known = plain();
            known.compare_with(&Baseline::of(&[lost()], &sources), &sources);
            known
        };
        let cases = [
            (suppressed(), HiddenBy::Suppression),
            (known(), HiddenBy::Baseline),
        ];
        for (after, by) in cases {
            let changes = compared(plain(), after.clone(), &[]);
            let all: Vec<_> = changes.all().map(|one| (one.change, one.hidden)).collect();
            assert_eq!(all, [(Change::Common, Some(by))]);
            assert_eq!(changes.in_both(), 1);
            let back = compared(after, plain(), &[]);
            assert_eq!(shown(&back), [(Change::Common, "lost".to_owned())]);
        }
    }

    /// Recovery fails at one failure point if the stores of these lines are missing.
    fn failure(missing: &[u32]) -> Finding {
        let point = stack(role::FAILURE_POINT, vec![frame("put", "kv.c", 30)]);
        let store = |line: &u32| stack(role::STORE_MISSING, vec![frame("put", "kv.c", *line)]);
        let stacks = [point].into_iter().chain(missing.iter().map(store));
        Finding::new(&FAILED_RULE, "fails", stacks.collect(), Evidence::default())
    }

    #[test]
    fn a_failure_that_was_narrowed_down_to_other_stores_is_in_both() {
        let run = |missing: &[u32]| {
            let rules = vec![FAILED_RULE];
            Report::new(Subject::default(), rules, vec![failure(missing)])
        };
        let change = |before: &[u32], after: &[u32]| shown(&compared(run(before), run(after), &[]));
        let fails = |change| [(change, "fails".to_owned())];
        assert_eq!(change(&[17], &[16, 17]), fails(Change::Common));
        assert_eq!(change(&[16, 17], &[17]), fails(Change::Common));
        assert_eq!(change(&[16], &[17]), fails(Change::New), "another mistake");
    }

    #[test]
    fn a_crash_finding_is_in_both_if_one_that_is_joined_with_it_is() {
        let at = |line: u32| {
            let point = stack(role::FAILURE_POINT, vec![frame("put", "kv.c", line)]);
            let store = stack(role::STORE_MISSING, vec![frame("put", "kv.c", 7)]);
            let evidence = Evidence {
                joined_before: Some(FindingId("group".to_owned())),
                ..Evidence::default()
            };
            Finding::new(&FAILED_RULE, "fails", vec![point, store], evidence)
        };
        let other = |line: u32| Finding {
            stacks: vec![stack(role::FAILURE_POINT, vec![frame("put", "kv.c", line)])],
            ..at(line)
        };
        let run = |findings| Report::new(Subject::default(), vec![FAILED_RULE], findings);
        let (one, two) = (vec![at(30)], vec![at(30), other(31)]);
        let kinds = |before: &Vec<Finding>, after: &Vec<Finding>| {
            let changes = compared(run(before.clone()), run(after.clone()), &[]);
            let mut kinds: Vec<Change> = changes.all().map(|one| one.change).collect();
            kinds.dedup();
            kinds
        };
        assert_eq!(kinds(&one, &two), [Change::Common]);
        assert_eq!(kinds(&two, &one), [Change::Common]);
        let mut alone = other(31);
        alone.evidence.joined_before = None;
        let apart = vec![at(30), alone];
        assert!(kinds(&one, &apart).contains(&Change::New));
    }
}
