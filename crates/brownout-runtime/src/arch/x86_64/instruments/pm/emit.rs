//! Emission of accesses, flushes and fences.
//!
//! An access becomes: save what the record needs; compute the address; visit `access_begin`, which chooses
//! where the access is made; make it there; visit `pm_end`, which records it.

use super::code::{Capture, PmCode, Treatment, relocated};
use super::form::EmulatedForm;
use super::through_cache::through_cache;
use crate::arch::translator::translate::{Emission, has_memory, number, register};
use crate::instruments::pm::site::{SiteKind, site as pm_site};
use crate::slot;
use crate::translator::cache::Repair;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

const RAX: u8 = 0;
const RCX: u8 = 1;

impl PmCode {
    /// Emits an instruction in the way that its site needs. False if it must be copied.
    pub fn emit(&mut self, insn: &Instruction, code: &[u8], out: &mut Emission<'_>) -> bool {
        let treatment = self.treat(insn, out.analyst);
        match treatment {
            Treatment::Copy => return false,
            Treatment::Access {
                site,
                size,
                capture,
            } => {
                let loads = pm_site(site).kind == SiteKind::Load;
                out.access(insn, (site, size), loads, capture);
                out.end_access(loads);
            }
            Treatment::Emulate { site } => out.emulate(site),
            Treatment::Scatter { site } => out.scatter(insn, site),
            Treatment::Gather { site } => out.gather(insn, site),
            Treatment::Order { site } => out.order(insn, code, site),
            Treatment::Locked { site } => out.locked(insn, code, site),
        }
        true
    }

    /// Emits the push of a call whose stack is persistent memory.
    pub fn emit_push(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
        let site = self.add(insn, SiteKind::Emulated(EmulatedForm::Push), 8);
        out.emulate(site);
    }

    /// Emits the load of the target of a branch from persistent memory, into `next_pc`.
    pub fn emit_target(&mut self, insn: &Instruction, out: &mut Emission<'_>) {
        if insn.op0_kind() != OpKind::Memory {
            let site = self.add(insn, SiteKind::Emulated(EmulatedForm::Target), 8);
            return out.emulate(site);
        }
        let load = target_load(insn);
        let site = self.add(&load, SiteKind::Load, 8);
        out.out.gs_store(slot!(areas.pm.branch_rcx), RCX);
        out.access(&load, (site, 8), true, Capture::Nothing);
        out.out.gs_store(slot!(next_pc), RCX);
        out.out.gs_load(RCX, slot!(areas.pm.branch_rcx));
        out.end_access(true);
    }
}

/// The load into rcx of the target that a branch has in memory.
fn target_load(insn: &Instruction) -> Instruction {
    let mut load = *insn;
    load.set_code(Code::Mov_r64_rm64);
    load.set_op0_kind(OpKind::Register);
    load.set_op0_register(Register::RCX);
    load.set_op1_kind(OpKind::Memory);
    load
}

impl Emission<'_> {
    /// The runtime carries the instruction out.
    fn emulate(&mut self, site: u32) {
        self.visit(site, slot!(areas.pm.to_emulate));
    }

    /// The access is made at the address that the begin routine chooses.
    fn access(
        &mut self,
        insn: &Instruction,
        (site, size): (u32, u32),
        loads: bool,
        capture: Capture,
    ) {
        let (changed, scratch) = relocated(insn, self.analyst);
        self.capture_value(capture);
        self.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.out.gs_store(slot!(cpu.spill_rax), RAX);
        self.access_address(insn);
        self.out.gs_store(slot!(areas.events.address), RCX);
        self.out.save_flags();
        self.out.gs_store(slot!(cpu.spill_flags), RAX);
        self.out.gs_store_imm(slot!(areas.pm.size), u64::from(size));
        self.out.gs_store_imm32(slot!(argument), site);
        let after = self.out.here() + 13 + 8;
        self.out.gs_store_imm(slot!(areas.pm.return_to), after);
        self.out.jmp_gs(if loads {
            slot!(areas.pm.to_begin_load)
        } else {
            slot!(areas.pm.to_begin)
        });
        debug_assert_eq!(self.out.here(), after);

        self.capture_mask(capture);
        self.out.gs_store(slot!(cpu.spill_scratch), scratch);
        self.out.gs_load(scratch, slot!(areas.events.memory));
        let bytes = self
            .analyst
            .encode(&through_cache(&changed), self.out.here());
        self.draft
            .special(self.out.here(), insn.ip(), Repair::Moved(scratch));
        self.out.put(&bytes);
        self.out.gs_load(scratch, slot!(cpu.spill_scratch));
        if capture == Capture::ZeroFlag {
            // setz byte ptr gs:[extra]
            self.out.put(&[0x65, 0x0f, 0x94, 0x04, 0x25]);
            self.out.put_u32(slot!(areas.events.extra) as u32);
        }
    }

    /// Records the access, if it was to a candidate.
    fn end_access(&mut self, loads: bool) {
        if loads {
            // Most loads are left out, and hold no lock.
            self.if_slot(slot!(areas.events.lock), |out| {
                out.visit_again(slot!(areas.pm.to_end));
            });
        } else {
            self.visit_again(slot!(areas.pm.to_end));
        }
    }

    /// Runs what `then` emits if a slot is not zero. Registers and flags are those of the target there.
    fn if_slot(&mut self, slot: i32, then: impl FnOnce(&mut Self)) {
        self.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.out.gs_load(RCX, slot);
        // jrcxz
        self.out.put(&[0xe3, 0]);
        let hop = self.out.here() - 1;
        self.out.gs_load(RCX, slot!(cpu.spill_rcx));
        then(self);
        self.out.land_short(hop);
        self.out.gs_load(RCX, slot!(cpu.spill_rcx));
    }

    /// Address of the access into rcx.
    fn access_address(&mut self, insn: &Instruction) {
        match insn.mnemonic() {
            // The destination is an address in a register, not a memory operand.
            Mnemonic::Movdir64b => {
                let reg = number(insn.op0_register());
                self.out
                    .put(&[0x48 | (reg >> 3) << 2, 0x89, 0xc1 | (reg & 7) << 3]);
            }
            Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq => {
                // mov rcx, rdi
                self.out.put(&[0x48, 0x89, 0xf9]);
            }
            _ => self.effective_address(insn, RCX),
        }
    }

    /// Leaves the value of a non-temporal store in the payload of the event, where the begin routine finds it.
    fn capture_value(&mut self, capture: Capture) {
        match capture {
            Capture::Vector { register, size } => {
                self.dump_register(register, size, slot!(areas.events.payload))
            }
            Capture::Register(register) => self.out.gs_store(slot!(areas.events.payload), register),
            _ => {}
        }
    }

    /// Leaves the mask of a masked store in `EventArea::extra`.
    fn capture_mask(&mut self, capture: Capture) {
        match capture {
            Capture::Nothing
            | Capture::ZeroFlag
            | Capture::Vector { .. }
            | Capture::Register(_) => return,
            _ => self.out.gs_store(slot!(cpu.spill_scratch), RAX),
        }
        match capture {
            Capture::Nothing
            | Capture::ZeroFlag
            | Capture::Vector { .. }
            | Capture::Register(_) => {}
            // kmovq rax, k
            Capture::MaskRegister {
                register,
                wide: true,
            } => self.out.put(&[0xc4, 0xe1, 0xfb, 0x93, 0xc0 | register]),
            // kmovw eax, k
            Capture::MaskRegister {
                register,
                wide: false,
            } => self.out.put(&[0xc5, 0xf8, 0x93, 0xc0 | register]),
            Capture::MmxSignBits(mm) => self.out.put(&[0x0f, 0xd7, 0xc0 | mm]),
            // pmovmskb eax, vector: SSE code may run on a CPU without VEX
            Capture::SignBits {
                vector, element: 1, ..
            } if vector < 8 => self.out.put(&[0x66, 0x0f, 0xd7, 0xc0 | vector]),
            Capture::SignBits {
                vector, element: 1, ..
            } => self.out.put(&[0x66, 0x41, 0x0f, 0xd7, 0xc0 | vector & 7]),
            Capture::SignBits {
                vector,
                element,
                wide,
            } => {
                let (prefix, opcode) = if element == 4 { (0, 0x50) } else { (1, 0x50) };
                // vmovmskps / vmovmskpd eax, vector
                let inverted = if vector >= 8 { 0 } else { 0x20 };
                self.out.put(&[
                    0xc4,
                    0xc1 | inverted,
                    0x78 | u8::from(wide) << 2 | prefix,
                    opcode,
                    0xc0 | vector & 7,
                ]);
            }
        }
        self.out.gs_store(slot!(areas.events.extra), RAX);
        self.out.gs_load(RAX, slot!(cpu.spill_scratch));
    }

    /// The elements of a scatter are stored by the runtime; its mask ends up clear, as the CPU leaves it.
    fn scatter(&mut self, insn: &Instruction, site: u32) {
        let mask = (insn.op_mask() as u32 - Register::K0 as u32) as u8;
        self.dump_vector(
            insn.op1_register().number() as u8,
            slot!(areas.events.payload),
        );
        self.dump_vector(
            insn.memory_index().number() as u8,
            slot!(areas.events.payload) + 64,
        );
        self.capture_mask(Capture::MaskRegister {
            register: mask,
            wide: false,
        });
        self.emulate(site);
        // kxorw k, k, k: clears the rest of the register, too
        self.out.put(&[
            0xc5,
            0x80 | (!mask & 0xf) << 3 | 4,
            0x47,
            0xc0 | mask << 3 | mask,
        ]);
    }

    /// A gather is made by the CPU, from the base address that the runtime chooses.
    fn gather(&mut self, insn: &Instruction, site: u32) {
        let index = insn.memory_index();
        let second = slot!(areas.events.payload) + 64;
        self.dump_register(index.number() as u8, index.size() as u8, second);
        if insn.has_op_mask() {
            let mask = (insn.op_mask() as u32 - Register::K0 as u32) as u8;
            self.capture_mask(Capture::MaskRegister {
                register: mask,
                wide: false,
            });
        } else {
            let mask = insn.op2_register();
            self.dump_register(
                mask.number() as u8,
                mask.size() as u8,
                slot!(areas.events.payload),
            );
        }
        self.emulate(site);
        let scratch = self.analyst.scratch(insn);
        self.out.gs_store(slot!(cpu.spill_scratch), scratch);
        self.out.gs_load(scratch, slot!(areas.events.memory));
        let mut changed = *insn;
        changed.set_memory_base(register(scratch));
        changed.set_memory_displacement64(0);
        changed.set_memory_displ_size(0);
        changed.set_segment_prefix(Register::None);
        let bytes = self.analyst.encode(&changed, self.out.here());
        self.draft
            .special(self.out.here(), insn.ip(), Repair::Scratch(scratch));
        self.out.put(&bytes);
        self.out.gs_load(scratch, slot!(cpu.spill_scratch));
    }

    /// Stores a vector register of 16, 32 or 64 bytes.
    fn dump_register(&mut self, register: u8, size: u8, offset: i32) {
        if size == 64 || register >= 16 {
            return self.dump_vector(register, offset);
        }
        let high = register >> 3;
        self.out.put(&[0x65]);
        if size == 16 {
            // movups: SSE code may have no VEX
            if high != 0 {
                self.out.put(&[0x44]);
            }
            self.out.put(&[0x0f, 0x11]);
        } else {
            // vmovdqu, 256 bits
            self.out.put(&[0xc5, 0x7e | (high ^ 1) << 7, 0x7f]);
        }
        self.out.put(&[0x04 | (register & 7) << 3, 0x25]);
        self.out.put_u32(offset as u32);
    }

    /// `vmovdqu64 gs:[offset], zmm`
    fn dump_vector(&mut self, zmm: u8, offset: i32) {
        let (high, low) = (zmm >> 4 & 1, zmm >> 3 & 1);
        // EVEX with R and R' inverted, no base, no index: mod 00, SIB with disp32.
        self.out.put(&[
            0x65,
            0x62,
            0x61 | (low ^ 1) << 7 | (high ^ 1) << 4,
            0xfe,
            0x48,
            0x7f,
            0x04 | (zmm & 7) << 3,
            0x25,
        ]);
        self.out.put_u32(offset as u32);
    }

    /// A fence or flush is recorded, then executed; a flush at the alias.
    fn order(&mut self, insn: &Instruction, code: &[u8], site: u32) {
        if !has_memory(insn) {
            self.visit(site, slot!(areas.pm.to_order));
            return self.out.put(code);
        }
        let scratch = self.analyst.scratch(insn);
        self.out.gs_store(slot!(cpu.spill_rcx), RCX);
        self.effective_address(insn, RCX);
        self.out.gs_store(slot!(areas.events.address), RCX);
        self.out.gs_load(RCX, slot!(cpu.spill_rcx));
        self.visit(site, slot!(areas.pm.to_order));
        self.out.gs_store(slot!(cpu.spill_scratch), scratch);
        self.out.gs_load(scratch, slot!(areas.events.memory));
        self.finish_through(insn, scratch);
    }

    /// A locked instruction on other memory: it matters only if the thread has something to order.
    fn locked(&mut self, insn: &Instruction, code: &[u8], site: u32) {
        self.if_slot(slot!(areas.events.unordered), |out| {
            out.visit(site, slot!(areas.pm.to_order));
        });
        self.copy(insn, code);
    }
}
