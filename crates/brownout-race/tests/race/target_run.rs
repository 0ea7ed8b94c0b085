//! Builds small runs of several threads as traces in memory, and prints their races in short form.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use brownout_libraries::LockFunction;
use brownout_model::Profile;
use brownout_names::FunctionPattern;
use brownout_race::{
    AccessOwner, CustomAllocator, CustomLock, ForcedRoles, Harm, RaceDetector, RaceOptions,
    RaceOutcome, RaceSite, RacyEnd,
};
use brownout_trace::{
    Address, AppPc, Arguments, CallArguments, ContextId, Ending, Event, EventIndex, EventKind,
    FenceKind, FileId, FileIdentity, FlushKind, Header, Mapping, ProcessId, ProcessOrigin,
    RecognisedLocks, StoreFlavor, Sync, ThreadId, ThreadParent, TraceReader, TraceWriter,
};

/// The address of the pool, and lines of it.
pub const POOL: u64 = 0x10_0000;
pub const X: u64 = POOL + 0x40;
pub const Y: u64 = POOL + 0x80;
pub const Z: u64 = POOL + 0x1040;
/// Locks and other shared objects outside of the pool.
pub const A: u64 = 0x55_0000;
pub const B: u64 = 0x55_1000;

const PROCESS: ProcessId = ProcessId(1);
pub const T1: ThreadId = ThreadId(11);
pub const T2: ThreadId = ThreadId(12);
pub const T3: ThreadId = ThreadId(13);

/// Instructions from here on belong to a library, and from there on to a lock.
pub const LIBRARY: u64 = 10_000;

/// How a recognised lock is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Release {
    ByStore,
    ByExchange,
    Shared,
}

/// A run. Each event is made by the thread and at the instruction that were named last.
pub struct TargetRun {
    writer: TraceWriter<Vec<u8>>,
    pool: FileId,
    thread: ThreadId,
    pc: u64,
    pub profile: Profile,
    pub removes_initialisation: bool,
    pub locks: Vec<CustomLock>,
    pub allocators: Vec<CustomAllocator>,
    /// The store whose thread is held, and the load that can race with it.
    pub forced: Option<(u64, u64)>,
}

impl TargetRun {
    /// A run of the thread `T1`.
    pub fn new() -> Self {
        let header = Header {
            brownout_version: "0".into(),
            command: vec!["kv".into()],
            cwd: "/".into(),
            pm: Vec::new(),
            loads: true,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        let writer = TraceWriter::new(Vec::new(), &header).unwrap();
        let mut run = TargetRun {
            writer,
            pool: FileId(0),
            thread: T1,
            pc: 0,
            profile: Profile::ADR,
            removes_initialisation: false,
            locks: Vec::new(),
            allocators: Vec::new(),
            forced: None,
        };
        run.event(EventKind::ProcessStart {
            pid: 100,
            parent_pid: 1,
            parent: None,
            origin: ProcessOrigin::Exec,
            exe: Path::new("/bin/kv"),
            args: Arguments::default(),
        });
        run.event(EventKind::ThreadStart { parent: None });
        let identity = FileIdentity { dev: 1, ino: 1 };
        run.pool = run.writer.file(identity, Path::new("/mnt/pool")).unwrap();
        run.map(POOL);
        run
    }

    pub fn map(&mut self, addr: u64) -> &mut Self {
        self.event(EventKind::Map(Mapping {
            addr: Address(addr),
            len: 0x1_0000,
            file: self.pool,
            offset: 0,
            file_len: 0x1_0000,
            prot: 3,
            flags: 1,
            dax: true,
            snapshot: true,
        }))
    }

    /// Threads that `T1` creates now.
    pub fn create<const N: usize>(&mut self, threads: [ThreadId; N]) -> &mut Self {
        for thread in threads {
            let created = self.position();
            self.start(thread, T1, created);
        }
        self
    }

    /// A thread starts that another one has created at an earlier position.
    pub fn start(&mut self, thread: ThreadId, parent: ThreadId, created: EventIndex) -> &mut Self {
        let running = std::mem::replace(&mut self.thread, thread);
        let parent = Some(ThreadParent {
            thread: parent,
            created,
        });
        self.event(EventKind::ThreadStart { parent });
        self.thread = running;
        self
    }

    pub fn position(&self) -> EventIndex {
        EventIndex(self.writer.events())
    }

    pub fn join(&mut self, joined: ThreadId) -> &mut Self {
        let running = std::mem::replace(&mut self.thread, joined);
        self.event(EventKind::ThreadExit);
        self.thread = running;
        self.event(EventKind::ThreadJoin { joined })
    }

    pub fn thread(&mut self, thread: ThreadId) -> &mut Self {
        self.thread = thread;
        self
    }

    /// Names the next instruction.
    pub fn at(&mut self, pc: u64) -> &mut Self {
        self.pc = pc;
        self
    }

    pub fn event(&mut self, kind: EventKind<'_>) -> &mut Self {
        let event = Event {
            index: EventIndex(0),
            process: PROCESS,
            thread: self.thread,
            pc: AppPc(self.pc),
            context: ContextId::ROOT,
            kind,
        };
        self.writer.write(&event).unwrap();
        self
    }

    pub fn store(&mut self, addr: u64) -> &mut Self {
        let value = self.position().0;
        self.store_value(addr, value)
    }

    pub fn store_value(&mut self, addr: u64, value: u64) -> &mut Self {
        self.any_store(addr, value, StoreFlavor::Temporal, false)
    }

    pub fn any_store(
        &mut self,
        addr: u64,
        value: u64,
        flavor: StoreFlavor,
        locked: bool,
    ) -> &mut Self {
        self.event(EventKind::Store {
            addr: Address(addr),
            bytes: &value.to_le_bytes(),
            flavor,
            locked,
            string: false,
        })
    }

    pub fn load(&mut self, addr: u64) -> &mut Self {
        self.load_value(addr, 0)
    }

    pub fn load_value(&mut self, addr: u64, value: u64) -> &mut Self {
        self.event(EventKind::Load {
            addr: Address(addr),
            bytes: &value.to_le_bytes(),
        })
    }

    pub fn store_bytes(&mut self, addr: u64, bytes: &[u8]) -> &mut Self {
        self.event(EventKind::Store {
            addr: Address(addr),
            bytes,
            flavor: StoreFlavor::Temporal,
            locked: false,
            string: false,
        })
    }

    pub fn load_bytes(&mut self, addr: u64, bytes: &[u8]) -> &mut Self {
        let addr = Address(addr);
        self.event(EventKind::Load { addr, bytes })
    }

    /// An instruction that may have acquired a lock with a word of `size` bytes.
    pub fn acquire(&mut self, word: u64, size: u8, shared: bool) -> &mut Self {
        let word = Address(word);
        self.event(EventKind::LockAcquire { word, size, shared })
    }

    pub fn release(&mut self, word: u64, how: Release) -> &mut Self {
        self.event(EventKind::LockRelease {
            word: Address(word),
            shared: how == Release::Shared,
            exchanged: how == Release::ByExchange,
        })
    }

    pub fn flush(&mut self, addr: u64) -> &mut Self {
        self.any_flush(addr, FlushKind::Clwb)
    }

    pub fn any_flush(&mut self, addr: u64, kind: FlushKind) -> &mut Self {
        self.event(EventKind::Flush {
            addr: Address(addr),
            kind,
            volatile: false,
        })
    }

    /// `msync` of a page.
    pub fn sync(&mut self, addr: u64) -> &mut Self {
        self.event(EventKind::Sync(Sync::Msync {
            addr: Address(addr & !0xfff),
            len: 0x1000,
            asynchronous: false,
        }))
    }

    /// The file is truncated, or written from its beginning by a system call.
    pub fn replace_all(&mut self, truncated: bool) -> &mut Self {
        let file = self.pool;
        self.event(match truncated {
            true => EventKind::FileResize { file, len: 0 },
            false => EventKind::FileWrite {
                file,
                offset: 0,
                bytes: &[0; 0x1000],
                syscall: 18,
            },
        })
    }

    pub fn fence(&mut self) -> &mut Self {
        self.event(EventKind::Fence {
            kind: FenceKind::Sfence,
        })
    }

    pub fn persist(&mut self, addr: u64) -> &mut Self {
        self.flush(addr).fence()
    }

    /// A call that begins and does not return yet.
    pub fn begin(&mut self, function: &str, args: &[u64]) -> &mut Self {
        let function = self.writer.function(function).unwrap();
        let args = CallArguments::new(args);
        self.event(EventKind::Call { function, args })
    }

    pub fn end(&mut self, function: &str, value: u64) -> &mut Self {
        self.end_pair(function, [value, 0])
    }

    /// A call returns two registers.
    pub fn end_pair(&mut self, function: &str, value: [u64; 2]) -> &mut Self {
        let function = self.writer.function(function).unwrap();
        let value = Some(value);
        self.event(EventKind::Return { function, value })
    }

    pub fn call(&mut self, function: &str, args: &[u64]) -> &mut Self {
        self.begin(function, args).end(function, 0)
    }

    pub fn lock(&mut self, lock: u64) -> &mut Self {
        self.call("pthread_mutex_lock", &[lock])
    }

    pub fn unlock(&mut self, lock: u64) -> &mut Self {
        self.call("pthread_mutex_unlock", &[lock])
    }

    pub fn custom(&mut self, name: &str, operation: LockFunction, success: &[u32]) -> &mut Self {
        self.locks.push(CustomLock {
            function: FunctionPattern::new(name),
            operation,
            argument: 0,
            success: success.to_vec(),
        });
        self
    }

    pub fn finish(&mut self) -> RaceOutcome<Owners> {
        let header = Header {
            brownout_version: "0".into(),
            command: Vec::new(),
            cwd: "/".into(),
            pm: Vec::new(),
            loads: true,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        let next = TraceWriter::new(Vec::new(), &header).unwrap();
        let writer = std::mem::replace(&mut self.writer, next);
        let (_, bytes) = writer.finish(Ending::default()).unwrap();
        let mut reader = TraceReader::new(Cursor::new(bytes)).unwrap();
        let mut recognised = RecognisedLocks::default();
        reader
            .for_each(|event, _| {
                recognised.event(event);
                ControlFlow::<()>::Continue(())
            })
            .unwrap();
        reader.seek(EventIndex(0)).unwrap();
        let options = RaceOptions {
            profile: self.profile,
            removes_initialisation: self.removes_initialisation,
            locks: self.locks.clone(),
            allocators: self.allocators.clone(),
            recognised,
        };
        let code = Owners {
            forced: self.forced,
            ..Owners::default()
        };
        let mut detector = RaceDetector::new(options, code);
        reader
            .for_each(|event, definitions| {
                detector.observe(event, definitions);
                ControlFlow::<()>::Continue(())
            })
            .unwrap();
        detector.finish(reader.definitions(), None)
    }

    /// The races, as `store-load` and whether they were observed; `!` if what depends on the load was made durable.
    pub fn races(&mut self) -> Vec<String> {
        races(&self.finish())
    }
}

/// The races of an outcome in short form.
pub fn races(outcome: &RaceOutcome<Owners>) -> Vec<String> {
    let pc = |site: RaceSite| outcome.code.pcs[site.0 as usize];
    let mut lines = Vec::new();
    for race in &outcome.races {
        for load in &race.loads {
            let observed = if load.observed > 0 { " observed" } else { "" };
            let harm = match load.harm {
                Harm::Dependent { .. } => "!",
                _ => "",
            };
            let end = match race.end {
                RacyEnd::Never => " never",
                _ => "",
            };
            let (store, load) = (pc(race.store.site), pc(load.load.site));
            lines.push(format!("{store}-{load}{end}{observed}{harm}"));
        }
    }
    lines.sort();
    lines
}

/// Remembers the instruction of each site.
#[derive(Default)]
pub struct Owners {
    pub pcs: Vec<u64>,
    forced: Option<(u64, u64)>,
}

impl brownout_race::TargetCode for Owners {
    fn owner(
        &mut self,
        _: RaceSite,
        event: &Event<'_>,
        _: &brownout_trace::Definitions,
    ) -> AccessOwner {
        self.pcs.push(event.pc.0);
        match event.pc.0 {
            LIBRARY.. => AccessOwner::Library,
            _ => AccessOwner::User,
        }
    }

    fn forced_roles(&self, site: RaceSite) -> ForcedRoles {
        let pc = self.pcs[site.0 as usize];
        let is = |one: fn((u64, u64)) -> u64| self.forced.map(one) == Some(pc);
        ForcedRoles {
            store: is(|(store, _)| store),
            load: is(|(_, load)| load),
        }
    }
}
