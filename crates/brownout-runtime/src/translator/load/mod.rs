//! Starts a program the way the kernel would: maps it and its interpreter, and corrects the initial
//! stack that the kernel made for the loader so that the target finds itself there.

mod elf;
mod stack;

pub use elf::{Image, Refusal, inspect, map};
pub use stack::InitialStack;
