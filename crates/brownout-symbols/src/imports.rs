//! Determines the function that a call instruction calls: the name of an imported function, the address of
//! another one.
//!
//! A stack shows the function that was running. If the called function ended with a tail call, as thin library
//! functions often do, that is a different one. The caller's code shows which function was called: it calls through
//! a slot of the global offset table, directly or by calling a stub that jumps through the slot, and the relocation
//! of the slot contains the name.
//!
//! Can miss: calls through function pointers.

use std::collections::HashMap;

use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use crate::arch::{Call, Code, call_ending_at, slot_of_stub};
use crate::elf::{ElfFile, Segment};

/// The slots of a module's global offset table that refer to imported functions, and the module's code.
pub(crate) struct Imports {
    file: ElfFile,
    segments: Vec<Segment>,
    slots: HashMap<u64, Box<str>>,
    /// Slots that hold an address of the module itself.
    own_addresses: HashMap<u64, u64>,
}

impl Imports {
    pub(crate) fn of(file: &ElfFile, segments: &[Segment]) -> Self {
        Self {
            slots: slots_of(file).unwrap_or_default(),
            own_addresses: own_addresses_of(file).unwrap_or_default(),
            segments: segments.to_vec(),
            file: file.clone(),
        }
    }

    /// The target of the direct call that returns to `address`.
    pub(crate) fn target(&self, address: u64) -> Option<u64> {
        match call_ending_at(self, address)? {
            Call::Direct(target) => Some(target),
            Call::ThroughSlot(_) => None,
        }
    }

    /// The imported function called by the call that returns to `address`.
    pub(crate) fn callee(&self, address: u64) -> Option<&str> {
        let slot = match call_ending_at(self, address)? {
            Call::ThroughSlot(slot) => slot,
            Call::Direct(target) => slot_of_stub(self, target)?,
        };
        self.slots.get(&slot).map(|name| &**name)
    }
}

impl Imports {
    /// The address of the module that the slot at `address` holds when the module is loaded.
    pub(crate) fn address_in_slot(&self, address: u64) -> Option<u64> {
        self.own_addresses.get(&address).copied()
    }
}

impl Code for Imports {
    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        let segment = self.segments.iter().find(|segment| {
            let within = address.checked_sub(segment.address);
            within.is_some_and(|within| within.saturating_add(len) <= segment.size)
        })?;
        let start = (address - segment.address).checked_add(segment.file_offset)?;
        let range = usize::try_from(start).ok()?..usize::try_from(start.checked_add(len)?).ok()?;
        self.file.bytes().get(range)
    }
}

fn slots_of(file: &ElfFile) -> Option<HashMap<u64, Box<str>>> {
    let elf = file.parse().ok()?;
    let symbols = elf.dynamic_symbol_table()?;
    let named = elf.dynamic_relocations()?.filter_map(|(slot, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return None;
        };
        let name = symbols.symbol_by_index(index).ok()?.name().ok()?;
        (!name.is_empty()).then(|| (slot, name.into()))
    });
    Some(named.collect())
}

fn own_addresses_of(file: &ElfFile) -> Option<HashMap<u64, u64>> {
    let elf = file.parse().ok()?;
    let symbols = elf.dynamic_symbol_table();
    let known = elf.dynamic_relocations()?.filter_map(|(slot, relocation)| {
        let addend = relocation.addend();
        match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
                let is_own = symbol.is_definition() && symbol.address() != 0;
                is_own.then(|| (slot, symbol.address().wrapping_add_signed(addend)))
            }
            RelocationTarget::Absolute => Some((slot, u64::try_from(addend).ok()?)),
            _ => None,
        }
    });
    Some(known.collect())
}
