//! Fetch faults: the target branches to an address without code, and gets the signal that it would get natively.
//!
//! If the address is canonical, the branch is done and the fetch faults. If not, the CPU raises a
//! general-protection fault. Whether it reports that fault at the branch or at its target differs between CPUs and
//! may differ between forms of branches, so a branch of the same form to the same address is executed to find out
//! ([`guarded::branch`]).
//!
//! What it can miss: branches through the branch table ignore the three topmost bits of their target.

use crate::arch::translator::cpu::reg;
use crate::arch::translator::guarded::{self, BranchForm};
use crate::hooks;
use crate::sys;
use crate::sys::{errno, is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::translator::signal;
use crate::translator::signal::{Info, Pending, SIGSEGV};
use crate::translator::space;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicU32, Ordering};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

const PAGE_FAULT: u64 = 14;
const GENERAL_PROTECTION: u64 = 13;
/// Error code of a fetch by the target; the lowest bit says that the page is there.
const FETCH: u64 = 0x14;
/// Address not mapped; invalid permissions for a mapped object; raised by the kernel for a fault without address.
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const SI_KERNEL: i32 = 128;

/// Delivers the signal of a fetch at `context.pc`, where there is no code or not all of an instruction.
pub fn fetch(context: &mut Context) {
    // An instruction that begins on a mapped page faults at the first byte that is missing.
    let missing = space::code_end(context.pc).unwrap_or(context.pc);
    if !is_canonical(missing) {
        return protection(context);
    }
    let code = if target_memory::is_mapped(missing) {
        SEGV_ACCERR
    } else {
        SEGV_MAPERR
    };
    // Of what is not the target's, the kernel always says that it is there.
    let present = missing >= target_end()
        || target_memory::read_into(missing, &mut [0u8]) == 1
        || hooks::hides(missing);
    let trap = [PAGE_FAULT, FETCH | u64::from(present)];
    raise(context, Info::fault(SIGSEGV, code, missing), trap);
}

/// Delivers the signal of a branch that faults because the CPU cannot translate its target `context.pc`. False if the
/// branch completes; the fetch may fault then. The branch is at `from`, or, if that is 0, one by hash, which leaves behind where its copy
/// is.
pub fn branch(context: &mut Context, from: u64) -> bool {
    if is_canonical(context.pc) {
        return false;
    }
    let from = match from {
        0 => origin(context.argument.into()),
        from => Some(from),
    };
    let Some(from) = from else { return false };
    let mut bytes = [0u8; 15];
    let len = target_memory::read_into(from, &mut bytes);
    let insn = Decoder::with_ip(64, &bytes[..len], from, DecoderOptions::NONE).decode();
    // SAFETY: the target was found above not to be canonical; the dispatcher has set `in_rust`.
    let faulted = unsafe { guarded::branch(context.pc, form(&insn)) };
    if !faulted.stack_moved {
        context.cpu.gpr[reg::RSP] = context.cpu.gpr[reg::RSP].wrapping_sub(moved_stack(&insn));
    }
    if !faulted.at_target {
        context.pc = from;
    }
    protection(context);
    true
}

/// The form of a branch, as far as the CPU may distinguish them.
fn form(insn: &Instruction) -> BranchForm {
    let memory = insn.op0_kind() == OpKind::Memory;
    match insn.flow_control() {
        FlowControl::IndirectCall if memory => BranchForm::CallMemory,
        FlowControl::IndirectCall => BranchForm::Call,
        FlowControl::Return if insn.op0_kind() == OpKind::Immediate16 => BranchForm::ReturnRelease,
        FlowControl::Return => BranchForm::Return,
        _ if memory => BranchForm::JumpMemory,
        _ => BranchForm::Jump,
    }
}

/// The target's address of the instruction whose copy is around `at`.
fn origin(at: u64) -> Option<u64> {
    with_translator(|translator| translator.cache.fragment_at(at)?.instruction(at))
}

/// How far a branch moves the stack pointer.
fn moved_stack(insn: &Instruction) -> u64 {
    match insn.flow_control() {
        FlowControl::IndirectCall => 8u64.wrapping_neg(),
        FlowControl::Return if insn.op0_kind() == OpKind::Immediate16 => {
            8 + u64::from(insn.immediate16())
        }
        FlowControl::Return => 8,
        _ => 0,
    }
}

fn protection(context: &mut Context) {
    // It has no address.
    let info = Info::fault(SIGSEGV, SI_KERNEL, 0);
    raise(context, info, [GENERAL_PROTECTION, 0]);
}

fn raise(context: &mut Context, info: Info, trap: [u64; 2]) {
    context.pending = Pending {
        signal: SIGSEGV,
        info,
        trap,
        synchronous: true,
    };
    signal::deliver(context);
}

/// Whether the CPU could translate an address.
pub fn is_canonical(address: u64) -> bool {
    let unused = 64 - address_bits();
    ((address << unused) as i64 >> unused) as u64 == address
}

/// The end of the addresses that a program can have.
fn target_end() -> u64 {
    (1 << (address_bits() - 1)) - crate::memory::PAGE
}

/// Bits of an address that count: more of them with page tables of five levels.
fn address_bits() -> u32 {
    const FOUR_LEVELS: u32 = 48;
    const FIVE_LEVELS: u32 = 57;
    static BITS: AtomicU32 = AtomicU32::new(0);
    let known = BITS.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Leaf 7 exists wherever FSGSBASE does, which the engine needs.
    const LA57: u32 = 1 << 16;
    if __cpuid_count(7, 0).ecx & LA57 == 0 {
        BITS.store(FOUR_LEVELS, Ordering::Relaxed);
        return FOUR_LEVELS;
    }
    let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE;
    let beyond = 1 << (FOUR_LEVELS - 1);
    // SAFETY: NOREPLACE maps only what was free; it is given back at once.
    let raw = unsafe { sys::mmap(beyond, crate::memory::PAGE, 0, flags, -1, 0) };
    if raw == beyond {
        // SAFETY: just mapped, and not used by anything.
        unsafe { sys::munmap(beyond, crate::memory::PAGE) };
    }
    let five = !is_err(raw) || raw == sys::err(errno::EEXIST);
    let bits = if five { FIVE_LEVELS } else { FOUR_LEVELS };
    BITS.store(bits, Ordering::Relaxed);
    bits
}
