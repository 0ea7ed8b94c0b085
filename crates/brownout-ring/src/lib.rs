//! The wire between the target's processes and the recorder: one memfd, shared by all processes of a recording, with a
//! control page, a table of slots, a table of watched functions and one byte ring per slot.
//!
//! A thread of the target owns a slot from its first event to its exit. It appends [`Record`]s to its ring and publishes
//! them by advancing `head`. The recorder, another process, consumes them and advances `tail`. The bytes are in a memfd
//! that outlives the target's processes, so published records survive a `SIGKILL` of the target.
//!
//! Executing a store and recording it are two steps, and a thread can be killed in between. Therefore it writes an
//! [`Intent`] before the store. If no record follows an intent, the content of the file shows whether the store was
//! executed.
//!
//! Every record has a sequence number, drawn from one counter in the control page ([`Control::next_seq`]), so the records
//! of all threads of all processes have one total order. The numbers are consecutive, so the recorder can detect a missing
//! one. A thread that is killed between drawing a number and publishing its record leaves a gap. The recorder skips a gap
//! once no live thread can fill it.
//!
//! Drawing a number is a locked instruction on a word that all threads change. Records that no other thread waits for (loads, flushes,
//! calls that acquire locks) therefore *borrow* the number that will be drawn next: they only read the counter, and mark the number
//! with [`BORROWED`]. They come before the record that draws it. Records of different threads that borrow the same number have no order.
//!
//! The number of a forked process's first record is drawn by its parent, before the fork. What the child inherits is then
//! what there was at that position, however late the child runs for the first time.
//!
//! This crate contains only layout and constants, because it is also linked into the target's process: it makes no system
//! calls and does not allocate.
#![no_std]
#![forbid(unsafe_code)]

pub mod client;
pub mod coverage;
pub mod explore;
pub mod fuzz;
pub mod hold;
pub mod patch;
pub mod path;

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the control page: `brownout` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"brownout");
/// Changes whenever the layout below changes. Both sides come from the same build, so they must agree.
pub const VERSION: u32 = 18;

/// Name of the environment variable that passes the wire on across `execve`. The target never sees it.
pub const ENV: &str = "BROWNOUT_WIRE";

/// In the text of a [`kind::NOTE`]: stands between a program that ran without being recorded and the reason.
pub const UNRECORDED: &str = ", which cannot be recorded: ";

/// The text of a [`kind::NOTE`] that names a file written with system calls begins so. Device and inode number follow,
/// separated by a colon, then a space and the path.
pub const WRITTEN_FILE: &str = "written with system calls: file ";

/// The text of a [`kind::NOTE`] about a call that should have made data durable and failed begins so. The name of the call, the error
/// number and two more numbers follow, separated by spaces: address and length for `msync`, else device and inode number of the file.
pub const FAILED_SYNC: &str = "data was not made durable by ";

/// Number of slots, which limits the number of threads of all processes that can be alive at the same time.
pub const SLOTS: usize = 4096;
/// Bytes in one ring. Both sides map it twice in a row, so that no record wraps.
pub const RING_BYTES: usize = 1 << 20;
/// Maximum length of a record. Producers split larger payloads.
pub const MAX_RECORD: usize = 64 << 10;

/// Offset of the slot table in the memfd.
pub const SLOT_TABLE: usize = 4096;
/// Offset in the memfd of the table of watched functions (see [`watch`]), and its size.
pub const WATCH_TABLE: usize = SLOT_TABLE + SLOTS * size_of::<Slot>();
pub const WATCH_BYTES: usize = 64 << 10;
/// Offset of slot 0's ring in the memfd.
pub const RINGS: usize = WATCH_TABLE + WATCH_BYTES;
/// Bytes reserved for the [`Intent`] that follows each ring: a producer maps it together with the ring.
pub const INTENT_BYTES: usize = 8 << 10;
/// Offset in the memfd of a copy of the loader, preceded by its length in eight bytes. A process writes the copy before it
/// loses its other access to the loader.
pub const LOADER: usize = RINGS + SLOTS * (RING_BYTES + INTENT_BYTES);
pub const LOADER_BYTES: usize = 16 << 20;
/// Size of the memfd. It is sparse: memory for rings and counts is allocated when they are first used.
pub const WIRE_BYTES: usize = client::END;

/// Offset in the memfd of the ring of slot `index`.
pub const fn ring_offset(index: usize) -> usize {
    RINGS + index * (RING_BYTES + INTENT_BYTES)
}

/// Offset in the memfd of the intent of slot `index`.
pub const fn intent_offset(index: usize) -> usize {
    ring_offset(index) + RING_BYTES
}

/// The first page of the memfd.
#[repr(C, align(64))]
pub struct Control {
    pub magic: u64,
    pub version: u32,
    /// [`option`] bits chosen by the recorder before the target starts.
    pub options: u32,
    /// The recorder's process id, so that a producer with a full ring can detect that the recorder has ended.
    pub recorder_pid: u32,
    /// Incremented by producers that have published a lot. The recorder sleeps on it as a futex.
    pub doorbell: AtomicU32,
    /// One of [`recording`].
    pub recording: AtomicU32,
    pub next_process: AtomicU32,
    /// All slots that were ever claimed have lower indices. Raised before a slot becomes LIVE.
    pub slots_used: AtomicU32,
    /// Number of processes that other processes have started, incremented before the start.
    pub children: AtomicU32,
    /// Number of forks whose child has not published its first record, the number of which was drawn before the fork.
    /// Incremented before that number is drawn; decremented by the child, or by the parent if the fork fails.
    pub births: AtomicU32,
    /// [`input`] bits that the target's processes set.
    pub inputs: AtomicU32,
    /// Non-zero once two processes have mapped the same file.
    pub shared: AtomicU32,
    /// With [`option::SCHEDULE`]: the number of threads of a process that was ended because none of them could ever run again, or 0.
    pub deadlocked: AtomicU32,
    /// With [`option::SCHEDULE`]: the seed of the schedule, and the number of steps over which its preemptions are distributed.
    pub seed: u64,
    pub length: u64,
    /// With [`option::SCHEDULE`]: when the recording started, in nanoseconds since 1970, as far as the times of files show that.
    pub started: u64,
    /// Steps that threads have made under a schedule while there were several of them.
    pub steps: AtomicU64,
    pub next_seq: Line<AtomicU64>,
    pub files: SharedFiles,
}

/// Files that any process of the recording has mapped. Other processes must record their writes to these files.
#[repr(C, align(64))]
pub struct SharedFiles {
    /// Number of entries that were requested. If it exceeds the number of entries, some files are missing.
    pub taken: AtomicU32,
    pub entries: [SharedFile; SHARED_FILES],
}

/// Maximum number of files in [`SharedFiles`].
pub const SHARED_FILES: usize = 128;

/// A file in [`SharedFiles`]. `ino` is written last and is 0 until then.
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
    /// Report which files the target opens and reads ([`super::kind::FILE_USE`]). Set together with [`LOADS`].
    pub const READS: u32 = 4;
    /// Ask a controller for the bytes of loads (see [`super::explore`]). Set together with [`LOADS`].
    pub const EXPLORE: u32 = 8;
    /// The target is run several times, and runs have to be alike: give it the same random bytes at its start, and report what
    /// else makes runs differ ([`super::input`]).
    pub const REPEATED: u32 = 16;
    /// Recognise locks by their atomic instructions ([`super::kind::LOCK_ACQUIRE`]).
    pub const LOCKS: u32 = 32;
    /// Record loads and recognise locks from the time on at which several threads or processes use persistent memory.
    pub const SHARED_LOADS: u32 = 64;
    /// Keep threads from making a store durable (see [`super::hold`]).
    pub const HOLD: u32 = 256;
    /// Flush and fence where the target does not (see [`super::patch`]).
    pub const PATCH: u32 = 1024;
    /// Run one thread at a time, in an order that [`super::Control::seed`] determines.
    pub const SCHEDULE: u32 = 128;
    /// Record the path of the target from the first symbolic byte on (see [`super::path`]).
    pub const PATH: u32 = 4096;
    /// Count what executions do, and copy the process for each of them (see [`super::fuzz`]).
    pub const FUZZ: u32 = 512;
    /// Send the input to the target, which is a server (see [`super::client`]). Set together with [`SCHEDULE`].
    pub const CLIENT: u32 = 2048;
}

/// Bits of [`Control::inputs`]: what a target uses that is not the same in each run.
pub mod input {
    pub const TIME: u32 = 1;
    pub const RANDOM: u32 = 2;
    /// Files that are neither explored nor those of the system. Only reported in explorations.
    pub const FILES: u32 = 4;
    /// Signals that one thread or process sends to another, or that interrupt a wait. This and what follows is only reported under
    /// a schedule.
    pub const SIGNALS: u32 = 8;
    /// Several processes, which run at the same time.
    pub const PROCESSES: u32 = 16;
    /// System calls that wait for something outside of the process, or that only the kernel can end.
    pub const OUTSIDE: u32 = 32;
    /// Timers of the system.
    pub const TIMERS: u32 = 64;
    /// Ids of processes and threads.
    pub const IDS: u32 = 128;
    /// What the system says about its use: processor time, memory, load, the processor that a thread runs on.
    pub const USAGE: u32 = 256;
}

/// Stands in the place of a return address: contexts in which recursion led back to the caller's context are the same.
pub const FOLDED_RECURSION: u64 = 1;

/// Values of [`Control::recording`].
pub mod recording {
    /// The recorder reads records. Producers wait if their ring is full.
    pub const ON: u32 = 0;
    /// The recorder has stopped (disk full, killed). Producers discard their records and never wait.
    pub const OFF: u32 = 1;
}

/// One entry of the slot table.
#[repr(C, align(64))]
pub struct Slot {
    /// One of [`slot`].
    pub state: AtomicU32,
    /// Number of the owner's process within the recording, from [`Control::next_process`].
    pub process: AtomicU32,
    /// The owner's process id and thread id in its own pid namespace.
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// Total bytes published. Only the producer writes it.
    pub head: AtomicU64,
    /// Total bytes consumed. Only the recorder writes it. Its low word is a futex for a producer that waits for room.
    pub tail: AtomicU64,
    /// Non-zero while the producer waits on `tail`.
    pub waiting: AtomicU32,
    /// Non-zero from before the producer draws a number for a process that it forks until the fork is over.
    pub forking: AtomicU32,
}

/// What the owner of a slot is about to store. [`evidence`] bytes follow, at most [`MAX_INTENT`].
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Intent {
    /// [`Slot::head`] when the intent was written; this field is written last. Once `head` has advanced, the intent is void,
    /// because the record of the store would be published first. [`Intent::VOID`] if there is no intent.
    pub at: u64,
    /// As in the [`Record`] that will follow.
    pub addr: u64,
    pub pc: u64,
    pub size: u32,
    pub kind: u16,
    pub flags: u16,
    /// One of [`evidence`].
    pub evidence: u32,
}

impl Intent {
    /// Not a possible number of published bytes.
    pub const VOID: u64 = u64::MAX;
}

/// Bytes that may follow an [`Intent`].
pub const MAX_INTENT: usize = 4096;

/// Values of [`Intent::evidence`]: the meaning of the bytes after the intent, which determine whether the store was
/// executed.
pub mod evidence {
    /// There are no bytes: no store is announced.
    pub const NONE: u32 = 0;
    /// The content of memory before the store. If memory differs anywhere, the whole store was executed.
    pub const BEFORE: u32 = 1;
    /// The content of memory before the store. The bytes that differ were stored.
    pub const BEFORE_PARTS: u32 = 2;
    /// The value to store. If memory holds it, the store was executed.
    pub const VALUE: u32 = 3;
}

/// Values of [`Slot::state`]. The producer changes FREE to CLAIMED (by compare-exchange), fills in the other fields, then
/// changes to LIVE, and at its exit to CLOSED. The recorder changes CLOSED to FREE once it has drained the ring and reset
/// `head` and `tail`.
pub mod slot {
    pub const FREE: u32 = 0;
    pub const CLAIMED: u32 = 1;
    pub const LIVE: u32 = 2;
    pub const CLOSED: u32 = 3;
}

/// In [`Record::seq`]: the record comes before the one that draws this number.
pub const BORROWED: u64 = 1 << 63;

/// Head of every record; the payload follows. Records start at multiples of 8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Length of the whole record in bytes, a multiple of 8.
    pub len: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// The meaning depends on the kind.
    pub flags: u16,
    /// The number in the order of all records; with [`BORROWED`] if another record has drawn or will draw it.
    pub seq: u64,
    /// Address of the instruction in the target; for an effect of the kernel, of the system call instruction; 0 if there is
    /// none.
    pub pc: u64,
    /// Number of the calling context, defined by an earlier [`kind::CONTEXT`] record of the same process.
    pub context: u32,
    /// Length of the payload without padding, unless the kind says otherwise.
    pub size: u32,
    /// First address, unless the kind says otherwise.
    pub addr: u64,
}

/// Kinds of [`Record`]. The payload is the `size` bytes after the head, unless stated otherwise.
pub mod kind {
    /// The payload was stored to `addr`. Flags: [`super::store`].
    pub const STORE: u16 = 1;
    /// The payload was loaded from `addr`.
    pub const LOAD: u16 = 2;
    /// The cache line of `addr` was flushed. `addr` is the operand of the instruction. Flags: [`super::flush`]; `size` is 0.
    pub const FLUSH: u16 = 3;
    /// Flags: [`super::fence`]. A locked instruction is recorded only if there is something to order: if the thread has had
    /// another event since its last recorded fence.
    pub const FENCE: u16 = 4;
    /// The kernel wrote the payload to `addr` on behalf of a system call. `flags` is the number of the system call.
    pub const KERNEL_WRITE: u16 = 5;
    /// A mapped file was written through a descriptor: [`super::FileAt`], then the bytes; `size` covers both. `flags` is the
    /// number of the system call.
    pub const FILE_WRITE: u16 = 6;
    /// The length of a mapped file changed: payload [`super::FileAt`], whose `offset` is the new length.
    pub const FILE_RESIZE: u16 = 7;
    /// Pages were written back. `addr` and payload [`super::Sync`]. Flags: [`super::sync`].
    pub const SYNC: u16 = 8;
    /// A candidate for persistent memory was mapped at `addr`: payload [`super::Map`], then the path.
    pub const MAP: u16 = 9;
    /// A range at `addr` was unmapped: payload: its length, 8 bytes.
    pub const UNMAP: u16 = 10;
    /// A mapping was moved or resized: `addr` is the old address; payload: old length, new address, new length, 8 bytes each.
    pub const REMAP: u16 = 11;
    /// Bytes of a file when it was mapped: [`super::FileAt`], then the bytes. Follows the MAP record; parts of the mapping
    /// without a CONTENT record were zero.
    pub const CONTENT: u16 = 12;
    /// Defines context number `context`: `addr` is the return address; payload: the number of the caller's context, 4 bytes
    /// (0 is the root). If `addr` is [`super::FOLDED_RECURSION`], no event has this context: it says that calls which lead back
    /// to the caller's context are folded.
    pub const CONTEXT: u16 = 13;
    /// Code was mapped at `addr`: payload [`super::ModuleMapping`], then the path.
    pub const MODULE: u16 = 14;
    /// A thread starts: `addr` is the number in its creator's [`THREAD_CREATE`] record; 0 if there was none. For the first
    /// thread of a forked process, that record is in the parent process.
    pub const THREAD_START: u16 = 15;
    /// A thread ends: `addr` is its thread pointer, by which C libraries identify threads.
    pub const THREAD_EXIT: u16 = 16;
    /// A process starts: payload [`super::ProcessStart`], then the executable's path, a NUL, and the arguments, each followed
    /// by a NUL. If it was forked, its parent drew the number of this record before the fork.
    pub const PROCESS_START: u16 = 17;
    /// A process ends: `addr` is the status passed to `exit_group`.
    pub const PROCESS_EXIT: u16 = 18;
    /// A message for the user, as UTF-8 text.
    pub const NOTE: u16 = 19;
    /// A mapped range at `addr` is now writable for the target (flags 1) or not (flags 0); payload: its length, 8 bytes.
    pub const PROTECT: u16 = 20;
    /// A watched function was entered: `addr` is its number; payload: the recorded arguments, 8 bytes each.
    pub const CALL: u16 = 21;
    /// A watched function was left: `addr` is its number; payload: the two result registers, or empty if it was left without returning.
    pub const RETURN: u16 = 22;
    /// The thread is about to create another one, or to fork: `addr` is a number that is unique in its process; payload: the
    /// new thread's thread pointer, 8 bytes (0 if it is not passed to the kernel).
    pub const THREAD_CREATE: u16 = 23;
    /// The number of this record was drawn for a process that could not be forked.
    pub const NO_PROCESS: u16 = 24;
    /// Names of files changed: payload [`super::FileAt`], the old path, a NUL, and the new path. Flags: [`super::name`]. Only
    /// [`super::name::LINKED`] has a file and no old path; only [`super::name::UNLINKED`] has no new path.
    pub const NAME: u16 = 25;
    /// A file was opened, looked up or read without a load that is recorded: payload [`super::FileUse`]. Flags:
    /// [`super::file_use`]. Only with [`super::option::READS`].
    pub const FILE_USE: u16 = 26;
    /// The thread may have acquired a lock, whose word is at `addr`; `pc` is its atomic instruction, and `context` is 0. Flags:
    /// [`super::lock`]. Only with [`super::option::LOCKS`].
    pub const LOCK_ACQUIRE: u16 = 27;
    /// The thread has released the lock at `addr`, which shows that it was one. `pc` is that of its acquire. Flags: [`super::lock`].
    pub const LOCK_RELEASE: u16 = 28;
}

/// Flags of [`kind::STORE`].
pub mod store {
    /// Non-temporal (`movnt*`, `maskmovdqu`): not ordered by the cache line's store order.
    pub const NON_TEMPORAL: u16 = 1;
    /// Direct (`movdiri`, `movdir64b`): non-temporal, and never torn.
    pub const DIRECT: u16 = 2;
    /// By a locked instruction or `xchg`, which is also a fence.
    pub const LOCKED: u16 = 4;
    /// Part of a string instruction.
    pub const STRING: u16 = 8;
    /// The instruction also read the bytes that it overwrote. Only with [`super::option::LOADS`].
    pub const MODIFIES: u16 = 16;
}

/// Flags of [`kind::LOCK_ACQUIRE`] and [`kind::LOCK_RELEASE`].
pub mod lock {
    /// Other threads can hold the lock at the same time.
    pub const SHARED: u16 = 1;
    /// Of a release: the lock was acquired and released by exchanges.
    pub const EXCHANGED: u16 = 2;
    /// Of an acquire: from this bit on the bytes of the word.
    pub const SIZE_SHIFT: u32 = 8;
}

/// Flags of [`kind::FLUSH`].
pub mod flush {
    pub const CLFLUSH: u16 = 1;
    pub const CLFLUSHOPT: u16 = 2;
    pub const CLWB: u16 = 3;
    /// Set in addition to one of the above: the address is in no candidate mapping.
    pub const VOLATILE: u16 = 0x100;
}

/// Flags of [`kind::FENCE`].
pub mod fence {
    pub const SFENCE: u16 = 1;
    pub const MFENCE: u16 = 2;
    /// A locked instruction on memory outside candidate mappings, or one that stored nothing.
    pub const LOCKED: u16 = 3;
}

/// Flags of [`kind::NAME`].
pub mod name {
    /// What was at the old path is now at the new path. It may be a directory.
    pub const RENAMED: u16 = 1;
    /// The file has the new path in addition to others.
    pub const LINKED: u16 = 2;
    /// The old path no longer exists.
    pub const UNLINKED: u16 = 3;
    /// What was at the two paths has been exchanged.
    pub const EXCHANGED: u16 = 4;
    /// Set in addition to `RENAMED`: this replaced a file that no process of the recording had mapped.
    pub const REPLACED_UNKNOWN: u16 = 0x100;
}

/// Flags of [`kind::SYNC`].
pub mod sync {
    pub const MSYNC: u16 = 1;
    pub const FSYNC: u16 = 2;
    pub const FDATASYNC: u16 = 3;
    pub const SYNC_FILE_RANGE: u16 = 4;
    pub const SYNCFS: u16 = 5;
    /// Set in addition to `MSYNC`: `MS_ASYNC`, which guarantees nothing.
    pub const ASYNC: u16 = 0x100;
}

/// Flags of [`kind::FILE_USE`].
pub mod file_use {
    /// The file was opened, or looked up by its name.
    pub const OPENED: u16 = 1;
    /// Bytes of the file were read by a system call, or mapped without their loads being recorded.
    pub const READ: u16 = 2;
    /// Files may be read without being reported from now on; the payload says nothing.
    pub const UNSEEN: u16 = 3;
}

/// The table of watched functions, whose calls are recorded. An entry consists of one byte with the number of arguments to
/// record, two bytes with the length of the name, and the name. The table ends at an entry without a name, or when it is
/// full. A function's number is the index of its entry.
pub mod watch {
    /// Arguments in general registers, in the order of the calling convention.
    pub const MAX_ARGUMENTS: u8 = 6;
    /// Bytes of an entry before the name.
    pub const HEAD: usize = 3;
    /// Maximum length of a name in bytes.
    pub const MAX_NAME: usize = 4096;

    /// What a call of a function means for the order of threads.
    #[repr(u8)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Order {
        /// Nothing.
        None = 0,
        /// It acquires the lock at its first argument, in any case.
        Acquires = 1,
        /// It releases the lock at its first argument.
        Releases = 2,
        /// It may order threads, or acquire or release locks.
        Unknown = 3,
        /// Nothing, and it changes nothing: if the thread has made no system call since, a call from the same place with the same
        /// first two arguments need not be recorded again.
        Query = 4,
    }

    impl Order {
        /// The meaning with a number.
        pub fn of(number: u8) -> Order {
            match number {
                0 => Order::None,
                1 => Order::Acquires,
                2 => Order::Releases,
                4 => Order::Query,
                _ => Order::Unknown,
            }
        }
    }

    /// An entry of the table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry<'a> {
        /// The number of arguments to record.
        pub arguments: u8,
        pub order: Order,
        pub name: &'a [u8],
    }

    /// The head of the entry for a function; `None` if the name is empty or too long.
    pub fn head(arguments: u8, order: Order, name: &str) -> Option<[u8; HEAD]> {
        let len = Some(name.len()).filter(|len| (1..=MAX_NAME).contains(len))?;
        let [low, high] = (len as u16).to_le_bytes();
        Some([arguments.min(MAX_ARGUMENTS) | (order as u8) << 4, low, high])
    }

    /// The entries of a table.
    pub fn entries(table: &[u8]) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = table;
        core::iter::from_fn(move || {
            let (&[head, low, high], after) = rest.split_first_chunk::<HEAD>()?;
            let len = usize::from(u16::from_le_bytes([low, high]));
            let known = (1..=MAX_NAME).contains(&len);
            let (name, after) = after.split_at_checked(len).filter(|_| known)?;
            rest = after;
            Some(Entry {
                arguments: (head & 15).min(MAX_ARGUMENTS),
                order: Order::of(head >> 4),
                name,
            })
        })
    }
}

/// An offset in a file, which the kernel identifies by device and inode.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileAt {
    pub dev: u64,
    pub ino: u64,
    pub offset: u64,
}

/// Payload of [`kind::FILE_USE`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileUse {
    /// The file, and the offset of the first byte that was read.
    pub file: FileAt,
    /// Bytes that were read.
    pub len: u64,
}

/// Payload of [`kind::SYNC`]. For `msync`, the range is the head's `addr` and `len`, and `file` is 0. For the others,
/// `file` is the file, and `addr` is 0.
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
    /// The `prot` and `flags` that the target passed to `mmap`.
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
    /// The content of the file follows in CONTENT records; bytes without one are zero. Without this bit, the process already
    /// has the range mapped.
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
    /// A program image was loaded. Mappings, modules and contexts start empty.
    pub const EXEC: u32 = 0;
    /// The process was forked. It starts with the mappings, modules and contexts of its parent.
    pub const FORK: u32 = 1;
}

const _: () = {
    assert!(size_of::<Control>() <= SLOT_TABLE);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Record>() == 40);
    assert!(size_of::<Intent>() + MAX_INTENT <= INTENT_BYTES);
    assert!(WATCH_TABLE.is_multiple_of(4096));
    assert!(RINGS.is_multiple_of(4096));
    assert!(RING_BYTES.is_multiple_of(4096));
};
