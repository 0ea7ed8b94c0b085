//! The begin of an access to what may be persistent memory, in assembly: chooses where the access is made and
//! takes the lock that excludes other threads until it is recorded.
//!
//! Generated code jumps here with the address in rcx and with `spill_rcx`, `spill_rax` and `spill_flags` filled, and
//! continues at `PmArea::return_to`. An address outside of the mapping used last is looked up in Rust
//! (`pm::access_lookup`).

use crate::instruments::pm::exits;
use crate::translator::context::Context;
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    ".text",
    ".globl access_begin",
    "access_begin:",
    "mov rax, rcx",
    "sub rax, gs:[{near_start}]",
    "cmp rax, gs:[{near_len}]",
    "jae 8f",
    "mov eax, ecx",
    "and eax, 4095",
    "add rax, gs:[{size}]",
    "cmp rax, 4096",
    "ja 9f",
    // in the mapping used last, and in one page
    ".globl access_begin_near",
    "access_begin_near:",
    "mov rax, rcx",
    "add rax, gs:[{near_delta}]",
    "mov gs:[{alias}], rax",
    "add rcx, gs:[{near_stripe}]",
    "shr rcx, 12",
    "and ecx, {stripe_mask}",
    "shl ecx, 6",
    "add rcx, gs:[{stripes}]",
    "cmp qword ptr gs:[{alone}], 0",
    "jne 5f",
    "2:",
    "mov eax, 1",
    "xchg eax, [rcx]",
    "test eax, eax",
    "jne 3f",
    "5:",
    "mov gs:[{stripe}], rcx",
    "jmp intent_begin",
    // not PM
    "6:",
    "mov rcx, gs:[{ea}]",
    "mov gs:[{alias}], rcx",
    "mov qword ptr gs:[{stripe}], 0",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{pm_return}]",
    "8:",
    "mov rax, rcx",
    "sub rax, gs:[{hull_start}]",
    "cmp rax, gs:[{hull_len}]",
    "jae 6b",
    "mov rax, rcx",
    "sub rax, gs:[{gap_start}]",
    "cmp rax, gs:[{gap_len}]",
    "jb 6b",
    // look the address up in Rust, which leaves the alias and the lock in the area
    "9:",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{pm_return}]",
    "mov gs:[{resume}], rcx",
    "mov rcx, gs:[{spill_rcx}]",
    "mov dword ptr gs:[{exit}], {pm_lookup}",
    "jmp gate_exit",
    // the lock is held by another thread: wait briefly, then yield the processor
    "3:",
    "mov gs:[{spill_r11}], r11",
    "mov r11d, 64",
    "4:",
    "pause",
    "cmp dword ptr [rcx], 0",
    "je 5f",
    "dec r11d",
    "jne 4b",
    "mov gs:[{pc}], rcx",
    "mov eax, 24",
    "syscall",
    "mov rcx, gs:[{pc}]",
    "5:",
    "mov r11, gs:[{spill_r11}]",
    "jmp 2b",
    alias = const offset_of!(Context, areas.events.memory),
    alone = const offset_of!(Context, areas.pm.alone),
    ea = const offset_of!(Context, areas.events.address),
    exit = const offset_of!(Context, exit),
    gap_len = const offset_of!(Context, areas.pm.gap_len),
    gap_start = const offset_of!(Context, areas.pm.gap_start),
    hull_len = const offset_of!(Context, areas.pm.hull_len),
    hull_start = const offset_of!(Context, areas.pm.hull_start),
    near_delta = const offset_of!(Context, areas.pm.near_delta),
    near_len = const offset_of!(Context, areas.pm.near_len),
    near_start = const offset_of!(Context, areas.pm.near_start),
    near_stripe = const offset_of!(Context, areas.pm.near_stripe),
    pc = const offset_of!(Context, pc),
    pm_lookup = const exits::LOOKUP,
    pm_return = const offset_of!(Context, areas.pm.return_to),
    resume = const offset_of!(Context, resume),
    size = const offset_of!(Context, areas.pm.size),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    spill_r11 = const offset_of!(Context, cpu.spill_r11),
    spill_rax = const offset_of!(Context, cpu.spill_rax),
    spill_rcx = const offset_of!(Context, cpu.spill_rcx),
    stripe = const offset_of!(Context, areas.events.lock),
    stripe_mask = const crate::instruments::pm::stripes::STRIPES - 1,
    stripes = const offset_of!(Context, areas.pm.stripes),
);

unsafe extern "C" {
    fn access_begin();
}

/// Where generated code begins accesses.
pub(crate) fn entry() -> u64 {
    access_begin as *const () as u64
}
