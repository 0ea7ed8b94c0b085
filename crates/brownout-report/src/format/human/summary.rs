//! The last lines: how many findings there are, how much of the stores is lost, and what explains the rules.

use std::fmt::Write as _;

use super::{clean, counted};
use crate::{Report, Severity};

pub(super) fn summary(report: &Report) -> String {
    let performance = report.of(Severity::Performance).count();
    let mut text = if report.findings().is_empty() {
        "nothing found".to_owned()
    } else {
        counted(report.bugs().count(), "bug")
    };
    if performance > 0 {
        let _ = write!(text, ", {}", counted(performance, "performance finding"));
    }
    if !report.findings().is_empty() {
        let warnings = report.of(Severity::Warning).count();
        let _ = write!(text, ", {}", counted(warnings, "warning"));
    }
    for (count, what) in [
        (report.suppressed().len(), "suppressed"),
        (report.known_count(), "known from the baseline"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if let Some(problem) = report.conclusion.problem() {
        let meaning = problem.end.meaning();
        text = match report.findings() {
            // A run that examined too little has not shown that there is nothing to find.
            [] => meaning.to_owned(),
            _ => format!("{text}; {meaning}"),
        };
    }
    text.push('\n');
    for weight in report.weights() {
        let _ = writeln!(text, "{}", clean(&weight));
    }
    let rules = report.rules_with_findings();
    if !rules.is_empty() {
        let rules: Vec<&str> = rules.into_iter().collect();
        let _ = writeln!(
            text,
            "`brownout explain RULE` describes a rule and how to fix its findings: {}",
            clean(&rules.join(", "))
        );
    }
    text
}
