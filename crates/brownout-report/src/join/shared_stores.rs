//! Crash findings that share a store.
//!
//! An update that is not atomic fails in many ways: with a first part of it, with a second, with the first lost in the cache. The search
//! for causes leads to a few of its stores each time, and recovery fails elsewhere. Crash findings are one if a store that is there
//! is the same for both, or one that is missing: the same line, called in the same way. If a finding of lint explains
//! them, it must be the same one.
//!
//! Can join too much: two updates that each miss the store of a third.

use std::collections::HashMap;

use super::Causes;
use crate::code_location::CodeLocation;
use crate::{Finding, FindingId, Stack, primary_frame};

/// A store, by what became of it and the calls that led to it.
type SharedStore<'a> = (Option<&'a FindingId>, &'a str, Vec<CodeLocation<'a>>);

/// Unites the crash findings that share a store.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let mut by_store: HashMap<SharedStore<'_>, usize> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        for stack in finding.stacks.iter().filter(|stack| stack.is_of_cause()) {
            if let Some(calls) = calls(stack) {
                let store = (finding.cause.as_ref(), stack.role.as_str(), calls);
                let first = *by_store.entry(store).or_insert(index);
                causes.unite(first, index);
            }
        }
    }
}

fn calls(stack: &Stack) -> Option<Vec<CodeLocation<'_>>> {
    let frames = stack.frames.get(primary_frame(&stack.frames)?..)?;
    Some(frames.iter().map(CodeLocation::of).collect())
}
