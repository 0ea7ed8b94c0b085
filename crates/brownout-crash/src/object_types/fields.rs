//! From types of debug information to the names in the result: each field of each type once.

use brownout_symbols::{DataTypeId, DataTypes, FieldAt, Shape};
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use super::live_objects::LiveObject;
use super::names::{FieldStep, TypeNames};
use super::{FieldId, ObjectId, TypeId, TypedStore};

/// What bytes of an object are, and what they refer to.
#[derive(Debug)]
pub(super) struct FieldOf {
    pub(super) field: FieldId,
    pub(super) indices: Vec<u32>,
    /// Words among the bytes that refer to other objects.
    pub(super) references: Vec<ReferenceAt>,
}

/// A word that refers to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReferenceAt {
    /// The offset among the bytes.
    pub(super) offset: usize,
    pub(super) target: DataTypeId,
    /// It is an offset in the file; otherwise an address.
    pub(super) is_identifier: bool,
}

/// The fields that have been looked up.
#[derive(Debug, Default)]
pub(super) struct Fields {
    types: FxHashMap<DataTypeId, TypeId>,
    known: FxHashMap<(DataTypeId, u64, u64), FieldOf>,
}

const WORD: u64 = 8;

impl Fields {
    pub(super) fn type_of(
        &mut self,
        ty: DataTypeId,
        types: &DataTypes,
        names: &mut TypeNames,
    ) -> TypeId {
        self.type_called(ty, "unnamed", types, names)
    }

    /// The type, with another name if it has none in the source.
    fn type_called(
        &mut self,
        ty: DataTypeId,
        otherwise: &str,
        types: &DataTypes,
        names: &mut TypeNames,
    ) -> TypeId {
        *self.types.entry(ty).or_insert_with(|| {
            let data = types.get(ty);
            let name = match &*data.name {
                "" => otherwise,
                // An array of a type without a name.
                array if array.starts_with('[') => otherwise,
                name => name,
            };
            names.add_type(name, data.size)
        })
    }

    /// What `size` bytes at `offset` of an object are.
    pub(super) fn at(
        &mut self,
        ty: DataTypeId,
        offset: u64,
        size: u64,
        types: &mut DataTypes,
        names: &mut TypeNames,
    ) -> &FieldOf {
        let key = (ty, offset, size);
        if !self.known.contains_key(&key) {
            let found = self.describe(ty, offset, size, types, names);
            self.known.insert(key, found);
        }
        &self.known[&key]
    }

    fn describe(
        &mut self,
        ty: DataTypeId,
        offset: u64,
        size: u64,
        types: &mut DataTypes,
        names: &mut TypeNames,
    ) -> FieldOf {
        let own = self.type_of(ty, types, names);
        let path = types.path(ty, offset, size);
        let (steps, indices) = self.steps(own, &path, types, names);
        FieldOf {
            field: names.field(own, &steps),
            indices,
            references: references(ty, offset, size, types),
        }
    }

    /// A path from an object of type `outer` in the form of the result, and the array indices on it. Types on it that have no name are
    /// called by the path to them.
    fn steps(
        &mut self,
        outer: TypeId,
        path: &[FieldAt],
        types: &DataTypes,
        names: &mut TypeNames,
    ) -> (Vec<FieldStep>, Vec<u32>) {
        let mut steps = Vec::new();
        let mut indices = Vec::new();
        let mut way = names.type_name(outer).to_owned();
        // How far array indices have moved the field.
        let mut moved = 0;
        for step in path {
            let data = types.get(step.ty);
            if step.name.is_none() {
                // Bytes of a string are no fields.
                if data.size == 1 && matches!(data.shape, Shape::Scalar) {
                    break;
                }
                indices.push(u32::try_from(step.index).unwrap_or(u32::MAX));
                moved = u64::wrapping_add(moved, step.index.wrapping_mul(data.size));
            }
            let name = match &step.name {
                Some(name) if name.is_empty() => continue,
                Some(name) => name.to_string(),
                None => "[]".to_owned(),
            };
            if step.name.is_some() {
                way.push('.');
            }
            way.push_str(&name);
            let is_composite = matches!(data.shape, Shape::Composite { .. } | Shape::Array { .. });
            let composite = is_composite.then(|| self.type_called(step.ty, &way, types, names));
            steps.push(FieldStep {
                name,
                composite,
                offset: step.offset.wrapping_sub(moved),
            });
        }
        (steps, indices)
    }

    /// What a store to an object of type `inner` changes in the object around it, of type `outer`.
    pub(super) fn in_outer(
        &mut self,
        store: &TypedStore,
        inner: DataTypeId,
        (file, outer): (FileId, LiveObject),
        types: &DataTypes,
        names: &mut TypeNames,
    ) -> Option<TypedStore> {
        let within = store.object.offset.checked_sub(outer.start)?;
        let path = types.path_to(outer.ty, within, inner)?;
        let ty = self.type_of(outer.ty, types, names);
        let (mut steps, mut indices) = self.steps(ty, &path, types, names);
        // Array indices are left out of offsets.
        let start = steps.last().map_or(0, |step| step.offset);
        let below = names.path(store.field).iter().cloned();
        steps.extend(below.map(|step| FieldStep {
            offset: step.offset + start,
            ..step
        }));
        indices.extend(&store.indices);
        Some(TypedStore {
            object: ObjectId {
                file,
                offset: outer.start,
            },
            ty,
            field: names.field(ty, &steps),
            indices,
            generation: store.generation,
        })
    }
}

/// The words among `size` bytes at `offset` that refer to objects.
fn references(ty: DataTypeId, offset: u64, size: u64, types: &mut DataTypes) -> Vec<ReferenceAt> {
    let first = offset.next_multiple_of(WORD);
    let words = (first..).step_by(WORD as usize);
    let words = words.take_while(|word| word + WORD <= offset + size);
    let mut found = Vec::new();
    for word in words {
        let path = types.path(ty, word, WORD);
        let identified = types.identified(ty, &path);
        let last = path.last().map_or(ty, |step| step.ty);
        if let Some(target) = identified.or_else(|| types.object_behind(last)) {
            found.push(ReferenceAt {
                offset: (word - offset) as usize,
                target,
                is_identifier: identified.is_some(),
            });
        }
    }
    found
}
