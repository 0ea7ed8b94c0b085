//! The stores to each instance of each type (C1 and C2).
//!
//! An instance lives until the allocator frees its memory or gives it away again. Where no allocator is known, memory that is used for an
//! object of the same type again is the same instance.

use brownout_model::{PersistOrder, StoreNumber};
use brownout_trace::EventIndex;
use rustc_hash::FxHashMap;

use super::fields::{Fields, SlotNumber};
use crate::object_types::{ObjectId, StoreTypes, TypeId, TypedStore};

/// A store as the update of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) store: StoreNumber,
    pub(crate) slot: SlotNumber,
}

/// An object, and what was stored to it in the whole run, in the order of issue.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) ty: TypeId,
    pub(crate) updates: Vec<Update>,
}

/// An object inside another: the outermost object and its generation, the way from there, and the array indices on it.
type InstanceKey = (TypeId, (ObjectId, u32), u32, Box<[u32]>);

/// All instances that are updated.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    all: Vec<Instance>,
    fields: Fields,
}

impl Instances {
    /// Finds the instances of a run.
    pub(super) fn find(order: &PersistOrder, types: &StoreTypes) -> Self {
        let mut found = Self::default();
        let mut numbers: FxHashMap<InstanceKey, usize> = FxHashMap::default();
        // For each field of each object, its instances and slots.
        let mut known: FxHashMap<&TypedStore, Vec<(usize, SlotNumber)>> = FxHashMap::default();
        for (store, ordered) in (0..).map(StoreNumber).zip(order.stores()) {
            let Some(typed) = types.of(EventIndex(ordered.issued.0)) else {
                continue;
            };
            let updated = known.entry(typed).or_insert_with(|| {
                let levels = found.fields.levels(typed.field, &types.names).to_vec();
                let updated = levels.into_iter().map(|level| {
                    let outer = &typed.indices[..level.outer_indices.min(typed.indices.len())];
                    let object = (typed.object, typed.generation);
                    let key = (level.ty, object, level.way, outer.into());
                    let instance = *numbers.entry(key).or_insert_with(|| {
                        found.all.push(Instance {
                            ty: level.ty,
                            updates: Vec::new(),
                        });
                        found.all.len() - 1
                    });
                    (instance, found.fields.slot(level, &typed.indices))
                });
                updated.collect()
            });
            for &(instance, slot) in updated.iter() {
                found.all[instance].updates.push(Update { store, slot });
            }
        }
        found
    }

    pub(super) fn all(&self) -> &[Instance] {
        &self.all
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }
}
