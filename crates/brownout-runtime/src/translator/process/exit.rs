//! Ends of threads and processes.

use crate::arch::translator::thread_pointer;
use crate::hooks;
use crate::sys;
use crate::sys::linux;
use crate::translator::context::Context;
use crate::translator::process::{THREADS, blocks, is_vfork_child, unregister};
use crate::wire::Head;
use brownout_ring::kind;

/// The target's `exit`: ends the thread.
pub fn exit_thread(context: &mut Context, status: u64) -> ! {
    if is_vfork_child() || THREADS.lock().len() == 1 {
        exit_process(context, status, false);
    }
    context.wire.record(
        Head {
            kind: kind::THREAD_EXIT,
            addr: thread_pointer::current(),
            ..Head::default()
        },
        &[],
    );
    context.wire.close();
    sys::set_mask(!0);
    hooks::thread_left(context);
    let this = &raw mut *context;
    unregister(this);
    blocks::leave(this as u64, status)
}

/// The target's `exit_group`, or `exit` by the last thread.
pub fn exit_process(context: &mut Context, status: u64, group: bool) -> ! {
    if is_vfork_child() {
        context.wire.close();
    } else {
        // No other thread may be between a store and its record.
        hooks::stop();
        context.wire.record(
            Head {
                kind: kind::PROCESS_EXIT,
                addr: status,
                ..Head::default()
            },
            &[],
        );
        context.wire.end();
    }
    if group {
        sys::exit_group(status);
    }
    loop {
        // SAFETY: does not return.
        unsafe { crate::sys!(linux::__NR_exit, status) };
    }
}

/// The process is about to be ended by a signal of its own making.
pub fn about_to_die(context: &mut Context, signal: u32) {
    if is_vfork_child() {
        return;
    }
    hooks::stop();
    let head = Head {
        kind: kind::PROCESS_EXIT,
        flags: signal as u16,
        ..Head::default()
    };
    context.wire.record(head, &[]);
}
