//! The events of a trace: what happened, in which thread, at which instruction and in which calling context.
//!
//! An [`Event`] borrows its bytes and paths from the chunk that it was read from, or from the caller that writes it, so
//! that neither side copies them.

mod details;

use std::path::Path;

pub use self::details::{
    Arguments, CallArguments, FenceKind, FlushKind, Mapping, ProcessEnd, ProcessOrigin,
    StoreFlavor, Sync, ThreadParent,
};
use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};

/// The text of the [note](EventKind::Note) before the path of a mapped file changes begins so; its new path follows.
pub const RENAME_NOTE: &str = "a mapped file is about to be renamed to ";

/// Something that happened in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The position in the order of all events. A writer assigns it and ignores what is given.
    pub index: EventIndex,
    /// The process that it happened in.
    pub process: ProcessId,
    /// The thread that caused it.
    pub thread: ThreadId,
    /// The instruction; for an effect of the kernel, the instruction of the system call; 0 if there is none.
    pub pc: AppPc,
    /// The callers of `pc`: see [`Process::context_frames`](crate::Process::context_frames).
    pub context: ContextId,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// Bytes were stored.
    Store {
        /// The address of the first byte.
        addr: Address,
        /// The bytes.
        bytes: &'a [u8],
        /// How the store travels to memory.
        flavor: StoreFlavor,
        /// By a locked instruction or `xchg`, which is also a fence.
        locked: bool,
        /// Part of a string instruction.
        string: bool,
    },
    /// Bytes were loaded. Recorded only with `--loads`.
    Load {
        /// The address of the first byte.
        addr: Address,
        /// The bytes that were loaded.
        bytes: &'a [u8],
    },
    /// A cache line was flushed.
    Flush {
        /// An address in the line: the operand of the instruction.
        addr: Address,
        /// The instruction.
        kind: FlushKind,
        /// The address is in no candidate mapping.
        volatile: bool,
    },
    /// A fence was executed.
    Fence {
        /// The instruction.
        kind: FenceKind,
    },
    /// The kernel wrote to memory on behalf of a system call.
    KernelWrite {
        /// The address of the first byte.
        addr: Address,
        /// The bytes.
        bytes: &'a [u8],
        /// The number of the system call.
        syscall: u16,
    },
    /// A mapped file was written through a descriptor.
    FileWrite {
        /// The file.
        file: FileId,
        /// The offset of the first byte in the file.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// The number of the system call.
        syscall: u16,
    },
    /// The length of a mapped file changed.
    FileResize {
        /// The file.
        file: FileId,
        /// The new length.
        len: u64,
    },
    /// Pages were written back.
    Sync(Sync),
    /// A candidate for persistent memory was mapped.
    Map(Mapping),
    /// A range was unmapped.
    Unmap {
        /// The first address.
        addr: Address,
        /// The length in bytes.
        len: u64,
    },
    /// A mapping was moved or resized.
    Remap {
        /// The old address.
        old: Address,
        /// The old length in bytes.
        old_len: u64,
        /// The new address.
        new: Address,
        /// The new length in bytes.
        new_len: u64,
    },
    /// Bytes of a file when it was mapped.
    Content {
        /// The file.
        file: FileId,
        /// The offset of the first byte in the file.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The target's right to write to a mapped range changed.
    Protect {
        /// The first address.
        addr: Address,
        /// The length in bytes.
        len: u64,
        /// Whether the target can write to it now.
        writable: bool,
    },
    /// Code was mapped.
    Module {
        /// The first address.
        addr: Address,
        /// The length in bytes.
        len: u64,
        /// The offset in the file at which the mapping starts.
        file_offset: u64,
        /// The path of the file.
        path: &'a Path,
        /// The build-id of the file; empty if it has none.
        build_id: &'a [u8],
    },
    /// The thread of this event starts.
    ThreadStart {
        /// `None` for the first thread of a program image, and if the creation was not recorded.
        parent: Option<ThreadParent>,
    },
    /// The thread of this event ends. It has no later events.
    ThreadExit,
    /// The thread of this event has joined another thread of its process. All events of that thread come before this one.
    ThreadJoin {
        /// The thread that was joined. Thread ids can be reused; this is the thread with this id that ended last.
        joined: ThreadId,
    },
    /// The thread of this event may have acquired a lock that was recognised by its atomic instruction, which is `pc`. Recorded
    /// before the first event of the thread that the lock can concern. It is a lock only if a
    /// [`LockRelease`](EventKind::LockRelease) of the same word by the same thread follows: see
    /// [`RecognisedLocks`](crate::RecognisedLocks). The calling context is not known.
    LockAcquire {
        /// The address of the word, in ordinary or persistent memory.
        word: Address,
        /// Its bytes; in traces before version 7, which do not say, 8.
        size: u8,
        /// The instruction only counts: the lock, if it is one, is shared. Otherwise the release says whether it is.
        shared: bool,
    },
    /// The thread of this event has released the lock that it acquired last at this word. Recorded before the first event
    /// of the thread that is no longer under the lock. `pc` is that of the acquire.
    LockRelease {
        /// The address of the word.
        word: Address,
        /// Other threads could hold the lock at the same time.
        shared: bool,
        /// It was acquired and released by exchanges of the whole word: so are flags that are stored atomically.
        exchanged: bool,
    },
    /// A process starts: its first event.
    ProcessStart {
        /// Its process id.
        pid: u32,
        /// The process id of its parent.
        parent_pid: u32,
        /// `None` for the first process, and if the parent was not recorded.
        parent: Option<ProcessId>,
        /// Whether it is a copy of its parent.
        origin: ProcessOrigin,
        /// The path of the program.
        exe: &'a Path,
        /// The arguments of the program.
        args: Arguments<'a>,
    },
    /// A process ends.
    ProcessExit {
        /// How it ended.
        end: ProcessEnd,
    },
    /// A message for the user about the recording.
    Note {
        /// The text, in sentences.
        text: &'a str,
    },
    /// A watched function was entered. `pc` is its first instruction; the context contains the caller.
    Call {
        /// The function.
        function: FunctionId,
        /// Its first arguments.
        args: CallArguments,
    },
    /// A watched function was left: the innermost open call on its stack. `pc` is the address that it returned to.
    Return {
        /// The function.
        function: FunctionId,
        /// The two result registers. `None` if the function was left without returning (by `longjmp` or an exception). This is
        /// detected when the thread next enters or leaves a watched function.
        value: Option<[u64; 2]>,
    },
}

impl Event<'_> {
    /// Whether the event changes the definitions of processes, threads, modules or mappings.
    #[inline]
    pub(crate) fn defines(&self) -> bool {
        matches!(
            self.kind,
            EventKind::Map(_)
                | EventKind::Unmap { .. }
                | EventKind::Remap { .. }
                | EventKind::Protect { .. }
                | EventKind::Module { .. }
                | EventKind::ThreadStart { .. }
                | EventKind::ThreadExit
                | EventKind::ProcessStart { .. }
                | EventKind::ProcessExit { .. }
        )
    }
}
