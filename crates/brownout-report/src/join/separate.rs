//! Separates findings that were joined in earlier results, so that what the user has decided since then applies to each of them.
//!
//! Of a joined finding, results keep the first stack, and of many stacks at one line only the first ones. Can miss: decisions
//! about the other stacks. Findings without a stack go with the last one of their rule that has one.

use std::collections::HashMap;

use super::Causes;
use crate::{Evidence, Finding, FindingId, JoinedFinding, Stack};

impl Finding {
    /// This finding and those that are joined with it, each on its own. [Joining](crate::Report::join) makes them one again, without
    /// those that are suppressed or known by then.
    pub fn separated(mut self) -> Vec<Finding> {
        let joined = std::mem::take(&mut self.evidence.joined);
        if joined.is_empty() {
            return vec![self];
        }
        self.exclude_counts(&joined);
        self.evidence.joined_before = Some(self.id.clone());
        let mut separated = vec![self];
        for other in joined {
            if other.frames.is_empty() {
                let last = separated.iter().rposition(|known| known.rule == other.rule);
                separated[last.unwrap_or(0)].carry(other);
            } else {
                let alone = separated[0].separate(other);
                separated.push(alone);
            }
        }
        separated
    }

    /// A finding that is joined with this one, on its own.
    fn separate(&self, other: JoinedFinding) -> Finding {
        let is_confirmed = other.confirmed == Some(true);
        let first_role = || self.stacks.first().map(|stack| stack.role.clone());
        let own_position = other.event.map(|event| format!("event:{event}"));
        let has_same_crash = is_confirmed || self.is_crash_finding();
        Finding {
            id: other.id,
            rule: other.rule,
            mistake: other.mistake,
            severity: other.severity.unwrap_or(self.severity),
            category: other.category.unwrap_or(self.category),
            message: other.message.unwrap_or_else(|| self.message.clone()),
            count: other.count,
            stacks: vec![Stack {
                role: other.role.or_else(first_role).unwrap_or_default(),
                frames: other.frames,
            }],
            evidence: Evidence {
                events: other.event.into_iter().collect(),
                details: match has_same_crash {
                    true => self.evidence.details.clone(),
                    false => Default::default(),
                },
                joined_before: self.evidence.joined_before.clone(),
                ..Evidence::default()
            },
            replay: match has_same_crash {
                true => self.replay.clone(),
                false => own_position,
            },
            cause: self.cause.clone(),
            confirmed: other.confirmed,
            read_by_recovery: self.read_by_recovery,
            fix: None,
        }
    }

    /// Takes along a finding of which only the id is known.
    fn carry(&mut self, other: JoinedFinding) {
        if other.rule == self.rule {
            self.count = self.count.saturating_add(other.count);
        }
        self.evidence.joined.push(other);
    }
}

/// Unites what was one finding in earlier results.
pub(super) fn unite_again(findings: &[Finding], causes: &mut Causes) {
    let mut known: HashMap<&FindingId, usize> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        if let Some(id) = &finding.evidence.joined_before {
            let first = *known.entry(id).or_insert(index);
            causes.unite(first, index);
        }
    }
}
