//! The tracker without history: it keeps only the newest store to each byte, and only live stores.

use brownout_model::{
    Access, ByteMask, FlushEffect, LINE, LineRef, LineSlot, LiveStore, Mark, Marks, PAGE,
    PersistObserver, PmAddress, Profile, SpaceId, StoreKind, ThreadSlot, Time, Tracker,
};

const FILE: SpaceId = SpaceId(3);

/// Records notifications by the times of the stores.
#[derive(Default)]
struct Log {
    guaranteed: Vec<u64>,
    overwritten: Vec<(u64, u64)>,
}

impl PersistObserver for Log {
    type Store = ();
    type Flush = ();
    const HISTORY: bool = false;

    fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, store: &LiveStore<()>, _: Access) {
        self.guaranteed.push(store.time.0);
    }

    fn overwritten(
        &mut self,
        _: LineRef<'_>,
        older: &LiveStore<()>,
        newer: &mut LiveStore<()>,
        _: ByteMask,
    ) {
        self.overwritten.push((older.time.0, newer.time.0));
    }
}

struct Execution {
    tracker: Tracker<Log>,
    log: Log,
    thread: ThreadSlot,
    time: u64,
}

impl Execution {
    fn new() -> Self {
        let mut tracker = Tracker::new(Profile::ADR);
        let thread = tracker.add_thread();
        Execution {
            tracker,
            log: Log::default(),
            thread,
            time: 0,
        }
    }

    fn by(&mut self) -> Access {
        self.time += 1;
        Access {
            thread: self.thread,
            time: Time(self.time),
        }
    }

    fn line(&mut self, offset: u64) -> LineSlot {
        self.tracker.line(PmAddress {
            space: FILE,
            offset,
        })
    }

    fn store(&mut self, offset: u64, len: u64, kind: StoreKind) {
        let (by, line) = (self.by(), self.line(offset));
        let bytes = ByteMask::range(offset % LINE, len);
        self.tracker.store(&mut self.log, by, line, bytes, kind, ());
    }

    fn clwb(&mut self, offset: u64) {
        let (by, line) = (self.by(), self.line(offset));
        self.tracker
            .flush(&mut self.log, by, line, FlushEffect::Deferred, ());
    }

    fn fence(&mut self) {
        let by = self.by();
        self.tracker.fence(&mut self.log, by);
    }
}

use StoreKind::{Cached, NonTemporal};

#[test]
fn overwritten_bytes_are_removed_from_the_older_store() {
    let mut run = Execution::new();
    run.store(0, 8, Cached);
    run.store(4, 8, Cached);
    let line = run.line(0);
    let bytes: Vec<ByteMask> = run.tracker.live(line).map(|store| store.bytes).collect();
    assert_eq!(bytes, [ByteMask::range(0, 4), ByteMask::range(4, 8)]);
    run.store(0, 4, NonTemporal);
    assert_eq!(run.log.overwritten, [(1, 2), (1, 3)]);
    assert_eq!(run.tracker.live_stores(), 2);
    run.clwb(0);
    run.fence();
    // The fence completes pending operations in the order in which they were issued.
    assert_eq!(run.log.guaranteed, [3, 2]);
    assert_eq!(run.tracker.live_stores(), 0);
}

#[test]
fn a_counter_without_flushes_takes_the_memory_of_one_store() {
    let mut run = Execution::new();
    for _ in 0..10_000 {
        run.store(0, 8, Cached);
    }
    assert_eq!(run.tracker.live_stores(), 1);
}

#[test]
fn memory_of_a_thread_without_fences_is_bounded_by_its_lines() {
    let mut run = Execution::new();
    for number in 0..100_000 {
        let offset = number % 7 * LINE;
        run.store(offset, 8, Cached);
        run.clwb(offset);
        run.store(offset + 8, 8, NonTemporal);
    }
    assert_eq!(run.tracker.live_stores(), 14);
    assert!(run.tracker.pending(run.thread).len() < 4096);
    run.log.guaranteed.clear();
    run.fence();
    assert_eq!(run.log.guaranteed.len(), 14);
    assert_eq!(run.tracker.pending(run.thread), []);
}

#[test]
fn pages_without_live_stores_and_marks_are_dropped() {
    let mut run = Execution::new();
    let marked = run.line(5 * PAGE);
    run.tracker.marks(marked).set(Mark::Second);
    run.store(6 * PAGE, 8, Cached);
    for page in 10..50_000 {
        run.store(page * PAGE, 8, Cached);
        run.clwb(page * PAGE);
        run.fence();
    }
    assert!(run.tracker.pages() < 10_000, "{}", run.tracker.pages());
    let address = |offset| PmAddress {
        space: FILE,
        offset,
    };
    let marked = run.tracker.known_line(address(5 * PAGE));
    assert!(marked.is_some_and(|line| run.tracker.has_mark(line, Mark::Second)));
    let live = run.tracker.known_line(address(6 * PAGE));
    let live = live.map(|line| run.tracker.live_bytes(line));
    assert_eq!(live, Some(ByteMask::range(0, 8)));
    assert_eq!(run.log.guaranteed.len(), 50_000 - 10);
}

#[test]
fn discarded_bytes_have_no_live_stores() {
    let mut run = Execution::new();
    run.store(60, 4, Cached);
    run.store(64, 8, Cached);
    run.store(PAGE, 8, Cached);
    run.tracker.discard(FILE, 62..68, |_| ());
    let first = run.line(0);
    assert_eq!(run.tracker.live_bytes(first), ByteMask::range(60, 2));
    let second = run.line(64);
    assert_eq!(run.tracker.live_bytes(second), ByteMask::range(4, 4));
    run.tracker.discard(FILE, 0..u64::MAX, |_| ());
    assert_eq!(run.tracker.live_stores(), 0);
    run.clwb(0);
    run.fence();
    assert_eq!(run.log.guaranteed, [0; 0]);
}

#[test]
fn writing_back_reaches_every_line_of_the_pages_in_range() {
    let mut run = Execution::new();
    for offset in [0, PAGE - 8, PAGE, 3 * PAGE] {
        run.store(offset, 8, Cached);
    }
    let by = run.by();
    run.tracker
        .write_back(&mut run.log, by, FILE, 100..PAGE + 1);
    assert_eq!(run.log.guaranteed, [1, 2, 3]);
    let by = run.by();
    run.tracker
        .write_back(&mut run.log, by, SpaceId(0), 0..u64::MAX);
    assert_eq!(run.log.guaranteed.len(), 3);
}
