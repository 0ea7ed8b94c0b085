//! The runtime's signal handler: brings the thread to where the signal can be delivered.
//!
//! It allocates nothing, prints nothing and takes only the translator's lock, which this thread cannot
//! hold while it is in generated code.

use crate::arch::translator::cpu::TRAP_FLAG;
use crate::arch::translator::cpu::reg;
use crate::arch::translator::gate::GateLocation;
use crate::arch::translator::{fetch_fault, gate, guarded};
use crate::fatal;
use crate::hooks::{self, MisalignedLoad};
use crate::sys::linux;
use crate::translator::cache::{CACHE, CACHE_END, Repair, TRANSLATOR};
use crate::translator::context::Context;
use crate::translator::signal::{Info, Pending, SIGBUS, SIGSEGV, SIGTRAP, action, name};
use core::arch::naked_asm;

/// Indexes of registers in `ucontext_t`'s `gregs`, in the order of `Context::gpr`.
pub(crate) const GREG: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
pub(crate) const GREG_RIP: usize = 16;
pub(crate) const GREG_FLAGS: usize = 17;
pub(crate) const GREG_ERR: usize = 19;
pub(crate) const GREG_TRAP: usize = 20;
/// Numbers of exceptions.
const PAGE_FAULT: u64 = 14;
const ALIGNMENT_CHECK: u64 = 17;

/// `ucontext_t` of x86-64.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UContext {
    pub flags: u64,
    pub link: u64,
    pub stack: crate::translator::signal::AltStack,
    pub gregs: [u64; 23],
    pub fpstate: u64,
    pub reserved: [u64; 8],
    pub mask: u64,
}

crate::plain_data!(UContext {
    flags: u64,
    link: u64,
    stack: crate::translator::signal::AltStack,
    gregs: [u64; 23],
    fpstate: u64,
    reserved: [u64; 8],
    mask: u64,
});

/// Address of the handler's entry for `rt_sigaction`.
pub fn entry() -> u64 {
    handle_entry as *const () as u64
}

/// The kernel clears the direction flag but not the alignment-check flag.
#[unsafe(naked)]
extern "C" fn handle_entry() {
    naked_asm!("pushfq", "and dword ptr [rsp], ~0x40000", "popfq", "sub rsp, 8", "call {}", "add rsp, 8", "ret", sym handle)
}

/// Gives the thread its signal stack and, the first time, the process its handlers.
pub fn install_for_thread(context: &Context) {
    let stack = crate::translator::signal::AltStack {
        start: context.block.signal_stack,
        flags: 0,
        pad: 0,
        size: Context::SIGNAL_STACK,
    };
    // SAFETY: the stack is the thread's own and lives as long as the thread.
    unsafe { crate::sys!(linux::__NR_sigaltstack, &raw const stack, 0) };
}

extern "C" fn handle(signal: u32, info: *const Info, ucontext: *mut UContext) {
    // SAFETY: GS is the thread's context: signals are blocked until it is set. The interrupted code
    // may hold a reference to it, but only this handler touches the fields it changes.
    let context = unsafe { Context::current() };
    // SAFETY: the kernel passes valid pointers.
    let (info, uc) = unsafe { (&*info, &mut *ucontext) };
    let rip = uc.gregs[GREG_RIP];
    if signal == SIGTRAP && uc.gregs[GREG_TRAP] == 1 && context.stepping != 0 {
        stepped(context, uc, rip);
        return;
    }
    if signal == SIGTRAP && uc.gregs[GREG_TRAP] == 1 && info.code() > 0 {
        // The target steps through itself: it sees its own instructions only.
        if in_cache(rip)
            && boundary(context, uc, rip).is_some()
            && !core::mem::take(&mut context.skip_trap)
        {
            fault(context, uc, signal, info);
        } else if context.in_rust != 0 && !in_cache(rip) {
            uc.gregs[GREG_FLAGS] &= !TRAP_FLAG;
        } else if gate::location(rip) == GateLocation::SyscallAfter {
            // The call and the instruction after it are one step.
            context.skip_trap = true;
        }
        return;
    }
    if action::is_synchronous(signal, info) {
        if (CACHE..CACHE_END).contains(&rip) || (signal == SIGTRAP && in_cache(rip - 1)) {
            return fault(context, uc, signal, info);
        }
        if let GateLocation::Guarded(fault) = gate::location(rip) {
            uc.gregs[GREG_RIP] = fault;
            return;
        }
        if context.in_rust != 0 && !fetch_fault::is_canonical(rip) {
            // Only a branch made to learn what the CPU does gets there.
            uc.gregs[GREG_RIP] = guarded::branch_taken();
            return;
        }
        if uc.gregs[GREG_TRAP] == ALIGNMENT_CHECK
            && let Some(load) = hooks::misaligned_load(rip)
        {
            return load_misaligned(uc, &load);
        }
        if signal == SIGSEGV || signal == SIGBUS || rip >> 40 == 0x31 {
            fatal::fault(format_args!(
                "{} at {rip:#x}, address {:#x}, while the program was near {:#x}",
                name(signal),
                info.address(),
                context.pc
            ));
        }
    }
    if crate::translator::signal::bit(signal) & crate::translator::signal::NEEDED != 0
        && (context.pending.signal != 0
            || context.mask & crate::translator::signal::bit(signal) != 0)
    {
        // Sent by a process, and not deliverable now. The kernel cannot keep it, because the engine needs it
        // unblocked.
        crate::translator::signal::hold(context, signal, info);
        return;
    }
    if context.pending.signal != 0 {
        // The other one came just before the thread, in Rust code, let signals in again. The kernel keeps
        // this one until the other is delivered.
        crate::translator::signal::send_again(context, signal, info);
        uc.mask = !crate::translator::signal::NEEDED;
        return;
    }
    context.pending = Pending {
        signal,
        info: *info,
        trap: [0; 2],
        synchronous: false,
    };
    context.pending_flag = 1;
    uc.mask = !crate::translator::signal::NEEDED;
    approach_boundary(context, uc);
}

fn in_cache(rip: u64) -> bool {
    (CACHE..CACHE_END).contains(&rip)
}

/// Sends the thread to the dispatcher if it is at a boundary, or one step further.
fn approach_boundary(context: &mut Context, uc: &mut UContext) {
    let rip = uc.gregs[GREG_RIP];
    if let Some(pc) = boundary(context, uc, rip) {
        uc.gregs[GREG_FLAGS] &= !TRAP_FLAG;
        context.stepping = 0;
        context.pc = pc;
        uc.gregs[GREG_RIP] = gate::resync();
        return;
    }
    let in_rust = context.in_rust != 0 && !in_cache(rip);
    match gate::location(rip) {
        GateLocation::NativeBefore => uc.gregs[GREG_RIP] = gate::native_abort(),
        // The dispatcher delivers on its way out.
        _ if in_rust => {}
        _ => {
            context.stepping = 1;
            context.last_step = rip;
            uc.gregs[GREG_FLAGS] |= TRAP_FLAG;
            // On its way out of the gate the thread loads its flags from here; on its way in, the
            // dispatcher takes the trap flag out again.
            context.cpu.flags |= TRAP_FLAG;
        }
    }
}

/// The target's instruction pointer, if its state is all in the registers.
fn boundary(context: &Context, uc: &mut UContext, rip: u64) -> Option<u64> {
    match gate::location(rip) {
        GateLocation::SyscallStart => return Some(uc.gregs[GREG[reg::RCX]] - 2),
        GateLocation::SyscallBefore => return Some(context.next_pc - 2),
        GateLocation::SyscallAfter => {
            uc.gregs[GREG[reg::RCX]] = context.next_pc;
            return Some(context.next_pc);
        }
        _ => {}
    }
    if !in_cache(rip) {
        return None;
    }
    TRANSLATOR
        .lock()
        .as_ref()?
        .cache
        .fragment_at(rip)?
        .exact(rip)
}

/// A single step towards a boundary is done.
fn stepped(context: &mut Context, uc: &mut UContext, rip: u64) {
    // pushfq must not show that the trap flag was set.
    if in_cache(context.last_step) {
        // SAFETY: an address in the code cache.
        let opcode = unsafe { *(context.last_step as *const u8) };
        let stack = uc.gregs[GREG[reg::RSP]];
        if opcode == 0x9c {
            // SAFETY: the step has just pushed there.
            unsafe { *(stack as *mut u64) &= !TRAP_FLAG };
        }
    }
    context.last_step = rip;
    if context.in_rust != 0 && !in_cache(rip) {
        // The dispatcher ends the stepping: it knows the flags that were saved meanwhile.
        uc.gregs[GREG_FLAGS] &= !TRAP_FLAG;
        return;
    }
    if context.pending.signal == 0 {
        context.stepping = 0;
        uc.gregs[GREG_FLAGS] &= !TRAP_FLAG;
        return;
    }
    approach_boundary(context, uc);
}

/// Makes a load of the instrument's assembly, which the alignment-check flag of the target forbids.
fn load_misaligned(uc: &mut UContext, load: &MisalignedLoad) {
    let from = uc.gregs[GREG[reg::RSI]] as *const u8;
    let mut word = [0u8; 8];
    // SAFETY: the assembly was about to load as many bytes from there; the flag is clear in here.
    unsafe { core::ptr::copy_nonoverlapping(from, word.as_mut_ptr(), load.size) };
    uc.gregs[GREG[reg::RAX]] = u64::from_le_bytes(word);
    uc.gregs[GREG_RIP] = load.next;
}

/// An instruction of the target faulted: puts its registers right and lets the dispatcher decide.
fn fault(context: &mut Context, uc: &mut UContext, signal: u32, info: &Info) {
    let rip = uc.gregs[GREG_RIP];
    let translator = TRANSLATOR.lock();
    let Some(fragment) = translator.as_ref().and_then(|t| t.cache.fragment_at(rip)) else {
        fatal::fault(format_args!("{} in unknown code at {rip:#x}", name(signal)));
    };
    let trapped = signal == SIGTRAP;
    let (pc, repair) = match fragment.special(rip) {
        Some((pc, repair)) => (pc, Some(repair)),
        None if trapped && uc.gregs[GREG_TRAP] == 1 => (fragment.exact(rip).unwrap_or(0), None),
        // A breakpoint leaves the instruction pointer behind itself.
        None if trapped => (
            fragment
                .exact(rip)
                .unwrap_or(fragment.instruction(rip - 1).unwrap_or(0) + 1),
            None,
        ),
        None => (fragment.instruction(rip).unwrap_or(0), None),
    };
    drop(translator);
    let mut info = *info;
    if info.address() == rip {
        info.set_address(pc);
    }
    let rcx = GREG[reg::RCX];
    match repair {
        None => {}
        Some(Repair::Scratch(scratch)) => {
            uc.gregs[GREG[usize::from(scratch)]] = context.cpu.spill_scratch
        }
        Some(Repair::Pushed) => uc.gregs[GREG[reg::RSP]] += 8,
        Some(Repair::PushedSpilled) => {
            uc.gregs[GREG[reg::RSP]] += 8;
            uc.gregs[rcx] = context.cpu.spill_rcx;
        }
        Some(Repair::Popped(extra)) => {
            uc.gregs[GREG[reg::RSP]] -= 8 + u64::from(extra);
            uc.gregs[rcx] = context.cpu.spill_rcx;
        }
        Some(Repair::Lookup) => {
            // The branch itself is fine: its target is beyond the table.
            context.far_branch = pc;
            uc.gregs[GREG_RIP] = gate::indirect();
            return;
        }
        Some(Repair::Moved(scratch)) => {
            uc.gregs[GREG[usize::from(scratch)]] = context.cpu.spill_scratch;
            let is_page_fault = uc.gregs[GREG_TRAP] == PAGE_FAULT;
            hooks::undo_access(context, is_page_fault, &mut info);
        }
    }
    if context.pending.signal != 0 {
        // An asynchronous signal was on its way. The fault comes first; the kernel sends the other one
        // again when asked.
        context.postponed = context.pending;
    }
    context.pending = Pending {
        signal,
        info,
        trap: [uc.gregs[GREG_TRAP], uc.gregs[GREG_ERR]],
        synchronous: true,
    };
    context.pending_flag = 1;
    if context.stepping != 0 {
        context.stepping = 0;
        uc.gregs[GREG_FLAGS] &= !TRAP_FLAG;
    }
    context.pc = pc;
    uc.mask = !crate::translator::signal::NEEDED;
    uc.gregs[GREG_RIP] = gate::fault();
}
