//! Code that may change at any time: each block first compares the original with what was translated.
//!
//! Such a block ends after any instruction that writes memory, so that the next one looks again: code
//! that modifies what follows it runs as it would in place.

use crate::arch::translator::translate::Emission;
use crate::slot;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

const RAX: u8 = 0;
const RCX: u8 = 1;
/// Longest stretch of code under one check.
const LIMIT: u64 = 48;

impl Emission<'_> {
    /// Whether a checked block that began at `start` ends with this instruction.
    pub(crate) fn ends_checked(&mut self, insn: &Instruction, start: u64) -> bool {
        insn.next_ip() - start >= LIMIT || self.analyst.access(insn).writes
    }

    /// Emits the comparison at the head of the block at `pc`.
    pub(crate) fn check_block(&mut self, pc: u64, bytes: &[u8]) {
        let len = self.checked_len(pc, bytes);
        self.draft.boundary(self.out.here(), pc, len);
        // Over the way out for stale code, which the comparisons then reach backwards.
        self.out.put(&[0xeb, 0]);
        let hop = self.out.here() - 1;
        let stale = self.out.here();
        self.restore_after_check();
        self.out.gs_store_imm(slot!(pc), pc);
        self.out.jmp_gs(slot!(to_stale));
        self.out.land_short(hop);

        self.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.out.gs_store(slot!(cpu.spill_rax), RAX);
        self.out.save_flags();
        self.out.gs_store(slot!(cpu.spill_flags), RAX);
        self.out.mov_imm(RCX, pc);
        let mut offset = 0;
        while offset < len {
            offset += self.compare_aligned(pc, offset, &bytes[offset..len]);
            self.jump_if_different(stale);
        }
        self.restore_after_check();
    }

    /// Compares the first of `bytes` with what is at `[rcx + offset]`, as many as can be at once without being
    /// misaligned, which the target may have forbidden. Returns how many.
    fn compare_aligned(&mut self, pc: u64, offset: usize, bytes: &[u8]) -> usize {
        let at = pc + offset as u64;
        let size = [8, 4, 2, 1]
            .into_iter()
            .find(|&size| size <= bytes.len() && at.is_multiple_of(size as u64))
            .unwrap_or(1);
        let displacement = offset as u8;
        match size {
            8 => {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[..8]);
                self.out.mov_imm(RAX, u64::from_le_bytes(word));
                // cmp [rcx + offset], rax
                self.out.put(&[0x48, 0x39, 0x41, displacement]);
                return size;
            }
            // cmp dword, word or byte ptr [rcx + offset], imm
            4 => self.out.put(&[0x81, 0x79, displacement]),
            2 => self.out.put(&[0x66, 0x81, 0x79, displacement]),
            _ => self.out.put(&[0x80, 0x79, displacement]),
        }
        self.out.put(&bytes[..size]);
        size
    }

    fn jump_if_different(&mut self, to: u64) {
        self.out.put(&[0x0f, 0x85]);
        let displacement = to.wrapping_sub(self.out.here() + 4) as u32;
        self.out.put_u32(displacement);
    }

    fn restore_after_check(&mut self) {
        self.out.gs_load(RAX, slot!(cpu.spill_flags));
        self.out.restore_flags();
        self.out.gs_load(RAX, slot!(cpu.spill_rax));
        self.out.gs_load(RCX, slot!(cpu.spill_rcx));
    }

    /// Bytes of code that the block at `pc` will consist of.
    fn checked_len(&mut self, pc: u64, bytes: &[u8]) -> usize {
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        loop {
            decoder.decode_out(&mut insn);
            let end = (insn.next_ip() - pc) as usize;
            if insn.is_invalid()
                || insn.flow_control() != FlowControl::Next
                || self.ends_checked(&insn, pc)
            {
                return end.clamp(1, bytes.len());
            }
        }
    }
}
