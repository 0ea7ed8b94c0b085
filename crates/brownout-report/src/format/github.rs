//! Annotations for GitHub Actions: workflow commands on standard output that show findings next to the
//! changed lines. GitHub shows at most ten annotations per level and step, so only the first ten are printed, with
//! the number of the others.

use std::io;

use super::Format;
use crate::{Finding, Report, Severity};

/// Annotations that GitHub shows per level and step.
const MAX_OF_A_LEVEL: usize = 10;

/// Workflow commands for GitHub Actions.
#[derive(Clone, Copy, Debug)]
pub struct Github;

impl Format for Github {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(problem) = report.conclusion.problem() {
            let title = problem.end.meaning();
            writeln!(
                out,
                "::error title=brownout::{title}: {}",
                escaped(&problem.text)
            )?;
        }
        let mut more = 0;
        for severity in Severity::ALL {
            for finding in report.of(severity).take(MAX_OF_A_LEVEL) {
                write_command(report, finding, out)?;
            }
            more += report.of(severity).skip(MAX_OF_A_LEVEL).count();
        }
        match more {
            0 => Ok(()),
            1 => writeln!(out, "1 more finding is not annotated"),
            _ => writeln!(out, "{more} more findings are not annotated"),
        }
    }
}

fn write_command(report: &Report, finding: &Finding, out: &mut dyn io::Write) -> io::Result<()> {
    let command = match finding.severity {
        Severity::Bug => "error",
        Severity::Performance => "notice",
        Severity::Warning => "warning",
    };
    let mut properties = Vec::new();
    if let Some(frame) = finding.primary_frame()
        && let Some(file) = &frame.file
    {
        properties.push(("file", report.shown_path(file).to_owned()));
        properties.extend(frame.line.map(|line| ("line", line.to_string())));
        properties.extend(frame.column.map(|column| ("col", column.to_string())));
    }
    properties.push(("title", finding.rule.clone()));
    let properties: Vec<String> = properties
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped_property(value)))
        .collect();
    let mut message = finding.message.clone();
    if let Some(proof) = finding.proof() {
        message.push_str(&format!("\nconfirmed: {proof}"));
    }
    for stack in &finding.stacks {
        message.push_str(&format!("\n{}:", stack.role));
        for frame in stack.frames_of_program() {
            message.push_str(&format!("\n  {}", report.shown_frame(frame)));
        }
    }
    let properties = properties.join(",");
    writeln!(out, "::{command} {properties}::{}", escaped(&message))
}

/// A command ends at the end of the line, and `%` starts an escape sequence.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property ends at a comma or at the first `::`.
fn escaped_property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;
    use crate::samples::{FLUSH_RULE, WARNING_RULE, finding, finding_at};

    fn shown(findings: Vec<Finding>) -> String {
        let subject = Subject {
            directory: Some("/home/u/kv".into()),
            ..Subject::default()
        };
        Github.to_text(&Report::new(subject, vec![], findings))
    }

    #[test]
    fn a_bug_is_an_error_at_its_line() {
        let mut bug = finding();
        bug.stacks[0].frames[0].column = Some(9);
        assert_eq!(
            shown(vec![bug]),
            "::error file=kv.c,line=7,col=9,title=missing-flush::a store that is never flushed here\
             %0Astore:%0A  put at kv.c:7:9%0A  main at kv.c:90\n"
        );
    }

    #[test]
    fn names_cannot_inject_commands() {
        let mut bug = finding_at(&FLUSH_RULE, "/a,b::c%\n.c", 7);
        bug.message = "50%\r\n::error::x".into();
        let text = shown(vec![bug]);
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(
            "::error file=/a%2Cb%3A%3Ac%25%0A.c,line=7,title=missing-flush::50%25%0D%0A::error::x"
        ));
    }

    #[test]
    fn at_most_ten_annotations_per_level() {
        let findings = (1..=12)
            .map(|line| finding_at(&FLUSH_RULE, "kv.c", line))
            .chain((1..=11).map(|line| finding_at(&WARNING_RULE, "kv.c", line)))
            .collect();
        let text = shown(findings);
        assert_eq!(text.matches("::error ").count(), 10);
        assert_eq!(text.matches("::warning ").count(), 10);
        assert!(text.ends_with("3 more findings are not annotated\n"));
    }
}
