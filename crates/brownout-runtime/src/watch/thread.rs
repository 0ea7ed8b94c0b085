//! The open calls of a thread.
//!
//! A call is open from the first instruction of the function until its return address is taken from the
//! stack. Calls are told apart by where on the stack that address is, so that recursion needs no care.
//! A function may also be left by `longjmp` or by an exception: its call is found dead, and told so,
//! when the thread next enters or leaves a watched function. It is dead if the return address is no
//! longer there, or if the stack has shrunk beyond it. Coroutines leave a stack and come back to it: a
//! call far from the present place on the stack is therefore dead only if its return address is gone.
//!
//! What it can miss: the return of a call whose stack lies within [`NEAR`] below that of another coroutine
//! is told too early, and as being left; that of a call that was jumped out of further away is
//! told late. A function that ends with a jump to another watched one ends when that does; if that goes
//! round in a circle, the earlier calls count as left.

use crate::cache::{CACHE, CACHE_END};
use crate::context::{Context, reg};
use crate::dispatch::with_translator;
use crate::wire::Head;
use crate::{gate, pm};
use alloc::boxed::Box;
use alloc::vec::Vec;
use brownout_ring::kind;
use brownout_ring::watch::MAX_ARGUMENTS;

/// Registers that hold arguments, in order.
const ARGUMENTS: [usize; MAX_ARGUMENTS as usize] =
    [reg::RDI, reg::RSI, reg::RDX, reg::RCX, reg::R8, reg::R9];
/// Bytes of stack that belong together: shorter than any that a coroutine would be given.
const NEAR: u64 = 16 << 10;
/// Open calls from which on all are looked at for dead ones.
const MANY: usize = 4096;
/// Places of return that a thread remembers as watched.
const REMEMBERED: usize = 64;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    function: u32,
    /// Where on the stack the return address is, and the address.
    slot: u64,
    back: u64,
}

impl Open {
    /// Whether the return address is where the call has put it. A return in the cache leaves an address
    /// of the cache behind: it may be that of this call, which is then about to be told.
    fn is_there(&self) -> bool {
        gate::load(self.slot)
            .is_some_and(|word| word == self.back || (CACHE..CACHE_END).contains(&word))
    }

    /// Whether a stack that now ends at `top` has shrunk beyond this call.
    fn is_below(&self, top: u64) -> bool {
        self.slot < top && top - self.slot < NEAR
    }
}

/// What a thread keeps for the instrument.
#[derive(Default)]
pub struct OpenCalls {
    calls: Option<Box<Calls>>,
    /// An instruction that faulted, and the stack pointer then: it will be run again, and is no second
    /// call if it is the first of a function.
    repeated: (u64, u64),
}

struct Calls {
    /// The innermost last.
    open: Vec<Open>,
    /// At how many open calls all are looked at.
    limit: usize,
    watched: [u64; REMEMBERED],
}

impl OpenCalls {
    pub const fn new() -> OpenCalls {
        OpenCalls {
            calls: None,
            repeated: (0, 0),
        }
    }

    /// Notes that the instruction at `pc` faulted before it had done anything.
    pub fn faulted(&mut self, pc: u64, stack: u64) {
        self.repeated = (pc, stack);
    }
}

/// The thread is at the first instruction of a watched function.
pub fn entered(context: &mut Context, function: u32, arguments: usize) {
    let slot = context.gpr[reg::RSP];
    let here = (context.pc, slot);
    if core::mem::take(&mut context.watch.repeated) == here {
        return;
    }
    let back = gate::load(slot);
    for call in close_dead(context, function, slot) {
        record_left(context, &call);
    }
    let mut payload = [0u8; 8 * ARGUMENTS.len()];
    for (bytes, register) in payload.chunks_exact_mut(8).zip(ARGUMENTS) {
        bytes.copy_from_slice(&context.gpr[register].to_le_bytes());
    }
    let size = 8 * arguments.min(ARGUMENTS.len());
    record(context, kind::CALL, function, &payload[..size]);
    let Some(back) = back else { return };
    let calls = open_calls(context);
    calls.open.push(Open {
        function,
        slot,
        back,
    });
    watch_return(calls, back);
}

/// The thread is where a call of a watched function may have returned to.
pub fn returned(context: &mut Context) {
    let (pc, top) = (context.pc, context.gpr[reg::RSP]);
    let Some(calls) = &mut context.watch.calls else {
        return;
    };
    let ended = |call: &Open| call.back == pc && call.slot.wrapping_add(8) == top;
    let Some(innermost) = calls.open.iter().rposition(ended) else {
        return;
    };
    let inner = calls.open.split_off(innermost + 1);
    let outer = calls.open.len();
    let mut dead = Vec::new();
    for call in inner {
        if call.is_below(top) || !call.is_there() {
            dead.push(call);
        } else {
            calls.open.push(call);
        }
    }
    for call in dead.iter().rev() {
        record_left(context, call);
    }
    let mut result = [0u8; 16];
    result[..8].copy_from_slice(&context.gpr[reg::RAX].to_le_bytes());
    result[8..].copy_from_slice(&context.gpr[reg::RDX].to_le_bytes());
    // Functions that ended with a jump to the next return together.
    for at in (0..outer).rev() {
        let calls = open_calls(context);
        if !ended(&calls.open[at]) {
            break;
        }
        let function = calls.open.remove(at).function;
        record(context, kind::RETURN, function, &result);
    }
}

/// Frees what a thread that ends has kept.
pub fn left_thread(context: &mut Context) {
    context.watch = OpenCalls::new();
}

/// Takes out the calls that are dead when `function` is entered with its return address at `slot`.
fn close_dead(context: &mut Context, function: u32, slot: u64) -> Vec<Open> {
    let mut dead = Vec::new();
    let Some(calls) = &mut context.watch.calls else {
        return dead;
    };
    while let Some(call) = calls
        .open
        .pop_if(|call| call.is_below(slot) || !call.is_there())
    {
        dead.push(call);
    }
    // Calls with the same place of return: either each jumped to the next, or the first was left and made
    // again.
    let together = calls
        .open
        .iter()
        .rev()
        .take_while(|call| call.slot == slot)
        .count();
    let first = calls.open.len() - together;
    let again = calls.open[first..]
        .iter()
        .position(|call| call.function == function);
    if let Some(again) = again {
        dead.extend(calls.open.drain(first + again..).rev());
    }
    if calls.open.len() >= calls.limit {
        calls.open.retain(|call| {
            let alive = call.is_there();
            if !alive {
                dead.push(*call);
            }
            alive
        });
        calls.limit = MANY.max(2 * calls.open.len());
    }
    dead
}

fn open_calls(context: &mut Context) -> &mut Calls {
    context.watch.calls.get_or_insert_with(|| {
        Box::new(Calls {
            open: Vec::new(),
            limit: MANY,
            watched: [0; REMEMBERED],
        })
    })
}

/// Makes sure that returns to `back` are seen.
fn watch_return(calls: &mut Calls, back: u64) {
    let remembered = &mut calls.watched[(back >> 1) as usize % REMEMBERED];
    if *remembered == back {
        return;
    }
    *remembered = back;
    with_translator(|translator| {
        if translator.watches.return_at(back) {
            translator.cache.invalidate_instruction(back);
        }
    });
}

fn record_left(context: &mut Context, call: &Open) {
    record(context, kind::RETURN, call.function, &[]);
}

fn record(context: &mut Context, kind: u16, function: u32, payload: &[u8]) {
    let head = Head {
        kind,
        flags: 0,
        pc: context.pc,
        context: pm::context_of(context),
        addr: u64::from(function),
    };
    context.wire.record_short(head, payload);
}
