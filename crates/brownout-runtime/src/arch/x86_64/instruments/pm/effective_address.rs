//! The address of an instruction's memory operand, computed from the registers in the context.

use crate::arch::translator::translate::number;
use crate::translator::context::Context;
use core::arch::asm;
use iced_x86::{Code, CodeSize, Instruction, Register};

/// Where the memory operand of an instruction leads, without the index if that is a vector.
pub fn effective_address(insn: &Instruction, context: &Context) -> u64 {
    if insn.is_ip_rel_memory_operand() {
        return insn.ip_rel_memory_address();
    }
    let value = |register: Register| match register {
        Register::None => 0,
        register => context.cpu.gpr[usize::from(number(register))],
    };
    let mut address = value(insn.memory_base());
    if !insn.is_vsib() {
        let index = value(insn.memory_index());
        address = address.wrapping_add(index.wrapping_mul(u64::from(insn.memory_index_scale())));
    }
    address = address.wrapping_add(insn.memory_displacement64());
    let narrow = |register: Register| register != Register::None && register.size() == 4;
    if narrow(insn.memory_base()) || (!insn.is_vsib() && narrow(insn.memory_index())) {
        address &= 0xffff_ffff;
    }
    debug_assert!(insn.code_size() == CodeSize::Code64 && insn.code() != Code::INVALID);
    address.wrapping_add(segment_base(insn.memory_segment(), context))
}

/// The base of a segment: FS is the target's at all times, GS is the engine's while it runs.
pub fn segment_base(segment: Register, context: &Context) -> u64 {
    match segment {
        Register::FS => {
            let base: u64;
            // SAFETY: reads a register; the engine needs this instruction throughout.
            unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
            base
        }
        Register::GS => context.cpu.target_gs,
        _ => 0,
    }
}
