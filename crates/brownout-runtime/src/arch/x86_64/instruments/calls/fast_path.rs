//! Ordinary calls of watched functions and their returns, in assembly.
//!
//! A call is ordinary if the innermost open call is alive and further out on the stack, and returns to its return
//! address are observed. A return is ordinary if it is that of the innermost open call alone. The record is then
//! written by [`fast_path`]. Any other call goes through the gate with nothing changed: `calls::visit` handles all
//! cases.

use crate::arch::instruments::events::{fast_path, restore, site_in_rdx, spill};
use crate::instruments::calls::open_calls::{Open, OpenCalls, REMEMBERED};
use crate::instruments::calls::{CallsArea, VISIT};
use crate::instruments::events::sites::SITE_SHIFT;
use crate::instruments::events::{RecordPlan, Site};
use crate::translator::context::Context;
use brownout_ring::watch::Order;
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's open calls in its context.
const fn calls(field: usize) -> usize {
    offset_of!(Context, areas.calls.open) + field
}

global_asm!(
    ".text",
    // --- a watched function is entered, its number in `address` --------------------------------------------
    ".globl calls_call",
    "calls_call:",
    "mov gs:[{spill_rcx}], rcx",
    "mov gs:[{spill_rax}], rax",
    spill!("{visit}"),
    site_in_rdx!(),
    "cmp qword ptr gs:[{repeated}], 0",
    "jne event_by_rust",
    // returns to the return address are observed
    ".globl calls_back",
    "calls_back:",
    "mov r8, [rsp]",
    "mov rax, r8",
    "shr rax, 1",
    "and eax, {remembered} - 1",
    "cmp r8, gs:[{returns} + rax * 8]",
    "jne event_by_rust",
    "test byte ptr [rdx + {order}], {queries}",
    "jne 5f",
    "4:",
    // the innermost open call is alive and further out; there is room for another behind it
    "mov rcx, gs:[{open_calls}]",
    "cmp rcx, gs:[{open_room}]",
    "jae event_by_rust",
    "lea rax, [rcx + rcx * 2]",
    "shl rax, 3",
    "add rax, gs:[{open_first}]",
    "jrcxz 3f",
    "mov rdi, [rax - {open_bytes} + {open_slot}]",
    "cmp rdi, rsp",
    "jbe event_by_rust",
    "mov rsi, [rax - {open_bytes} + {open_back}]",
    ".globl calls_alive",
    "calls_alive:",
    "cmp rsi, [rdi]",
    "jne event_by_rust",
    "3:",
    "mov [rax + {open_slot}], rsp",
    "mov [rax + {open_back}], r8",
    "mov ecx, gs:[{ea}]",
    "mov [rax + {open_function}], ecx",
    // only the order of returns from plain locks is of no interest to other threads
    "movzx ecx, byte ptr [rdx + {order}]",
    "and ecx, {order_mask}",
    "dec ecx",
    "cmp ecx, {plain_locks}",
    "sbb ecx, ecx",
    "mov [rax + {open_return_borrows}], ecx",
    // the arguments, where the payload is looked for
    "mov rcx, gs:[{spill_rcx}]",
    "mov rax, gs:[{gpr}+16]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rdi, gs:[{gpr}+56]",
    "mov r8, gs:[{gpr}+64]",
    "mov gs:[{vectors_at}], rdi",
    "mov gs:[{vectors_at}+8], rsi",
    "mov gs:[{vectors_at}+16], rax",
    "mov gs:[{vectors_at}+24], rcx",
    "mov gs:[{vectors_at}+32], r8",
    "mov gs:[{vectors_at}+40], r9",
    "jmp event_record",
    // --- the function changes nothing: an equal call is not recorded ---------------------------------------
    "5:",
    "mov rax, [rdx + {site_pc}]",
    "cmp rax, gs:[{query_pc}]",
    "jne 6f",
    "cmp rsp, gs:[{query_slot}]",
    "jne 6f",
    "cmp r8, gs:[{query_back}]",
    "jne 6f",
    "cmp rdi, gs:[{query_arguments}]",
    "jne 6f",
    "cmp rsi, gs:[{query_arguments}+8]",
    "jne 6f",
    "mov gs:[{query_repeated}], rsp",
    "jmp 7f",
    "6:",
    "mov gs:[{query_pc}], rax",
    "mov gs:[{query_slot}], rsp",
    "mov gs:[{query_back}], r8",
    "mov gs:[{query_arguments}], rdi",
    "mov gs:[{query_arguments}+8], rsi",
    "jmp 4b",
    // --- a watched function may have returned here, if one is open --------------------------------------
    "8:",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{resume}]",
    ".globl calls_return",
    "calls_return:",
    "mov gs:[{spill_rcx}], rcx",
    "mov rcx, gs:[{open_calls}]",
    "jrcxz 8b",
    "mov gs:[{spill_rax}], rax",
    spill!("{visit}"),
    site_in_rdx!(),
    "mov r8, [rdx + {site_pc}]",
    "cmp r8, gs:[{pc}]",
    "jne 7f",
    "lea rax, [rcx + rcx * 2]",
    "shl rax, 3",
    "add rax, gs:[{open_first}]",
    "cmp r8, [rax - {open_bytes} + {open_back}]",
    "jne 6f",
    "mov rdi, [rax - {open_bytes} + {open_slot}]",
    "lea rsi, [rdi + 8]",
    "cmp rsi, rsp",
    "jne event_by_rust",
    // and only one of them
    "dec rcx",
    "jrcxz 3f",
    "cmp rdi, [rax - 2 * {open_bytes} + {open_slot}]",
    "je event_by_rust",
    "3:",
    "mov ecx, [rax - {open_bytes} + {open_function}]",
    "mov gs:[{ea}], rcx",
    "mov ecx, [rax - {open_bytes} + {open_return_borrows}]",
    "mov gs:[{extra}], rcx",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{gpr}+16]",
    "mov gs:[{vectors_at}], rax",
    "mov gs:[{vectors_at}+8], rcx",
    "jmp event_record",
    // a call that was not recorded
    "6:",
    "cmp r8, gs:[{query_back}]",
    "jne event_by_rust",
    "lea rsi, [rsp - 8]",
    "cmp rsi, gs:[{query_repeated}]",
    "jne event_by_rust",
    "mov qword ptr gs:[{query_repeated}], 0",
    "7:",
    restore!(),
    "jmp qword ptr gs:[{resume}]",
    argument = const offset_of!(Context, argument),
    ea = const offset_of!(Context, areas.events.address),
    exit = const offset_of!(Context, exit),
    gpr = const offset_of!(Context, cpu.gpr),
    open_back = const offset_of!(Open, back),
    open_bytes = const size_of::<Open>(),
    open_calls = const calls(offset_of!(OpenCalls, len)),
    open_first = const calls(offset_of!(OpenCalls, first)),
    open_function = const offset_of!(Open, function),
    open_return_borrows = const offset_of!(Open, return_borrows),
    order = const RecordPlan::ORDER,
    queries = const RecordPlan::QUERIES,
    query_pc = const offset_of!(Context, areas.calls.query.pc),
    query_slot = const offset_of!(Context, areas.calls.query.slot),
    query_back = const offset_of!(Context, areas.calls.query.back),
    query_arguments = const offset_of!(Context, areas.calls.query.arguments),
    query_repeated = const offset_of!(Context, areas.calls.query.repeated),
    order_mask = const RecordPlan::ORDER_MASK,
    plain_locks = const Order::Releases as u32,
    extra = const offset_of!(Context, areas.events.extra),
    open_room = const calls(offset_of!(OpenCalls, room)),
    open_slot = const offset_of!(Open, slot),
    pc = const offset_of!(Context, pc),
    remembered = const REMEMBERED,
    repeated = const calls(offset_of!(OpenCalls, repeated_pc)),
    resume = const offset_of!(Context, resume),
    site_pc = const offset_of!(Site<()>, pc),
    site_shift = const SITE_SHIFT,
    sites = const offset_of!(Context, areas.calls.sites),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    vectors_at = const offset_of!(Context, areas.events.payload),
    visit = const VISIT,
    returns = const calls(offset_of!(OpenCalls, returns)),
);

const _: () = assert!(size_of::<Open>() == 3 * 8);
// Those from 1 to `plain_locks` are plain locks.
const _: () = assert!(Order::Acquires as u32 == 1 && Order::Releases as u32 == 2);

unsafe extern "C" {
    fn calls_call();
    fn calls_return();
    fn calls_back();
    fn calls_alive();
}

/// Fills the entry points for generated code.
pub fn connect(area: &mut CallsArea) {
    area.to_call = calls_call as *const () as u64;
    area.to_return = calls_return as *const () as u64;
}

/// Where a thread continues after its read of the target's stack at `pc` has faulted.
pub fn recovery_point(pc: u64) -> Option<u64> {
    [calls_back, calls_alive]
        .into_iter()
        .any(|read: unsafe extern "C" fn()| read as *const () as u64 == pc)
        .then(fast_path::by_rust)
}
