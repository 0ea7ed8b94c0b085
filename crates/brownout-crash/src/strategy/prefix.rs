//! Crash images in program order (Mumak §4.1): all stores before the failure point are present, and no later one.
//!
//! Proposes each chosen occurrence of each failure point, the most different failure points first and first occurrences
//! before later ones. Whenever testing is stopped, the crash points that were tried cover the target as widely as
//! possible. They are proposed in waves, each twice as large as the one before, because each wave costs a pass over the
//! trace.
//!
//! Can miss: bugs that only show when stores persist in another order than that of the program, and bugs that only show
//! at occurrences that were not chosen. Every image that it tries can be left by a crash.

use super::most_different_first::most_different_first;
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput};
use crate::coverage::{Extent, TrialPurpose};
use crate::failure_point::{FailurePoint, FailurePoints, Leaf, Occurrence};
use crate::symbols::Symbols;
use crate::trial::Trial;

pub static PREFIX: StrategyInfo = StrategyInfo {
    name: "prefix",
    version: 1,
    summary: "All stores before the failure point are present, in program order",
    time_limit: None,
    tries_suspects: false,
    tries_all: false,
    tests_behaviours: false,
    start: |input| Ok(Box::new(Prefix::new(input))),
};

/// Crash points of the first wave.
const FIRST_WAVE: usize = 256;

struct Prefix {
    /// In reverse order.
    left: Vec<ProposedCrash>,
    planned: u64,
    extent: Extent,
    wave: usize,
}

impl Prefix {
    fn new(input: StrategyInput<'_>) -> Self {
        let points = &input.survey.points;
        let mut left = in_order(points, input.symbols);
        left.reverse();
        Self {
            planned: left.len() as u64,
            extent: Extent::of(points),
            left,
            wave: FIRST_WAVE,
        }
    }
}

impl Strategy for Prefix {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        let rest = self.left.len().saturating_sub(self.wave);
        self.wave *= 2;
        self.left.drain(rest..).rev().collect()
    }

    /// All images are chosen beforehand.
    fn learn(&mut self, _: &Trial) {}

    fn planned(&self) -> u64 {
        self.planned
    }

    fn extent(&self) -> Extent {
        self.extent
    }
}

/// The numbers of leaves, the most different first.
pub(super) fn leaf_order(leaves: &[Leaf], symbols: &mut dyn Symbols) -> Vec<usize> {
    let paths: Vec<Vec<(String, u32)>> = leaves
        .iter()
        .map(|leaf| {
            let frames = leaf.stack.map(|stack| symbols.frames(stack));
            let steps = frames.unwrap_or_default().into_iter().rev();
            let steps = steps.map(|frame| match (frame.file, frame.line) {
                (Some(file), Some(line)) => (file, line),
                _ => (frame.module, frame.offset as u32),
            });
            steps.collect()
        })
        .collect();
    most_different_first(&paths)
}

/// The chosen occurrences of all failure points, in the order in which to try them.
pub(super) fn in_order(points: &FailurePoints, symbols: &mut dyn Symbols) -> Vec<ProposedCrash> {
    let leaves = points.leaves();
    let order = leaf_order(leaves, symbols);
    let chosen: Vec<Vec<Occurrence>> = leaves.iter().map(|leaf| leaf.chosen()).collect();
    let most = chosen.iter().map(Vec::len).max().unwrap_or(0);
    let mut in_order = Vec::new();
    for turn in 0..most {
        let purpose = match turn {
            0 => TrialPurpose::FailurePoint,
            _ => TrialPurpose::Occurrence,
        };
        in_order.extend(order.iter().filter_map(|&leaf| {
            let point = FailurePoint {
                kind: leaves[leaf].kind,
                stack: leaves[leaf].stack,
                occurrence: *chosen[leaf].get(turn)?,
            };
            Some(ProposedCrash {
                purpose,
                ..ProposedCrash::from(point)
            })
        }));
    }
    in_order
}

#[cfg(test)]
mod tests {
    use brownout_trace::EventIndex;

    use super::*;
    use crate::failure_point::PointKind;
    use crate::operation::Operation;

    #[test]
    fn waves_double_and_keep_the_order() {
        let point = |event| {
            ProposedCrash::from(FailurePoint {
                kind: PointKind::Fence,
                stack: None,
                occurrence: Occurrence {
                    event: EventIndex(event),
                    operation: Operation::default(),
                },
            })
        };
        let mut prefix = Prefix {
            left: (0..1000).rev().map(point).collect(),
            planned: 1000,
            extent: Extent::default(),
            wave: FIRST_WAVE,
        };
        let mut sizes = Vec::new();
        let mut next = 0;
        loop {
            let wave = prefix.propose();
            if wave.is_empty() {
                break;
            }
            sizes.push(wave.len());
            for proposal in wave {
                assert_eq!((proposal.point.event, proposal.point.choice), (next, None));
                next += 1;
            }
        }
        assert_eq!((sizes, next), (vec![256, 512, 232], 1000));
    }
}
