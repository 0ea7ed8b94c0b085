//! What of `brownout`'s JSON lines the corpus looks at.

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::{Error, Result};

/// One finding: its rule, how grave it is, and where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReportedFinding {
    pub rule: String,
    pub severity: ReportedSeverity,
    #[serde(default)]
    pub message: String,
    pub stacks: Vec<ReportedStack>,
    /// Whether recovery fails because of it, if that was tried.
    #[serde(default)]
    pub confirmed: Option<bool>,
    /// The finding that explains it.
    #[serde(default)]
    pub cause: Option<String>,
    #[serde(default)]
    pub evidence: ReportedEvidence,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ReportedEvidence {
    /// Findings that are reported as this one.
    #[serde(default)]
    pub joined: Vec<ReportedJoin>,
}

/// A finding that is reported as another one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReportedJoin {
    #[serde(default)]
    pub rule: String,
    #[serde(default)]
    pub confirmed: Option<bool>,
    /// None if another finding of its rule and line is listed.
    #[serde(default)]
    pub frames: Vec<ReportedFrame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedSeverity {
    Bug,
    Performance,
    Warning,
}

/// A call stack, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReportedStack {
    /// What happened there.
    #[serde(default)]
    pub role: String,
    pub frames: Vec<ReportedFrame>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReportedFrame {
    pub function: Option<String>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
}

/// Reads findings from JSON lines.
pub fn read_findings(text: &str) -> Result<Vec<ReportedFinding>> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|source| Error::Findings {
                line: at + 1,
                source,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_read_among_fields_that_do_not_matter() {
        let text = r#"{"id":"x","rule":"missing-flush","severity":"bug","category":"durability","message":"m","count":2,"stacks":[{"role":"store","frames":[{"function":null,"file":null,"line":null,"column":null,"module":"libc.so.6","offset":4,"inlined":false},{"function":"main","file":"/a/b.c","line":7,"column":3,"module":"b","offset":9,"inlined":false}]}],"evidence":{},"replay":"r"}

"#;
        let findings = read_findings(text).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].rule, "missing-flush");
        assert_eq!(findings[0].severity, ReportedSeverity::Bug);
        assert_eq!(findings[0].stacks[0].frames[1].line, Some(7));
    }

    #[test]
    fn what_is_no_finding_is_told_with_its_line() {
        let error = read_findings("\n{\"rule\":1}\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
