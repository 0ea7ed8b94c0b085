//! Matches findings with annotations, in both directions.
//!
//! A finding belongs to the first frame of its first stack that lies in the program's source file. Findings that are joined with it
//! belong to their own lines and rules, as if they were reported alone. Each annotation that
//! applies to the build matches the findings of its rule on its line; what remains on either side is a [mismatch](Mismatch). A
//! store that a finding reports as missing in recovery is a mismatch too, unless an annotation names it. Where a program says of how
//! many findings it is the cause, joined ones count as one, and those that another one explains do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::annotation::{Annotation, Claim};
use crate::build::Build;
use crate::finding::{ReportedFinding, ReportedFrame, ReportedStack};
use crate::mismatch::Mismatch;

/// The role of a store without which recovery does not pass, in a finding of crash testing.
const MISSING_STORE: &str = "store that is missing";

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

/// All lines of `source` that a finding and those that are joined with it name.
pub fn lines_of(finding: &ReportedFinding, source: &Path) -> BTreeSet<u32> {
    let stacks = finding.stacks.iter().map(|stack| &stack.frames);
    let joined = finding.evidence.joined.iter().map(|other| &other.frames);
    let frames = stacks.chain(joined).flatten();
    let is_own = |frame: &&ReportedFrame| {
        let file = frame.file.as_deref();
        file.is_some_and(|file| same_file(file, source))
    };
    frames
        .filter(is_own)
        .filter_map(|frame| frame.line)
        .collect()
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
mod tests;
