//! What is a mismatch, and what is not.

use super::*;
use crate::annotation;
use crate::build::{Compiler, Level};
use crate::finding::{ReportedEvidence, ReportedJoin, ReportedSeverity};

const SOURCE: &str = "/corpus/clean/a.c";

fn frame(file: &str, line: u32) -> ReportedFrame {
    ReportedFrame {
        function: None,
        file: Some(file.into()),
        line: Some(line),
    }
}

fn finding(rule: &str, frames: Vec<ReportedFrame>) -> ReportedFinding {
    ReportedFinding {
        rule: rule.to_owned(),
        severity: ReportedSeverity::Bug,
        message: "m".to_owned(),
        stacks: vec![ReportedStack {
            role: String::new(),
            frames,
        }],
        confirmed: None,
        cause: None,
        evidence: ReportedEvidence::default(),
    }
}

fn found(rule: &str, line: u32) -> ReportedFinding {
    finding(rule, vec![frame(SOURCE, line)])
}

fn compare_with(text: &str, findings: &[ReportedFinding]) -> Vec<Mismatch> {
    let annotations = annotation::parse(text).unwrap();
    let build = Build {
        compiler: Compiler::Gcc,
        level: Level::O0,
        variant: Some("clwb".to_owned()),
    };
    compare(Path::new(SOURCE), &annotations, &build, findings)
}

fn missing(line: u32, rule: &str) -> Mismatch {
    let rule = rule.to_owned();
    Mismatch::Missing { line, rule }
}

fn unexpected(line: Option<u32>, rule: &str) -> Mismatch {
    Mismatch::Unexpected {
        line,
        rule: rule.to_owned(),
        message: "m".to_owned(),
    }
}

#[test]
fn what_is_expected_and_found_is_no_mismatch() {
    assert_eq!(
        compare_with("x; // expect: a, b\n", &[found("b", 1), found("a", 1)]),
        []
    );
    assert_eq!(compare_with("x;\n", &[]), []);
}

#[test]
fn an_annotation_without_a_finding_fails() {
    assert_eq!(compare_with("x; // expect: a\n", &[]), [missing(1, "a")]);
    assert_eq!(compare_with("x; // expect: a+\n", &[]), [missing(1, "a")]);
}

#[test]
fn a_finding_without_an_annotation_fails() {
    assert_eq!(
        compare_with("x;\n", &[found("a", 1)]),
        [unexpected(Some(1), "a")]
    );
}

#[test]
fn the_wrong_line_fails_both_ways() {
    assert_eq!(
        compare_with("x; // expect: a\ny;\n", &[found("a", 2)]),
        [missing(1, "a"), unexpected(Some(2), "a")]
    );
}

#[test]
fn one_is_not_two_unless_said() {
    let twice = [found("a", 1), found("a", 1)];
    assert_eq!(
        compare_with("x; // expect: a\n", &twice),
        [Mismatch::TooMany {
            line: 1,
            rule: "a".to_owned(),
            found: 2
        }]
    );
    assert_eq!(compare_with("x; // expect: a+\n", &twice), []);
}

#[test]
fn a_finding_belongs_where_the_program_calls_a_library() {
    let inside = finding(
        "a",
        vec![frame("/usr/lib/x.c", 9), frame(SOURCE, 2), frame(SOURCE, 1)],
    );
    assert_eq!(compare_with("x;\ny; // expect: a\n", &[inside]), []);
}

#[test]
fn a_finding_outside_of_the_program_is_never_expected() {
    let outside = finding("a", vec![frame("/usr/lib/x.c", 1)]);
    assert_eq!(
        compare_with("x; // expect: a\n", &[outside]),
        [unexpected(None, "a"), missing(1, "a")]
    );
}

#[test]
fn annotations_for_other_builds_do_not_count() {
    let text = "x; // expect[clwb]: a // expect[clang]: b\n";
    assert_eq!(compare_with(text, &[found("a", 1)]), []);
    assert_eq!(
        compare_with(text, &[found("a", 1), found("b", 1)]),
        [unexpected(Some(1), "b")]
    );
}

#[test]
fn a_store_that_recovery_misses_is_named_where_that_is_written() {
    let text = "x; // expect: a\ny; // missing-store: a\nz;\n";
    let naming = |line: u32| {
        let mut finding = found("a", 1);
        finding.stacks.push(ReportedStack {
            role: MISSING_STORE.to_owned(),
            frames: vec![frame(SOURCE, line)],
        });
        finding
    };
    assert_eq!(compare_with(text, &[naming(2)]), []);
    let rule = || "a".to_owned();
    let not_named = Mismatch::StoreNotNamed {
        line: 2,
        rule: rule(),
    };
    let named = Mismatch::StoreNamed {
        line: Some(3),
        rule: rule(),
    };
    assert_eq!(compare_with(text, &[naming(3)]), [not_named, named]);
    assert_eq!(compare_with(text, &[found("a", 1)]).len(), 1);
}

#[test]
fn what_recovery_confirms_is_distinguished_from_what_it_does_not() {
    let proved = || ReportedFinding {
        confirmed: Some(true),
        ..found("a", 1)
    };
    let (line, rule) = (1, "a".to_owned());
    assert_eq!(compare_with("x; // confirmed: a\n", &[proved()]), []);
    assert_eq!(
        compare_with("x; // confirmed: a\n", &[found("a", 1)]),
        [Mismatch::NotConfirmed {
            line,
            rule: rule.clone()
        }]
    );
    assert_eq!(
        compare_with("x; // expect: a\n", &[proved()]),
        [Mismatch::Confirmed { line, rule }]
    );
    assert_eq!(compare_with("x; // confirmed: a\n", &[]), [missing(1, "a")]);
}

/// A finding of rule `a` at line 1, with which one of `rule` at `line` is joined.
fn joined(rule: &str, line: u32) -> ReportedFinding {
    let other = ReportedJoin {
        rule: rule.to_owned(),
        confirmed: None,
        frames: vec![frame(SOURCE, line)],
    };
    let mut finding = found("a", 1);
    finding.evidence.joined = vec![other];
    finding
}

#[test]
fn a_joined_finding_is_expected_at_its_own_line() {
    let text = "x; // expect: a\ny; // expect: b\n";
    assert_eq!(compare_with(text, &[joined("b", 2)]), []);
    assert_eq!(compare_with(text, &[found("a", 1)]), [missing(2, "b")]);
    assert_eq!(
        compare_with("x; // expect: a\ny;\n", &[joined("b", 2)]),
        [unexpected(Some(2), "b")]
    );
    let other_stack = joined("a", 1);
    assert_eq!(compare_with("x; // expect: a\n", &[other_stack]), []);
}

#[test]
fn joined_and_explained_findings_are_no_causes_of_their_own() {
    let explained = ReportedFinding {
        cause: Some("id".to_owned()),
        ..found("c", 3)
    };
    let findings = [joined("b", 2), explained];
    assert_eq!(compare_causes(Some(1), &findings), None);
    assert_eq!(compare_causes(None, &findings), None);
    let (expected, found) = (2, 1);
    assert_eq!(
        compare_causes(Some(2), &findings),
        Some(Mismatch::Causes { expected, found })
    );
}

#[test]
fn a_known_miss_that_is_found_is_reported() {
    let text = "x; // known-miss: a needs more\n";
    assert_eq!(compare_with(text, &[]), []);
    let rule = "a".to_owned();
    assert_eq!(
        compare_with(text, &[found("a", 1)]),
        [Mismatch::NoLongerMissed { line: 1, rule }]
    );
}
