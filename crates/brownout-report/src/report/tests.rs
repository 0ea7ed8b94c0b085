//! The order of findings, and what is counted as one.

use super::*;
use crate::samples::{FAILED_RULE, FENCE_RULE, FLUSH_RULE, finding, finding_at, stack};
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
    let mut crash = finding_at(&FAILED_RULE, "kv.c", 7);
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
