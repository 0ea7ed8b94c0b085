//! Builds small runs as traces in memory, lints them and prints the findings in short form.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use brownout_lint::oracle::Oracle;
use brownout_lint::{Attribution, Lint, LintOutcome, Origin, Profile, RawFinding};
use brownout_trace::selection::Patterns;
use brownout_trace::{
    Address, AppPc, Arguments, ContextId, Definitions, Ending, Event, EventIndex, EventKind,
    FenceKind, FileId, FileIdentity, FlushKind, FunctionId, Header, Mapping, ProcessEnd, ProcessId,
    ProcessOrigin, StoreFlavor, Sync, ThreadId, TraceReader, TraceWriter,
};

/// The address and length of the pool.
pub const POOL: u64 = 0x10_0000;
pub const POOL_LEN: u64 = 0x10_000;
/// Lines of the pool.
pub const A: u64 = POOL + 0x40;
pub const B: u64 = POOL + 0x80;
pub const C: u64 = POOL + 0x1000;
/// In the line of `A`.
pub const A2: u64 = A + 8;
/// Memory outside every file.
pub const HEAP: u64 = 0x55_0000;

pub const MAIN: ThreadId = ThreadId(10);
pub const SECOND: ThreadId = ThreadId(11);

pub const PROCESS: ProcessId = ProcessId(1);

/// A run of a target. Instructions are named by their number, set by [`at`](TargetRun::at).
pub struct TargetRun {
    writer: TraceWriter<Vec<u8>>,
    pub pool: FileId,
    profile: Profile,
    patterns: Option<Patterns>,
    process: ProcessId,
    thread: ThreadId,
    pc: u64,
    ended: bool,
}

impl TargetRun {
    /// A run that has mapped its pool.
    pub fn new() -> Self {
        Self::under(Profile::ADR)
    }

    pub fn under(profile: Profile) -> Self {
        let writer = writer();
        let mut run = TargetRun {
            writer,
            pool: FileId(0),
            profile,
            patterns: None,
            process: PROCESS,
            thread: MAIN,
            pc: 0,
            ended: false,
        };
        run.start(PROCESS, 100, None, ProcessOrigin::Exec);
        run.pool = run.file("/mnt/pool", 1);
        run.map_pool();
        run
    }

    pub fn file(&mut self, path: &str, ino: u64) -> FileId {
        let identity = FileIdentity { dev: 1, ino };
        let file = self.writer.file(identity, Path::new(path));
        file.expect("a vector has room")
    }

    pub fn function(&mut self, name: &str) -> FunctionId {
        self.writer.function(name).expect("a vector has room")
    }

    /// Only these files are persistent.
    pub fn select(&mut self, pattern: &str) -> &mut Self {
        let patterns = Patterns::new(&[pattern.into()], Path::new("/"));
        self.patterns = patterns.expect("the pattern is right");
        self
    }

    /// Sets the number of the next instruction.
    pub fn at(&mut self, pc: u64) -> &mut Self {
        self.pc = pc;
        self
    }

    pub fn thread(&mut self, thread: ThreadId) -> &mut Self {
        self.thread = thread;
        self
    }

    pub fn process(&mut self, process: ProcessId) -> &mut Self {
        self.process = process;
        self
    }

    pub fn event(&mut self, kind: EventKind<'_>) -> &mut Self {
        let event = Event {
            index: EventIndex(0),
            process: self.process,
            thread: self.thread,
            pc: AppPc(self.pc),
            context: ContextId(self.pc as u32 / 1000),
            kind,
        };
        self.writer.write(&event).expect("a vector has room");
        self
    }

    pub fn start(
        &mut self,
        process: ProcessId,
        pid: u32,
        parent: Option<ProcessId>,
        origin: ProcessOrigin,
    ) -> &mut Self {
        self.process = process;
        self.event(EventKind::ProcessStart {
            pid,
            parent_pid: 1,
            parent,
            origin,
            exe: Path::new("/bin/kv"),
            args: Arguments::default(),
        })
    }

    pub fn map(&mut self, file: FileId, addr: u64, len: u64, offset: u64) -> &mut Self {
        self.event(EventKind::Map(Mapping {
            addr: Address(addr),
            len,
            file,
            offset,
            file_len: 0x10_0000,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: true,
        }))
    }

    /// Maps the pool, again or for another process.
    pub fn map_pool(&mut self) -> &mut Self {
        self.map(self.pool, POOL, POOL_LEN, 0)
    }

    pub fn unmap(&mut self) -> &mut Self {
        self.event(EventKind::Unmap {
            addr: Address(POOL),
            len: POOL_LEN,
        })
    }

    pub fn exit(&mut self) -> &mut Self {
        self.ended = true;
        self.event(EventKind::ProcessExit {
            end: ProcessEnd::Exited { status: 0 },
        })
    }

    pub fn killed(&mut self) -> &mut Self {
        self.ended = true;
        self.event(EventKind::ProcessExit {
            end: ProcessEnd::Signaled { signal: 9 },
        })
    }

    /// The trace ends without recording how the target ended.
    pub fn cut_off(&mut self) -> &mut Self {
        self.ended = true;
        self
    }

    /// Stores eight bytes of a value that is never stored twice.
    pub fn store(&mut self, addr: u64) -> &mut Self {
        let value = self.writer.events();
        self.store_value(addr, &value.to_le_bytes())
    }

    pub fn store_value(&mut self, addr: u64, bytes: &[u8]) -> &mut Self {
        self.any_store(addr, bytes, StoreFlavor::Temporal, false)
    }

    pub fn nt_store(&mut self, addr: u64) -> &mut Self {
        let value = self.writer.events();
        self.any_store(addr, &value.to_le_bytes(), StoreFlavor::NonTemporal, false)
    }

    /// A locked instruction that stores to the pool.
    pub fn locked_store(&mut self, addr: u64) -> &mut Self {
        self.any_store(addr, &[1; 8], StoreFlavor::Temporal, true)
    }

    /// A locked instruction that stores a value to the pool.
    pub fn locked_value(&mut self, addr: u64, bytes: &[u8]) -> &mut Self {
        self.any_store(addr, bytes, StoreFlavor::Temporal, true)
    }

    fn any_store(
        &mut self,
        addr: u64,
        bytes: &[u8],
        flavor: StoreFlavor,
        locked: bool,
    ) -> &mut Self {
        self.event(EventKind::Store {
            addr: Address(addr),
            bytes,
            flavor,
            locked,
            string: false,
        })
    }

    fn flush(&mut self, addr: u64, kind: FlushKind) -> &mut Self {
        self.event(EventKind::Flush {
            addr: Address(addr),
            kind,
            volatile: addr == HEAP,
        })
    }

    pub fn clwb(&mut self, addr: u64) -> &mut Self {
        self.flush(addr, FlushKind::Clwb)
    }

    pub fn clflush(&mut self, addr: u64) -> &mut Self {
        self.flush(addr, FlushKind::Clflush)
    }

    fn fence(&mut self, kind: FenceKind) -> &mut Self {
        self.event(EventKind::Fence { kind })
    }

    pub fn sfence(&mut self) -> &mut Self {
        self.fence(FenceKind::Sfence)
    }

    pub fn mfence(&mut self) -> &mut Self {
        self.fence(FenceKind::Mfence)
    }

    /// A locked instruction on volatile memory.
    pub fn lock(&mut self) -> &mut Self {
        self.fence(FenceKind::Locked)
    }

    /// `clwb` and `sfence` as the instructions `pc` and `pc + 1`.
    pub fn persist(&mut self, pc: u64, addr: u64) -> &mut Self {
        self.at(pc).clwb(addr).at(pc + 1).sfence()
    }

    pub fn msync(&mut self, addr: u64, len: u64) -> &mut Self {
        self.event(EventKind::Sync(Sync::Msync {
            addr: Address(addr),
            len,
            asynchronous: false,
        }))
    }

    pub fn fsync(&mut self) -> &mut Self {
        let file = self.pool;
        self.event(EventKind::Sync(Sync::Fsync { file }))
    }

    /// The findings of all rules if all code is the user's: `rule role@number … ×count`.
    pub fn findings(&mut self) -> Vec<String> {
        self.findings_by(|_: &Event<'_>, _: &_| Origin::User)
    }

    pub fn findings_by(&mut self, attribution: impl Attribution) -> Vec<String> {
        let outcome = self.lint(attribution);
        outcome.findings.iter().map(short).collect()
    }

    /// The findings of one rule.
    pub fn findings_of(&mut self, rule: &str) -> Vec<String> {
        let mut found = self.findings();
        found.retain(|finding| finding.split(' ').next() == Some(rule));
        found
    }

    pub fn lint<A: Attribution>(&mut self, attribution: A) -> LintOutcome<A> {
        self.lint_with(attribution, Vec::new())
    }

    pub fn lint_with<A: Attribution>(
        &mut self,
        attribution: A,
        oracles: Vec<Box<dyn Oracle>>,
    ) -> LintOutcome<A> {
        let trace = self.take_trace();
        let mut lint = Lint::new(self.profile, attribution).with_oracles(oracles);
        let mut reader = TraceReader::new(Cursor::new(&trace)).expect("the trace opens");
        reader.visit(&mut lint).expect("the trace is whole");
        let ended = lint.end(reader.definitions(), self.patterns.as_ref());
        let mut content = ended.content_check();
        if let Some(content) = &mut content {
            let mut reader = TraceReader::new(Cursor::new(&trace)).expect("the trace opens");
            let read = reader.for_each(|event, _| content.observe(event));
            read.expect("the trace is whole");
        }
        ended.finish(content.as_ref())
    }

    /// The trace of the run so far; leaves an empty run.
    pub fn take_trace(&mut self) -> Vec<u8> {
        if !self.ended {
            self.exit();
        }
        let writer = std::mem::replace(&mut self.writer, writer());
        let ending = Ending {
            target: None,
            wall: None,
            cpu: None,
            stopped: None,
        };
        writer.finish(ending).expect("a vector has room").1
    }
}

fn writer() -> TraceWriter<Vec<u8>> {
    let header = Header {
        brownout_version: "test".to_owned(),
        command: Vec::new(),
        cwd: PathBuf::from("/"),
        pm: Vec::new(),
        loads: false,
        shared_loads: false,
        started: SystemTime::UNIX_EPOCH,
    };
    TraceWriter::new(Vec::new(), &header).expect("a vector has room")
}

/// Passes every event of a trace to `visit`; returns the definitions at its end.
pub fn replay(trace: &[u8], mut visit: impl FnMut(&Event<'_>, &Definitions)) -> Definitions {
    let mut reader = TraceReader::new(Cursor::new(trace)).expect("the trace opens");
    reader
        .for_each(|event, definitions| {
            visit(event, definitions);
            ControlFlow::<()>::Continue(())
        })
        .expect("the trace is whole");
    reader.definitions().clone()
}

pub fn short(finding: &RawFinding) -> String {
    let mut text = finding.rule.id.to_owned();
    for place in &finding.sites {
        text += &format!(" {}@{}", place.role, place.pc.0);
    }
    if finding.count > 1 {
        text += &format!(" ×{}", finding.count);
    }
    text
}
