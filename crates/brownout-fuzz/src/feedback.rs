//! What is new about an execution (PMFuzz Algorithms 1 and 2).
//!
//! Counts fall into AFL's buckets. A transition between operations on persistent memory that was never seen counts most, then a
//! transition in a bucket that was never seen, then code in a bucket that was never seen.
//!
//! Unlike PMFuzz, transitions are distinguished exactly, not by a place in a map. What executions that were cut off have shown is not
//! judged. Copies of the target and targets that are started for each execution are counted by different means: what is known of each is
//! kept apart.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::executor::{Counts, Execution};

/// How much an execution adds to what is known; greater is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Novelty {
    Nothing,
    /// Code that was never executed, or never that often.
    Code,
    /// A known transition, in a number that was never seen.
    Count,
    /// A transition that was never seen.
    Transition,
}

/// Everything that the executions of a campaign have shown.
#[derive(Debug, Default)]
pub struct Feedback {
    copied: Seen,
    started: Seen,
}

/// What executions that were counted by the same means have shown.
#[derive(Debug, Default)]
struct Seen {
    /// Whether there was one.
    is_used: bool,
    transitions: FxHashMap<u64, u8>,
    edges: FxHashMap<u64, u8>,
}

/// The bucket of a count, as one bit.
pub fn bucket(count: u32) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

impl Feedback {
    fn seen_by(&self, execution: &Execution) -> &Seen {
        match execution.is_copied {
            true => &self.copied,
            false => &self.started,
        }
    }

    fn seen_by_mut(&mut self, execution: &Execution) -> &mut Seen {
        match execution.is_copied {
            true => &mut self.copied,
            false => &mut self.started,
        }
    }

    /// Notes by which means an execution was counted. Returns whether it is the first one that was.
    pub fn is_first(&mut self, execution: &Execution) -> bool {
        !std::mem::replace(&mut self.seen_by_mut(execution).is_used, true)
    }

    /// What is new about an execution.
    pub fn judge(&self, execution: &Execution) -> Novelty {
        let known = self.seen_by(execution);
        let by_transition =
            execution
                .transitions
                .iter()
                .map(|&(key, count)| match known.transitions.get(&key) {
                    None => Novelty::Transition,
                    Some(seen) if seen & bucket(count) == 0 => Novelty::Count,
                    Some(_) => Novelty::Nothing,
                });
        let best = by_transition.max().unwrap_or(Novelty::Nothing);
        if best > Novelty::Nothing {
            return best;
        }
        let is_new = |&(key, count): &(u64, u32)| {
            let seen = known.edges.get(&key);
            seen.is_none_or(|seen| seen & bucket(count) == 0)
        };
        match execution.edges.iter().any(is_new) {
            true => Novelty::Code,
            false => Novelty::Nothing,
        }
    }

    /// The transitions of an execution that were never seen.
    pub fn unseen(&self, execution: &Execution) -> Vec<u64> {
        let known = &self.seen_by(execution).transitions;
        let keys = execution.transitions.iter().map(|&(key, _)| key);
        keys.filter(|key| !known.contains_key(key)).collect()
    }

    /// Remembers that transitions were seen, but not how often: someone looks for a shorter input that shows them.
    pub fn reserve(&mut self, execution: &Execution) {
        let known = &mut self.seen_by_mut(execution).transitions;
        for &(key, _) in &execution.transitions {
            known.entry(key).or_default();
        }
    }

    /// Remembers an execution.
    pub fn learn(&mut self, execution: &Execution) {
        let known = self.seen_by_mut(execution);
        known.is_used = true;
        add(&mut known.transitions, &execution.transitions);
        add(&mut known.edges, &execution.edges);
    }

    /// How many transitions were seen.
    pub fn transitions(&self) -> usize {
        (self.copied.transitions.len()).max(self.started.transitions.len())
    }

    /// How many parts of the code were seen.
    pub fn edges(&self) -> usize {
        (self.copied.edges.len()).max(self.started.edges.len())
    }
}

fn add(seen: &mut FxHashMap<u64, u8>, counts: &Counts) {
    for &(key, count) in counts {
        *seen.entry(key).or_default() |= bucket(count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::executor::ExecutionEnd;

    fn execution(transitions: &[(u64, u32)], edges: &[(u64, u32)]) -> Execution {
        Execution {
            end: ExecutionEnd::Exited(0),
            duration: Duration::ZERO,
            transitions: transitions.to_vec(),
            lost_transitions: 0,
            edges: edges.to_vec(),
            may_use_others: false,
            may_have_used_input: true,
            is_copied: true,
            unpinned: Vec::new(),
        }
    }

    #[test]
    fn an_unseen_transition_counts_more_than_a_new_count_and_that_more_than_code() {
        let mut feedback = Feedback::default();
        feedback.learn(&execution(&[(1, 1)], &[(7, 1)]));
        let judge = |transitions: &[_], edges: &[_]| feedback.judge(&execution(transitions, edges));
        assert_eq!(judge(&[(1, 1)], &[(7, 1)]), Novelty::Nothing);
        assert_eq!(judge(&[(1, 1)], &[(7, 1), (8, 1)]), Novelty::Code);
        assert_eq!(judge(&[(1, 1)], &[(7, 2)]), Novelty::Code);
        assert_eq!(judge(&[(1, 3)], &[(8, 1)]), Novelty::Count);
        assert_eq!(judge(&[(1, 3), (2, 1)], &[]), Novelty::Transition);
        assert_eq!(feedback.unseen(&execution(&[(1, 9), (2, 1)], &[])), [2]);
    }

    #[test]
    fn executions_that_are_counted_by_other_means_are_not_compared() {
        let mut feedback = Feedback::default();
        let copied = execution(&[(1, 1), (2, 1)], &[(7, 1)]);
        feedback.learn(&copied);
        let started = Execution {
            is_copied: false,
            ..execution(&[(1, 1)], &[(9, 1)])
        };
        assert!(!feedback.is_first(&copied) && feedback.is_first(&started));
        assert!(!feedback.is_first(&started));
        feedback.learn(&started);
        assert_eq!(feedback.judge(&started), Novelty::Nothing);
        assert_eq!((feedback.transitions(), feedback.edges()), (2, 1));
    }

    #[test]
    fn counts_of_one_bucket_are_equal() {
        let mut feedback = Feedback::default();
        feedback.learn(&execution(&[(1, 5)], &[]));
        assert_eq!(feedback.judge(&execution(&[(1, 7)], &[])), Novelty::Nothing);
        assert_eq!(feedback.judge(&execution(&[(1, 8)], &[])), Novelty::Count);
        assert_eq!((feedback.transitions(), feedback.edges()), (1, 0));
    }
}
