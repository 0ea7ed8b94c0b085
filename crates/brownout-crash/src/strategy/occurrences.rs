//! All occurrences of failure points, in the order in which more of them are tried.
//!
//! Occurrences of a failure point with equal [features](super::novelty) are one class. First one of each class is tried,
//! the most different classes first, and the failure points take turns; then the others, spread over the run.
//!
//! Memory is bounded: of a class with very many occurrences an even sample is kept, and beyond [`MOST_CLASSES`] a failure
//! point gets one more class for all that is new.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::novelty::{Features, Interval, farthest_first};
use crate::even_sample::EvenSample;
use crate::failure_point::{FailurePoint, Occurrence, PointKind, StackId};
use brownout_trace::Event;

/// Occurrences kept of one class, and of one class after [`MOST_KEPT`] of all classes are kept.
const MOST_OF_CLASS: usize = 4096;
const FEW_OF_CLASS: usize = 8;
const MOST_KEPT: u64 = 1 << 20;
/// Classes that are distinguished, of all failure points together.
const MOST_CLASSES: usize = 1 << 16;
/// Classes of one failure point that are ordered by distance; later ones follow as they come.
const MOST_ORDERED: usize = 128;

/// Takes failure points as they are reached.
#[derive(Debug, Default)]
pub struct Occurrences {
    interval: Interval,
    leaves: Vec<LeafClasses>,
    by_context: FxHashMap<(PointKind, Option<StackId>), usize>,
    count: u64,
    classes: usize,
}

/// The occurrences of one failure point.
#[derive(Debug)]
struct LeafClasses {
    kind: PointKind,
    stack: Option<StackId>,
    count: u64,
    classes: Vec<Class>,
    by_features: FxHashMap<Features, usize>,
    /// The class of what came after [`MOST_CLASSES`].
    others: Option<usize>,
}

#[derive(Debug)]
struct Class {
    features: Features,
    sample: EvenSample<Occurrence>,
}

/// Failure points in the order in which to try them.
#[derive(Debug, Default)]
pub struct Ordered {
    /// The first occurrence of each failure point.
    pub first: Vec<FailurePoint>,
    /// One occurrence of each other class.
    pub novel: Vec<FailurePoint>,
    pub rest: Vec<FailurePoint>,
}

impl Occurrences {
    /// Takes the next event, after the failure point that precedes it.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>) {
        self.interval.observe(event);
    }

    /// A failure point is reached that may be tried. It ends an interval.
    pub fn reach(&mut self, point: &FailurePoint) {
        let leaf = self.leaf(point);
        let features = self.interval.end(point, self.leaves[leaf].count);
        self.keep(leaf, features, point.occurrence);
    }

    /// A failure point is reached that is not tried. It ends an interval.
    pub fn end_interval(&mut self, point: &FailurePoint) {
        self.interval.end(point, 0);
    }

    /// A state between two stores is reached, inside an interval.
    pub fn reach_between(&mut self, state: &FailurePoint) {
        let leaf = self.leaf(state);
        let features = self.interval.so_far(state, self.leaves[leaf].count);
        self.keep(leaf, features, state.occurrence);
    }

    fn leaf(&mut self, point: &FailurePoint) -> usize {
        let key = (point.kind, point.stack);
        *self.by_context.entry(key).or_insert_with(|| {
            self.leaves.push(LeafClasses {
                kind: point.kind,
                stack: point.stack,
                count: 0,
                classes: Vec::new(),
                by_features: FxHashMap::default(),
                others: None,
            });
            self.leaves.len() - 1
        })
    }

    fn keep(&mut self, leaf: usize, features: Features, occurrence: Occurrence) {
        let leaf = &mut self.leaves[leaf];
        leaf.count += 1;
        self.count += 1;
        let limit = if self.count > MOST_KEPT {
            FEW_OF_CLASS
        } else {
            MOST_OF_CLASS
        };
        let is_full = self.classes >= MOST_CLASSES;
        let known = leaf.by_features.get(&features).copied();
        let class = match known.or(leaf.others.filter(|_| is_full)) {
            Some(class) => class,
            None => {
                let class = leaf.classes.len();
                if is_full {
                    leaf.others = Some(class);
                } else {
                    leaf.by_features.insert(features.clone(), class);
                }
                leaf.classes.push(Class {
                    features,
                    sample: EvenSample::new(limit),
                });
                self.classes += 1;
                class
            }
        };
        leaf.classes[class].sample.offer(occurrence);
    }

    /// The failure points, in the order in which to try them. `order` has the contexts of those to begin with.
    pub fn in_order(self, order: &[(PointKind, Option<StackId>)]) -> Ordered {
        let position: FxHashMap<_, usize> = order.iter().copied().zip(0..).collect();
        let mut leaves = self.leaves;
        leaves.sort_by_key(|leaf| {
            let known = position.get(&(leaf.kind, leaf.stack)).copied();
            known.unwrap_or(usize::MAX)
        });
        let mut ordered = Ordered::default();
        let (mut novel, mut rest) = (Vec::new(), Vec::new());
        for leaf in &leaves {
            let mut of_leaf = VecDeque::new();
            for (turn, class) in leaf.order().into_iter().enumerate() {
                let mut chosen = spread(leaf.classes[class].sample.chosen());
                let representative = chosen.pop_front().map(|first| leaf.point(first));
                match turn {
                    0 => ordered.first.extend(representative),
                    _ => of_leaf.extend(representative),
                }
                rest.push(chosen.into_iter().map(|next| leaf.point(next)).collect());
            }
            novel.push(of_leaf);
        }
        ordered.novel = in_turns(novel);
        ordered.rest = in_turns(rest);
        ordered
    }
}

impl LeafClasses {
    /// The numbers of its classes: that of the first occurrence, then the most different.
    fn order(&self) -> Vec<usize> {
        let near = self.classes.iter().take(MOST_ORDERED);
        let features: Vec<&Features> = near.map(|class| &class.features).collect();
        let mut order = farthest_first(&features);
        order.extend(features.len()..self.classes.len());
        order
    }

    fn point(&self, occurrence: Occurrence) -> FailurePoint {
        FailurePoint {
            kind: self.kind,
            stack: self.stack,
            occurrence,
        }
    }
}

/// Takes one from each queue in turn until all are empty.
pub fn in_turns<T>(mut queues: Vec<VecDeque<T>>) -> Vec<T> {
    let mut order = Vec::new();
    while !queues.is_empty() {
        queues.retain_mut(|queue| {
            order.extend(queue.pop_front());
            !queue.is_empty()
        });
    }
    order
}

/// The first, the last, the middle, the quarters, …: every beginning of this order is spread over the whole.
fn spread<T: Copy>(items: Vec<T>) -> VecDeque<T> {
    let Some(last) = items.len().checked_sub(1).filter(|&last| last > 0) else {
        return items.into();
    };
    let mut taken = vec![false; items.len()];
    let mut order = VecDeque::with_capacity(items.len());
    let mut take = |at: usize| {
        if !std::mem::replace(&mut taken[at], true) {
            order.push_back(items[at]);
        }
    };
    take(0);
    take(last);
    let mut parts = 2;
    while parts < 2 * items.len() {
        (1..parts).for_each(|part| take(part * last / parts));
        parts *= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_is_spread_over_the_whole() {
        let order: Vec<u32> = spread((0..9).collect()).into();
        assert_eq!(order, [0, 8, 4, 2, 6, 1, 3, 5, 7]);
        for count in [0, 1, 2, 3, 10, 100] {
            let mut all: Vec<u32> = spread((0..count).collect()).into();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn queues_take_turns() {
        let queues = vec![vec![1, 4, 6].into(), VecDeque::new(), vec![2, 5].into()];
        assert_eq!(in_turns(queues), [1, 2, 4, 5, 6]);
    }
}
