//! Matches findings with annotations, in both directions.
//!
//! A finding belongs to the first frame of its first stack that lies in the program's source file. Findings that are joined with it
//! belong to their own lines and rules, as if they were reported alone. Each annotation that
//! applies to the build matches the findings of its rule on its line; what remains on either side is a [`Mismatch`]. A
//! store that a finding reports as missing in recovery is a mismatch too, unless an annotation names it. Where a program says of how
//! many findings it is the cause, joined ones count as one, and those that another one explains do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::annotation::{Annotation, Claim};
use crate::build::Build;
use crate::finding::{ReportedFinding, ReportedFrame, ReportedStack};

/// The role of a store without which recovery does not pass, in a finding of crash testing.
const MISSING_STORE: &str = "store that is missing";

/// A place where program and brownout disagree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// A finding that no annotation expects; no line if the program's source is not in the stack.
    Unexpected {
        line: Option<u32>,
        rule: String,
        message: String,
    },
    /// An annotation without a finding.
    Missing { line: u32, rule: String },
    /// Several findings where one is expected.
    TooMany {
        line: u32,
        rule: String,
        found: usize,
    },
    /// A finding that recovery should confirm and does not.
    NotConfirmed { line: u32, rule: String },
    /// A finding that recovery confirms, where that is not written.
    Confirmed { line: u32, rule: String },
    /// What was known to be missed is found.
    NoLongerMissed { line: u32, rule: String },
    /// A store that recovery misses, and no finding says so.
    StoreNotNamed { line: u32, rule: String },
    /// A store that a finding says recovery misses, where that is not written.
    StoreNamed { line: Option<u32>, rule: String },
    /// The findings are more or fewer than the program says it has causes.
    Causes { expected: usize, found: usize },
}

impl Mismatch {
    pub fn line(&self) -> Option<u32> {
        match *self {
            Mismatch::Unexpected { line, .. } | Mismatch::StoreNamed { line, .. } => line,
            Mismatch::Missing { line, .. }
            | Mismatch::TooMany { line, .. }
            | Mismatch::NotConfirmed { line, .. }
            | Mismatch::Confirmed { line, .. }
            | Mismatch::NoLongerMissed { line, .. }
            | Mismatch::StoreNotNamed { line, .. } => Some(line),
            Mismatch::Causes { .. } => None,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Unexpected { rule, message, .. } => {
                write!(out, "unexpected {rule}: {message}")
            }
            Mismatch::Missing { rule, .. } => write!(out, "{rule} is expected and not found"),
            Mismatch::TooMany { rule, found, .. } => {
                write!(out, "{rule} is found {found} times, expected once")
            }
            Mismatch::NotConfirmed { rule, .. } => {
                write!(out, "{rule} is found, and recovery does not confirm it")
            }
            Mismatch::Confirmed { rule, .. } => {
                write!(out, "recovery confirms {rule}: make it `confirmed`")
            }
            Mismatch::NoLongerMissed { rule, .. } => {
                write!(out, "{rule} is a known miss and found: make it `expect`")
            }
            Mismatch::StoreNotNamed { rule, .. } => {
                write!(out, "{rule} does not name this store as missing")
            }
            Mismatch::StoreNamed { rule, .. } => {
                write!(out, "{rule} names this store as missing, unexpectedly")
            }
            Mismatch::Causes { expected, found } => {
                write!(out, "{expected} causes are expected, and {found} reported")
            }
        }
    }
}

/// The line of `source` that a finding belongs to.
pub fn line_of(finding: &ReportedFinding, source: &Path) -> Option<u32> {
    line_of_frames(&finding.stacks.first()?.frames, source)
}

fn line_of_frames(frames: &[ReportedFrame], source: &Path) -> Option<u32> {
    frames
        .iter()
        .find(|frame| {
            frame
                .file
                .as_deref()
                .is_some_and(|file| same_file(file, source))
        })?
        .line
}

/// A line and a rule, or no line if the program's source is not in the stack.
type ReportedAt<'a> = (Option<u32>, &'a str);

/// Where a finding is reported, and whether recovery confirms it there: at its own line, and at those of the findings that are joined
/// with it.
fn reported_at<'a>(
    finding: &'a ReportedFinding,
    source: &Path,
) -> BTreeMap<ReportedAt<'a>, Option<bool>> {
    let own = (line_of(finding, source), finding.rule.as_str());
    let mut reported = BTreeMap::from([(own, finding.confirmed)]);
    let joined = finding.evidence.joined.iter();
    for other in joined.filter(|other| !other.frames.is_empty()) {
        let at = (line_of_frames(&other.frames, source), other.rule.as_str());
        let confirmed = reported.entry(at).or_insert(other.confirmed);
        if other.confirmed == Some(true) {
            *confirmed = other.confirmed;
        }
    }
    reported
}

/// Debug information may name a file by way of `..`.
fn same_file(file: &Path, source: &Path) -> bool {
    file == source || std::fs::canonicalize(file).is_ok_and(|file| file == source)
}

/// Compares what `build` of the program in `source` yielded with what is written there.
pub fn compare(
    source: &Path,
    annotations: &[Annotation],
    build: &Build,
    findings: &[ReportedFinding],
) -> Vec<Mismatch> {
    let mut left: BTreeMap<ReportedAt<'_>, Vec<(&ReportedFinding, Option<bool>)>> = BTreeMap::new();
    for finding in findings {
        for (at, confirmed) in reported_at(finding, source) {
            left.entry(at).or_default().push((finding, confirmed));
        }
    }
    let mut named: BTreeSet<ReportedAt<'_>> = findings
        .iter()
        .flat_map(|finding| {
            let missing = |stack: &&ReportedStack| stack.role == MISSING_STORE;
            let stacks = finding.stacks.iter().filter(missing);
            stacks.map(|stack| (line_of_frames(&stack.frames, source), finding.rule.as_str()))
        })
        .collect();
    let mut mismatches = Vec::new();
    for annotation in annotations {
        if !annotation.scope.includes(build) {
            continue;
        }
        let Annotation {
            line, rule, claim, ..
        } = annotation;
        let at = (Some(*line), rule.as_str());
        let (found, confirmed) = match claim {
            Claim::MissingStore => (usize::from(named.remove(&at)), false),
            _ => {
                let found = left.remove(&at).unwrap_or_default();
                let confirmed = found.iter().any(|(_, confirmed)| *confirmed == Some(true));
                (found.len(), confirmed)
            }
        };
        let (line, rule) = (*line, rule.clone());
        match (claim, found) {
            (Claim::Confirmed, 1) if !confirmed => {
                mismatches.push(Mismatch::NotConfirmed { line, rule });
            }
            (Claim::One | Claim::OneOrMore, 1..) if confirmed => {
                mismatches.push(Mismatch::Confirmed { line, rule });
            }
            (Claim::One | Claim::Confirmed, 1)
            | (Claim::OneOrMore | Claim::MissingStore, 1..)
            | (Claim::KnownMiss { .. }, 0) => {}
            (Claim::MissingStore, 0) => mismatches.push(Mismatch::StoreNotNamed { line, rule }),
            (Claim::One | Claim::OneOrMore | Claim::Confirmed, 0) => {
                mismatches.push(Mismatch::Missing { line, rule });
            }
            (Claim::One | Claim::Confirmed, found) => {
                mismatches.push(Mismatch::TooMany { line, rule, found });
            }
            (Claim::KnownMiss { .. }, _) => {
                mismatches.push(Mismatch::NoLongerMissed { line, rule })
            }
        }
    }
    for ((line, rule), findings) in left {
        mismatches.extend(
            findings
                .into_iter()
                .map(|(finding, _)| Mismatch::Unexpected {
                    line,
                    rule: rule.to_owned(),
                    message: finding.message.clone(),
                }),
        );
    }
    mismatches.extend(named.into_iter().map(|(line, rule)| Mismatch::StoreNamed {
        line,
        rule: rule.to_owned(),
    }));
    mismatches.sort_by_key(Mismatch::line);
    mismatches
}

/// Compares how many findings have a cause of their own with what the program says, if it does.
pub fn compare_causes(expected: Option<usize>, findings: &[ReportedFinding]) -> Option<Mismatch> {
    let found = findings.iter().filter(|finding| finding.cause.is_none());
    let (expected, found) = (expected?, found.count());
    (expected != found).then_some(Mismatch::Causes { expected, found })
}

#[cfg(test)]
mod tests {
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
}
