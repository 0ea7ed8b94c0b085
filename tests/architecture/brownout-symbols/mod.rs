//! What the symbolizer must know about the code of an architecture.

use super::{Call, Code};

/// The call instruction that ends at `end`.
pub(crate) fn call_ending_at(_code: &impl Code, _end: u64) -> Option<Call> {
    missing()
}

/// The slot of the global offset table through which the linkage stub at `address` jumps.
pub(crate) fn slot_of_stub(_code: &impl Code, _address: u64) -> Option<u64> {
    missing()
}

fn missing() -> ! {
    panic!("an architecture supplies this")
}
