//! What the fields of events hold: kinds of instructions and system calls, mappings, arguments, and ends of processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::ids::{Address, EventIndex, FileId, ThreadId};

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
    /// Temporal, by an instruction that has also read the bytes and is not locked (`add` to memory). Distinguished only while loads
    /// are recorded.
    Modifying,
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
            StoreFlavor::Modifying => "modifying",
        }
    }

    /// Whether the store stays in the cache until its line is flushed or evicted.
    #[inline]
    pub fn is_cached(self) -> bool {
        matches!(self, StoreFlavor::Temporal | StoreFlavor::Modifying)
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
    /// [`Content`](super::EventKind::Content) events follow that describe the whole range. Bytes that they leave out are zero, except in
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

    /// `len` arguments, all 0; `None` if these are too many.
    #[inline]
    pub(crate) fn zeros(len: usize) -> Option<Self> {
        let len = u8::try_from(len).ok()?;
        (usize::from(len) <= Self::MAX).then_some(CallArguments {
            len,
            ..CallArguments::default()
        })
    }

    #[inline]
    pub(crate) fn values_mut(&mut self) -> &mut [u64] {
        &mut self.values[..usize::from(self.len)]
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
