//! What the stack tracer must know about the processor: the registers of a stopped thread, and how calls use the stack.
//!
//! One folder or file per architecture; everything else in this crate is architecture-neutral.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::{INSTRUCTION_POINTER, Registers, STACK_POINTER, system_call};
