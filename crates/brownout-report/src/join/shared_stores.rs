//! Crash findings that share a store.
//!
//! An update that is not atomic fails in many ways: with a first part of it, with a second, with the first lost in the cache. The search
//! for causes leads to a few of its stores each time, and recovery fails elsewhere. Crash findings are one if a store that is there
//! is the same for both, or one that is missing: the same line, called in the same way. If recovery fails with a first store and without a
//! second that had not been made yet, no order of the two helps, so a crash that loses the first and keeps the second is the same finding.
//! If a finding of lint explains them, it must be the same one.
//!
//! Can join too much: two updates that each miss the store of a third.

use std::collections::HashMap;

use super::Causes;
use crate::code_location::FrameLocation;
use crate::stack::role;
use crate::{Finding, FindingId, Stack, primary_frame};

/// A store, by the calls that led to it, and the finding of lint that explains its crash.
type SharedStore<'a> = (Option<&'a FindingId>, Vec<FrameLocation<'a>>);

/// Unites the crash findings that share a store.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let mut present: HashMap<SharedStore<'_>, usize> = HashMap::new();
    let mut missing: HashMap<SharedStore<'_>, usize> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        for (role, store) in stores(finding) {
            let by_store = match role {
                role::STORE_PRESENT => &mut present,
                _ => &mut missing,
            };
            let first = *by_store.entry(store).or_insert(index);
            causes.unite(first, index);
        }
    }
    for (index, finding) in findings.iter().enumerate() {
        let is_torn = stores(finding).any(|(role, _)| role == role::STORE_MISSING);
        for (_, store) in
            stores(finding).filter(|(role, _)| is_torn && *role == role::STORE_PRESENT)
        {
            if let Some(&lost) = missing.get(&store) {
                causes.unite(lost, index);
            }
        }
    }
}

/// The stores that cause a crash finding, and what became of them.
fn stores(finding: &Finding) -> impl Iterator<Item = (&str, SharedStore<'_>)> {
    let stacks = finding.stacks.iter().filter(|stack| stack.is_of_cause());
    stacks.filter_map(|stack| {
        let store = (finding.cause.as_ref(), calls(stack)?);
        Some((stack.role.as_str(), store))
    })
}

fn calls(stack: &Stack) -> Option<Vec<FrameLocation<'_>>> {
    let frames = stack.frames.get(primary_frame(&stack.frames)?..)?;
    Some(frames.iter().map(FrameLocation::of).collect())
}
