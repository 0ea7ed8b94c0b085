//! The dispatcher: what Rust does when generated code cannot continue by itself.

use crate::arch::translator::{fetch_fault, kernel_entry, translate as arch};
use crate::fatal;
use crate::hooks::{self, FIRST_EXIT, Resumption};
use crate::memory::page_down;
use crate::sys::linux::SIGFPE;
use crate::translator::cache::{Cache, EPOCH, TRANSLATOR};
use crate::translator::context::{Context, Exit};
use crate::translator::discoveries::{self, Discovery};
use crate::translator::signal::{self, Pending, SIGSEGV};
use crate::translator::translate::{NotExecutable, Translator};
use crate::translator::{map_lock, space, syscall};
use core::sync::atomic::{Ordering, compiler_fence};

/// Times in a row that a write to code is retried before it is treated as the target's own fault.
const MAX_REPEATS: u32 = 1000;

/// Serves one exit; the gate then resumes the thread from its context.
pub extern "C" fn dispatch(context: &mut Context) {
    context.in_rust = 1;
    context.in_call = 0;
    // After the exit of an instrument a thread returns to the code that it comes from: it has not left that code,
    // whose unit must not be reused.
    if context.exit < FIRST_EXIT {
        context.epoch = EPOCH.load(Ordering::Relaxed);
    }
    if context.stepping != 0 {
        context.cpu.set_single_step(false);
        context.stepping = 0;
    }
    let resumption = if context.exit >= FIRST_EXIT {
        let resumption = hooks::exit(context);
        if resumption == Resumption::AtPc {
            hooks::interrupted(context);
            write_again(context);
        }
        resumption
    } else {
        serve(context);
        Resumption::AtPc
    };
    leave(context, resumption);
}

/// Serves an exit of the translator's own, after which the thread continues at `pc`.
fn serve(context: &mut Context) {
    match context.exit {
        x if x == Exit::Link as u32 => link(context),
        x if x == Exit::Indirect as u32 => indirect(context),
        x if x == Exit::IndirectCall as u32 => indirect_call(context),
        x if x == Exit::Syscall as u32 => syscall::serve(context),
        x if x == Exit::Resync as u32 => hooks::interrupted(context),
        x if x == Exit::Fault as u32 => fault(context),
        x if x == Exit::Stale as u32 => {
            with_translator(|translator| translator.cache.invalidate_instruction(context.pc));
            begin_again(context);
        }
        x if x == Exit::Unsupported as u32 => arch::refuse(context),
        other => fatal::fault(format_args!("unknown exit {other}")),
    }
}

/// Delivers what is pending and finds where to resume.
fn leave(context: &mut Context, resumption: Resumption) {
    // While an instrument's visit is under way there is no boundary: a signal waits until it is over.
    let at_boundary = resumption == Resumption::AtPc;
    loop {
        if at_boundary {
            while pending(context) || signal::take_held(context) {
                signal::deliver(context);
            }
            resume_at_pc(context);
        }
        context.in_rust = 0;
        compiler_fence(Ordering::SeqCst);
        // A signal that arrived in between has only been noted.
        if !pending(context) {
            return;
        }
        if !at_boundary {
            context.stepping = 1;
            context.last_step = 0;
            context.cpu.set_single_step(true);
            return;
        }
        context.in_rust = 1;
    }
}

fn pending(context: &Context) -> bool {
    // SAFETY: a plain read that the compiler may not move: the handler writes the flag.
    unsafe { (&raw const context.pending_flag).read_volatile() != 0 }
}

/// Sets `resume` to the translation of the target's instruction pointer.
fn resume_at_pc(context: &mut Context) {
    loop {
        if kernel_entry::emulate(context) {
            continue;
        }
        let found = with_translator(|translator| {
            if translator.cache.block(context.pc).is_none() {
                discoveries::note(context.pc, Discovery::Direct);
            }
            translator.block(context.pc)
        });
        match found {
            Ok(at) => {
                context.resume = at;
                return;
            }
            // The code may be moving, or about to be mapped.
            Err(NotExecutable) if map_lock::is_unsettled(&mut context.seen_map_generation) => {}
            Err(NotExecutable) => fetch_fault::fetch(context),
        }
    }
}

/// Runs `work` with the translator locked.
pub fn with_translator<R>(work: impl FnOnce(&mut Translator) -> R) -> R {
    let mut guard = TRANSLATOR.lock();
    match guard.as_mut() {
        Some(translator) => work(translator),
        None => fatal::fault(format_args!("the translator is missing")),
    }
}

fn link(context: &mut Context) {
    let number = context.argument;
    let target = with_translator(|translator| {
        let Some((target, call)) = translator
            .cache
            .link(number)
            .map(|link| (link.target, link.call))
        else {
            fatal::fault(format_args!("unknown branch {number}"));
        };
        let entry = if call {
            translator.call_entry(target)
        } else {
            translator.block(target)
        };
        if let Ok(entry) = entry {
            let discovery = if call {
                Discovery::DirectCall
            } else {
                Discovery::Direct
            };
            discoveries::note(target, discovery);
            // Translating may have recycled the unit that the branch was in.
            if let Some(link) = translator.cache.link(number)
                && !link.dead
            {
                Cache::patch(link.at, entry);
            }
        }
        target
    });
    context.pc = target;
}

/// An indirect jump or return to `pc`.
fn indirect(context: &mut Context) {
    let pc = context.pc;
    let from = core::mem::take(&mut context.far_branch);
    if fetch_fault::branch(context, from) {
        return;
    }
    with_translator(|translator| {
        if from != 0 {
            translator.set_far_branch(from);
            discoveries::note(from, Discovery::FarBranch);
        }
        if translator.enter_by_jump(pc) {
            discoveries::note(pc, Discovery::Indirect);
        }
    });
}

fn indirect_call(context: &mut Context) {
    let pc = context.pc;
    with_translator(|translator| translator.enter_by_call(pc));
    discoveries::note(pc, Discovery::IndirectCall);
}

/// The target's instruction at `pc` raised a signal, which may be caused by the engine.
fn fault(context: &mut Context) {
    arch::restore_spilled(context);
    if context.pending.signal == SIGFPE {
        // Its address is that of the instruction, not of an operand.
        context.pending.info.set_address(context.pc);
    }
    hooks::interrupted(context);
    let observed = hooks::fault(context);
    let address = context.pending.info.address();
    let explained = observed || context.pending.signal == SIGSEGV && code_write(context, address);
    if explained {
        context.pending = Pending::none();
        context.pending_flag = 0;
        signal::settle(context);
        begin_again(context);
    }
}

/// An access that an instrument makes for the target may fault on code that is write-protected only because copies
/// of it exist: the instruction is then run again.
fn write_again(context: &mut Context) {
    let pending = &context.pending;
    if pending.synchronous
        && pending.signal == SIGSEGV
        && code_write(context, pending.info.address())
    {
        context.pending = Pending::none();
        context.pending_flag = 0;
        signal::settle(context);
        begin_again(context);
    }
}

/// The thread runs an instruction again. If the target steps through itself, it has already seen this step.
fn begin_again(context: &mut Context) {
    context.skip_trap = context.cpu.single_steps();
}

/// A write to translated code: drops the translations, and the write is repeated.
fn code_write(context: &mut Context, address: u64) -> bool {
    let page = page_down(address);
    let is_write = context.pending.is_write();
    // Repeating is pointless where the target itself has no right to write.
    let again = (context.pc, address) == context.repeated.0;
    context.repeated = (
        (context.pc, address),
        if again { context.repeated.1 + 1 } else { 0 },
    );
    if !is_write
        || context.repeated.1 > MAX_REPEATS
        || !space::SPACE.lock().code_write(address, context.pc)
    {
        return false;
    }
    with_translator(|translator| {
        translator
            .cache
            .invalidate(page, page + crate::memory::PAGE)
    });
    true
}
