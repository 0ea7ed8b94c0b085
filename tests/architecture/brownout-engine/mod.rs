//! What the recorder must know about an architecture.

/// The machine that programs must be for.
pub(crate) const ELF_MACHINE: u16 = 0;
/// The machine of 32-bit programs that the processor also runs.
pub(crate) const ELF_MACHINE_32: u16 = 0;

/// The name of a system call, if it is known.
pub(crate) fn call_name(_number: u32) -> Option<&'static str> {
    None
}
