//! The code that counts edges and recognises operations on persistent memory.

mod accesses;
mod comparisons;

pub use accesses::{accesses, check_access, extent};
pub use comparisons::{Operands, may_compare, operands};

use crate::arch::translator::translate;
use crate::arch::translator::translate::Emission;
use crate::instruments::fuzz::{FuzzArea, VISIT};
use crate::slot;
use crate::translator::context::Context;
use core::arch::global_asm;
use core::mem::offset_of;
use iced_x86::{FlowControl, Instruction};

const RAX: u8 = 0;
const RCX: u8 = 1;

global_asm!(
    ".text",
    ".globl fuzz_visit",
    "fuzz_visit:",
    "mov dword ptr gs:[{exit}], {visit}",
    "jmp gate_exit",
    exit = const offset_of!(Context, exit),
    visit = const VISIT,
);

unsafe extern "C" {
    fn fuzz_visit();
}

/// Fills the entry point for generated code.
pub fn connect(area: &mut FuzzArea) {
    area.to_visit = fuzz_visit as *const () as u64;
}

/// Emits a visit to Rust code with the number of a site.
pub fn visit(site: u32, out: &mut Emission<'_>) {
    out.visit(site, slot!(areas.fuzz.to_visit));
}

/// Whether an instruction begins an edge: it is a call, a return, or a branch that can go to more than one place.
pub fn is_branch(insn: &Instruction) -> bool {
    matches!(
        insn.flow_control(),
        FlowControl::ConditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Return
    )
}

pub fn is_call(insn: &Instruction) -> bool {
    translate::is_call(insn)
}

/// Emits the note that a branch is about to be executed.
pub fn note_branch(identity: u32, out: &mut Emission<'_>) {
    out.out.gs_store_imm32(slot!(areas.fuzz.branch), identity);
}

/// Emits the note that a call outside of libraries is about to be executed.
pub fn note_caller(site: u32, out: &mut Emission<'_>) {
    out.set_slot(slot!(areas.fuzz.caller), u64::from(site) + 1);
    out.set_slot(slot!(areas.fuzz.is_entering), 1);
}

/// Emits the count of the edge from the last branch to the code here, unless it is counted. Registers and flags are kept.
pub fn count_edge(identity: u32, out: &mut Emission<'_>) {
    let out = &mut out.out;
    out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.gs_load(RCX, slot!(areas.fuzz.branch));
    // jrcxz
    out.put(&[0xe3, 0]);
    let counted = out.here() - 1;
    out.gs_store(slot!(cpu.spill_rax), RAX);
    // lea ecx, [rcx + identity]
    out.put(&[0x8d, 0x89]);
    out.put_u32(identity);
    // movzx ecx, cx
    out.put(&[0x0f, 0xb7, 0xc9]);
    out.gs_load(RAX, slot!(areas.fuzz.edges));
    // lea rcx, [rax + rcx]; movzx eax, byte ptr [rcx]
    out.put(&[0x48, 0x8d, 0x0c, 0x08, 0x0f, 0xb6, 0x01]);
    // movzx eax, byte ptr gs:[rax + next_count]
    out.put(&[0x65, 0x0f, 0xb6, 0x80]);
    out.put_u32(slot!(areas.fuzz.next_count) as u32);
    // mov [rcx], al
    out.put(&[0x88, 0x01]);
    out.gs_store_imm(slot!(areas.fuzz.branch), 0);
    out.gs_load(RAX, slot!(cpu.spill_rax));
    out.land_short(counted);
    out.gs_load(RCX, slot!(cpu.spill_rcx));
}

/// Emits a visit if a library for persistent memory is entered here.
pub fn enter_library(site: u32, out: &mut Emission<'_>) {
    out.out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.out.gs_load(RCX, slot!(areas.fuzz.is_entering));
    // jrcxz
    out.out.put(&[0xe3, 0]);
    let inside = out.out.here() - 1;
    out.out.gs_load(RCX, slot!(cpu.spill_rcx));
    visit(site, out);
    out.out.land_short(inside);
    out.out.gs_load(RCX, slot!(cpu.spill_rcx));
}
