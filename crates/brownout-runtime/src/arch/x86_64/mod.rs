//! x86-64: assembly, encoders, instruction forms, registers, signal frames.

pub mod instruments;
pub mod translator;

pub use iced_x86::Instruction;
