//! A mutual-exclusion lock for state shared by the threads of the target.
//!
//! Spins briefly, then sleeps on a futex. There is no poisoning. The lock can be reset after a fork, where the
//! child inherits locks but not the threads that hold them. Until a process makes its second thread, locks are
//! taken by plain stores: locked instructions would be a third of the cost of translation.

use crate::sys;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set while only one thread can take locks.
static SINGLE: AtomicBool = AtomicBool::new(false);

/// Sets whether the calling thread is the only one.
///
/// # Safety
/// If it is set, no other thread may take locks until it is cleared. Once there were others it must not be set again: one that
/// is about to end may still release a lock.
pub unsafe fn set_single(single: bool) {
    SINGLE.store(single, Ordering::Relaxed);
}

/// Whether only one thread can take locks.
pub fn is_single() -> bool {
    SINGLE.load(Ordering::Relaxed)
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        if is_single() && self.word.load(Ordering::Acquire) == FREE {
            self.word.store(HELD, Ordering::Relaxed);
            return Guard::of(self);
        }
        for _ in 0..100 {
            if self
                .word
                .compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Guard::of(self);
            }
            core::hint::spin_loop();
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            sys::futex_wait(&self.word, CONTENDED, 100_000_000);
        }
        Guard::of(self)
    }
}

pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// A guard that is shared by threads shares the value, so that it is as `Sync` as a reference to the value.
    value: PhantomData<&'a mut T>,
}

impl<'a, T> Guard<'a, T> {
    /// The guard of a lock that the caller has just taken.
    fn of(lock: &'a Lock<T>) -> Self {
        Guard {
            lock,
            value: PhantomData,
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard's existence means the lock is held by this thread.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes the reference unique.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if is_single() {
            self.lock.word.store(FREE, Ordering::Release);
            return;
        }
        if self.lock.word.swap(FREE, Ordering::Release) == CONTENDED {
            sys::futex_wake(&self.lock.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn increments_by_many_threads_are_all_kept() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}
