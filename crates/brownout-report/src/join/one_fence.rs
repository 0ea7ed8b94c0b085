//! Flushes and non-temporal stores that one missing fence leaves without order.
//!
//! A function that flushes several objects and forgets the fence has a finding for each flush. One fence after the last of them would have
//! ordered all. Findings are one if their flushes were executed in one call, for stores of one thread: no fence of the thread can lie
//! between them, because it would have ordered the first.
//!
//! Two functions that each forget a fence stay two findings, also if one calls the other.

use super::Causes;
use super::one_call::is_same_call;
use crate::{Finding, Mistake};

/// Unites the findings that one missing fence explains.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let numbered = findings.iter().enumerate();
    let mut known: Vec<(usize, &Finding)> = Vec::new();
    for (number, finding) in
        numbered.filter(|(_, finding)| finding.mistake == Mistake::MissingFence)
    {
        let same = known.iter().find(|(_, other)| is_same(finding, other));
        match same {
            Some((first, _)) => causes.unite(*first, number),
            None => known.push((number, finding)),
        }
    }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    let thread = |finding: &Finding| finding.evidence.store_threads.first().copied();
    let stacks = one.stacks.first().zip(other.stacks.first());
    thread(one).is_some()
        && thread(one) == thread(other)
        && stacks.is_some_and(|(one, other)| is_same_call(one, other))
}
