//! x86-64: calls and linkage stubs, and what instructions do to registers and memory.

mod calls;
mod instructions;
mod vectors;

pub(crate) use calls::{call_ending_at, slot_of_stub};
pub(crate) use instructions::{
    CLOBBERED_BY_CALLS, GENERAL_REGISTERS, PARAMETERS, REGISTERS, RESULTS, decode,
};
