//! Groups of update behaviours, each with a shape that represents all others (D).
//!
//! Shapes are considered by size, those with more stores first, of equal ones those with fewer constraints. A shape joins every group whose
//! representative represents it: if only one of two representatives fails, what it stands for is known all the same. A shape that no
//! group represents begins one.

use rustc_hash::FxHashMap;

use super::shape::{Node, Shape};
use crate::object_types::TypeId;

/// The number of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShapeNumber(pub(crate) u32);

impl ShapeNumber {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Shapes, and the one that represents them.
#[derive(Clone, Debug)]
pub(crate) struct BehaviourGroup {
    pub(crate) representative: ShapeNumber,
    /// All that it represents, itself first.
    pub(crate) shapes: Vec<ShapeNumber>,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    shapes: Vec<Shape>,
    groups: Vec<BehaviourGroup>,
}

impl Grouping {
    pub(super) fn new(shapes: Vec<Shape>) -> Self {
        let mut order: Vec<ShapeNumber> = (0..shapes.len() as u32).map(ShapeNumber).collect();
        order.sort_by_cached_key(|number| {
            let shape = &shapes[number.index()];
            (std::cmp::Reverse(shape.len()), shape.constraints(), *number)
        });
        let mut groups: Vec<BehaviourGroup> = Vec::new();
        // The groups whose representatives have a node.
        let mut with_node: FxHashMap<(TypeId, &Node), Vec<usize>> = FxHashMap::default();
        for number in order {
            let shape = &shapes[number.index()];
            let nodes = shape.nodes.iter().map(|node| (shape.ty, &node.node));
            let candidates = nodes.clone().map(|node| with_node.get(&node));
            let fewest = candidates.min_by_key(|groups| groups.map_or(0, Vec::len));
            let mut is_represented = false;
            for &group in fewest.flatten().into_iter().flatten() {
                let representative: ShapeNumber = groups[group].representative;
                if shapes[representative.index()].represents(shape) {
                    groups[group].shapes.push(number);
                    is_represented = true;
                }
            }
            if !is_represented {
                for node in nodes {
                    with_node.entry(node).or_default().push(groups.len());
                }
                groups.push(BehaviourGroup {
                    representative: number,
                    shapes: vec![number],
                });
            }
        }
        drop(with_node);
        Self { shapes, groups }
    }

    pub(super) fn groups(&self) -> &[BehaviourGroup] {
        &self.groups
    }

    pub(super) fn shape(&self, number: ShapeNumber) -> &Shape {
        &self.shapes[number.index()]
    }
}
