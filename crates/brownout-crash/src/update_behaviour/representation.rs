//! Whether one shape represents another: it updates all that the other updates, and orders nothing of it that the other does not order.
//!
//! All pairs of stores are compared in one pass over their intervals, not one by one.

use rustc_hash::FxHashMap;

use super::shape::{OrderedNode, Shape};

/// The same update in two shapes.
#[derive(Clone, Copy)]
struct Match<'s> {
    representative: &'s OrderedNode,
    represented: &'s OrderedNode,
}

impl Shape {
    /// Whether a test of a behaviour of this shape tries all that a test of one of the other shape would.
    pub(super) fn represents(&self, other: &Self) -> bool {
        self.ty == other.ty
            && matches(self, other).is_some_and(|matches| !has_further_constraints(&matches))
    }
}

/// The nodes of `represented` in both shapes; `None` if one is missing in the other shape.
fn matches<'s>(representative: &'s Shape, represented: &'s Shape) -> Option<Vec<Match<'s>>> {
    if representative.nodes.len() < represented.nodes.len() {
        return None;
    }
    let mut candidates = representative.nodes.iter();
    let matches = represented.nodes.iter().map(|node| {
        let found = candidates.find(|candidate| candidate.node >= node.node)?;
        (found.node == node.node).then_some(Match {
            representative: found,
            represented: node,
        })
    });
    matches.collect()
}

/// Whether the representative orders two of the nodes, and the represented shape does not.
fn has_further_constraints(matches: &[Match<'_>]) -> bool {
    let mut by_start: Vec<&Match<'_>> = matches.iter().collect();
    by_start.sort_by_key(|node| node.representative.start);
    let mut by_end: Vec<&Match<'_>> = matches.iter().collect();
    by_end.sort_by_key(|node| node.representative.end);
    let mut earlier = EarlierNodes::default();
    let mut ended = by_end.into_iter().peekable();
    for later in by_start {
        let start = later.representative.start;
        while let Some(node) = ended.next_if(|node| node.representative.end <= start) {
            earlier.add(node.represented);
        }
        if earlier.has_unordered(later.represented) {
            return true;
        }
    }
    let mut by_unit: FxHashMap<u32, Vec<(u32, &OrderedNode)>> = FxHashMap::default();
    for node in matches {
        if let Some(sequence) = node.representative.sequence {
            let of_unit = by_unit.entry(sequence.unit).or_default();
            of_unit.push((sequence.position, node.represented));
        }
    }
    by_unit.into_values().any(|mut nodes| {
        nodes.sort_by_key(|&(position, _)| position);
        let mut earlier = EarlierNodes::default();
        nodes.into_iter().any(|(_, node)| {
            let further = earlier.has_unordered(node);
            earlier.add(node);
            further
        })
    })
}

/// Nodes of the represented shape that have to persist before those that follow.
#[derive(Default)]
struct EarlierNodes {
    /// The latest ends, of two different units; a node in no unit counts as one in a unit of its own.
    latest: [Option<(u32, Option<u32>)>; 2],
    /// For each unit, the last position in it.
    positions: FxHashMap<u32, u32>,
}

impl EarlierNodes {
    fn add(&mut self, node: &OrderedNode) {
        let unit = node.sequence.map(|sequence| sequence.unit);
        if let Some(sequence) = node.sequence {
            let last = self.positions.entry(sequence.unit).or_default();
            *last = sequence.position.max(*last);
        }
        let new = Some((node.end, unit));
        let is_same = |known: Option<(u32, Option<u32>)>| {
            unit.is_some() && known.is_some_and(|(_, known)| known == unit)
        };
        let [first, second] = self.latest;
        self.latest = match () {
            () if is_same(first) => [first.max(new), second],
            () if new > first => [new, first],
            () if is_same(second) || new > second => [first, second.max(new)],
            () => [first, second],
        };
    }

    /// Whether the represented shape does not order one of them before `later`.
    fn has_unordered(&self, later: &OrderedNode) -> bool {
        let unit = later.sequence.map(|sequence| sequence.unit);
        let mut others = self
            .latest
            .iter()
            .flatten()
            .filter(|(_, other)| unit.is_none() || *other != unit);
        let is_open = others.next().is_some_and(|&(end, _)| end > later.start);
        let in_unit = later.sequence.and_then(|sequence| {
            let last = self.positions.get(&sequence.unit)?;
            Some(*last > sequence.position)
        });
        is_open || in_unit.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::small_run::shape_of;
    use super::*;

    /// By comparing all pairs.
    fn represents(representative: &Shape, represented: &Shape) -> bool {
        let Some(matches) = matches(representative, represented) else {
            return false;
        };
        matches.iter().all(|first| {
            matches.iter().all(|second| {
                let is_same = std::ptr::eq(first.represented, second.represented);
                is_same
                    || !first.representative.persists_before(second.representative)
                    || first.represented.persists_before(second.represented)
            })
        })
    }

    fn updates() -> impl Strategy<Value = Vec<(u64, bool)>> {
        proptest::collection::vec((0..6_u64, proptest::bool::weighted(0.3)), 1..7)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn one_pass_finds_what_all_pairs_show(
            (one, other) in (updates(), updates()),
            strides in (prop_oneof![Just(8_u64), Just(32), Just(64)], prop_oneof![Just(8_u64), Just(32), Just(64)]),
        ) {
            let (one, other) = (shape_of(&one, strides.0), shape_of(&other, strides.1));
            prop_assert_eq!(one.represents(&other), represents(&one, &other));
            prop_assert!(one.represents(&one));
        }

        #[test]
        fn constraints_are_the_pairs_that_are_ordered(
            updates in updates(),
            stride in prop_oneof![Just(8_u64), Just(32), Just(64)],
        ) {
            let shape = shape_of(&updates, stride);
            let nodes = shape.nodes.iter();
            let pairs = nodes.clone().flat_map(|first| nodes.clone().map(move |second| (first, second)));
            let ordered = pairs.filter(|(first, second)| {
                !std::ptr::eq(*first, *second) && first.persists_before(second)
            });
            prop_assert_eq!(shape.constraints(), ordered.count() as u64);
        }
    }
}
