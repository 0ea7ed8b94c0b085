//! The memory of the hold instrument: a part of the wire's memfd that is used only if [`crate::option::HOLD`] is set.
//!
//! The recorder names two instructions before the start: a store, and one that its thread executes later, before the store is durable.
//! A thread that has executed the first waits before the second until the recorder lets it go. One thread is held at a time.

use crate::explore;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Offset of [`HoldPage`] in the memfd, and the bytes reserved for it.
pub const PAGE: usize = explore::END;
pub const PAGE_BYTES: usize = 12 << 10;
/// The end of what is reserved.
pub const END: usize = PAGE + PAGE_BYTES;

/// Longer paths cannot be held at.
pub const MAX_PATH: usize = 4096;

/// Where threads are held, and the thread that is.
#[repr(C)]
pub struct HoldPage {
    /// One of [`state`]; a futex.
    pub state: AtomicU32,
    /// The thread that is held: the number of its process in the recording, and its id.
    pub process: AtomicU32,
    pub thread: AtomicU32,
    /// How often a thread was held.
    pub count: AtomicU32,
    /// The store.
    pub store: HeldInstruction,
    /// The instruction before which the thread waits.
    pub wait: HeldInstruction,
}

/// An instruction of a file. Written before the target starts.
#[repr(C)]
pub struct HeldInstruction {
    /// Its offset in the file.
    pub offset: AtomicU64,
    /// The length of the path of the file.
    pub path_len: AtomicU64,
    pub path: [u8; MAX_PATH],
}

/// Values of [`HoldPage::state`].
pub mod state {
    /// The next thread that comes by is held.
    pub const READY: u32 = 0;
    /// A thread is held.
    pub const HELD: u32 = 1;
    /// No thread is held any more.
    pub const OFF: u32 = 2;
}

const _: () = assert!(size_of::<HoldPage>() <= PAGE_BYTES && PAGE.is_multiple_of(4096));
