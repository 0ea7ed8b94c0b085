//! The gate between generated code and Rust: the hand-written assembly.
//!
//! Generated code jumps to the routines here through GS slots ([`fill_entry_points`]); nothing here or
//! in generated code uses the target's stack. The routines that matter to signals are known to
//! [`crate::translator::signal`] by the labels at their edges:
//!
//! * `gate_syscall`: a system call that needs no attention, made with the target's registers in place.
//! * `gate_native`: a system call made by Rust on behalf of the target. A signal that arrives before
//!   its `syscall` instruction makes it return [`INTERRUPTED`], so that no wait starts while a signal
//!   is pending.

use crate::arch::translator::guarded;
use crate::hooks;
use crate::translator::context::{Context, Exit};
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    ".text",
    // --- exits: set the reason, save the target's registers, call Rust -----------------------------
    "gate_link:          mov dword ptr gs:[{exit}], {link}",
    "                    jmp gate_exit",
    "gate_indirect:      mov dword ptr gs:[{exit}], {indirect}",
    "                    mov rcx, gs:[{rcx}]",
    "                    jmp gate_exit",
    "gate_indirect_call: mov dword ptr gs:[{exit}], {indirect_call}",
    "                    mov rcx, gs:[{rcx}]",
    "                    jmp gate_exit",
    "gate_resync:        mov dword ptr gs:[{exit}], {resync}",
    "                    jmp gate_exit",
    "gate_stale:         mov dword ptr gs:[{exit}], {stale}",
    "                    jmp gate_exit",
    "gate_fault:         mov dword ptr gs:[{exit}], {fault}",
    "                    jmp gate_exit",
    "gate_unsupported:   mov dword ptr gs:[{exit}], {unsupported}",
    ".globl gate_exit",
    "gate_exit:",
    "mov gs:[{gpr}+0], rax",
    "mov gs:[{gpr}+8], rcx",
    "mov gs:[{gpr}+16], rdx",
    "mov gs:[{gpr}+24], rbx",
    "mov gs:[{gpr}+32], rsp",
    "mov gs:[{gpr}+40], rbp",
    "mov gs:[{gpr}+48], rsi",
    "mov gs:[{gpr}+56], rdi",
    "mov gs:[{gpr}+64], r8",
    "mov gs:[{gpr}+72], r9",
    "mov gs:[{gpr}+80], r10",
    "mov gs:[{gpr}+88], r11",
    "mov gs:[{gpr}+96], r12",
    "mov gs:[{gpr}+104], r13",
    "mov gs:[{gpr}+112], r14",
    "mov gs:[{gpr}+120], r15",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "pop qword ptr gs:[{flags}]",
    "cld",
    // alignment checks and single steps are the target's affair
    "test dword ptr gs:[{flags}], 0x40100",
    "jne 2f",
    "3:",
    "movups gs:[{xmm}+0], xmm0",
    "movups gs:[{xmm}+16], xmm1",
    "movups gs:[{xmm}+32], xmm2",
    "movups gs:[{xmm}+48], xmm3",
    "movups gs:[{xmm}+64], xmm4",
    "movups gs:[{xmm}+80], xmm5",
    "movups gs:[{xmm}+96], xmm6",
    "movups gs:[{xmm}+112], xmm7",
    "movups gs:[{xmm}+128], xmm8",
    "movups gs:[{xmm}+144], xmm9",
    "movups gs:[{xmm}+160], xmm10",
    "movups gs:[{xmm}+176], xmm11",
    "movups gs:[{xmm}+192], xmm12",
    "movups gs:[{xmm}+208], xmm13",
    "movups gs:[{xmm}+224], xmm14",
    "movups gs:[{xmm}+240], xmm15",
    "mov rdi, gs:[{this}]",
    "call {dispatch}",
    "jmp gate_enter",
    "2:",
    "push 0x202",
    "popfq",
    "jmp 3b",
    // --- and back -----------------------------------------------------------------------------------
    ".globl gate_enter",
    "gate_enter:",
    "movups xmm0, gs:[{xmm}+0]",
    "movups xmm1, gs:[{xmm}+16]",
    "movups xmm2, gs:[{xmm}+32]",
    "movups xmm3, gs:[{xmm}+48]",
    "movups xmm4, gs:[{xmm}+64]",
    "movups xmm5, gs:[{xmm}+80]",
    "movups xmm6, gs:[{xmm}+96]",
    "movups xmm7, gs:[{xmm}+112]",
    "movups xmm8, gs:[{xmm}+128]",
    "movups xmm9, gs:[{xmm}+144]",
    "movups xmm10, gs:[{xmm}+160]",
    "movups xmm11, gs:[{xmm}+176]",
    "movups xmm12, gs:[{xmm}+192]",
    "movups xmm13, gs:[{xmm}+208]",
    "movups xmm14, gs:[{xmm}+224]",
    "movups xmm15, gs:[{xmm}+240]",
    "mov rsp, gs:[{stack}]",
    "push qword ptr gs:[{flags}]",
    "popfq",
    "mov rax, gs:[{gpr}+0]",
    "mov rcx, gs:[{gpr}+8]",
    "mov rdx, gs:[{gpr}+16]",
    "mov rbx, gs:[{gpr}+24]",
    "mov rbp, gs:[{gpr}+40]",
    "mov rsi, gs:[{gpr}+48]",
    "mov rdi, gs:[{gpr}+56]",
    "mov r8, gs:[{gpr}+64]",
    "mov r9, gs:[{gpr}+72]",
    "mov r10, gs:[{gpr}+80]",
    "mov r11, gs:[{gpr}+88]",
    "mov r12, gs:[{gpr}+96]",
    "mov r13, gs:[{gpr}+104]",
    "mov r14, gs:[{gpr}+112]",
    "mov r15, gs:[{gpr}+120]",
    "mov rsp, gs:[{gpr}+32]",
    "jmp qword ptr gs:[{resume}]",
    // --- system calls that need no attention; rcx = pc after it, r11 = where to resume --------------
    ".globl gate_syscall",
    "gate_syscall:",
    "mov gs:[{next_pc}], rcx",
    "mov gs:[{sys_resume}], r11",
    // from here on the way back may be redirected; the dispatcher takes it back if there is no call
    "mov qword ptr gs:[{in_call}], 1",
    "movzx ecx, ax",
    "mov r11, gs:[{syscall_table}]",
    "movzx ecx, byte ptr [r11 + rcx]",
    "jrcxz 2f",
    "3:",
    "mov dword ptr gs:[{exit}], {syscall_exit}",
    "jmp gate_exit",
    "2:",
    "mov rcx, gs:[{pending}]",
    "jrcxz gate_syscall_insn",
    "jmp 3b",
    ".globl gate_syscall_insn",
    "gate_syscall_insn:",
    "syscall",
    ".globl gate_syscall_done",
    "gate_syscall_done:",
    // locked: the way back is read only after others can see that it is
    "mov ecx, 0",
    "xchg gs:[{in_call}], rcx",
    "mov rcx, gs:[{next_pc}]",
    "jmp qword ptr gs:[{sys_resume}]",
    // where a thread goes instead if the code it would return to was retired meanwhile
    ".globl gate_after_syscall",
    "gate_after_syscall:",
    "mov rcx, gs:[{next_pc}]",
    "mov gs:[{pc}], rcx",
    "jmp gate_resync",
    ".globl gate_syscall_end",
    "gate_syscall_end:",
    // --- indirect branches to code above 2 GiB, by hash; rcx = target, rcx spilled -------------------
    "gate_hash:",
    "mov gs:[{pc}], rcx",
    "mov gs:[{rax}], rax",
    "lahf",
    "seto al",
    "mov gs:[{spill_flags}], rax",
    "mov eax, ecx",
    "shr eax, 2",
    "xor eax, ecx",
    "and eax, {hash_mask}",
    "shl eax, 4",
    "add rax, gs:[{hash_table}]",
    "cmp rcx, [rax]",
    "jne 4f",
    "mov rcx, [rax + 8]",
    "mov gs:[{resume}], rcx",
    // the slot may have been given to another target meanwhile
    "mov rcx, gs:[{pc}]",
    "cmp rcx, [rax]",
    "jne 4f",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{rax}]",
    "mov rcx, gs:[{rcx}]",
    "jmp qword ptr gs:[{resume}]",
    "4:",
    "mov rax, gs:[{spill_flags}]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{rax}]",
    "jmp gate_indirect",
    // --- a system call made by Rust on the target's behalf: rdi = nr, rsi = args -------------------
    ".globl gate_native",
    "gate_native:",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "mov rcx, gs:[{pending}]",
    "jrcxz gate_native_insn",
    "jmp gate_native_abort",
    ".globl gate_native_insn",
    "gate_native_insn:",
    "syscall",
    ".globl gate_native_done",
    "gate_native_done:",
    "ret",
    ".globl gate_native_abort",
    "gate_native_abort:",
    "mov rax, {interrupted}",
    "ret",
    // --- clone: rdi = nr, rsi = args, rdx = context of the child; returns in the parent only ---------
    ".globl gate_clone",
    "gate_clone:",
    "push r12",
    "mov r12, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "syscall",
    "test rax, rax",
    "je 2f",
    "pop r12",
    "ret",
    "2:",
    "wrgsbase r12",
    "mov rdi, r12",
    "and rsp, -16",
    "call {thread_begin}",
    "jmp gate_enter",
    // --- a thread's end: rdi = address of the lock word to release, rsi = status ---------------------
    ".globl gate_thread_exit",
    "gate_thread_exit:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov dword ptr [rax], 0",
    "mov eax, 60",
    "syscall",
    "ud2",
    // --- what a signal handler of the runtime returns to ---------------------------------------------
    ".globl gate_restorer",
    "gate_restorer:",
    "mov eax, 15",
    "syscall",
    gpr = const offset_of!(Context, cpu.gpr),
    flags = const offset_of!(Context, cpu.flags),
    pc = const offset_of!(Context, pc),
    exit = const offset_of!(Context, exit),
    resume = const offset_of!(Context, resume),
    rcx = const offset_of!(Context, cpu.spill_rcx),
    rax = const offset_of!(Context, cpu.spill_rax),
    spill_flags = const offset_of!(Context, cpu.spill_flags),
    hash_table = const offset_of!(Context, hash_table),
    hash_mask = const crate::translator::cache::HASH_SLOTS - 1,
    syscall_table = const offset_of!(Context, syscall_table),
    sys_resume = const offset_of!(Context, sys_resume),
    fault = const Exit::Fault as u32,
    stale = const Exit::Stale as u32,
    next_pc = const offset_of!(Context, next_pc),
    in_call = const offset_of!(Context, in_call),
    stack = const offset_of!(Context, stack),
    this = const offset_of!(Context, this),
    pending = const offset_of!(Context, pending_flag),
    xmm = const offset_of!(Context, cpu.xmm),
    link = const Exit::Link as u32,
    indirect = const Exit::Indirect as u32,
    indirect_call = const Exit::IndirectCall as u32,
    syscall_exit = const Exit::Syscall as u32,
    resync = const Exit::Resync as u32,
    unsupported = const Exit::Unsupported as u32,
    dispatch = sym crate::translator::dispatch::dispatch,
    thread_begin = sym crate::translator::process::thread_begin,
    interrupted = const INTERRUPTED as i64,
);

/// What [`native_syscall`] returns when a signal came before the call.
pub const INTERRUPTED: u64 = -4095i64 as u64;

unsafe extern "C" {
    fn gate_link();
    fn gate_indirect();
    fn gate_indirect_call();
    fn gate_resync();
    fn gate_unsupported();
    fn gate_fault();
    fn gate_stale();
    fn gate_hash();
    fn gate_exit();
    fn gate_enter() -> !;
    fn gate_syscall();
    fn gate_syscall_insn();
    fn gate_syscall_done();
    fn gate_syscall_end();
    fn gate_after_syscall();
    fn gate_native(nr: u64, args: *const [u64; 6]) -> u64;
    fn gate_native_insn();
    fn gate_native_done();
    fn gate_native_abort();
    fn gate_clone(nr: u64, args: *const [u64; 6], child: *mut core::ffi::c_void) -> u64;
    fn gate_thread_exit(word: *const u32, status: u64) -> !;
    fn gate_restorer();
}

/// Fills the entry points for generated code.
pub fn fill_entry_points(context: &mut Context) {
    context.to_link = gate_link as *const () as u64;
    context.to_indirect = gate_indirect as *const () as u64;
    context.to_indirect_call = gate_indirect_call as *const () as u64;
    context.to_resync = gate_resync as *const () as u64;
    context.to_stale = gate_stale as *const () as u64;
    context.to_unsupported = gate_unsupported as *const () as u64;
    context.to_hash = gate_hash as *const () as u64;
    context.to_syscall = gate_syscall as *const () as u64;
    context.hash_table = crate::translator::cache::hash_table();
    context.syscall_table = crate::translator::syscall::table();
}

/// Leaves Rust code for generated code, with the state that the thread's context holds.
///
/// # Safety
/// GS is the thread's context, and its `resume` is an address in the code cache.
pub unsafe fn enter() -> ! {
    // SAFETY: the caller's promise.
    unsafe { gate_enter() }
}

/// Makes a system call that may block on behalf of the target. Returns [`INTERRUPTED`] without having
/// made it if a signal is pending or arrives first.
///
/// # Safety
/// As for [`crate::sys::syscall`].
pub unsafe fn native_syscall(nr: u64, args: &[u64; 6]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { gate_native(nr, args) }
}

/// Clones: the child starts in [`crate::translator::process::thread_begin`] with `child` as its context.
///
/// # Safety
/// The arguments must give the child a stack of its own.
pub unsafe fn clone(nr: u32, args: &[u64; 6], child: *mut Context) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { gate_clone(u64::from(nr), args, child.cast()) }
}

/// Ends the thread, and sets `word` to zero when its memory is no longer in use.
///
/// # Safety
/// All signals must be blocked.
pub unsafe fn thread_exit(word: *const u32, status: u64) -> ! {
    // SAFETY: the caller's promise.
    unsafe { gate_thread_exit(word, status) }
}

/// Where generated code goes to be served by Rust code, once it has set `Context::exit`.
pub fn exit() -> u64 {
    gate_exit as *const () as u64
}

/// The return trampoline of the runtime's own signal handlers.
pub fn restorer() -> u64 {
    gate_restorer as *const () as u64
}

/// Where in the gate an interrupted thread is, as far as it matters to signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateLocation {
    /// At the first instruction of the system-call gate: the next pc is still in rcx.
    SyscallStart,
    /// In the system-call gate, before the call.
    SyscallBefore,
    /// In the system-call gate, after the call.
    SyscallAfter,
    /// In [`native_syscall`], before the call.
    NativeBefore,
    /// At a read or write of the target's memory that may fault: the thread then continues here.
    Guarded(u64),
    Elsewhere,
}

/// Says where `rip` is.
pub fn location(rip: u64) -> GateLocation {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    if rip == at(gate_syscall) {
        GateLocation::SyscallStart
    } else if (at(gate_syscall)..=at(gate_syscall_insn)).contains(&rip) {
        GateLocation::SyscallBefore
    } else if (at(gate_syscall_done)..at(gate_syscall_end)).contains(&rip) {
        GateLocation::SyscallAfter
    } else if (gate_native as *const () as u64..=at(gate_native_insn)).contains(&rip) {
        GateLocation::NativeBefore
    } else if let Some(fault) = fault_in_assembly(rip) {
        GateLocation::Guarded(fault)
    } else {
        GateLocation::Elsewhere
    }
}

/// Where a thread that faulted at `rip` continues, if that is an instruction that may touch bad addresses.
fn fault_in_assembly(rip: u64) -> Option<u64> {
    guarded::fault(rip).or_else(|| hooks::recovery_point(rip))
}

/// Where a thread found at [`GateLocation::NativeBefore`] is sent.
pub fn native_abort() -> u64 {
    gate_native_abort as *const () as u64
}

/// The entry that generated code is sent to in order to continue at `Context::pc`.
pub fn resync() -> u64 {
    gate_resync as *const () as u64
}

/// The entry for an indirect branch whose target is in rcx, with rcx itself spilled.
pub fn indirect() -> u64 {
    gate_indirect as *const () as u64
}

/// The entry for an instruction that raised a signal.
pub fn fault() -> u64 {
    gate_fault as *const () as u64
}

/// Where calls return to that are made for the target as it asked for them.
pub fn after_target_calls() -> [u64; 2] {
    [
        gate_syscall_done as *const () as u64,
        gate_native_done as *const () as u64,
    ]
}

/// The way back from a system call that is found by the target's address.
pub fn after_syscall() -> u64 {
    gate_after_syscall as *const () as u64
}
