//! By what a baseline recognises a failed recovery, besides its id.
//!
//! The id of a crash finding consists of the failure point and of where recovery failed. Different mistakes can fail at one failure
//! point, and a recovery that returns from `main` has no stack that distinguishes them. The reverse happens, too: with more time,
//! one mistake shows at other failure points. What identifies the mistake are the stores that make the difference: those that
//! are missing or, if none is, those that are there.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::stack::role;
use crate::{Evidence, Finding, FindingId, Sources, Stack, fingerprint, primary_frame};

/// How recovery failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FailureMarks {
    /// Fingerprints of the stores that make the difference; empty if they were not found.
    pub(crate) stores: BTreeSet<String>,
    /// The last line of output without numbers, if recovery has no stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

impl FailureMarks {
    /// `None` for a finding that is not one of crash testing.
    pub(crate) fn of(finding: &Finding, sources: &Sources) -> Option<Self> {
        if !finding.is_crash_finding() {
            return None;
        }
        let stores = |role: &str| -> BTreeSet<String> {
            let stacks = finding.stacks.iter().filter(|stack| stack.role == role);
            stacks
                .filter_map(|stack| store_fingerprint(stack, sources))
                .collect()
        };
        let missing = stores(role::STORE_MISSING);
        Some(Self {
            stores: match missing.is_empty() {
                true => stores(role::STORE_PRESENT),
                false => missing,
            },
            output: match has_recovery_stack(finding) {
                true => None,
                false => finding.last_output_line().map(without_numbers),
            },
        })
    }

    /// Whether a finding with these marks and the same id can be the one with `known` marks. What was not found in one of two runs
    /// does not distinguish them.
    pub(crate) fn agree_with(&self, known: &Self) -> bool {
        let unknown = self.stores.is_empty() || known.stores.is_empty();
        self.output == known.output && (unknown || self.stores.is_subset(&known.stores))
    }

    /// Whether a store makes the difference in both failures.
    pub(crate) fn shares_store_with(&self, other: &Self) -> bool {
        !self.stores.is_disjoint(&other.stores)
    }
}

/// Gives crash findings ids of their own whose images lack different stores, although they agree in the failure point and in the
/// stack of recovery: they are different mistakes.
pub fn distinguish_lost_stores(findings: &mut [Finding], sources: &Sources) {
    let mut known: HashMap<FindingId, Vec<BTreeSet<String>>> = HashMap::new();
    for finding in findings {
        let details = &finding.evidence.details;
        let lacks_stores = [Evidence::CRASH_STATE, Evidence::INTERRUPTED]
            .iter()
            .any(|detail| details.contains_key(*detail));
        let marks = FailureMarks::of(finding, sources).filter(|_| lacks_stores);
        let Some(stores) = marks
            .map(|marks| marks.stores)
            .filter(|stores| !stores.is_empty())
        else {
            continue;
        };
        let sets = known.entry(finding.id.clone()).or_default();
        let is_first = sets.first().is_none_or(|first| *first == stores);
        if is_first {
            sets.push(stores);
        } else {
            finding.id = fingerprint::with(&finding.id, &stores);
        }
    }
}

fn has_recovery_stack(finding: &Finding) -> bool {
    let mut stacks = finding.stacks.iter();
    stacks.any(|stack| stack.role == role::RECOVERY && !stack.frames.is_empty())
}

/// That of the line of a store and of the calls that led to it.
fn store_fingerprint(stack: &Stack, sources: &Sources) -> Option<String> {
    let calls = Stack {
        // The fingerprint of a finding ignores the stores that cause it.
        role: "store".to_owned(),
        frames: stack.frames.get(primary_frame(&stack.frames)?..)?.to_vec(),
    };
    let id = fingerprint::by_text(&stack.role, &[calls], sources);
    Some(id.to_string())
}

/// Words with digits become `#`. Addresses, counts and names with counts in them differ from run to run.
pub fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if name.contains(|c: char| c.is_ascii_digit()) {
            plain.push('#');
            plain.push_str(&word[name.len()..]);
        } else {
            plain.push_str(word);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_output_do_not_count() {
        assert_eq!(
            without_numbers("rec 17 byte 0x1f: bad"),
            "rec # byte #: bad"
        );
        assert_eq!(without_numbers("slot3=4,5"), "#=#,#");
        assert_eq!(without_numbers(""), "");
    }
}
