//! The classes of events, by which they are counted and named.

use crate::event::EventKind;

/// The kind of an event without its fields, for counting and naming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum EventClass {
    /// A store.
    Store,
    /// A load.
    Load,
    /// A flush of a cache line.
    Flush,
    /// A fence.
    Fence,
    /// The kernel wrote to memory.
    KernelWrite,
    /// A mapped file was written through a descriptor.
    FileWrite,
    /// The length of a mapped file changed.
    FileResize,
    /// Pages were written back.
    Sync,
    /// A candidate was mapped.
    Map,
    /// A range was unmapped.
    Unmap,
    /// A mapping was moved or resized.
    Remap,
    /// Initial bytes of a file.
    Content,
    /// The write permission of a range changed.
    Protect,
    /// Code was mapped.
    Module,
    /// A thread started.
    ThreadStart,
    /// A thread ended.
    ThreadExit,
    /// A process started.
    ProcessStart,
    /// A process ended.
    ProcessExit,
    /// A note about the recording.
    Note,
    /// A watched function was entered.
    Call,
    /// A watched function was left.
    Return,
    /// A thread was joined.
    ThreadJoin,
    /// A lock may have been acquired.
    LockAcquire,
    /// A lock was released.
    LockRelease,
}

impl EventClass {
    /// All classes, in the order in which a trace counts them.
    pub const ALL: [EventClass; 24] = [
        EventClass::Store,
        EventClass::Load,
        EventClass::Flush,
        EventClass::Fence,
        EventClass::KernelWrite,
        EventClass::FileWrite,
        EventClass::FileResize,
        EventClass::Sync,
        EventClass::Map,
        EventClass::Unmap,
        EventClass::Remap,
        EventClass::Content,
        EventClass::Protect,
        EventClass::Module,
        EventClass::ThreadStart,
        EventClass::ThreadExit,
        EventClass::ProcessStart,
        EventClass::ProcessExit,
        EventClass::Note,
        EventClass::Call,
        EventClass::Return,
        EventClass::ThreadJoin,
        EventClass::LockAcquire,
        EventClass::LockRelease,
    ];

    /// A stable name, as used in output.
    pub fn name(self) -> &'static str {
        match self {
            EventClass::Store => "store",
            EventClass::Load => "load",
            EventClass::Flush => "flush",
            EventClass::Fence => "fence",
            EventClass::KernelWrite => "kernel-write",
            EventClass::FileWrite => "file-write",
            EventClass::FileResize => "file-resize",
            EventClass::Sync => "sync",
            EventClass::Map => "map",
            EventClass::Unmap => "unmap",
            EventClass::Remap => "remap",
            EventClass::Content => "content",
            EventClass::Protect => "protect",
            EventClass::Module => "module",
            EventClass::ThreadStart => "thread-start",
            EventClass::ThreadExit => "thread-exit",
            EventClass::ProcessStart => "process-start",
            EventClass::ProcessExit => "process-exit",
            EventClass::Note => "note",
            EventClass::Call => "call",
            EventClass::Return => "return",
            EventClass::ThreadJoin => "thread-join",
            EventClass::LockAcquire => "lock-acquire",
            EventClass::LockRelease => "lock-release",
        }
    }
}

impl EventKind<'_> {
    /// The class of this kind.
    #[inline]
    pub fn class(&self) -> EventClass {
        match self {
            EventKind::Store { .. } => EventClass::Store,
            EventKind::Load { .. } => EventClass::Load,
            EventKind::Flush { .. } => EventClass::Flush,
            EventKind::Fence { .. } => EventClass::Fence,
            EventKind::KernelWrite { .. } => EventClass::KernelWrite,
            EventKind::FileWrite { .. } => EventClass::FileWrite,
            EventKind::FileResize { .. } => EventClass::FileResize,
            EventKind::Sync(_) => EventClass::Sync,
            EventKind::Map(_) => EventClass::Map,
            EventKind::Unmap { .. } => EventClass::Unmap,
            EventKind::Remap { .. } => EventClass::Remap,
            EventKind::Content { .. } => EventClass::Content,
            EventKind::Protect { .. } => EventClass::Protect,
            EventKind::Module { .. } => EventClass::Module,
            EventKind::ThreadStart { .. } => EventClass::ThreadStart,
            EventKind::ThreadExit => EventClass::ThreadExit,
            EventKind::ProcessStart { .. } => EventClass::ProcessStart,
            EventKind::ProcessExit { .. } => EventClass::ProcessExit,
            EventKind::Note { .. } => EventClass::Note,
            EventKind::Call { .. } => EventClass::Call,
            EventKind::Return { .. } => EventClass::Return,
            EventKind::ThreadJoin { .. } => EventClass::ThreadJoin,
            EventKind::LockAcquire { .. } => EventClass::LockAcquire,
            EventKind::LockRelease { .. } => EventClass::LockRelease,
        }
    }
}
