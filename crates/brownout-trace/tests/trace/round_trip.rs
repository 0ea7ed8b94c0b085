//! Everything that is written is read back.

use std::ops::ControlFlow;
use std::path::Path;

use crate::arbitrary::{Step, step, write};
use crate::traces::{ending, event, every_kind, header, open, readable, store, writer};
use brownout_trace::*;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_events_is_read_back_as_it_was_written(
        steps in vec(step(), 0..200),
    ) {
        let (trace, written) = write(&steps);
        let (read, error) = readable(&trace);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&read, &written);
        prop_assert_eq!(visited(&trace), written);
    }

    #[test]
    fn seeking_gives_the_events_and_definitions_of_streaming(
        steps in vec(step(), 1..100),
        place in any::<prop::sample::Index>(),
    ) {
        let (trace, written) = write(&steps);
        let place = place.index(written.len() + 1);
        let mut streamed = open(&trace).unwrap();
        for _ in 0..place {
            streamed.next().unwrap();
        }
        let mut sought = open(&trace).unwrap();
        sought.seek(EventIndex(place as u64)).unwrap();
        prop_assert_eq!(sought.position(), EventIndex(place as u64));
        loop {
            let expected = streamed.next_defined().unwrap();
            let found = sought.next_defined().unwrap();
            let (Some((expected, known)), Some((found, recalled))) = (expected, found) else {
                prop_assert!(expected.is_none() && found.is_none());
                break;
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(contents(recalled), contents(known));
        }
    }
}

/// The events of an undamaged trace as text, as a visitor receives them.
fn visited(trace: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    let broken = open(trace).unwrap().for_each(|event, _| {
        events.push(format!("{event:?}"));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(broken.unwrap(), None);
    events
}

/// The definitions as text, independent of the order in which they were made.
fn contents(definitions: &Definitions) -> String {
    let mut text = format!(
        "{:?} {:?}",
        definitions.files().collect::<Vec<_>>(),
        definitions.functions().collect::<Vec<_>>()
    );
    for process in definitions.processes() {
        let frames: Vec<Vec<AppPc>> = (0..3)
            .map(|context| process.context_frames(ContextId(context)).collect())
            .collect();
        text += &format!(
            "{:?} {:?} {:?} {:?} {:?} {frames:?}",
            (
                process.id,
                process.pid,
                process.parent,
                process.origin,
                process.end
            ),
            process.args,
            process.threads(),
            process.modules().collect::<Vec<_>>(),
            process.address_space().mappings().collect::<Vec<_>>(),
        );
    }
    text
}

#[test]
fn header_and_summary_are_read_back() {
    let trace = every_kind();
    let reader = open(&trace).unwrap();
    assert_eq!(reader.header(), &header());
    let summary = reader.summary().unwrap();
    assert_eq!(summary.ending, ending());
    assert_eq!(summary.counts.of(EventClass::Store), 3);
    assert_eq!(summary.counts.of(EventClass::Sync), 5);
    assert_eq!(summary.counts.total(), reader.events());
    for class in EventClass::ALL {
        assert!(summary.counts.of(class) > 0, "no {}", class.name());
    }
}

#[test]
fn a_function_has_one_number_and_its_name_is_read_back() {
    let mut writer = writer();
    let begin = writer.function("begin").unwrap();
    let end = writer.function("end").unwrap();
    assert_ne!(begin, end);
    assert_eq!(writer.function("begin").unwrap(), begin);
    writer
        .write(&event(EventKind::Return {
            function: end,
            value: None,
        }))
        .unwrap();
    let trace = writer.finish(ending()).unwrap().1;
    let mut reader = open(&trace).unwrap();
    reader.next().unwrap();
    assert_eq!(reader.definitions().function(begin), Some("begin"));
    assert_eq!(reader.definitions().function(end), Some("end"));
    assert_eq!(reader.definitions().function(FunctionId(7)), None);
}

#[test]
fn definitions_between_events_do_not_disturb_the_prediction_of_sites() {
    let mut writer = writer();
    for round in 0..100u64 {
        for site in 0..3 {
            let mut event = event(store(0x1000 + round * 8, b"word"));
            event.pc = AppPc(0x40_1000 + site);
            writer.write(&event).unwrap();
            if round % 7 == site {
                let context = ContextId(2 + (round * 3 + site) as u32);
                let (process, caller) = (ProcessId(1), ContextId(1));
                writer
                    .context(process, context, caller, AppPc(0x40_2000))
                    .unwrap();
            }
        }
    }
    let trace = writer.finish(ending()).unwrap().1;
    let (read, error) = readable(&trace);
    assert!(error.is_none() && read.len() == 300, "{error:?}");
    assert_eq!(visited(&trace), read);
}

#[test]
fn a_trace_in_a_file_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut writer = TraceWriter::create(&path, &header()).unwrap();
    writer.write(&event(store(0x1000, b"bytes"))).unwrap();
    writer.finish(ending()).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(
        reader.next().unwrap().unwrap().kind,
        store(0x1000, b"bytes")
    );
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!(reader.byte_len(), std::fs::metadata(&path).unwrap().len());
}

#[test]
fn event_indices_continue_across_chunks() {
    let mut writer = writer();
    let count = 200_000u64;
    for number in 0..count {
        let mut event = event(store(0x1000 + number * 8, &[]));
        event.pc = AppPc(number % 700);
        writer.write(&event).unwrap();
    }
    let trace = writer.finish(ending()).unwrap().1;
    let mut reader = open(&trace).unwrap();
    let mut next = 0;
    let stopped = reader
        .for_each(|event, _| {
            assert_eq!(event.index, EventIndex(next));
            assert_eq!(event.pc, AppPc(next % 700));
            assert_eq!(event.kind, store(0x1000 + next * 8, &[]));
            next += 1;
            ControlFlow::<()>::Continue(())
        })
        .unwrap();
    assert_eq!((next, stopped), (count, None));
    assert!(matches!(
        reader.seek(EventIndex(count + 1)),
        Err(ReadError::NoSuchEvent { events, .. }) if events == count
    ));
}

#[test]
fn visiting_stops_when_the_visitor_breaks() {
    let trace = every_kind();
    let mut reader = open(&trace).unwrap();
    let found = reader
        .for_each(|event, _| match event.kind {
            EventKind::Fence { .. } => ControlFlow::Break(event.index),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    assert_eq!(found, Some(EventIndex(10)));
    assert_eq!(reader.position(), EventIndex(11));
}

#[test]
fn a_typical_trace_takes_few_bytes_per_event() {
    let mut writer = writer();
    let events = 90_000u64;
    for number in 0..events / 3 {
        let addr = 0x7f00_0000_0000 + number * 64;
        let mut store = event(store(addr, &[1, 2, 3, 4, 5, 6, 7, 8]));
        store.pc = AppPc(0x40_1000);
        writer.write(&store).unwrap();
        let (kind, volatile) = (FlushKind::Clwb, false);
        writer
            .write(&event(EventKind::Flush {
                addr: Address(addr),
                kind,
                volatile,
            }))
            .unwrap();
        writer
            .write(&event(EventKind::Fence {
                kind: FenceKind::Sfence,
            }))
            .unwrap();
    }
    let bytes = writer.finish(ending()).unwrap().1.len() as u64;
    assert!(bytes < events / 20, "{bytes} bytes for {events} events");
}

#[test]
fn a_file_keeps_its_number_under_a_new_path() {
    let mut writer = writer();
    let identity = FileIdentity { dev: 1, ino: 2 };
    let first = writer.file(identity, Path::new("/a")).unwrap();
    let other = writer
        .file(FileIdentity { dev: 1, ino: 3 }, Path::new("/c"))
        .unwrap();
    assert_eq!(writer.file(identity, Path::new("/b")).unwrap(), first);
    assert_ne!(other, first);
    assert_eq!(writer.known_file(identity), Some(first));
    let trace = writer.finish(ending()).unwrap().1;
    let mut reader = open(&trace).unwrap();
    assert_eq!(reader.next().unwrap(), None);
    let paths: Vec<&Path> = reader
        .definitions()
        .files()
        .map(|file| &*file.path)
        .collect();
    assert_eq!(paths, [Path::new("/b"), Path::new("/c")]);
}

#[test]
fn steps_without_events_make_a_trace_without_events() {
    let (trace, written) = write(&[Step::Flush]);
    assert!(written.is_empty());
    let reader = open(&trace).unwrap();
    assert_eq!(reader.events(), 0);
    assert!(reader.summary().is_some());
}
