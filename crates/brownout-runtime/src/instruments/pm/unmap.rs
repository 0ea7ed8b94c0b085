//! Unmapping, replacing, moving and protecting candidates.
//!
//! The caller holds a [`MapLock`] throughout, so that no other thread gets addresses that are still in the
//! tables. Aliases are unmapped and moved while all stripes are held: no access is under way there.

use super::stripes::{lock_all, unlock_all};
use crate::fatal;
use crate::instruments::explore;
use crate::instruments::pm::candidates;
use crate::instruments::pm::candidates::Candidate;
use crate::instruments::pm::real_prot;
use crate::memory;
use crate::memory::{PAGE, page_down, page_up};
use crate::sys;
use crate::sys::{Raw, is_err, linux};
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use crate::wire::Head;
use brownout_ring::kind;

const PROT_WRITE: u64 = linux::PROT_WRITE as u64;

/// Marks a change that replaces candidates.
pub fn replacing(map_lock: &mut MapLock, start: u64, len: u64) {
    let end = start.saturating_add(page_up(len));
    if candidates::any() && !candidates::overlapping(start, end).is_empty() {
        map_lock.mark();
    }
}

/// The target has unmapped or replaced a range.
pub fn unmapped(context: &mut Context, start: u64, end: u64) {
    let (start, end) = (page_down(start), page_up(end));
    if !candidates::any() || candidates::overlapping(start, end).is_empty() {
        return;
    }
    lock_all();
    take_out(context, start, end);
    candidates::changed();
    unlock_all();
}

/// Removes a range from the table, unmaps its aliases, and records that. All stripes are held.
fn take_out(context: &mut Context, start: u64, end: u64) {
    for part in candidates::take(start, end, |_| None) {
        // That of an explored file holds what the process has stored, and other mappings share it.
        if !explore::is_active() {
            // SAFETY: the target has given up what this is the alias of.
            unsafe { sys::munmap(part.alias(), part.len()) };
        }
        let head = Head {
            kind: kind::UNMAP,
            pc: context.pc,
            addr: part.start,
            ..Head::default()
        };
        context.wire.record(head, &[&part.len().to_le_bytes()]);
    }
}

/// The target's `mprotect`, if the range touches a candidate.
pub fn protect(context: &mut Context, args: [u64; 6]) -> Option<Raw> {
    let [addr, len, prot, ..] = args;
    let end = addr.checked_add(page_up(len))?;
    if !candidates::any() || addr != page_down(addr) {
        return None;
    }
    let hit = candidates::overlapping(addr, end);
    if hit.is_empty() {
        return None;
    }
    let set = |from: u64, to: u64, prot: u64| {
        if from < to {
            // SAFETY: the target's own call, in parts.
            unsafe { crate::sys!(linux::__NR_mprotect, from, to - from, prot) }
        } else {
            0
        }
    };
    let mut at = addr;
    let mut raw = 0;
    for mapping in hit {
        let (from, to) = (mapping.start.max(addr), mapping.end.min(end));
        raw = set(at, from, prot);
        if !is_err(raw) {
            raw = set(from, to, real_prot(prot));
        }
        if is_err(raw) {
            break;
        }
        candidates::take(from, to, |part| Some(Candidate { prot, ..*part }));
        let head = Head {
            kind: kind::PROTECT,
            flags: u16::from(prot & PROT_WRITE != 0),
            pc: context.pc,
            addr: from,
            ..Head::default()
        };
        context.wire.record(head, &[&(to - from).to_le_bytes()]);
        at = to;
    }
    if !is_err(raw) {
        raw = set(at, end, prot);
    }
    candidates::changed();
    Some(raw)
}

/// The target's `mremap`, if it concerns a candidate.
pub fn remap(context: &mut Context, map_lock: &mut MapLock, args: [u64; 6]) -> Option<Raw> {
    let [old, old_len, new_len, flags, target, _] = args;
    let (old_len, new_len) = (page_up(old_len), page_up(new_len));
    if !candidates::any() {
        return None;
    }
    // With a length of zero the mapping is duplicated.
    let old_end = old.saturating_add(old_len.max(PAGE));
    let mut parts = candidates::overlapping(old, old_end);
    parts.first()?;
    map_lock.mark();
    // SAFETY: the target's own call.
    let raw = unsafe { sys::syscall(linux::__NR_mremap, args) };
    if is_err(raw) {
        return Some(raw);
    }
    lock_all();
    if flags & u64::from(linux::MREMAP_FIXED) != 0 {
        take_out(context, target, target + new_len);
    }
    let keeps_old = old_len == 0 || flags & u64::from(linux::MREMAP_DONTUNMAP) != 0;
    if keeps_old {
        let clip = |part: &Candidate| part.part(part.start.max(old), part.end.min(old_end));
        parts = parts.iter().map(clip).collect();
    } else {
        parts = candidates::take(old, old_end, |_| None);
    }
    for (index, part) in parts.iter().enumerate() {
        let offset = part.start - old;
        let is_last = index + 1 == parts.len();
        let room = new_len.saturating_sub(offset);
        let len = if is_last { room } else { room.min(part.len()) };
        let alias = move_alias(part, keeps_old, len);
        if len == 0 {
            continue;
        }
        if is_err(alias) {
            fatal::unsupported(format_args!(
                "the engine could not follow mremap of {old:#x} ({})",
                sys::Errno::of(alias)
            ));
        }
        let start = raw + offset;
        candidates::insert(Candidate {
            start,
            end: start + len,
            delta: alias.wrapping_sub(start),
            ..*part
        });
    }
    let head = Head {
        kind: kind::REMAP,
        pc: context.pc,
        addr: old,
        ..Head::default()
    };
    context.wire.record(
        head,
        &[
            &old_len.to_le_bytes(),
            &raw.to_le_bytes(),
            &new_len.to_le_bytes(),
        ],
    );
    candidates::changed();
    unlock_all();
    Some(raw)
}

/// Moves the alias of `part` to a range of `len` bytes, or duplicates it; unmaps it if nothing is left.
fn move_alias(part: &Candidate, keep: bool, len: u64) -> Raw {
    if len == 0 && keep {
        return 0;
    }
    if len == 0 {
        // SAFETY: the target has given up what this is the alias of.
        return unsafe { sys::munmap(part.alias(), part.len()) };
    }
    let moved = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
    let old_len = if keep { 0 } else { part.len() };
    memory::place_alias(len, |addr| {
        let flags = linux::MAP_PRIVATE
            | linux::MAP_ANONYMOUS
            | linux::MAP_NORESERVE
            | linux::MAP_FIXED_NOREPLACE;
        // SAFETY: the alias follows the original. A fixed mremap replaces what is there, so the range is
        // first shown to be free.
        unsafe {
            let free = sys::mmap(addr, len, linux::PROT_NONE, flags, -1, 0);
            if is_err(free) {
                return free;
            }
            crate::sys!(linux::__NR_mremap, part.alias(), old_len, len, moved, addr)
        }
    })
}
