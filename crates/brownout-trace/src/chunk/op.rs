//! Operation codes: the kind of a row, with the attributes that are the same for all events of a site.

use crate::error::Flaw;
use crate::event::{FenceKind, FlushKind, StoreFlavor};

/// Stores take the codes 0 to 15: flavor in the lowest two bits, then one bit each for locked and
/// string.
pub(crate) const STORE_END: u8 = 16;
const STORE_LOCKED: u8 = 4;
const STORE_STRING: u8 = 8;

pub(crate) const LOAD: u8 = 16;

/// Flushes take the codes 24 to 30: kind in the lowest two bits, then one bit for volatile.
const FLUSH: u8 = 24;
const FLUSH_VOLATILE: u8 = 4;

const SFENCE: u8 = 32;
const MFENCE: u8 = 33;
const LOCKED: u8 = 34;

/// Lower codes are plain: stores, loads, flushes and fences.
pub(crate) const RARE: u8 = 35;
/// An acquire with the size of its word, or a release by an exchange.
pub(crate) const LOCK: u8 = 35;
/// The next two are of traces before version 7.
pub(crate) const LOCK_ACQUIRE: u8 = 36;
pub(crate) const LOCK_ACQUIRE_SHARED: u8 = 37;
pub(crate) const LOCK_RELEASE: u8 = 38;
pub(crate) const LOCK_RELEASE_SHARED: u8 = 39;
pub(crate) const KERNEL_WRITE: u8 = 40;
pub(crate) const FILE_WRITE: u8 = 41;
pub(crate) const FILE_RESIZE: u8 = 42;
pub(crate) const MSYNC: u8 = 43;
pub(crate) const FSYNC: u8 = 44;
pub(crate) const FDATASYNC: u8 = 45;
pub(crate) const SYNC_FILE_RANGE: u8 = 46;
pub(crate) const SYNCFS: u8 = 47;
pub(crate) const MAP: u8 = 48;
pub(crate) const UNMAP: u8 = 49;
pub(crate) const REMAP: u8 = 50;
pub(crate) const CONTENT: u8 = 51;
pub(crate) const PROTECT: u8 = 52;
pub(crate) const MODULE: u8 = 53;
pub(crate) const THREAD_START: u8 = 54;
pub(crate) const THREAD_EXIT: u8 = 55;
pub(crate) const PROCESS_START: u8 = 56;
pub(crate) const PROCESS_EXIT: u8 = 57;
pub(crate) const NOTE: u8 = 58;
pub(crate) const CALL: u8 = 59;
pub(crate) const RETURN: u8 = 60;
/// A watched function was left without returning.
pub(crate) const LEFT: u8 = 61;

pub(crate) const THREAD_JOIN: u8 = 62;
/// The start of a thread that another one created.
pub(crate) const CHILD_THREAD_START: u8 = 63;

/// Codes from here on are definitions, which are not events.
pub(crate) const DEFINITIONS: u8 = 64;
pub(crate) const DEFINE_CONTEXT: u8 = 64;
pub(crate) const DEFINE_FILE: u8 = 65;
pub(crate) const DEFINE_FUNCTION: u8 = 66;

#[inline]
pub(crate) fn store(flavor: StoreFlavor, locked: bool, string: bool) -> u8 {
    let flavor = match flavor {
        StoreFlavor::Temporal => 0,
        StoreFlavor::NonTemporal => 1,
        StoreFlavor::Direct => 2,
        StoreFlavor::Modifying => 3,
    };
    flavor | if locked { STORE_LOCKED } else { 0 } | if string { STORE_STRING } else { 0 }
}

/// By the lowest two bits of a code.
const FLAVORS: [StoreFlavor; 4] = [
    StoreFlavor::Temporal,
    StoreFlavor::NonTemporal,
    StoreFlavor::Direct,
    StoreFlavor::Modifying,
];

/// Flavor, locked and string of a code below [`STORE_END`] that [`check`] accepted.
#[inline]
pub(crate) fn store_parts(op: u8) -> (StoreFlavor, bool, bool) {
    let flavor = FLAVORS[usize::from(op & 3)];
    (flavor, op & STORE_LOCKED != 0, op & STORE_STRING != 0)
}

#[inline]
pub(crate) fn flush(kind: FlushKind, volatile: bool) -> u8 {
    let kind = match kind {
        FlushKind::Clflush => 0,
        FlushKind::Clflushopt => 1,
        FlushKind::Clwb => 2,
    };
    FLUSH | kind | if volatile { FLUSH_VOLATILE } else { 0 }
}

#[inline]
pub(crate) fn flush_parts(op: u8) -> Option<(FlushKind, bool)> {
    let kind = match op & !FLUSH_VOLATILE {
        FLUSH => FlushKind::Clflush,
        code if code == FLUSH + 1 => FlushKind::Clflushopt,
        code if code == FLUSH + 2 => FlushKind::Clwb,
        _ => return None,
    };
    Some((kind, op & FLUSH_VOLATILE != 0))
}

#[inline]
pub(crate) fn fence(kind: FenceKind) -> u8 {
    match kind {
        FenceKind::Sfence => SFENCE,
        FenceKind::Mfence => MFENCE,
        FenceKind::Locked => LOCKED,
    }
}

#[inline]
pub(crate) fn fence_kind(op: u8) -> Option<FenceKind> {
    match op {
        SFENCE => Some(FenceKind::Sfence),
        MFENCE => Some(FenceKind::Mfence),
        LOCKED => Some(FenceKind::Locked),
        _ => None,
    }
}

/// Whether a watched function is called or left. These are frequent in programs that use libraries.
#[inline]
pub(crate) fn is_call(op: u8) -> bool {
    (CALL..=LEFT).contains(&op)
}

/// Rejects codes that no writer produces.
pub(crate) fn check(op: u8) -> Result<(), Flaw> {
    let known = match op {
        0..STORE_END | LOAD | RARE..=CHILD_THREAD_START | DEFINITIONS..=DEFINE_FUNCTION => true,
        _ => flush_parts(op).is_some() || fence_kind(op).is_some(),
    };
    if known { Ok(()) } else { Err(Flaw::BadField) }
}
