//! When two findings of crash testing are one.
//!
//! They are if the crash is at one line, recovery fails at one line or, where that is not known, with one last line of output, and the
//! stores that cause them are the same. Where a recovery that does not end was interrupted depends on chance, and is ignored.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Causes;
use crate::Finding;
use crate::code_location::FrameLocation;
use crate::stack::role;

/// Equal for findings that may have one cause.
#[derive(Clone, PartialEq, Eq, Hash)]
struct JoinKey<'a> {
    rule: &'a str,
    location: FrameLocation<'a>,
    symptom: Option<Symptom<'a>>,
}

/// How recovery failed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Symptom<'a> {
    location: Option<FrameLocation<'a>>,
    last_output: Option<&'a str>,
}

impl<'a> JoinKey<'a> {
    /// `None` for a finding that is not one of crash testing.
    fn of(finding: &'a Finding) -> Option<Self> {
        let first = finding.stacks.first()?;
        if !finding.is_crash_finding() {
            return None;
        }
        Some(JoinKey {
            rule: &finding.rule,
            location: FrameLocation::of_stack(first)?,
            symptom: (finding.rule != "recovery-hung").then(|| Symptom::of(finding)),
        })
    }
}

impl<'a> Symptom<'a> {
    fn of(finding: &'a Finding) -> Self {
        let recovery = finding
            .stacks
            .iter()
            .find(|stack| stack.role == role::RECOVERY);
        let location = recovery.and_then(FrameLocation::of_stack);
        let last_output = match location {
            Some(FrameLocation::Line(..)) => None,
            _ => finding.last_output_line(),
        };
        Symptom {
            location,
            last_output,
        }
    }
}

/// The stores that cause a crash finding, as far as they are known.
fn stores(finding: &Finding) -> Vec<(&str, Option<FrameLocation<'_>>)> {
    let stores = finding.stacks.iter().filter(|stack| stack.is_of_cause());
    stores
        .map(|stack| (stack.role.as_str(), FrameLocation::of_stack(stack)))
        .collect()
}

/// Unites the crash findings with one cause.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let mut by_key: HashMap<JoinKey<'_>, usize> = HashMap::new();
    let mut by_stores: HashMap<_, usize> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        let Some(key) = JoinKey::of(finding) else {
            continue;
        };
        let stores = stores(finding);
        if stores.is_empty() {
            let first = *by_key.entry(key).or_insert(index);
            causes.unite(first, index);
            continue;
        }
        match by_stores.entry((key.clone(), stores)) {
            Entry::Occupied(known) => causes.unite(*known.get(), index),
            Entry::Vacant(new) => {
                new.insert(index);
                // A finding for which no stores were found belongs to the first one for which they were.
                by_key.entry(key).or_insert(index);
            }
        }
    }
}
