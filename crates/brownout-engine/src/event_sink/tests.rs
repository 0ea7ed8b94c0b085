//! Published records, read back from the trace.

use super::*;
use crate::fake_producer::{FakeProducer, cpu_time, head, record, wire_processes};
use crate::merge::Merger;
use crate::wire::Wire;
use brownout_ring::{RING_BYTES, fence, flush, kind, map, origin};
use brownout_trace::{
    Address, Ending, FenceKind, FlushKind, Header, StoreFlavor, TraceReader, TraceWriter,
};
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

fn header() -> Header {
    Header {
        brownout_version: "test".into(),
        command: vec!["program".into()],
        cwd: "/".into(),
        pm: Vec::new(),
        loads: false,
        shared_loads: false,
        started: SystemTime::UNIX_EPOCH,
    }
}

fn sink() -> EventSink<TraceWriter<Vec<u8>>> {
    EventSink::new(TraceWriter::new(Vec::new(), &header()).unwrap())
}

/// Merges everything that was published.
fn merge_all<S: Sink>(wire: &Wire, merger: &mut Merger, sink: &mut S)
where
    S::Error: std::fmt::Debug,
{
    loop {
        merger.discover(wire, &wire_processes(wire));
        let copied = merger.pull(wire, 256 << 10, sink).unwrap();
        if copied + merger.merge(sink).unwrap() == 0 {
            break;
        }
    }
}

fn read(sink: EventSink<TraceWriter<Vec<u8>>>) -> TraceReader<Cursor<Vec<u8>>> {
    let (_, bytes) = sink.into_destination().finish(Ending::default()).unwrap();
    TraceReader::new(Cursor::new(bytes)).unwrap()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn publish(producer: &mut FakeProducer<'_>, kind: u16, flags: u16, addr: u64, payload: &[u8]) {
    let mut head = head(kind, producer.draw(), addr, payload.len());
    head.flags = flags;
    producer.publish(&record(head, payload));
}

#[test]
fn a_reader_sees_what_was_published_with_its_definitions() {
    let wire = Wire::create(0).unwrap();
    let mut producer = FakeProducer::claim_for(&wire, 0, 40, 41);
    let start: Vec<u8> = [40, 1, u32::MAX, origin::EXEC]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    publish(
        &mut producer,
        kind::PROCESS_START,
        0,
        0,
        &[&start[..], b"/bin/kv\0kv\0"].concat(),
    );
    let map = [
        &words(&[8, 99, 0, 4096, 4096, 3 | 1 << 32, 0])[..],
        b"/mnt/pool",
    ]
    .concat();
    publish(&mut producer, kind::MAP, 0, 0x7000, &map);
    publish(
        &mut producer,
        kind::CONTENT,
        0,
        0,
        &[&words(&[8, 99, 64])[..], b"old"].concat(),
    );
    let mut context = head(kind::CONTEXT, producer.draw(), 0x401234, 4);
    context.context = 1;
    producer.publish(&record(context, &0_u32.to_ne_bytes()));
    let mut store = head(kind::STORE, producer.draw(), 0x7040, 3);
    store.context = 1;
    producer.publish(&record(store, b"new"));
    publish(&mut producer, kind::FLUSH, flush::CLWB, 0x7040, &[]);
    publish(&mut producer, kind::FENCE, fence::SFENCE, 0, &[]);
    publish(&mut producer, kind::NOTE, 0, 0, b"caf\xe9");

    let mut sink = sink();
    merge_all(&wire, &mut Merger::new(), &mut sink);
    sink.ended(40, ProcessEnd::Signaled { signal: 9 }).unwrap();
    sink.ended(40, ProcessEnd::Signaled { signal: 9 }).unwrap();
    let mut reader = read(sink);
    let mut kinds = Vec::new();
    while let Some((event, definitions)) = reader.next_defined().unwrap() {
        assert_eq!((event.process, event.thread.0 / 2), (ProcessId(0), 20));
        match event.kind {
            EventKind::ProcessStart { .. } => kinds.push("start".to_owned()),
            EventKind::Map(mapping) => {
                let file = definitions.file(mapping.file).unwrap();
                kinds.push(format!("map {}", file.path.display()));
            }
            EventKind::Content {
                bytes: b"old",
                offset: 64,
                ..
            } => kinds.push("content".to_owned()),
            EventKind::Store {
                addr,
                bytes,
                flavor,
                ..
            } => {
                assert_eq!((addr, bytes), (Address(0x7040), &b"new"[..]));
                assert_eq!(flavor, StoreFlavor::Temporal);
                let frames = definitions.context_frames(event.process, event.context);
                let frames: Vec<AppPc> = frames.collect();
                assert_eq!(frames, [AppPc(0x401234)]);
                kinds.push("store".to_owned());
            }
            EventKind::Flush {
                kind: FlushKind::Clwb,
                ..
            } => kinds.push("flush".to_owned()),
            EventKind::Fence {
                kind: FenceKind::Sfence,
            } => kinds.push("fence".to_owned()),
            EventKind::Note { text } => kinds.push(text.to_owned()),
            EventKind::ProcessExit {
                end: ProcessEnd::Signaled { signal: 9 },
            } => {
                kinds.push("killed".to_owned());
            }
            other => panic!("{other:?}"),
        }
    }
    let expected = [
        "start",
        "map /mnt/pool",
        "content",
        "store",
        "flush",
        "fence",
        "caf\u{fffd}",
        "killed",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn damage_becomes_a_note_in_the_trace() {
    let wire = Wire::create(0).unwrap();
    let mut producer = FakeProducer::claim_for(&wire, 3, 40, 41);
    publish(&mut producer, kind::THREAD_START, 0, 0, &[]);
    publish(&mut producer, kind::FENCE, 99, 0, &[]);
    publish(&mut producer, kind::THREAD_EXIT, 0, 0, &[]);
    let mut sink = sink();
    merge_all(&wire, &mut Merger::new(), &mut sink);
    let mut reader = read(sink);
    let first = reader.next().unwrap().unwrap();
    assert_eq!(first.kind, EventKind::ThreadStart { parent: None });
    let note = reader.next().unwrap().unwrap();
    assert_eq!((note.process, note.thread), (ProcessId(3), ThreadId(41)));
    let EventKind::Note { text } = note.kind else {
        panic!("{note:?}")
    };
    assert!(
        text.contains("thread 41 of process 40") && text.contains("flags 0x63"),
        "{text}"
    );
    assert!(reader.next().unwrap().is_none());
}

/// Measures how fast stores, flushes and fences of four threads are written to a trace. Run with
/// `--release -- --nocapture`.
#[test]
fn throughput_from_rings_to_trace() {
    const THREADS: u32 = 4;
    const ROUNDS: u64 = 16;
    let per_round = (THREADS as usize * RING_BYTES / 48 / 2) as u64;
    let wire = Wire::create(0).unwrap();
    let mut producers: Vec<_> = (1..=THREADS)
        .map(|tid| FakeProducer::claim_for(&wire, 0, tid, tid))
        .collect();
    let mut merger = Merger::new();
    let mut sink = sink();
    let mut spent = Duration::ZERO;
    let mut records = 0;
    for _ in 0..ROUNDS {
        let mut batches = vec![Vec::new(); THREADS as usize];
        for number in 0..per_round {
            let seq = wire.draw();
            let line = 0x7000_0000 + (seq / 4 % 10_000) * 64;
            let (mut head, payload) = match number % 4 {
                0 | 1 => (
                    head(kind::STORE, seq, line + seq % 8 * 8, 8),
                    seq.to_ne_bytes().to_vec(),
                ),
                2 => (head(kind::FLUSH, seq, line, 0), Vec::new()),
                _ => (head(kind::FENCE, seq, 0, 0), Vec::new()),
            };
            head.flags = [0, 0, flush::CLWB, fence::SFENCE][number as usize % 4];
            head.pc += number % 4 * 8;
            batches[(number / 4 % u64::from(THREADS)) as usize].extend(record(head, &payload));
        }
        for (producer, batch) in producers.iter_mut().zip(&batches) {
            batch
                .chunks(RING_BYTES / 2)
                .for_each(|chunk| producer.publish(chunk));
        }
        let start = cpu_time();
        merge_all(&wire, &mut merger, &mut sink);
        spent += cpu_time() - start;
        records += per_round;
    }
    let SinkProgress { events, bytes } = sink.progress();
    assert_eq!(events, records);
    let rate = records as f64 / spent.as_secs_f64() / 1e6;
    println!(
        "{THREADS} rings to a trace: {rate:.1} M records/s, {:.2} bytes a record",
        bytes as f64 / records as f64
    );
}

#[test]
fn the_last_store_of_a_killed_thread_is_reconstructed_from_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"before and after").unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let wire = Wire::create(0).unwrap();
    let mut producer = FakeProducer::claim_for(&wire, 0, 40, 41);
    let (dev, ino) = (metadata.dev(), metadata.ino());
    let mut map = words(&[dev, ino, 0, 4096, 16, 3 | 1 << 32, map::SNAPSHOT.into()]);
    map.extend(file.path().as_os_str().as_bytes());
    publish(&mut producer, kind::MAP, 0, 0x7000, &map);
    producer.intend(0x700b, b"AFTER");
    producer.close();
    let (mut merger, mut sink) = (Merger::new(), sink());
    merge_all(&wire, &mut merger, &mut sink);
    merger.finish_threads(Duration::ZERO, &mut sink).unwrap();
    assert_eq!((merger.losses().numbers, merger.losses().found), (0, 1));
    let mut reader = read(sink);
    let mut stores = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        if let EventKind::Store { addr, bytes, .. } = event.kind {
            stores.push((addr, bytes.to_vec()));
        }
    }
    assert_eq!(stores, [(Address(0x700b), b"after".to_vec())]);
}
