//! The events of a trace: what happened, in which thread, at which instruction and in which calling context.
//!
//! An [`Event`] borrows its bytes and paths from the chunk that it was read from, or from the caller that writes it, so
//! that neither side copies them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};

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

/// The creation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadParent {
    /// The thread that created it. It belongs to the same process, or to the parent process if this is the first thread of
    /// a forked process.
    pub thread: ThreadId,
    /// The position of the creation in the order of events. Events of the parent with a lower index happened before the new
    /// thread started; all others are concurrent with it.
    pub created: EventIndex,
}

/// How a store reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFlavor {
    /// Through the cache.
    Temporal,
    /// Bypassing the cache (`movnt*`, `maskmovdqu`). It is not ordered with other stores to its line.
    NonTemporal,
    /// Non-temporal, and never torn (`movdiri`, `movdir64b`).
    Direct,
}

/// The instruction of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushKind {
    /// `clflush`, which is ordered with stores.
    Clflush,
    /// `clflushopt`, which needs a fence.
    Clflushopt,
    /// `clwb`, which needs a fence and keeps the line in the cache.
    Clwb,
}

/// The instruction of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FenceKind {
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// A locked instruction on memory outside candidate mappings, or one that stored nothing.
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
    /// `msync` of a range of addresses.
    Msync {
        /// The first address.
        addr: Address,
        /// The length in bytes.
        len: u64,
        /// With `MS_ASYNC`, which guarantees nothing.
        asynchronous: bool,
    },
    /// `fsync` of a file.
    Fsync {
        /// The file.
        file: FileId,
    },
    /// `fdatasync` of a file.
    Fdatasync {
        /// The file.
        file: FileId,
    },
    /// `sync_file_range`.
    SyncFileRange {
        /// The file.
        file: FileId,
        /// The offset of the range in the file.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// `syncfs` of a file system.
    Syncfs {
        /// A mapped file of that file system.
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

/// A mapping of a file: `len` bytes at `addr` map the file from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub addr: Address,
    /// The length in bytes.
    pub len: u64,
    /// The file.
    pub file: FileId,
    /// The offset in the file at which the mapping starts.
    pub offset: u64,
    /// The file's length when it was mapped.
    pub file_len: u64,
    /// The protection that the target passed to `mmap`.
    pub prot: u32,
    /// The flags that the target passed to `mmap`.
    pub flags: u32,
    /// On a DAX file system or device, or mapped with `MAP_SYNC`.
    pub dax: bool,
    /// [`EventKind::Content`] events follow that describe the whole range. Bytes that they leave out are zero, except in
    /// parts that were mapped before, whose content is known. False if the content of the whole range is known.
    pub snapshot: bool,
}

/// How a process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessOrigin {
    /// A program image was loaded: mappings, modules and contexts start empty.
    Exec,
    /// It was forked: it starts with the mappings, modules and contexts of its parent.
    Fork,
}

impl ProcessOrigin {
    /// The name of the system call that starts such a process.
    pub fn name(self) -> &'static str {
        match self {
            ProcessOrigin::Exec => "exec",
            ProcessOrigin::Fork => "fork",
        }
    }
}

/// How a process, or the whole target, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessEnd {
    /// It exited.
    Exited {
        /// The exit status.
        status: i32,
    },
    /// A signal killed it.
    Signaled {
        /// The signal.
        signal: i32,
    },
}

impl ProcessEnd {
    /// The exit status that a shell shows for such an end: 128 and the number of the signal if one killed the process.
    pub fn shell_status(self) -> i32 {
        match self {
            ProcessEnd::Exited { status } => status,
            ProcessEnd::Signaled { signal } => 128 + signal,
        }
    }
}

/// The recorded arguments of a call: the first ones in registers for integers and pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallArguments {
    values: [u64; CallArguments::MAX],
    len: u8,
}

impl CallArguments {
    /// The number of arguments that the calling convention passes in general registers.
    pub const MAX: usize = 6;

    /// Uses the first [`MAX`](Self::MAX) of `values`.
    #[inline]
    pub fn new(values: &[u64]) -> Self {
        let mut args = CallArguments::default();
        let len = values.len().min(Self::MAX);
        args.values[..len].copy_from_slice(&values[..len]);
        args.len = len as u8;
        args
    }

    /// The arguments.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.values[..usize::from(self.len)]
    }

    /// The argument with the index `index`; 0 if it was not recorded.
    pub fn get(&self, index: usize) -> u64 {
        self.as_slice().get(index).copied().unwrap_or(0)
    }
}

/// The arguments of a program, each followed by a NUL, as in `/proc/PID/cmdline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// Creates arguments from bytes in which a NUL follows each argument. The NUL after the last one is optional.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        Arguments(bytes)
    }

    /// The bytes of the arguments, with their NULs.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The arguments, without their NULs.
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
