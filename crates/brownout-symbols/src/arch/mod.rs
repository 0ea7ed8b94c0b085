//! The instruction encodings of the target's architecture, under neutral names.
//!
//! Registers are numbered as in DWARF.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    CLOBBERED_BY_CALLS, GENERAL_REGISTERS, PARAMETERS, REGISTERS, RESULTS, call_ending_at, decode,
    slot_of_stub,
};

/// The operand of a call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Calls this address.
    Direct(u64),
    /// Calls the function whose address is in this slot of the global offset table.
    ThroughSlot(u64),
}

/// Code that can be read by address.
pub(crate) trait Code {
    /// `len` bytes at `address`; `None` if they are not in the file.
    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]>;
}

/// A sum of registers and a constant, such as the address of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) base: Option<u16>,
    /// A register, and what it is multiplied with.
    pub(crate) index: Option<(u16, u32)>,
    pub(crate) constant: i64,
}

impl Sum {
    pub(crate) fn register(register: u16, constant: i64) -> Self {
        Self {
            base: Some(register),
            index: None,
            constant,
        }
    }
}

/// What a register is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sum(Sum),
    /// A register, multiplied.
    Product(u16, i64),
    /// Something, multiplied.
    Multiple(i64),
    /// Bytes from memory.
    Load {
        from: Sum,
        size: u64,
    },
    /// The old value plus bytes from memory.
    AddLoad {
        from: Sum,
    },
    /// The old value, or this.
    Unless(Box<Source>),
    Unknown,
}

/// A step of an instruction, in the order of its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstructionEffect {
    Set(u16, Source),
    Store {
        to: Sum,
        size: u64,
        /// The register that is stored, if it is a single one.
        from: Option<u16>,
    },
}

/// Which instruction is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Jump(u64),
    Branch(u64),
    /// A jump to an address that is computed.
    Computed,
    /// The next instruction follows the call.
    Call,
    /// Nothing follows.
    End,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) len: u64,
    pub(crate) steps: Vec<InstructionEffect>,
    pub(crate) flow: Flow,
    /// The address of the first byte of memory that it writes.
    pub(crate) writes: Option<Sum>,
    /// It writes again and again, each time this many bytes further.
    pub(crate) repeats: u64,
}
