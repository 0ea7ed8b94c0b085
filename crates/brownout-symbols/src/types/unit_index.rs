//! What a unit defines, found in one pass over its entries.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, Operation, Reader as _, Unit};

use crate::dwarf::DebugReader;

/// What a unit defines.
#[derive(Default)]
pub(crate) struct UnitIndex {
    /// The namespaces and types around types, as `a::b::`. Types outside of any are not listed.
    pub(crate) scopes: HashMap<usize, Arc<str>>,
    /// Types that are defined here, by name with scopes.
    pub(crate) definitions: HashMap<Arc<str>, usize>,
    /// Code of functions, sorted by its start.
    functions: Vec<(Range<u64>, usize)>,
    /// Functions that are declared or defined here, by symbol.
    pub(crate) symbols: HashMap<Arc<str>, usize>,
    /// Variables with an address, sorted.
    globals: Vec<(u64, usize)>,
    /// Variables that are declared outside of functions, here or elsewhere.
    variables: HashMap<Arc<str>, usize>,
}

impl UnitIndex {
    pub(super) fn of(dwarf: &Dwarf<DebugReader>, unit: &Unit<DebugReader>) -> gimli::Result<Self> {
        let mut index = Self::default();
        // The scopes around an entry, with their depths.
        let mut scopes: Vec<(isize, Arc<str>)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.pop_if(|(outer, _)| *outer >= depth).is_some() {}
            let around = scopes.last().map(|(_, scope)| scope.clone());
            match entry.tag() {
                gimli::DW_TAG_namespace => {
                    let name = name(dwarf, unit, entry)?.unwrap_or_default();
                    scopes.push((depth, inside(around.as_deref(), &name)));
                }
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type => {
                    let name = name(dwarf, unit, entry)?;
                    if let Some(scope) = &around {
                        index.scopes.insert(entry.offset().0, scope.clone());
                    }
                    if let Some(name) = &name {
                        let full = format!("{}{name}", around.as_deref().unwrap_or_default());
                        if entry.attr_value(gimli::DW_AT_declaration).is_none() {
                            index.definitions.insert(full.into(), entry.offset().0);
                        }
                    }
                    scopes.push((depth, inside(around.as_deref(), &name.unwrap_or_default())));
                }
                gimli::DW_TAG_subprogram => index.add_function(dwarf, unit, entry)?,
                gimli::DW_TAG_variable => {
                    if let Some(address) = static_address(dwarf, unit, entry)? {
                        index.globals.push((address, entry.offset().0));
                    }
                    index.add_variable(dwarf, unit, entry)?;
                }
                _ => {}
            }
        }
        index.functions.sort_by_key(|(range, _)| range.start);
        index.globals.sort_unstable();
        Ok(index)
    }

    fn add_function(
        &mut self,
        dwarf: &Dwarf<DebugReader>,
        unit: &Unit<DebugReader>,
        entry: &DebuggingInformationEntry<DebugReader>,
    ) -> gimli::Result<()> {
        let offset = entry.offset().0;
        let mut ranges = dwarf.die_ranges(unit, entry)?;
        while let Some(range) = ranges.next()? {
            if range.begin < range.end {
                self.functions.push((range.begin..range.end, offset));
            }
        }
        let symbol = match entry.attr_value(gimli::DW_AT_linkage_name) {
            Some(symbol) => Some(text(dwarf, unit, symbol)?),
            None => name(dwarf, unit, entry)?,
        };
        if let Some(symbol) = symbol {
            self.symbols.entry(symbol).or_insert(offset);
        }
        Ok(())
    }

    fn add_variable(
        &mut self,
        dwarf: &Dwarf<DebugReader>,
        unit: &Unit<DebugReader>,
        entry: &DebuggingInformationEntry<DebugReader>,
    ) -> gimli::Result<()> {
        if entry.attr_value(gimli::DW_AT_external).is_none() {
            return Ok(());
        }
        let symbol = match entry.attr_value(gimli::DW_AT_linkage_name) {
            Some(symbol) => Some(text(dwarf, unit, symbol)?),
            None => name(dwarf, unit, entry)?,
        };
        if let Some(symbol) = symbol {
            self.variables.entry(symbol).or_insert(entry.offset().0);
        }
        Ok(())
    }

    /// The variable that starts last before or at `address`, with its own address.
    pub(crate) fn global_before(&self, address: u64) -> Option<(u64, usize)> {
        let after = self.globals.partition_point(|&(start, _)| start <= address);
        self.globals.get(after.checked_sub(1)?).copied()
    }

    /// The variable with this symbol.
    pub(crate) fn variable(&self, symbol: &str) -> Option<usize> {
        self.variables.get(symbol).copied()
    }

    /// The function with the code at `address`.
    pub(crate) fn function_at(&self, address: u64) -> Option<usize> {
        let after = self
            .functions
            .partition_point(|(range, _)| range.start <= address);
        let (range, offset) = &self.functions[after.checked_sub(1)?];
        range.contains(&address).then_some(*offset)
    }
}

fn inside(around: Option<&str>, name: &str) -> Arc<str> {
    format!("{}{name}::", around.unwrap_or_default()).into()
}

pub(super) fn text(
    dwarf: &Dwarf<DebugReader>,
    unit: &Unit<DebugReader>,
    value: AttributeValue<DebugReader>,
) -> gimli::Result<Arc<str>> {
    let text = dwarf.attr_string(unit, value)?;
    Ok(text.to_string_lossy()?.into())
}

pub(super) fn name(
    dwarf: &Dwarf<DebugReader>,
    unit: &Unit<DebugReader>,
    entry: &DebuggingInformationEntry<DebugReader>,
) -> gimli::Result<Option<Arc<str>>> {
    let name = entry.attr_value(gimli::DW_AT_name);
    name.map(|name| text(dwarf, unit, name)).transpose()
}

/// The address of a variable that has the same one for the whole run.
fn static_address(
    dwarf: &Dwarf<DebugReader>,
    unit: &Unit<DebugReader>,
    entry: &DebuggingInformationEntry<DebugReader>,
) -> gimli::Result<Option<u64>> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(None);
    };
    let mut operations = expression.operations(unit.encoding());
    let address = match operations.next()? {
        Some(Operation::Address { address }) => address,
        Some(Operation::AddressIndex { index }) => dwarf.address(unit, index)?,
        _ => return Ok(None),
    };
    Ok(operations.next()?.is_none().then_some(address))
}
