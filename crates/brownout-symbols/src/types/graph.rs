//! Types by structure. Types with the same name and structure are one, whichever unit or module describes them.
//!
//! A pointer refers to the entry of its target, which is read when it is followed: types may contain pointers to themselves. For
//! the structure of a type, a pointer counts by the name of its target.

use std::collections::HashMap;
use std::sync::Arc;

use super::EntryRef;

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataTypeId(u32);

/// What is known about a type.
#[derive(Clone, Debug)]
pub struct DataType {
    /// As in the source, with namespaces; empty if it has no name.
    pub name: Arc<str>,
    /// In bytes; 0 if it is not known.
    pub size: u64,
    pub shape: Shape,
}

/// The structure of a type.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Numbers, enumerations without data, functions.
    Scalar,
    /// Pointers and references. The target is `None` for `void`.
    Pointer(Option<TypeReference>),
    /// Structs, classes, unions, enumerations with data.
    Composite {
        /// Members of unions and of the variants of an enumeration overlap.
        members: Vec<Member>,
        /// The types that a template was instantiated with.
        arguments: Vec<TypeReference>,
    },
    Array {
        element: DataTypeId,
        /// `None` for a flexible array at the end of a struct.
        count: Option<u64>,
    },
}

/// A type that is read when it is needed.
pub type TypeReference = EntryRef;

/// A member of a composite type.
#[derive(Clone, Debug)]
pub struct Member {
    /// Empty for an anonymous struct or union. A base class has the name of its type.
    pub name: Arc<str>,
    pub offset: u64,
    /// In bytes; for bit fields the bytes that hold its bits.
    pub size: u64,
    pub ty: DataTypeId,
}

/// A field on the path to some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// The member; `None` for an element of an array.
    pub name: Option<Arc<str>>,
    /// The index of an element of an array, otherwise 0.
    pub index: u64,
    /// The offset in the outermost object.
    pub offset: u64,
    pub ty: DataTypeId,
}

/// All types that have been read.
#[derive(Default)]
pub(super) struct TypeGraph {
    types: Vec<DataType>,
    by_structure: HashMap<String, DataTypeId>,
}

impl TypeGraph {
    pub(super) fn get(&self, id: DataTypeId) -> &DataType {
        &self.types[id.0 as usize]
    }

    /// The type with this structure, which `structure` describes completely.
    pub(super) fn intern(&mut self, ty: DataType, structure: String) -> DataTypeId {
        let types = &mut self.types;
        *self.by_structure.entry(structure).or_insert_with(|| {
            let id = DataTypeId(u32::try_from(types.len()).expect("fewer than 2³² types"));
            types.push(ty);
            id
        })
    }

    pub(super) fn path(&self, ty: DataTypeId, offset: u64, size: u64) -> Vec<FieldAt> {
        let mut path = Vec::new();
        self.descend(ty, offset, size, 0, &mut path);
        path
    }

    /// Appends the fields below `ty`, which starts at `start` of the outermost object. Returns whether the last of them is
    /// exactly the wanted bytes and not composite.
    fn descend(
        &self,
        ty: DataTypeId,
        offset: u64,
        size: u64,
        start: u64,
        path: &mut Vec<FieldAt>,
    ) -> bool {
        let exact = offset == 0 && size == self.get(ty).size;
        match &self.get(ty).shape {
            Shape::Scalar | Shape::Pointer(_) => exact,
            Shape::Array { element, count } => {
                let stride = self.get(*element).size;
                let Some(index) = offset.checked_div(stride) else {
                    return exact;
                };
                let within = offset % stride;
                if count.is_some_and(|count| index >= count) || within.saturating_add(size) > stride
                {
                    return exact;
                }
                let start = start.wrapping_add(index * stride);
                path.push(FieldAt {
                    name: None,
                    index,
                    offset: start,
                    ty: *element,
                });
                self.descend(*element, within, size, start, path)
            }
            Shape::Composite { members, .. } => {
                let mut best: Option<Vec<FieldAt>> = None;
                for member in members.iter().filter(|m| self.covers(m, offset, size)) {
                    let start = start.wrapping_add(member.offset);
                    let mut below = vec![FieldAt {
                        name: Some(member.name.clone()),
                        index: 0,
                        offset: start,
                        ty: member.ty,
                    }];
                    let within = offset - member.offset;
                    if self.descend(member.ty, within, size, start, &mut below) {
                        path.append(&mut below);
                        return true;
                    }
                    best.get_or_insert(below);
                }
                // Of overlapping members, none is better than all of them together.
                if !exact {
                    path.extend(best.into_iter().flatten());
                }
                false
            }
        }
    }

    fn covers(&self, member: &Member, offset: u64, size: u64) -> bool {
        let Some(within) = offset.checked_sub(member.offset) else {
            return false;
        };
        let flexible = matches!(self.get(member.ty).shape, Shape::Array { count: None, .. });
        flexible || within.saturating_add(size.max(1)) <= member.size
    }

    pub(super) fn contains(&self, outer: DataTypeId, offset: u64, inner: DataTypeId) -> bool {
        self.find(outer, offset, inner, 0, &mut Vec::new())
    }

    pub(super) fn path_to(
        &self,
        outer: DataTypeId,
        offset: u64,
        inner: DataTypeId,
    ) -> Option<Vec<FieldAt>> {
        let mut path = Vec::new();
        self.find(outer, offset, inner, 0, &mut path)
            .then_some(path)
    }

    /// Appends the fields of `outer`, which starts at `start` of the outermost object, that lead to one of type `inner`. Returns
    /// whether there is one; if not, `path` is as it was.
    fn find(
        &self,
        outer: DataTypeId,
        offset: u64,
        inner: DataTypeId,
        start: u64,
        path: &mut Vec<FieldAt>,
    ) -> bool {
        if offset == 0 && outer == inner {
            return true;
        }
        let mut below = |name: Option<Arc<str>>, index, at: u64, ty| {
            path.push(FieldAt {
                name,
                index,
                offset: start.wrapping_add(at),
                ty,
            });
            let found = self.find(ty, offset - at, inner, start.wrapping_add(at), path);
            if !found {
                path.pop();
            }
            found
        };
        match &self.get(outer).shape {
            Shape::Scalar | Shape::Pointer(_) => false,
            Shape::Array { element, count } => {
                let stride = self.get(*element).size;
                let Some(index) = offset.checked_div(stride) else {
                    return false;
                };
                count.is_none_or(|count| index < count)
                    && below(None, index, index * stride, *element)
            }
            Shape::Composite { members, .. } => members.iter().any(|member| {
                self.covers(member, offset, 0)
                    && below(Some(member.name.clone()), 0, member.offset, member.ty)
            }),
        }
    }
}
