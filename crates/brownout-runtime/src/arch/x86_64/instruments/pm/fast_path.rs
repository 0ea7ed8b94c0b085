//! The common events, recorded in assembly.
//!
//! Entering Rust costs more than all that has to be done for a store from a known place: find the
//! calling context among the stacks that the thread has met, draw a number, write the record. That is
//! done here, and so is what calls of watched functions need. Whatever is not plain (a place or a stack met for
//! the first time, an access that crosses pages, a call that was jumped out of, a full ring) goes the long way
//! through the gate, with nothing changed: [`crate::instruments::pm::access_done`], [`crate::instruments::pm::order`] and [`crate::instruments::calls::visit`] do
//! the same for all cases and say why.
//!
//! Calls of watched functions come here from [`crate::instruments::calls`], whose own assembly decides whether they are plain.
//!
//! Generated code comes here with the program's registers in place and goes on at `Context::resume`. Nothing
//! is kept on the program's stack.

mod record_plan;
mod registers;

pub(crate) use record_plan::RecordPlan;
pub(crate) use registers::{restore, site_in_rdx, spill};

use crate::instruments::calls::OpenCalls;
use crate::instruments::pm::site::{SITE_SHIFT, Site};
use crate::instruments::unwind::memo_layout as memo;
use crate::translator::context::{Context, Exit};
use crate::wire;
use crate::wire::Producer;
use brownout_ring::{Control, RING_BYTES, Record, Slot, recording};
use core::arch::global_asm;
use core::mem::offset_of;
use record_plan::{Effect, Source, site};

/// Offset of a part of the thread's ring in its context.
const fn ring(field: usize) -> usize {
    offset_of!(Context, wire) + field
}

global_asm!(
    ".text",
    // --- goes to `fault` unless the stack is that of the memo in rax; r8 = address, ecx = epoch ----------
    ".macro fast_path_compare word fault",
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
    "mov r11, [rdi]",
    "mov rsi, [rdi + 8]",
    "add rdi, 16",
    ".globl \\word",
    "\\word:",
    "cmp rsi, [rsp + r11]",
    "je 5b",
    // The last word is never as it says; if it is another, the stack is not the same.
    "cmp rdi, [rax + {memo_end}]",
    "jne \\fault",
    ".endm",
    // --- a flush or fence is about to happen --------------------------------------------------------
    ".globl fast_path_order",
    "fast_path_order:",
    "mov gs:[{spill_rcx}], rcx",
    "mov gs:[{spill_rax}], rax",
    spill!("{pm_order}"),
    site_in_rdx!(),
    "cmp byte ptr [rdx + {source}], {fence}",
    "je 2f",
    // a flush: at the mapping used last, or it has to be looked up
    "mov rax, gs:[{ea}]",
    "mov rcx, rax",
    "sub rcx, gs:[{near_start}]",
    "cmp rcx, gs:[{near_len}]",
    "jae 9f",
    "add rax, gs:[{flush_delta}]",
    "mov gs:[{alias}], rax",
    "jmp 2f",
    // --- an access has been made; it need not have been to a candidate --------------------------------
    "8:",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{resume}]",
    ".globl fast_path_end",
    "fast_path_end:",
    "mov gs:[{spill_rcx}], rcx",
    "mov rcx, gs:[{stripe}]",
    "jrcxz 8b",
    "mov gs:[{spill_rax}], rax",
    spill!("{pm_done}"),
    "mov rax, gs:[{stripe2}]",
    "or rax, gs:[{split}]",
    "jne 9f",
    site_in_rdx!(),
    // --- the calling context: rdx = site; leaves it in r9d -------------------------------------------
    ".globl fast_path_record",
    "fast_path_record:",
    "2:",
    "mov r10, gs:[{last_memo}]",
    "test r10, r10",
    "je 9f",
    "mov r8, [rdx + {site_pc}]",
    "mov ecx, [rip + {epoch}]",
    // the stack that came after the last one when that was met before
    "mov rax, [r10 + {memo_next}]",
    "fast_path_compare fast_path_word fast_path_word_fault",
    "7:",
    "mov gs:[{last_memo}], rax",
    "mov r9d, [rax + {memo_context}]",
    "jmp 7f",
    // otherwise any from the same place
    ".globl fast_path_word_fault",
    "fast_path_word_fault:",
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
    "fast_path_compare fast_path_other_word fast_path_other_word_fault",
    "mov r10, gs:[{last_memo}]",
    "mov [r10 + {memo_next}], rax",
    "jmp 7b",
    ".globl fast_path_other_word_fault",
    "fast_path_other_word_fault:",
    "add rax, {memo_bytes}",
    "cmp rax, r9",
    "jne 3b",
    "jmp 9f",
    // --- where the payload is: into rsi; the address of the event into rdi -----------------------------
    "7:",
    "mov rdi, gs:[{ea}]",
    "mov rsi, gs:[{alias}]",
    "movzx eax, byte ptr [rdx + {source}]",
    "cmp eax, {memory}",
    "je 5f",
    "cmp eax, {flush}",
    "je 5f",
    "cmp eax, {vectors}",
    "je 3f",
    "cmp eax, {fence}",
    "je 4f",
    "cmp eax, {memory_if_zero}",
    "jne 9f",
    "cmp byte ptr gs:[{extra}], 0",
    "je 9f",
    "jmp 5f",
    "3:",
    "mov rsi, gs:[{this}]",
    "add rsi, {vectors_at}",
    "jmp 5f",
    "4:",
    "xor edi, edi",
    // --- room in the ring: the new head into r10, the record's address into rcx ------------------------
    "5:",
    "mov rax, [rip + {control}]",
    "cmp dword ptr [rax + {recording}], {on}",
    "jne 9f",
    "cmp qword ptr gs:[{slot}], 0",
    "je 9f",
    "mov r8d, [rdx + {site_size}]",
    "lea r11, [r8 + {head_bytes} + 7]",
    "and r11, -8",
    "mov rcx, gs:[{head}]",
    "lea r10, [rcx + r11]",
    "mov rax, r10",
    "sub rax, gs:[{tail}]",
    "cmp rax, {ring_bytes}",
    "ja 9f",
    "mov rax, r10",
    "sub rax, gs:[{announced}]",
    "cmp rax, {doorbell}",
    "jae 9f",
    "and ecx, {ring_bytes} - 1",
    "add rcx, gs:[{ring}]",
    // --- the head of the record; nothing can fail from here on -----------------------------------------
    "mov [rcx + {record_len}], r11d",
    "mov eax, [rdx + {tag}]",
    "mov [rcx + {record_kind}], eax",
    "mov rax, [rdx + {site_pc}]",
    "mov [rcx + {record_pc}], rax",
    "mov [rcx + {record_context}], r9d",
    "mov [rcx + {record_size}], r8d",
    "mov [rcx + {record_addr}], rdi",
    "mov rdi, [rip + {control}]",
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
    "mov [rcx + {record_seq}], rax",
    // --- the payload, in words as it was stored: wider loads would wait for the stores to drain --------
    "add rcx, {head_bytes}",
    "sub r8, 8",
    "jb 6f",
    "5:",
    ".globl fast_path_payload8",
    "fast_path_payload8:",
    "mov rax, [rsi]",
    ".globl fast_path_payload8_end",
    "fast_path_payload8_end:",
    "mov [rcx], rax",
    "add rsi, 8",
    "add rcx, 8",
    "sub r8, 8",
    "jae 5b",
    "6:",
    "test r8b, 4",
    "je 3f",
    ".globl fast_path_payload4",
    "fast_path_payload4:",
    "mov eax, [rsi]",
    ".globl fast_path_payload4_end",
    "fast_path_payload4_end:",
    "mov [rcx], eax",
    "add rsi, 4",
    "add rcx, 4",
    "3:",
    "test r8b, 2",
    "je 4f",
    ".globl fast_path_payload2",
    "fast_path_payload2:",
    "movzx eax, word ptr [rsi]",
    ".globl fast_path_payload2_end",
    "fast_path_payload2_end:",
    "mov [rcx], ax",
    "add rsi, 2",
    "add rcx, 2",
    "4:",
    "test r8b, 1",
    "je 5f",
    "movzx eax, byte ptr [rsi]",
    "mov [rcx], al",
    // --- publish, let go of the lock -------------------------------------------------------------------
    "5:",
    "mov rax, gs:[{slot}]",
    "mov gs:[{head}], r10",
    "mov [rax + {slot_head}], r10",
    "movzx eax, byte ptr [rdx + {effect}]",
    "cmp eax, {nothing}",
    "jae 6f",
    "mov gs:[{dirty}], rax",
    "3:",
    "mov rcx, gs:[{stripe}]",
    "jrcxz 4f",
    "mov dword ptr [rcx], 0",
    "mov qword ptr gs:[{stripe}], 0",
    "4:",
    restore!(),
    "jmp qword ptr gs:[{resume}]",
    "6:",
    "je 3b",
    "cmp eax, {opens}",
    "jne 5f",
    "inc qword ptr gs:[{open_calls}]",
    "jmp 4b",
    "5:",
    "dec qword ptr gs:[{open_calls}]",
    "jmp 4b",
    // --- the long way ----------------------------------------------------------------------------------
    ".globl fast_path_long",
    "fast_path_long:",
    "9:",
    restore!(),
    "jmp gate_exit",
    gpr = const offset_of!(Context, gpr),
    spill_rcx = const offset_of!(Context, spill_rcx),
    spill_rax = const offset_of!(Context, spill_rax),
    spill_flags = const offset_of!(Context, spill_flags),
    exit = const offset_of!(Context, exit),
    argument = const offset_of!(Context, argument),
    resume = const offset_of!(Context, resume),
    sites = const offset_of!(Context, sites),
    memos = const offset_of!(Context, memos),
    last_memo = const offset_of!(Context, last_memo),
    ea = const offset_of!(Context, ea),
    alias = const offset_of!(Context, alias),
    extra = const offset_of!(Context, extra),
    this = const offset_of!(Context, this),
    vectors_at = const offset_of!(Context, vectors),
    near_start = const offset_of!(Context, near_start),
    near_len = const offset_of!(Context, near_len),
    flush_delta = const offset_of!(Context, flush_delta),
    stripe = const offset_of!(Context, stripe),
    stripe2 = const offset_of!(Context, stripe2),
    split = const offset_of!(Context, split),
    dirty = const offset_of!(Context, dirty),
    pm_order = const Exit::PmOrder as u32,
    pm_done = const Exit::PmDone as u32,
    open_calls = const offset_of!(Context, watch) + offset_of!(OpenCalls, len),
    site_shift = const SITE_SHIFT,
    site_pc = const offset_of!(Site, pc),
    site_size = const offset_of!(Site, size),
    tag = const Site::TAG,
    source = const site(offset_of!(RecordPlan, source)),
    effect = const site(offset_of!(RecordPlan, effect)),
    memory = const Source::Memory as u32,
    vectors = const Source::Vectors as u32,
    memory_if_zero = const Source::MemoryIfZero as u32,
    fence = const Source::Fence as u32,
    flush = const Source::Flush as u32,
    nothing = const Effect::Nothing as u32,
    opens = const Effect::Opens as u32,
    mix = const memo::MIX as i64,
    sets = const memo::SETS,
    set_bytes = const memo::SET_BYTES,
    memos_bytes = const memo::MEMOS_BYTES,
    memo_bytes = const memo::MEMO_BYTES,
    memo_rip = const memo::RIP,
    memo_rsp = const memo::RSP,
    memo_rbp_mask = const memo::RBP_MASK,
    memo_rbp = const memo::RBP,
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
    tail = const ring(offset_of!(Producer, tail)),
    announced = const ring(offset_of!(Producer, announced)),
    slot_head = const offset_of!(Slot, head),
    ring_bytes = const RING_BYTES,
    doorbell = const wire::DOORBELL_EVERY,
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
    assert!(offset_of!(RecordPlan, flags) == offset_of!(RecordPlan, kind) + 2);
    assert!(offset_of!(Record, flags) == offset_of!(Record, kind) + 2);
};

unsafe extern "C" {
    fn fast_path_order();
    fn fast_path_end();
    fn fast_path_word();
    fn fast_path_word_fault();
    fn fast_path_other_word();
    fn fast_path_other_word_fault();
    fn fast_path_payload8();
    fn fast_path_payload8_end();
    fn fast_path_payload4();
    fn fast_path_payload4_end();
    fn fast_path_payload2();
    fn fast_path_payload2_end();
}

/// Tells generated code where the fast paths are.
pub fn connect(context: &mut Context) {
    context.to_pm_begin = crate::arch::instruments::pm::begin::entry();
    context.to_pm_order = fast_path_order as *const () as u64;
    context.to_pm_end = fast_path_end as *const () as u64;
    context.sites = crate::instruments::pm::site::table();
}

/// Where a thread goes on whose read of a stack at `rip` faulted.
pub(crate) fn fault(rip: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    if rip == at(fast_path_word) {
        Some(at(fast_path_word_fault))
    } else if rip == at(fast_path_other_word) {
        Some(at(fast_path_other_word_fault))
    } else {
        None
    }
}

/// A load of bytes of a payload from `rsi` to `rax`.
pub struct PayloadLoad {
    pub size: usize,
    /// The instruction after it.
    pub next: u64,
}

/// The load at `rip`, if there is one. Not every instruction of the program whose operand it loads again is subject to
/// alignment checks, but these loads are.
pub fn payload_load(rip: u64) -> Option<PayloadLoad> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    let loads: [(usize, unsafe extern "C" fn(), unsafe extern "C" fn()); 3] = [
        (8, fast_path_payload8, fast_path_payload8_end),
        (4, fast_path_payload4, fast_path_payload4_end),
        (2, fast_path_payload2, fast_path_payload2_end),
    ];
    let (size, _, end) = loads.into_iter().find(|&(_, start, _)| at(start) == rip)?;
    let next = at(end);
    Some(PayloadLoad { size, next })
}
