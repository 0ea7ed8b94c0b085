//! The note of what a thread is about to store. A thread that is killed between a store and its record leaves
//! enough behind for the recorder to complete the trace ([`brownout_ring::Intent`]).
//!
//! An intent is noted under the lock of the access, so that the old content of memory is known. It is void as soon
//! as the thread publishes anything. For a non-temporal store the value is noted instead: reading what it
//! replaces would bring that into the cache.
//!
//! What it can miss: what the kernel was writing by itself for a system call, and bytes beyond
//! [`brownout_ring::MAX_INTENT`] of one instruction.

use super::site::site;
use crate::arch::translator::guarded;
use crate::translator::context::Context;
use brownout_ring::{Intent, MAX_INTENT, evidence, kind};

/// Notes the access that the thread is about to make at `context.areas.events.memory`.
pub(crate) fn access(context: &mut Context, size: u64) {
    let site = &site(context.argument);
    let from = match u32::from(site.plan.evidence) {
        evidence::NONE => return,
        evidence::VALUE => context.areas.events.payload_address(),
        _ => context.areas.events.memory,
    };
    let intent = Intent {
        at: Intent::VOID,
        addr: context.areas.events.address,
        pc: site.pc,
        size: size as u32,
        kind: kind::STORE,
        flags: site.plan.flags,
        evidence: site.plan.evidence.into(),
    };
    note(context, intent, from);
}

/// Notes that the runtime is about to store `size` bytes at `addr`, which is at `alias`, for the instruction at
/// `context.pc`; with `kind` and `flags` of the record that will follow.
pub(crate) fn store(
    context: &mut Context,
    (kind, flags): (u16, u16),
    addr: u64,
    alias: u64,
    size: usize,
) {
    let intent = Intent {
        at: Intent::VOID,
        addr,
        pc: context.pc,
        size: size as u32,
        kind,
        flags,
        evidence: evidence::BEFORE_PARTS,
    };
    note(context, intent, alias);
}

fn note(context: &mut Context, intent: Intent, from: u64) {
    let (place, at) = (context.wire.intent as *mut Intent, context.wire.head);
    if place.is_null() {
        return;
    }
    let size = intent.size.min(MAX_INTENT as u32);
    // SAFETY: the slot's own intent, mapped as long as the slot is the thread's, with room for as many bytes.
    unsafe {
        place.write_volatile(Intent { size, ..intent });
        if guarded::copy(place.add(1) as u64, from, size.into()) == 0 {
            (&raw mut (*place).at).write_volatile(at);
        }
    }
}

/// Withdraws the note: the access was not made, or stored nothing.
pub(crate) fn withdraw(context: &mut Context) {
    let place = context.wire.intent as *mut Intent;
    if !place.is_null() {
        // SAFETY: as in `note`.
        unsafe { (&raw mut (*place).at).write_volatile(Intent::VOID) };
    }
}
