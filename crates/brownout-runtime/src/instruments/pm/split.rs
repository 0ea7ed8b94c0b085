//! Accesses that begin in a candidate and end outside of it, or the other way round.
//!
//! No single alias covers them. They are made on a copy of the bytes, which is then stored in pieces: those in
//! candidates are recorded, the others are stored where they belong.

use crate::arch::instruments::pm::emulate::{BadAccess, load_bytes, raise, store_bytes};
use crate::instruments::Resumption;
use crate::instruments::pm::access::{changed_runs, lock_range, low_bits, masked_runs, release};
use crate::instruments::pm::candidates;
use crate::instruments::pm::site::{PmSite, SiteKind};
use crate::target_memory;
use crate::translator::context::Context;
use brownout_ring::store;

/// Whether an access of `size` bytes that begins outside of candidates ends in one.
pub fn ends_in_candidate(address: u64, size: u64, write: bool) -> bool {
    candidates::overlapping(address, address.saturating_add(size))
        .iter()
        .any(|mapping| mapping.start > address && mapping.observes(write))
}

/// Copies have the same offset as the original from boundaries of this size: the largest alignment that an
/// instruction can require.
const ALIGNMENT: u64 = 64;

/// Copies the bytes and lets the access be made on the copy. Resumes at `pc` if the access faults.
pub fn begin(context: &mut Context, site: &PmSite, size: u64) -> Resumption {
    let mut buffer = core::mem::take(&mut context.areas.pm.before);
    buffer.clear();
    // Room for the copy, for what it was before, and to align it.
    buffer.resize((2 * size + ALIGNMENT) as usize, 0);
    let start = buffer.as_ptr() as u64;
    let offset = context.areas.events.address.wrapping_sub(start) % ALIGNMENT;
    let (copy, before) = parts(&mut buffer, offset, size);
    let loaded = match site.kind {
        // Bytes that the mask leaves out need not exist.
        SiteKind::Masked(..) | SiteKind::Compressed(_) => {
            load_what_exists(context.areas.events.address, copy);
            Ok(())
        }
        SiteKind::Load => load_bytes(context.areas.events.address, copy),
        _ => load_bytes(context.areas.events.address, copy)
            .map_err(BadAccess::of_write)
            .and_then(|()| writable(context.areas.events.address, copy)),
    };
    before.copy_from_slice(copy);
    context.areas.events.memory = start + offset;
    context.areas.pm.before = buffer;
    if let Err(bad) = loaded {
        raise(context, bad);
        return Resumption::AtPc;
    }
    // Pieces take the locks they need when they are stored. This lock only shows that an access is under way.
    lock_range(context, context.areas.events.address, size);
    context.areas.pm.split = size;
    Resumption::InPlace
}

/// The copy in the buffer, and what it was before.
fn parts(buffer: &mut [u8], offset: u64, size: u64) -> (&mut [u8], &mut [u8]) {
    let (offset, size) = (offset as usize, size as usize);
    let (copy, before) = buffer[offset..].split_at_mut(size);
    (copy, &mut before[..size])
}

fn load_what_exists(address: u64, bytes: &mut [u8]) {
    for (index, byte) in bytes.chunks_mut(1).enumerate() {
        // What is missing stays zero.
        let _ = load_bytes(address + index as u64, byte);
    }
}

/// Whether the parts outside of candidates can be written: tried by writing `bytes`, which is what they hold.
pub(crate) fn writable(address: u64, bytes: &[u8]) -> Result<(), BadAccess> {
    let mut offset = 0;
    while offset < bytes.len() {
        let at = address + offset as u64;
        if !candidates::find(at).is_some_and(|mapping| mapping.observes(true)) {
            target_memory::write_bytes(at, &bytes[offset..offset + 1])
                .map_err(|_| BadAccess::write(at))?;
        }
        offset += (4096 - (at & 4095)) as usize;
    }
    Ok(())
}

/// The access was made on the copy: stores what it changed. Resumes at `pc` if that faults.
pub fn end(context: &mut Context, site: &PmSite) -> Resumption {
    let size = core::mem::take(&mut context.areas.pm.split) as usize;
    let address = context.areas.events.address;
    release(context);
    let mut buffer = core::mem::take(&mut context.areas.pm.before);
    let offset = context.areas.events.memory - buffer.as_ptr() as u64;
    let (copy, before) = parts(&mut buffer, offset, size as u64);
    let (copy, before) = (&*copy, &*before);
    let mask = context.areas.events.extra;
    let mut stored = Ok(());
    let mut put = |context: &mut Context, flags: u16, offset: usize, len: usize| {
        if stored.is_ok() {
            stored = store_bytes(
                context,
                flags,
                address + offset as u64,
                &copy[offset..offset + len],
            );
        }
    };
    match site.kind {
        SiteKind::Store(flags) | SiteKind::Captured(flags) => put(context, flags, 0, size),
        SiteKind::Conditional(flags) if mask & 0xff != 0 => put(context, flags, 0, size),
        SiteKind::Masked(flags, element) => {
            for (offset, len) in masked_runs(mask, usize::from(element), size) {
                put(context, flags, offset, len);
            }
        }
        SiteKind::Compressed(element) => {
            let elements = size / usize::from(element).max(1);
            put(
                context,
                0,
                0,
                (mask & low_bits(elements)).count_ones() as usize * usize::from(element),
            );
        }
        SiteKind::Area => {
            for (offset, len) in changed_runs(before, copy) {
                put(context, 0, offset, len);
            }
        }
        _ => {}
    }
    if let SiteKind::Store(flags) | SiteKind::Conditional(flags) = site.kind
        && flags & store::LOCKED != 0
    {
        context.areas.events.unordered = 0;
    }
    context.areas.pm.before = buffer;
    match stored {
        Ok(()) => Resumption::InPlace,
        Err(bad) => {
            raise(context, bad);
            Resumption::AtPc
        }
    }
}
