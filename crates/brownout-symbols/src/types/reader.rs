//! Reads a type from its entry.

use std::fmt::Write as _;
use std::sync::Arc;

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use super::graph::{DataType, DataTypeId, Member, Shape};
use super::unit_index;
use super::units::ParsedUnit;
use super::{DataTypes, EntryRef};
use crate::dwarf::DebugReader;

type Entry = DebuggingInformationEntry<DebugReader>;

/// A member before its type is read.
struct RawMember {
    name: Arc<str>,
    offset: u64,
    /// In bytes, for bit fields.
    size: Option<u64>,
    ty: EntryRef,
}

/// What is inside a composite type.
#[derive(Default)]
struct Parts {
    members: Vec<RawMember>,
    arguments: Vec<EntryRef>,
}

impl DataTypes {
    /// The type of an entry; `None` for `void` and damaged types.
    pub(super) fn read(&mut self, at: EntryRef) -> gimli::Result<Option<DataTypeId>> {
        self.read_as(at, None)
    }

    /// `alias` is the name of a typedef, for types that have no other name.
    fn read_as(
        &mut self,
        at: EntryRef,
        alias: Option<Arc<str>>,
    ) -> gimli::Result<Option<DataTypeId>> {
        if let Some(&known) = self.by_entry.get(&at) {
            return Ok(known);
        }
        if !self.reading.insert(at) {
            return Ok(None);
        }
        let read = self.read_new(at, alias);
        self.reading.remove(&at);
        let id = read?;
        self.by_entry.insert(at, id);
        Ok(id)
    }

    fn read_new(
        &mut self,
        at: EntryRef,
        alias: Option<Arc<str>>,
    ) -> gimli::Result<Option<DataTypeId>> {
        let Some(unit) = self.unit_of(at)? else {
            return Ok(None);
        };
        let entry = unit.unit.entry(UnitOffset(at.offset))?;
        match entry.tag() {
            gimli::DW_TAG_typedef => {
                let name = unit_index::name(&unit.dwarf, &unit.unit, &entry)?;
                match self.reference(at, &unit, &entry, gimli::DW_AT_type) {
                    Some(target) => self.read_as(target, name),
                    None => Ok(None),
                }
            }
            gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_immutable_type
            | gimli::DW_TAG_subrange_type => {
                match self.reference(at, &unit, &entry, gimli::DW_AT_type) {
                    Some(target) => self.read_as(target, alias),
                    None => Ok(None),
                }
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let target = self.reference(at, &unit, &entry, gimli::DW_AT_type);
                let size =
                    byte_size(&entry).unwrap_or(u64::from(unit.unit.encoding().address_size));
                self.pointer(target, size).map(Some)
            }
            gimli::DW_TAG_array_type => self.array(at, &unit, &entry),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                self.composite(at, &unit, &entry, alias)
            }
            _ => self.scalar(at, &unit, &entry, alias),
        }
    }

    pub(super) fn unit_of(&mut self, at: EntryRef) -> gimli::Result<Option<Arc<ParsedUnit>>> {
        match self.units(at.module) {
            Some(units) => units.unit(at.unit).map(Some),
            None => Ok(None),
        }
    }

    /// The entry that an attribute refers to.
    pub(super) fn reference(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        attribute: gimli::DwAt,
    ) -> Option<EntryRef> {
        let value = entry.attr_value(attribute)?;
        let (number, offset) = self.units(at.module)?.follow(at.unit, unit, &value)?;
        Some(EntryRef {
            module: at.module,
            unit: number,
            offset,
        })
    }

    fn pointer(&mut self, target: Option<EntryRef>, size: u64) -> gimli::Result<DataTypeId> {
        let name = match target {
            Some(target) => self.shown_name(target)?,
            None => "void".to_owned(),
        };
        // Two pointers to types of the same name, in different units, may point to different types.
        let structure = match target {
            Some(at) => format!("* {}:{}:{}", at.module.0, at.unit, at.offset),
            None => "* void".to_owned(),
        };
        let ty = DataType {
            name: format!("{name} *").into(),
            size,
            shape: Shape::Pointer(target),
        };
        Ok(self.graph.intern(ty, structure))
    }

    /// The name of a type that is not read, because it may contain what is being read.
    fn shown_name(&mut self, at: EntryRef) -> gimli::Result<String> {
        const DEEPEST: usize = 16;
        let (mut at, mut stars) = (at, String::new());
        for _ in 0..DEEPEST {
            let Some(unit) = self.unit_of(at)? else {
                break;
            };
            let entry = unit.unit.entry(UnitOffset(at.offset))?;
            if let Some(name) = unit_index::name(&unit.dwarf, &unit.unit, &entry)? {
                let scope = unit.index.scopes.get(&at.offset);
                let scope = scope.map_or("", |scope| scope);
                return Ok(format!("{scope}{name}{stars}"));
            }
            if entry.tag() == gimli::DW_TAG_pointer_type {
                stars.push_str(" *");
            }
            match self.reference(at, &unit, &entry, gimli::DW_AT_type) {
                Some(target) => at = target,
                None if entry.tag() == gimli::DW_TAG_pointer_type => {
                    return Ok(format!("void{stars}"));
                }
                None => break,
            }
        }
        Ok(format!("?{stars}"))
    }

    fn scalar(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        alias: Option<Arc<str>>,
    ) -> gimli::Result<Option<DataTypeId>> {
        let name = self.full_name(at, unit, entry, alias)?;
        let size = byte_size(entry).unwrap_or(0);
        let structure = format!("scalar {name} {size}");
        let shape = Shape::Scalar;
        let ty = DataType { name, size, shape };
        Ok(Some(self.graph.intern(ty, structure)))
    }

    fn full_name(
        &self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        alias: Option<Arc<str>>,
    ) -> gimli::Result<Arc<str>> {
        let own = unit_index::name(&unit.dwarf, &unit.unit, entry)?;
        Ok(match (own, unit.index.scopes.get(&at.offset)) {
            (Some(name), Some(scope)) => format!("{scope}{name}").into(),
            (Some(name), None) => name,
            (None, _) => alias.unwrap_or_default(),
        })
    }

    fn array(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
    ) -> gimli::Result<Option<DataTypeId>> {
        let Some(element) = self.reference(at, unit, entry, gimli::DW_AT_type) else {
            return Ok(None);
        };
        let mut counts = Vec::new();
        let mut tree = unit.unit.entries_tree(Some(UnitOffset(at.offset)))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            if child.entry().tag() == gimli::DW_TAG_subrange_type {
                counts.push(count(child.entry()));
            }
        }
        let Some(mut id) = self.read(element)? else {
            return Ok(None);
        };
        for count in counts.into_iter().rev() {
            // An array of no elements at the end of a struct is an old way to write a flexible one.
            let count = count.filter(|&count| count > 0);
            let element = self.get(id);
            let size = element.size.saturating_mul(count.unwrap_or(0));
            let shown = count.map_or(String::new(), |count| count.to_string());
            let ty = DataType {
                name: format!("{}[{shown}]", element.name).into(),
                size,
                shape: Shape::Array { element: id, count },
            };
            let structure = format!("array {id:?} {count:?}");
            id = self.graph.intern(ty, structure);
        }
        Ok(Some(id))
    }

    fn composite(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        alias: Option<Arc<str>>,
    ) -> gimli::Result<Option<DataTypeId>> {
        let name = self.full_name(at, unit, entry, alias)?;
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            return self.defined_elsewhere(at, unit, entry, &name);
        }
        let parts = self.parts(at, unit)?;
        let size = byte_size(entry).unwrap_or(0);
        let mut structure = format!("{} {name} {size}", entry.tag());
        let mut members = Vec::new();
        for raw in parts.members {
            let Some(ty) = self.read(raw.ty)? else {
                continue;
            };
            let member = self.get(ty);
            // Pointers count by the names of their targets.
            let shown = match member.shape {
                Shape::Pointer(_) => member.name.to_string(),
                _ => format!("{ty:?}"),
            };
            let RawMember { name, offset, .. } = raw;
            write!(structure, " {name}@{offset}:{shown}").expect("a string can be written to");
            members.push(Member {
                name,
                offset,
                size: raw.size.unwrap_or(member.size),
                ty,
            });
        }
        let arguments = parts.arguments;
        let shape = Shape::Composite { members, arguments };
        let ty = DataType { name, size, shape };
        Ok(Some(self.graph.intern(ty, structure)))
    }

    /// The definition of a type of which a unit has only a declaration.
    fn defined_elsewhere(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        name: &str,
    ) -> gimli::Result<Option<DataTypeId>> {
        let by_signature = self.reference(at, unit, entry, gimli::DW_AT_signature);
        if let Some(definition) = by_signature {
            return self.read(definition);
        }
        let Some(units) = self.units(at.module) else {
            return Ok(None);
        };
        let Some((unit, offset)) = units.definition(name)? else {
            return Ok(None);
        };
        self.read(EntryRef {
            module: at.module,
            unit,
            offset,
        })
    }

    fn parts(&mut self, at: EntryRef, unit: &ParsedUnit) -> gimli::Result<Parts> {
        let mut parts = Parts::default();
        let mut entries = unit.unit.entries_at_offset(UnitOffset(at.offset))?;
        let Some(depth) = entries.next_dfs()?.map(DebuggingInformationEntry::depth) else {
            return Ok(parts);
        };
        // Entries below nested types are not parts of this one; those of variants are.
        let mut skipped: Option<isize> = None;
        while let Some(entry) = entries.next_dfs()? {
            if entry.depth() <= depth {
                break;
            }
            if skipped.is_some_and(|outer| entry.depth() > outer) {
                continue;
            }
            skipped = None;
            match entry.tag() {
                gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                    let entry = entry.clone();
                    parts.members.extend(self.member(at, unit, &entry)?);
                }
                gimli::DW_TAG_template_type_parameter => {
                    let entry = entry.clone();
                    let argument = self.reference(at, unit, &entry, gimli::DW_AT_type);
                    parts.arguments.extend(argument);
                }
                gimli::DW_TAG_variant_part | gimli::DW_TAG_variant => {}
                _ => skipped = Some(entry.depth()),
            }
        }
        Ok(parts)
    }

    fn member(
        &mut self,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
    ) -> gimli::Result<Option<RawMember>> {
        // A static member is a variable elsewhere.
        let is_static = entry.attr_value(gimli::DW_AT_declaration).is_some()
            || entry.attr_value(gimli::DW_AT_external).is_some();
        let Some(ty) = self.reference(at, unit, entry, gimli::DW_AT_type) else {
            return Ok(None);
        };
        let start = entry.attr_value(gimli::DW_AT_data_member_location);
        let start = match start.map(|value| value.udata_value()) {
            Some(Some(start)) => start,
            // Computed at run time: a virtual base class.
            Some(None) => return Ok(None),
            None => 0,
        };
        if is_static {
            return Ok(None);
        }
        let (offset, size) = match bits(entry) {
            Some((first, count)) => {
                let first = first.saturating_add(start.saturating_mul(8));
                let end = first.saturating_add(count).div_ceil(8);
                (first / 8, Some(end - first / 8))
            }
            None => (start, None),
        };
        let name = match unit_index::name(&unit.dwarf, &unit.unit, entry)? {
            Some(name) => name,
            None if entry.tag() == gimli::DW_TAG_inheritance => self.shown_name(ty)?.into(),
            None => Arc::default(),
        };
        Ok(Some(RawMember {
            name,
            offset,
            size,
            ty,
        }))
    }
}

/// The first bit of a bit field, counted from its member location, and how many there are.
fn bits(entry: &Entry) -> Option<(u64, u64)> {
    let count = entry.attr_value(gimli::DW_AT_bit_size)?.udata_value()?;
    if let Some(first) = entry.attr_value(gimli::DW_AT_data_bit_offset) {
        return Some((first.udata_value()?, count));
    }
    // DWARF 3 counts from the most significant bit of a storage unit.
    let unit = byte_size(entry)?.checked_mul(8)?;
    let from_end = entry.attr_value(gimli::DW_AT_bit_offset)?.udata_value()?;
    Some((unit.checked_sub(from_end.checked_add(count)?)?, count))
}

fn byte_size(entry: &Entry) -> Option<u64> {
    entry.attr_value(gimli::DW_AT_byte_size)?.udata_value()
}

/// The number of elements in one dimension of an array.
fn count(entry: &Entry) -> Option<u64> {
    if let Some(count) = entry.attr_value(gimli::DW_AT_count) {
        return count.udata_value();
    }
    match entry.attr_value(gimli::DW_AT_upper_bound)? {
        AttributeValue::Sdata(last) => u64::try_from(last.checked_add(1)?).ok(),
        value => value.udata_value()?.checked_add(1),
    }
}
