//! The instruction encodings of the target's architecture, under neutral names.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{call_ending_at, slot_of_stub};

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
