//! The memory of the coverage instrument: a part of the wire's memfd that is used only if [`crate::option::COVERAGE`]
//! is set.
//!
//! Two tables, shared by all processes, describe what is counted: [`CountedModule`]s, and [`Counter`]s, each of which
//! refers to a module. An entry is taken by incrementing [`Head::modules`] or [`Head::counters`] and is never
//! given back.
//!
//! The counts themselves are an array of 64-bit words for each slot of the wire, with one word for each counter. Only the
//! thread that owns the slot writes to its array, so that increments need no locked instruction and none is lost. The
//! arrays are never cleared: the count of a counter is the sum over all slots, whichever threads owned them.

use crate::{LOADER, LOADER_BYTES, SLOTS};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Modules that all processes of a recording can have, counted again for each process image.
pub const MODULES: usize = 1 << 14;
/// Counters that all processes of a recording can have.
pub const COUNTERS: usize = 1 << 22;

/// Offset of the [`Head`] in the memfd.
pub const HEAD: usize = LOADER + LOADER_BYTES;
/// Offset of the table of modules in the memfd.
pub const MODULE_TABLE: usize = HEAD + 4096;
/// Offset of the table of counters in the memfd.
pub const COUNTER_TABLE: usize = MODULE_TABLE + MODULES * size_of::<CountedModule>();
/// Offset of slot 0's counts in the memfd, and the size of the counts of a slot.
pub const COUNTS: usize = COUNTER_TABLE + COUNTERS * size_of::<Counter>();
pub const COUNTS_BYTES: usize = COUNTERS * 8;
/// The end of all counts.
pub const END: usize = COUNTS + SLOTS * COUNTS_BYTES;

/// Counter 0 counts the entries of blocks that are in no module: generated code and the vDSO.
pub const NO_MODULE: u32 = 0;

/// Offset in the memfd of the counts of slot `index`.
pub const fn counts_offset(index: usize) -> usize {
    COUNTS + index * COUNTS_BYTES
}

/// What of the tables is in use.
#[repr(C)]
pub struct Head {
    /// Entries of the table of modules that were taken. May exceed [`MODULES`].
    pub modules: AtomicU32,
    /// Entries of the table of counters that were taken, without counter 0. May exceed what there is.
    pub counters: AtomicU32,
    /// Blocks, branches and threads that are not counted because a table was full.
    pub uncounted: AtomicU32,
}

/// A mapping of a file's code in one process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CountedModule {
    /// Address of the mapping in its process.
    pub start: u64,
    /// Offset in the file at which the mapping starts.
    pub file_offset: u64,
    /// Bytes of the path. Written last: 0 until then.
    pub path_len: u64,
    pub path: [u8; MAX_PATH],
}

/// Longer paths are cut off.
pub const MAX_PATH: usize = 4096 - 24;

/// What one counter counts.
#[repr(C)]
pub struct Counter {
    /// First instruction concerned, as an address in the process that allotted the counter.
    pub address: AtomicU64,
    /// Its module, as an index in the table.
    pub module: AtomicU32,
    /// Bytes of the instructions concerned.
    pub size: AtomicU16,
    /// One of [`kind`]. Written last: 0 until then.
    pub kind: AtomicU16,
}

/// Values of [`Counter::kind`].
pub mod kind {
    /// How often the instructions were entered as one block. Blocks may overlap.
    pub const BLOCK: u16 = 1;
    /// How often the conditional branch was not taken.
    pub const FALL_THROUGH: u16 = 2;
    /// How often the instructions were counted with their block but not executed, because a fault or a signal
    /// interrupted the block before them. If they are executed later, they count again.
    pub const INTERRUPTED: u16 = 3;
}

const _: () = {
    assert!(HEAD.is_multiple_of(4096));
    assert!(COUNTS.is_multiple_of(4096));
    assert!(size_of::<CountedModule>() == 4096);
    assert!(size_of::<Counter>() == 16);
};
