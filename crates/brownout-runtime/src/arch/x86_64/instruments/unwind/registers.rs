//! The registers that matter to unwinding.

/// Number of a general-purpose register as instructions encode it.
pub type Gpr = u8;
/// How many general-purpose registers there are.
pub const GPRS: usize = 16;
/// A set of them, one bit for each.
pub type GprSet = u16;
const RBX: Gpr = 3;
pub const STACK_POINTER: Gpr = 4;
pub const FRAME_POINTER: Gpr = 5;

/// The registers that a function hands back to its caller as it found them.
pub const CALLEE_SAVED: [Gpr; 6] = [RBX, FRAME_POINTER, 12, 13, 14, 15];
/// Index of the frame pointer in [`CALLEE_SAVED`].
pub const SAVED_FRAME_POINTER: usize = 1;

/// Offset of the registers in the kernel's `ucontext`, and the order they come in. The stack pointer is the last of them,
/// and the instruction pointer follows.
pub const SIGNAL_REGISTERS: u64 = 40;
pub const SIGNAL_ORDER: [Gpr; GPRS] = [
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    7,
    6,
    FRAME_POINTER,
    RBX,
    2,
    0,
    1,
    STACK_POINTER,
];

/// DWARF's number for the return address.
pub const RETURN_ADDRESS: gimli::Register = gimli::X86_64::RA;

/// The general-purpose register of a DWARF number, which counts them in an order of its own.
pub fn gpr_of_dwarf(register: gimli::Register) -> Option<Gpr> {
    const ORDER: [Gpr; GPRS] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
    ORDER.get(usize::from(register.0)).copied()
}
