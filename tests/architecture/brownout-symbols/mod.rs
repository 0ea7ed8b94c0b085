//! What the symbolizer must know about the code of an architecture.

use super::{Call, Code, Instruction};

/// The number of general registers, which DWARF must number from 0.
pub(crate) const GENERAL_REGISTERS: usize = 31;
/// With the words of vector registers that are followed, which have the numbers behind general ones.
pub(crate) const REGISTERS: usize = GENERAL_REGISTERS;
/// The registers of the first arguments of a call.
pub(crate) const PARAMETERS: [u16; 6] = [0, 1, 2, 3, 4, 5];
/// The registers of the result of a call.
pub(crate) const RESULTS: [u16; 2] = [0, 1];
/// The registers that a call need not preserve.
pub(crate) const CLOBBERED_BY_CALLS: [u16; 2] = [0, 1];

/// The call instruction that ends at `end`.
pub(crate) fn call_ending_at(_code: &impl Code, _end: u64) -> Option<Call> {
    missing()
}

/// The slot of the global offset table through which the linkage stub at `address` jumps.
pub(crate) fn slot_of_stub(_code: &impl Code, _address: u64) -> Option<u64> {
    missing()
}

/// The instruction at `address`, and what it does to registers.
pub(crate) fn decode(_code: &impl Code, _address: u64) -> Option<Instruction> {
    missing()
}

fn missing() -> ! {
    panic!("an architecture supplies this")
}
