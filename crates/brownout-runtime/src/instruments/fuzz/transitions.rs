//! Transitions between operations on persistent memory: which one a thread makes after which other, and how often (PMFuzz, ASPLOS'21,
//! §4.2).
//!
//! Unlike PMFuzz, which adds identities up in a map of 64 KiB with counts of one byte, transitions are distinguished exactly, and counts
//! have 32 bits.
//!
//! The identity of an operation is that of its instruction. In a library it is that of the instruction together with the last call that the
//! thread has made outside of libraries: otherwise all copies by `memcpy` would be one operation.
//!
//! What it can miss: after a library has called the program back, the last call outside of libraries is one of the callback. Threads that
//! run at the same time may lose counts; under a schedule they do not.

use super::identity::{CodeIdentity, Role, spread_bits};
use super::page::page;
use super::sites::{self, FuzzSite, SiteKind};
use crate::translator::context::Context;
use brownout_ring::fuzz::{FuzzPage, MOST_TRANSITIONS, OPERATIONS, TRANSITIONS, operation};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Counts the operation at a site.
pub fn note(context: &mut Context, site: &FuzzSite) {
    let Some(page) = page() else { return };
    let area = &mut context.areas.fuzz;
    let caller = match site.place.role {
        Role::Program => None,
        _ => (area.caller as u32).checked_sub(1).map(sites::get),
    };
    let identity = match &caller {
        Some(caller) => spread_bits(site.place.identity ^ caller.place.identity.rotate_left(17)),
        None => site.place.identity,
    };
    let from = core::mem::replace(&mut area.previous, identity);
    if count(page, from, identity) {
        add_operation(page, identity, site, caller.as_ref());
    }
}

/// Counts a system call that makes stores durable. Its place is that of the last call outside of libraries.
pub fn note_sync(context: &mut Context, nr: u32) {
    let caller = (context.areas.fuzz.caller as u32).checked_sub(1);
    let Some(caller) = caller.map(sites::get) else {
        return;
    };
    let place = CodeIdentity {
        identity: spread_bits(caller.place.identity ^ spread_bits(u64::from(nr))),
        role: Role::Program,
        ..caller.place
    };
    note(context, &FuzzSite { place, ..caller });
}

/// Counts a transition. Returns whether it is the first one of its kind in this execution.
fn count(page: &FuzzPage, from: u64, to: u64) -> bool {
    let execution = page.execution.load(Relaxed);
    let first = spread_bits(from ^ to.rotate_left(32)) as usize;
    for probe in 0..TRANSITIONS {
        let index = (first + probe) % TRANSITIONS;
        let entry = &page.transitions[index];
        if entry.execution.load(Relaxed) != execution {
            return begin(page, index, from, to, execution);
        }
        if entry.from.load(Relaxed) == from && entry.to.load(Relaxed) == to {
            let count = entry.count.load(Relaxed);
            entry.count.store(count.saturating_add(1), Relaxed);
            return false;
        }
    }
    false
}

/// Makes an entry one of this execution.
fn begin(page: &FuzzPage, index: usize, from: u64, to: u64, execution: u32) -> bool {
    let used = page.transition_count.load(Relaxed);
    if used as usize >= MOST_TRANSITIONS {
        page.lost_transitions.fetch_add(1, Relaxed);
        return false;
    }
    let entry = &page.transitions[index];
    entry.from.store(from, Relaxed);
    entry.to.store(to, Relaxed);
    entry.count.store(1, Relaxed);
    entry.execution.store(execution, Relaxed);
    page.used_transitions[used as usize].store(index as u32, Relaxed);
    page.transition_count.store(used + 1, Release);
    true
}

/// Keeps where an operation is, for whoever wants to show it.
fn add_operation(page: &FuzzPage, identity: u64, site: &FuzzSite, caller: Option<&FuzzSite>) {
    for probe in 0..OPERATIONS {
        let entry = &page.operations[(identity as usize + probe) % OPERATIONS];
        match entry.identity.load(Acquire) {
            0 => {
                entry.module.store(site.place.module, Relaxed);
                entry.offset.store(site.place.offset, Relaxed);
                let kind = match site.kind {
                    SiteKind::Load => operation::LOAD,
                    SiteKind::Store => operation::STORE,
                    SiteKind::Flush => operation::FLUSH,
                    SiteKind::Fence => operation::FENCE,
                    _ => operation::CALL,
                };
                entry.kind.store(kind, Relaxed);
                let module = caller.map_or(u32::MAX, |caller| caller.place.module);
                let offset = caller.map_or(0, |caller| caller.place.offset);
                entry.caller_module.store(module, Relaxed);
                entry.caller_offset.store(offset, Relaxed);
                entry.identity.store(identity, Release);
                return;
            }
            known if known == identity => return,
            _ => {}
        }
    }
}
