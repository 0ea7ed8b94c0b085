//! The code of a fragment while it is being emitted: what the translator and the instruments add to it.

use super::{Analyst, Emitter, MemoryOperand, has_memory, memory, through_register};
use crate::slot;
use crate::translator::cache::{CACHE, Draft, FAR, JUMP_MISS, Repair};
use core::arch::asm;
use iced_x86::{Instruction, Mnemonic, Register};

const RAX: u8 = 0;
const RCX: u8 = 1;

/// Where code goes, what is known of it, and what answers questions about instructions.
pub struct Emission<'a> {
    pub analyst: &'a mut Analyst,
    pub out: Emitter,
    pub draft: Draft,
}

impl Emission<'_> {
    /// Emits a visit to the routine whose address is in the slot `entry` of the context: sets
    /// `Context::argument`, and `Context::resume` to the code behind the visit.
    pub fn visit(&mut self, argument: u32, entry: i32) {
        self.out.gs_store_imm32(slot!(argument), argument);
        self.visit_again(entry);
    }

    /// As [`Emission::visit`], with the argument that the context has.
    pub fn visit_again(&mut self, entry: i32) {
        // mov qword gs:[resume], imm32 takes 13 bytes, the jump 8
        let after = self.out.here() + 13 + 8;
        self.out.gs_store_imm(slot!(resume), after);
        self.out.jmp_gs(entry);
        debug_assert_eq!(self.out.here(), after);
    }

    /// Emits a store of a constant to a slot of the context.
    pub fn set_slot(&mut self, slot: i32, value: u64) {
        self.out.gs_store_imm(slot, value);
    }

    /// Emits the increment of the word at `counter`, which lives as long as the process. Registers and flags
    /// are kept. Increments by threads that run at the same time may be lost.
    pub fn increment(&mut self, counter: u64) {
        self.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.out.gs_store(slot!(cpu.spill_rax), RAX);
        self.out.mov_imm(RCX, counter);
        // mov rax, [rcx]; lea rax, [rax + 1]; mov [rcx], rax
        self.out
            .put(&[0x48, 0x8b, 0x01, 0x48, 0x8d, 0x40, 0x01, 0x48, 0x89, 0x01]);
        self.out.gs_load(RAX, slot!(cpu.spill_rax));
        self.out.gs_load(RCX, slot!(cpu.spill_rcx));
    }

    /// Copies an instruction that falls through.
    pub fn copy(&mut self, insn: &Instruction, code: &[u8]) {
        if has_memory(insn) {
            // `lea` is no access: segments do not matter to it.
            if insn.memory_segment() == Register::GS && insn.mnemonic() != Mnemonic::Lea {
                return self.copy_with_target_gs(insn);
            }
            if insn.is_ip_rel_memory_operand() {
                return self.copy_rip_relative(insn);
            }
        }
        self.out.put(code);
    }

    fn copy_rip_relative(&mut self, insn: &Instruction) {
        let target = insn.ip_rel_memory_address();
        let distance = target.wrapping_sub(self.out.here()) as i64;
        if distance.unsigned_abs() < (FAR - 4096) {
            let bytes = self.analyst.encode(insn, self.out.here());
            return self.out.put(&bytes);
        }
        let scratch = self.analyst.scratch(insn);
        self.out.gs_store(slot!(cpu.spill_scratch), scratch);
        self.out.mov_imm(scratch, target);
        self.finish_through(insn, scratch);
    }

    /// The target's GS base is in its context, not in the CPU.
    fn copy_with_target_gs(&mut self, insn: &Instruction) {
        let scratch = self.analyst.scratch(insn);
        self.out.gs_store(slot!(cpu.spill_scratch), scratch);
        self.effective_address(insn, scratch);
        self.finish_through(insn, scratch);
    }

    /// Emits the instruction with its operand at `[scratch]` and gives the register back.
    pub fn finish_through(&mut self, insn: &Instruction, scratch: u8) {
        let changed = through_register(insn, scratch);
        let bytes = self.analyst.encode(&changed, self.out.here());
        self.draft
            .special(self.out.here(), insn.ip(), Repair::Scratch(scratch));
        self.out.put(&bytes);
        self.out.gs_load(scratch, slot!(cpu.spill_scratch));
    }

    /// Computes the address of the memory operand, segment included, into `reg`. All else is kept.
    pub fn effective_address(&mut self, insn: &Instruction, reg: u8) {
        match memory(insn) {
            Some(MemoryOperand {
                base: None,
                index: None,
                ..
            }) => self.out.mov_imm(reg, insn.memory_displacement64()),
            Some(operand) => self.out.lea(reg, &operand),
            None => self.out.mov_imm(reg, insn.ip_rel_memory_address()),
        }
        let segment = insn.memory_segment();
        if matches!(segment, Register::FS | Register::GS) && has_memory(insn) {
            let helper = if reg == 0 { 1 } else { 0 };
            self.out.gs_store(slot!(cpu.spill_r11), helper);
            if segment == Register::FS {
                // rdfsbase
                self.out.put(&[0xf3, 0x48, 0x0f, 0xae, 0xc0 | helper]);
            } else {
                self.out.gs_load(helper, slot!(cpu.target_gs));
            }
            let sum = MemoryOperand {
                base: Some(reg),
                index: Some(helper),
                scale: 1,
                displacement: 0,
                narrow: false,
            };
            self.out.lea(reg, &sum);
            self.out.gs_load(helper, slot!(cpu.spill_r11));
        }
    }
}

/// Emits the routines that indirect calls and jumps without an entry come to, at [`CACHE`] and
/// [`CACHE`]` + `[`JUMP_MISS`].
pub fn emit_miss_routines(out: &mut Emitter) {
    out.drop_stack_word();
    out.jmp_gs(slot!(to_indirect_call));
    out.pad_to(CACHE + JUMP_MISS);
    out.jmp_gs(slot!(to_indirect));
}

/// Lets the branch whose 4-byte displacement is at `at` go to `to`, by one store of which other threads see all
/// or nothing. The displacement need not be aligned, which is why this is not an atomic of Rust's.
///
/// # Safety
/// `at` is the displacement of a branch in the cache and does not cross a cache line.
pub unsafe fn patch_branch(at: u64, to: u64) {
    let displacement = to.wrapping_sub(at + 4) as u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov dword ptr [{at}], {displacement:e}",
            at = in(reg) at,
            displacement = in(reg) displacement,
            options(nostack, preserves_flags),
        );
    }
}
