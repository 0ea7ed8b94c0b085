//! The types and fields of persistent objects, in words.

use rustc_hash::FxHashMap;

use super::{FieldId, TypeId};

/// The names of types and fields.
#[derive(Clone, Debug, Default)]
pub struct TypeNames {
    types: Vec<Type>,
    fields: Vec<Field>,
    numbers: FxHashMap<(TypeId, Vec<FieldStep>), FieldId>,
}

#[derive(Clone, Debug)]
struct Type {
    name: String,
    size: u64,
}

#[derive(Clone, Debug)]
struct Field {
    ty: TypeId,
    path: Vec<FieldStep>,
}

/// One field on a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldStep {
    /// The name of the field. Elements of arrays are `[]`; a base class has the name of its type, and anonymous members are left
    /// out. Without debug information it is an offset, such as `[+8]`.
    pub name: String,
    /// The type of the field, if it consists of fields itself: a constituent type of Squint's C1.
    pub composite: Option<TypeId>,
    /// The offset of the field within the outermost object, with all array indices 0.
    pub offset: u64,
}

impl TypeNames {
    /// Adds a type. The caller decides which types are the same.
    pub fn add_type(&mut self, name: &str, size: u64) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).expect("fewer than 2³² types"));
        self.types.push(Type {
            name: name.to_owned(),
            size,
        });
        id
    }

    /// The field with this path in objects of type `ty`.
    pub fn field(&mut self, ty: TypeId, path: &[FieldStep]) -> FieldId {
        let Self {
            fields, numbers, ..
        } = self;
        *numbers.entry((ty, path.to_vec())).or_insert_with(|| {
            let id = FieldId(u32::try_from(fields.len()).expect("fewer than 2³² fields"));
            let path = path.to_vec();
            fields.push(Field { ty, path });
            id
        })
    }

    /// How a type is called in the source; a type without debug information is named by an example of it.
    pub fn type_name(&self, ty: TypeId) -> &str {
        &self.types[ty.0 as usize].name
    }

    /// The size of an object in bytes; 0 if it is not known.
    pub fn size(&self, ty: TypeId) -> u64 {
        self.types[ty.0 as usize].size
    }

    /// The type whose field this is.
    pub fn type_of(&self, field: FieldId) -> TypeId {
        self.fields[field.0 as usize].ty
    }

    /// The fields from the outermost object to this one, outermost first; empty for the object itself.
    pub fn path(&self, field: FieldId) -> &[FieldStep] {
        &self.fields[field.0 as usize].path
    }

    /// A field with its type, such as `entry.valid` or `bucket.slots[].key`.
    pub fn field_name(&self, field: FieldId) -> String {
        let mut name = self.type_name(self.type_of(field)).to_owned();
        for step in self.path(field) {
            if !step.name.starts_with('[') {
                name.push('.');
            }
            name.push_str(&step.name);
        }
        name
    }

    pub fn types(&self) -> impl ExactSizeIterator<Item = TypeId> {
        (0..self.types.len() as u32).map(TypeId)
    }

    pub fn fields(&self) -> impl ExactSizeIterator<Item = FieldId> {
        (0..self.fields.len() as u32).map(FieldId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_by_its_path_and_numbered_once() {
        let mut names = TypeNames::default();
        let (bucket, slot) = (names.add_type("bucket", 64), names.add_type("slot", 16));
        let step = |name: &str, composite, offset| FieldStep {
            name: name.to_owned(),
            composite,
            offset,
        };
        let path = [
            step("slots", None, 8),
            step("[]", Some(slot), 8),
            step("key", None, 16),
        ];
        let field = names.field(bucket, &path);
        assert_eq!(names.field_name(field), "bucket.slots[].key");
        assert_eq!(names.field(bucket, &path), field);
        assert_ne!(names.field(bucket, &path[..1]), field);
        assert_eq!(
            (names.type_of(field), names.path(field)),
            (bucket, &path[..])
        );
        assert_eq!(names.size(bucket), 64);
        let whole = names.field(slot, &[]);
        assert_eq!(names.field_name(whole), "slot");
        assert_eq!((names.types().len(), names.fields().len()), (2, 3));
    }
}
