//! Which instructions may access persistent memory, and the code before them that compares the address.

use super::{RAX, RCX, visit};
use crate::arch::translator::cpu::reg;
use crate::arch::translator::translate::{Emission, has_memory, memory_size, number};
use crate::instruments::fuzz::SiteKind;
use crate::slot;
use crate::translator::context::Context;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

const RSI: u8 = 6;
const RDI: u8 = 7;

/// What an instruction may do to persistent memory.
pub fn accesses(insn: &Instruction, out: &mut Emission<'_>) -> [Option<SiteKind>; 2] {
    if insn.is_string_instruction() {
        return match insn.mnemonic() {
            Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsq => {
                [Some(SiteKind::Load), Some(SiteKind::Store)]
            }
            // The name is that of an SSE instruction, too.
            Mnemonic::Movsd => [Some(SiteKind::Load), Some(SiteKind::Store)],
            Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => {
                [Some(SiteKind::Store), None]
            }
            _ => [Some(SiteKind::Load), None],
        };
    }
    let kind = match insn.mnemonic() {
        Mnemonic::Sfence | Mnemonic::Mfence => Some(SiteKind::Fence),
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq | Mnemonic::Movdir64b => {
            Some(SiteKind::Store)
        }
        _ if !has_memory(insn) || !may_be_persistent(insn) => None,
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => Some(SiteKind::Flush),
        Mnemonic::Lea | Mnemonic::Nop => None,
        // What they write is on the stack.
        Mnemonic::Push => Some(SiteKind::Load),
        _ if insn.flow_control() != FlowControl::Next => Some(SiteKind::Load),
        _ => {
            let access = out.analyst.access(insn);
            match (access.reads, access.writes) {
                (_, true) => Some(SiteKind::Store),
                (true, false) => Some(SiteKind::Load),
                (false, false) => None,
            }
        }
    };
    [kind, None]
}

/// Whether the operand of an instruction may be in persistent memory: it is not on the stack, in a module or in storage of a thread.
fn may_be_persistent(insn: &Instruction) -> bool {
    let is_absolute = insn.memory_base() == Register::None && insn.memory_index() == Register::None;
    !is_absolute
        && !insn.is_ip_rel_memory_operand()
        && !insn.is_vsib()
        && insn.memory_base() != Register::RSP
        && !matches!(insn.memory_segment(), Register::FS | Register::GS)
}

/// The register that alone holds the address of an access.
fn address_register(insn: &Instruction, kind: SiteKind) -> Option<u8> {
    match insn.mnemonic() {
        Mnemonic::Movdir64b => Some(number(insn.op0_register())),
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq => Some(RDI),
        _ if !insn.is_string_instruction() => None,
        _ if kind == SiteKind::Store => Some(RDI),
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => Some(RDI),
        _ => Some(RSI),
    }
}

/// Emits a visit before an instruction that accesses an address in the hull of persistent memory. Registers and flags are kept.
pub fn check_access(insn: &Instruction, kind: SiteKind, site: u32, out: &mut Emission<'_>) {
    if kind == SiteKind::Fence {
        return visit(site, out);
    }
    out.out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.out.gs_store(slot!(cpu.spill_rax), RAX);
    match address_register(insn, kind) {
        // mov rcx, register
        Some(reg) => (out.out).put(&[0x48 | (reg >> 3) << 2, 0x89, 0xc1 | (reg & 7) << 3]),
        None => out.effective_address(insn, RCX),
    }
    out.out.save_flags();
    out.out.gs_store(slot!(areas.fuzz.address), RCX);
    // sub rcx, gs:[hull_start]; cmp rcx, gs:[hull_len]
    out.out.put(&[0x65, 0x48, 0x2b, 0x0c, 0x25]);
    out.out.put_u32(slot!(areas.fuzz.hull_start) as u32);
    out.out.put(&[0x65, 0x48, 0x3b, 0x0c, 0x25]);
    out.out.put_u32(slot!(areas.fuzz.hull_len) as u32);
    // jae
    out.out.put(&[0x73, 0]);
    let outside = out.out.here() - 1;
    restore(out);
    visit(site, out);
    // jmp
    out.out.put(&[0xeb, 0]);
    let behind = out.out.here() - 1;
    out.out.land_short(outside);
    restore(out);
    out.out.land_short(behind);
}

fn restore(out: &mut Emission<'_>) {
    out.out.restore_flags();
    out.out.gs_load(RAX, slot!(cpu.spill_rax));
    out.out.gs_load(RCX, slot!(cpu.spill_rcx));
}

/// The address and the length of the access that is about to be made.
pub fn extent(context: &Context, kind: SiteKind, insn: &Instruction) -> (u64, u64) {
    let address = context.areas.fuzz.address;
    match insn.mnemonic() {
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => (address, 16),
        Mnemonic::Movdir64b => (address, 64),
        // They save the state of the processor, whose size depends on it.
        Mnemonic::Xsave | Mnemonic::Xsave64 | Mnemonic::Xsavec | Mnemonic::Xsavec64 => {
            (address, 16 << 10)
        }
        _ if insn.is_string_instruction() => {
            let size = string_element(insn, kind);
            let is_repeated = insn.has_rep_prefix() || insn.has_repne_prefix();
            let count = if is_repeated {
                context.cpu.gpr[reg::RCX]
            } else {
                1
            };
            let len = count.saturating_mul(size);
            const DIRECTION: u64 = 0x400;
            if context.cpu.flags & DIRECTION != 0 && len > 0 {
                return (address.wrapping_sub(len - size), len);
            }
            (address, len)
        }
        _ => (address, memory_size(insn).max(1) as u64),
    }
}

fn string_element(insn: &Instruction, kind: SiteKind) -> u64 {
    debug_assert!(insn.op_kinds().all(|kind| kind != OpKind::Memory));
    debug_assert!(matches!(kind, SiteKind::Load | SiteKind::Store));
    memory_size(insn).max(1) as u64
}
