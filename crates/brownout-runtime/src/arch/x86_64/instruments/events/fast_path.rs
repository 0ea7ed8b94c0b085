//! The record of an ordinary event, written in assembly.
//!
//! Entering Rust costs more than everything that an event from a known stack needs: find the calling context
//! among the stacks that the thread has seen, draw a sequence number, write the record. This is done here. Any
//! other event (a new stack, a full ring) is left to Rust: the thread leaves through the gate with the exit
//! that the instrument chose, and nothing has changed.
//!
//! # Invariants
//!
//! 1. An instrument's assembly jumps to `event_record` with the site in rdx, everything else freed by
//!    `spill`, the exit for Rust in `Context::exit`, and the event in [`EventArea`].
//! 2. Nothing is written before the space in the ring is known to be there ([`Producer::limit`]); from then on nothing can fail but
//!    a load of the payload that is misaligned ([`misaligned_load`]).
//!    A thread that has used locked instructions since its last event, or holds a lock, is settled first (`locks_check`).
//! 3. The stack of the target is read only by the instructions that [`recovery_point`] knows.
//! 4. The thread continues at `Context::resume` with the target's registers and flags in place.

mod registers;

pub(crate) use registers::{restore, site_in_rdx, spill};

use crate::instruments::MisalignedLoad;
use crate::instruments::events::record_plan::{Effect, RecordPlan, Source};
use crate::instruments::events::{EventArea, Site};
use crate::instruments::pm::repeated_loads;
use crate::instruments::unwind::memo_layout as memo;
use crate::translator::context::Context;
use crate::wire::{self, Producer};
use brownout_ring::watch::Order;
use brownout_ring::{BORROWED, Control, RING_BYTES, Record, Slot, recording};
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's ring in its context.
const fn ring(field: usize) -> usize {
    offset_of!(Context, wire) + field
}

/// Offset of a part of the thread's area for events in its context.
const fn area(field: usize) -> usize {
    offset_of!(Context, areas.events) + field
}

global_asm!(
    ".text",
    // --- jumps to `fault` unless the stack is that of the memo in rax; r8 = pc, ecx = epoch ----------
    ".macro event_compare word fault",
    "cmp r8, [rax + {memo_rip}]",
    "jne \\fault",
    "cmp rsp, [rax + {memo_rsp}]",
    "jne \\fault",
    "cmp ecx, [rax + {memo_epoch}]",
    "jne \\fault",
    "mov rdi, rbp",
    "and rdi, [rax + {memo_rbp_mask}]",
    "cmp rdi, [rax + {memo_rbp}]",
    "jne \\fault",
    "mov rdi, [rax + {memo_start}]",
    "5:",
    "mov rsi, [rdi]",
    "lea rdi, [rdi + 16]",
    ".globl \\word",
    "\\word:",
    "mov rsi, [rsp + rsi]",
    "cmp rsi, [rdi - 8]",
    "je 5b",
    // Only the last word, which never holds, may differ.
    "cmp rdi, [rax + {memo_end}]",
    "jne \\fault",
    ".endm",
    // --- the calling context: rdx = site; leaves it in r9d -------------------------------------------
    ".globl event_record",
    "event_record:",
    "cmp qword ptr gs:[{locks}], 0",
    "jne locks_check",
    ".globl event_record_settled",
    "event_record_settled:",
    "mov rax, gs:[{last_memo}]",
    "test rax, rax",
    "je 9f",
    "mov r8, [rdx + {site_pc}]",
    "mov ecx, [rip + {epoch}]",
    // first the stack that followed this one the last time
    "mov rax, [rax + {memo_next}]",
    "event_compare event_word event_word_fault",
    "7:",
    "mov gs:[{last_memo}], rax",
    "mov r9d, [rax + {memo_context}]",
    "jmp 7f",
    // otherwise any stack from the same site and depth
    ".globl event_word_fault",
    "event_word_fault:",
    "mov rax, gs:[{memos}]",
    "mov rcx, rsp",
    "rol rcx, 17",
    "xor rcx, r8",
    "movabs r9, {mix}",
    "imul rcx, r9",
    "shr rcx, 40",
    "and ecx, {sets} - 1",
    "imul ecx, ecx, {set_bytes}",
    "add rax, rcx",
    "mov ecx, [rip + {epoch}]",
    "lea r9, [rax + {memos_bytes}]",
    "3:",
    "event_compare event_other_word event_other_word_fault",
    "mov rcx, gs:[{last_memo}]",
    "mov [rcx + {memo_next}], rax",
    "jmp 7b",
    ".globl event_other_word_fault",
    "event_other_word_fault:",
    "add rax, {memo_bytes}",
    "cmp rax, r9",
    "jne 3b",
    "jmp 9f",
    // --- where the payload is: into rsi; the address of the event into rdi -----------------------------
    "7:",
    "mov rdi, gs:[{address}]",
    "mov rsi, gs:[{memory}]",
    "movzx eax, byte ptr [rdx + {source}]",
    "cmp eax, {address_only}",
    "jbe 5f",
    "cmp eax, {no_address}",
    "jb 3f",
    "je 4f",
    "cmp eax, {from_memory_if_zero}",
    "jne 9f",
    "cmp byte ptr gs:[{extra}], 0",
    "je 9f",
    "jmp 5f",
    "3:",
    "mov rsi, gs:[{this}]",
    "add rsi, {payload}",
    "jmp 5f",
    "4:",
    "xor edi, edi",
    // --- room in the ring: the record's length into eax, its address into rcx; the size of the payload into r8 ---
    "5:",
    "mov rax, [rip + {control}]",
    "cmp dword ptr [rax + {recording}], {on}",
    "jne 9f",
    "mov r8d, [rdx + {site_size}]",
    "lea eax, [r8 + {head_bytes} + 7]",
    "and eax, -8",
    "mov rcx, gs:[{head}]",
    "add rcx, rax",
    "cmp rcx, gs:[{limit}]",
    "ja 9f",
    "mov gs:[{head}], rcx",
    "sub rcx, rax",
    "and ecx, {ring_bytes} - 1",
    "add rcx, gs:[{ring}]",
    // --- the head of the record; nothing can fail from here on -----------------------------------------
    "mov [rcx + {record_len}], eax",
    "mov eax, [rdx + {tag}]",
    "mov [rcx + {record_kind}], eax",
    "mov rax, [rdx + {site_pc}]",
    "mov [rcx + {record_pc}], rax",
    "mov [rcx + {record_context}], r9d",
    "mov [rcx + {record_size}], r8d",
    "mov [rcx + {record_addr}], rdi",
    "mov rdi, [rip + {control}]",
    "test byte ptr [rdx + {order}], {borrows} + {may_borrow}",
    "jne 8f",
    "2:",
    "cmp byte ptr [rip + {alone}], 0",
    "je 3f",
    "mov rax, [rdi + {next_seq}]",
    "lea r9, [rax + 1]",
    "mov [rdi + {next_seq}], r9",
    "jmp 4f",
    "3:",
    "mov eax, 1",
    "lock xadd [rdi + {next_seq}], rax",
    "4:",
    "event_numbered:",
    "mov [rcx + {record_seq}], rax",
    // --- the payload, in words as it was stored: wider loads would wait for the stores to drain --------
    "add rcx, {head_bytes}",
    "sub r8, 8",
    "jb 6f",
    "5:",
    ".globl event_payload8",
    "event_payload8:",
    "mov rax, [rsi]",
    ".globl event_payload8_end",
    "event_payload8_end:",
    "mov [rcx], rax",
    "add rsi, 8",
    "add rcx, 8",
    "sub r8, 8",
    "jae 5b",
    "6:",
    "test r8b, 7",
    "je 5f",
    "test r8b, 4",
    "je 3f",
    ".globl event_payload4",
    "event_payload4:",
    "mov eax, [rsi]",
    ".globl event_payload4_end",
    "event_payload4_end:",
    "mov [rcx], eax",
    "add rsi, 4",
    "add rcx, 4",
    "3:",
    "test r8b, 2",
    "je 4f",
    ".globl event_payload2",
    "event_payload2:",
    "movzx eax, word ptr [rsi]",
    ".globl event_payload2_end",
    "event_payload2_end:",
    "mov [rcx], ax",
    "add rsi, 2",
    "add rcx, 2",
    "4:",
    "test r8b, 1",
    "je 5f",
    "movzx eax, byte ptr [rsi]",
    "mov [rcx], al",
    // --- publish, release the lock -------------------------------------------------------------------
    "5:",
    "mov rax, gs:[{slot}]",
    "mov rcx, gs:[{head}]",
    "mov [rax + {slot_head}], rcx",
    "movzx eax, byte ptr [rdx + {effect}]",
    "cmp eax, {nothing}",
    "jae 6f",
    "mov gs:[{unordered}], rax",
    "3:",
    "mov rcx, gs:[{lock}]",
    "jrcxz 4f",
    "mov dword ptr [rcx], 0",
    "mov qword ptr gs:[{lock}], 0",
    "4:",
    restore!(),
    "jmp qword ptr gs:[{resume}]",
    "6:",
    "je 3b",
    "mov rcx, gs:[{counter}]",
    "cmp eax, {increments}",
    "jne 5f",
    "inc qword ptr [rcx]",
    // what the function means for the order of threads
    "movzx eax, byte ptr [rdx + {order}]",
    "and eax, {order_mask}",
    "je 4b",
    "movabs rcx, {renewal}",
    "cmp eax, {unknown}",
    "je 7f",
    "movabs rcx, {mix}",
    "imul rcx, gs:[{gpr}+56]",
    "mov r8, rcx",
    "shr r8, 32",
    "xor rcx, r8",
    "cmp eax, {releases}",
    "jne 7f",
    "neg rcx",
    "7:",
    "add gs:[{lockset}], rcx",
    "jmp 4b",
    "5:",
    "dec qword ptr [rcx]",
    "jmp 4b",
    // --- to Rust ----------------------------------------------------------------------------------
    ".globl event_by_rust",
    "event_by_rust:",
    "9:",
    restore!(),
    "jmp gate_exit",
    // --- a record that no other thread waits for: the number that will be drawn next --------------------
    "8:",
    "js 7f",
    "cmp byte ptr gs:[{extra}], 0",
    "je 2b",
    "7:",
    "mov rax, [rdi + {next_seq}]",
    "bts rax, {borrowed}",
    "jmp event_numbered",
    gpr = const offset_of!(Context, cpu.gpr),
    locks = const offset_of!(Context, areas.locks.busy),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    resume = const offset_of!(Context, resume),
    this = const offset_of!(Context, this),
    memos = const area(offset_of!(EventArea, memos)),
    last_memo = const area(offset_of!(EventArea, last_memo)),
    address = const area(offset_of!(EventArea, address)),
    memory = const area(offset_of!(EventArea, memory)),
    extra = const area(offset_of!(EventArea, extra)),
    payload = const area(offset_of!(EventArea, payload)),
    unordered = const area(offset_of!(EventArea, unordered)),
    lock = const area(offset_of!(EventArea, lock)),
    counter = const area(offset_of!(EventArea, counter)),
    site_pc = const offset_of!(Site<()>, pc),
    site_size = const offset_of!(Site<()>, size),
    tag = const RecordPlan::TAG,
    source = const RecordPlan::SOURCE,
    effect = const RecordPlan::EFFECT,
    order = const RecordPlan::ORDER,
    borrows = const RecordPlan::BORROWS,
    may_borrow = const RecordPlan::MAY_BORROW,
    borrowed = const BORROWED.trailing_zeros(),
    order_mask = const RecordPlan::ORDER_MASK,
    unknown = const Order::Unknown as u32,
    releases = const Order::Releases as u32,
    renewal = const repeated_loads::RENEWAL as i64,
    lockset = const offset_of!(Context, areas.pm.lockset),
    from_memory_if_zero = const Source::MemoryIfZero as u32,
    no_address = const Source::Nothing as u32,
    address_only = const Source::AddressOnly as u32,
    nothing = const Effect::Nothing as u32,
    increments = const Effect::Increments as u32,
    mix = const memo::MIX as i64,
    sets = const memo::SETS,
    set_bytes = const memo::SET_BYTES,
    memos_bytes = const memo::MEMOS_BYTES,
    memo_bytes = const memo::MEMO_BYTES,
    memo_rip = const memo::PC,
    memo_rsp = const memo::STACK_POINTER,
    memo_rbp_mask = const memo::FRAME_POINTER_MASK,
    memo_rbp = const memo::FRAME_POINTER,
    memo_start = const memo::START,
    memo_end = const memo::END,
    memo_epoch = const memo::EPOCH,
    memo_next = const memo::NEXT,
    memo_context = const memo::CONTEXT,
    epoch = sym crate::translator::space::EPOCH,
    control = sym wire::CONTROL,
    alone = sym wire::ALONE,
    recording = const offset_of!(Control, recording),
    on = const recording::ON,
    next_seq = const offset_of!(Control, next_seq),
    slot = const ring(offset_of!(Producer, slot)),
    ring = const ring(offset_of!(Producer, ring)),
    head = const ring(offset_of!(Producer, head)),
    limit = const ring(offset_of!(Producer, limit)),
    slot_head = const offset_of!(Slot, head),
    ring_bytes = const RING_BYTES,
    head_bytes = const size_of::<Record>(),
    record_len = const offset_of!(Record, len),
    record_kind = const offset_of!(Record, kind),
    record_seq = const offset_of!(Record, seq),
    record_pc = const offset_of!(Record, pc),
    record_context = const offset_of!(Record, context),
    record_size = const offset_of!(Record, size),
    record_addr = const offset_of!(Record, addr),
);

const _: () = {
    // The order in which the assembly distinguishes sources.
    assert!(Source::Memory as u8 == 0 && Source::AddressOnly as u8 == 1);
    assert!(Source::Payload as u8 == 2 && Source::Nothing as u8 == 3);
    assert!(offset_of!(RecordPlan, flags) == offset_of!(RecordPlan, kind) + 2);
    assert!(offset_of!(Record, flags) == offset_of!(Record, kind) + 2);
};

unsafe extern "C" {
    fn event_word();
    fn event_word_fault();
    fn event_other_word();
    fn event_other_word_fault();
    fn event_payload8();
    fn event_payload8_end();
    fn event_payload4();
    fn event_payload4_end();
    fn event_payload2();
    fn event_payload2_end();
    fn event_by_rust();
}

fn address_of(symbol: unsafe extern "C" fn()) -> u64 {
    symbol as *const () as u64
}

/// Where instruments' assembly sends events that it does not record, after `spill`.
pub fn by_rust() -> u64 {
    address_of(event_by_rust)
}

/// Where a thread continues after its read of the target's stack at `pc` has faulted.
pub fn recovery_point(pc: u64) -> Option<u64> {
    if pc == address_of(event_word) {
        Some(address_of(event_word_fault))
    } else if pc == address_of(event_other_word) {
        Some(address_of(event_other_word_fault))
    } else {
        None
    }
}

/// The load of the payload at `pc`, from rsi to rax, if there is one. Not every instruction of the target is
/// subject to alignment checks, but these loads are.
pub fn misaligned_load(pc: u64) -> Option<MisalignedLoad> {
    let loads: [(usize, unsafe extern "C" fn(), unsafe extern "C" fn()); 3] = [
        (8, event_payload8, event_payload8_end),
        (4, event_payload4, event_payload4_end),
        (2, event_payload2, event_payload2_end),
    ];
    let is_it = |&(_, start, _): &(usize, unsafe extern "C" fn(), _)| address_of(start) == pc;
    let (size, _, end) = loads.into_iter().find(is_it)?;
    Some(MisalignedLoad {
        size,
        next: address_of(end),
    })
}
