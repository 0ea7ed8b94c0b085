//! Findings that one crash state shows.
//!
//! A fence that orders many stores is no mistake in itself. If crash testing confirms it, the state that does so lacks a store that
//! should have been persistent, and a rule that names this store, or the failed recovery, says what is wrong. The fence is then
//! reported with that finding, and not as a bug of its own.
//!
//! The state may also be the opposite one: crash testing found an update torn between two lines, of which the state of the fence has the
//! other half. These are one if the stores that cause the failed recovery were made before the fence, all in lines that it orders.
//!
//! A fence belongs to one finding only: others that the same line orders stay as they are.

use std::collections::{HashMap, HashSet};

use super::Causes;
use crate::{ByteRange, Finding, Mistake};

/// Whether the finding only says where something may go wrong.
fn is_vague(finding: &Finding) -> bool {
    finding.mistake == Mistake::OpenOrder
}

/// The crash state that shows a finding.
fn proof(finding: &Finding) -> Option<&str> {
    let is_proven = finding.confirmed == Some(true) || finding.is_crash_finding();
    finding.crash_token().filter(|_| is_proven)
}

/// Whether a failed recovery is due to stores that this fence orders, all of them.
fn is_torn_by(crash: &Finding, fence: &Finding) -> bool {
    let (stores, lines) = (&crash.evidence.ranges, &fence.evidence.ranges);
    let is_ordered = |store: &ByteRange| lines.iter().any(|line| line.overlaps(store));
    let at = fence.evidence.events.first();
    crash.is_crash_finding()
        && !stores.is_empty()
        && stores.iter().all(is_ordered)
        && crash.evidence.events.iter().all(|event| Some(event) < at)
}

/// Unites confirmed fences with a finding that the same crash state shows, or an update that is torn in both.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let mut shown: HashMap<&str, usize> = HashMap::new();
    for (number, finding) in findings.iter().enumerate() {
        if let Some(state) = proof(finding).filter(|_| !is_vague(finding)) {
            shown.entry(state).or_insert(number);
        }
    }
    // Those of one line are one already.
    let mut united: HashSet<usize> = HashSet::new();
    for (number, fence) in findings.iter().enumerate() {
        let Some(state) = proof(fence).filter(|_| is_vague(fence)) else {
            continue;
        };
        let torn = || findings.iter().position(|crash| is_torn_by(crash, fence));
        let other = shown.get(state).copied().or_else(torn);
        if let Some(other) = other
            && united.insert(causes.first_of(number))
        {
            causes.unite(other, number);
            united.insert(causes.first_of(number));
        }
    }
}
