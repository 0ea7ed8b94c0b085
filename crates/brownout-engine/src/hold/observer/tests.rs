//! Which events count as reads of a held store.

use super::*;
use crate::event_destination::LiveEvents;
use crate::hold::CodeLocation;
use brownout_trace::{Arguments, Mapping, ProcessOrigin, ThreadId};
use std::time::Duration;

const PROGRAM: &str = "/bin/program";
const STORE: AppPc = AppPc(0x1010);
const OTHER: AppPc = AppPc(0x1020);
const DATA: Address = Address(0x9000);
const STORER: ThreadId = ThreadId(1);
const READER: ThreadId = ThreadId(2);
const VALUE: [u8; 8] = [7; 8];

type Discarded = LiveEvents<fn(&Event<'_>, &Definitions)>;

/// Where a plan holds threads that store to [`DATA`] at [`STORE`], and one has.
struct HeldRun {
    events: HeldEvents<Discarded>,
    progress: Arc<HoldProgress>,
}

impl HeldRun {
    fn new() -> Self {
        let plan = HoldPlan {
            store: vec![CodeLocation {
                path: PROGRAM.into(),
                offset: 0x10,
            }],
            wait: None,
            output_functions: Vec::new(),
            longest_hold: Duration::from_secs(1),
            time_limit: Duration::from_secs(1),
        };
        let progress = Arc::new(HoldProgress::default());
        let events = HeldEvents::new(LiveEvents::discard(), plan, progress.clone());
        let mut run = HeldRun { events, progress };
        let path = Path::new(PROGRAM);
        let identity = FileIdentity { dev: 1, ino: 2 };
        let file = run.events.file(identity, Path::new("/pm/pool")).unwrap();
        run.event(
            STORER,
            OTHER,
            EventKind::ProcessStart {
                pid: 1,
                parent_pid: 0,
                parent: None,
                origin: ProcessOrigin::Exec,
                exe: path,
                args: Arguments::from_bytes(b""),
            },
        );
        run.event(
            STORER,
            OTHER,
            EventKind::Module {
                addr: Address(0x1000),
                len: 0x1000,
                file_offset: 0,
                path,
                build_id: b"",
            },
        );
        run.event(
            STORER,
            OTHER,
            EventKind::Map(Mapping {
                addr: DATA,
                len: 0x1000,
                file,
                offset: 0,
                file_len: 0x1000,
                prot: 3,
                flags: 1,
                dax: false,
                snapshot: false,
            }),
        );
        run.event(STORER, STORE, store(StoreFlavor::Temporal, false));
        run
    }

    fn event(&mut self, thread: ThreadId, pc: AppPc, kind: EventKind<'_>) {
        let event = Event {
            index: EventIndex::default(),
            process: ProcessId(0),
            thread,
            pc,
            context: ContextId::ROOT,
            kind,
        };
        self.events.event(&event).unwrap();
    }

    fn is_read(&self) -> bool {
        self.progress.loaded.load(Ordering::Acquire)
    }

    fn is_acted_on(&self) -> bool {
        self.progress.acted.load(Ordering::Acquire)
    }
}

fn store(flavor: StoreFlavor, locked: bool) -> EventKind<'static> {
    EventKind::Store {
        addr: DATA,
        bytes: &VALUE,
        flavor,
        locked,
        string: false,
    }
}

fn is_read_by(kind: EventKind<'_>) -> bool {
    let mut run = HeldRun::new();
    assert!(!run.is_read());
    run.event(READER, OTHER, kind);
    run.is_read()
}

#[test]
fn a_load_reads_a_held_store() {
    assert!(is_read_by(EventKind::Load {
        addr: DATA,
        bytes: &VALUE,
    }));
    assert!(!is_read_by(EventKind::Load {
        addr: Address(DATA.0 + 8),
        bytes: &VALUE,
    }));
}

#[test]
fn an_instruction_that_reads_what_it_overwrites_reads_a_held_store() {
    assert!(is_read_by(store(StoreFlavor::Modifying, false)));
    assert!(is_read_by(store(StoreFlavor::Temporal, true)));
    assert!(!is_read_by(store(StoreFlavor::Temporal, false)));
}

#[test]
fn a_reader_that_makes_what_it_modified_durable_has_acted() {
    let mut run = HeldRun::new();
    run.event(READER, OTHER, store(StoreFlavor::Modifying, false));
    let flush = EventKind::Flush {
        addr: DATA,
        kind: FlushKind::Clwb,
        volatile: false,
    };
    run.event(READER, OTHER, flush);
    assert!(!run.is_acted_on());
    let fence = EventKind::Fence {
        kind: brownout_trace::FenceKind::Sfence,
    };
    run.event(READER, OTHER, fence);
    assert!(run.is_acted_on());
}
