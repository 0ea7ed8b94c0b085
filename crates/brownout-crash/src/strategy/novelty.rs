//! How different two instants of a run are, as far as crash testing is concerned.
//!
//! What happened between two failure points is a set of features: the instructions that stored, how much, to lines that
//! were stored to how often, which kind of values, and the failure points before. Failure points with equal features are
//! likely to leave equivalent images, as the update behaviours of Squint do (Neal, ch. 4); the farther two sets are apart,
//! the more is gained by trying both.
//!
//! Can miss: differences that show only in values. The features are an order of preference, never a reason to leave
//! something out.

use std::hash::{Hash, Hasher};

use brownout_trace::{Event, EventKind};
use rustc_hash::FxHasher;

use crate::failure_point::{FailurePoint, Occurrence};

/// Distinct features kept of one interval; more make no difference.
const MOST_FEATURES: usize = 64;
/// Lines are remembered in a table of this size; two that share an entry look like one that is stored to more often.
const LINES: usize = 1 << 14;
const LINE: u64 = 64;

/// What happened before a failure point: sorted, without duplicates.
pub type Features = Box<[u32]>;

/// Collects features between failure points.
#[derive(Debug)]
pub struct Interval {
    features: Vec<u32>,
    /// For each line how often it was stored to, and by which instruction last.
    lines: Vec<(u32, u32)>,
    /// The last two failure points.
    before: [u32; 2],
    /// The last instruction that stored.
    last: u32,
}

impl Default for Interval {
    fn default() -> Self {
        Self {
            features: Vec::new(),
            lines: vec![(0, 0); LINES],
            before: [0; 2],
            last: 0,
        }
    }
}

impl Interval {
    /// Takes the next event, after the failure point that precedes it.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>) {
        let (EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. }) =
            event.kind
        else {
            return;
        };
        let site = hash((event.pc.0, event.context.0));
        let line = &mut self.lines[hash(addr.0 / LINE) as usize % LINES];
        let age = line.0.min(16).checked_ilog2();
        let class = (age, line.1 == site);
        *line = (line.0.saturating_add(1), site);
        self.last = site;
        if self.features.len() < MOST_FEATURES {
            add(&mut self.features, hash((site, bytes.len())));
            add(&mut self.features, hash((site, class)));
            add(&mut self.features, hash((site, value_class(bytes))));
        }
    }

    /// The features of the interval that ends at a failure point, which is the `number`th of its leaf, from 0.
    pub fn end(&mut self, point: &FailurePoint, number: u64) -> Features {
        let features = std::mem::take(&mut self.features);
        let features = self.with_state(features, point, number);
        self.before = [hash((point.kind, point.stack)), self.before[0]];
        features
    }

    /// The features of the interval so far, at a state between two of its stores.
    pub fn so_far(&self, state: &FailurePoint, number: u64) -> Features {
        let mut features = self.features.clone();
        add(&mut features, hash(("last", self.last)));
        self.with_state(features, state, number)
    }

    /// Adds what came before the interval.
    fn with_state(&self, mut features: Vec<u32>, point: &FailurePoint, number: u64) -> Features {
        let Occurrence { operation, .. } = point.occurrence;
        let state = [
            hash(("before", self.before[0])),
            hash(("before", self.before)),
            // A pool grows with the run: its first, second, fourth, … state differ more than two late ones do.
            hash(("operations", (operation.completed + 1).ilog2())),
            hash(("number", (number + 1).ilog2())),
        ];
        state
            .into_iter()
            .for_each(|feature| add(&mut features, feature));
        features.sort_unstable();
        features.into_boxed_slice()
    }
}

fn add(features: &mut Vec<u32>, feature: u32) {
    if !features.contains(&feature) {
        features.push(feature);
    }
}

/// Zero, a small number, or anything else.
fn value_class(bytes: &[u8]) -> u8 {
    let used = bytes.iter().rposition(|&byte| byte != 0);
    match used {
        None => 0,
        Some(0) => 1,
        Some(_) => 2,
    }
}

fn hash(value: impl Hash) -> u32 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    let mixed = hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// An order of classes, given by their features, in which each is as far as possible from all before it. The first stays
/// the first.
pub fn farthest_first(classes: &[&Features]) -> Vec<usize> {
    let mut order = Vec::with_capacity(classes.len());
    // For each class that is left, its distance to the nearest in the order.
    let mut left: Vec<(usize, f64)> = (0..classes.len()).map(|at| (at, 1.0)).collect();
    let mut next = (!left.is_empty()).then_some(0);
    while let Some(at) = next {
        let (chosen, _) = left.remove(at);
        order.push(chosen);
        let mut farthest: Option<(usize, f64)> = None;
        for (position, (class, nearest)) in left.iter_mut().enumerate() {
            *nearest = nearest.min(distance(classes[chosen], classes[*class]));
            // Of equally distant ones, the earliest.
            if farthest.is_none_or(|(_, distance)| *nearest > distance) {
                farthest = Some((position, *nearest));
            }
        }
        next = farthest.map(|(position, _)| position);
    }
    order
}

/// The Jaccard distance of two sets: 0 if they are equal, 1 if they have nothing in common.
fn distance(one: &Features, other: &Features) -> f64 {
    let (mut at, mut common) = (0, 0);
    for feature in one {
        while other.get(at).is_some_and(|known| known < feature) {
            at += 1;
        }
        common += usize::from(other.get(at) == Some(feature));
    }
    let union = one.len() + other.len() - common;
    match union {
        0 => 0.0,
        _ => 1.0 - common as f64 / union as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(features: &[u32]) -> Features {
        features.into()
    }

    #[test]
    fn what_differs_most_comes_first() {
        let classes = [
            set(&[1, 2, 3]),
            set(&[1, 2, 3, 4]),
            set(&[7, 8, 9]),
            set(&[1, 7]),
        ];
        let classes: Vec<&Features> = classes.iter().collect();
        assert_eq!(farthest_first(&classes), [0, 2, 3, 1]);
        assert!(farthest_first(&[]).is_empty());
    }

    #[test]
    fn distances_are_those_of_sets() {
        assert_eq!(distance(&set(&[1, 2]), &set(&[1, 2])), 0.0);
        assert_eq!(distance(&set(&[1, 2]), &set(&[3])), 1.0);
        assert_eq!(distance(&set(&[1, 2]), &set(&[2, 3, 4])), 0.75);
        assert_eq!(distance(&set(&[]), &set(&[])), 0.0);
    }
}
