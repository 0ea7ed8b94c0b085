//! Baselines: the findings of an earlier run, so that only new findings fail a check.
//!
//! A finding is known if the baseline contains its id. The remaining findings and baseline entries are matched
//! one to one by [`LinelessId`]: a finding whose line number has changed is still known, and a second finding in the
//! same function is new.
//!
//! Can miss: a new finding, if the same change fixes an old one with the same rule and stack in the same
//! function.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Finding, FindingId, LinelessId};

/// The version of the file format.
const VERSION: u32 = 1;

/// The findings of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Entry {
    rule: String,
    /// Where the finding is, for people who read the file.
    #[serde(rename = "place")]
    location: String,
    id: FindingId,
    #[serde(rename = "site")]
    lineless_id: LinelessId,
}

#[derive(Deserialize)]
struct Document {
    version: u32,
    findings: Vec<Entry>,
}

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    #[error("not a baseline written by brownout")]
    Syntax(#[from] serde_json::Error),
    #[error(
        "unsupported version {0}; this brownout reads version {VERSION}; write a new baseline with --write-baseline"
    )]
    Version(u32),
}

impl Baseline {
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut entries: Vec<Entry> = findings.into_iter().map(Entry::new).collect();
        entries.sort();
        entries.dedup();
        Self { entries }
    }

    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let document: Document = serde_json::from_str(text)?;
        if document.version != VERSION {
            return Err(BaselineError::Version(document.version));
        }
        Ok(Self {
            entries: document.findings,
        })
    }

    /// JSON with one finding per line, so that diffs are readable.
    pub fn to_text(&self) -> String {
        let mut text = format!("{{\n\"version\": {VERSION},\n\"findings\": [");
        for (index, entry) in self.entries.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let line = serde_json::to_string(entry).expect("strings always serialize");
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}\n{line}");
        }
        text.push_str("\n]\n}\n");
        text
    }

    /// Splits findings into known and new ones, keeping their order.
    pub(crate) fn split(&self, findings: Vec<Finding>) -> (Vec<Finding>, Vec<Finding>) {
        let ids: HashSet<&FindingId> = self.entries.iter().map(|entry| &entry.id).collect();
        let seen: HashSet<&FindingId> = findings.iter().map(|finding| &finding.id).collect();
        let mut moved: HashMap<&LinelessId, usize> = HashMap::new();
        for entry in self
            .entries
            .iter()
            .filter(|entry| !seen.contains(&entry.id))
        {
            *moved.entry(&entry.lineless_id).or_default() += 1;
        }
        let known: Vec<bool> = findings
            .iter()
            .map(|finding| {
                ids.contains(&finding.id)
                    || moved.get_mut(&finding.lineless_id()).is_some_and(|left| {
                        let any = *left > 0;
                        *left = left.saturating_sub(1);
                        any
                    })
            })
            .collect();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (finding, known) in findings.into_iter().zip(known) {
            if known {
                old.push(finding)
            } else {
                new.push(finding)
            }
        }
        (old, new)
    }
}

impl Entry {
    fn new(finding: &Finding) -> Self {
        Self {
            rule: finding.rule.clone(),
            location: finding
                .primary_frame()
                .map(ToString::to_string)
                .unwrap_or_default(),
            id: finding.id.clone(),
            lineless_id: finding.lineless_id(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FLUSH_RULE, finding_at};

    const NONE: [u32; 0] = [];

    fn at(line: u32) -> Finding {
        finding_at(&FLUSH_RULE, "kv.c", line)
    }

    /// The lines of the new findings.
    fn new(before: &[u32], now: &[u32]) -> Vec<u32> {
        let before: Vec<Finding> = before.iter().copied().map(at).collect();
        let text = Baseline::of(&before).to_text();
        let baseline = Baseline::parse(&text).unwrap();
        let (_, new) = baseline.split(now.iter().copied().map(at).collect());
        new.iter()
            .map(|f| f.primary_frame().unwrap().line.unwrap())
            .collect()
    }

    #[test]
    fn findings_of_the_earlier_run_are_known() {
        assert_eq!(new(&[7, 9], &[7, 9]), NONE);
        assert_eq!(new(&[], &[7]), [7]);
        assert_eq!(new(&[7, 9], &[9]), NONE);
    }

    #[test]
    fn a_finding_that_moved_is_known_and_a_second_one_is_new() {
        assert_eq!(new(&[7], &[8]), NONE);
        assert_eq!(new(&[7, 9], &[8, 10]), NONE);
        assert_eq!(new(&[7], &[7, 9]), [9]);
        assert_eq!(new(&[7], &[8, 10]), [10]);
    }

    #[test]
    fn the_file_does_not_depend_on_the_order() {
        assert_eq!(
            Baseline::of(&[at(7), at(9), at(7)]).to_text(),
            Baseline::of(&[at(9), at(7)]).to_text()
        );
        assert_eq!(
            Baseline::parse(&Baseline::default().to_text()).unwrap(),
            Baseline::default()
        );
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(
            Baseline::parse("[]"),
            Err(BaselineError::Syntax(_))
        ));
        let future = "{\"version\": 9, \"findings\": []}";
        assert!(matches!(
            Baseline::parse(future),
            Err(BaselineError::Version(9))
        ));
    }
}
