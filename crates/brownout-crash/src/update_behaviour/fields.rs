//! The fields of all types, seen from the outermost type and from each type inside it (C1).
//!
//! A store to `outer.inner.a` updates the field `inner.a` of an `outer` and the field `a` of an `inner`. Fields are equal by their type and
//! path, wherever the object is.

use rustc_hash::FxHashMap;

use crate::object_types::{FieldId, FieldStep, TypeId, TypeNames};

/// A field of a type, without array indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FieldNumber(pub(super) u32);

/// A field with its array indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotNumber(u32);

/// An array on the path of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ArrayNumber(u32);

/// One of the types whose field a store updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) ty: TypeId,
    field: FieldNumber,
    /// The way from the outermost object to the one of this level; two ways are equal if they have equal numbers.
    pub(super) way: u32,
    /// How many array indices are on that way.
    pub(super) outer_indices: usize,
}

#[derive(Clone, Debug)]
struct Field {
    ty: TypeId,
    /// The names of its steps.
    path: Vec<String>,
    arrays: Vec<ArrayNumber>,
}

/// A field with indices.
#[derive(Clone, Debug)]
struct Slot {
    field: FieldNumber,
    indices: Box<[u32]>,
}

/// A type and the names of steps from there.
type Path = (TypeId, Vec<String>);

/// All fields and slots that are updated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    by_path: FxHashMap<Path, FieldNumber>,
    arrays: FxHashMap<Path, ArrayNumber>,
    ways: FxHashMap<Path, u32>,
    levels: FxHashMap<FieldId, Vec<Level>>,
    slots: Vec<Slot>,
    by_slot: FxHashMap<(FieldNumber, Box<[u32]>), SlotNumber>,
}

impl Fields {
    /// The levels of a field, outermost first.
    pub(super) fn levels(&mut self, field: FieldId, names: &TypeNames) -> &[Level] {
        if !self.levels.contains_key(&field) {
            let levels = self.find_levels(field, names);
            self.levels.insert(field, levels);
        }
        &self.levels[&field]
    }

    fn find_levels(&mut self, field: FieldId, names: &TypeNames) -> Vec<Level> {
        let (outermost, path) = (names.type_of(field), names.path(field));
        let own = |(at, step): (usize, &FieldStep)| Some((at + 1, step.composite?));
        let inner = path.iter().enumerate().filter_map(own);
        let starts = std::iter::once((0, outermost)).chain(inner);
        let text = |steps: &[FieldStep]| -> Vec<String> {
            steps.iter().map(|step| step.name.clone()).collect()
        };
        let levels = starts.map(|(start, ty)| {
            let next = self.ways.len() as u32;
            let way = self.ways.entry((outermost, text(&path[..start])));
            let outer = path[..start].iter();
            Level {
                ty,
                way: *way.or_insert(next),
                outer_indices: outer.filter(|step| is_array(&step.name)).count(),
                field: self.field(ty, text(&path[start..])),
            }
        });
        levels.collect()
    }

    fn field(&mut self, ty: TypeId, path: Vec<String>) -> FieldNumber {
        if let Some(&known) = self.by_path.get(&(ty, path.clone())) {
            return known;
        }
        let ends = (0..path.len()).filter(|&at| is_array(&path[at]));
        let arrays = ends.map(|end| {
            let next = ArrayNumber(self.arrays.len() as u32);
            let array = self.arrays.entry((ty, path[..end].to_vec()));
            *array.or_insert(next)
        });
        let arrays = arrays.collect();
        let number = FieldNumber(self.fields.len() as u32);
        self.by_path.insert((ty, path.clone()), number);
        self.fields.push(Field { ty, path, arrays });
        number
    }

    /// A field with its indices, at one of its levels. `indices` are all on the path from the outermost object.
    pub(super) fn slot(&mut self, level: Level, indices: &[u32]) -> SlotNumber {
        let own = indices.get(level.outer_indices..).unwrap_or_default();
        let slots = &mut self.slots;
        let key = (level.field, own.into());
        *self.by_slot.entry(key).or_insert_with_key(|(field, own)| {
            slots.push(Slot {
                field: *field,
                indices: own.clone(),
            });
            SlotNumber(slots.len() as u32 - 1)
        })
    }

    /// The field of a slot, its arrays and its indices in them.
    pub(super) fn of_slot(&self, slot: SlotNumber) -> (FieldNumber, &[ArrayNumber], &[u32]) {
        let Slot { field, indices } = &self.slots[slot.0 as usize];
        (*field, &self.fields[field.0 as usize].arrays, indices)
    }

    /// The names of the steps of a field.
    pub(super) fn path(&self, field: FieldNumber) -> &[String] {
        &self.fields[field.0 as usize].path
    }

    /// A field with its type and indices, such as `bucket.slots[3].key`.
    pub(crate) fn name(&self, slot: SlotNumber, names: &TypeNames) -> String {
        let Slot { field, indices } = &self.slots[slot.0 as usize];
        let Field { ty, path, .. } = &self.fields[field.0 as usize];
        let mut name = names.type_name(*ty).to_owned();
        let mut indices = indices.iter();
        for step in path {
            match (is_array(step), indices.as_slice()) {
                (true, [index, ..]) => {
                    name.push_str(&format!("[{index}]"));
                    indices.next();
                }
                (true, []) => name.push_str(step),
                (false, _) => {
                    name.push('.');
                    name.push_str(step);
                }
            }
        }
        name
    }
}

/// Whether a step of a path is an element of an array.
fn is_array(step: &str) -> bool {
    step.starts_with('[')
}
