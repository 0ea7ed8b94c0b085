//! Reads and writes of the target's memory that may fault: the hand-written assembly.
//!
//! The signal handler recognises the instructions that touch that memory ([`fault`]) and lets the thread continue
//! where the failure is returned.

use crate::memory;
use core::arch::global_asm;
use core::sync::atomic::{AtomicU8, Ordering};

global_asm!(
    ".text",
    // --- copies that may fault: rdi = to, rsi = from, rdx = bytes; rax = bytes not copied ------------
    ".globl guarded_copy",
    "guarded_copy:",
    "mov rcx, rdx",
    ".globl guarded_copy_insn",
    "guarded_copy_insn:",
    "rep movsb",
    ".globl guarded_copy_fault",
    "guarded_copy_fault:",
    "mov rax, rcx",
    "ret",
    // --- one word that may fault: rdi = from; rax = the word, rdx = 1 if it could be read ------------
    ".globl guarded_load",
    "guarded_load:",
    "mov edx, 1",
    ".globl guarded_load_insn",
    "guarded_load_insn:",
    "mov rax, [rdi]",
    "ret",
    ".globl guarded_load_fault",
    "guarded_load_fault:",
    "xor edx, edx",
    "xor eax, eax",
    "ret",
    // --- whether words hold: rdi = base, rsi = pairs of distance and value, rdx = pairs --------------
    ".globl guarded_verify",
    "guarded_verify:",
    "shl rdx, 4",
    "add rdx, rsi",
    "2:",
    "cmp rsi, rdx",
    "je 3f",
    "mov rcx, [rsi]",
    "mov rax, [rsi + 8]",
    ".globl guarded_verify_insn",
    "guarded_verify_insn:",
    "cmp rax, [rdi + rcx]",
    "lea rsi, [rsi + 16]",
    "je 2b",
    ".globl guarded_verify_fault",
    "guarded_verify_fault:",
    "xor eax, eax",
    "ret",
    "3:",
    "mov eax, 1",
    "ret",
    // --- a comparison that faults: rdi = the last byte that can be read, which is not 0xff; rax = the flags.
    // --- The zero flag is set before, and not by the bytes.
    ".globl guarded_scan",
    "guarded_scan:",
    "mov eax, 0xff",
    "mov ecx, 2",
    "cmp ecx, ecx",
    ".globl guarded_scan_insn",
    "guarded_scan_insn:",
    "repne scasb",
    ".globl guarded_scan_fault",
    "guarded_scan_fault:",
    "pushfq",
    "pop rax",
    "ret",
    // --- a branch to an address that is not canonical: rdi = target, esi = form; rax = 1 if the fault
    // --- was reported at the target, rdx = by how much the stack pointer had moved --------------------
    ".globl guarded_branch",
    "guarded_branch:",
    "push rbx",
    "mov rbx, rsp",
    "sub rsp, 256",
    "mov [rsp], rdi",
    "mov r8, rsp",
    "lea rcx, [rip + guarded_branch_insns]",
    "lea rcx, [rcx + 4 * rsi]",
    "jmp rcx",
    // Four bytes for each form, in the order of `BranchForm`.
    ".p2align 2, 0xcc",
    ".globl guarded_branch_insns",
    "guarded_branch_insns:",
    "jmp rdi",
    ".p2align 2, 0xcc",
    "jmp qword ptr [rsp]",
    ".p2align 2, 0xcc",
    "call rdi",
    ".p2align 2, 0xcc",
    "call qword ptr [rsp]",
    ".p2align 2, 0xcc",
    "ret",
    ".p2align 2, 0xcc",
    "ret 24",
    ".p2align 2, 0xcc",
    ".globl guarded_branch_insns_end",
    "guarded_branch_insns_end:",
    ".globl guarded_branch_refused",
    "guarded_branch_refused:",
    "xor eax, eax",
    "jmp 4f",
    ".globl guarded_branch_taken",
    "guarded_branch_taken:",
    "mov eax, 1",
    "4:",
    "mov rdx, rsp",
    "sub rdx, r8",
    "mov rsp, rbx",
    "pop rbx",
    "ret",
);

/// What a word of the target is expected to hold: its distance from a base address, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Word {
    pub distance: u64,
    pub value: u64,
}

/// The answer of `guarded_load`.
#[repr(C)]
struct Loaded {
    word: u64,
    valid: u64,
}

/// The answer of `guarded_branch`.
#[repr(C)]
struct Branched {
    taken: u64,
    stack: u64,
}

/// A form of branch that the CPU may treat differently from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BranchForm {
    Jump = 0,
    JumpMemory = 1,
    Call = 2,
    CallMemory = 3,
    Return = 4,
    ReturnRelease = 5,
}

/// What the CPU had done of a branch when it raised the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultedBranch {
    /// The fault was reported at the target, not at the branch.
    pub at_target: bool,
    /// The stack pointer had been moved.
    pub stack_moved: bool,
}

unsafe extern "C" {
    fn guarded_copy(to: u64, from: u64, len: u64) -> u64;
    fn guarded_copy_insn();
    fn guarded_copy_fault();
    fn guarded_load(from: u64) -> Loaded;
    fn guarded_load_insn();
    fn guarded_load_fault();
    fn guarded_verify(base: u64, words: *const Word, count: usize) -> u32;
    fn guarded_verify_insn();
    fn guarded_verify_fault();
    fn guarded_scan(last: u64) -> u64;
    fn guarded_scan_insn();
    fn guarded_scan_fault();
    fn guarded_branch(target: u64, form: u64) -> Branched;
    fn guarded_branch_insns();
    fn guarded_branch_insns_end();
    fn guarded_branch_refused();
    fn guarded_branch_taken();
}

/// Where a thread that faulted at `rip` continues, if that is an instruction here that may fault.
pub fn fault(rip: u64) -> Option<u64> {
    let at = |symbol: unsafe extern "C" fn()| symbol as *const () as u64;
    if (at(guarded_branch_insns)..at(guarded_branch_insns_end)).contains(&rip) {
        return Some(at(guarded_branch_refused));
    }
    [
        (at(guarded_copy_insn), at(guarded_copy_fault)),
        (at(guarded_load_insn), at(guarded_load_fault)),
        (at(guarded_verify_insn), at(guarded_verify_fault)),
        (at(guarded_scan_insn), at(guarded_scan_fault)),
    ]
    .into_iter()
    .find_map(|(insn, fault)| (insn == rip).then_some(fault))
}

/// Where a thread resumes that executed [`branch`] and faulted at its target.
pub fn branch_taken() -> u64 {
    guarded_branch_taken as *const () as u64
}

/// Branches to `target` and reports what the CPU makes of it.
///
/// # Safety
/// `target` must not be canonical, and the calling thread must be in Rust code (`Context::in_rust`): that is how
/// the signal handler recognises a fault at the target.
pub unsafe fn branch(target: u64, form: BranchForm) -> FaultedBranch {
    // SAFETY: no code can be fetched from the target, so the only outcome is a fault, which the signal handler turns
    // into a return from here with the stack pointer restored.
    let branched = unsafe { guarded_branch(target, form as u64) };
    FaultedBranch {
        at_target: branched.taken != 0,
        stack_moved: branched.stack != 0,
    }
}

/// Whether a string comparison that faults has changed the flags: CPUs of some makers then leave those of the last
/// elements that were compared, others those from before the instruction.
pub fn faulting_comparison_sets_flags() -> bool {
    const ZERO: u64 = 0x40;
    const UNKNOWN: u8 = 2;
    static SETS: AtomicU8 = AtomicU8::new(UNKNOWN);
    let known = SETS.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known != 0;
    }
    // What follows a mapping of the runtime is never mapped.
    let page = memory::map(memory::PAGE);
    // SAFETY: reads the last byte of the page and faults at the next one, which is caught by the signal handler.
    let flags = unsafe { guarded_scan(page + memory::PAGE - 1) };
    // SAFETY: nothing refers to the page.
    unsafe { memory::unmap(page, memory::PAGE) };
    let sets = flags & ZERO == 0;
    SETS.store(sets.into(), Ordering::Relaxed);
    sets
}

/// Copies `len` bytes, stopping at the first bad address; the number of bytes not copied.
///
/// # Safety
/// What lies at `to` must be the target's, or the caller's to overwrite.
pub unsafe fn copy(to: u64, from: u64, len: u64) -> u64 {
    // SAFETY: faults are caught by the signal handler; the rest is the caller's promise.
    unsafe { guarded_copy(to, from, len) }
}

/// Reads a word of the target, if it can be read.
pub fn load(from: u64) -> Option<u64> {
    // SAFETY: faults are caught by the signal handler.
    let loaded = unsafe { guarded_load(from) };
    (loaded.valid != 0).then_some(loaded.word)
}

/// Whether words of the target hold what they should.
pub fn verify(base: u64, words: &[Word]) -> bool {
    // SAFETY: reads `words`, and the target's memory with faults caught by the signal handler.
    unsafe { guarded_verify(base, words.as_ptr(), words.len()) != 0 }
}
