//! Small traces of a program with one or two pools.

use std::path::Path;
use std::time::{Duration, SystemTime};

use brownout_crash::{CallingContexts, Progress, ProgressObserver, StackId, Symbols};
use brownout_recovery::RawFrame;
use brownout_report::Frame;
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::*;

pub const BASE: u64 = 0x7f00_0000_0000;
pub const SECOND: u64 = 0x7f10_0000_0000;

/// A trace that is being written, and then read.
pub struct Made {
    file: tempfile::NamedTempFile,
    writer: Option<TraceWriter>,
}

impl Made {
    /// Starts with a target that has mapped its pool.
    pub fn new() -> Self {
        Self::with_pool(b"")
    }

    /// Starts with a program that has mapped a pool with this content.
    pub fn with_pool(content: &[u8]) -> Self {
        Self::mapping(Some(content))
    }

    /// Starts with a program that has mapped a pool. The trace does not say what is in it.
    pub fn with_unknown_pool() -> Self {
        Self::mapping(None)
    }

    fn mapping(content: Option<&[u8]>) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header = Header {
            brownout_version: "0".to_owned(),
            command: vec!["./program".into()],
            cwd: "/".into(),
            pm: Vec::new(),
            loads: false,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        let mut made = Self {
            writer: Some(TraceWriter::create(file.path(), &header).unwrap()),
            file,
        };
        made.at(
            0,
            EventKind::ProcessStart {
                pid: 2,
                parent_pid: 1,
                parent: None,
                origin: ProcessOrigin::Exec,
                exe: Path::new("/program"),
                args: Arguments::default(),
            },
        );
        made.map(BASE, "/pm/first.pool", content);
        made
    }

    pub fn map_second(&mut self, content: &[u8]) {
        self.map(SECOND, "/pm/second.pool", Some(content));
    }

    fn map(&mut self, addr: u64, path: &str, content: Option<&[u8]>) {
        let identity = FileIdentity { dev: 1, ino: addr };
        let writer = self.writer.as_mut().unwrap();
        let file = writer.file(identity, Path::new(path)).unwrap();
        let mapping = Mapping {
            addr: Address(addr),
            len: 0x1000,
            file,
            offset: 0,
            file_len: 0x1000,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: content.is_some(),
        };
        self.at(0, EventKind::Map(mapping));
        if let Some(bytes) = content.filter(|content| !content.is_empty()) {
            self.at(
                0,
                EventKind::Content {
                    file,
                    offset: 0,
                    bytes,
                },
            );
        }
    }

    /// An event of the instruction at `pc`; its number.
    pub fn at(&mut self, pc: u64, kind: EventKind<'_>) -> u64 {
        let event = Event {
            index: EventIndex(0),
            process: ProcessId(1),
            thread: ThreadId(2),
            pc: AppPc(pc),
            context: ContextId::ROOT,
            kind,
        };
        self.writer.as_mut().unwrap().write(&event).unwrap().0
    }

    pub fn call(&mut self, name: &str) {
        let function = self.writer.as_mut().unwrap().function(name).unwrap();
        let args = CallArguments::default();
        self.at(100, EventKind::Call { function, args });
    }

    pub fn returned(&mut self, name: &str) {
        let function = self.writer.as_mut().unwrap().function(name).unwrap();
        self.at(
            101,
            EventKind::Return {
                function,
                value: None,
            },
        );
    }

    pub fn exit(&mut self) -> u64 {
        let end = ProcessEnd::Exited { status: 0 };
        self.at(0, EventKind::ProcessExit { end })
    }

    pub fn finish(mut self) -> Self {
        let writer = self.writer.take().unwrap();
        writer.finish(Ending::default()).unwrap();
        self
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The pools.
    pub fn selection(&self) -> Selection {
        let patterns = Patterns::new(&["*.pool".into()], Path::new("/")).unwrap();
        let mut reader = TraceReader::open(self.path()).unwrap();
        let mut survey = Survey::default();
        while let Some((event, definitions)) = reader.next_defined().unwrap() {
            survey.observe(&event, definitions);
        }
        survey.select(reader.definitions(), patterns.as_ref())
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

pub fn locked_store(addr: u64, bytes: &[u8]) -> EventKind<'_> {
    EventKind::Store {
        addr: Address(addr),
        bytes,
        flavor: StoreFlavor::Temporal,
        locked: true,
        string: false,
    }
}

pub fn nt_store(addr: u64, bytes: &[u8]) -> EventKind<'_> {
    EventKind::Store {
        addr: Address(addr),
        bytes,
        flavor: StoreFlavor::NonTemporal,
        locked: false,
        string: false,
    }
}

pub fn clflush(addr: u64) -> EventKind<'static> {
    EventKind::Flush {
        addr: Address(addr),
        kind: FlushKind::Clflush,
        volatile: false,
    }
}

pub fn flush(addr: u64) -> EventKind<'static> {
    EventKind::Flush {
        addr: Address(addr),
        kind: FlushKind::Clwb,
        volatile: false,
    }
}

pub fn sfence() -> EventKind<'static> {
    EventKind::Fence {
        kind: FenceKind::Sfence,
    }
}

/// Distinguishes contexts by their instruction alone.
pub struct Numbers;

impl CallingContexts for Numbers {
    fn observe(&mut self, _: &Event<'_>, _: &Definitions) {}

    fn stack(&mut self, event: &Event<'_>, _: &Definitions) -> Option<StackId> {
        (event.pc.0 != 0).then_some(StackId(event.pc.0 as usize))
    }

    fn wanted(&mut self, _: Option<StackId>) -> bool {
        true
    }
}

impl Symbols for Numbers {
    fn frames(&mut self, stack: StackId) -> Vec<Frame> {
        vec![Frame {
            offset: stack.0 as u64,
            ..Frame::default()
        }]
    }

    fn line(&mut self, frames: &[Frame]) -> String {
        brownout_crash::line_of(frames)
    }

    fn code(&mut self, stack: StackId) -> String {
        stack.0.to_string()
    }

    fn recovery_frames(&mut self, _: &[RawFrame]) -> Vec<Frame> {
        Vec::new()
    }
}

/// Ignores all progress.
pub struct Silent;

impl ProgressObserver for Silent {
    fn progress(&mut self, _: Progress) {}

    fn explained(&mut self, _: usize, _: usize) {}

    fn reading(&mut self, _: EventIndex) {}

    fn stop(&mut self) -> bool {
        false
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }
}
