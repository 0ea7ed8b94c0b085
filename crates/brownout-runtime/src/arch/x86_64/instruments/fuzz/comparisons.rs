//! The operands of comparisons.

use crate::arch::translator::cpu::reg;
use crate::arch::translator::translate::{is_call, number};
use crate::target_memory;
use crate::translator::context::Context;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What an instruction is about to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Two values of so many bytes.
    Values { left: u64, right: u64, size: usize },
    /// What two pointers point to.
    Memory { left: u64, right: u64 },
}

/// Whether an instruction compares two operands, or is a call, whose first two arguments may be compared.
pub fn may_compare(insn: &Instruction) -> bool {
    match insn.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Sub | Mnemonic::Xor => {
            let is_same = insn.op0_kind() == OpKind::Register
                && insn.op1_kind() == OpKind::Register
                && insn.op0_register() == insn.op1_register();
            !is_same && insn.op0_register() != Register::RSP
        }
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsq => true,
        _ => is_call(insn),
    }
}

/// The operands of an instruction; `None` if they cannot be determined.
pub fn operands(context: &Context, insn: &Instruction) -> Option<Operands> {
    let gpr = &context.cpu.gpr;
    if insn.is_string_instruction() || is_call(insn) {
        return Some(Operands::Memory {
            left: gpr[reg::RDI],
            right: gpr[reg::RSI],
        });
    }
    let size = (0..insn.op_count())
        .filter(|&operand| insn.op_kind(operand) == OpKind::Register)
        .map(|operand| insn.op_register(operand).size())
        .next();
    let size = size.unwrap_or_else(|| insn.memory_size().size());
    if !matches!(size, 1 | 2 | 4 | 8) {
        return None;
    }
    let cut = |value: u64| match size {
        8 => value,
        size => value & ((1 << (8 * size)) - 1),
    };
    Some(Operands::Values {
        left: cut(value(context, insn, 0)?),
        right: cut(value(context, insn, 1)?),
        size,
    })
}

fn value(context: &Context, insn: &Instruction, operand: u32) -> Option<u64> {
    match insn.op_kind(operand) {
        OpKind::Register => register(context, insn.op_register(operand)),
        OpKind::Memory => {
            let segment = insn.memory_segment();
            if matches!(segment, Register::FS | Register::GS) {
                return None;
            }
            let address = insn.virtual_address(operand, 0, |name, _, _| match name {
                Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
                Register::RIP => Some(0),
                name => register(context, name),
            })?;
            let mut bytes = [0u8; 8];
            let len = insn.memory_size().size().min(8);
            let read = target_memory::read_into(address, &mut bytes[..len]);
            (read == len).then(|| u64::from_le_bytes(bytes))
        }
        _ => insn.try_immediate(operand).ok(),
    }
}

fn register(context: &Context, name: Register) -> Option<u64> {
    if !name.is_gpr() {
        return None;
    }
    let is_high = matches!(
        name,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    let whole = context.cpu.gpr[usize::from(number(name))];
    let value = if is_high { whole >> 8 } else { whole };
    Some(match name.size() {
        8 => value,
        size => value & ((1 << (8 * size)) - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decoded(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn only_instructions_that_compare_are_captured() {
        assert!(may_compare(&decoded(&[0x3d, 1, 2, 3, 4])), "cmp eax, imm");
        assert!(may_compare(&decoded(&[0x39, 0xd8])), "cmp eax, ebx");
        assert!(!may_compare(&decoded(&[0x31, 0xc0])), "xor eax, eax");
        assert!(!may_compare(&decoded(&[0x48, 0x83, 0xec, 8])), "sub rsp, 8");
        assert!(may_compare(&decoded(&[0xff, 0xd0])), "call rax");
        assert!(!may_compare(&decoded(&[0x89, 0xd8])), "mov eax, ebx");
    }
}
