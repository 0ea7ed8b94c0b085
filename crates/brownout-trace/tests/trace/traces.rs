//! Small hand-written traces, and functions that read them.

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, SystemTime};

use brownout_trace::*;

pub fn header() -> Header {
    Header {
        brownout_version: "0.1.0".to_owned(),
        command: vec!["./program".into(), "-x".into()],
        cwd: "/home/user".into(),
        pm: vec!["*.pool".into()],
        loads: true,
        shared_loads: false,
        started: SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789),
    }
}

pub fn writer() -> TraceWriter<Vec<u8>> {
    TraceWriter::new(Vec::new(), &header()).unwrap()
}

/// An event of process 1, thread 10.
pub fn event(kind: EventKind<'_>) -> Event<'_> {
    Event {
        index: EventIndex(0),
        process: ProcessId(1),
        thread: ThreadId(10),
        pc: AppPc(0x40_1000),
        context: ContextId(1),
        kind,
    }
}

pub fn store(addr: u64, bytes: &[u8]) -> EventKind<'_> {
    EventKind::Store {
        addr: Address(addr),
        bytes,
        flavor: StoreFlavor::Temporal,
        locked: false,
        string: false,
    }
}

pub fn mapping(addr: u64, len: u64, file: FileId, offset: u64, file_len: u64) -> Mapping {
    Mapping {
        addr: Address(addr),
        len,
        file,
        offset,
        file_len,
        prot: 3,
        flags: 1,
        dax: false,
        snapshot: true,
    }
}

pub fn start(parent: Option<ProcessId>, origin: ProcessOrigin) -> EventKind<'static> {
    EventKind::ProcessStart {
        pid: 1000,
        parent_pid: 999,
        parent,
        origin,
        exe: Path::new("/bin/program"),
        args: Arguments::from_bytes(b"./program\0-x\0"),
    }
}

/// Where the pool of [`every_kind`] is mapped.
const POOL: Address = Address(0x7f00_0000_0000);

/// A trace with every kind of event, in several chunks.
pub fn every_kind() -> Vec<u8> {
    let mut writer = writer();
    let pool = writer
        .file(FileIdentity { dev: 1, ino: 2 }, Path::new("/mnt/pmem/pool"))
        .unwrap();
    writer
        .context(
            ProcessId(1),
            ContextId(1),
            ContextId::ROOT,
            AppPc(0x40_2000),
        )
        .unwrap();
    let function = writer.function("pmemobj_tx_begin").unwrap();
    let kinds = accesses(pool).into_iter().chain(calls(pool, function));
    for (number, kind) in kinds.enumerate() {
        writer.write(&event(kind)).unwrap();
        if number % 8 == 7 {
            writer.flush_chunk().unwrap();
        }
    }
    writer.finish(ending()).unwrap().1
}

/// The start of a program, and accesses to its pool.
fn accesses(pool: FileId) -> Vec<EventKind<'static>> {
    let addr = POOL;
    vec![
        start(None, ProcessOrigin::Exec),
        EventKind::Module {
            addr: Address(0x40_0000),
            len: 0x1000,
            file_offset: 0,
            path: Path::new("/bin/program"),
            build_id: &[1, 2, 3],
        },
        EventKind::Map(mapping(addr.0, 0x2000, pool, 0, 0x2000)),
        EventKind::Content {
            file: pool,
            offset: 16,
            bytes: b"initial",
        },
        EventKind::ThreadStart { parent: None },
        store(addr.0, &[7, 0, 0, 0, 0, 0, 0, 0]),
        store(addr.0 + 64, b"odd"),
        EventKind::Store {
            addr: Address(addr.0 + 128),
            bytes: &[9; 64],
            flavor: StoreFlavor::NonTemporal,
            locked: false,
            string: true,
        },
        EventKind::Load {
            addr,
            bytes: &[7, 0, 0, 0, 0, 0, 0, 0],
        },
        EventKind::Flush {
            addr,
            kind: FlushKind::Clwb,
            volatile: false,
        },
        EventKind::Fence {
            kind: FenceKind::Sfence,
        },
    ]
}

/// System calls, calls of watched functions, and the end of the program.
fn calls(pool: FileId, function: FunctionId) -> Vec<EventKind<'static>> {
    let addr = POOL;
    vec![
        EventKind::KernelWrite {
            addr,
            bytes: b"read",
            syscall: 0,
        },
        EventKind::FileWrite {
            file: pool,
            offset: 32,
            bytes: b"pwrite",
            syscall: 18,
        },
        EventKind::FileResize {
            file: pool,
            len: 0x3000,
        },
        EventKind::Sync(Sync::Msync {
            addr,
            len: 0x1000,
            asynchronous: false,
        }),
        EventKind::Sync(Sync::Fsync { file: pool }),
        EventKind::Sync(Sync::Fdatasync { file: pool }),
        EventKind::Sync(Sync::SyncFileRange {
            file: pool,
            offset: 1,
            len: 2,
        }),
        EventKind::Sync(Sync::Syncfs { file: pool }),
        EventKind::Protect {
            addr,
            len: 0x1000,
            writable: false,
        },
        EventKind::Remap {
            old: addr,
            old_len: 0x2000,
            new: Address(0x7f11_0000_0000),
            new_len: 0x3000,
        },
        EventKind::Unmap {
            addr: Address(0x7f11_0000_0000),
            len: 0x3000,
        },
        EventKind::Note { text: "a note" },
        EventKind::Call {
            function,
            args: CallArguments::new(&[1, u64::MAX]),
        },
        EventKind::Return {
            function,
            value: Some([0, u64::MAX]),
        },
        EventKind::Return {
            function,
            value: None,
        },
        EventKind::ThreadStart {
            parent: Some(ThreadParent {
                thread: ThreadId(1),
                created: EventIndex(4),
            }),
        },
        EventKind::ThreadJoin {
            joined: ThreadId(u32::MAX),
        },
        EventKind::LockAcquire {
            word: Address(0x7f00_0000_1000),
            size: 4,
            shared: false,
        },
        EventKind::LockAcquire {
            word: Address(u64::MAX),
            size: 1,
            shared: true,
        },
        EventKind::LockRelease {
            word: Address(u64::MAX),
            shared: true,
            exchanged: false,
        },
        EventKind::LockRelease {
            word: Address(0x7f00_0000_1000),
            shared: false,
            exchanged: true,
        },
        EventKind::ThreadExit,
        EventKind::ProcessExit {
            end: ProcessEnd::Signaled { signal: 9 },
        },
    ]
}

pub fn ending() -> Ending {
    Ending {
        target: Some(ProcessEnd::Exited { status: 3 }),
        wall: Some(Duration::from_millis(1500)),
        cpu: None,
        stopped: Some(EarlyStop::Failure("the wire broke".to_owned())),
    }
}

pub fn open(trace: &[u8]) -> Result<TraceReader<Cursor<&[u8]>>, ReadError> {
    TraceReader::new(Cursor::new(trace))
}

/// All events that can be read, as text, and the error that ended reading.
pub fn readable(trace: &[u8]) -> (Vec<String>, Option<ReadError>) {
    let mut reader = match open(trace) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(event)) => events.push(format!("{event:?}")),
            Ok(None) => return (events, None),
            Err(error) => {
                assert!(
                    matches!(reader.next(), Ok(None)),
                    "a reader continues after an error"
                );
                return (events, Some(error));
            }
        }
    }
}
