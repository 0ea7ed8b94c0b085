//! The map lock: one change of the address space at a time.
//!
//! The tables of the engine (which memory is executable, which mappings an instrument observes) and the kernel's
//! view change one after the other. A change therefore holds a lock from before the kernel's call until the
//! tables agree with it: a range that one thread gives up cannot be given to another thread by the kernel while
//! it is still in the tables.
//!
//! Other threads keep running, and may touch what is being replaced or moved. Natively the change is one step,
//! which they see before or after. Such a change is *marked*: an access that fails during a marked change, or
//! once after it, is tried again.

use crate::lock::{Guard, Lock};
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};

static CHANGES: Lock<()> = Lock::new(());
/// Odd while a marked change is under way.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The right to change the address space.
pub struct MapLock {
    marked: bool,
    _guard: Guard<'static, ()>,
}

/// Waits until no other thread changes the address space.
pub fn acquire() -> MapLock {
    MapLock {
        _guard: CHANGES.lock(),
        marked: false,
    }
}

impl MapLock {
    /// What other threads may be using is going to be replaced or moved.
    pub fn mark(&mut self) {
        if !self.marked {
            self.marked = true;
            GENERATION.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn is_marked(&self) -> bool {
        self.marked
    }
}

impl Drop for MapLock {
    fn drop(&mut self) {
        if self.marked {
            GENERATION.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Whether an access may have failed because of a marked change: one is under way, or one has ended since
/// the thread asked last. `seen` is what it saw then.
pub fn is_unsettled(seen: &mut u32) -> bool {
    let now = GENERATION.load(Ordering::Acquire);
    if now % 2 == 1 {
        sys::yield_now();
        return true;
    }
    core::mem::replace(seen, now) != now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_during_a_marked_change_or_once_after_it_is_retried() {
        let mut seen = GENERATION.load(Ordering::Relaxed);
        let unmarked = acquire();
        assert!(!is_unsettled(&mut seen));
        drop(unmarked);
        assert!(!is_unsettled(&mut seen));
        let mut change = acquire();
        change.mark();
        change.mark();
        assert!(is_unsettled(&mut seen));
        assert!(is_unsettled(&mut seen));
        drop(change);
        assert!(is_unsettled(&mut seen));
        assert!(!is_unsettled(&mut seen));
    }
}
