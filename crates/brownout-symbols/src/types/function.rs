//! The typed variables of a function: parameters, locals, and those of functions inlined into it.

use std::ops::Range;
use std::sync::Arc;

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use super::graph::DataTypeId;
use super::location::{self, FrameBase, Piece};
use super::unit_index;
use super::units::ParsedUnit;
use super::{DataTypes, EntryRef, TypedModuleId};
use crate::dwarf::DebugReader;

type Entry = DebuggingInformationEntry<DebugReader>;

/// A variable while its value is in one location.
#[derive(Clone, Debug)]
pub(crate) struct LiveVariable {
    pub(crate) code: Range<u64>,
    pub(crate) ty: DataTypeId,
    pub(crate) pieces: Vec<Piece>,
}

/// The variables of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionVariables {
    pub(crate) frame_base: FrameBase,
    /// Outer scopes come first.
    pub(crate) variables: Vec<LiveVariable>,
}

/// Depths and code of the scopes around an entry.
type Scopes = Vec<(isize, Arc<[Range<u64>]>)>;

impl DataTypes {
    /// The variables of the function with the code at `address`; `None` without debug information about it.
    pub(crate) fn function_at(
        &mut self,
        module: TypedModuleId,
        address: u64,
    ) -> Option<FunctionVariables> {
        let found = self.find_function(module, address);
        let at = self.noted(module, found)??;
        let read = self.read_function(at);
        self.noted(module, read)
    }

    fn find_function(
        &mut self,
        module: TypedModuleId,
        address: u64,
    ) -> gimli::Result<Option<EntryRef>> {
        let Some(units) = self.units(module) else {
            return Ok(None);
        };
        let Some(number) = units.unit_at(address)? else {
            return Ok(None);
        };
        let unit = units.unit(number)?;
        let offset = unit.index.function_at(address);
        Ok(offset.map(|offset| EntryRef {
            module,
            unit: number,
            offset,
        }))
    }

    /// The type that the function with the code at `address` returns.
    pub(crate) fn result_at(&mut self, module: TypedModuleId, address: u64) -> Option<DataTypeId> {
        let found = self.find_function(module, address);
        let at = self.noted(module, found)??;
        self.declared_type(at)
    }

    /// The type that a function returns which the unit of the code at `address` declares.
    pub(crate) fn result_of(
        &mut self,
        module: TypedModuleId,
        address: u64,
        symbol: &str,
    ) -> Option<DataTypeId> {
        let found = self.units(module)?.unit_at(address);
        let number = self.noted(module, found)??;
        let unit = self.units(module)?.unit(number);
        let unit = self.noted(module, unit)?;
        let offset = *unit.index.symbols.get(symbol)?;
        self.declared_type(EntryRef {
            module,
            unit: number,
            offset,
        })
    }

    /// The name in the source of the function with the code at `address`.
    pub(crate) fn function_name(&mut self, module: TypedModuleId, address: u64) -> Option<String> {
        let found = self.find_function(module, address);
        let at = self.noted(module, found)??;
        let name = self.declared_name(at);
        self.noted(module, name)?
    }

    /// The type of the global variable at `address`, which code at `code` uses, and the offset in it. `symbol` is the symbol there,
    /// with its address: the variable may be defined in another unit.
    pub(crate) fn global_at(
        &mut self,
        module: TypedModuleId,
        code: u64,
        address: u64,
        symbol: Option<(&str, u64)>,
    ) -> Option<(DataTypeId, u64)> {
        let found = self.units(module)?.unit_at(code);
        let number = self.noted(module, found)??;
        let unit = self.units(module)?.unit(number);
        let unit = self.noted(module, unit)?;
        let own = unit.index.global_before(address);
        let declared = symbol.and_then(|(name, start)| Some((start, unit.index.variable(name)?)));
        [own, declared]
            .into_iter()
            .flatten()
            .find_map(|(start, offset)| {
                let ty = self.declared_type(EntryRef {
                    module,
                    unit: number,
                    offset,
                })?;
                let within = address.checked_sub(start)?;
                (within < self.get(ty).size.max(1)).then_some((ty, within))
            })
    }

    fn declared_type(&mut self, at: EntryRef) -> Option<DataTypeId> {
        let found = self.type_entry(at);
        let entry = self.noted(at.module, found)??;
        self.type_at(entry)
    }

    /// The entry of the type of a variable or function.
    fn type_entry(&mut self, at: EntryRef) -> gimli::Result<Option<EntryRef>> {
        self.declared(at, |types, at, unit, entry| {
            Ok(types.reference(at, unit, entry, gimli::DW_AT_type))
        })
    }

    fn declared_name(&mut self, at: EntryRef) -> gimli::Result<Option<String>> {
        self.declared(at, |_, _, unit, entry| {
            let name = unit_index::name(&unit.dwarf, &unit.unit, entry)?;
            Ok(name.map(|name| name.to_string()))
        })
    }

    /// What an entry, or another one that declares the same, says.
    fn declared<T>(
        &mut self,
        mut at: EntryRef,
        find: impl Fn(&mut Self, EntryRef, &ParsedUnit, &Entry) -> gimli::Result<Option<T>>,
    ) -> gimli::Result<Option<T>> {
        const LONGEST_CHAIN: usize = 8;
        for _ in 0..LONGEST_CHAIN {
            let Some(unit) = self.unit_of(at)? else {
                return Ok(None);
            };
            let entry = unit.unit.entry(UnitOffset(at.offset))?;
            if let Some(found) = find(self, at, &unit, &entry)? {
                return Ok(Some(found));
            }
            let origin = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
                .into_iter()
                .find_map(|attribute| self.reference(at, &unit, &entry, attribute));
            match origin {
                Some(origin) => at = origin,
                None => break,
            }
        }
        Ok(None)
    }

    fn read_function(&mut self, at: EntryRef) -> gimli::Result<FunctionVariables> {
        let Some(unit) = self.unit_of(at)? else {
            return Ok(FunctionVariables::default());
        };
        let mut function = FunctionVariables::default();
        let mut entries = unit.unit.entries_at_offset(UnitOffset(at.offset))?;
        let Some(root) = entries.next_dfs()? else {
            return Ok(function);
        };
        let depth = root.depth();
        if let Some(AttributeValue::Exprloc(base)) = root.attr_value(gimli::DW_AT_frame_base) {
            function.frame_base = location::frame_base(&unit.unit, base)?;
        }
        let mut scopes: Scopes = vec![(depth, code_of(&unit, root)?)];
        while let Some(entry) = entries.next_dfs()? {
            if entry.depth() <= depth {
                break;
            }
            while scopes.len() > 1 && scopes.pop_if(|(d, _)| *d >= entry.depth()).is_some() {}
            match entry.tag() {
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                    scopes.push((entry.depth(), code_of(&unit, entry)?));
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let (entry, code) =
                        (entry.clone(), scopes.last().map(|(_, code)| code.clone()));
                    self.add_variable(&mut function, at, &unit, &entry, &code.unwrap_or_default())?;
                }
                _ => {}
            }
        }
        Ok(function)
    }

    fn add_variable(
        &mut self,
        function: &mut FunctionVariables,
        at: EntryRef,
        unit: &ParsedUnit,
        entry: &Entry,
        scope: &[Range<u64>],
    ) -> gimli::Result<()> {
        let Some(value) = entry.attr_value(gimli::DW_AT_location) else {
            return Ok(());
        };
        let mut located = Vec::new();
        if let AttributeValue::Exprloc(expression) = value {
            let pieces = location::pieces(&unit.dwarf, &unit.unit, expression)?;
            let everywhere = scope.iter().map(|code| (code.clone(), pieces.clone()));
            located.extend(everywhere);
        } else if let Some(mut list) = unit.dwarf.attr_locations(&unit.unit, value)? {
            while let Some(item) = list.next()? {
                if !location::is_empty(&item.data) {
                    let pieces = location::pieces(&unit.dwarf, &unit.unit, item.data)?;
                    located.push((item.range.begin..item.range.end, pieces));
                }
            }
        }
        located.retain(|(code, pieces)| !code.is_empty() && !pieces.is_empty());
        if located.is_empty() {
            return Ok(());
        }
        let variable = EntryRef {
            offset: entry.offset().0,
            ..at
        };
        let Some(ty) = self.type_entry(variable)? else {
            return Ok(());
        };
        let Some(ty) = self.read(ty)? else {
            return Ok(());
        };
        let live = located
            .into_iter()
            .map(|(code, pieces)| LiveVariable { code, ty, pieces });
        function.variables.extend(live);
        Ok(())
    }
}

fn code_of(unit: &ParsedUnit, entry: &Entry) -> gimli::Result<Arc<[Range<u64>]>> {
    let mut code = Vec::new();
    let mut ranges = unit.dwarf.die_ranges(&unit.unit, entry)?;
    while let Some(range) = ranges.next()? {
        code.push(range.begin..range.end);
    }
    Ok(code.into())
}
