//! Accesses to candidates: the lookup before, the record after, and faults.

use super::order::flush_delta;
use super::site::{PmSite, SiteKind, site};
use super::stripes::{Stripe, lock_all, unlock_all};
use super::{PersistentMemory, PmArea, candidates, intent, split};
use crate::arch::instruments::pm::register_area;
use crate::fatal;
use crate::instruments::events::calling_context;
use crate::instruments::explore;
use crate::instruments::{Registered, Resumption};
use crate::memory::PAGE;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::translator::map_lock;
use crate::translator::signal::{Info, SIGSEGV};
use crate::wire::Head;
use brownout_ring::{fence, kind, store};

/// In `PmArea::second_stripe`: the access holds all stripes.
const ALL: u64 = 1;
/// Bytes of one record of a long store.
const PIECE: usize = 4096;

/// Looks up an address in the hull: sets `EventArea::memory` to its alias and takes the locks, or finds that it is
/// no candidate. Resumes at `pc` if the access cannot be made: then a signal is pending.
pub fn access_lookup(context: &mut Context) -> Resumption {
    let site = &site(context.argument);
    let write = site.kind != SiteKind::Load;
    let address = context.areas.events.address;
    let size = extent(context, site);
    explore_access(context, site, address, size);
    let Some(mapping) = candidates::find(address).filter(|mapping| mapping.observes(write)) else {
        if split::ends_in_candidate(address, size, write) {
            context.pc = site.pc;
            return split::begin(context, site, size);
        }
        let (start, end) = candidates::gap(address);
        // A candidate that is not observed for this access is left alone, but not remembered as a gap.
        if (start..end).contains(&address) {
            context.areas.pm.gap_start = start;
            context.areas.pm.gap_len = end - start;
        }
        context.areas.events.memory = address;
        context.areas.events.lock = 0;
        context.areas.pm.second_stripe = 0;
        return Resumption::InPlace;
    };
    if address + size > mapping.end {
        context.pc = site.pc;
        return split::begin(context, site, size);
    }
    let near = match explore::is_active() {
        true => explore::settled(&mapping, address),
        false => mapping.start..mapping.end,
    };
    context.areas.pm.near_start = near.start;
    context.areas.pm.near_len = near.end - near.start;
    // What is mapped here may have changed.
    context.areas.pm.lockset.renew();
    context.areas.pm.near_delta = mapping.delta;
    context.areas.pm.near_stripe = mapping.stripe_delta();
    context.areas.pm.flush_delta = flush_delta(mapping.delta);
    context.areas.events.memory = address.wrapping_add(mapping.delta);
    lock_range(context, address.wrapping_add(mapping.stripe_delta()), size);
    intent::access(context, size);
    if site.kind == SiteKind::Area {
        context.areas.pm.before.clear();
        // SAFETY: the alias of a candidate that holds all of the access, whose locks were just taken.
        let bytes = unsafe { bytes_at(context.areas.events.memory, size as usize) };
        context.areas.pm.before.extend_from_slice(bytes);
    }
    Resumption::InPlace
}

/// Lets the bytes be decided that the access reads or may leave as they are; those that it stores are the process's own.
fn explore_access(context: &mut Context, site: &PmSite, address: u64, size: u64) {
    match site.kind {
        SiteKind::Store(flags) | SiteKind::Captured(flags) if flags & store::MODIFIES == 0 => {
            explore::before_write(address, size);
        }
        _ => explore::before_read(context, address, size),
    }
}

/// How many bytes an access may touch at most.
fn extent(context: &Context, site: &PmSite) -> u64 {
    match site.kind {
        SiteKind::Area => register_area::extent(&site.insn, context),
        _ => u64::from(site.size),
    }
}

/// Takes the locks for a range, given by the numbers that choose stripes: one or two stripes, or all.
pub(crate) fn lock_range(context: &mut Context, position: u64, size: u64) {
    let first = Stripe::of(position);
    let last = Stripe::of(position.wrapping_add(size.max(1) - 1));
    // In order of address, so that two threads cannot wait for each other.
    let (low, high) = (first.min(last), first.max(last));
    context.areas.pm.second_stripe = if size > PAGE {
        lock_all();
        ALL
    } else if low == high {
        low.lock();
        0
    } else {
        low.lock();
        high.lock();
        high.address()
    };
    context.areas.events.lock = low.address();
}

/// Releases the locks that an access holds. What it has stored is recorded.
pub fn release(context: &mut Context) {
    intent::withdraw(context);
    let first = core::mem::take(&mut context.areas.events.lock);
    match core::mem::take(&mut context.areas.pm.second_stripe) {
        ALL => unlock_all(),
        second => [second, first]
            .into_iter()
            .filter_map(Stripe::at)
            .for_each(Stripe::unlock),
    }
}

/// The access that the thread was about to make faulted: releases the locks, and gives the target's address
/// in place of the alias.
pub fn undo(context: &mut Context, is_page_fault: bool, info: &mut Info) {
    if is_page_fault {
        let delta = (context.areas.events.memory).wrapping_sub(context.areas.events.address);
        info.set_address(info.address().wrapping_sub(delta));
    }
    if context.areas.events.lock != 0 {
        release(context);
    }
    context.areas.pm.split = 0;
    // It was not made, and must not pass for one that was.
    context.areas.pm.lockset.renew();
    context.areas.pm.fault_was_observed = true;
}

/// The bytes at an alias.
///
/// # Safety
/// The access that holds the locks of these bytes has its alias there: aliases are mapped readable for as long as
/// their mapping is in the table, and the locks keep other threads from storing.
unsafe fn bytes_at(alias: u64, len: usize) -> &'static [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(alias as *const u8, len) }
}

/// An access has been made: records it and releases the locks. Resumes as `access_lookup` does.
pub fn access_done(context: &mut Context) -> Resumption {
    let site = &site(context.argument);
    if context.areas.pm.split != 0 {
        context.pc = site.pc;
        return split::end(context, site);
    }
    let size = site.size as usize;
    let alias = context.areas.events.memory;
    // SAFETY: the access was made at this alias, is not longer than its site says, and still holds its locks.
    let accessed = |len: usize| unsafe { bytes_at(alias, len.min(size)) };
    context.pc = site.pc;
    let caller = calling_context::context_of(context);
    match site.kind {
        SiteKind::Store(flags) => record_store(context, flags, caller, 0, accessed(size)),
        SiteKind::Captured(flags) => {
            let value = context.areas.events.payload.0[0];
            record_store(context, flags, caller, 0, &value[..size]);
        }
        SiteKind::Conditional(flags) => {
            if context.areas.events.extra & 0xff != 0 {
                record_store(context, flags, caller, 0, accessed(size));
            } else {
                // It stored nothing, but it is a fence if it is locked, and it has read.
                if flags & store::LOCKED != 0 {
                    let head = Head {
                        kind: kind::FENCE,
                        flags: fence::LOCKED,
                        pc: site.pc,
                        context: caller,
                        addr: 0,
                    };
                    context.wire.record_short(head, &[]);
                    context.areas.events.unordered = 0;
                }
                if flags & store::MODIFIES != 0 {
                    record_load(context, caller, accessed(size));
                }
            }
        }
        SiteKind::Masked(flags, element) => {
            record_masked(context, flags, caller, usize::from(element), accessed(size))
        }
        SiteKind::Compressed(element) => {
            let elements = size / usize::from(element).max(1);
            let mask = context.areas.events.extra & low_bits(elements);
            let len = mask.count_ones() as usize * usize::from(element);
            record_store(context, 0, caller, 0, accessed(len));
        }
        SiteKind::Area => record_changes(context, caller),
        SiteKind::Load => record_load(context, caller, accessed(size)),
        _ => fatal::fault(format_args!(
            "site {:#x} of kind {:?} is no access",
            site.pc, site.kind
        )),
    }
    release(context);
    Resumption::InPlace
}

pub(crate) fn low_bits(count: usize) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

/// Records a store of `bytes` at the address of the event plus `offset`, in pieces.
pub(crate) fn record_store(
    context: &mut Context,
    flags: u16,
    caller: u32,
    offset: u64,
    bytes: &[u8],
) {
    let mut addr = context.areas.events.address + offset;
    for piece in bytes.chunks(PIECE) {
        let head = Head {
            kind: kind::STORE,
            flags,
            pc: context.pc,
            context: caller,
            addr,
        };
        context.wire.record_short(head, piece);
        addr += piece.len() as u64;
    }
    // A locked store orders what came before it.
    context.areas.events.unordered = u64::from(flags & store::LOCKED == 0);
}

/// Records a load of `bytes` at the address of the event.
fn record_load(context: &mut Context, caller: u32, bytes: &[u8]) {
    let head = Head {
        kind: kind::LOAD,
        flags: 0,
        pc: context.pc,
        context: caller,
        addr: context.areas.events.address,
    };
    context.wire.record_short(head, bytes);
}

fn record_masked(context: &mut Context, flags: u16, caller: u32, element: usize, bytes: &[u8]) {
    for (offset, len) in masked_runs(context.areas.events.extra, element, bytes.len()) {
        let run = &bytes[offset..offset + len];
        record_store(context, flags, caller, offset as u64, run);
    }
}

/// Offset and length of each run of bytes that a mask selects.
pub(crate) fn masked_runs(
    mask: u64,
    element: usize,
    size: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let elements = size / element.max(1);
    let mut rest = mask & low_bits(elements);
    core::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros() as usize;
        let run = (!(rest >> first)).trailing_zeros() as usize;
        rest &= !(low_bits(run) << first);
        Some((first * element, run * element))
    })
}

/// Records the runs of bytes that an instruction of unknown extent changed.
fn record_changes(context: &mut Context, caller: u32) {
    let before = core::mem::take(&mut context.areas.pm.before);
    // SAFETY: as many bytes were read at this alias when the locks were taken, which are still held.
    let after = unsafe { bytes_at(context.areas.events.memory, before.len()) };
    for (offset, len) in changed_runs(&before, after) {
        let bytes = &after[offset..offset + len];
        record_store(context, 0, caller, offset as u64, bytes);
    }
    context.areas.pm.before = before;
}

/// Offset and length of each run of bytes that differ.
pub(crate) fn changed_runs(before: &[u8], after: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let differs = move |&index: &usize| before[index] != after[index];
    let mut index = 0;
    core::iter::from_fn(move || {
        let start = (index..before.len()).find(differs)?;
        let end = (start..before.len()).find(|index| !differs(index));
        index = end.unwrap_or(before.len());
        Some((start, index - start))
    })
}

/// An instruction faulted. If it touched a candidate, makes the instruction a site; it is then run again.
pub fn fault(context: &mut Context) -> bool {
    let observed = core::mem::take(&mut context.areas.pm.fault_was_observed);
    if context.pending.signal != SIGSEGV || !candidates::any() {
        return false;
    }
    // An observed access may have used what the thread remembered of candidates that have changed since.
    let stale = observed && remembers_old_candidates(&context.areas.pm);
    if observed {
        context.areas.pm.gap_len = 0;
        context.areas.pm.near_len = 0;
        super::refresh(context);
    }
    let address = context.pending.info.address();
    let write = context.pending.is_write();
    if !candidates::find(address).is_some_and(|candidate| candidate.observes(write)) {
        return stale || map_lock::is_unsettled(&mut context.seen_map_generation);
    }
    let pc = context.pc;
    with_translator(|translator| {
        if write {
            translator.instrumented.pm.stores(pc);
        }
        translator.observe(PersistentMemory::NUMBER, pc)
    });
    true
}

/// Whether the candidate or the gap that the thread used last is no longer what it was. If neither has changed,
/// running the access again would only make it fault again.
fn remembers_old_candidates(area: &PmArea) -> bool {
    let (near, gap) = (area.near_start, area.gap_start);
    let near_end = near.wrapping_add(area.near_len);
    let near_changed = area.near_len != 0
        && !candidates::find(near).is_some_and(|candidate| {
            // In an explored file, a part of the candidate is remembered.
            let is_same = match explore::is_active() {
                true => near_end <= candidate.end,
                false => (candidate.start, candidate.end) == (near, near_end),
            };
            is_same && candidate.delta == area.near_delta
        });
    let gap_changed = area.gap_len != 0 && candidates::gap(gap) != (gap, gap + area.gap_len);
    near_changed || gap_changed
}

#[cfg(test)]
mod tests {
    use super::{changed_runs, masked_runs};

    #[test]
    fn runs_of_changes_are_maximal() {
        let runs = |a: &[u8], b: &[u8]| changed_runs(a, b).collect::<std::vec::Vec<_>>();
        assert_eq!(runs(b"abcdef", b"abcdef"), []);
        assert_eq!(runs(b"abcdef", b"xbcyzw"), [(0, 1), (3, 3)]);
    }

    #[test]
    fn runs_of_a_mask_are_maximal_and_in_order() {
        let runs =
            |mask, element, size| masked_runs(mask, element, size).collect::<std::vec::Vec<_>>();
        assert_eq!(runs(0b1101, 4, 16), [(0, 4), (8, 8)]);
        assert_eq!(runs(u64::MAX, 1, 64), [(0, 64)]);
        assert_eq!(runs(0xff0, 4, 16), []);
        assert_eq!(runs(1 << 63, 1, 64), [(63, 1)]);
    }
}
