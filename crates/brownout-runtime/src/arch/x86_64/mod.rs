//! x86-64: assembly, encoders, instruction forms, registers, signal frames.

pub mod instruments;
pub mod translator;

pub use iced_x86::Instruction;

/// The address of an instruction.
pub fn pc(insn: &Instruction) -> u64 {
    insn.ip()
}

/// The address of the instruction after another.
pub fn next_pc(insn: &Instruction) -> u64 {
    insn.next_ip()
}

/// The machine that ELF files must be for (`EM_X86_64`).
pub const ELF_MACHINE: u16 = 62;
/// How the supported programs are called.
pub const PROGRAMS: &str = "64-bit x86 programs";
