//! The wire between a recorded process and the recorder: one memfd, shared by every process of a
//! recording, with a control page, a table of slots, a table of watched functions and one byte ring per slot.
//!
//! A thread of the target owns a slot from its first event to its exit. It appends [`Record`]s to its
//! ring and publishes them by moving `head`; the recorder, another process, consumes them and moves
//! `tail`. Because the bytes live in a memfd that both sides map, whatever was published survives a
//! `SIGKILL` of the target.
//!
//! A store and its record are two steps. A thread that may be killed in between says in its [`Intent`] what it is
//! about to store, before it does; who finds an intent that no record followed can tell from the file whether
//! the store was made.
//!
//! Every record carries a sequence number drawn from one counter in the control page
//! ([`Control::next_seq`]), so that the records of all threads of all processes have one total order.
//! Numbers are dense: the recorder can tell that a number is still missing. A thread that is killed
//! between drawing a number and publishing leaves a hole; the recorder skips a hole once no live
//! thread can fill it.
//!
//! This crate is layout and constants only: no system calls, no allocation, nothing that could not
//! live inside someone else's process.
#![no_std]
#![forbid(unsafe_code)]

pub mod coverage;

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the control page: `brownout` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"brownout");
/// Changes whenever the layout below does; both sides come from one build, so they must agree.
pub const VERSION: u32 = 7;

/// Name of the environment variable by which an exec hands the wire on; the target never sees it.
pub const ENV: &str = "BROWNOUT_WIRE";

/// Slots, and so threads of all processes alive at once, that a recording can hold.
pub const SLOTS: usize = 4096;
/// Bytes in one ring. Both sides map it twice in a row, so that no record wraps.
pub const RING_BYTES: usize = 1 << 20;
/// No record is longer; larger payloads are split by the producer.
pub const MAX_RECORD: usize = 64 << 10;

/// Offset of the slot table in the memfd.
pub const SLOT_TABLE: usize = 4096;
/// Offset in the memfd of the table of watched functions (see [`watch`]), and its size.
pub const WATCH_TABLE: usize = SLOT_TABLE + SLOTS * size_of::<Slot>();
pub const WATCH_BYTES: usize = 64 << 10;
/// Offset of slot 0's [`Intent`] in the memfd, and the room that each has.
pub const INTENTS: usize = WATCH_TABLE + WATCH_BYTES;
pub const INTENT_BYTES: usize = 8 << 10;
/// Offset of slot 0's ring in the memfd.
pub const RINGS: usize = INTENTS + SLOTS * INTENT_BYTES;
/// Offset in the memfd of a copy of the loader, after its length in eight bytes: put there by a process that is about to
/// lose the other ways to it.
pub const LOADER: usize = RINGS + SLOTS * RING_BYTES;
pub const LOADER_BYTES: usize = 16 << 20;
/// Size of the memfd. It is sparse: rings and counts take memory when they are first used.
pub const WIRE_BYTES: usize = coverage::END;

/// Offset in the memfd of the ring of slot `index`.
pub const fn ring_offset(index: usize) -> usize {
    RINGS + index * RING_BYTES
}

/// Offset in the memfd of the intent of slot `index`.
pub const fn intent_offset(index: usize) -> usize {
    INTENTS + index * INTENT_BYTES
}

/// The first page of the memfd.
#[repr(C, align(64))]
pub struct Control {
    pub magic: u64,
    pub version: u32,
    /// [`option`] bits chosen by the recorder before the target starts.
    pub options: u32,
    /// The recorder's process id, so that a producer on a full ring can tell that nobody drains it.
    pub recorder_pid: u32,
    /// Incremented by producers that have published much; the recorder sleeps on it as a futex.
    pub doorbell: AtomicU32,
    /// One of [`recording`].
    pub recording: AtomicU32,
    pub next_process: AtomicU32,
    /// Slots that were ever claimed are below this one; raised before a slot becomes LIVE.
    pub slots_used: AtomicU32,
    /// Processes that were ever started by others, counted before they are.
    pub children: AtomicU32,
    pub next_seq: Line<AtomicU64>,
    pub files: SharedFiles,
}

/// Files that any process of the recording has mapped: what processes that have not must tell writes to.
#[repr(C, align(64))]
pub struct SharedFiles {
    /// Entries that were ever taken, which may be more than there are: then some files are missing.
    pub taken: AtomicU32,
    pub entries: [SharedFile; SHARED_FILES],
}

/// Files that [`SharedFiles`] has room for.
pub const SHARED_FILES: usize = 128;

/// A file of [`SharedFiles`]; `ino` is written last, and 0 until then.
#[repr(C)]
pub struct SharedFile {
    pub dev: AtomicU64,
    pub ino: AtomicU64,
}

/// A value alone on its cache line.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// Bits of [`Control::options`].
pub mod option {
    /// Record loads from persistent memory too.
    pub const LOADS: u32 = 1;
    /// Count the blocks and branches of the target (see [`super::coverage`]).
    pub const COVERAGE: u32 = 2;
}

/// Values of [`Control::recording`].
pub mod recording {
    /// The recorder drains; producers wait when their ring is full.
    pub const ON: u32 = 0;
    /// The recorder gave up (disk full, killed): producers drop their records and never wait.
    pub const OFF: u32 = 1;
}

/// One entry of the slot table.
#[repr(C, align(64))]
pub struct Slot {
    /// One of [`slot`].
    pub state: AtomicU32,
    /// Number of the owner's process within the recording, from [`Control::next_process`].
    pub process: AtomicU32,
    /// The owner's process id and thread id as the kernel numbers them.
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// Total bytes published. Written by the producer only.
    pub head: AtomicU64,
    /// Total bytes consumed. Written by the recorder only; its low word is a futex for a producer
    /// that waits for room.
    pub tail: AtomicU64,
    /// Non-zero while the producer waits on `tail`.
    pub waiting: AtomicU32,
}

/// What the owner of a slot is about to store. [`evidence`] bytes follow, at most [`MAX_INTENT`].
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Intent {
    /// [`Slot::head`] at that time, written last: nothing that was published later can be the record of the
    /// store, and so the intent is void once `head` has moved on. [`Intent::VOID`] if there is none.
    pub at: u64,
    /// As in the [`Record`] that is to follow.
    pub addr: u64,
    pub pc: u64,
    pub size: u32,
    pub kind: u16,
    pub flags: u16,
    /// One of [`evidence`].
    pub evidence: u32,
}

impl Intent {
    /// No number of published bytes.
    pub const VOID: u64 = u64::MAX;
}

/// Bytes that may follow an [`Intent`].
pub const MAX_INTENT: usize = 4096;

/// Values of [`Intent::evidence`]: what the bytes after it are, and so how to tell whether the store was made.
pub mod evidence {
    /// There are none: nothing is about to be stored.
    pub const NONE: u32 = 0;
    /// What memory held before. If it holds anything else, all of it was stored.
    pub const BEFORE: u32 = 1;
    /// What memory held before. Where it holds anything else, it was stored.
    pub const BEFORE_PARTS: u32 = 2;
    /// What is to be stored. If memory holds it, it was.
    pub const VALUE: u32 = 3;
}

/// Values of [`Slot::state`]. The producer moves FREE → CLAIMED (by compare-exchange), fills in the
/// other fields, then → LIVE, and at its exit → CLOSED. The recorder moves CLOSED → FREE once it has
/// drained the ring and reset `head` and `tail`.
pub mod slot {
    pub const FREE: u32 = 0;
    pub const CLAIMED: u32 = 1;
    pub const LIVE: u32 = 2;
    pub const CLOSED: u32 = 3;
}

/// Head of every record; the payload follows. Records start at multiples of 8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Bytes of the whole record, a multiple of 8.
    pub len: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// Meaning depends on the kind.
    pub flags: u16,
    pub seq: u64,
    /// Address of the instruction in the program; of a system call's instruction for events the
    /// kernel caused; 0 where there is none.
    pub pc: u64,
    /// Number of the calling context, defined by an earlier [`kind::CONTEXT`] of the same process.
    pub context: u32,
    /// Length of the payload that means something (the rest is padding), or as the kind says.
    pub size: u32,
    /// First address concerned, or as the kind says.
    pub addr: u64,
}

/// Kinds of [`Record`]. "payload" is what follows the head, `size` bytes of it unless said otherwise.
pub mod kind {
    /// `addr` was written with the payload. Flags: [`super::store`].
    pub const STORE: u16 = 1;
    /// `addr` was read; the payload is what was seen.
    pub const LOAD: u16 = 2;
    /// The cache line of `addr` was flushed; `addr` is as the program gave it. Flags:
    /// [`super::flush`]; `size` is 0.
    pub const FLUSH: u16 = 3;
    /// Flags: [`super::fence`]. Locked instructions are recorded only where they can order
    /// something: when the thread has had another event since its last recorded fence.
    pub const FENCE: u16 = 4;
    /// The kernel wrote the payload to `addr` on behalf of a system call; `flags` is its number.
    pub const KERNEL_WRITE: u16 = 5;
    /// A mapped file was written through a descriptor: [`super::FileAt`], then `size` bytes in all.
    /// `flags` is the system call's number.
    pub const FILE_WRITE: u16 = 6;
    /// A mapped file got a new length: payload [`super::FileAt`] with `offset` the new length.
    pub const FILE_RESIZE: u16 = 7;
    /// Pages were written back. `addr` and payload [`super::Sync`]. Flags: [`super::sync`].
    pub const SYNC: u16 = 8;
    /// A candidate for persistent memory was mapped at `addr`: payload [`super::Map`], then the path.
    pub const MAP: u16 = 9;
    /// `addr` and 8 bytes of length were unmapped.
    pub const UNMAP: u16 = 10;
    /// A mapping moved or was resized: `addr` is the old address; payload: old length, new address,
    /// new length, 8 bytes each.
    pub const REMAP: u16 = 11;
    /// Bytes a file held when it was mapped: [`super::FileAt`], then the bytes. Follows its MAP; ranges
    /// of the mapping not mentioned were zero.
    pub const CONTENT: u16 = 12;
    /// Defines context number `context`: `addr` is the return address, payload: the number of the
    /// caller's context, 4 bytes (0 is the root).
    pub const CONTEXT: u16 = 13;
    /// Code was mapped at `addr`: payload [`super::Module`], then the path.
    pub const MODULE: u16 = 14;
    /// `addr` is the number that the [`THREAD_CREATE`] of the thread's creator gave it; 0 if there was none. The first
    /// thread of a forked process has the number that its creator gave in the parent process.
    pub const THREAD_START: u16 = 15;
    /// `addr` is the thread pointer, by which C libraries name threads.
    pub const THREAD_EXIT: u16 = 16;
    /// Payload [`super::ProcessStart`], then the executable's path, a NUL, and the arguments, each
    /// ended by a NUL.
    pub const PROCESS_START: u16 = 17;
    /// `addr` is the status as given to `exit_group`.
    pub const PROCESS_EXIT: u16 = 18;
    /// Something the user should know, as UTF-8 text.
    pub const NOTE: u16 = 19;
    /// A mapping of `addr`, 8 bytes of length, is now writable (flags 1) or not (flags 0) by the program.
    pub const PROTECT: u16 = 20;
    /// A watched function is entered: `addr` is its number; payload: the watched arguments, 8 bytes each.
    pub const CALL: u16 = 21;
    /// A watched function was left: `addr` is its number; payload: rax and rdx, or nothing if it did not
    /// return but was jumped out of.
    pub const RETURN: u16 = 22;
    /// The thread is about to create another one, or to fork: `addr` is a number that is used once in its process,
    /// payload: the new thread's thread pointer, 8 bytes (0 if it is not given to the kernel).
    pub const THREAD_CREATE: u16 = 23;
}

/// Flags of [`kind::STORE`].
pub mod store {
    /// Non-temporal (`movnt*`, `maskmovdqu`): not ordered by the cache line's store order.
    pub const NON_TEMPORAL: u16 = 1;
    /// Direct (`movdiri`, `movdir64b`): non-temporal, and whole.
    pub const DIRECT: u16 = 2;
    /// By a locked instruction or `xchg`: a fence as well.
    pub const LOCKED: u16 = 4;
    /// A piece of a string instruction.
    pub const STRING: u16 = 8;
}

/// Flags of [`kind::FLUSH`].
pub mod flush {
    pub const CLFLUSH: u16 = 1;
    pub const CLFLUSHOPT: u16 = 2;
    pub const CLWB: u16 = 3;
    /// Set beside one of the above: the address is in no candidate mapping.
    pub const VOLATILE: u16 = 0x100;
}

/// Flags of [`kind::FENCE`].
pub mod fence {
    pub const SFENCE: u16 = 1;
    pub const MFENCE: u16 = 2;
    /// A locked instruction on memory that is no candidate, or one that stored nothing.
    pub const LOCKED: u16 = 3;
}

/// Flags of [`kind::SYNC`].
pub mod sync {
    pub const MSYNC: u16 = 1;
    pub const FSYNC: u16 = 2;
    pub const FDATASYNC: u16 = 3;
    pub const SYNC_FILE_RANGE: u16 = 4;
    pub const SYNCFS: u16 = 5;
    /// Set beside `MSYNC`: `MS_ASYNC`, which guarantees nothing.
    pub const ASYNC: u16 = 0x100;
}

/// The table of watched functions: what the recorder wants to know calls of. Entries follow each other: a
/// byte that says how many arguments to keep, two bytes of length, the name. The end is an entry without
/// name, or the end of the table. A function's number is its entry's place.
pub mod watch {
    /// Arguments in general registers, in the order of the calling convention.
    pub const MAX_ARGUMENTS: u8 = 6;
    /// Bytes of an entry before the name.
    pub const HEAD: usize = 3;
    /// Bytes of a name, at most.
    pub const MAX_NAME: usize = 4096;

    /// The head of the entry for a function; `None` if it has no name or one that is too long.
    pub fn head(arguments: u8, name: &str) -> Option<[u8; HEAD]> {
        let len = Some(name.len()).filter(|len| (1..=MAX_NAME).contains(len))?;
        let [low, high] = (len as u16).to_le_bytes();
        Some([arguments.min(MAX_ARGUMENTS), low, high])
    }

    /// The entries of a table: how many arguments to keep, and the name.
    pub fn entries(table: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = table;
        core::iter::from_fn(move || {
            let (&[arguments, low, high], after) = rest.split_first_chunk::<HEAD>()?;
            let len = usize::from(u16::from_le_bytes([low, high]));
            let known = (1..=MAX_NAME).contains(&len);
            let (name, after) = after.split_at_checked(len).filter(|_| known)?;
            rest = after;
            Some((arguments.min(MAX_ARGUMENTS), name))
        })
    }
}

/// A place in a file, by the kernel's name for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileAt {
    pub dev: u64,
    pub ino: u64,
    pub offset: u64,
}

/// Payload of [`kind::SYNC`]. For `msync` the head's `addr` and `len` tell the range and `file` is 0;
/// for the others `file` tells which file and `addr` is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sync {
    pub file: FileAt,
    pub len: u64,
}

/// Payload of [`kind::MAP`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The file, and the offset in it at which the mapping starts.
    pub file: FileAt,
    pub len: u64,
    /// The file's length when it was mapped.
    pub file_len: u64,
    /// `prot` and `flags` as the program passed them to `mmap`.
    pub prot: u32,
    pub map_flags: u32,
    /// [`map`] bits.
    pub facts: u32,
    pub pad: u32,
}

/// Bits of [`Map::facts`].
pub mod map {
    /// On a DAX file system or device, or mapped with `MAP_SYNC`.
    pub const DAX: u32 = 1;
    /// What the file holds follows as CONTENT; what that does not mention is zero. Without this bit the
    /// process has the range mapped already.
    pub const SNAPSHOT: u32 = 2;
}

/// Payload of [`kind::MODULE`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ModuleMapping {
    pub len: u64,
    pub file_offset: u64,
}

/// Payload of [`kind::PROCESS_START`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessStart {
    pub pid: u32,
    pub parent_pid: u32,
    /// Process number of the parent within the recording, or `u32::MAX`.
    pub parent: u32,
    /// One of [`origin`].
    pub origin: u32,
}

/// Values of [`ProcessStart::origin`].
pub mod origin {
    /// A program image was loaded; mappings, modules and contexts start empty.
    pub const EXEC: u32 = 0;
    /// A fork: mappings, modules and contexts are those of the parent at that moment.
    pub const FORK: u32 = 1;
}

const _: () = {
    assert!(size_of::<Control>() <= SLOT_TABLE);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Record>() == 40);
    assert!(size_of::<Intent>() + MAX_INTENT <= INTENT_BYTES);
    assert!(INTENTS.is_multiple_of(4096));
    assert!(WATCH_TABLE.is_multiple_of(4096));
    assert!(RINGS.is_multiple_of(4096));
    assert!(RING_BYTES.is_multiple_of(4096));
};
