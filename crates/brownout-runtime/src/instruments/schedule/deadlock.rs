//! Deadlocks: every thread of the process waits for one of the others, so that none can ever run again. The process is ended.
//!
//! Only what is certain is one. Not recognised: deadlocks of several processes, those in which a thread waits in the kernel (mutexes
//! with priority inheritance, locks of files, descriptors) or for a lock in a mapped file that other processes may map, and those of
//! programs that handle signals or use timers, because a handler could end a wait.

use super::switch::awaits_outside;
use super::turns::{State, Turns};
use crate::instruments::pm::candidates;
use crate::sys::linux;
use crate::translator::context::Context;
use crate::translator::process::about_to_die;
use crate::translator::signal::{self, action};
use crate::wire;

/// Signals whose handlers end no wait: those of faults, and those that threads of the C library send each other.
const NEVER_AWAITED: [u32; 9] = [
    linux::SIGILL,
    linux::SIGTRAP,
    linux::SIGABRT,
    linux::SIGBUS,
    linux::SIGFPE,
    linux::SIGSEGV,
    linux::SIGSYS,
    32,
    33,
];

/// Whether nothing can end the wait of any thread.
pub fn is_certain(context: &Context, turns: &Turns) -> bool {
    let waits_for_thread = |state: &State| match state {
        State::Waiting(wait) => {
            let is_mapped_by_others = wait.shared && candidates::find(wait.word).is_some();
            wait.word != 0 && wait.deadline.is_none() && !is_mapped_by_others
        }
        _ => false,
    };
    !awaits_outside(turns)
        && turns.threads.iter().all(|it| waits_for_thread(&it.state))
        && !handles_signals(context)
}

/// Whether the target has a handler for a signal that somebody may send.
fn handles_signals(context: &Context) -> bool {
    let actions = context.actions();
    let mut signals = (1..=64).filter(|signal| !NEVER_AWAITED.contains(signal));
    signals.any(|signal| {
        let handler = actions.get(signal).handler;
        handler != action::SIG_DFL && handler != action::SIG_IGN
    })
}

/// Reports the deadlock and ends the process.
pub fn end_process(context: &mut Context, threads: usize) -> ! {
    wire::note_deadlock(threads as u32);
    about_to_die(context, linux::SIGKILL);
    signal::die(linux::SIGKILL, context.tid)
}
