//! The memory of the fuzz instrument: a part of the wire's memfd that is used only if [`crate::option::FUZZ`] is set.
//!
//! Three things are shared here. The *configuration* is written before the start: which files are persistent, which file is the input, and
//! which modules are libraries. A *station* is where a process waits and is copied for each execution. And an execution leaves what it
//! *counted*: edges, transitions between operations on persistent memory, the pages of persistent files that it may have changed, and,
//! if asked for, the operands of comparisons.
//!
//! Transitions are exact: the table is keyed by the two operations. An entry is of the present execution if it has its number
//! ([`FuzzPage::execution`]), so that the table need not be cleared. A list names the entries that the execution has used.

use crate::hold;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Offset of [`FuzzPage`] in the memfd, and the bytes reserved for it.
pub const PAGE: usize = hold::END;
pub const PAGE_BYTES: usize = size_of::<FuzzPage>().next_multiple_of(4096);
/// The end of what is reserved.
pub const END: usize = PAGE + PAGE_BYTES;

/// Entries of the map of edges. An edge is counted at the sum of the identities of its branch and its target, modulo this.
pub const EDGES: usize = 1 << 16;
/// Entries of the table of transitions, a power of two. It is full when three quarters of it are used.
pub const TRANSITIONS: usize = 1 << 15;
pub const MOST_TRANSITIONS: usize = TRANSITIONS / 4 * 3;
/// Operations on persistent memory whose place is kept, a power of two.
pub const OPERATIONS: usize = 1 << 14;
/// Modules whose path is kept.
pub const MODULES: usize = 128;
pub const MAX_PATH: usize = 1024;
/// Persistent files.
pub const FILES: usize = 16;
/// Pages of each persistent file whose changes are noted.
pub const FILE_PAGES: usize = 1 << 16;
/// Changed pages that are listed.
pub const CHANGED_PAGES: usize = 1 << 14;
/// Comparisons that are kept.
pub const COMPARISONS: usize = 1 << 13;
/// Bytes of each operand of a comparison that are kept.
pub const OPERAND_BYTES: usize = 32;
/// Bytes of the names of modules that are libraries, each followed by a NUL.
pub const LIBRARY_BYTES: usize = 4096;

/// The first byte of each name in [`FuzzPage::libraries`].
pub mod library {
    /// A library.
    pub const ANY: u8 = b'-';
    /// A library that works on the persistent memory of its callers. These come first.
    pub const PERSISTENCE: u8 = b'+';
}

/// What the target and the engine share.
#[repr(C, align(4096))]
pub struct FuzzPage {
    // Written before the start.
    /// [`mode`] bits.
    pub mode: AtomicU32,
    /// How many entries of `files` there are.
    pub file_count: AtomicU32,
    /// The file that is the input.
    pub input_dev: AtomicU64,
    pub input_ino: AtomicU64,
    /// The function before which processes are copied; empty if it is the first use of the input.
    pub fork_at: PathText,
    pub libraries: [AtomicU8; LIBRARY_BYTES],
    pub files: [PathText; FILES],

    // Changed by the engine before each execution.
    /// One of [`goal`]: what the next copy does, or the target that is started.
    pub goal: AtomicU32,
    /// The number of the execution; it is not 0.
    pub execution: AtomicU32,

    /// How often a process has come to a station, or back to it; a futex.
    pub arrivals: AtomicU32,
    pub stations: [Station; 2],

    // What an execution has done. The engine clears it.
    /// [`effect`] bits.
    pub effects: AtomicU32,
    /// The last system call with the effect [`effect::FILES`].
    pub effect_call: AtomicU32,
    pub transition_count: AtomicU32,
    pub changed_count: AtomicU32,
    pub comparison_count: AtomicU32,
    /// Transitions that were not counted because the table is full.
    pub lost_transitions: AtomicU32,
    /// Blocks that were translated.
    pub translated: AtomicU32,
    pub changed: [AtomicU64; CHANGED_PAGES],
    pub changed_bits: [[AtomicU64; FILE_PAGES / 64]; FILES],
    pub used_transitions: [AtomicU32; MOST_TRANSITIONS],
    pub comparisons: [ComparisonEntry; COMPARISONS],

    // What all executions have found.
    pub module_count: AtomicU32,
    pub modules: [ModuleEntry; MODULES],
    pub operations: [OperationEntry; OPERATIONS],
    pub transitions: [TransitionEntry; TRANSITIONS],
    pub edges: [AtomicU8; EDGES],
}

/// A text of at most [`MAX_PATH`] bytes.
#[repr(C)]
pub struct PathText {
    pub len: AtomicU32,
    pub bytes: [AtomicU8; MAX_PATH],
}

/// Bits of [`FuzzPage::mode`].
pub mod mode {
    /// Capture the operands of comparisons.
    pub const COMPARISONS: u32 = 1;
}

/// Values of [`FuzzPage::goal`].
pub mod goal {
    /// Wait at the next station.
    pub const STATION: u32 = 0;
    /// Run to the end.
    pub const END: u32 = 1;
}

/// Where a process waits to be copied.
#[repr(C, align(64))]
pub struct Station {
    /// One of [`turn`]; a futex.
    pub turn: AtomicU32,
    /// The process that waits.
    pub pid: AtomicU32,
    /// The copy that was made last; 0 if it could not be made.
    pub copy: AtomicU32,
    /// The number of threads of a process that could not wait here because it has several.
    pub threads: AtomicU32,
}

/// Indices of [`FuzzPage::stations`].
pub mod station {
    /// Before the process first uses a persistent file.
    pub const BEFORE_FILES: usize = 0;
    /// Before the process first uses the input.
    pub const BEFORE_INPUT: usize = 1;
}

/// Values of [`Station::turn`].
pub mod turn {
    /// No process waits here.
    pub const NOBODY: u32 = 0;
    /// A process waits.
    pub const WAITING: u32 = 1;
    /// It is to be copied.
    pub const COPY: u32 = 2;
    /// A process came by and could not wait.
    pub const PASSED: u32 = 3;
}

/// Bits of [`FuzzPage::effects`].
pub mod effect {
    /// A persistent file may have been changed other than by observed stores: it has to be compared as a whole.
    pub const UNKNOWN_PAGES: u32 = 1;
    /// Files that are not persistent may have been written, created, removed or renamed.
    pub const FILES: u32 = 2;
    /// The process has started others.
    pub const PROCESSES: u32 = 4;
    /// A file that is not among the persistent ones was mapped so that it can be written.
    pub const OTHER_MAPPING: u32 = 8;
    /// The input was used.
    pub const INPUT: u32 = 16;
    /// A persistent file was used.
    pub const PERSISTENT: u32 = 32;
}

/// A module of the target. Its identity is a hash of its name.
#[repr(C)]
pub struct ModuleEntry {
    pub identity: AtomicU64,
    pub path: PathText,
}

/// Where an operation is. Its identity is that of its instruction or, in a library, of the instruction and the call that led there.
#[repr(C)]
pub struct OperationEntry {
    /// Written last; 0 until then.
    pub identity: AtomicU64,
    /// Index of the module in which the instruction is, and its offset in the file.
    pub module: AtomicU32,
    /// One of [`operation`].
    pub kind: AtomicU32,
    pub offset: AtomicU64,
    /// The same for the call; the module is `u32::MAX` if the instruction is in no library.
    pub caller_offset: AtomicU64,
    pub caller_module: AtomicU32,
}

/// Values of [`OperationEntry::kind`].
pub mod operation {
    pub const LOAD: u32 = 1;
    pub const STORE: u32 = 2;
    pub const FLUSH: u32 = 3;
    pub const FENCE: u32 = 4;
    pub const CALL: u32 = 5;
}

/// Two operations of a thread, one after the other.
#[repr(C)]
pub struct TransitionEntry {
    /// The identities of both; that of the first is 0 if there was none.
    pub from: AtomicU64,
    pub to: AtomicU64,
    /// The execution that has counted it last.
    pub execution: AtomicU32,
    pub count: AtomicU32,
}

/// Two operands that were compared.
#[repr(C)]
pub struct ComparisonEntry {
    /// Identity of the instruction.
    pub place: AtomicU64,
    /// Bytes of each operand.
    pub len: AtomicU32,
    /// Whether they are in memory, to which a call got pointers.
    pub is_call: AtomicU32,
    pub left: [AtomicU8; OPERAND_BYTES],
    pub right: [AtomicU8; OPERAND_BYTES],
}

const _: () = assert!(PAGE.is_multiple_of(4096) && TRANSITIONS.is_power_of_two());
