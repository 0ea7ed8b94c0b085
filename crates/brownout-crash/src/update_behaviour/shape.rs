//! What of an update behaviour counts when it is compared with others: which fields of its type it updates, and which of its stores
//! are ordered.
//!
//! Guarantees are an interval order. How many stores of the behaviour are guaranteed when a store is issued, and how many become
//! guaranteed earlier than it, determine that order completely; so two behaviours with the same fields and order have equal shapes,
//! whatever happened between their stores.

use brownout_model::{PersistOrder, PmAddress};
use rustc_hash::FxHashMap;

use super::fields::{ArrayNumber, FieldNumber, Fields};
use super::groups::ShapeNumber;
use super::instances::Update;
use crate::object_types::TypeId;

/// An update of a field. Equal for behaviours of different objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(super) field: FieldNumber,
    /// The array indices on the path of the field, each numbered by the order in which the behaviour touches them.
    pub(super) indices: Vec<u32>,
    /// How often the behaviour has updated it before.
    pub(super) rank: u32,
}

/// The sequence of a unit, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InSequence {
    /// Units are numbered in the order of their first nodes.
    pub(super) unit: u32,
    pub(super) position: u32,
}

/// A node and its order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrderedNode {
    pub(super) node: Node,
    /// How many stores of the behaviour are guaranteed when this one is issued.
    pub(super) start: u32,
    /// One more than the number of stores that are guaranteed earlier than this one, as far as another store can tell: this one is
    /// guaranteed before a store if its `end` is not greater than the other's `start`.
    pub(super) end: u32,
    pub(super) sequence: Option<InSequence>,
}

#[cfg(test)]
impl OrderedNode {
    /// Whether no crash can keep `other` without this one.
    pub(super) fn persists_before(&self, other: &Self) -> bool {
        let in_sequence = self.sequence.zip(other.sequence);
        self.end <= other.start
            || in_sequence.is_some_and(|(a, b)| a.unit == b.unit && a.position < b.position)
    }
}

/// The shape of an update behaviour.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(super) ty: TypeId,
    /// Ordered by node.
    pub(super) nodes: Vec<OrderedNode>,
}

impl Shape {
    /// How many pairs of stores are ordered.
    pub(crate) fn constraints(&self) -> u64 {
        let guaranteed = self.nodes.iter().map(|node| u64::from(node.start));
        let mut by_unit: FxHashMap<u32, Vec<&OrderedNode>> = FxHashMap::default();
        for node in &self.nodes {
            if let Some(sequence) = node.sequence {
                by_unit.entry(sequence.unit).or_default().push(node);
            }
        }
        let in_sequence = by_unit.into_values().map(|nodes| {
            let count = nodes.len() as u64;
            let mut ends: Vec<u32> = nodes.iter().map(|node| node.end).collect();
            ends.sort_unstable();
            let guaranteed = nodes
                .iter()
                .map(|node| ends.partition_point(|&end| end <= node.start) as u64);
            count * (count - 1) / 2 - guaranteed.sum::<u64>()
        });
        guaranteed.sum::<u64>() + in_sequence.sum::<u64>()
    }

    /// How many stores a behaviour of this shape has.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Numbers shapes.
#[derive(Default)]
pub(super) struct ShapeBuilder {
    numbers: FxHashMap<Shape, ShapeNumber>,
}

impl ShapeBuilder {
    /// The shape of some updates of an instance.
    pub(super) fn add(
        &mut self,
        ty: TypeId,
        updates: &[Update],
        fields: &Fields,
        order: &PersistOrder,
    ) -> ShapeNumber {
        let shape = Shape {
            ty,
            nodes: ordered(nodes(updates, fields), updates, order),
        };
        let next = ShapeNumber(self.numbers.len() as u32);
        *self.numbers.entry(shape).or_insert(next)
    }

    /// The shapes in the order of their numbers.
    pub(super) fn finish(self) -> Vec<Shape> {
        let mut shapes: Vec<(Shape, ShapeNumber)> = self.numbers.into_iter().collect();
        shapes.sort_by_key(|&(_, number)| number);
        shapes.into_iter().map(|(shape, _)| shape).collect()
    }
}

/// The node of each update.
fn nodes(updates: &[Update], fields: &Fields) -> Vec<Node> {
    let mut ranks: FxHashMap<(FieldNumber, Vec<u32>), u32> = FxHashMap::default();
    let mut renumbering = Renumbering::default();
    let nodes = updates.iter().map(|update| {
        let (field, arrays, indices) = fields.of_slot(update.slot);
        let indices = renumbering.numbers(arrays, indices);
        let rank = ranks.entry((field, indices.clone())).or_default();
        *rank += 1;
        Node {
            field,
            indices,
            rank: *rank - 1,
        }
    });
    nodes.collect()
}

/// The elements of each array, by the order in which they are first touched.
#[derive(Default)]
struct Renumbering {
    /// By array and indices up to the element.
    elements: FxHashMap<(ArrayNumber, Vec<u32>), u32>,
    /// By array and indices up to the array.
    touched: FxHashMap<(ArrayNumber, Vec<u32>), u32>,
}

impl Renumbering {
    fn numbers(&mut self, arrays: &[ArrayNumber], indices: &[u32]) -> Vec<u32> {
        let depths = arrays.iter().zip(1..=indices.len());
        let numbers = depths.map(|(&array, depth)| {
            let touched = &mut self.touched;
            let element = (array, indices[..depth].to_vec());
            *self.elements.entry(element).or_insert_with(|| {
                let outer = (array, indices[..depth - 1].to_vec());
                let count = touched.entry(outer).or_default();
                *count += 1;
                *count - 1
            })
        });
        numbers.collect()
    }
}

/// Adds the order of the updates to their nodes.
fn ordered(nodes: Vec<Node>, updates: &[Update], order: &PersistOrder) -> Vec<OrderedNode> {
    let stores: Vec<_> = updates
        .iter()
        .map(|update| order.store(update.store))
        .collect();
    // No two stores are issued at the same time; one that is guaranteed at once is guaranteed before the next.
    let guaranteed = |at: usize| {
        let store = stores[at];
        let time = store.guaranteed().map_or(u64::MAX, |time| time.0);
        time.max(store.issued.0 + 1)
    };
    let mut ends: Vec<u64> = (0..stores.len()).map(guaranteed).collect();
    ends.sort_unstable();
    let starts: Vec<u32> = stores
        .iter()
        .map(|store| ends.partition_point(|&end| end <= store.issued.0) as u32)
        .collect();
    let mut ordered: Vec<(OrderedNode, Option<PmAddress>, usize)> = Vec::new();
    for (at, node) in nodes.into_iter().enumerate() {
        // What others can tell of its guarantee is known when the last store before it is issued. That can be the store itself.
        let before = stores.partition_point(|store| store.issued.0 < guaranteed(at));
        let end = starts[before - 1] + 1;
        let node = OrderedNode {
            node,
            start: starts[at],
            end,
            sequence: None,
        };
        ordered.push((node, stores[at].unit(), at));
    }
    ordered.sort_by(|(a, ..), (b, ..)| a.node.cmp(&b.node));
    number_units(&mut ordered);
    ordered.into_iter().map(|(node, ..)| node).collect()
}

/// Numbers the units of nodes, which are given with their unit and their position in the order of issue. A store that is alone
/// in its unit is ordered by nothing.
fn number_units(nodes: &mut [(OrderedNode, Option<PmAddress>, usize)]) {
    let mut in_unit: FxHashMap<PmAddress, Vec<usize>> = FxHashMap::default();
    for &(_, unit, at) in nodes.iter() {
        if let Some(unit) = unit {
            in_unit.entry(unit).or_default().push(at);
        }
    }
    in_unit
        .values_mut()
        .for_each(|stores| stores.sort_unstable());
    let mut numbers: FxHashMap<PmAddress, u32> = FxHashMap::default();
    for (node, unit, at) in nodes {
        let Some(unit) = unit.filter(|unit| in_unit[unit].len() > 1) else {
            continue;
        };
        let next = numbers.len() as u32;
        node.sequence = Some(InSequence {
            unit: *numbers.entry(unit).or_insert(next),
            position: in_unit[&unit].partition_point(|before| before < at) as u32,
        });
    }
}
