//! The memory of the patch instrument: a part of the wire's memfd that is used only if [`crate::option::PATCH`] is set.
//!
//! The recorder names instructions of the target before the start, and what is to be flushed or fenced there. Several of them belong to one
//! *patch*: the operations that a repair would add to one statement.

use crate::fuzz;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Offset of [`PatchPage`] in the memfd, and the bytes reserved for it.
pub const PAGE: usize = fuzz::END;
pub const PAGE_BYTES: usize = 384 << 10;
/// The end of what is reserved.
pub const END: usize = PAGE + PAGE_BYTES;

/// Longer paths cannot be patched.
pub const MAX_PATH: usize = 4096;
/// Files in whose code there are sites, at most.
pub const MAX_FILES: usize = 32;
/// Patches, at most.
pub const MAX_PATCHES: usize = 1024;
/// Sites of all patches, at most.
pub const MAX_SITES: usize = 8192;

/// What is added to the target, and how often that was done.
#[repr(C)]
pub struct PatchPage {
    /// How many of the entries below are used. Written before the target starts.
    pub files: AtomicU32,
    pub patches: AtomicU32,
    pub sites: AtomicU32,
    /// How often an instruction was met whose stored bytes are not known.
    pub unknown: AtomicU32,
    /// Bits of [`operation`] for each patch.
    pub operations: [AtomicU32; MAX_PATCHES],
    /// How often each patch was carried out.
    pub performed: [AtomicU64; MAX_PATCHES],
    pub site: [PatchSite; MAX_SITES],
    pub file: [PatchedFile; MAX_FILES],
}

/// An instruction of a file.
#[repr(C)]
pub struct PatchSite {
    /// Its offset in the file.
    pub offset: AtomicU64,
    /// The number of the file, and of the patch.
    pub file: AtomicU32,
    pub patch: AtomicU32,
    /// Bits of [`role`].
    pub role: AtomicU32,
    pub unused: AtomicU32,
}

/// The path of a file with code of the target.
#[repr(C)]
pub struct PatchedFile {
    pub path_len: AtomicU64,
    pub path: [u8; MAX_PATH],
}

/// Bits of [`PatchPage::operations`].
pub mod operation {
    pub const FLUSH: u32 = 1;
    pub const FENCE: u32 = 2;
    /// `msync` in place of flushes and fences.
    pub const SYNC: u32 = 4;
    /// The statement is a loop: what its iterations store is flushed after the last one.
    pub const LOOP: u32 = 8;
}

/// Bits of [`PatchSite::role`].
pub mod role {
    /// The patch flushes what the instruction stores.
    pub const STORE: u32 = 1;
    /// Together with [`STORE`]: only while the thread is in a call that ends at a [`RETURN`] of the patch.
    pub const INSIDE: u32 = 2;
    /// The statement ends after the instruction.
    pub const AFTER: u32 = 4;
    /// The statement is a call, which returns to the instruction, and ends before it.
    pub const RETURN: u32 = 8;
    /// If the thread has executed the statement, which is a loop, the loop ends before the instruction.
    pub const BEFORE: u32 = 16;
}

const _: () = assert!(size_of::<PatchPage>() <= PAGE_BYTES && PAGE.is_multiple_of(4096));
