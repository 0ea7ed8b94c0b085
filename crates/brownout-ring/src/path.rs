//! The memory of the path instrument: a part of the wire's memfd that is used only if [`crate::option::PATH`] is set.
//!
//! Before the start, the recorder writes which inputs of the target are *symbolic* ([`Source`]). From the first symbolic byte on, the
//! target appends what it does to a sequence of records: each instruction with the registers that have changed since the one before, the
//! values that it reads, and the memory that the kernel writes. One process records, the first that sees a symbolic byte.
//!
//! A record begins with a byte of [`kind`]. Numbers are little-endian and not aligned.

use crate::patch;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Offset of [`PathPage`] in the memfd, and the bytes reserved for it.
pub const PAGE: usize = patch::END;
pub const PAGE_BYTES: usize = 64 << 10;
/// Offset of the records in the memfd, and the bytes reserved for them. Memory is allocated when it is first used.
pub const RECORDS: usize = PAGE + PAGE_BYTES;
pub const RECORDS_BYTES: usize = 512 << 20;
/// The end of what is reserved.
pub const END: usize = RECORDS + RECORDS_BYTES;

/// The most symbolic sources of a run.
pub const SOURCES: usize = 64;
/// Longer names of environment variables cannot be symbolic.
pub const MAX_NAME: usize = 256;

/// What is symbolic, and how much was recorded.
#[repr(C)]
pub struct PathPage {
    /// Bytes of complete records.
    pub used: AtomicU64,
    /// Non-zero if the path did not fit; the process was then killed.
    pub is_full: AtomicU32,
    /// Number of the process that records plus one; 0 until there is one.
    pub process: AtomicU32,
    /// Number of processes that read a symbolic byte and were not recorded, because another one was.
    pub others: AtomicU32,
    /// Number of entries of `sources`.
    pub count: AtomicU32,
    pub sources: [Source; SOURCES],
}

/// A symbolic input. Written before the target starts.
#[repr(C)]
pub struct Source {
    /// One of [`source`].
    pub kind: AtomicU32,
    /// The number of the argument, or the length of the variable's name.
    pub number: AtomicU32,
    /// The file.
    pub dev: AtomicU64,
    pub ino: AtomicU64,
    pub name: [u8; MAX_NAME],
}

/// Values of [`Source::kind`].
pub mod source {
    /// The bytes of a file.
    pub const FILE: u32 = 1;
    /// The bytes of an argument; 0 is the name of the program.
    pub const ARGUMENT: u32 = 2;
    /// The bytes of the value of an environment variable.
    pub const VARIABLE: u32 = 3;
}

/// The first byte of a record, and what follows it.
pub mod kind {
    /// An instruction that was not executed before while recording: its number (4 bytes), its address (8), its length (1) and its bytes.
    /// The number is that of all following [`STEP`]s. Numbers are given anew when code is translated again.
    pub const SITE: u8 = 1;
    /// An instruction is about to be executed: its number (4 bytes); a mask of the registers that have changed since the thread's last
    /// step (4 bytes; 16 general-purpose registers in the hardware's numbering, then the flags, then the bases of FS and GS); the values of
    /// these (8 bytes each).
    pub const STEP: u8 = 2;
    /// The next step reads memory: the address (8 bytes), the length (4 bytes), the bytes.
    pub const LOAD: u8 = 3;
    /// The next step reads a vector register: its number (1 byte), the length (1 byte), the bytes.
    pub const VECTOR: u8 = 4;
    /// The next step reads a mask register: its number (1 byte), its value (8 bytes).
    pub const MASK: u8 = 5;
    /// The following steps are those of another thread: its id (4 bytes).
    pub const THREAD: u8 = 6;
    /// Memory has become symbolic: the number of the source (4 bytes), the offset in it (8 bytes), and a [`LOAD`] of that memory.
    pub const SYMBOLIC: u8 = 7;
    /// The kernel has written memory: the address (8 bytes), the length (8 bytes).
    pub const KERNEL: u8 = 8;
    /// A system call was made, which may have written memory: its number (4 bytes), its arguments (8 bytes each, six).
    pub const CALL: u8 = 9;
    /// A page of memory as it is now: the address (8 bytes), the length (4 bytes), the bytes.
    pub const PAGE: u8 = 10;
    /// The thread's last step has written memory: the address (8 bytes), the length (4 bytes), the bytes.
    pub const STORE: u8 = 11;
    /// A signal is delivered to the thread, whose last step may not have been completed: the next step is the first one of the handler.
    pub const SIGNAL: u8 = 12;
}

const _: () = assert!(size_of::<PathPage>() <= PAGE_BYTES && PAGE.is_multiple_of(4096));
