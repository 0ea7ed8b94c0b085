//! Stores that one missing snapshot leaves out of the log of a transaction.
//!
//! A function that changes an object and does not add it to the log has a finding in each of its lines. One snapshot of the object
//! would have covered all of them. Findings are one if their stores went to one object in one transaction, in
//! [one call](super::one_call): the function of one store is that of the other, or has called it.
//!
//! Two objects stay two findings, and so do two functions that each forget to add the same object.

use std::collections::HashMap;

use super::Causes;
use super::one_call::is_one_call;
use crate::{Finding, FindingId};

/// Unites the findings that one missing snapshot explains.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let ids = findings.iter().enumerate();
    let by_id: HashMap<&FindingId, usize> = ids.map(|(number, one)| (&one.id, number)).collect();
    for (number, finding) in findings.iter().enumerate() {
        let related = finding.evidence.same_object.iter();
        for other in related.filter_map(|id| by_id.get(id).copied()) {
            let stacks = finding.stacks.first().zip(findings[other].stacks.first());
            if stacks.is_some_and(|(one, other)| is_one_call(one, other)) {
                causes.unite(number, other);
            }
        }
    }
}
