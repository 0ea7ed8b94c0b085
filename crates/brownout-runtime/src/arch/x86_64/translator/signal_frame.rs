//! Building the frame of a signal handler, and returning from one.

use crate::arch::translator::cpu::TRAP_FLAG;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::signal_handler::{
    GREG, GREG_ERR, GREG_FLAGS, GREG_RIP, GREG_TRAP, UContext,
};
use crate::hooks;
use crate::sys::linux;
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::signal::action::{SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SIG_DFL, SIG_IGN};
use crate::translator::signal::{AltStack, Info, Pending, SIGSEGV, apply_mask, bit, die};
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicU64, Ordering};

const SS_AUTODISARM: u32 = 1 << 31;
const RESUME_FLAG: u64 = 0x10000;
/// uc_flags: extended state present, SS saved, SS to be restored.
const UC_FLAGS: u64 = 7;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
const LEGACY_AREA: usize = 512;
const SOFTWARE_BYTES: usize = 464;
const TILES: u64 = 3 << 17;
const RED_ZONE: u64 = 128;

/// What the kernel puts on the stack, with the handler's return address first.
#[derive(Clone, Copy)]
#[repr(C)]
struct SignalFrame {
    restorer: u64,
    uc: UContext,
    info: Info,
}

crate::plain_data!(SignalFrame {
    restorer: u64,
    uc: UContext,
    info: Info,
});

/// State components that the CPU and the kernel have enabled.
static FEATURES: AtomicU64 = AtomicU64::new(0);

/// Whether a page fault, given by trap number and error code, was one of writing.
pub fn is_write_fault([_, error]: [u64; 2]) -> bool {
    const WRITE: u64 = 2;
    error & WRITE != 0
}

/// Finds out which components of the CPU's state a signal frame may have.
pub fn find_state_components() {
    let (low, high): (u32, u32);
    // SAFETY: `start` has checked that XSAVE is enabled.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high) };
    FEATURES.store(u64::from(low) | u64::from(high) << 32, Ordering::Relaxed);
}

/// State components that the CPU and the kernel have enabled.
pub fn enabled_state() -> u64 {
    FEATURES.load(Ordering::Relaxed)
}

/// Components to save for this process; tiles only if it asked the kernel for them.
fn features() -> u64 {
    let all = FEATURES.load(Ordering::Relaxed);
    if all & TILES == 0 {
        return all;
    }
    let mut permitted = 0u64;
    const ARCH_GET_XCOMP_PERM: u32 = 0x1022;
    // SAFETY: the kernel writes 8 bytes.
    unsafe {
        crate::sys!(
            linux::__NR_arch_prctl,
            ARCH_GET_XCOMP_PERM,
            &raw mut permitted
        )
    };
    if permitted & TILES == TILES {
        all
    } else {
        all & !TILES
    }
}

/// Size of the standard-format area for a set of components.
pub fn area_size(features: u64) -> usize {
    let mut size = LEGACY_AREA + 64;
    for component in (2..63).filter(|c| features >> c & 1 != 0) {
        let leaf = __cpuid_count(0xd, component);
        size = size.max(leaf.eax as usize + leaf.ebx as usize);
    }
    size
}

/// Delivers the pending signal: the thread continues at the target's handler, or the process ends.
pub fn deliver(context: &mut Context) {
    let pending = context.pending;
    context.pending = Pending::none();
    context.pending_flag = 0;
    let signal = pending.signal;
    let wait_mask = context.wait_mask.take();
    let action = context.actions().get(signal);
    let blocked = pending.synchronous && context.mask & bit(signal) != 0;
    if action.handler == SIG_DFL || (action.handler == SIG_IGN && pending.synchronous) || blocked {
        return default_action(context, &pending);
    }
    if action.handler == SIG_IGN {
        return settle(context);
    }
    if build(
        context,
        &pending,
        action.handler,
        action.restorer,
        action.flags,
    )
    .is_err()
    {
        die(SIGSEGV, context.tid);
    }
    let mut mask = wait_mask.unwrap_or(context.mask) | action.mask;
    if action.flags & SA_NODEFER == 0 {
        mask |= bit(signal);
    }
    context.mask = mask & !(bit(linux::SIGKILL) | bit(linux::SIGSTOP));
    if action.flags & SA_RESETHAND != 0 {
        context.actions().reset(signal);
    }
    hooks::delivered(context);
    settle(context);
}

/// After a signal has been dealt with: the next one if there is, else the mask as the target set it.
pub fn settle(context: &mut Context) {
    if context.postponed.signal != 0 {
        context.pending = context.postponed;
        context.postponed = Pending::none();
        context.pending_flag = 1;
        deliver(context);
    } else {
        apply_mask(context.mask);
    }
}

/// What happens without a handler.
fn default_action(context: &mut Context, pending: &Pending) {
    if pending.synchronous {
        crate::translator::process::about_to_die(context, pending.signal);
        die(pending.signal, context.tid);
    }
    // The action changed while the signal was on its way, or it is one the engine holds: let the
    // kernel apply the default, which may well be to ignore it.
    let signal = pending.signal;
    crate::translator::signal::action::set_default(signal);
    apply_mask(context.mask & !bit(signal));
    // SAFETY: sends a signal to this thread.
    unsafe {
        crate::sys!(
            linux::__NR_tgkill,
            crate::sys::getpid(),
            context.tid,
            signal
        )
    };
    if bit(signal) & crate::translator::signal::NEEDED != 0 {
        crate::translator::signal::action::install(signal, 0);
    }
    settle(context);
}

fn build(
    context: &mut Context,
    pending: &Pending,
    handler: u64,
    restorer: u64,
    flags: u64,
) -> Result<(), target_memory::Fault> {
    let rsp = context.cpu.gpr[reg::RSP];
    let alternate = context.altstack;
    let mut top = rsp.wrapping_sub(RED_ZONE);
    let on_alternate = alternate.holds(rsp);
    if flags & SA_ONSTACK != 0
        && alternate.is_enabled()
        && (!on_alternate || alternate.flags & SS_AUTODISARM != 0)
    {
        top = alternate.start + alternate.size;
    }
    let features = features();
    let size = area_size(features);
    let area = save_state(context, features, size);
    reset_state(context, features);
    let fpstate = top.wrapping_sub(size as u64 + 4) & !63;
    hooks::write(context, fpstate, area)?;
    hooks::write_value(context, fpstate + size as u64, &MAGIC2)?;

    let at = (fpstate.wrapping_sub(size_of::<SignalFrame>() as u64) & !15) - 8;
    let mut stack = alternate;
    stack.flags = stack_flags(&alternate, on_alternate);
    let mut gregs = [0u64; 23];
    for (value, &index) in context.cpu.gpr.iter().zip(&GREG) {
        gregs[index] = *value;
    }
    gregs[GREG_RIP] = context.pc;
    gregs[GREG_FLAGS] = context.cpu.flags | resume_flag(pending);
    // cs 0x33, gs 0, fs 0, ss 0x2b
    gregs[18] = 0x002b_0000_0000_0033;
    gregs[GREG_TRAP] = pending.trap[0];
    gregs[GREG_ERR] = pending.trap[1];
    gregs[21] = context.mask;
    gregs[22] = if pending.synchronous {
        pending.info.address()
    } else {
        0
    };
    let uc = UContext {
        flags: UC_FLAGS,
        link: 0,
        stack,
        gregs,
        fpstate,
        reserved: [0; 8],
        mask: context.mask,
    };
    hooks::write_value(
        context,
        at,
        &SignalFrame {
            restorer,
            uc,
            info: pending.info,
        },
    )?;

    let uc_at = at + core::mem::offset_of!(SignalFrame, uc) as u64;
    context.cpu.gpr[reg::RDI] = u64::from(pending.signal);
    context.cpu.gpr[reg::RSI] = at + core::mem::offset_of!(SignalFrame, info) as u64;
    context.cpu.gpr[reg::RDX] = uc_at;
    context.cpu.gpr[reg::RAX] = 0;
    context.cpu.gpr[reg::RSP] = at;
    // Direction, trap and resume flags are clear in a handler.
    context.cpu.flags &= !(0x400 | TRAP_FLAG | RESUME_FLAG);
    context.pc = handler;
    if alternate.flags & SS_AUTODISARM != 0 {
        context.altstack = AltStack::disabled();
    }
    Ok(())
}

/// The processor sets the resume flag in the flags that it saves at a fault, but not at a trap.
fn resume_flag(pending: &Pending) -> u64 {
    const DEBUG: u64 = 1;
    const BREAKPOINT: u64 = 3;
    const OVERFLOW: u64 = 4;
    if pending.synchronous && ![DEBUG, BREAKPOINT, OVERFLOW].contains(&pending.trap[0]) {
        RESUME_FLAG
    } else {
        0
    }
}

fn stack_flags(stack: &AltStack, in_use: bool) -> u32 {
    let state = if !stack.is_enabled() {
        linux::SS_DISABLE
    } else if in_use {
        linux::SS_ONSTACK
    } else {
        0
    };
    state | stack.flags & SS_AUTODISARM
}

/// Saves the CPU's extended state into the thread's area in the format of a signal frame.
fn save_state(context: &mut Context, features: u64, size: usize) -> &'static mut [u8] {
    let area = context.state_area();
    let header = &mut area[LEGACY_AREA..LEGACY_AREA + 64];
    header.fill(0);
    let xmm = context.cpu.xmm.as_ptr();
    // SAFETY: the area is 64-byte aligned and large enough for all components; XMM0–15 get the
    // program's values back first, the rest of the state was never changed.
    unsafe {
        asm!(
            "movups xmm0, [{x}]", "movups xmm1, [{x} + 16]", "movups xmm2, [{x} + 32]", "movups xmm3, [{x} + 48]",
            "movups xmm4, [{x} + 64]", "movups xmm5, [{x} + 80]", "movups xmm6, [{x} + 96]", "movups xmm7, [{x} + 112]",
            "movups xmm8, [{x} + 128]", "movups xmm9, [{x} + 144]", "movups xmm10, [{x} + 160]", "movups xmm11, [{x} + 176]",
            "movups xmm12, [{x} + 192]", "movups xmm13, [{x} + 208]", "movups xmm14, [{x} + 224]", "movups xmm15, [{x} + 240]",
            "xsave64 [{area}]",
            x = in(reg) xmm, area = in(reg) area.as_mut_ptr(),
            in("eax") features as u32, in("edx") (features >> 32) as u32,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    let software = &mut area[SOFTWARE_BYTES..LEGACY_AREA];
    software.fill(0);
    software[..4].copy_from_slice(&MAGIC1.to_le_bytes());
    software[4..8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
    software[8..16].copy_from_slice(&features.to_le_bytes());
    software[16..20].copy_from_slice(&(size as u32).to_le_bytes());
    &mut area[..size]
}

/// Gives a handler the state that the kernel would: everything initial, protection keys aside.
fn reset_state(context: &mut Context, features: u64) {
    #[repr(C, align(64))]
    struct Initial([u8; LEGACY_AREA + 64]);
    let mut initial = Initial([0; LEGACY_AREA + 64]);
    initial.0[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    const PROTECTION_KEYS: u64 = 1 << 9;
    let features = features & !PROTECTION_KEYS;
    // SAFETY: an aligned area whose header says that every component is initial.
    unsafe {
        asm!(
            "xrstor64 [{}]", in(reg) initial.0.as_ptr(),
            in("eax") features as u32, in("edx") (features >> 32) as u32,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    context.cpu.xmm = [[0; 2]; 16];
}

/// The target's `rt_sigreturn`: takes the state from the frame that the stack pointer points to.
pub fn sigreturn(context: &mut Context) {
    let at = context.cpu.gpr[reg::RSP];
    let Ok(uc) = target_memory::read::<UContext>(at) else {
        die(SIGSEGV, context.tid)
    };
    for (value, &index) in context.cpu.gpr.iter_mut().zip(&GREG) {
        *value = uc.gregs[index];
    }
    context.pc = uc.gregs[GREG_RIP];
    // What a program may change in its flags: arithmetic, trap, direction, alignment check, id.
    const CHANGEABLE: u64 = 0x24_4dd5;
    context.cpu.flags = uc.gregs[GREG_FLAGS] & CHANGEABLE | 0x202;
    // A target that steps through itself is to see the trap after the next instruction, not before.
    context.skip_trap = context.cpu.single_steps();
    if restore_state(context, uc.fpstate).is_err() {
        die(SIGSEGV, context.tid);
    }
    context.mask = uc.mask & !(bit(linux::SIGKILL) | bit(linux::SIGSTOP));
    context.altstack = AltStack {
        flags: uc.stack.flags & SS_AUTODISARM,
        ..uc.stack
    };
    if uc.stack.flags & linux::SS_DISABLE != 0 {
        context.altstack = AltStack::disabled();
    }
    apply_mask(context.mask);
}

fn restore_state(context: &mut Context, fpstate: u64) -> Result<(), target_memory::Fault> {
    let area = context.state_area();
    let features = features();
    if fpstate == 0 {
        area[..LEGACY_AREA + 64].fill(0);
        area[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        area[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    } else {
        let mut software = [0u8; 20];
        if target_memory::read_into(fpstate + SOFTWARE_BYTES as u64, &mut software)
            != software.len()
        {
            return Err(target_memory::Fault);
        }
        let u32_at =
            |at: usize| u32::from_le_bytes(software[at..at + 4].try_into().unwrap_or_default());
        let full = area_size(features);
        let extended = u32_at(0) == MAGIC1 && u32_at(16) as usize == full;
        let size = if extended { full } else { LEGACY_AREA };
        if target_memory::read_into(fpstate, &mut area[..size]) != size {
            return Err(target_memory::Fault);
        }
        if !extended {
            area[LEGACY_AREA..LEGACY_AREA + 64].fill(0);
            area[LEGACY_AREA] = 3;
        }
    }
    // Bits that would make the CPU refuse are cleared, as the kernel does.
    let mut present = [0u8; 8];
    present.copy_from_slice(&area[LEGACY_AREA..LEGACY_AREA + 8]);
    let present = u64::from_le_bytes(present) & features;
    area[LEGACY_AREA..LEGACY_AREA + 8].copy_from_slice(&present.to_le_bytes());
    area[LEGACY_AREA + 8..LEGACY_AREA + 64].fill(0);
    area[26] = 0;
    area[27] = 0;
    let xmm = context.cpu.xmm.as_mut_ptr();
    // SAFETY: the area is aligned and its header was made valid; XMM0–15 then go where the gate
    // expects them.
    unsafe {
        asm!(
            "xrstor64 [{area}]",
            "movups [{x}], xmm0", "movups [{x} + 16], xmm1", "movups [{x} + 32], xmm2", "movups [{x} + 48], xmm3",
            "movups [{x} + 64], xmm4", "movups [{x} + 80], xmm5", "movups [{x} + 96], xmm6", "movups [{x} + 112], xmm7",
            "movups [{x} + 128], xmm8", "movups [{x} + 144], xmm9", "movups [{x} + 160], xmm10", "movups [{x} + 176], xmm11",
            "movups [{x} + 192], xmm12", "movups [{x} + 208], xmm13", "movups [{x} + 224], xmm14", "movups [{x} + 240], xmm15",
            x = in(reg) xmm, area = in(reg) area.as_mut_ptr(),
            in("eax") features as u32, in("edx") (features >> 32) as u32,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    Ok(())
}
