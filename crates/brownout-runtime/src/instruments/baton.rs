//! A place where a thread of the target waits in the runtime until another thread lets it continue.
//!
//! Each thread waits at a baton of its own, so that exactly the thread that is meant continues. Instruments that decide which
//! thread runs use it; it knows nothing of why a thread waits.

use crate::arch::translator::gate::{self, INTERRUPTED};
use crate::sys::{self, linux};
use core::sync::atomic::{AtomicU32, Ordering};

const ABSENT: u32 = 0;
const PASSED: u32 = 1;

/// Why a thread no longer waits at its baton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has the baton.
    Passed,
    /// A signal came first.
    Signal,
}

/// The baton of one thread.
pub struct Baton(AtomicU32);

impl Baton {
    pub const fn new() -> Baton {
        Baton(AtomicU32::new(ABSENT))
    }

    /// Lets the thread continue that waits here, or that will.
    pub fn pass(&self) {
        self.0.store(PASSED, Ordering::Release);
        sys::futex_wake(&self.0);
    }

    /// Waits until the baton is passed. A signal that arrives meanwhile is delivered afterwards.
    pub fn wait(&self) {
        const SECOND: u64 = 1_000_000_000;
        while !self.take() {
            sys::futex_wait(&self.0, ABSENT, SECOND);
        }
    }

    /// Waits until the baton is passed, or until a signal for the target is pending.
    pub fn wait_interruptibly(&self) -> Arrival {
        while !self.take() {
            let args = [
                self.0.as_ptr() as u64,
                u64::from(linux::FUTEX_WAIT),
                0,
                0,
                0,
                0,
            ];
            // SAFETY: waits while the word of this baton, which outlives the call, is 0.
            let raw = unsafe { gate::native_syscall(u64::from(linux::__NR_futex), &args) };
            if raw == INTERRUPTED || raw == sys::err(sys::errno::EINTR) {
                return if self.take() {
                    Arrival::Passed
                } else {
                    Arrival::Signal
                };
            }
        }
        Arrival::Passed
    }

    fn take(&self) -> bool {
        self.0.swap(ABSENT, Ordering::Acquire) == PASSED
    }
}

impl Default for Baton {
    fn default() -> Self {
        Baton::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Baton;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn threads_that_pass_a_baton_take_turns() {
        let batons = [Baton::new(), Baton::new()];
        let turn = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (batons, turn) = (&batons, &turn);
                scope.spawn(move || {
                    for round in 0..100 {
                        batons[me].wait();
                        assert_eq!(turn.fetch_add(1, Ordering::Relaxed), 2 * round + me as u32);
                        batons[1 - me].pass();
                    }
                });
            }
            batons[0].pass();
        });
    }

    #[test]
    fn a_baton_that_was_passed_before_is_kept() {
        let baton = Baton::new();
        baton.pass();
        baton.wait();
        assert!(!baton.take());
    }
}
