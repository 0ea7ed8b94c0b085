//! The executable that the target's process starts as. Freestanding: no libc, no start files.
#![no_std]
#![no_main]

use brownout_runtime::memory::{HEAP, Heap};
use core::alloc::{GlobalAlloc, Layout};
use core::arch::global_asm;

struct Global;

// SAFETY: forwards to the runtime's allocator, which meets the contract.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::alloc(&HEAP, layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::dealloc(&HEAP, ptr, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::alloc_zeroed(&HEAP, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::realloc(&HEAP, ptr, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Global = Global;

global_asm!(
    ".globl _start",
    "_start:",
    "mov rdi, rsp",
    "and rsp, -16",
    "xor ebp, ebp",
    "call {begin}",
    "ud2",
    begin = sym begin,
);

extern "C" fn begin(stack: *mut u64) -> ! {
    // SAFETY: called once, by the first instruction, with the initial stack pointer.
    unsafe { brownout_runtime::start::start(stack) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    brownout_runtime::fatal::fault(format_args!("{info}"))
}

// What compiled code expects a C library to have.
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 7f",
    "cmp rdx, 512",
    "ja 9f",
    // sixteen at a time, the last sixteen overlapping what was done before
    "movups xmm0, [rsi + rdx - 16]",
    "lea rcx, [rdi + rdx - 16]",
    "8:",
    "cmp rdi, rcx",
    "jae 6f",
    "movups xmm1, [rsi]",
    "movups [rdi], xmm1",
    "add rsi, 16",
    "add rdi, 16",
    "jmp 8b",
    "6:",
    "movups [rcx], xmm0",
    "ret",
    "7:",
    "cmp edx, 8",
    "jb 7f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "7:",
    "cmp edx, 4",
    "jb 7f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "7:",
    "test edx, edx",
    "je 7f",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov r9, rdx",
    "shr r9, 1",
    "movzx r10d, byte ptr [rsi + r9]",
    "mov [rdi + r9], r10b",
    "mov [rdi + rdx - 1], r8b",
    "mov [rdi], cl",
    "7:",
    "ret",
    "9:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rcx - 1]",
    "lea rsi, [rsi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl bcmp",
    "bcmp:",
    ".globl memcmp",
    "memcmp:",
    "xor eax, eax",
    "xor ecx, ecx",
    "3:",
    "cmp rcx, rdx",
    "je 4f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 3b",
    "4:",
    "ret",
    ".globl strlen",
    "strlen:",
    "xor eax, eax",
    "5:",
    "cmp byte ptr [rdi + rax], 0",
    "je 6f",
    "inc rax",
    "jmp 5b",
    "6:",
    "ret",
    // Named by the precompiled library, never reached: panics abort.
    ".globl _Unwind_Resume",
    "_Unwind_Resume:",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
);
