//! Traces of older versions can be read.

use brownout_trace::{
    EventClass, EventKind, FORMAT_VERSION, Flaw, OLDEST_VERSION, RecognisedLocks, StoreFlavor,
    TraceReader,
};

use crate::traces::{every_kind, open, readable};

/// Recorded from a program with two threads, each of which stores, flushes and fences; the first joins the second.
const VERSION_2: &[u8] = include_bytes!("../fixtures/version-2.trace");

#[test]
fn a_trace_of_version_2_is_read_to_its_end() {
    let mut reader = open(VERSION_2).unwrap();
    assert_eq!(reader.version(), 2);
    let mut classes = Vec::new();
    let mut parents = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        classes.push(event.kind.class().name());
        if let EventKind::ThreadStart { parent } = event.kind {
            parents.push(parent);
        }
    }
    let expected = "process-start thread-start module module module map store flush fence \
                    thread-start call store flush fence return thread-exit process-exit";
    assert_eq!(classes.join(" "), expected);
    assert_eq!(parents, [None, None], "version 2 has no parents");
    let counts = &reader.summary().unwrap().counts;
    assert_eq!(counts.total(), classes.len() as u64);
    assert_eq!(counts.of(EventClass::Return), 1);
    assert_eq!(counts.of(EventClass::ThreadJoin), 0);
}

/// Recorded from a program like that of version 2.
const VERSION_3: &[u8] = include_bytes!("../fixtures/version-3.trace");

#[test]
fn a_trace_of_version_3_is_read_to_its_end() {
    let mut reader = open(VERSION_3).unwrap();
    assert_eq!(reader.version(), 3);
    assert_eq!(reader.damaged_end(), None);
    let mut parents = Vec::new();
    let mut events = 0;
    while let Some(event) = reader.next().unwrap() {
        events += 1;
        if let EventKind::ThreadStart { parent } = event.kind {
            parents.push(parent.is_some());
        }
    }
    assert_eq!(parents, [false, true]);
    let counts = &reader.summary().unwrap().counts;
    assert_eq!(counts.total(), events);
    assert_eq!(counts.of(EventClass::ThreadJoin), 1);
}

/// Recorded from a program like that of version 2.
const VERSION_4: &[u8] = include_bytes!("../fixtures/version-4.trace");

#[test]
fn a_trace_of_version_4_is_read_to_its_end() {
    let mut reader = open(VERSION_4).unwrap();
    assert_eq!(reader.version(), 4);
    assert_eq!(reader.damaged_end(), None);
    let mut events = 0;
    while reader.next().unwrap().is_some() {
        events += 1;
    }
    let counts = &reader.summary().unwrap().counts;
    assert_eq!(counts.total(), events);
    assert_eq!(counts.of(EventClass::Store), 2);
    assert_eq!(counts.of(EventClass::LockAcquire), 0);
}

/// Recorded with loads from a program whose second thread adds to what the first one has stored.
const VERSION_5: &[u8] = include_bytes!("../fixtures/version-5.trace");

#[test]
fn a_trace_of_version_5_is_read_to_its_end() {
    let mut reader = open(VERSION_5).unwrap();
    assert_eq!(reader.version(), 5);
    let mut stores = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        if let EventKind::Store { bytes, flavor, .. } = event.kind {
            stores.push((bytes[0], flavor));
        }
    }
    let temporal = StoreFlavor::Temporal;
    assert_eq!(stores, [(1, temporal), (3, temporal)]);
    let counts = &reader.summary().unwrap().counts;
    assert_eq!(counts.of(EventClass::LockAcquire), 2);
}

/// Recorded with loads from a program whose threads acquire a lock of four bytes by an exchange, and release it by a store.
const VERSION_6: &[u8] = include_bytes!("../fixtures/version-6.trace");

#[test]
fn a_trace_of_version_6_is_read_to_its_end() {
    let mut reader = open(VERSION_6).unwrap();
    assert_eq!(reader.version(), 6);
    let mut locks = RecognisedLocks::default();
    let mut sizes = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        locks.event(&event);
        if let EventKind::LockAcquire { size, .. } = event.kind {
            sizes.push(size);
        }
    }
    assert_eq!(sizes, [8; 4], "version 6 has no sizes");
    assert_eq!(locks.len(), 2);
}

#[test]
fn the_end_of_a_trace_of_version_3_is_checked_too() {
    for cut in 1..=20 {
        let (_, error) = readable(&VERSION_3[..VERSION_3.len() - cut]);
        assert!(error.is_some(), "{cut} bytes were cut off");
    }
}

#[test]
fn the_oldest_version_that_is_read_has_a_fixture() {
    assert_eq!(open(VERSION_2).unwrap().version(), OLDEST_VERSION);
    assert_eq!(open(&every_kind()).unwrap().version(), FORMAT_VERSION);
}

/// Trailers of these versions have no checksum. Files, unlike memory, refuse to seek to any offset.
#[test]
fn an_altered_trailer_of_an_old_version_is_damage() {
    for (trace, offset) in [
        (VERSION_2, u64::MAX),
        (VERSION_3, u64::MAX),
        (VERSION_3, i64::MAX as u64),
        (VERSION_3, VERSION_3.len() as u64),
    ] {
        let mut altered = trace.to_vec();
        let trailer = altered.len() - 16;
        altered[trailer..trailer + 8].copy_from_slice(&offset.to_le_bytes());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        std::fs::write(&path, altered).unwrap();
        let reader = TraceReader::open(&path).unwrap();
        let damage = reader.damaged_end().unwrap();
        assert_eq!(damage.flaw, Flaw::OutOfOrder, "{offset:#x}");
        assert_eq!(damage.byte, offset);
    }
}
