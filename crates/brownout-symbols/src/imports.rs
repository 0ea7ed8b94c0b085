//! Which function a call instruction calls: an imported one by name, another by address.
//!
//! A stack names the function that was running, which is another than the one called if that ended with a jump:
//! thin functions of libraries often do. The caller's code tells which it was: a call through the global
//! offset table, directly (`call *slot(%rip)`) or by way of a stub (`call stub`, and there `jmp *slot(%rip)`),
//! and the relocation of the slot has the name.
//!
//! Can miss: calls through pointers, which say nothing.

use std::collections::HashMap;

use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use crate::elf::{ElfFile, Segment};

/// The slots of a module's global offset table that are filled with functions of other modules, and its code.
pub(crate) struct Imports {
    file: ElfFile,
    segments: Vec<Segment>,
    slots: HashMap<u64, Box<str>>,
}

impl Imports {
    pub(crate) fn of(file: &ElfFile, segments: &[Segment]) -> Self {
        Self {
            slots: slots_of(file).unwrap_or_default(),
            segments: segments.to_vec(),
            file: file.clone(),
        }
    }

    /// Where the call which returns to `address` goes to, if it says so itself.
    pub(crate) fn target(&self, address: u64) -> Option<u64> {
        match self.bytes(address.checked_sub(5)?, 5)? {
            [0xe8, displacement @ ..] => Some(relative(address, displacement)),
            _ => None,
        }
    }

    /// The imported function that the call which returns to `address` calls.
    pub(crate) fn callee(&self, address: u64) -> Option<&str> {
        let call = self.bytes(address.checked_sub(6)?, 6)?;
        let target = relative(address, &call[2..]);
        let slot = match call {
            [0xff, 0x15, ..] => target,
            [_, 0xe8, ..] => self.slot_of_stub(target)?,
            _ => return None,
        };
        self.slots.get(&slot).map(|name| &**name)
    }

    /// The slot through which the code at `address` jumps, if it does nothing else.
    fn slot_of_stub(&self, address: u64) -> Option<u64> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const BND: u8 = 0xf2;
        let mut at = address;
        if self.bytes(at, 4)? == ENDBR64 {
            at += 4;
        }
        if self.bytes(at, 1)? == [BND] {
            at += 1;
        }
        match self.bytes(at, 6)? {
            jump @ [0xff, 0x25, ..] => Some(relative(at + 6, &jump[2..])),
            _ => None,
        }
    }

    /// The bytes that the file has for an address.
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

/// What a 32-bit displacement means in an instruction that ends at `end`.
fn relative(end: u64, displacement: &[u8]) -> u64 {
    let displacement = displacement.try_into().map_or(0, i32::from_le_bytes);
    end.wrapping_add_signed(i64::from(displacement))
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
