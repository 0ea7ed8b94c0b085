//! A kind of event that owns its bytes.

use std::path::PathBuf;

use brownout_trace::*;

use crate::traces::mapping;

#[derive(Clone, Debug)]
pub enum Kind {
    Store {
        addr: u64,
        bytes: Vec<u8>,
        flavor: u8,
        locked: bool,
        string: bool,
    },
    Load {
        addr: u64,
        bytes: Vec<u8>,
    },
    Flush {
        addr: u64,
        kind: u8,
        volatile: bool,
    },
    Fence {
        kind: u8,
    },
    KernelWrite {
        addr: u64,
        bytes: Vec<u8>,
        syscall: u16,
    },
    FileWrite {
        file: u32,
        offset: u64,
        bytes: Vec<u8>,
        syscall: u16,
    },
    FileResize {
        file: u32,
        len: u64,
    },
    Msync {
        addr: u64,
        len: u64,
        asynchronous: bool,
    },
    FileSync {
        kind: u8,
        file: u32,
        offset: u64,
        len: u64,
    },
    Map {
        addr: u64,
        len: u64,
        file: u32,
        offset: u64,
        file_len: u64,
        prot: u32,
        dax: bool,
    },
    Unmap {
        addr: u64,
        len: u64,
    },
    Remap {
        old: u64,
        old_len: u64,
        new: u64,
        new_len: u64,
    },
    Content {
        file: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Protect {
        addr: u64,
        len: u64,
        writable: bool,
    },
    Module {
        addr: u64,
        len: u64,
        file_offset: u64,
        path: PathBuf,
        build_id: Vec<u8>,
    },
    ThreadStart {
        parent: Option<(u32, u64)>,
    },
    ThreadExit,
    ThreadJoin {
        joined: u32,
    },
    LockAcquire {
        word: u64,
        size: u8,
        shared: bool,
    },
    LockRelease {
        word: u64,
        shared: bool,
        exchanged: bool,
    },
    ProcessStart {
        pid: u32,
        parent: Option<u32>,
        fork: bool,
        exe: PathBuf,
        args: Vec<u8>,
    },
    ProcessExit {
        signaled: bool,
        number: i32,
    },
    Note {
        text: String,
    },
    Call {
        function: u32,
        args: Vec<u64>,
    },
    Return {
        function: u32,
        value: Option<[u64; 2]>,
    },
}

impl Kind {
    /// The kind as writers take it.
    pub fn event_kind(&self) -> EventKind<'_> {
        let kind = self.access().or_else(|| self.file_call());
        let kind = kind.or_else(|| self.address_space());
        kind.or_else(|| self.course())
            .expect("each kind is in one group")
    }

    /// An access to memory.
    fn access(&self) -> Option<EventKind<'_>> {
        Some(match *self {
            Kind::Store {
                addr,
                ref bytes,
                flavor,
                locked,
                string,
            } => {
                let flavors = [
                    StoreFlavor::Temporal,
                    StoreFlavor::NonTemporal,
                    StoreFlavor::Direct,
                    StoreFlavor::Modifying,
                ];
                let flavor = flavors[usize::from(flavor) % flavors.len()];
                EventKind::Store {
                    addr: Address(addr),
                    bytes,
                    flavor,
                    locked,
                    string,
                }
            }
            Kind::Load { addr, ref bytes } => EventKind::Load {
                addr: Address(addr),
                bytes,
            },
            Kind::Flush {
                addr,
                kind,
                volatile,
            } => {
                let kinds = [FlushKind::Clflush, FlushKind::Clflushopt, FlushKind::Clwb];
                let kind = kinds[usize::from(kind) % 3];
                EventKind::Flush {
                    addr: Address(addr),
                    kind,
                    volatile,
                }
            }
            Kind::Fence { kind } => {
                let kinds = [FenceKind::Sfence, FenceKind::Mfence, FenceKind::Locked];
                EventKind::Fence {
                    kind: kinds[usize::from(kind) % 3],
                }
            }
            Kind::KernelWrite {
                addr,
                ref bytes,
                syscall,
            } => EventKind::KernelWrite {
                addr: Address(addr),
                bytes,
                syscall,
            },
            _ => return None,
        })
    }

    /// A system call on a file, or its content.
    fn file_call(&self) -> Option<EventKind<'_>> {
        Some(match *self {
            Kind::FileWrite {
                file,
                offset,
                ref bytes,
                syscall,
            } => EventKind::FileWrite {
                file: FileId(file),
                offset,
                bytes,
                syscall,
            },
            Kind::FileResize { file, len } => EventKind::FileResize {
                file: FileId(file),
                len,
            },
            Kind::Content {
                file,
                offset,
                ref bytes,
            } => EventKind::Content {
                file: FileId(file),
                offset,
                bytes,
            },
            Kind::Msync {
                addr,
                len,
                asynchronous,
            } => EventKind::Sync(Sync::Msync {
                addr: Address(addr),
                len,
                asynchronous,
            }),
            Kind::FileSync {
                kind,
                file,
                offset,
                len,
            } => {
                let file = FileId(file);
                EventKind::Sync(match kind % 4 {
                    0 => Sync::Fsync { file },
                    1 => Sync::Fdatasync { file },
                    2 => Sync::Syncfs { file },
                    _ => Sync::SyncFileRange { file, offset, len },
                })
            }
            _ => return None,
        })
    }

    /// A change of the address space.
    fn address_space(&self) -> Option<EventKind<'_>> {
        Some(match *self {
            Kind::Map {
                addr,
                len,
                file,
                offset,
                file_len,
                prot,
                dax,
            } => {
                let mapping = mapping(addr, len, FileId(file), offset, file_len);
                EventKind::Map(Mapping {
                    prot,
                    flags: !prot,
                    dax,
                    snapshot: !dax,
                    ..mapping
                })
            }
            Kind::Unmap { addr, len } => EventKind::Unmap {
                addr: Address(addr),
                len,
            },
            Kind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => EventKind::Remap {
                old: Address(old),
                old_len,
                new: Address(new),
                new_len,
            },
            Kind::Protect {
                addr,
                len,
                writable,
            } => EventKind::Protect {
                addr: Address(addr),
                len,
                writable,
            },
            Kind::Module {
                addr,
                len,
                file_offset,
                ref path,
                ref build_id,
            } => EventKind::Module {
                addr: Address(addr),
                len,
                file_offset,
                path,
                build_id,
            },
            _ => return None,
        })
    }

    /// What else happens in the course of a program.
    fn course(&self) -> Option<EventKind<'_>> {
        Some(match *self {
            Kind::ThreadStart { parent } => EventKind::ThreadStart {
                parent: parent.map(|(thread, created)| ThreadParent {
                    thread: ThreadId(thread),
                    created: EventIndex(created),
                }),
            },
            Kind::ThreadExit => EventKind::ThreadExit,
            Kind::ThreadJoin { joined } => EventKind::ThreadJoin {
                joined: ThreadId(joined),
            },
            Kind::LockAcquire { word, size, shared } => EventKind::LockAcquire {
                word: Address(word),
                size,
                shared,
            },
            Kind::LockRelease {
                word,
                shared,
                exchanged,
            } => EventKind::LockRelease {
                word: Address(word),
                shared,
                exchanged,
            },
            Kind::ProcessStart {
                pid,
                parent,
                fork,
                ref exe,
                ref args,
            } => EventKind::ProcessStart {
                pid,
                parent_pid: !pid,
                parent: parent.map(ProcessId),
                origin: if fork {
                    ProcessOrigin::Fork
                } else {
                    ProcessOrigin::Exec
                },
                exe,
                args: Arguments::from_bytes(args),
            },
            Kind::ProcessExit { signaled, number } => EventKind::ProcessExit {
                end: if signaled {
                    ProcessEnd::Signaled { signal: number }
                } else {
                    ProcessEnd::Exited { status: number }
                },
            },
            Kind::Note { ref text } => EventKind::Note { text },
            Kind::Call { function, ref args } => EventKind::Call {
                function: FunctionId(function),
                args: CallArguments::new(args),
            },
            Kind::Return { function, value } => EventKind::Return {
                function: FunctionId(function),
                value,
            },
            _ => return None,
        })
    }
}
