//! Control flow.

use crate::arch::translator::cpu::reg;
use crate::arch::translator::translate::{has_memory, number, through_register};
use crate::fatal;
use crate::translator::cache;
use crate::translator::cache::{CACHE, FAR, JUMP_MISS, Link, Repair};
use crate::translator::context::Context;
use crate::translator::translate::{FragmentBuilder, Next};
use crate::{slot, target_memory};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

const RCX: u8 = 1;

impl FragmentBuilder<'_> {
    pub(super) fn branch(&mut self, insn: &Instruction) -> Next {
        match insn.flow_control() {
            FlowControl::UnconditionalBranch if insn.is_jmp_short_or_near() => {
                Next::Block(insn.near_branch_target())
            }
            FlowControl::ConditionalBranch => self.conditional(insn),
            FlowControl::Call if insn.is_call_near() => self.call(insn),
            FlowControl::IndirectCall if insn.is_call_near_indirect() => self.indirect_call(insn),
            FlowControl::IndirectBranch if insn.is_jmp_near_indirect() => {
                self.load_target(insn);
                self.lookup_and_jump(insn);
                Next::End
            }
            FlowControl::Return if is_near_return(insn.code()) => self.ret(insn),
            _ => self.unsupported(insn),
        }
    }

    /// The target ends with a sentence if it gets here.
    pub(super) fn unsupported(&mut self, insn: &Instruction) -> Next {
        self.emission.out.gs_store_imm(slot!(pc), insn.ip());
        self.emission.out.jmp_gs(slot!(to_unsupported));
        Next::End
    }

    fn conditional(&mut self, insn: &Instruction) -> Next {
        let target = insn.near_branch_target();
        if insn.is_jcc_short_or_near() {
            // iced numbers conditions in the hardware's order, from 1.
            let condition = insn.condition_code() as u8 - 1;
            self.emission.out.align_displacement(2);
            self.emission.out.put(&[0x0f, 0x80 | condition]);
            self.displacement_to(target);
        } else {
            // loop, loope, loopne, jrcxz, jecxz exist with short displacement only: hop over a jump.
            let narrow = matches!(
                insn.code(),
                Code::Jecxz_rel8_64
                    | Code::Loop_rel8_64_ECX
                    | Code::Loope_rel8_64_ECX
                    | Code::Loopne_rel8_64_ECX
            );
            if narrow {
                self.emission.out.put(&[0x67]);
            }
            let opcode = match insn.code() {
                Code::Loopne_rel8_64_RCX | Code::Loopne_rel8_64_ECX => 0xe0,
                Code::Loope_rel8_64_RCX | Code::Loope_rel8_64_ECX => 0xe1,
                Code::Loop_rel8_64_RCX | Code::Loop_rel8_64_ECX => 0xe2,
                _ => 0xe3,
            };
            self.emission.out.put(&[opcode, 2, 0xeb, 0]);
            let hop = self.emission.out.here() - 1;
            self.jump_to(target);
            self.emission.out.land_short(hop);
        }
        self.instrumented.fall_through(insn, &mut self.emission);
        Next::Block(insn.next_ip())
    }

    /// Emits a jump to target address `target`.
    pub(crate) fn jump_to(&mut self, target: u64) {
        self.emission.out.align_displacement(1);
        self.emission.out.put(&[0xe9]);
        self.displacement_to(target);
    }

    /// Emits the displacement of a branch to `target`: to its block, or to a stub.
    fn displacement_to(&mut self, target: u64) {
        let at = self.emission.out.here();
        match self.cache.block(target) {
            Some(block) => self.emission.out.put_u32(block.wrapping_sub(at + 4) as u32),
            None => self.emission.out.put_u32(0),
        }
        self.add_link(at, target, false);
    }

    fn add_link(&mut self, at: u64, target: u64, call: bool) {
        let number = self.cache.new_link();
        self.links.push((
            number,
            Link {
                at,
                stub: 0,
                target,
                call,
                dead: false,
            },
        ));
    }

    /// Emits the stubs of all links, and sends those there whose target is not translated.
    pub(crate) fn emit_link_stubs(&mut self) {
        let mut links = core::mem::take(&mut self.links);
        for (number, link) in &mut links {
            link.stub = self.emission.out.here();
            if link.call {
                self.emission.out.drop_stack_word();
            }
            self.emission.out.gs_store_imm32(slot!(argument), *number);
            self.emission.out.jmp_gs(slot!(to_link));
            let known = if link.call {
                self.cache.call_entry(link.target)
            } else {
                self.cache.block(link.target)
            };
            // No thread can be in this code yet, so a plain store is enough.
            self.emission
                .out
                .fix_displacement(link.at, known.unwrap_or(link.stub));
        }
        self.links = links;
    }

    fn call(&mut self, insn: &Instruction) -> Next {
        let (target, back) = (insn.near_branch_target(), insn.next_ip());
        if self.instrumented.branch(insn).stack {
            self.instrumented.push(insn, &mut self.emission);
            self.jump_to(target);
            return Next::Block(back);
        }
        self.emission.out.push_imm(back);
        self.emission.out.align_displacement(1);
        self.emission
            .draft
            .special(self.emission.out.here(), insn.ip(), Repair::Pushed);
        self.emission.out.put(&[0xe8]);
        let at = self.emission.out.here();
        self.emission.out.put_u32(0);
        self.add_link(at, target, true);
        self.return_point(back);
        Next::Block(back)
    }

    fn indirect_call(&mut self, insn: &Instruction) -> Next {
        let back = insn.next_ip();
        self.load_target(insn);
        if self.instrumented.branch(insn).stack {
            // The target survives the runtime's visit in `next_pc`, which only system calls use.
            self.emission.out.gs_store(slot!(next_pc), RCX);
            self.emission.out.gs_load(RCX, slot!(cpu.spill_rcx));
            self.instrumented.push(insn, &mut self.emission);
            self.emission.out.gs_store(slot!(cpu.spill_rcx), RCX);
            self.emission.out.gs_load(RCX, slot!(next_pc));
            self.jump_by_hash();
            return Next::Block(back);
        }
        self.emission.out.push_imm(back);
        if self.is_far(insn) {
            self.jump_by_hash();
            return Next::Block(back);
        }
        self.emission.out.gs_store(slot!(pc), RCX);
        self.table_load(insn, cache::TABLE_CALL);
        // lea rcx, [rcx + CACHE]; call rcx
        self.emission.out.put(&[0x48, 0x8d, 0x89]);
        self.emission.out.put_u32(CACHE as u32);
        self.emission
            .draft
            .special(self.emission.out.here(), insn.ip(), Repair::PushedSpilled);
        self.emission.out.put(&[0xff, 0xd1]);
        self.return_point(back);
        Next::Block(back)
    }

    /// The place behind a call in the cache: where the CPU predicts that the return goes.
    fn return_point(&mut self, back: u64) {
        if back < FAR {
            self.returns.push((back, self.emission.out.here()));
            self.emission.draft.entries.push(back);
        }
        self.emission.out.gs_load(RCX, slot!(cpu.spill_rcx));
    }

    /// Spills rcx and loads the target of an indirect branch into it.
    fn load_target(&mut self, insn: &Instruction) {
        if insn.op0_kind() == OpKind::Memory && self.instrumented.branch(insn).target {
            return self.read_target(insn);
        }
        self.emission.out.gs_store(slot!(cpu.spill_rcx), RCX);
        if insn.op0_kind() == OpKind::Register {
            let reg = number(insn.op0_register());
            // mov rcx, reg
            self.emission
                .out
                .put(&[0x48 | (reg >> 3) << 2, 0x89, 0xc1 | (reg & 7) << 3]);
            return;
        }
        let mut load = *insn;
        load.set_code(Code::Mov_r64_rm64);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        load.set_op1_kind(OpKind::Memory);
        let segment = insn.memory_segment();
        let far = insn.is_ip_rel_memory_operand() && {
            let distance = insn
                .ip_rel_memory_address()
                .wrapping_sub(self.emission.out.here()) as i64;
            distance.unsigned_abs() >= FAR - 4096
        };
        if has_memory(insn) && (far || segment == Register::GS) {
            self.emission.effective_address(insn, RCX);
            load = through_register(&load, RCX);
        }
        let bytes = self
            .emission
            .analyst
            .encode(&load, self.emission.out.here());
        self.emission.out.put(&bytes);
    }

    /// Lets an instrument read the target of a branch; spills rcx and loads the target into it.
    fn read_target(&mut self, insn: &Instruction) {
        self.instrumented.load_target(insn, &mut self.emission);
        self.emission.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.emission.out.gs_load(RCX, slot!(next_pc));
    }

    fn is_far(&self, insn: &Instruction) -> bool {
        insn.ip() >= FAR || self.cache.all_far || self.cache.far_branches.contains(&insn.ip())
    }

    /// `mov ecx, [rcx * 8 + table]`, which faults for targets beyond the table.
    fn table_load(&mut self, insn: &Instruction, table: i32) {
        self.emission
            .draft
            .special(self.emission.out.here(), insn.ip(), Repair::Lookup);
        self.emission.out.put(&[0x8b, 0x0c, 0xcd]);
        self.emission.out.put_u32(table as u32);
    }

    /// With the target in rcx: `lea rcx, [rcx + cache]` after the lookup.
    fn lookup(&mut self, insn: &Instruction) {
        self.emission.out.gs_store(slot!(pc), RCX);
        self.table_load(insn, cache::TABLE_JUMP);
        self.emission.out.put(&[0x48, 0x8d, 0x89]);
        self.emission.out.put_u32((CACHE + JUMP_MISS) as u32);
    }

    fn lookup_and_jump(&mut self, insn: &Instruction) {
        if self.is_far(insn) {
            return self.jump_by_hash();
        }
        self.lookup(insn);
        self.emission.out.put(&[0xff, 0xe1]);
    }

    /// With the target in rcx: leaves where this is, for targets that are not canonical.
    fn jump_by_hash(&mut self) {
        let here = self.emission.out.here();
        self.emission
            .out
            .gs_store_imm32(slot!(argument), here as u32);
        self.emission.out.jmp_gs(slot!(to_hash));
    }

    fn ret(&mut self, insn: &Instruction) -> Next {
        if self.instrumented.branch(insn).target {
            self.read_target(insn);
            self.emission.out.drop_stack_word();
        } else {
            self.emission.out.gs_store(slot!(cpu.spill_rcx), RCX);
            // pop rcx
            self.emission.out.put(&[0x59]);
        }
        if insn.op_count() == 1 {
            // lea rsp, [rsp + n]
            self.emission.out.put(&[0x48, 0x8d, 0xa4, 0x24]);
            self.emission.out.put_u32(u32::from(insn.immediate16()));
        }
        if self.is_far(insn) || self.instrumented.branch(insn).stack {
            self.jump_by_hash();
            return Next::End;
        }
        self.lookup(insn);
        let extra = if insn.op_count() == 1 {
            insn.immediate16()
        } else {
            0
        };
        self.emission
            .draft
            .special(self.emission.out.here(), insn.ip(), Repair::Popped(extra));
        // push rcx; ret
        self.emission.out.put(&[0x51, 0xc3]);
        Next::End
    }
}

fn is_near_return(code: Code) -> bool {
    matches!(code, Code::Retnq | Code::Retnq_imm16)
}

/// Restores rcx after a fault in the translation of the instruction at `context.pc`, if that begins by putting
/// it into its spill slot.
pub fn restore_spilled(context: &mut Context) {
    let insn = decode(context.pc);
    if matches!(
        insn.flow_control(),
        FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return
    ) {
        context.cpu.gpr[reg::RCX] = context.cpu.spill_rcx;
    }
}

/// Ends the process: the engine cannot run the instruction at `context.pc`.
pub fn refuse(context: &Context) -> ! {
    fatal::unsupported(format_args!(
        "the program uses the instruction {:?} at {:#x}, which the engine does not support",
        decode(context.pc).code(),
        context.pc,
    ));
}

/// The instruction at `pc`, as far as it can be read.
fn decode(pc: u64) -> Instruction {
    let mut bytes = [0u8; 15];
    let len = target_memory::read_into(pc, &mut bytes);
    Decoder::with_ip(64, &bytes[..len], pc, DecoderOptions::NONE).decode()
}
