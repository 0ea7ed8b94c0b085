//! The log of locked instructions, written in assembly, and the comparison of the words that are held before an event.
//!
//! Generated code jumps to the first two routines with rax and rcx spilled, the word before the instruction in rax and the operand in
//! rcx, and continues at `Context::resume`. They do not touch the flags, which are the result of the instruction: saving them would
//! cost more than all the rest. `locks_check` is a part of `event_record` and has its registers.

use crate::instruments::locks::owners::Exchanged;
use crate::instruments::locks::{ComparedWord, FULL, LocksArea, LoggedInstruction};
use crate::translator::context::Context;
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's area for locks in its context.
const fn area(field: usize) -> usize {
    offset_of!(Context, areas.locks) + field
}

global_asm!(
    ".text",
    // --- a word was exchanged: rax = before, rcx = after -------------------------------------------------
    "8:",
    "mov rdx, gs:[{gpr}+16]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{resume}]",
    ".globl lock_exchanged",
    "lock_exchanged:",
    "mov gs:[{gpr}+16], rdx",
    "mov gs:[{gpr}+48], rsi",
    "mov rdx, rcx",
    // before - after
    "not rcx",
    "lea rcx, [rcx + rax + 1]",
    "jrcxz 8b",
    "movzx ecx, word ptr gs:[{word}]",
    "lea rcx, [8 * rcx]",
    "lea rcx, [8 * rcx]",
    "mov rsi, gs:[{owners}]",
    "lea rcx, [rcx + rsi]",
    "mov [rcx + {entry_old}], rax",
    "mov [rcx + {entry_new}], rdx",
    "mov rsi, gs:[{this}]",
    "mov [rcx + {entry_thread}], rsi",
    "movzx esi, byte ptr gs:[{argument}]",
    // 0 if the instruction compared
    "lea rsi, [rsi - {compare_exchange}]",
    "mov [rcx + {entry_exchanged}], rsi",
    "mov rsi, gs:[{word}]",
    "mov [rcx + {entry_word}], rsi",
    // --- appends to the log: rax, rdx and the word in rsi ------------------------------------------------
    "7:",
    "mov rcx, gs:[{next}]",
    "mov [rcx + {logged_word}], rsi",
    "mov [rcx + {logged_first}], rax",
    "mov [rcx + {logged_second}], rdx",
    "mov rax, gs:[{pc}]",
    "mov [rcx + {logged_pc}], rax",
    "mov eax, gs:[{argument}]",
    "mov [rcx + {logged_form}], rax",
    "lea rcx, [rcx + {logged_bytes}]",
    "mov gs:[{next}], rcx",
    "mov gs:[{busy}], rcx",
    "mov rcx, gs:[{room}]",
    "lea rcx, [rcx - 1]",
    "mov gs:[{room}], rcx",
    "jrcxz 9f",
    "jmp 8b",
    "9:",
    "mov rdx, gs:[{gpr}+16]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{spill_rcx}]",
    "mov dword ptr gs:[{exit}], {full}",
    "jmp gate_exit",
    // --- a word was changed in another way: rcx = operand -------------------------------------------------
    ".globl lock_changed",
    "lock_changed:",
    "mov gs:[{gpr}+16], rdx",
    "mov gs:[{gpr}+48], rsi",
    "mov rdx, rcx",
    "mov rsi, gs:[{word}]",
    "jmp 7b",
    // --- before an event: all words that are held are as they were ----------------------------------------
    ".globl locks_check",
    "locks_check:",
    "cmp qword ptr gs:[{room}], {log}",
    "jne event_by_rust",
    "mov r9, gs:[{this}]",
    "lea rsi, [r9 + {compared}]",
    "mov rcx, gs:[{compared_count}]",
    "2:",
    "mov r8, [rsi + {compared_place}]",
    "mov rdi, [rsi + {compared_bits}]",
    ".globl locks_word",
    "locks_word:",
    "mov rax, [r8]",
    "and rax, rdi",
    "cmp rax, rdi",
    "jne event_by_rust",
    "mov r8, [rsi + {compared_owner}]",
    "test r8, r8",
    "je 3f",
    "cmp [r8], r9",
    "jne event_by_rust",
    "3:",
    "add rsi, {compared_bytes}",
    "dec rcx",
    "jne 2b",
    "jmp event_record_settled",
    gpr = const offset_of!(Context, cpu.gpr),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    argument = const offset_of!(Context, argument),
    resume = const offset_of!(Context, resume),
    exit = const offset_of!(Context, exit),
    this = const offset_of!(Context, this),
    full = const FULL,
    compare_exchange = const super::form::Action::CompareExchange as u32,
    word = const area(offset_of!(LocksArea, word)),
    pc = const area(offset_of!(LocksArea, pc)),
    owners = const area(offset_of!(LocksArea, owners)),
    next = const area(offset_of!(LocksArea, next)),
    room = const area(offset_of!(LocksArea, room)),
    busy = const area(offset_of!(LocksArea, busy)),
    compared_count = const area(offset_of!(LocksArea, compared_count)),
    compared = const area(offset_of!(LocksArea, compared)),
    log = const crate::instruments::locks::LOG,
    entry_word = const offset_of!(Exchanged, word),
    entry_old = const offset_of!(Exchanged, old),
    entry_new = const offset_of!(Exchanged, new),
    entry_thread = const offset_of!(Exchanged, thread),
    entry_exchanged = const offset_of!(Exchanged, exchanged),
    logged_word = const offset_of!(LoggedInstruction, word),
    logged_first = const offset_of!(LoggedInstruction, first),
    logged_second = const offset_of!(LoggedInstruction, second),
    logged_pc = const offset_of!(LoggedInstruction, pc),
    logged_form = const offset_of!(LoggedInstruction, form),
    logged_bytes = const size_of::<LoggedInstruction>(),
    compared_place = const offset_of!(ComparedWord, place),
    compared_bits = const offset_of!(ComparedWord, bits),
    compared_owner = const offset_of!(ComparedWord, owner),
    compared_bytes = const size_of::<ComparedWord>(),
);

// The table is indexed by the low 16 bits of an address, scaled by this.
const _: () = assert!(crate::instruments::locks::owners::ENTRY_BYTES == 64);

unsafe extern "C" {
    fn lock_exchanged();
    fn lock_changed();
    fn locks_word();
}

/// Fills in the entry points that generated code jumps to.
pub fn connect(area: &mut LocksArea) {
    area.to_exchanged = lock_exchanged as *const () as u64;
    area.to_changed = lock_changed as *const () as u64;
}

/// Where a thread continues after its read of a word at `pc` has faulted: Rust code finds that the word is gone.
pub fn recovery_point(pc: u64) -> Option<u64> {
    (pc == locks_word as *const () as u64).then(super::super::events::fast_path::by_rust)
}
