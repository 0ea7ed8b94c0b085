//! Results of system calls, stored into candidates and recorded.

use crate::instruments::events::calling_context;
use crate::instruments::explore;
use crate::instruments::pm::{candidates, intent};
use crate::target_memory;
use crate::translator::context::Context;
use crate::wire::Head;
use brownout_ring::kind;

/// Writes the result of a call that the runtime serves itself, or a signal frame, if it goes to a candidate.
pub fn write(
    context: &mut Context,
    to: u64,
    bytes: &[u8],
) -> Option<Result<(), target_memory::Fault>> {
    if !candidates::any() || !candidates::find(to).is_some_and(|found| found.observes(true)) {
        return None;
    }
    let nr = context.cpu.syscall_number() as u32;
    store(context, nr, to, bytes);
    Some(Ok(()))
}

/// Writes bytes to a candidate or to other memory.
pub fn put(context: &mut Context, to: u64, bytes: &[u8]) -> Result<(), target_memory::Fault> {
    write(context, to, bytes).unwrap_or_else(|| target_memory::write_bytes(to, bytes))
}

/// Stores bytes that the kernel produced.
pub(crate) fn store(context: &mut Context, nr: u32, to: u64, bytes: &[u8]) {
    explore::before_write(to, bytes.len() as u64);
    let caller = calling_context::context_of(context);
    let mut done = 0;
    while done < bytes.len() {
        let at = to + done as u64;
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let piece = &bytes[done..done + len];
        done += len;
        let Some(mapping) = candidates::find(at).filter(|mapping| mapping.observes(true)) else {
            // Behind the mapping: the kernel would have written there, too.
            let _ = target_memory::write_bytes(at, piece);
            continue;
        };
        let stripe = mapping.stripe(at);
        stripe.lock();
        let (tag, alias) = (
            (kind::KERNEL_WRITE, nr as u16),
            at.wrapping_add(mapping.delta),
        );
        intent::store(context, tag, at, alias, len);
        if target_memory::write_bytes(alias, piece).is_ok() {
            record(context, nr, caller, at, piece);
        }
        stripe.unlock();
    }
}

/// Records that the kernel wrote bytes to a candidate.
pub(crate) fn record(context: &mut Context, nr: u32, caller: u32, addr: u64, bytes: &[u8]) {
    let head = Head {
        kind: kind::KERNEL_WRITE,
        flags: nr as u16,
        pc: context.pc,
        context: caller,
        addr,
    };
    context.wire.record(head, &[bytes]);
    context.areas.events.unordered = 1;
}

/// Records what the kernel changed at an alias.
pub(crate) fn record_changes(
    context: &mut Context,
    nr: u32,
    address: u64,
    alias: u64,
    before: &[u8],
) {
    let mut after = alloc::vec![0u8; before.len()];
    target_memory::read_into(alias, &mut after);
    if after == before {
        return;
    }
    let caller = calling_context::context_of(context);
    let mut index = 0;
    while index < before.len() {
        let start = index;
        while index < before.len() && before[index] != after[index] {
            index += 1;
        }
        if index > start {
            record(
                context,
                nr,
                caller,
                address + start as u64,
                &after[start..index],
            );
        }
        index += 1;
    }
}
