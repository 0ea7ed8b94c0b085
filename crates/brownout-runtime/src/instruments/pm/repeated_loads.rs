//! Loads that are left out because an equal one of the thread was recorded.
//!
//! For races it is enough to know one load of each instruction, calling context and byte, as long as nothing has changed that
//! decides whether a load can race. A load is therefore left out if all of the following hold:
//!
//! 1. The thread has recorded a load of the same instruction at the same address, with the same stack pointer, which stands for
//!    the calling context.
//! 2. No other thread has stored to the page since. Its own stores do not matter: what a thread has stored itself cannot
//!    race with its loads. So a load that observes the store of another thread is recorded.
//! 3. The thread holds the same locks as then, recognised or by functions. A thread sums up what it holds ([`Lockset`]): a lock that
//!    is acquired and released again leaves the sum as it was, because the locks at a load count, and not their number of times. A
//!    `PMEMmutex` counts by the mutex of the C library in it. What is
//!    neither a mutex nor part of a transaction changes the sum for good: system calls and all other watched functions. So do
//!    thread creation and what else orders threads.
//! 4. No other process has mapped the file.
//!
//! Assembly decides this for each load, before it takes the lock of the page ([`crate::arch::instruments::pm::repeated_load`]). The order
//! of the loads that are left out and the stores of other threads is therefore not known to a few nanoseconds.
//!
//! What it can miss: of a load that is repeated in a loop, which of its executions came first after a store of another thread to a
//! neighbouring page. Two sums or situations that are equal by chance.

use crate::memory;
use crate::translator::context::Context;
use crate::wire;
use brownout_ring::watch::Order;

/// Loads that a thread remembers; known to assembly.
pub const REMEMBERED: u64 = 4096;
/// The bytes of an entry; known to assembly.
pub const ENTRY_BYTES: u64 = 16;

/// A load that was recorded. Known by offset to assembly.
#[repr(C)]
pub struct RecordedLoad {
    pub address: u64,
    /// A number for the instruction, the stack pointer, the locks that the thread held, and the version of the page, which counts the
    /// changes of the thread that stores to it. One number, because what a thread remembers competes with its data for the cache.
    pub situation: u64,
}

const _: () = assert!(size_of::<RecordedLoad>() as u64 == ENTRY_BYTES);

/// By what addresses are multiplied so that they differ in many bits.
pub const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// By what versions are multiplied. Different from the other factors, so that one more version is not the same as one more instruction or
/// renewal.
pub const VERSION_MIX: u64 = 0xD6E8_FEB8_6659_FD93;

/// The sum of the locks that a thread holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Lockset(u64);

impl Lockset {
    pub fn acquired(&mut self, lock: u64) {
        self.0 = self.0.wrapping_add(mixed(lock));
    }

    pub fn released(&mut self, lock: u64) {
        self.0 = self.0.wrapping_sub(mixed(lock));
    }

    /// From now on no load is equal to an earlier one.
    pub fn renew(&mut self) {
        self.0 = self.0.wrapping_add(RENEWAL);
    }
}

/// Added when a lockset is renewed: odd, so that it takes long until sums return. Known to assembly.
pub const RENEWAL: u64 = 0x5bd1_e995_9e37_79b1;

/// The number that stands for a lock in sums. Assembly does the same.
fn mixed(lock: u64) -> u64 {
    let product = lock.wrapping_mul(MIX);
    product ^ product >> 32
}

/// Gives a thread room to remember its loads, if some are to be left out.
pub fn begin(context: &mut Context) {
    if wire::wants_locks() && context.areas.pm.seen == 0 {
        context.areas.pm.seen = memory::map(REMEMBERED * ENTRY_BYTES);
    }
}

/// Frees that room.
pub fn end(context: &mut Context) {
    let seen = core::mem::take(&mut context.areas.pm.seen);
    if seen != 0 {
        // SAFETY: mapped by `begin` for this thread alone, which has no more accesses.
        unsafe { memory::unmap(seen, REMEMBERED * ENTRY_BYTES) };
    }
}

/// A watched function is entered whose first argument is `argument`.
pub fn entered(context: &mut Context, order: u8, argument: u64) {
    let lockset = &mut context.areas.pm.lockset;
    match Order::of(order) {
        Order::None | Order::Query => {}
        Order::Acquires => lockset.acquired(argument),
        Order::Releases => lockset.released(argument),
        Order::Unknown => lockset.renew(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_released_leaves_the_sum_as_it_was() {
        let mut lockset = Lockset::default();
        lockset.acquired(0x1000);
        let outer = lockset;
        lockset.acquired(0x1040);
        assert_ne!(lockset, outer);
        lockset.released(0x1040);
        assert_eq!(lockset, outer);
        lockset.released(0x1000);
        assert_eq!(lockset, Lockset::default());
    }

    #[test]
    fn sums_of_neighbours_differ() {
        let sum = |locks: &[u64]| {
            let mut lockset = Lockset::default();
            locks.iter().for_each(|&lock| lockset.acquired(lock));
            lockset
        };
        assert_ne!(sum(&[0x1000, 0x1018]), sum(&[0x1008, 0x1010]));
        assert_ne!(sum(&[0x1000]), sum(&[0x1000, 0x2000]));
    }

    #[test]
    fn a_renewed_sum_does_not_return() {
        let mut lockset = Lockset::default();
        lockset.acquired(0x1000);
        lockset.renew();
        lockset.released(0x1000);
        assert_ne!(lockset, Lockset::default());
    }
}
