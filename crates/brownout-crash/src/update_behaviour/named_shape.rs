//! The shape of an update behaviour in words, so that it can be compared with those of other runs.
//!
//! Types and fields have numbers in one run only. By their names, array indices by the order of first touch, and the order of stores,
//! behaviours of two runs are compared as those of one run are. A type is the same in another run if its name and size are.
//!
//! Can miss: that a type without debug information is the same, because its name is that of an example.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::fields::FieldNumber;
use super::shape::{InSequence, Node, OrderedNode, Shape};
use super::{BehaviourNumber, UpdateBehaviours};
use crate::object_types::{TypeId, TypeNames};

/// The shape of an update behaviour, without numbers of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedShape {
    #[serde(rename = "type")]
    pub(crate) ty: String,
    /// Of an object of the type, in bytes.
    pub(crate) size: u64,
    pub(crate) updates: Vec<NamedUpdate>,
}

/// An update of a field, and its order among the updates of the behaviour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedUpdate {
    /// The names on the path from the object to the field.
    path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indices: Vec<u32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    rank: u32,
    start: u32,
    end: u32,
    /// The sequence of a unit, and the position in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<(u32, u32)>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl UpdateBehaviours {
    /// The shape of a behaviour in words.
    pub(crate) fn named_shape(&self, behaviour: BehaviourNumber, names: &TypeNames) -> NamedShape {
        let shape = self.shape(self.behaviour(behaviour).shape);
        let fields = self.instances.fields();
        let updates = shape.nodes.iter().map(|ordered| {
            let Node {
                field,
                indices,
                rank,
            } = &ordered.node;
            NamedUpdate {
                path: fields.path(*field).to_vec(),
                indices: indices.clone(),
                rank: *rank,
                start: ordered.start,
                end: ordered.end,
                sequence: ordered.sequence.map(|known| (known.unit, known.position)),
            }
        });
        let mut updates: Vec<NamedUpdate> = updates.collect();
        // Not by the numbers of the run.
        updates.sort_unstable();
        NamedShape {
            ty: names.type_name(shape.ty).to_owned(),
            size: names.size(shape.ty),
            updates: with_units_in_order(updates),
        }
    }
}

/// Numbers units by their first updates: otherwise equal shapes would differ in them.
fn with_units_in_order(mut updates: Vec<NamedUpdate>) -> Vec<NamedUpdate> {
    let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
    for (unit, _) in updates
        .iter_mut()
        .filter_map(|update| update.sequence.as_mut())
    {
        let next = numbers.len() as u32;
        *unit = *numbers.entry(*unit).or_insert(next);
    }
    updates
}

/// Compares shapes of several runs.
#[derive(Debug, Default)]
pub(crate) struct ShapeComparison {
    types: FxHashMap<(String, u64), TypeId>,
    fields: FxHashMap<Vec<String>, FieldNumber>,
}

/// A shape with the numbers of a comparison.
#[derive(Debug)]
pub(crate) struct ComparableShape(Shape);

impl ShapeComparison {
    /// Numbers the type and the fields of a shape.
    pub(crate) fn add(&mut self, named: &NamedShape) -> ComparableShape {
        let next = TypeId(self.types.len() as u32);
        let key = (named.ty.clone(), named.size);
        let ty = *self.types.entry(key).or_insert(next);
        let nodes = named.updates.iter().map(|update| {
            let next = FieldNumber(self.fields.len() as u32);
            let field = *self.fields.entry(update.path.clone()).or_insert(next);
            OrderedNode {
                node: Node {
                    field,
                    indices: update.indices.clone(),
                    rank: update.rank,
                },
                start: update.start,
                end: update.end,
                sequence: update
                    .sequence
                    .map(|(unit, position)| InSequence { unit, position }),
            }
        });
        let mut nodes: Vec<OrderedNode> = nodes.collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        ComparableShape(Shape { ty, nodes })
    }
}

impl ComparableShape {
    /// Whether a test of a behaviour of this shape tries all that a test of one of the other shape would. Both belong to one
    /// comparison.
    pub(crate) fn represents(&self, other: &Self) -> bool {
        self.0.represents(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(name: &str, start: u32, end: u32) -> NamedUpdate {
        NamedUpdate {
            path: vec![name.to_owned()],
            indices: Vec::new(),
            rank: 0,
            start,
            end,
            sequence: None,
        }
    }

    fn entry(updates: Vec<NamedUpdate>) -> NamedShape {
        NamedShape {
            ty: "entry".to_owned(),
            size: 64,
            updates,
        }
    }

    #[test]
    fn a_shape_of_another_run_represents_one_with_fewer_updates_and_more_order() {
        let insert = entry(vec![update("key", 0, 1), update("valid", 0, 1)]);
        let ordered = entry(vec![update("key", 0, 1), update("valid", 1, 2)]);
        let delete = entry(vec![update("valid", 0, 1)]);
        let mut comparison = ShapeComparison::default();
        // In another order than that in which their fields are numbered.
        let [delete, ordered, insert] =
            [&delete, &ordered, &insert].map(|shape| comparison.add(shape));
        assert!(insert.represents(&delete) && insert.represents(&ordered));
        assert!(!delete.represents(&insert) && !ordered.represents(&insert));
    }

    #[test]
    fn a_type_of_another_size_is_another_type() {
        let now = entry(vec![update("key", 0, 1)]);
        let before = NamedShape {
            size: 32,
            ..now.clone()
        };
        let mut comparison = ShapeComparison::default();
        let [now, before] = [&now, &before].map(|shape| comparison.add(shape));
        assert!(!before.represents(&now) && now.represents(&now));
    }

    #[test]
    fn units_are_numbered_by_their_first_updates() {
        let in_unit = |name: &str, unit| NamedUpdate {
            sequence: Some((unit, 0)),
            ..update(name, 0, 1)
        };
        let units = |numbers: [u32; 3]| {
            let [a, b, c] = numbers;
            let updates = vec![in_unit("a", a), in_unit("b", b), in_unit("c", c)];
            with_units_in_order(updates)
        };
        assert_eq!(units([4, 2, 4]), units([0, 1, 0]));
        assert_ne!(units([4, 2, 4]), units([0, 1, 1]));
    }
}
