//! Measures linting: events per second, reading included, and peak memory.
//!
//! `lint_speed make EVENTS TRACE` writes a trace of a synthetic program; `lint_speed lint TRACE` lints it
//! and prints events, seconds of processor time, peak memory in KiB and findings; `lint_speed read TRACE` only reads
//! it. `cargo xtask bench lint` runs all three.
//!
//! The program is drawn after what persistent-memory code does: four threads take turns at
//! operations on random places of 64 MiB. An operation stores a few words to one or two lines, flushes each
//! and fences; some write past the cache. Of its events 60 % are stores, 25 % flushes and 15 %
//! fences, from some hundred calling contexts.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use brownout_lint::{Lint, Origin, Profile};
use brownout_trace::{
    Address, AppPc, Arguments, ContextId, Definitions, Ending, Event, EventIndex, EventKind,
    FenceKind, FileIdentity, FlushKind, Header, Mapping, ProcessEnd, ProcessId, ProcessOrigin,
    StoreFlavor, ThreadId, TraceReader, TraceWriter,
};
use seeded_random::SeededRandom;

const POOL: u64 = 0x7f5a_4000_0000;
const CODE: u64 = 0x5581_2340_1000;
const WORKING_SET: u64 = 64 << 20;
const LINE: u64 = 64;
const CONTEXTS: u32 = 300;
const THREADS: u32 = 4;
const PROCESS: ProcessId = ProcessId(1);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["make", events, trace] => Maker::new(Path::new(trace))?.make(events.parse()?),
        ["lint", trace] => lint(Path::new(trace)),
        ["read", trace] => read(Path::new(trace)),
        _ => Err("usage: lint_speed make EVENTS TRACE | lint TRACE | read TRACE".into()),
    }
}

fn lint(trace: &Path) -> Result<(), Failure> {
    let start = processor_time()?;
    let mut reader = TraceReader::open(trace)?;
    let user = |_: &Event<'_>, _: &Definitions| Origin::User;
    let mut lint = Lint::new(Profile::ADR, user);
    reader.visit(&mut lint)?;
    let findings = lint.finish(reader.definitions(), None).findings.len();
    report(reader.events(), processor_time()? - start, findings)
}

fn read(trace: &Path) -> Result<(), Failure> {
    let start = processor_time()?;
    let mut reader = TraceReader::open(trace)?;
    let mut sum = 0_u64;
    reader.for_each(|event, _| {
        sum = sum.wrapping_add(event.pc.0 ^ u64::from(event.thread.0));
        ControlFlow::<()>::Continue(())
    })?;
    std::hint::black_box(sum);
    report(reader.events(), processor_time()? - start, 0)
}

fn report(events: u64, time: Duration, findings: usize) -> Result<(), Failure> {
    let seconds = time.as_secs_f64();
    println!("{events} {seconds} {} {findings}", peak_memory()?);
    Ok(())
}

/// What this process has had of the processor, which other load on the machine does not change.
fn processor_time() -> io::Result<Duration> {
    let times = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds = times.split_whitespace().next();
    let nanoseconds = nanoseconds.and_then(|number| number.parse().ok());
    Ok(Duration::from_nanos(nanoseconds.unwrap_or(0)))
}

/// The most memory this process has had at once, in KiB.
fn peak_memory() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// Writes the synthetic program.
struct Maker {
    writer: TraceWriter,
    random: SeededRandom,
    thread: u32,
    context: u32,
}

impl Maker {
    fn new(trace: &Path) -> Result<Self, Failure> {
        let header = Header {
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: vec!["synthetic".into()],
            cwd: PathBuf::from("/"),
            pm: Vec::new(),
            loads: false,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        Ok(Maker {
            writer: TraceWriter::create(trace, &header)?,
            random: SeededRandom::new(1),
            thread: 1,
            context: 1,
        })
    }

    fn make(mut self, events: u64) -> Result<(), Failure> {
        self.begin()?;
        while self.writer.events() < events {
            self.thread = 1 + self.below(u64::from(THREADS)) as u32;
            for _ in 0..4 {
                self.context = 1 + self.below(u64::from(CONTEXTS)) as u32;
                self.operate()?;
            }
        }
        self.write(
            0,
            EventKind::ProcessExit {
                end: ProcessEnd::Exited { status: 0 },
            },
        )?;
        self.writer.finish(Ending {
            target: None,
            wall: None,
            cpu: None,
            stopped: None,
        })?;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.write(
            0,
            EventKind::ProcessStart {
                pid: 1,
                parent_pid: 0,
                parent: None,
                origin: ProcessOrigin::Exec,
                exe: Path::new("/bin/synthetic"),
                args: Arguments::default(),
            },
        )?;
        for number in 1..=CONTEXTS {
            let caller = ContextId(number / 3);
            let returns_to = AppPc(CODE + 0x10_0000 + u64::from(number) * 16);
            self.writer
                .context(PROCESS, ContextId(number), caller, returns_to)?;
        }
        let identity = FileIdentity { dev: 1, ino: 1 };
        let file = self.writer.file(identity, Path::new("/mnt/pmem/pool"))?;
        self.write(
            0,
            EventKind::Map(Mapping {
                addr: Address(POOL),
                len: WORKING_SET,
                file,
                offset: 0,
                file_len: WORKING_SET,
                prot: 3,
                flags: 1,
                dax: true,
                snapshot: true,
            }),
        )
    }

    /// Twenty events in three parts: twelve stores, five flushes, three fences.
    fn operate(&mut self) -> Result<(), Failure> {
        for part in 0..3 {
            let line = POOL + self.below(WORKING_SET / LINE - 1) * LINE;
            let pc = CODE + u64::from(self.context) * 0x400 + part * 0x100;
            // Every sixth part writes past the cache; flushing its lines is redundant.
            let flavor = if self.below(6) == 0 {
                StoreFlavor::NonTemporal
            } else {
                StoreFlavor::Temporal
            };
            let lines = if part == 2 { 1 } else { 2 };
            for word in 0..4 {
                let addr = line + word % lines * LINE + word / lines * 8;
                self.store(pc + word * 8, addr, flavor)?;
            }
            for number in 0..lines {
                let addr = Address(line + number * LINE);
                self.write(
                    pc + 0x40 + number * 8,
                    EventKind::Flush {
                        addr,
                        kind: FlushKind::Clwb,
                        volatile: false,
                    },
                )?;
            }
            let kind = FenceKind::Sfence;
            self.write(pc + 0x80, EventKind::Fence { kind })?;
        }
        Ok(())
    }

    fn store(&mut self, pc: u64, addr: u64, flavor: StoreFlavor) -> Result<(), Failure> {
        let value = self.below(1 << 20).to_le_bytes();
        self.write(
            pc,
            EventKind::Store {
                addr: Address(addr),
                bytes: &value,
                flavor,
                locked: false,
                string: false,
            },
        )
    }

    fn write(&mut self, pc: u64, kind: EventKind<'_>) -> Result<(), Failure> {
        self.writer.write(&Event {
            index: EventIndex(0),
            process: PROCESS,
            thread: ThreadId(self.thread),
            pc: AppPc(pc),
            context: ContextId(self.context),
            kind,
        })?;
        Ok(())
    }

    /// A number below `limit`, from a generator that is the same in every run.
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }
}
