//! What a thread is about to store, told before it does: a thread that is killed between a store and its record
//! leaves enough behind for the recorder to complete the trace ([`brownout_ring::Intent`]).
//!
//! An intent is noted under the lock of the access, so that what memory holds before is known. It is void
//! as soon as the thread publishes anything. Non-temporal stores tell their value instead: reading what they
//! replace would bring it into the cache.
//!
//! What it can miss: what the kernel was writing by itself for a system call, and bytes beyond
//! [`brownout_ring::MAX_INTENT`] of one instruction.

use crate::arch::translator::guarded;
use crate::instruments::pm::site::{SITE_SHIFT, Site, site};
use crate::translator::context::Context;
use crate::wire::Producer;
use brownout_ring::{Intent, MAX_INTENT, evidence, kind};
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
    "je 7f",
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
    // also where the bytes cannot be read: then the access itself will fault
    ".globl intent_word_fault",
    "intent_word_fault:",
    "7:",
    "mov rdx, gs:[{gpr}+16]",
    "jmp 8b",
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
    gpr = const offset_of!(Context, gpr),
    spill_rcx = const offset_of!(Context, spill_rcx),
    spill_rax = const offset_of!(Context, spill_rax),
    spill_flags = const offset_of!(Context, spill_flags),
    argument = const offset_of!(Context, argument),
    sites = const offset_of!(Context, sites),
    ea = const offset_of!(Context, ea),
    alias = const offset_of!(Context, alias),
    this = const offset_of!(Context, this),
    vectors = const offset_of!(Context, vectors),
    pm_return = const offset_of!(Context, pm_return),
    intent = const ring(offset_of!(Producer, intent)),
    head = const ring(offset_of!(Producer, head)),
    site_shift = const SITE_SHIFT,
    site_pc = const offset_of!(Site, pc),
    site_size = const offset_of!(Site, size),
    site_tag = const Site::TAG,
    site_evidence = const Site::EVIDENCE,
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

/// Where a thread goes on whose read of memory at `rip` faulted.
pub(crate) fn fault(rip: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    if rip == at(intent_word) {
        Some(at(intent_word_fault))
    } else if rip == at(intent_words) || rip == at(intent_bytes) {
        Some(at(intent_bytes_fault))
    } else {
        None
    }
}

/// Notes the access that the thread is about to make at `context.alias`.
pub(crate) fn access(context: &mut Context, size: u64) {
    let site = site(context.argument);
    let from = match u32::from(site.plan.evidence) {
        evidence::NONE => return,
        evidence::VALUE => context.vectors.0.as_ptr() as u64,
        _ => context.alias,
    };
    let intent = Intent {
        at: Intent::VOID,
        addr: context.ea,
        pc: site.pc,
        size: size as u32,
        kind: kind::STORE,
        flags: site.plan.flags(),
        evidence: site.plan.evidence.into(),
    };
    note(context, intent, from);
}

/// Notes that the runtime is about to store `size` bytes at `addr`, which is at `alias`, for the instruction at
/// `context.pc`; with `kind` and `flags` of the record that is to follow.
pub(crate) fn store(
    context: &mut Context,
    (kind, flags): (u16, u16),
    addr: u64,
    alias: u64,
    size: usize,
) {
    let intent = Intent {
        at: Intent::VOID,
        addr,
        pc: context.pc,
        size: size as u32,
        kind,
        flags,
        evidence: evidence::BEFORE_PARTS,
    };
    note(context, intent, alias);
}

fn note(context: &mut Context, intent: Intent, from: u64) {
    let (place, at) = (context.wire.intent as *mut Intent, context.wire.head);
    if place.is_null() {
        return;
    }
    let size = intent.size.min(MAX_INTENT as u32);
    // SAFETY: the slot's own intent, mapped as long as the slot is the thread's, with room for as many bytes.
    unsafe {
        place.write_volatile(Intent { size, ..intent });
        if guarded::copy(place.add(1) as u64, from, size.into()) == 0 {
            (&raw mut (*place).at).write_volatile(at);
        }
    }
}

/// Whether what was noted last is still to be recorded.
pub(crate) fn is_open(context: &Context) -> bool {
    let place = context.wire.intent as *const Intent;
    // SAFETY: as in `note`.
    !place.is_null() && unsafe { (*place).at } == context.wire.head
}

/// Keeps what was noted open though something else was published.
pub(crate) fn renew(context: &mut Context) {
    let (place, at) = (context.wire.intent as *mut Intent, context.wire.head);
    // SAFETY: as in `note`; it is there, as it was open.
    unsafe { (&raw mut (*place).at).write_volatile(at) };
}

/// Takes back what was noted: the access was not made, or stored nothing.
pub(crate) fn withdraw(context: &mut Context) {
    let place = context.wire.intent as *mut Intent;
    if !place.is_null() {
        // SAFETY: as in `note`.
        unsafe { (&raw mut (*place).at).write_volatile(Intent::VOID) };
    }
}
