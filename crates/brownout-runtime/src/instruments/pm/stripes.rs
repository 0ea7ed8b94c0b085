//! The locks of persistent memory: one for each *stripe*, a set of pages of files.
//!
//! A store and its record are one step under the lock of the page that is stored to, so that the order of
//! records on the same bytes is the order in which memory changed. Assembly takes and releases these locks,
//! too (`access_begin`, `event_record`), and names them by address.

use crate::memory;
use crate::sys;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of stripes; a power of two.
pub const STRIPES: usize = 1024;
/// Each lock has a cache line of its own.
const STRIPE_BYTES: u64 = 64;
/// Offsets in a stripe, known to assembly: the number of times that its pages were stored to by a thread other than [`STORER`], and
/// the context of the thread that has stored last and whose loads were the only ones recorded since; 0 if there is none.
pub const VERSION: u64 = 8;
pub const STORER: u64 = 16;
const TABLE_BYTES: u64 = STRIPES as u64 * STRIPE_BYTES;
/// Attempts between two calls that yield the processor.
const SPINS: u32 = 64;

static TABLE: AtomicU64 = AtomicU64::new(0);

/// Maps the table of locks.
pub fn create() {
    TABLE.store(memory::map(TABLE_BYTES), Ordering::Relaxed);
}

/// Address of the table, for contexts.
pub fn table() -> u64 {
    TABLE.load(Ordering::Relaxed)
}

/// The lock of a stripe. Stripes are ordered as their locks must be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripe {
    index: u32,
}

impl Stripe {
    /// The stripe of a position in a file, as `super::candidates::Candidate::stripe_delta` numbers them.
    pub fn of(position: u64) -> Stripe {
        Stripe {
            index: (position >> 12) as u32 & (STRIPES as u32 - 1),
        }
    }

    /// The stripe whose lock is at an address, if there is one.
    pub fn at(address: u64) -> Option<Stripe> {
        let offset = address.wrapping_sub(table());
        (offset < TABLE_BYTES && offset.is_multiple_of(STRIPE_BYTES)).then_some(Stripe {
            index: (offset / STRIPE_BYTES) as u32,
        })
    }

    /// Address of the lock, for assembly.
    pub fn address(self) -> u64 {
        table() + u64::from(self.index) * STRIPE_BYTES
    }

    fn word(self) -> &'static AtomicU32 {
        let table = table();
        assert!(table != 0, "the stripes are not there yet");
        // SAFETY: `index` is below `STRIPES`, so the word is in the table, which is never unmapped.
        unsafe { &*((table + u64::from(self.index) * STRIPE_BYTES) as *const AtomicU32) }
    }

    pub fn lock(self) {
        let word = self.word();
        let mut spins = 0;
        while word.swap(1, Ordering::Acquire) != 0 {
            spins += 1;
            if spins % SPINS == 0 {
                sys::yield_now();
            }
            core::hint::spin_loop();
        }
        // Who takes a lock here may store.
        self.part(VERSION).fetch_add(1, Ordering::Relaxed);
        self.part(STORER).store(0, Ordering::Relaxed);
    }

    fn part(self, offset: u64) -> &'static AtomicU64 {
        // SAFETY: as for the lock word, in the same entry of the table.
        unsafe { &*((self.address() + offset) as *const AtomicU64) }
    }

    pub fn unlock(self) {
        self.word().store(0, Ordering::Release);
    }
}

fn all() -> impl Iterator<Item = Stripe> {
    (0..STRIPES as u32).map(|index| Stripe { index })
}

/// Takes all locks, in order.
pub fn lock_all() {
    all().for_each(Stripe::lock);
}

pub fn unlock_all() {
    all().for_each(Stripe::unlock);
}
