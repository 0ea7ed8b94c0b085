//! Plain calls of watched functions and their returns, in assembly.
//!
//! A call is plain if the innermost open one is alive and further out on the stack, and returns to its return address
//! are watched; a return is plain if it is that of the innermost open call alone. The record is then written
//! by [`crate::instruments::pm`]'s assembly like any other. All else goes the long way, with nothing changed:
//! [`crate::instruments::calls::visit`] does the same for all cases.

use crate::instruments::calls::open_calls::{Open, OpenCalls, REMEMBERED};
use crate::instruments::pm::{SITE_SHIFT, Site, restore, site_in_rdx, spill};
use crate::translator::context::{Context, Exit};
use core::arch::global_asm;
use core::mem::offset_of;

/// Offset of a part of the thread's open calls in its context.
const fn calls(field: usize) -> usize {
    offset_of!(Context, watch) + field
}

global_asm!(
    ".text",
    // --- a watched function is entered, its number in `ea` --------------------------------------------
    ".globl watch_call",
    "watch_call:",
    "mov gs:[{spill_rcx}], rcx",
    "mov gs:[{spill_rax}], rax",
    spill!("{watch}"),
    site_in_rdx!(),
    "cmp qword ptr gs:[{repeated}], 0",
    "jne fast_path_long",
    // returns to the return address are watched, too
    ".globl watch_back",
    "watch_back:",
    "mov r8, [rsp]",
    "mov rax, r8",
    "shr rax, 1",
    "and eax, {remembered} - 1",
    "cmp r8, gs:[{watched} + rax * 8]",
    "jne fast_path_long",
    // the innermost open call is alive and further out; there is room for another behind it
    "mov rcx, gs:[{open_calls}]",
    "cmp rcx, gs:[{open_room}]",
    "jae fast_path_long",
    "lea rax, [rcx + rcx * 2]",
    "shl rax, 3",
    "add rax, gs:[{open_first}]",
    "jrcxz 3f",
    "mov rdi, [rax - {open_bytes} + {open_slot}]",
    "cmp rdi, rsp",
    "jbe fast_path_long",
    "mov rsi, [rax - {open_bytes} + {open_back}]",
    ".globl watch_alive",
    "watch_alive:",
    "cmp rsi, [rdi]",
    "jne fast_path_long",
    "3:",
    "mov [rax + {open_slot}], rsp",
    "mov [rax + {open_back}], r8",
    "mov ecx, gs:[{ea}]",
    "mov [rax + {open_function}], ecx",
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
    "jmp fast_path_record",
    // --- a watched function may have returned here, if one is open --------------------------------------
    "8:",
    "mov rcx, gs:[{spill_rcx}]",
    "jmp qword ptr gs:[{resume}]",
    ".globl watch_return",
    "watch_return:",
    "mov gs:[{spill_rcx}], rcx",
    "mov rcx, gs:[{open_calls}]",
    "jrcxz 8b",
    "mov gs:[{spill_rax}], rax",
    spill!("{watch}"),
    site_in_rdx!(),
    "mov r8, [rdx + {site_pc}]",
    "cmp r8, gs:[{pc}]",
    "jne 7f",
    "lea rax, [rcx + rcx * 2]",
    "shl rax, 3",
    "add rax, gs:[{open_first}]",
    "cmp r8, [rax - {open_bytes} + {open_back}]",
    "jne fast_path_long",
    "mov rdi, [rax - {open_bytes} + {open_slot}]",
    "lea rsi, [rdi + 8]",
    "cmp rsi, rsp",
    "jne fast_path_long",
    // and only one of them
    "dec rcx",
    "jrcxz 3f",
    "cmp rdi, [rax - 2 * {open_bytes} + {open_slot}]",
    "je fast_path_long",
    "3:",
    "mov ecx, [rax - {open_bytes} + {open_function}]",
    "mov gs:[{ea}], rcx",
    "mov rax, gs:[{spill_rax}]",
    "mov rcx, gs:[{gpr}+16]",
    "mov gs:[{vectors_at}], rax",
    "mov gs:[{vectors_at}+8], rcx",
    "jmp fast_path_record",
    "7:",
    restore!(),
    "jmp qword ptr gs:[{resume}]",
    argument = const offset_of!(Context, argument),
    ea = const offset_of!(Context, ea),
    exit = const offset_of!(Context, exit),
    gpr = const offset_of!(Context, gpr),
    open_back = const offset_of!(Open, back),
    open_bytes = const size_of::<Open>(),
    open_calls = const calls(offset_of!(OpenCalls, len)),
    open_first = const calls(offset_of!(OpenCalls, first)),
    open_function = const offset_of!(Open, function),
    open_room = const calls(offset_of!(OpenCalls, room)),
    open_slot = const offset_of!(Open, slot),
    pc = const offset_of!(Context, pc),
    remembered = const REMEMBERED,
    repeated = const calls(offset_of!(OpenCalls, repeated_pc)),
    resume = const offset_of!(Context, resume),
    site_pc = const offset_of!(Site, pc),
    site_shift = const SITE_SHIFT,
    sites = const offset_of!(Context, sites),
    spill_flags = const offset_of!(Context, spill_flags),
    spill_rax = const offset_of!(Context, spill_rax),
    spill_rcx = const offset_of!(Context, spill_rcx),
    vectors_at = const offset_of!(Context, vectors),
    watch = const Exit::Watch as u32,
    watched = const calls(offset_of!(OpenCalls, watched)),
);

const _: () = assert!(size_of::<Open>() == 3 * 8);

unsafe extern "C" {
    fn watch_call();
    fn watch_return();
    fn watch_back();
    fn watch_alive();
    fn fast_path_long();
}

/// Tells generated code where the fast paths are.
pub fn connect(context: &mut Context) {
    context.to_call = watch_call as *const () as u64;
    context.to_return = watch_return as *const () as u64;
}

/// Where a thread goes on whose read of a stack at `rip` faulted.
pub fn fault_in_assembly(rip: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    [watch_back, watch_alive]
        .into_iter()
        .any(|read| at(read) == rip)
        .then(|| at(fast_path_long))
}
