//! The ends of accesses, flushes and fences, recorded in assembly.
//!
//! Generated code jumps here with the target's registers in place and continues at `Context::resume`. An ordinary
//! event is recorded by [`crate::arch::instruments::events::fast_path`]. An access that crosses pages or that
//! was made on a copy, and a flush outside of the mapping used last, go through the gate with nothing changed:
//! [`crate::instruments::pm::access_done`] and [`crate::instruments::pm::order`] handle all cases.

use crate::arch::instruments::events::{site_in_rdx, spill};
use crate::instruments::events::RecordPlan;
use crate::instruments::events::record_plan::Source;
use crate::instruments::events::sites::SITE_SHIFT;
use crate::instruments::pm::exits;
use crate::translator::context::Context;
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    ".text",
    // --- a flush or fence is about to happen -----------------------------------------------------------
    ".globl pm_order",
    "pm_order:",
    "mov gs:[{spill_rcx}], rcx",
    "mov gs:[{spill_rax}], rax",
    spill!("{order}"),
    site_in_rdx!(),
    "cmp byte ptr [rdx + {source}], {no_address}",
    "je event_record",
    // a flush: in the mapping used last, or it has to be looked up
    "mov rax, gs:[{address}]",
    "mov rcx, rax",
    "sub rcx, gs:[{near_start}]",
    "cmp rcx, gs:[{near_len}]",
    "jae event_by_rust",
    "add rax, gs:[{flush_delta}]",
    "mov gs:[{memory}], rax",
    "jmp event_record",
    // --- an access has been made; it need not have been to a candidate ---------------------------------
    "8:",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{resume}]",
    ".globl pm_end",
    "pm_end:",
    "mov gs:[{spill_rcx}], rcx",
    "mov rcx, gs:[{lock}]",
    "jrcxz 8b",
    "mov gs:[{spill_rax}], rax",
    spill!("{done}"),
    "mov rax, gs:[{second_stripe}]",
    "or rax, gs:[{split}]",
    "jne event_by_rust",
    site_in_rdx!(),
    "jmp event_record",
    // --- an instruction that the runtime carries out ---------------------------------------------------
    ".globl pm_emulate",
    "pm_emulate:",
    "mov dword ptr gs:[{exit}], {emulate}",
    "jmp gate_exit",
    gpr = const offset_of!(Context, cpu.gpr),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    exit = const offset_of!(Context, exit),
    argument = const offset_of!(Context, argument),
    resume = const offset_of!(Context, resume),
    sites = const offset_of!(Context, areas.pm.sites),
    address = const offset_of!(Context, areas.events.address),
    memory = const offset_of!(Context, areas.events.memory),
    lock = const offset_of!(Context, areas.events.lock),
    near_start = const offset_of!(Context, areas.pm.near_start),
    near_len = const offset_of!(Context, areas.pm.near_len),
    flush_delta = const offset_of!(Context, areas.pm.flush_delta),
    second_stripe = const offset_of!(Context, areas.pm.second_stripe),
    split = const offset_of!(Context, areas.pm.split),
    order = const exits::ORDER,
    done = const exits::DONE,
    emulate = const exits::EMULATE,
    site_shift = const SITE_SHIFT,
    source = const RecordPlan::SOURCE,
    no_address = const Source::Nothing as u32,
);

unsafe extern "C" {
    fn pm_order();
    fn pm_end();
    fn pm_emulate();
}

/// Fills the entry points for generated code.
pub fn connect(context: &mut Context) {
    let area = &mut context.areas.pm;
    area.to_order = pm_order as *const () as u64;
    area.to_end = pm_end as *const () as u64;
    area.to_emulate = pm_emulate as *const () as u64;
}
