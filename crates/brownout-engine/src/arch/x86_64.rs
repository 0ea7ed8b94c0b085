//! The numbers of x86-64 in ELF files, and its system calls.

mod call_names;

pub(crate) use call_names::call_name;

/// The machine that programs must be for (`EM_X86_64`).
pub(crate) const ELF_MACHINE: u16 = 62;
/// The machine of 32-bit programs that the processor also runs (`EM_386`).
pub(crate) const ELF_MACHINE_32: u16 = 3;
