//! The calling context of an event.

use crate::arch::translator::guarded;
use crate::instruments::locks;
use crate::instruments::unwind::{
    CodeMap, ContextNumber, ContextTree, Memory, Registers, StackCache, Unwinder, Word,
};
use crate::lock::Lock;
use crate::translator::context::Context;
use crate::translator::space;
use crate::translator::space::ModuleAt;
use crate::wire::{self, Head};
use alloc::boxed::Box;
use alloc::vec::Vec;
use brownout_ring::kind;

/// What the threads of the process share.
struct Shared {
    unwinder: Unwinder,
    tree: ContextTree,
}

static SHARED: Lock<Option<Shared>> = Lock::new(None);

pub fn quiesced<R>(work: impl FnOnce() -> R) -> R {
    let guard = SHARED.lock();
    let result = work();
    drop(guard);
    result
}

struct TargetMemory;

impl Memory for TargetMemory {
    fn read_u64(&self, addr: u64) -> Option<u64> {
        guarded::load(addr)
    }

    fn all_hold(&self, base: u64, words: &[Word]) -> bool {
        guarded::verify(base, words)
    }

    fn slice(&self, addr: u64, len: usize) -> Option<&[u8]> {
        let end = addr.checked_add(len as u64)?;
        let mut page = addr;
        while page < end {
            guarded::load(page & !7)?;
            page = (page & !4095) + 4096;
        }
        // SAFETY: every page was just read; code and unwind tables stay as long as their module does,
        // and a target that unmaps them under a running thread is lost anyway.
        Some(unsafe { core::slice::from_raw_parts(addr as *const u8, len) })
    }
}

struct TargetCode;

impl CodeMap for TargetCode {
    fn epoch(&self) -> u32 {
        space::epoch()
    }

    fn module_at(&self, pc: u64) -> Option<ModuleAt> {
        space::module_at(pc)
    }

    fn is_code(&self, pc: u64) -> bool {
        space::executable_end(pc).is_some()
    }
}

/// The number of the calling context of the instruction at `context.pc`, for an event that is about to be recorded.
pub fn context_of(context: &mut Context) -> u32 {
    locks::settle(context);
    if let Some(stack) = &mut context.areas.events.stack
        && let Some(known) = stack.known(context.pc, &context.cpu.gpr, &TargetMemory, &TargetCode)
    {
        return known.0;
    }
    walk(context)
}

#[cold]
fn walk(context: &mut Context) -> u32 {
    if !wire::is_recording() {
        return ContextNumber::ROOT.0;
    }
    let registers = Registers {
        pc: context.pc,
        gpr: context.cpu.gpr,
    };
    let mut stack = context
        .areas
        .events
        .stack
        .take()
        .unwrap_or_else(|| Box::new(StackCache::new()));
    let id = stack
        .context(&registers, &TargetMemory, &TargetCode)
        .unwrap_or_else(|| {
            let mut new = Vec::new();
            let mut shared = SHARED.lock();
            let shared = shared.get_or_insert_with(|| Shared {
                unwinder: Unwinder::new(),
                tree: ContextTree::new(),
            });
            let id = shared.unwinder.context(
                &registers,
                &TargetMemory,
                &TargetCode,
                &mut stack,
                &mut shared.tree,
                &mut |id: ContextNumber, caller: ContextNumber, address| {
                    new.push((id, caller, address))
                },
            );
            // Still under the lock: others may use the numbers only after they are defined on the wire.
            let intended = context.wire.has_open_intent();
            for (id, caller, address) in new {
                let head = Head {
                    kind: kind::CONTEXT,
                    context: id.0,
                    addr: address,
                    ..Head::default()
                };
                context.wire.record(head, &[&caller.0.to_le_bytes()]);
                if intended {
                    context.wire.renew_intent();
                }
            }
            id
        });
    context.areas.events.memos = stack.memos();
    if context.areas.events.last_memo == 0 {
        context.areas.events.last_memo = context.areas.events.memos;
    }
    context.areas.events.stack = Some(stack);
    id.0
}
