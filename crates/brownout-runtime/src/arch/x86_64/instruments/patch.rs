//! What an instruction of x86-64 stores to, how lines are flushed, and the way from generated code to the patch instrument.

use super::pm::effective_address::effective_address;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::guarded;
use crate::arch::translator::translate::{has_memory, memory_size, number};
use crate::instruments::patch::{PatchArea, VISIT};
use crate::translator::context::Context;
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use iced_x86::{Instruction, Mnemonic, OpKind};

const DIRECTION: u64 = 0x400;

global_asm!(
    ".text",
    ".globl patch_visit",
    "patch_visit:",
    "mov dword ptr gs:[{exit}], {visit}",
    "jmp gate_exit",
    exit = const offset_of!(Context, exit),
    visit = const VISIT,
);

unsafe extern "C" {
    fn patch_visit();
}

/// Fills the entry point for generated code.
pub fn connect(area: &mut PatchArea) {
    area.to_visit = patch_visit as *const () as u64;
}

/// The first byte that an instruction is about to store to, and how many they are; of a masked store, all that the mask could select.
/// `None` if that is not known before it is executed.
pub fn stored_bytes(insn: &Instruction, context: &Context) -> Option<(u64, u64)> {
    if insn.is_string_instruction() {
        return string_bytes(insn, context);
    }
    match insn.mnemonic() {
        Mnemonic::Movdir64b => Some((
            context.cpu.gpr[usize::from(number(insn.op0_register()))],
            64,
        )),
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => Some((context.cpu.gpr[reg::RDI], 16)),
        Mnemonic::Maskmovq => Some((context.cpu.gpr[reg::RDI], 8)),
        Mnemonic::Clzero => Some((context.cpu.gpr[reg::RAX] & !63, 64)),
        // The bit selects the word.
        Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc if insn.op1_kind() == OpKind::Register => {
            None
        }
        _ if insn.is_vsib() || !has_memory(insn) => None,
        _ => match memory_size(insn) as u64 {
            0 => None,
            size => Some((effective_address(insn, context), size)),
        },
    }
}

/// What `movs` and `stos` store to, with all repetitions.
fn string_bytes(insn: &Instruction, context: &Context) -> Option<(u64, u64)> {
    let is_narrow = match insn.op0_kind() {
        OpKind::MemoryESEDI => true,
        OpKind::MemoryESRDI => false,
        _ => return None,
    };
    let register = |number: usize| match is_narrow {
        true => context.cpu.gpr[number] & 0xffff_ffff,
        false => context.cpu.gpr[number],
    };
    let element = insn.memory_size().size() as u64;
    let repeats = insn.has_rep_prefix() || insn.has_repne_prefix();
    let count = if repeats { register(reg::RCX) } else { 1 };
    let (first, len) = (register(reg::RDI), count.checked_mul(element)?);
    let is_backwards = context.cpu.flags & DIRECTION != 0;
    match is_backwards {
        true => Some((first.wrapping_add(element).wrapping_sub(len), len)),
        false => Some((first, len)),
    }
}

/// Flushes the cache line at an address. False if it cannot be read, and so cannot be flushed.
pub fn flush_line(address: u64) -> bool {
    if guarded::load(address & !7).is_none() {
        return false;
    }
    // SAFETY: changes no memory. The line was just read; a target that unmaps it at the same time in another thread faults here as its own
    // flush would.
    unsafe { asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)) };
    true
}

/// Orders flushes.
pub fn fence() {
    // SAFETY: changes neither memory nor registers.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
