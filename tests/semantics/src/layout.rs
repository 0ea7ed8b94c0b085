//! Where the operands of a case are, in the input and in what it leaves.

/// Addresses at which the host maps code, input and output; nothing else of a process is near them.
pub const CODE: u64 = 0x10_0000_0000;
pub const INPUT: u64 = 0x11_0000_0000;
pub const OUTPUT: u64 = 0x12_0000_0000;
/// Bytes behind the input and the output that are mapped, too.
pub const GUARD: u64 = 0x1_0000;

/// Bytes of a case, in the input and in the output.
pub const CASE: usize = 1408;
pub const GPRS: usize = 0;
pub const MASKS: usize = 128;
/// The memory operand.
pub const MEMORY: usize = 192;
pub const MEMORY_BYTES: usize = 192;
/// The conditions that the flags are asked for, a byte each.
pub const CONDITIONS: usize = 384;
pub const VECTORS: usize = 448;
/// Vectors are among the first of these, and from 16 on.
pub const LOW_VECTORS: usize = 8;
pub const VECTOR: usize = 64;

/// Where a vector register is.
pub fn vector(number: usize) -> usize {
    let index = if number >= 16 {
        LOW_VECTORS + number - 16
    } else {
        number
    };
    VECTORS + VECTOR * index
}

const _: () = assert!(VECTORS + VECTOR * (LOW_VECTORS + 4) <= CASE && CASE.is_multiple_of(64));
