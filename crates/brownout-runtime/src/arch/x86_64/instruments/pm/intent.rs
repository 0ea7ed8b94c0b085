//! The note of what a thread is about to store, written in assembly: the end of the begin of an access.
//!
//! What the note is for, and the same in Rust for accesses that are not ordinary, is in
//! `pm::intent`.

use crate::instruments::events::Site;
use crate::instruments::events::record_plan::RecordPlan;
use crate::instruments::events::sites::SITE_SHIFT;
use crate::translator::context::Context;
use crate::wire::Producer;
use brownout_ring::{Intent, evidence};
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's ring in its context.
const fn ring(field: usize) -> usize {
    offset_of!(Context, wire) + field
}

global_asm!(
    ".text",
    // --- the end of `begin`: the lock is held, rax, rcx and the flags are spilled -----------------
    "8:",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{pm_return}]",
    ".globl intent_begin",
    "intent_begin:",
    "mov rcx, gs:[{intent}]",
    "jrcxz 8b",
    "mov gs:[{gpr}+16], rdx",
    "mov edx, gs:[{argument}]",
    "shl rdx, {site_shift}",
    "add rdx, gs:[{sites}]",
    "movzx eax, byte ptr [rdx + {site_evidence}]",
    "test eax, eax",
    "je 9f",
    "mov [rcx + {intent_evidence}], eax",
    "mov rax, [rdx + {site_pc}]",
    "mov [rcx + {intent_pc}], rax",
    "mov eax, [rdx + {site_tag}]",
    "mov [rcx + {intent_kind}], eax",
    "mov rax, gs:[{ea}]",
    "mov [rcx + {intent_addr}], rax",
    "cmp byte ptr [rdx + {site_evidence}], {value}",
    "mov eax, [rdx + {site_size}]",
    "mov [rcx + {intent_size}], eax",
    "mov rdx, gs:[{alias}]",
    "jne 2f",
    "mov rdx, gs:[{this}]",
    "add rdx, {vectors}",
    "2:",
    "cmp eax, 8",
    "jne 3f",
    ".globl intent_word",
    "intent_word:",
    "mov rax, [rdx]",
    "mov [rcx + {bytes}], rax",
    "6:",
    "mov rax, gs:[{head}]",
    "mov [rcx + {intent_at}], rax",
    // the loads of other threads are not equal to earlier ones any more
    "cmp qword ptr gs:[{seen}], 0",
    "je 7f",
    "mov rax, gs:[{lock}]",
    "mov rdx, gs:[{this}]",
    "cmp [rax + {storer}], rdx",
    "je 7f",
    "mov [rax + {storer}], rdx",
    "inc qword ptr [rax + {version}]",
    // also where the bytes cannot be read: then the access itself will fault
    ".globl intent_word_fault",
    "intent_word_fault:",
    "7:",
    "mov rdx, gs:[{gpr}+16]",
    "jmp 8b",
    // a load is recorded: the next store of any other thread has to be noticed
    "9:",
    "mov rax, gs:[{lock}]",
    "mov rdx, gs:[{this}]",
    "cmp [rax + {storer}], rdx",
    "je 7b",
    "mov qword ptr [rax + {storer}], 0",
    "jmp 7b",
    // bytes of other sizes, from the last one on: in words, or one by one
    "3:",
    "mov gs:[{gpr}+48], rsi",
    "test al, 7",
    "jne 5f",
    "4:",
    "sub eax, 8",
    ".globl intent_words",
    "intent_words:",
    "mov rsi, [rdx + rax]",
    "mov [rcx + rax + {bytes}], rsi",
    "jne 4b",
    "mov rsi, gs:[{gpr}+48]",
    "jmp 6b",
    "5:",
    "dec eax",
    ".globl intent_bytes",
    "intent_bytes:",
    "movzx esi, byte ptr [rdx + rax]",
    "mov [rcx + rax + {bytes}], sil",
    "jne 5b",
    "mov rsi, gs:[{gpr}+48]",
    "jmp 6b",
    ".globl intent_bytes_fault",
    "intent_bytes_fault:",
    "mov rsi, gs:[{gpr}+48]",
    "jmp 7b",
    gpr = const offset_of!(Context, cpu.gpr),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    argument = const offset_of!(Context, argument),
    sites = const offset_of!(Context, areas.pm.sites),
    ea = const offset_of!(Context, areas.events.address),
    alias = const offset_of!(Context, areas.events.memory),
    this = const offset_of!(Context, this),
    lock = const offset_of!(Context, areas.events.lock),
    seen = const offset_of!(Context, areas.pm.seen),
    storer = const crate::instruments::pm::stripes::STORER,
    version = const crate::instruments::pm::stripes::VERSION,
    vectors = const offset_of!(Context, areas.events.payload),
    pm_return = const offset_of!(Context, areas.pm.return_to),
    intent = const ring(offset_of!(Producer, intent)),
    head = const ring(offset_of!(Producer, head)),
    site_shift = const SITE_SHIFT,
    site_pc = const offset_of!(Site<()>, pc),
    site_size = const offset_of!(Site<()>, size),
    site_tag = const RecordPlan::TAG,
    site_evidence = const RecordPlan::EVIDENCE,
    value = const evidence::VALUE,
    intent_at = const offset_of!(Intent, at),
    intent_addr = const offset_of!(Intent, addr),
    intent_pc = const offset_of!(Intent, pc),
    intent_size = const offset_of!(Intent, size),
    intent_kind = const offset_of!(Intent, kind),
    intent_evidence = const offset_of!(Intent, evidence),
    bytes = const size_of::<Intent>(),
);

const _: () = assert!(offset_of!(Intent, flags) == offset_of!(Intent, kind) + 2);

unsafe extern "C" {
    fn intent_word();
    fn intent_word_fault();
    fn intent_words();
    fn intent_bytes();
    fn intent_bytes_fault();
}

/// Where a thread continues after its read of memory at `pc` has faulted.
pub fn recovery_point(pc: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    if pc == at(intent_word) {
        Some(at(intent_word_fault))
    } else if pc == at(intent_words) || pc == at(intent_bytes) {
        Some(at(intent_bytes_fault))
    } else {
        None
    }
}
