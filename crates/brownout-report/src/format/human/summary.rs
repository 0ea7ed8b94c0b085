//! The last lines: how many findings there are, how much of the stores is lost, and what explains the rules.

use std::fmt::Write as _;

use super::{clean, counted};
use crate::{ExplorationCoverage, ExploredPoint, Report, Severity};

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
    for weight in report.file_sentences() {
        let _ = writeln!(text, "{}", clean(&weight));
    }
    if let Some(crash) = &report.conclusion.crash
        && let Some(exploration) = &crash.exploration
    {
        text.push_str(&counts(exploration));
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

/// Failure points that are listed.
const MOST_POINTS: usize = 20;

/// What an exploration has run and saved, as a table.
fn counts(exploration: &ExplorationCoverage) -> String {
    let rows = exploration.counts();
    let width = |column: fn(&(String, String)) -> &String| {
        let widths = rows.iter().map(|row| column(row).chars().count());
        widths.max().unwrap_or(0)
    };
    let (names, numbers) = (width(|row| &row.0), width(|row| &row.1));
    let lines = rows.iter().map(|(name, number)| {
        let name = clean(name);
        format!("  {name:<names$}  {number:>numbers$}\n")
    });
    let lines: String = lines.collect();
    format!("exploration:\n{lines}{}", unfinished_points(exploration))
}

/// The failure points at which not every behaviour is known.
fn unfinished_points(exploration: &ExplorationCoverage) -> String {
    let points = exploration.points.iter();
    let unfinished: Vec<&ExploredPoint> = points.filter(|point| !point.is_finished()).collect();
    let mut text = String::new();
    if !unfinished.is_empty() {
        text.push_str("failure points that are not finished:\n");
    }
    for point in unfinished.iter().take(MOST_POINTS) {
        let name = clean(&point.failure_point);
        let _ = writeln!(text, "  {name}: {}", point.status());
    }
    if unfinished.len() > MOST_POINTS {
        let more = unfinished.len() - MOST_POINTS;
        let _ = writeln!(
            text,
            "  and {more} more: `points` in run.json lists them all"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Covered;

    #[test]
    fn the_numbers_of_an_exploration_are_aligned() {
        let exploration = ExplorationCoverage {
            executions: 14,
            states_log10: 3.21,
            ..ExplorationCoverage::default()
        };
        let text = counts(&exploration);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("exploration:"));
        let widths: Vec<usize> = lines.clone().map(str::len).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{text}");
        assert!(lines.next().is_some_and(|line| line.ends_with("    14")));
        assert!(text.ends_with("10^3.2\n"));
    }

    #[test]
    fn failure_points_that_are_not_finished_are_listed() {
        let point = |number: u64, tried| ExploredPoint {
            failure_point: format!("flush at a.c:{number}"),
            crash_times: Covered::new(tried, 2),
            sampled: tried,
            states: 1,
        };
        let of = |points: Vec<ExploredPoint>| {
            let exploration = ExplorationCoverage {
                points,
                ..ExplorationCoverage::default()
            };
            unfinished_points(&exploration)
        };
        assert_eq!(of(vec![point(1, 2)]), "");
        assert_eq!(
            of(vec![point(1, 2), point(2, 0), point(3, 1)]),
            "failure points that are not finished:\n  \
             flush at a.c:2: 0 of 2 crash times finished; 1 state tried\n  \
             flush at a.c:3: 1 of 2 crash times finished, 1 sampled; 1 state tried\n"
        );
        let many = of((0..22).map(|number| point(number, 0)).collect());
        assert!(many.ends_with("  and 2 more: `points` in run.json lists them all\n"));
    }
}
