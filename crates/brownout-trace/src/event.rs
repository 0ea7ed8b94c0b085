//! What a trace tells: events, each with its thread, instruction and calling context.
//!
//! An [`Event`] borrows its bytes and paths from the chunk it was read from, or from whoever writes
//! it, so that neither side copies them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};

/// One thing that happened in the recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Place in the global order. The writer assigns it and ignores what is given.
    pub index: EventIndex,
    pub process: ProcessId,
    pub thread: ThreadId,
    /// The instruction; for what the kernel did, the system call's instruction; 0 where there is none.
    pub pc: AppPc,
    /// The callers of `pc`: see [`Definitions::context_frames`](crate::Definitions::context_frames).
    pub context: ContextId,
    pub kind: EventKind<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// `bytes` were stored at `addr`.
    Store {
        addr: Address,
        bytes: &'a [u8],
        flavor: StoreFlavor,
        /// By a locked instruction or `xchg`, which is a fence as well.
        locked: bool,
        /// A piece of a string instruction.
        string: bool,
    },
    /// `bytes` were read at `addr`.
    Load {
        addr: Address,
        bytes: &'a [u8],
    },
    /// The cache line of `addr` was flushed; `addr` is as the program gave it.
    Flush {
        addr: Address,
        kind: FlushKind,
        /// The address is in no candidate mapping.
        volatile: bool,
    },
    Fence {
        kind: FenceKind,
    },
    /// The kernel wrote `bytes` to `addr` for system call number `syscall`.
    KernelWrite {
        addr: Address,
        bytes: &'a [u8],
        syscall: u16,
    },
    /// A mapped file was written through a descriptor by system call number `syscall`.
    FileWrite {
        file: FileId,
        offset: u64,
        bytes: &'a [u8],
        syscall: u16,
    },
    /// A mapped file got the length `len`.
    FileResize {
        file: FileId,
        len: u64,
    },
    /// Pages were written back.
    Sync(Sync),
    /// A candidate for persistent memory was mapped.
    Map(Mapping),
    Unmap {
        addr: Address,
        len: u64,
    },
    /// A mapping moved or was resized.
    Remap {
        old: Address,
        old_len: u64,
        new: Address,
        new_len: u64,
    },
    /// Bytes a file held when it was mapped.
    Content {
        file: FileId,
        offset: u64,
        bytes: &'a [u8],
    },
    /// A mapped range is now writable by the program, or not.
    Protect {
        addr: Address,
        len: u64,
        writable: bool,
    },
    /// Code was mapped.
    Module {
        addr: Address,
        len: u64,
        file_offset: u64,
        path: &'a Path,
        /// Empty when the file has none.
        build_id: &'a [u8],
    },
    /// The thread of this event starts.
    ThreadStart {
        /// `None` for the first thread of a program image, and where the creation was not recorded.
        parent: Option<ThreadParent>,
    },
    /// The thread of this event ends. It has no later events.
    ThreadExit,
    /// The thread of this event has waited for the end of thread `joined` of its process: all events of `joined`
    /// come before this one. A thread id can be used again; the thread with this id that ended last is meant.
    ThreadJoin {
        joined: ThreadId,
    },
    ProcessStart {
        pid: u32,
        parent_pid: u32,
        /// `None` for the first process, and where the parent was not recorded.
        parent: Option<ProcessId>,
        origin: ProcessOrigin,
        exe: &'a Path,
        args: Arguments<'a>,
    },
    ProcessExit {
        end: ProcessEnd,
    },
    /// Something the user should know.
    Note {
        text: &'a str,
    },
    /// A watched function is entered: `pc` is its first instruction, and its context tells the caller.
    Call {
        function: FunctionId,
        args: CallArguments,
    },
    /// A watched function was left, the innermost that is open on its stack; `pc` is where it returned to.
    Return {
        function: FunctionId,
        /// What the registers for results (rax, rdx) held. `None`: it did not return, but was jumped out
        /// of (`longjmp`, an exception), which is noticed when the thread next enters or leaves a
        /// watched function.
        value: Option<[u64; 2]>,
    },
}

/// How a thread came into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadParent {
    /// The thread that created it. It belongs to the same process, or to the parent process if this is the first thread of
    /// a forked process.
    pub thread: ThreadId,
    /// Where in the order of events it was created: events of the parent with a lower index happened before the new
    /// thread started, and all others are concurrent with it.
    pub created: EventIndex,
}

/// How a store travels to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFlavor {
    /// Through the cache.
    Temporal,
    /// `movnt*`, `maskmovdqu`: not part of its line's store order.
    NonTemporal,
    /// `movdiri`, `movdir64b`: non-temporal, and whole.
    Direct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushKind {
    Clflush,
    Clflushopt,
    Clwb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FenceKind {
    Sfence,
    Mfence,
    /// A locked instruction on memory that is no candidate, or one that stored nothing.
    Locked,
}

impl StoreFlavor {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            StoreFlavor::Temporal => "temporal",
            StoreFlavor::NonTemporal => "non-temporal",
            StoreFlavor::Direct => "direct",
        }
    }
}

impl FlushKind {
    /// The name of the instruction.
    pub fn name(self) -> &'static str {
        match self {
            FlushKind::Clflush => "clflush",
            FlushKind::Clflushopt => "clflushopt",
            FlushKind::Clwb => "clwb",
        }
    }
}

impl FenceKind {
    /// The name of the instruction, or `locked`.
    pub fn name(self) -> &'static str {
        match self {
            FenceKind::Sfence => "sfence",
            FenceKind::Mfence => "mfence",
            FenceKind::Locked => "locked",
        }
    }
}

/// A system call that writes pages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sync {
    Msync {
        addr: Address,
        len: u64,
        /// `MS_ASYNC`, which guarantees nothing.
        asynchronous: bool,
    },
    Fsync {
        file: FileId,
    },
    Fdatasync {
        file: FileId,
    },
    SyncFileRange {
        file: FileId,
        offset: u64,
        len: u64,
    },
    Syncfs {
        file: FileId,
    },
}

impl Sync {
    /// The name of the system call.
    pub fn name(self) -> &'static str {
        match self {
            Sync::Msync { .. } => "msync",
            Sync::Fsync { .. } => "fsync",
            Sync::Fdatasync { .. } => "fdatasync",
            Sync::SyncFileRange { .. } => "sync_file_range",
            Sync::Syncfs { .. } => "syncfs",
        }
    }
}

/// A mapping of a file: `len` bytes at `addr` show the file from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub addr: Address,
    pub len: u64,
    pub file: FileId,
    pub offset: u64,
    /// The file's length when it was mapped.
    pub file_len: u64,
    /// `prot` and `flags` as the program passed them to `mmap`.
    pub prot: u32,
    pub flags: u32,
    /// On a DAX file system or device, or mapped with `MAP_SYNC`.
    pub dax: bool,
    /// [`EventKind::Content`] events follow that describe the whole range: what they leave out is
    /// zero, but for parts that were mapped already, which are known. False where all of it was.
    pub snapshot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessOrigin {
    /// A program image was loaded: mappings, modules and contexts start empty.
    Exec,
    /// Mappings, modules and contexts are those of the parent at that moment.
    Fork,
}

/// How a process, or the whole recorded program, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessEnd {
    Exited { status: i32 },
    Signaled { signal: i32 },
}

/// The first arguments of a call: those in registers for integers and pointers, as many as are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallArguments {
    values: [u64; CallArguments::MAX],
    len: u8,
}

impl CallArguments {
    /// Arguments that the calling convention passes in general registers.
    pub const MAX: usize = 6;

    /// Takes the first [`MAX`](Self::MAX) of `values`.
    #[inline]
    pub fn new(values: &[u64]) -> Self {
        let mut args = CallArguments::default();
        let len = values.len().min(Self::MAX);
        args.values[..len].copy_from_slice(&values[..len]);
        args.len = len as u8;
        args
    }

    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.values[..usize::from(self.len)]
    }

    /// Argument number `index`, from 0; 0 if it was not watched.
    pub fn get(&self, index: usize) -> u64 {
        self.as_slice().get(index).copied().unwrap_or(0)
    }
}

/// The arguments of a program, each ended by a NUL as the kernel keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// Takes arguments each of which ends with a NUL; a last one without NUL counts too.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        Arguments(bytes)
    }

    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn iter(self) -> impl Iterator<Item = &'a OsStr> + use<'a> {
        let ended = self.0.strip_suffix(&[0]).unwrap_or(self.0);
        let count = if self.0.is_empty() { 0 } else { usize::MAX };
        ended
            .split(|&byte| byte == 0)
            .map(OsStr::from_bytes)
            .take(count)
    }
}

impl Event<'_> {
    /// The event changes what is known of processes, threads, modules or mappings.
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
