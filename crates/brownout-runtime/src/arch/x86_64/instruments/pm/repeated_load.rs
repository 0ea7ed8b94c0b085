//! The begin of a load in assembly: decides whether it is recorded.
//!
//! As [`super::begin`], with which a load that is recorded continues. [`crate::instruments::pm::repeated_loads`] says which loads are left
//! out. Such a load is made at the alias without a lock; its end finds that there is none and returns at once.

use crate::instruments::locks::{ComparedWord, LOG, LocksArea};
use crate::instruments::pm::repeated_loads::{
    ENTRY_BYTES, MIX, REMEMBERED, RecordedLoad, VERSION_MIX,
};
use crate::instruments::pm::stripes::{STRIPES, VERSION};
use crate::translator::context::Context;
use crate::wire;
use brownout_ring::Control;
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's area for locks in its context.
const fn locks(field: usize) -> usize {
    offset_of!(Context, areas.locks) + field
}

global_asm!(
    ".text",
    ".globl access_begin_load",
    "access_begin_load:",
    "cmp qword ptr gs:[{seen}], 0",
    "je access_begin",
    // in the mapping used last, and in one page
    "mov rax, rcx",
    "sub rax, gs:[{near_start}]",
    "cmp rax, gs:[{near_len}]",
    "jae access_begin",
    "mov eax, ecx",
    "and eax, 4095",
    "add rax, gs:[{size}]",
    "cmp rax, 4096",
    "ja access_begin",
    // other processes do not count what they store
    "mov rax, [rip + {control}]",
    "cmp dword ptr [rax + {shared}], 0",
    "jne access_begin_near",
    // the thread holds what it held at its last event
    "cmp qword ptr gs:[{room}], {log}",
    "jne access_begin_near",
    "mov gs:[{gpr}+16], rdx",
    "mov gs:[{gpr}+48], rsi",
    "mov gs:[{gpr}+56], rdi",
    "mov rdx, gs:[{compared_count}]",
    "test rdx, rdx",
    "je 3f",
    "mov rsi, gs:[{this}]",
    "add rsi, {compared}",
    "2:",
    "mov rax, [rsi + {compared_bits}]",
    "mov rdi, [rsi + {compared_place}]",
    ".globl repeated_load_word",
    "repeated_load_word:",
    "mov rdi, [rdi]",
    "and rdi, rax",
    "cmp rdi, rax",
    "jne 9f",
    "mov rdi, [rsi + {compared_owner}]",
    "test rdi, rdi",
    "je 4f",
    "mov rax, gs:[{this}]",
    "cmp [rdi], rax",
    "jne 9f",
    "4:",
    "add rsi, {compared_bytes}",
    "dec rdx",
    "jne 2b",
    // instruction, stack pointer and locks into rdi, the version of the page into rax, the entry into rdx
    "3:",
    "mov edx, gs:[{argument}]",
    "movabs rdi, {mix}",
    "imul rdi, rdx",
    "add rdi, rsp",
    "xor rdi, gs:[{lockset}]",
    "mov rsi, rcx",
    "add rsi, gs:[{near_stripe}]",
    "shr rsi, 12",
    "and esi, {stripe_mask}",
    "shl esi, 6",
    "add rsi, gs:[{stripes}]",
    "movabs rax, {version_mix}",
    "imul rax, [rsi + {version}]",
    "lea edx, [rdi + rcx]",
    "imul edx, edx, {small_mix}",
    "shr edx, {index_shift}",
    "shl edx, {entry_shift}",
    "add rdx, gs:[{seen}]",
    "add rdi, rax",
    "cmp [rdx + {entry_address}], rcx",
    "jne 5f",
    "cmp [rdx + {entry_situation}], rdi",
    "jne 5f",
    // an equal load was recorded
    "add rcx, gs:[{near_delta}]",
    "mov gs:[{alias}], rcx",
    "xor eax, eax",
    "mov gs:[{stripe}], rax",
    "mov rdx, gs:[{gpr}+16]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rdi, gs:[{gpr}+56]",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{pm_return}]",
    // this one will be
    "5:",
    "mov [rdx + {entry_address}], rcx",
    "mov [rdx + {entry_situation}], rdi",
    ".globl repeated_load_word_fault",
    "repeated_load_word_fault:",
    "9:",
    "mov rdx, gs:[{gpr}+16]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rdi, gs:[{gpr}+56]",
    "jmp access_begin_near",
    gpr = const offset_of!(Context, cpu.gpr),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    this = const offset_of!(Context, this),
    argument = const offset_of!(Context, argument),
    alias = const offset_of!(Context, areas.events.memory),
    stripe = const offset_of!(Context, areas.events.lock),
    size = const offset_of!(Context, areas.pm.size),
    near_start = const offset_of!(Context, areas.pm.near_start),
    near_len = const offset_of!(Context, areas.pm.near_len),
    near_delta = const offset_of!(Context, areas.pm.near_delta),
    near_stripe = const offset_of!(Context, areas.pm.near_stripe),
    pm_return = const offset_of!(Context, areas.pm.return_to),
    stripes = const offset_of!(Context, areas.pm.stripes),
    seen = const offset_of!(Context, areas.pm.seen),
    lockset = const offset_of!(Context, areas.pm.lockset),
    stripe_mask = const STRIPES - 1,
    version = const VERSION,
    control = sym wire::CONTROL,
    shared = const offset_of!(Control, shared),
    room = const locks(offset_of!(LocksArea, room)),
    compared_count = const locks(offset_of!(LocksArea, compared_count)),
    compared = const locks(offset_of!(LocksArea, compared)),
    log = const LOG,
    compared_place = const offset_of!(ComparedWord, place),
    compared_bits = const offset_of!(ComparedWord, bits),
    compared_owner = const offset_of!(ComparedWord, owner),
    compared_bytes = const size_of::<ComparedWord>(),
    mix = const MIX as i64,
    version_mix = const VERSION_MIX as i64,
    small_mix = const MIX as i32 | 1,
    index_shift = const 32 - REMEMBERED.trailing_zeros(),
    entry_shift = const ENTRY_BYTES.trailing_zeros(),
    entry_address = const offset_of!(RecordedLoad, address),
    entry_situation = const offset_of!(RecordedLoad, situation),
);

unsafe extern "C" {
    fn access_begin_load();
    fn repeated_load_word();
    fn repeated_load_word_fault();
}

/// Where generated code begins loads.
pub(crate) fn entry() -> u64 {
    access_begin_load as *const () as u64
}

/// Where a thread continues after its read of a word at `pc` has faulted: the load is recorded.
pub fn recovery_point(pc: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    (pc == at(repeated_load_word)).then(|| at(repeated_load_word_fault))
}
