//! The instrument that records what the program does to persistent memory.
//!
//! Every shared, writable mapping of a file is a *candidate*. The program sees it at the address it
//! asked for, but without the right to write (with `--loads`: without any right); the engine has it a
//! second time, with all rights, at an *alias*. The first store of an instruction to a candidate
//! therefore faults, and the instruction becomes a *site*: it is translated anew so that it works on
//! the alias and reports. Instructions that never touch a candidate cost nothing; none can escape.
//!
//! A store and its record are one step under a lock chosen by the page of the file (a *stripe*), so that the
//! order of records on the same bytes is the order in which memory changed, and the value is the one that
//! was there.
//!
//! What it can miss: stores by devices and by other processes that are not recorded. Processes share no stripes: where two of them race on the same bytes
//! without any order, a record may hold the other's value.

pub(crate) mod access;
pub(crate) mod candidate;
pub(crate) mod candidates;
pub(crate) mod intent;
mod kernel;
pub(crate) mod map;
pub(crate) mod order;
mod shared_files;
pub(crate) mod site;
pub(crate) mod split;
pub(crate) mod unmap;

pub use crate::arch::instruments::pm::emulate::emulate;
pub use crate::arch::instruments::pm::fast_path::{PayloadLoad, connect, payload_load};
pub(crate) use crate::arch::instruments::pm::fast_path::{restore, site_in_rdx, spill};
pub use access::{access_done, access_lookup, fault, release};
pub use candidate::is_candidate;
pub use candidates::has_alias_in;
pub use kernel::{closed, collect, put, put_value, syscall};
pub use map::map;
pub use order::order;
pub(crate) use site::SITE_SHIFT;
pub use site::{Site, SiteKind, Sites, site};
pub use unmap::{protect, remap, replacing, unmapped};

use crate::arch::instruments::pm::fast_path;
use crate::instruments::calling_context;
use crate::instruments::unwind::StackCache;
use crate::memory;
use crate::translator::context::Context;
use crate::translator::process;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of stripe locks; a power of two.
pub const STRIPES: usize = 1024;
const STRIPE_BYTES: u64 = 64;
static STRIPE_TABLE: AtomicU64 = AtomicU64::new(0);

/// What a thread keeps for the instrument.
pub struct ThreadState {
    pub(crate) stack: Option<Box<StackCache>>,
    /// Memory before an instruction whose extent is not known beforehand.
    before: alloc::vec::Vec<u8>,
}

impl ThreadState {
    pub const fn new() -> ThreadState {
        ThreadState {
            stack: None,
            before: alloc::vec::Vec::new(),
        }
    }
}

impl Default for ThreadState {
    fn default() -> Self {
        ThreadState::new()
    }
}

/// The thread is about to end: gives back what it kept. It must not have events any more.
pub fn left_thread(context: &mut Context) {
    (context.memos, context.last_memo) = (0, 0);
    context.pm = ThreadState::new();
}

/// Sets the instrument up.
pub fn create() {
    STRIPE_TABLE.store(
        memory::map(STRIPES as u64 * STRIPE_BYTES),
        Ordering::Relaxed,
    );
    site::create();
}

/// Address of the stripe locks, for contexts.
pub fn stripes() -> u64 {
    STRIPE_TABLE.load(Ordering::Relaxed)
}

/// Address of the lock for a place in a file, as [`candidates::Mapping::stripe_delta`] numbers them.
pub(crate) fn stripe_of(place: u64) -> u64 {
    stripes() + ((place >> 12) & (STRIPES as u64 - 1)) * STRIPE_BYTES
}

fn stripe_word(stripe: u64) -> &'static AtomicU32 {
    // SAFETY: callers pass addresses of stripe locks, which live for ever.
    unsafe { &*(stripe as *const AtomicU32) }
}

pub(crate) fn lock_stripe(stripe: u64) {
    let word = stripe_word(stripe);
    let mut spins = 0;
    while word.swap(1, Ordering::Acquire) != 0 {
        spins += 1;
        if spins % 64 == 0 {
            // SAFETY: gives the processor away.
            unsafe { crate::sys!(crate::sys::linux::__NR_sched_yield) };
        }
        core::hint::spin_loop();
    }
}

pub(crate) fn unlock_stripe(stripe: u64) {
    stripe_word(stripe).store(0, Ordering::Release);
}

/// Takes all stripe locks, in order.
fn lock_all() {
    for index in 0..STRIPES as u64 {
        lock_stripe(stripes() + index * STRIPE_BYTES);
    }
}

fn unlock_all() {
    for index in 0..STRIPES as u64 {
        unlock_stripe(stripes() + index * STRIPE_BYTES);
    }
}

/// Stops all stores for good: the process is about to end.
pub fn stop_all() {
    if candidates::any() {
        lock_all();
    }
}

/// Where a thread goes on that faulted at `rip`, if that is an instruction of the instrument's assembly that may.
pub fn fault_in_assembly(rip: u64) -> Option<u64> {
    fast_path::fault(rip).or_else(|| intent::fault(rip))
}

/// Runs `fork` while no store is under way and the tables are at rest.
pub fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
    let stores = candidates::any();
    if stores {
        lock_all();
    }
    let result = candidates::quiesced(|| calling_context::quiesced(fork));
    if stores {
        unlock_all();
    }
    result
}

/// Whether an address lies in a candidate, which the program may be unable to read by itself.
pub fn holds(addr: u64) -> bool {
    candidates::find(addr).is_some()
}

/// The rights that the program's own mapping really gets.
fn real_prot(prot: u64) -> u64 {
    if crate::wire::wants_loads() {
        0
    } else {
        prot & !u64::from(crate::sys::linux::PROT_WRITE)
    }
}

/// Gives a new thread the hull of the candidates.
pub fn refresh(context: &mut Context) {
    let (start, len) = candidates::hull();
    context.hull_start = start;
    context.hull_len = len;
}

/// Makes all threads forget what they remember of the mappings.
fn refresh_all(start: u64, len: u64) {
    process::for_each_thread(|context| {
        // SAFETY: word-sized stores that the gate reads afresh for each access. A thread in the middle of
        // one may use the old values once more, as it might have been a moment earlier.
        unsafe {
            (&raw mut (*context).near_len).write_volatile(0);
            (&raw mut (*context).gap_len).write_volatile(0);
            (&raw mut (*context).hull_start).write_volatile(start);
            (&raw mut (*context).hull_len).write_volatile(len);
        }
    });
}
