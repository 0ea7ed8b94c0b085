//! Arbitrary traces: whatever a writer can be asked to write, made by proptest.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use brownout_trace::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::traces::{ending, mapping, writer};

/// An event that owns its bytes, or something else that can be asked of a writer.
#[derive(Clone, Debug)]
pub enum Step {
    Event {
        process: u32,
        thread: u32,
        pc: u64,
        context: u32,
        kind: Kind,
    },
    Context {
        process: u32,
        context: u32,
        parent: u32,
        return_address: u64,
    },
    File {
        dev: u64,
        ino: u64,
        path: Vec<u8>,
    },
    Function {
        name: String,
    },
    Flush,
}

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
        path: Vec<u8>,
        build_id: Vec<u8>,
    },
    ThreadStart {
        parent: Option<(u32, u64)>,
    },
    ThreadExit,
    ThreadJoin {
        joined: u32,
    },
    ProcessStart {
        pid: u32,
        parent: Option<u32>,
        fork: bool,
        exe: Vec<u8>,
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

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

impl Kind {
    /// Calls `use_it` with the event kind that this stands for.
    fn with<T>(&self, use_it: impl FnOnce(EventKind<'_>) -> T) -> T {
        let (path_buf, exe_buf);
        let kind = match *self {
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
                ];
                let flavor = flavors[usize::from(flavor) % 3];
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
            Kind::Content {
                file,
                offset,
                ref bytes,
            } => EventKind::Content {
                file: FileId(file),
                offset,
                bytes,
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
                path: ref bytes,
                ref build_id,
            } => {
                path_buf = path(bytes);
                let addr = Address(addr);
                EventKind::Module {
                    addr,
                    len,
                    file_offset,
                    path: &path_buf,
                    build_id,
                }
            }
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
            Kind::ProcessStart {
                pid,
                parent,
                fork,
                ref exe,
                ref args,
            } => {
                exe_buf = path(exe);
                EventKind::ProcessStart {
                    pid,
                    parent_pid: !pid,
                    parent: parent.map(ProcessId),
                    origin: if fork {
                        ProcessOrigin::Fork
                    } else {
                        ProcessOrigin::Exec
                    },
                    exe: &exe_buf,
                    args: Arguments::from_bytes(args),
                }
            }
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
        };
        use_it(kind)
    }
}

/// Writes the steps; the trace, and each event as text.
pub fn write(steps: &[Step]) -> (Vec<u8>, Vec<String>) {
    let mut writer = writer();
    let mut written = Vec::new();
    for step in steps {
        match *step {
            Step::Event {
                process,
                thread,
                pc,
                context,
                ref kind,
            } => kind.with(|kind| {
                let event = Event {
                    index: EventIndex(written.len() as u64),
                    process: ProcessId(process),
                    thread: ThreadId(thread),
                    pc: AppPc(pc),
                    context: ContextId(context),
                    kind,
                };
                assert_eq!(writer.write(&event).unwrap(), event.index);
                written.push(format!("{event:?}"));
            }),
            Step::Context {
                process,
                context,
                parent,
                return_address,
            } => {
                let (context, parent) = (ContextId(context), ContextId(parent));
                writer
                    .context(ProcessId(process), context, parent, AppPc(return_address))
                    .unwrap();
            }
            Step::File {
                dev,
                ino,
                path: ref bytes,
            } => {
                writer
                    .file(FileIdentity { dev, ino }, &path(bytes))
                    .unwrap();
            }
            Step::Function { ref name } => {
                writer.function(name).unwrap();
            }
            Step::Flush => writer.flush_chunk().unwrap(),
        }
    }
    (writer.finish(ending()).unwrap().1, written)
}

/// Mostly small numbers and near addresses, as programs have them, but any number now and then.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        4 => 0..4u64,
        4 => (0..64u64).prop_map(|line| 0x7f00_0000_0000 + line * 24),
        1 => any::<u64>(),
        1 => (0..64u32).prop_map(|shift| 1 << shift),
    ]
    .boxed()
}

fn small() -> BoxedStrategy<u32> {
    prop_oneof![9 => 0..3u32, 1 => any::<u32>()].boxed()
}

fn bytes() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        4 => any::<[u8; 8]>().prop_map(Vec::from),
        4 => vec(any::<u8>(), 0..70),
        1 => vec(any::<u8>(), 4000..9000),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<Vec<u8>> {
    vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(0), any::<u8>()],
        0..20,
    )
    .boxed()
}

fn kind() -> BoxedStrategy<Kind> {
    let frequent = prop_oneof![
        4 => (number(), bytes(), any::<u8>(), any::<bool>(), any::<bool>()).prop_map(
            |(addr, bytes, flavor, locked, string)| {
                Kind::Store { addr, bytes, flavor, locked, string }
            }
        ),
        1 => (number(), bytes()).prop_map(|(addr, bytes)| Kind::Load { addr, bytes }),
        2 => (number(), any::<u8>(), any::<bool>())
            .prop_map(|(addr, kind, volatile)| Kind::Flush { addr, kind, volatile }),
        2 => any::<u8>().prop_map(|kind| Kind::Fence { kind }),
    ]
    .boxed();
    let files = prop_oneof![
        (number(), bytes(), any::<u16>()).prop_map(|(addr, bytes, syscall)| Kind::KernelWrite {
            addr,
            bytes,
            syscall
        }),
        (small(), number(), bytes(), any::<u16>()).prop_map(|(file, offset, bytes, syscall)| {
            Kind::FileWrite {
                file,
                offset,
                bytes,
                syscall,
            }
        }),
        (small(), number()).prop_map(|(file, len)| Kind::FileResize { file, len }),
        (number(), number(), any::<bool>()).prop_map(|(addr, len, asynchronous)| Kind::Msync {
            addr,
            len,
            asynchronous
        }),
        (any::<u8>(), small(), number(), number()).prop_map(|(kind, file, offset, len)| {
            Kind::FileSync {
                kind,
                file,
                offset,
                len,
            }
        }),
        (small(), number(), bytes()).prop_map(|(file, offset, bytes)| Kind::Content {
            file,
            offset,
            bytes
        }),
    ]
    .boxed();
    let mappings = prop_oneof![
        (
            number(),
            number(),
            small(),
            number(),
            number(),
            any::<u32>(),
            any::<bool>()
        )
            .prop_map(|(addr, len, file, offset, file_len, prot, dax)| {
                Kind::Map {
                    addr,
                    len,
                    file,
                    offset,
                    file_len,
                    prot,
                    dax,
                }
            }),
        (number(), number()).prop_map(|(addr, len)| Kind::Unmap { addr, len }),
        (number(), number(), number(), number()).prop_map(|(old, old_len, new, new_len)| {
            Kind::Remap {
                old,
                old_len,
                new,
                new_len,
            }
        }),
        (number(), number(), any::<bool>()).prop_map(|(addr, len, writable)| Kind::Protect {
            addr,
            len,
            writable
        }),
    ]
    .boxed();
    let processes = prop_oneof![
        (number(), number(), number(), text(), text()).prop_map(
            |(addr, len, file_offset, path, build_id)| {
                Kind::Module {
                    addr,
                    len,
                    file_offset,
                    path,
                    build_id,
                }
            }
        ),
        proptest::option::of((any::<u32>(), number()))
            .prop_map(|parent| Kind::ThreadStart { parent }),
        Just(Kind::ThreadExit),
        any::<u32>().prop_map(|joined| Kind::ThreadJoin { joined }),
        (
            any::<u32>(),
            proptest::option::of(small()),
            any::<bool>(),
            text(),
            text()
        )
            .prop_map(|(pid, parent, fork, exe, args)| Kind::ProcessStart {
                pid,
                parent,
                fork,
                exe,
                args
            }),
        (any::<bool>(), any::<i32>())
            .prop_map(|(signaled, number)| Kind::ProcessExit { signaled, number }),
        "\\PC{0,20}".prop_map(|text| Kind::Note { text }),
    ]
    .boxed();
    let calls = prop_oneof![
        (small(), vec(number(), 0..=6)).prop_map(|(function, args)| Kind::Call { function, args }),
        (small(), proptest::option::of([number(), number()]))
            .prop_map(|(function, value)| Kind::Return { function, value }),
    ]
    .boxed();
    prop_oneof![10 => frequent, 2 => files, 2 => mappings, 2 => processes, 2 => calls].boxed()
}

pub fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        20 => (small(), small(), number(), small(), kind()).prop_map(
            |(process, thread, pc, context, kind)| {
                Step::Event { process, thread, pc, context, kind }
            }
        ),
        2 => (small(), small(), small(), number()).prop_map(
            |(process, context, parent, return_address)| {
                Step::Context { process, context, parent, return_address }
            }
        ),
        1 => (number(), number(), text()).prop_map(|(dev, ino, path)| {
            Step::File { dev, ino, path }
        }),
        1 => "[a-z_]{1,3}".prop_map(|name| Step::Function { name }),
        1 => Just(Step::Flush),
    ]
    .boxed()
}
