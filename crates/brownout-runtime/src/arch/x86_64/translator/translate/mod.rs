//! How instructions of x86-64 are copied into the cache, changing only what must change.
//!
//! An instruction is copied byte for byte unless it is one of:
//!
//! 1. *Control flow.* Direct branches go to the copy of their target, through a stub until that exists.
//!    Calls push the target's return address and then really `call`, so that the CPU's return
//!    predictor works; returns look up the copy of their target and really `ret`. (`branch`)
//! 2. *RIP-relative operands.* The displacement is adjusted; if the target is out of reach the address
//!    is put into a spare register. (`Emission::copy`)
//! 3. *System calls*, which go through the gate.
//! 4. *GS.* The register is the engine's; operands and `rdgsbase`/`wrgsbase` use the target's value.
//!    What needs the register itself (its selector, implicit operands) is not supported.
//! 5. *`xbegin`*, which always aborts: a legal outcome at any time.
//! 6. *What an instrument replaces.* Instruments can also emit code at the start of blocks, before
//!    instructions and behind them. (`Emission`, [`crate::instruments::Instrument`])
//!
//! Which instructions make a fragment is decided in [`crate::translator::translate`].

mod branch;
mod checked;
mod decode;
mod emission;
mod emit;
mod operand;

pub use branch::{refuse, restore_spilled};
pub use decode::{InstructionDecoder, LONGEST_INSTRUCTION, is_call};
pub use emission::{Emission, emit_miss_routines, patch_branch};
pub use emit::{Emitter, MemoryOperand};
pub use operand::{
    Access, Analyst, has_memory, memory, memory_size, number, register, through_register,
};

use crate::translator::translate::{FragmentBuilder, Next, Undecodable};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic};

impl FragmentBuilder<'_> {
    /// Emits the copy of an instruction, whose bytes are `code`.
    pub(crate) fn instruction(&mut self, insn: &Instruction, code: &[u8]) -> Next {
        match insn.mnemonic() {
            Mnemonic::Syscall => return self.syscall(insn),
            Mnemonic::Xbegin => return self.abort_transaction(insn),
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase => {
                self.gs_base(insn);
                return Next::Straight;
            }
            _ if operand::needs_real_gs(insn) => return self.unsupported(insn),
            _ => {}
        }
        match insn.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => {
                if !self.instrumented.replace(insn, code, &mut self.emission) {
                    self.emission.copy(insn, code);
                }
                self.instrumented.after(insn, &mut self.emission);
                Next::Straight
            }
            FlowControl::Exception | FlowControl::Interrupt => {
                self.emission.out.put(code);
                if insn.mnemonic() == Mnemonic::Ud2 {
                    Next::End
                } else {
                    Next::Straight
                }
            }
            _ => self.branch(insn),
        }
    }

    /// An undecodable instruction faults when it is reached, as it would have done in place. Of one that is
    /// cut off by the end of the code, the rest may be there by then.
    pub(crate) fn undecodable(&mut self, pc: u64, why: Undecodable) {
        self.emission
            .draft
            .boundary(self.emission.out.here(), pc, 1);
        match why {
            Undecodable::CutOff => {
                self.emission.out.gs_store_imm(crate::slot!(pc), pc);
                self.emission.out.jmp_gs(crate::slot!(to_resync));
            }
            // ud2
            Undecodable::Invalid => self.emission.out.put(&[0x0f, 0x0b]),
        }
    }

    fn gs_base(&mut self, insn: &Instruction) {
        let reg = number(insn.op0_register());
        match insn.code() {
            Code::Rdgsbase_r64 => self.emission.out.gs_load(reg, crate::slot!(cpu.target_gs)),
            Code::Rdgsbase_r32 => {
                self.emission.out.gs_load(reg, crate::slot!(cpu.target_gs));
                // mov r32, r32 clears the upper half
                if reg >= 8 {
                    self.emission.out.put(&[0x45]);
                }
                self.emission
                    .out
                    .put(&[0x89, 0xc0 | (reg & 7) << 3 | reg & 7]);
            }
            Code::Wrgsbase_r32 => {
                self.emission
                    .out
                    .gs_store_imm(crate::slot!(cpu.target_gs), 0);
                self.emission.out.put(&[
                    0x65,
                    0x40 | (reg >> 3) << 2,
                    0x89,
                    0x04 | (reg & 7) << 3,
                    0x25,
                ]);
                self.emission
                    .out
                    .put_u32(crate::slot!(cpu.target_gs) as u32);
            }
            _ => self.emission.out.gs_store(crate::slot!(cpu.target_gs), reg),
        }
    }

    fn syscall(&mut self, insn: &Instruction) -> Next {
        // rcx and r11 are the kernel's to destroy.
        self.emission.out.mov_imm(1, insn.next_ip());
        // mov r11d, here + 6 + 8: the address after the jump
        let after = self.emission.out.here() + 6 + 8;
        self.emission.out.mov_imm(11, after);
        self.emission.out.jmp_gs(crate::slot!(to_syscall));
        debug_assert_eq!(self.emission.out.here(), after);
        Next::Block(insn.next_ip())
    }

    fn abort_transaction(&mut self, insn: &Instruction) -> Next {
        // xbegin to behind the xabort: a CPU without transactions raises its exception here.
        self.emission.out.put(&[0xc7, 0xf8, 3, 0, 0, 0]);
        // xabort 0
        self.emission.out.put(&[0xc6, 0xf8, 0]);
        // eax = 0: aborted for no stated reason, do not retry
        self.emission.out.mov_imm(0, 0);
        Next::Block(insn.near_branch_target())
    }
}
