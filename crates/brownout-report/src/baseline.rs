//! Baselines: the findings of an earlier run, so that only new findings fail a check.
//!
//! A finding that has become worse since then is new: a warning of which crash testing shows that it is a bug.
//!
//! A finding is known if the baseline contains its id, which depends on the text of the source line and not on its
//! number: code that moves stays known, and a new bug near an old one is new.
//!
//! Where no source text is available, ids contain line numbers. Such findings and baseline entries, as far as their
//! ids differ, are matched one to one by [`LinelessId`]: a finding whose line number has changed is still known, and a
//! second finding in the same function is new. This can miss a new finding, if the same change fixes an old one with the
//! same rule and stack in the same function.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Finding, FindingId, LinelessId, Severity};

/// The version of the file format.
const VERSION: u32 = 2;

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
    /// Absent in files of earlier versions of brownout: then whatever the finding is now, it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    severity: Option<Severity>,
    /// Only if the id contains line numbers.
    #[serde(rename = "site", default, skip_serializing_if = "Option::is_none")]
    lineless_id: Option<LinelessId>,
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
        let ids: HashMap<&FindingId, &Entry> = self
            .entries
            .iter()
            .map(|entry| (&entry.id, entry))
            .collect();
        let seen: HashSet<&FindingId> = findings.iter().map(|finding| &finding.id).collect();
        let mut moved: HashMap<&LinelessId, Vec<&Entry>> = HashMap::new();
        for entry in self
            .entries
            .iter()
            .filter(|entry| !seen.contains(&entry.id))
        {
            if let Some(lineless_id) = &entry.lineless_id {
                moved.entry(lineless_id).or_default().push(entry);
            }
        }
        let known: Vec<bool> = findings
            .iter()
            .map(|finding| {
                let by_numbers = finding.is_identified_by_numbers();
                let entry = ids.get(&finding.id);
                entry.is_some_and(|entry| entry.covers(finding))
                    || by_numbers
                        && moved.get_mut(&finding.lineless_id()).is_some_and(|left| {
                            let found = left.iter().position(|entry| entry.covers(finding));
                            found.map(|at| left.remove(at)).is_some()
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
            severity: Some(finding.severity),
            lineless_id: finding
                .is_identified_by_numbers()
                .then(|| finding.lineless_id()),
        }
    }

    /// Whether the finding is no worse than it was.
    fn covers(&self, finding: &Finding) -> bool {
        self.severity.is_none_or(|known| known <= finding.severity)
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
    fn an_old_line_does_not_stand_in_for_a_new_bug_above_it() {
        let identified = |text: &'static str, line: u32| {
            let mut finding = at(line);
            finding.identify(&crate::Sources::from_fn(move |_| Ok(text.to_owned())));
            finding
        };
        let baseline = Baseline::of(&[identified("a = 1;\nb = 2;\n", 2)]);
        let now = "a = 1;\nc = 3;\nd = 4;\nb = 2;\n";
        let (known, new) = baseline.split(vec![identified(now, 2), identified(now, 4)]);
        let lines = |findings: &[Finding]| -> Vec<Option<u32>> {
            findings
                .iter()
                .map(|f| f.primary_frame().unwrap().line)
                .collect()
        };
        assert_eq!((lines(&known), lines(&new)), (vec![Some(4)], vec![Some(2)]));
        let (known, new) = baseline.split(vec![identified(now, 2)]);
        assert_eq!(
            (lines(&known), lines(&new)),
            (vec![], vec![Some(2)]),
            "b is fixed, c is new"
        );
    }

    #[test]
    fn a_warning_that_turns_out_to_be_a_bug_is_new() {
        let with = |severity| Finding { severity, ..at(7) };
        let known = |before, now| {
            let baseline = Baseline::of(&[with(before)]);
            let baseline = Baseline::parse(&baseline.to_text()).unwrap();
            baseline.split(vec![with(now)]).1.is_empty()
        };
        assert!(!known(Severity::Warning, Severity::Bug));
        assert!(known(Severity::Bug, Severity::Warning));
        assert!(known(Severity::Bug, Severity::Bug));
        let text = Baseline::of(&[with(Severity::Warning)]).to_text();
        let without = text.replace("\"severity\":\"warning\",", "");
        assert_ne!(text, without);
        let old = Baseline::parse(&without).unwrap();
        assert!(old.split(vec![with(Severity::Bug)]).1.is_empty());
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
