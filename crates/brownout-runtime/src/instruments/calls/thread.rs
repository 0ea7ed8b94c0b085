//! The open calls of a thread.
//!
//! A call is open from the first instruction of the function until its return address is taken from the
//! stack. Calls are distinguished by where on the stack that address is, which covers recursion. A function
//! may also be left by `longjmp` or by an exception: its call is found dead, and recorded as left, when the
//! thread next enters or leaves a watched function. A call is dead if its return address is no longer there,
//! or if the stack has shrunk beyond it. Coroutines leave a stack and come back to it: a call far from the
//! current stack pointer is therefore dead only if its return address is gone.
//!
//! A call before the process has mapped a candidate for persistent memory is recorded without its callers.
//!
//! What it can miss: a call whose stack lies just below that of another coroutine is recorded as left too early;
//! a call that was left by a jump from further away is recorded as left late. A function that ends with a jump
//! to another watched function ends when that one does; if these jumps form a cycle, the earlier calls count as
//! left.

use crate::arch::translator::guarded;
use crate::instruments::Registered;
use crate::instruments::calls::WatchedCalls;
use crate::instruments::calls::open_calls::Open;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::instruments::unwind::ContextNumber;
use crate::plain_data::PlainData;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::wire::Head;
use alloc::vec::Vec;
use brownout_ring::kind;

/// The thread is at the first instruction of a watched function, whose arguments take `size` bytes.
pub fn entered(context: &mut Context, function: u32, size: usize) {
    let slot = context.cpu.stack_pointer();
    if context.areas.calls.open.is_repeated(context.pc, slot) {
        return;
    }
    let back = guarded::load(slot);
    for call in close_dead(context, function, slot) {
        record_left(context, &call);
    }
    let arguments = context.cpu.call_arguments();
    record(context, kind::CALL, function, &arguments.as_bytes()[..size]);
    let Some(back) = back else { return };
    let call = Open {
        slot,
        back,
        function,
        return_borrows: 0,
    };
    context.areas.calls.open.edit(|open| open.push(call));
    if context.areas.calls.open.remember(back) {
        observe_return(back);
    }
}

/// The thread is where a call of a watched function may have returned to.
pub fn returned(context: &mut Context) {
    let (pc, top) = (context.pc, context.cpu.stack_pointer());
    let ended = |call: &Open| call.back == pc && call.slot.wrapping_add(8) == top;
    // The calls that were left, and how many are open outside of them.
    let found = context.areas.calls.open.edit(|open| {
        let innermost = open.iter().rposition(ended)?;
        let inner = open.split_off(innermost + 1);
        let outer = open.len();
        let mut dead = Vec::new();
        for call in inner {
            if call.is_below(top) || !call.is_there() {
                dead.push(call);
            } else {
                open.push(call);
            }
        }
        Some((dead, outer))
    });
    let Some((dead, outer)) = found else { return };
    for call in dead.iter().rev() {
        record_left(context, call);
    }
    let results = context.cpu.call_results();
    // Functions that ended with a jump to the next return together.
    for at in (0..outer).rev() {
        let call = context
            .areas
            .calls
            .open
            .edit(|open| ended(&open[at]).then(|| open.remove(at)));
        let Some(call) = call else { break };
        record(context, kind::RETURN, call.function, results.as_bytes());
    }
}

/// Takes out the calls that are dead when `function` is entered with its return address at `slot`.
fn close_dead(context: &mut Context, function: u32, slot: u64) -> Vec<Open> {
    let mut dead = Vec::new();
    context.areas.calls.open.edit(|open| {
        while let Some(call) = open.pop_if(|call| call.is_below(slot) || !call.is_there()) {
            dead.push(call);
        }
        // Calls with the same place of return: either each jumped to the next, or the first was left and
        // made again.
        let together = open.iter().rev().take_while(|call| call.slot == slot);
        let first = open.len() - together.count();
        let again = open[first..]
            .iter()
            .position(|call| call.function == function);
        if let Some(again) = again {
            dead.extend(open.drain(first + again..).rev());
        }
    });
    context.areas.calls.open.thin_out(&mut dead);
    dead
}

/// Observes returns to `back`.
fn observe_return(back: u64) {
    with_translator(|translator| translator.observe(WatchedCalls::NUMBER, back));
}

fn record_left(context: &mut Context, call: &Open) {
    record(context, kind::RETURN, call.function, &[]);
}

fn record(context: &mut Context, kind: u16, function: u32, payload: &[u8]) {
    // Every process calls `exit`. Most never map a candidate, and are spared what an unwinder needs.
    let calling_context = if candidates::any() {
        calling_context::context_of(context)
    } else {
        ContextNumber::ROOT.0
    };
    let head = Head {
        kind,
        flags: 0,
        pc: context.pc,
        context: calling_context,
        addr: u64::from(function),
    };
    context.wire.record_short(head, payload);
}
