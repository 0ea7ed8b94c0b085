//! `findings.jsonl`: one JSON object per line and finding. Suppressed and known findings are not included.
//! Suppressed findings go to a separate file, with the reasons.

use std::collections::HashMap;
use std::io;

use serde::de::DeserializeOwned;

use super::Format;
use crate::{Finding, Mistake, Report, RuleInfo, Suppressed};

/// One JSON object per line and finding.
#[derive(Clone, Copy, Debug)]
pub struct JsonLines;

impl Format for JsonLines {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        for finding in report.findings() {
            serde_json::to_writer(&mut *out, finding)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// One JSON object per line and suppressed finding: the finding and the reason for the suppression.
#[derive(Clone, Copy, Debug)]
pub struct SuppressedLines;

impl Format for SuppressedLines {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        for suppressed in report.suppressed() {
            serde_json::to_writer(&mut *out, suppressed)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// A line that is not a finding.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is not a finding")]
#[non_exhaustive]
pub struct ParseError {
    pub line: usize,
    #[source]
    pub source: serde_json::Error,
}

/// Parses the output of [`JsonLines`]. Unknown fields are ignored, so that findings of a later version can be
/// read. `rules` are all that may have reported them.
pub fn parse_json_lines(text: &str, rules: &[RuleInfo]) -> Result<Vec<Finding>, ParseError> {
    let mut findings: Vec<Finding> = parse(text)?;
    let mistakes = mistakes(rules);
    findings
        .iter_mut()
        .for_each(|finding| recall_mistakes(finding, &mistakes));
    Ok(findings)
}

/// Parses the output of [`SuppressedLines`]. `rules` are all that may have reported the findings.
pub fn parse_suppressed_lines(
    text: &str,
    rules: &[RuleInfo],
) -> Result<Vec<Suppressed>, ParseError> {
    let mut all: Vec<Suppressed> = parse(text)?;
    let mistakes = mistakes(rules);
    all.iter_mut()
        .for_each(|one| recall_mistakes(&mut one.finding, &mistakes));
    Ok(all)
}

fn mistakes(rules: &[RuleInfo]) -> HashMap<&'static str, Mistake> {
    let rules = rules.iter();
    rules.map(|rule| (rule.id, rule.policy.mistake)).collect()
}

/// Adds what is not written to a finding that was read.
fn recall_mistakes(finding: &mut Finding, mistakes: &HashMap<&'static str, Mistake>) {
    let known = |rule: &str| mistakes.get(rule).copied().unwrap_or_default();
    finding.mistake = known(&finding.rule);
    for other in &mut finding.evidence.joined {
        other.mistake = known(&other.rule);
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, ParseError> {
    (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(line, text)| {
            serde_json::from_str(text).map_err(|source| ParseError { line, source })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FENCE_RULE, FLUSH_RULE, finding, finding_at};
    use crate::{Report, Subject};

    #[test]
    fn suppressed_findings_can_be_read_back() {
        let suppressed = vec![Suppressed {
            finding: finding(),
            reason: "reset at start".into(),
        }];
        let report = Report::default().with_suppressed(suppressed.clone());
        assert_eq!(JsonLines.to_text(&report), "");
        let text = SuppressedLines.to_text(&report);
        assert_eq!(
            parse_suppressed_lines(&text, &[FLUSH_RULE]).unwrap(),
            suppressed
        );
        assert_eq!(parse_suppressed_lines("{}\n", &[]).unwrap_err().line, 1);
    }

    #[test]
    fn the_fields_of_a_finding() {
        let report = Report::new(Subject::default(), vec![], vec![finding()]);
        let value: serde_json::Value = serde_json::from_str(&JsonLines.to_text(&report)).unwrap();
        let mut fields: Vec<&str> = value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "category", "count", "evidence", "id", "message", "replay", "rule", "severity",
                "stacks"
            ]
        );
        assert_eq!(value["severity"], "bug");
        assert_eq!(value["category"], "durability");
        assert_eq!(value["stacks"][0]["role"], "store");
        let mut frame: Vec<&str> = value["stacks"][0]["frames"][0]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        frame.sort_unstable();
        assert_eq!(
            frame,
            [
                "column", "file", "function", "inlined", "line", "module", "offset"
            ]
        );
        assert_eq!(value["evidence"]["ranges"][0]["offset"], 64);
    }

    #[test]
    fn findings_can_be_read_back() {
        let findings = vec![finding(), finding_at(&FENCE_RULE, "kv.c", 9)];
        let report = Report::new(Subject::default(), vec![], findings.clone());
        assert_eq!(
            parse_json_lines(&JsonLines.to_text(&report), &[FLUSH_RULE, FENCE_RULE]).unwrap(),
            findings
        );
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let text = format!("{}\n\n{{}}\n", serde_json::to_string(&finding()).unwrap());
        assert_eq!(parse_json_lines(&text, &[]).unwrap_err().line, 3);
    }
}
