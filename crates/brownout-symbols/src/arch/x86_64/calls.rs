//! Calls and linkage stubs in x86-64 code.

use crate::arch::{Call, Code};

/// The call instruction that ends at `end`: `call target` or `call *slot(%rip)`.
pub(crate) fn call_ending_at(code: &impl Code, end: u64) -> Option<Call> {
    if let Some([0xff, 0x15, displacement @ ..]) = code.bytes(end.checked_sub(6)?, 6) {
        return Some(Call::ThroughSlot(relative(end, displacement)));
    }
    match code.bytes(end.checked_sub(5)?, 5)? {
        [0xe8, displacement @ ..] => Some(Call::Direct(relative(end, displacement))),
        _ => None,
    }
}

/// The slot through which the stub at `address` jumps: `jmp *slot(%rip)`, perhaps after `endbr64`.
pub(crate) fn slot_of_stub(code: &impl Code, address: u64) -> Option<u64> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const BND: u8 = 0xf2;
    let mut at = address;
    if code.bytes(at, 4)? == ENDBR64 {
        at += 4;
    }
    if code.bytes(at, 1)? == [BND] {
        at += 1;
    }
    match code.bytes(at, 6)? {
        [0xff, 0x25, displacement @ ..] => Some(relative(at + 6, displacement)),
        _ => None,
    }
}

/// The address that a 32-bit displacement refers to in an instruction that ends at `end`.
fn relative(end: u64, displacement: &[u8]) -> u64 {
    let displacement = displacement.try_into().map_or(0, i32::from_le_bytes);
    end.wrapping_add_signed(i64::from(displacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at address 0x1000.
    struct Bytes(&'static [u8]);

    impl Code for Bytes {
        fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
            let start = address.checked_sub(0x1000)? as usize;
            self.0.get(start..start + len as usize)
        }
    }

    #[test]
    fn calls_are_decoded_from_their_end() {
        let direct = Bytes(&[0x90, 0xe8, 0x10, 0, 0, 0]);
        assert_eq!(call_ending_at(&direct, 0x1006), Some(Call::Direct(0x1016)));
        let slot = Bytes(&[0xff, 0x15, 0xf0, 0xff, 0xff, 0xff]);
        assert_eq!(
            call_ending_at(&slot, 0x1006),
            Some(Call::ThroughSlot(0xff6))
        );
        let pointer = Bytes(&[0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]);
        assert_eq!(call_ending_at(&pointer, 0x1006), None);
    }

    #[test]
    fn a_stub_may_begin_with_endbr64() {
        let stub = Bytes(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x06, 0, 0, 0]);
        assert_eq!(slot_of_stub(&stub, 0x1000), Some(0x1010));
        assert_eq!(slot_of_stub(&stub, 0x1001), None);
    }
}
