//! What memory of a known type holds: pointers to objects, and identifiers of objects in a persistent pool.

use brownout_libraries::object_identifier;

use super::value::Base;
use crate::types::{DataTypeId, DataTypes, FieldAt, Shape};

/// Which bytes of an object an offset with a stride refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessedPart {
    /// These: the start of the object is known.
    At(u64),
    /// These of some element of an array in the object.
    InElement {
        /// The offset of the array in the object.
        array: u64,
        element: DataTypeId,
        /// The offset in the element.
        within: u64,
    },
}

impl DataTypes {
    /// The part of an object, or of one of an array of such objects, that is `offset` and a multiple of `stride` behind its start.
    pub fn part(&self, ty: DataTypeId, offset: i64, stride: u64) -> Option<AccessedPart> {
        let size = self.get(ty).size;
        if let (Ok(offset), 0) = (u64::try_from(offset), stride)
            && (offset < size || !self.path(ty, offset, 1).is_empty())
        {
            return Some(AccessedPart::At(offset));
        }
        // There are no arrays of objects with a flexible array at their end.
        let is_flexible = !self.path(ty, size, 1).is_empty();
        if size > 0 && stride.is_multiple_of(size) && !is_flexible {
            let is_element = stride > 0 || offset >= 0;
            let within = offset.rem_euclid(i64::try_from(size).ok()?).unsigned_abs();
            return is_element.then_some(AccessedPart::At(within));
        }
        let offset = u64::try_from(offset).ok()?;
        let path = self.path(ty, offset, 1);
        let element = path.iter().find(|step| {
            let size = self.get(step.ty).size;
            step.name.is_none() && size > 0 && stride.is_multiple_of(size)
        })?;
        Some(AccessedPart::InElement {
            array: element.offset - element.index * self.get(element.ty).size,
            element: element.ty,
            within: offset - element.offset,
        })
    }

    /// What a word in memory of type `ty` holds; `None` if it has no type of interest.
    pub(crate) fn content(&mut self, ty: DataTypeId, offset: i64, stride: u64) -> Option<Base> {
        const WORD: u64 = 8;
        let (ty, offset) = match self.part(ty, offset, stride)? {
            AccessedPart::At(offset) => (ty, offset),
            AccessedPart::InElement {
                element, within, ..
            } => (element, within),
        };
        let path = self.path(ty, offset, WORD);
        if let Some(object) = self.identified(ty, &path) {
            return Some(Base::Identifier(object));
        }
        let last = path.last().map_or(ty, |step| step.ty);
        self.object_behind(last).map(Base::Object)
    }

    /// What a pointer points to, if that is something with structure.
    pub fn object_behind(&mut self, pointer: DataTypeId) -> Option<DataTypeId> {
        let target = self.pointee(pointer)?;
        (!matches!(self.get(target).shape, Shape::Scalar)).then_some(target)
    }

    /// The type of the objects that a field identifies, if it is the offset of an identifier whose type says that.
    pub fn identified(&mut self, ty: DataTypeId, path: &[FieldAt]) -> Option<DataTypeId> {
        let (last, outer) = path.split_last()?;
        let around: Vec<DataTypeId> = std::iter::once(ty)
            .chain(outer.iter().map(|step| step.ty))
            .collect();
        let known = object_identifier(&self.get(*around.last()?).name)?;
        if last.name.as_deref() != Some(known.offset) {
            return None;
        }
        around.iter().rev().find_map(|&ty| {
            let Shape::Composite { members, arguments } = &self.get(ty).shape else {
                return None;
            };
            let pointer = members
                .iter()
                .find(|member| &*member.name == known.typed_by);
            let (pointer, argument) = (pointer.map(|member| member.ty), arguments.first().copied());
            match pointer {
                Some(pointer) => self.object_behind(pointer),
                None => self.type_at(argument?),
            }
        })
    }
}
