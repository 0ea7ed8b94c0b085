//! Tests of the drain with threads that publish as a target's threads would.

use super::*;
use crate::fake_producer::{FakeProducer, HEAD, cpu_time, head, record, wire_processes};
use crate::last_store::LastStore;
use crate::merge::{SinkError, SinkProgress};
use crate::slot_owner::SlotOwner;
use crate::stream::Corruption;
use brownout_ring::{BORROWED, MAX_RECORD, RING_BYTES, Record, SLOTS, kind, slot};
use std::io;
use std::sync::{Barrier, Mutex};
use std::thread;

/// Collects everything that the drain passes to it.
#[derive(Default)]
struct Collected {
    records: Vec<(u32, Record, Vec<u8>)>,
    notes: Vec<String>,
}

impl Collected {
    fn seqs(&self) -> Vec<u64> {
        self.records.iter().map(|(_, head, _)| head.seq).collect()
    }
}

impl Sink for Collected {
    type Error = io::Error;

    fn record(
        &mut self,
        owner: &SlotOwner,
        head: &Record,
        payload: &[u8],
    ) -> Result<(), SinkError<io::Error>> {
        if head.kind > kind::PROTECT {
            return Err(SinkError::Corrupt(Corruption::Kind { kind: head.kind }));
        }
        self.records.push((owner.process, *head, payload.to_vec()));
        Ok(())
    }

    fn last_store(&mut self, owner: &SlotOwner, store: &LastStore) -> io::Result<bool> {
        self.records.push((owner.process, store.head, Vec::new()));
        Ok(true)
    }

    fn note(&mut self, _: &SlotOwner, text: &str) -> io::Result<()> {
        self.notes.push(text.to_owned());
        Ok(())
    }

    fn save(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn progress(&self) -> SinkProgress {
        SinkProgress::default()
    }
}

/// Drains while `target` runs, and afterwards until nothing is left.
fn record_while(wire: &Wire, target: impl FnOnce() + Send) -> (Collected, u64) {
    let status = SharedStatus::default();
    let wire_processes = wire_processes(wire);
    thread::scope(|scope| {
        let drained = scope.spawn(|| {
            let mut sink = Collected::default();
            let lost = drain(wire, &wire_processes, &status, &mut sink)
                .unwrap()
                .numbers;
            (sink, lost)
        });
        target();
        status.target_ended.store(true, Ordering::SeqCst);
        wire.ring_doorbell();
        drained.join().unwrap()
    })
}

/// Spends time without sleeping, as a producer may between drawing a number and publishing.
fn compute_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn dense(from: u64, to: u64) -> Vec<u64> {
    (from..to).collect()
}

fn all_slots_are_free(wire: &Wire) -> bool {
    (0..SLOTS).all(|index| {
        let slot = wire.slot(crate::wire::SlotIndex(index));
        slot.state.load(Ordering::SeqCst) == slot::FREE
    })
}

#[test]
fn a_load_that_borrows_its_number_is_between_the_stores_that_it_was_between() {
    const EACH: u64 = 20_000;
    let wire = Wire::create(0).unwrap();
    let (word, start) = (Mutex::new(0), Barrier::new(4));
    let (sink, lost) = record_while(&wire, || {
        thread::scope(|scope| {
            for process in 0..4 {
                let (wire, word, start) = (&wire, &word, &start);
                scope.spawn(move || {
                    let mut producer = FakeProducer::claim(wire, process);
                    start.wait();
                    for _ in 0..EACH {
                        let mut word = word.lock().unwrap();
                        let (kind, seq) = if process == 0 {
                            *word += 1;
                            (kind::STORE, producer.draw())
                        } else {
                            (kind::LOAD, wire.drawn() | BORROWED)
                        };
                        let value = u64::to_ne_bytes(*word);
                        producer.publish(&record(head(kind, seq, 0, 8), &value));
                    }
                    producer.close();
                });
            }
        });
    });
    let mut stored = 0;
    for (_, head, payload) in &sink.records {
        let value = u64::from_ne_bytes(payload[..8].try_into().unwrap());
        stored += u64::from(head.kind == kind::STORE);
        assert_eq!(value, stored);
    }
    assert_eq!(sink.records.len() as u64, 4 * EACH);
    assert_eq!(lost, 0);
    assert!(sink.notes.is_empty(), "{:?}", sink.notes);
}

#[test]
fn a_record_may_borrow_a_number_that_is_never_drawn() {
    let wire = Wire::create(0).unwrap();
    let (sink, lost) = record_while(&wire, || {
        let mut producer = FakeProducer::claim(&wire, 0);
        producer.store_own_number();
        for _ in 0..2 {
            let seq = wire.drawn() | BORROWED;
            producer.publish(&record(head(kind::LOAD, seq, 0, 8), &[0; 8]));
        }
        producer.close();
    });
    assert_eq!(sink.seqs(), [0, 1 | BORROWED, 1 | BORROWED]);
    assert_eq!(lost, 0);
    assert!(sink.notes.is_empty(), "{:?}", sink.notes);
}

#[test]
fn all_records_of_racing_threads_are_merged_into_one_order() {
    const EACH: u64 = 40_000;
    let wire = Wire::create(0).unwrap();
    let start = Barrier::new(4);
    let (sink, lost) = record_while(&wire, || {
        thread::scope(|scope| {
            for process in 0..4 {
                let (wire, start) = (&wire, &start);
                scope.spawn(move || {
                    let mut producer = FakeProducer::claim(wire, process);
                    start.wait();
                    for _ in 0..EACH {
                        producer.store_own_number();
                    }
                    producer.close();
                });
            }
        });
    });
    assert_eq!(sink.seqs(), dense(0, 4 * EACH));
    assert_eq!(lost, 0);
    for process in 0..4 {
        let of_process = sink
            .records
            .iter()
            .filter(|(of, ..)| *of == process)
            .count();
        assert_eq!(of_process as u64, EACH);
    }
    assert!(
        sink.records
            .iter()
            .all(|(_, head, payload)| *payload == head.seq.to_ne_bytes())
    );
    assert!(sink.notes.is_empty(), "{:?}", sink.notes);
    assert!(all_slots_are_free(&wire));
}

#[test]
fn a_full_ring_blocks_its_thread_until_it_is_drained() {
    let wire = Wire::create(0).unwrap();
    let payload = vec![7; MAX_RECORD - HEAD];
    const COUNT: u64 = 64;
    const { assert!(COUNT as usize * MAX_RECORD > 3 * RING_BYTES) };
    let (sink, _) = record_while(&wire, || {
        let mut producer = FakeProducer::claim(&wire, 0);
        for _ in 0..COUNT {
            let seq = producer.draw();
            producer.publish(&record(head(kind::STORE, seq, 0, payload.len()), &payload));
        }
        producer.close();
    });
    assert_eq!(sink.seqs(), dense(0, COUNT));
    assert!(sink.records.iter().all(|(_, _, got)| *got == payload));
}

#[test]
fn slots_and_their_memory_are_reused() {
    let wire = Wire::create(0).unwrap();
    const THREADS: u64 = SLOTS as u64 + 100;
    let (sink, _) = record_while(&wire, || {
        for _ in 0..THREADS {
            while wire.occupied().count() > 64 {
                thread::sleep(Duration::from_micros(100));
            }
            let mut producer = FakeProducer::claim(&wire, 0);
            producer.store_own_number();
            producer.close();
        }
    });
    assert_eq!(sink.seqs(), dense(0, THREADS));
    let blocks = std::os::unix::fs::MetadataExt::blocks(&wire.file().metadata().unwrap());
    assert!(
        blocks * 512 <= brownout_ring::RINGS as u64,
        "rings still hold memory"
    );
}

#[test]
fn a_number_drawn_by_a_killed_thread_is_skipped() {
    let wire = Wire::create(0).unwrap();
    let (sink, lost) = record_while(&wire, || {
        let mut survivor = FakeProducer::claim(&wire, 0);
        survivor.store_own_number();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut killed = FakeProducer::claim(&wire, 1);
                killed.store_own_number();
                // Ends here with its slot live and its number not published.
                assert_eq!(killed.draw(), 2);
            });
        });
        survivor.store_own_number();
        // The surviving thread sleeps. It must not hold up the other records.
        let deadline = Instant::now() + Duration::from_secs(5);
        while wire.occupied().count() > 1 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            wire.occupied().count(),
            1,
            "the killed thread's slot was not freed"
        );
        survivor.store_own_number();
        survivor.close();
    });
    assert_eq!(sink.seqs(), [0, 1, 3, 4]);
    assert_eq!(lost, 1);
}

#[test]
fn the_number_drawn_for_a_forked_process_is_not_skipped_before_it_runs() {
    let wire = Wire::create(0).unwrap();
    let (sink, lost) = record_while(&wire, || {
        // A process that has ended. This process, which has the wire open, has no slot until the end: it is the child.
        let mut parent = FakeProducer::claim_for(&wire, 0, u32::MAX, u32::MAX);
        let birth = wire.draw_birth();
        parent.store_own_number();
        parent.close();
        thread::sleep(Duration::from_millis(100));
        let mut child = FakeProducer::claim(&wire, 1);
        child.publish(&record(head(kind::STORE, birth, birth, 8), &[0; 8]));
        wire.end_birth();
        child.close();
    });
    assert_eq!(sink.seqs(), [0, 1]);
    assert_eq!((lost, sink.notes), (0, vec![]));
}

#[test]
fn a_busy_thread_with_nothing_to_publish_does_not_keep_a_gap_open() {
    let wire = Wire::create(0).unwrap();
    let (sink, lost) = record_while(&wire, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                let killed = FakeProducer::claim(&wire, 1);
                killed.draw();
            });
        });
        let mut busy = FakeProducer::claim(&wire, 0);
        let mut other = FakeProducer::claim_for(&wire, 0, std::process::id(), std::process::id());
        other.store_own_number();
        let other_slot = other.slot;
        other.close();
        // Keeps computing while the drain waits for number 0, until it has drained number 1.
        let deadline = Instant::now() + Duration::from_secs(10);
        while wire.slot(other_slot).state.load(Ordering::SeqCst) != slot::FREE
            && Instant::now() < deadline
        {
            std::hint::spin_loop();
        }
        busy.store_own_number();
        busy.close();
    });
    assert_eq!(sink.seqs(), [1, 2]);
    assert_eq!(lost, 1);
    assert!(sink.notes.is_empty(), "{:?}", sink.notes);
}

#[test]
fn the_drain_waits_for_a_slow_thread() {
    let wire = Wire::create(0).unwrap();
    let (sink, lost) = record_while(&wire, || {
        let mut slow = FakeProducer::claim(&wire, 0);
        let seq = slow.draw();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut quick = FakeProducer::claim(&wire, 0);
                for _ in 0..100 {
                    quick.store_own_number();
                }
                quick.close();
            });
        });
        slow.publish(&record(head(kind::FENCE, seq, 0, 0), &[]));
        slow.close();
    });
    assert_eq!(sink.seqs(), dense(0, 101));
    assert_eq!(lost, 0);
}

/// Publishes three good records from two threads, with `bad` in the middle of one. Returns what was drained.
fn with_bad_bytes(bad: impl FnOnce(u64) -> Vec<u8> + Send) -> Collected {
    let wire = Wire::create(0).unwrap();
    let (sink, _) = record_while(&wire, || {
        let mut damaged = FakeProducer::claim(&wire, 1);
        let mut healthy = FakeProducer::claim_for(&wire, 2, std::process::id(), std::process::id());
        damaged.store_own_number();
        let bytes = bad(damaged.draw());
        damaged.publish(&bytes);
        damaged.store_own_number();
        healthy.store_own_number();
        for _ in 0..(RING_BYTES / 32) {
            // A producer whose records are discarded must not be blocked by a full ring.
            damaged.store_own_number();
        }
        damaged.close();
        healthy.close();
    });
    assert!(all_slots_are_free(&wire));
    sink
}

#[test]
fn a_damaged_record_ends_only_the_stream_of_its_thread() {
    type Bad = Box<dyn FnOnce(u64) -> Vec<u8> + Send>;
    let with_len = |len: u32| {
        move |seq| {
            let mut bytes = record(head(kind::STORE, seq, 0, 8), &[0; 8]);
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            bytes
        }
    };
    let cases: [(&str, Bad); 6] = [
        ("length of 0 bytes", Box::new(with_len(0))),
        ("length of 44 bytes", Box::new(with_len(44))),
        (
            "length of 4294967288 bytes",
            Box::new(with_len(u32::MAX - 7)),
        ),
        (
            "no record of kind 77",
            Box::new(|seq| record(head(77, seq, 0, 0), &[])),
        ),
        (
            "record 0 comes after record 0",
            Box::new(|_| record(head(kind::STORE, 0, 0, 8), &[0; 8])),
        ),
        (
            "record 1152921504606846976 has a number that was never drawn",
            Box::new(|_| record(head(kind::STORE, 1 << 60, 0, 8), &[0; 8])),
        ),
    ];
    for (what, bad) in cases {
        let sink = with_bad_bytes(bad);
        assert_eq!(sink.seqs(), [0, 3], "{what}");
        assert_eq!(sink.notes.len(), 1, "{what}: {:?}", sink.notes);
        assert!(sink.notes[0].contains(what), "{what}: {:?}", sink.notes);
        assert!(sink.notes[0].contains(&format!("process {}", std::process::id())));
    }
}

#[test]
fn a_record_that_is_cut_off_is_reported() {
    let wire = Wire::create(0).unwrap();
    let (sink, _) = record_while(&wire, || {
        let mut producer = FakeProducer::claim(&wire, 0);
        producer.store_own_number();
        let seq = producer.draw();
        producer.publish(&record(head(kind::STORE, seq, 0, 64), &[0; 64])[..HEAD + 8]);
        producer.close();
    });
    assert_eq!(sink.seqs(), [0]);
    assert!(
        sink.notes[0].contains("middle of a record"),
        "{:?}",
        sink.notes
    );
}

#[test]
fn impossible_counters_end_the_stream_even_if_records_are_queued() {
    let wire = Wire::create(0).unwrap();
    let (sink, _) = record_while(&wire, || {
        let mut slow = FakeProducer::claim(&wire, 0);
        let seq = slow.draw();
        let mut damaged = FakeProducer::claim_for(&wire, 1, std::process::id(), std::process::id());
        damaged.store_own_number();
        compute_for(Duration::from_millis(5));
        wire.slot(damaged.slot)
            .head
            .store(u64::MAX, Ordering::SeqCst);
        compute_for(Duration::from_millis(10));
        slow.publish(&record(head(kind::FENCE, seq, 0, 0), &[]));
        slow.close();
        damaged.close();
    });
    assert_eq!(sink.seqs()[0], 0);
    assert!(
        sink.notes
            .iter()
            .any(|note| note.contains("counters are impossible")),
        "{:?}",
        sink.notes
    );
}

#[test]
fn the_drain_waits_for_other_processes_after_the_target_has_ended() {
    let wire = Wire::create(0).unwrap();
    let (claimed, released) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut orphan = FakeProducer::claim(&wire, 1);
            claimed.wait();
            released.wait();
            orphan.store_own_number();
            orphan.close();
        });
        let (sink, _) = record_while(&wire, || {
            claimed.wait();
            let released = &released;
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                released.wait();
            });
        });
        assert_eq!(sink.seqs(), [0]);
    });
}

#[test]
fn an_idle_drain_uses_almost_no_processor_time() {
    let wire = Wire::create(0).unwrap();
    let status = SharedStatus::default();
    let wire_processes = wire_processes(&wire);
    let span = Duration::from_millis(600);
    thread::scope(|scope| {
        let used = scope.spawn(|| {
            let mut sink = Collected::default();
            drain(&wire, &wire_processes, &status, &mut sink).unwrap();
            cpu_time()
        });
        thread::sleep(span);
        status.target_ended.store(true, Ordering::SeqCst);
        wire.ring_doorbell();
        let used = used.join().unwrap();
        // The goal of 1 % is for optimised code; tests run unoptimised, on shared machines.
        assert!(used < span / 20, "{used:?} of {span:?}");
    });
}

#[test]
fn the_last_store_of_a_killed_thread_follows_all_numbers_drawn_before_its_end() {
    let wire = Wire::create(0).unwrap();
    let wire_processes = wire_processes(&wire);
    let (mut merger, mut sink) = (Merger::new(), Collected::default());
    let mut other = FakeProducer::claim(&wire, 0);
    let mut killed = FakeProducer::claim(&wire, 1);
    killed.store_own_number();
    killed.intend(0x7000, &[0; 8]);
    let late = other.draw();
    killed.close();
    let pass = |merger: &mut Merger, sink: &mut Collected| {
        merger.discover(&wire, &wire_processes);
        merger.pull(&wire, PULL_BYTES, sink).unwrap();
        merger.merge(sink).unwrap();
        merger.finish_threads(Duration::MAX, sink).unwrap();
    };
    pass(&mut merger, &mut sink);
    assert_eq!(sink.records.len(), 1, "a number is still awaited");
    other.publish(&record(head(kind::STORE, late, 0x7000, 8), &[1; 8]));
    pass(&mut merger, &mut sink);
    let recorded = sink.records.iter().map(|(by, head, _)| (*by, head.addr));
    let recorded: Vec<_> = recorded.collect();
    assert_eq!(recorded, [(1, 0), (0, 0x7000), (1, 0x7000)]);
}

/// Measures how fast rings are drained that are never empty. Run with `--release -- --nocapture`.
#[test]
fn throughput_of_a_merge_of_four_interleaved_rings() {
    struct Counting(u64);
    impl Sink for Counting {
        type Error = io::Error;
        fn record(
            &mut self,
            _: &SlotOwner,
            head: &Record,
            payload: &[u8],
        ) -> Result<(), SinkError<io::Error>> {
            assert_eq!(head.seq, self.0);
            assert_eq!(payload.len(), 8);
            self.0 += 1;
            Ok(())
        }
        fn last_store(&mut self, _: &SlotOwner, store: &LastStore) -> io::Result<bool> {
            panic!("{store:?}");
        }
        fn note(&mut self, _: &SlotOwner, text: &str) -> io::Result<()> {
            panic!("{text}");
        }
        fn save(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn progress(&self) -> SinkProgress {
            SinkProgress::default()
        }
    }

    const RINGS: usize = 4;
    const ROUNDS: u64 = 20;
    let per_round = (RINGS * RING_BYTES / 48 / 2) as u64;
    for run in [1, 16] {
        let wire = Wire::create(0).unwrap();
        let mut producers: Vec<_> = (1..=RINGS as u32)
            .map(|tid| FakeProducer::claim_for(&wire, tid, tid, tid))
            .collect();
        let wire_processes = wire_processes(&wire);
        let mut merger = Merger::new();
        let mut sink = Counting(0);
        let mut spent = Duration::ZERO;
        for _ in 0..ROUNDS {
            let mut batches = vec![Vec::new(); RINGS];
            for number in 0..per_round {
                let seq = wire.draw();
                let bytes = record(head(kind::STORE, seq, seq, 8), &seq.to_ne_bytes());
                batches[(number / run) as usize % RINGS].extend(bytes);
            }
            for (producer, batch) in producers.iter_mut().zip(&batches) {
                batch
                    .chunks(RING_BYTES / 2)
                    .for_each(|chunk| producer.publish(chunk));
            }
            let start = cpu_time();
            loop {
                merger.discover(&wire, &wire_processes);
                let copied = merger.pull(&wire, PULL_BYTES, &mut sink).unwrap();
                if copied + merger.merge(&mut sink).unwrap() == 0 {
                    break;
                }
            }
            spent += cpu_time() - start;
        }
        assert_eq!(sink.0, ROUNDS * per_round);
        let rate = sink.0 as f64 / spent.as_secs_f64() / 1e6;
        println!("{RINGS} rings, {run} records in a row: {rate:.1} M records/s");
    }
}
