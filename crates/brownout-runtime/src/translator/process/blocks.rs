//! Memory of threads that have ended, kept for new ones.
//!
//! A thread that ends still runs on the block that it returns. It holds the list's lock until it no longer uses
//! the block: its last instructions release the lock without using a stack.

use crate::arch::translator::gate;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

struct Spare {
    /// 1 while held.
    word: AtomicU32,
    blocks: UnsafeCell<Vec<u64>>,
}

// SAFETY: `blocks` is touched only while `word` is held.
unsafe impl Sync for Spare {}

static SPARE: Spare = Spare {
    word: AtomicU32::new(0),
    blocks: UnsafeCell::new(Vec::new()),
};

impl Spare {
    fn lock(&self) {
        while self
            .word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
        }
    }

    fn unlock(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// # Safety
    /// The lock must be held.
    #[expect(clippy::mut_from_ref, reason = "the lock makes it unique")]
    unsafe fn held(&self) -> &mut Vec<u64> {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.blocks.get() }
    }
}

/// A block that an ended thread left.
pub fn spare_block() -> Option<u64> {
    SPARE.lock();
    // SAFETY: held.
    let block = unsafe { SPARE.held() }.pop();
    SPARE.unlock();
    block
}

/// Returns a block that is no longer used.
pub(crate) fn give_back(block: u64) {
    SPARE.lock();
    // SAFETY: held.
    unsafe { SPARE.held() }.push(block);
    SPARE.unlock();
}

/// In a forked child: takes the blocks of threads that exist only in the parent. So does the thread that may have
/// held the lock.
pub(crate) fn adopt(blocks: impl Iterator<Item = u64>) {
    SPARE.word.store(1, Ordering::Relaxed);
    // SAFETY: held; the child has one thread.
    unsafe { SPARE.held() }.extend(blocks);
    SPARE.unlock();
}

/// Ends the calling thread, whose block this is. All signals must be blocked.
pub(crate) fn leave(block: u64, status: u64) -> ! {
    SPARE.lock();
    // SAFETY: held, and released by the gate once the stack is no longer used.
    unsafe {
        SPARE.held().push(block);
        gate::thread_exit(SPARE.word.as_ptr(), status)
    }
}
