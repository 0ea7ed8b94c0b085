//! What depends on the processor: the numbers that ELF files name it by, and those of its system calls.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
