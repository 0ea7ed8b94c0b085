//! Small traces for the tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use brownout_trace::{
    Address, AppPc, Arguments, ContextId, Ending, Event, EventIndex, EventKind, FenceKind, FileId,
    FileIdentity, FlushKind, FunctionId, Header, Mapping, ProcessEnd, ProcessId, ProcessOrigin,
    StoreFlavor, ThreadId, TraceWriter,
};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tempfile::TempDir;

pub const POOL: u64 = 0x1000_0000;
pub const SEMAPHORE: u64 = 0x2000_0000;
/// The address of the target's code.
const TEXT: u64 = 0x40_0000;

/// A program that stores. It is compiled, so that its trace has real source lines.
pub const SOURCE: &str = "\
#define MARK(name) __asm__ volatile(\".globl \" #name \"\\n\" #name \":\")
static volatile int cell;
__attribute__((noinline)) void put(int value) {
  MARK(at_store);
  cell = value;
}
int main(void) {
  put(1);
  MARK(after_call);
  return cell - 1;
}
";

/// A trace being written, in its own directory.
pub struct Recording {
    pub directory: TempDir,
    pub path: PathBuf,
    writer: TraceWriter,
    pub process: ProcessId,
    pub thread: ThreadId,
    pc: AppPc,
    context: ContextId,
}

impl Recording {
    pub fn start(patterns: &[&str]) -> Self {
        let mut recording = Self::without_events(patterns);
        recording.add(EventKind::ProcessStart {
            pid: 4711,
            parent_pid: 1,
            parent: None,
            origin: ProcessOrigin::Exec,
            exe: Path::new("/home/user/program"),
            args: Arguments::from_bytes(b"./program\0insert\0"),
        });
        recording
    }

    pub fn without_events(patterns: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("run.trace");
        let header = Header {
            brownout_version: "0.0.test".into(),
            command: vec!["./program".into(), "insert".into()],
            cwd: "/home/user".into(),
            pm: patterns.iter().map(OsString::from).collect(),
            loads: false,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        };
        let writer = TraceWriter::create(&path, &header).unwrap();
        Self {
            directory,
            path,
            writer,
            process: ProcessId(0),
            thread: ThreadId(4711),
            pc: AppPc(0),
            context: ContextId::ROOT,
        }
    }

    pub fn add(&mut self, kind: EventKind<'_>) -> EventIndex {
        let event = Event {
            index: EventIndex(0),
            process: self.process,
            thread: self.thread,
            pc: self.pc,
            context: self.context,
            kind,
        };
        self.writer.write(&event).unwrap()
    }

    pub fn function(&mut self, name: &str) -> FunctionId {
        self.writer.function(name).unwrap()
    }

    pub fn file(&mut self, ino: u64, path: &str) -> FileId {
        let identity = FileIdentity { dev: 1, ino };
        self.writer.file(identity, Path::new(path)).unwrap()
    }

    pub fn map(&mut self, file: FileId, addr: u64, file_len: u64) -> EventIndex {
        self.add(EventKind::Map(Mapping {
            addr: Address(addr),
            len: file_len.next_multiple_of(4096),
            file,
            offset: 0,
            file_len,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: true,
        }))
    }

    pub fn content(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> EventIndex {
        self.add(EventKind::Content {
            file,
            offset,
            bytes,
        })
    }

    pub fn store(&mut self, addr: u64, bytes: &[u8]) -> EventIndex {
        self.add(EventKind::Store {
            addr: Address(addr),
            bytes,
            flavor: StoreFlavor::Temporal,
            locked: false,
            string: false,
        })
    }

    pub fn flush(&mut self, addr: u64) -> EventIndex {
        let (addr, kind) = (Address(addr), FlushKind::Clwb);
        self.add(EventKind::Flush {
            addr,
            kind,
            volatile: false,
        })
    }

    pub fn fence(&mut self) -> EventIndex {
        self.add(EventKind::Fence {
            kind: FenceKind::Sfence,
        })
    }

    /// Compiles a program and records that it is mapped. The following events come from its store, called from `main`.
    /// Returns the path of the program.
    pub fn run_compiled(&mut self) -> PathBuf {
        let program = compile(self.directory.path(), "-g");
        let bytes = fs::read(&program).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let text = elf.section_by_name(".text").unwrap();
        let (file_offset, len) = text.file_range().unwrap();
        let address_of = |name: &str| {
            let symbol = elf
                .symbols()
                .find(|symbol| symbol.name() == Ok(name))
                .unwrap();
            AppPc(symbol.address() - text.address() + TEXT)
        };
        self.add(EventKind::Module {
            addr: Address(TEXT),
            len,
            file_offset,
            path: &program,
            build_id: elf.build_id().unwrap().unwrap(),
        });
        let main = ContextId(1);
        self.writer
            .context(
                self.process,
                main,
                ContextId::ROOT,
                address_of("after_call"),
            )
            .unwrap();
        self.pc = address_of("at_store");
        self.context = main;
        program
    }

    /// Writes the events so far, as if the recorder were then killed.
    pub fn abandon(mut self) -> (TempDir, PathBuf) {
        self.writer.flush_chunk().unwrap();
        (self.directory, self.path)
    }

    pub fn finish(mut self) -> (TempDir, PathBuf) {
        self.pc = AppPc(0);
        self.context = ContextId::ROOT;
        let end = ProcessEnd::Exited { status: 0 };
        self.add(EventKind::ProcessExit { end });
        self.finish_with(Ending {
            target: Some(end),
            wall: Some(Duration::from_millis(500)),
            cpu: Some(Duration::from_millis(400)),
            stopped: None,
        })
    }

    pub fn finish_with(self, ending: Ending) -> (TempDir, PathBuf) {
        self.writer.finish(ending).unwrap();
        (self.directory, self.path)
    }
}

pub fn compile(directory: &Path, option: &str) -> PathBuf {
    let source = directory.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let program = directory.join("program");
    let compiled = Command::new("cc")
        .args(["-O1", "-Wl,--build-id", option, "-o"])
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(compiled.success());
    program
}

/// A trace with one store to a pool that is flushed, and one store to a semaphore that is not.
pub fn pool_and_semaphore(patterns: &[&str]) -> Recording {
    let mut recording = Recording::start(patterns);
    let pool = recording.file(1, "/mnt/pmem/pool");
    recording.map(pool, POOL, 8192);
    recording.content(pool, 0, b"POOLHEAD");
    let semaphore = recording.file(2, "/dev/shm/sem");
    recording.map(semaphore, SEMAPHORE, 32);
    recording.store(POOL + 64, &42_u64.to_le_bytes());
    recording.flush(POOL + 64);
    recording.fence();
    recording.store(SEMAPHORE, &[1]);
    recording
}
