//! What the runtime must know about an architecture: a skeleton of `arch/x86_64`.
//!
//! It declares what neutral code uses, with the types of an imaginary processor. `cargo xtask architecture` puts it in
//! the place of x86-64, so that neutral code which relies on anything else does not compile.

pub mod instruments;
pub mod translator;

/// An instruction of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction;

/// The address of an instruction.
pub fn pc(_insn: &Instruction) -> u64 {
    missing()
}

/// The address of the instruction after another.
pub fn next_pc(_insn: &Instruction) -> u64 {
    missing()
}

/// The machine that ELF files must be for.
pub const ELF_MACHINE: u16 = 0;
/// How the supported programs are called.
pub const PROGRAMS: &str = "programs for no processor";

/// The body of everything that an architecture supplies.
pub fn missing() -> ! {
    panic!("an architecture supplies this")
}
