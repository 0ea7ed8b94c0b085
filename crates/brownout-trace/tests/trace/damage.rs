//! From a truncated or altered trace, the undamaged part is read and the damage is located.

use brownout_trace::*;

use crate::traces::{event, every_kind, open, readable, store, writer};

/// The offset of each section, found by following the lengths in the file, and the end of the file.
fn section_starts(trace: &[u8]) -> Vec<usize> {
    let mut starts = vec![16];
    loop {
        let start = starts[starts.len() - 1];
        let Some(len) = trace.get(start + 4..start + 8) else {
            return starts;
        };
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        if start + 32 + len > trace.len() {
            return starts;
        }
        starts.push(start + 32 + len);
    }
}

/// Sets the correct checksum of the section at `start`, as in a forged trace.
fn seal(trace: &mut [u8], start: usize) {
    let len = u32::from_le_bytes(trace[start + 4..start + 8].try_into().unwrap()) as usize;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&trace[start..start + 28]);
    let end = (start + 32 + len).min(trace.len());
    hasher.update(&trace[start + 32..end]);
    let sum = hasher.finalize();
    trace[start + 28..start + 32].copy_from_slice(&sum.to_le_bytes());
}

fn flaw(error: Option<ReadError>) -> Option<Flaw> {
    match error {
        Some(ReadError::Damaged(damage)) => Some(damage.flaw),
        _ => None,
    }
}

/// Gives the trace another version, as a program that writes this version would.
fn set_version(trace: &mut [u8], version: u32) {
    trace[8..12].copy_from_slice(&version.to_le_bytes());
    let sum = if version < 4 {
        0
    } else {
        crc32fast::hash(&trace[..12])
    };
    trace[12..16].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn the_first_events_of_a_truncated_trace_are_read() {
    let trace = every_kind();
    let (whole, _) = readable(&trace);
    let starts = section_starts(&trace);
    // The sections are the header, the chunks, the summary and the index.
    let chunk_boundaries = &starts[1..starts.len() - 2];
    for len in 0..trace.len() {
        let cut = &trace[..len];
        let (events, error) = readable(cut);
        assert_eq!(events, whole[..events.len()], "cut to {len} bytes");
        match error {
            None => {
                // Nothing distinguishes it from the trace of a recorder that was killed, which is not closed either.
                assert!(chunk_boundaries.contains(&len), "cut to {len} bytes");
                assert_eq!(open(cut).unwrap().summary(), None);
            }
            Some(ReadError::NotATrace) => assert_eq!(len, 0),
            Some(ReadError::Damaged(damage)) => {
                let expected = if len >= starts[starts.len() - 2] {
                    Flaw::Trailer
                } else {
                    Flaw::Truncated
                };
                assert_eq!(damage.flaw, expected, "cut to {len} bytes");
                assert!(damage.byte <= len as u64);
                assert_eq!(damage.event, EventIndex(events.len() as u64));
            }
            Some(other) => panic!("cut to {len} bytes: {other}"),
        }
    }
}

#[test]
fn a_trace_that_goes_on_after_its_end_is_damaged() {
    let mut trace = every_kind();
    trace.push(0);
    let (_, error) = readable(&trace);
    assert_eq!(flaw(error), Some(Flaw::Trailer));
}

#[test]
fn a_damaged_end_is_known_before_the_events_are_read() {
    let trace = every_kind();
    assert_eq!(open(&trace).unwrap().damaged_end(), None);
    let cut = &trace[..trace.len() - 1];
    let reader = open(cut).unwrap();
    let damage = reader.damaged_end().unwrap();
    assert_eq!(damage.flaw, Flaw::Trailer);
    assert_eq!(damage.event, EventIndex(reader.events()));
}

#[test]
fn seeking_works_without_an_index() {
    let trace = every_kind();
    let starts = section_starts(&trace);
    let without = &trace[..starts[starts.len() - 2]];
    let mut reader = open(without).unwrap();
    assert_eq!(reader.events(), open(&trace).unwrap().events());
    assert_eq!(reader.summary(), open(&trace).unwrap().summary());
    reader.seek(EventIndex(10)).unwrap();
    let found = reader.next().unwrap().unwrap();
    assert_eq!(
        found.kind,
        EventKind::Fence {
            kind: FenceKind::Sfence
        }
    );
}

#[test]
fn every_altered_bit_is_detected_and_changes_no_event() {
    let trace = every_kind();
    let (whole, _) = readable(&trace);
    for byte in 0..trace.len() {
        for bit in 0..8 {
            let mut altered = trace.clone();
            altered[byte] ^= 1 << bit;
            let (events, error) = readable(&altered);
            assert_eq!(events, whole[..events.len()], "bit {bit} of byte {byte}");
            assert!(error.is_some(), "bit {bit} of byte {byte} was not detected");
        }
    }
}

#[test]
fn an_altered_version_is_damage_and_not_another_version() {
    for bit in 0..32 {
        let mut altered = every_kind();
        altered[8 + bit / 8] ^= 1 << (bit % 8);
        let error = open(&altered).err();
        assert_eq!(flaw(error), Some(Flaw::Preamble), "bit {bit}");
    }
}

#[test]
fn damage_names_the_byte_the_event_and_the_reason() {
    let mut trace = every_kind();
    let second_chunk = section_starts(&trace)[2];
    trace[second_chunk + 40] ^= 1;
    let (events, error) = readable(&trace);
    assert_eq!(events.len(), 8);
    assert_eq!(
        error.unwrap().to_string(),
        format!(
            "the trace is readable only up to byte {second_chunk}, event 8: a section's checksum does \
             not match its content"
        )
    );
}

#[test]
fn a_missing_chunk_is_detected() {
    let trace = every_kind();
    let starts = section_starts(&trace);
    let mut gap = trace[..starts[1]].to_vec();
    gap.extend_from_slice(&trace[starts[2]..]);
    let (events, error) = readable(&gap);
    assert!(events.is_empty());
    assert_eq!(flaw(error), Some(Flaw::OutOfOrder));
}

#[test]
fn other_files_and_other_versions_are_distinguished() {
    let mut trace = every_kind();
    let mut message = |version| {
        set_version(&mut trace, version);
        open(&trace).err().map(|error| error.to_string())
    };
    let newer = message(200).unwrap();
    assert!(newer.contains("format version 200"), "{newer}");
    assert!(newer.ends_with("at least as new as the one that recorded it"));
    let older = message(1).unwrap();
    assert!(older.ends_with("record the program again"), "{older}");
    assert_eq!(message(FORMAT_VERSION), None);
    assert!(matches!(
        open(b"#!/bin/sh\necho hello world\n"),
        Err(ReadError::NotATrace)
    ));
    assert!(matches!(open(b""), Err(ReadError::NotATrace)));
}

#[test]
fn lengths_beyond_their_limits_are_rejected_without_allocating() {
    let trace = every_kind();
    let chunk = section_starts(&trace)[1];
    // Stored length, number of rows, and the length of each column before and after compression.
    let lengths = [4, 20].into_iter().chain((32..96).step_by(4));
    for at in lengths {
        for value in [u32::MAX, 1 << 31, 1 << 24, 0] {
            let mut forged = trace.clone();
            forged[chunk + at..chunk + at + 4].copy_from_slice(&value.to_le_bytes());
            if forged == trace {
                continue;
            }
            seal(&mut forged, chunk);
            let (events, error) = readable(&forged);
            assert!(events.len() <= 8, "{value:#x} at {at}");
            assert!(error.is_some(), "{value:#x} at {at}");
        }
    }
}

#[test]
fn a_forged_number_of_events_is_detected() {
    let trace = every_kind();
    let chunk = section_starts(&trace)[1];
    for events in [0u32, 7, 9] {
        let mut forged = trace.clone();
        forged[chunk + 16..chunk + 20].copy_from_slice(&events.to_le_bytes());
        seal(&mut forged, chunk);
        let (read, error) = readable(&forged);
        assert!(read.len() <= 8);
        assert_eq!(
            flaw(error),
            Some(Flaw::ColumnLength),
            "{events} events claimed"
        );
    }
}

#[test]
fn a_forged_index_never_returns_the_wrong_event() {
    let trace = every_kind();
    let starts = section_starts(&trace);
    let index = starts[starts.len() - 2];
    for byte in index + 32..starts[starts.len() - 1] {
        for value in [0, 1, 0x55, 0xff] {
            let mut forged = trace.clone();
            forged[byte] = value;
            seal(&mut forged, index);
            let Ok(mut reader) = open(&forged) else {
                continue;
            };
            // The reader seeks to the requested event or fails.
            if reader.seek(EventIndex(12)).is_ok()
                && let Ok(Some(event)) = reader.next()
            {
                assert_eq!(event.index, EventIndex(12));
            }
        }
    }
}

#[test]
fn a_killed_recorder_loses_only_the_last_chunk() {
    let mut writer = writer();
    for number in 0..10u64 {
        writer
            .write(&event(store(0x1000, &number.to_le_bytes())))
            .unwrap();
        if number == 6 {
            writer.flush_chunk().unwrap();
        }
    }
    let on_disk = writer.bytes() as usize;
    let trace = writer.finish(Ending::default()).unwrap().1;
    let (events, error) = readable(&trace[..on_disk]);
    assert_eq!(events.len(), 7);
    assert!(error.is_none());
    assert!(open(&trace[..on_disk]).unwrap().summary().is_none());
}
