//! A bounded search for inputs that make the reader panic, hang or return inconsistent results.
//!
//! `BROWNOUT_FUZZ_ITERS` sets the number of mutated traces; the default takes a moment. The seed is fixed, so that failures
//! are reproducible. `fuzz/` contains a coverage-guided search for longer runs.

use std::ops::ControlFlow;

use brownout_trace::replay::Images;
use brownout_trace::*;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use seeded_random::SeededRandom;

use crate::arbitrary::{step, write};
use crate::traces::{every_kind, open};

/// The maximum number of events of a forged trace to replay, because each may allocate a page.
const REPLAYED: usize = 2000;

/// Reads a whole trace in every possible way.
fn read_all(trace: &[u8]) {
    let Ok(mut reader) = open(trace) else {
        return;
    };
    let mut images = Images::default();
    let mut events = 0;
    while let Ok(Some((event, definitions))) = reader.next_defined() {
        let frames = definitions
            .context_frames(event.process, event.context)
            .count();
        assert!(frames <= trace.len());
        definitions.module_at(event.process, event.pc);
        events += 1;
        if events <= REPLAYED {
            images.apply(&event);
        }
    }
    for place in [0, reader.events() / 2, reader.events()] {
        if reader.seek(EventIndex(place)).is_ok()
            && let Ok(Some(event)) = reader.next()
        {
            assert_eq!(event.index, EventIndex(place));
        }
    }
    compare_ways_to_read(trace);
}

/// Checks that visiting all events and reading them one by one give the same events and the same error.
fn compare_ways_to_read(trace: &[u8]) {
    let (Ok(mut asked), Ok(mut shown)) = (open(trace), open(trace)) else {
        return;
    };
    let end = shown.for_each(|event, _| {
        let same = asked.next().expect("the other way has the same events");
        assert_eq!(same.as_ref(), Some(event));
        ControlFlow::<()>::Continue(())
    });
    let other_end = asked.next().map(|event| {
        assert_eq!(event, None);
        None::<()>
    });
    assert_eq!(format!("{end:?}"), format!("{other_end:?}"));
    assert!(matches!(
        shown.for_each(|_, _| ControlFlow::Break(())),
        Ok(None)
    ));
}

/// Alters a few bytes, lengths or ranges. Then often corrects all checksums, so that the change reaches the decoder.
fn mutate(trace: &mut Vec<u8>, other: &[u8], random: &mut SeededRandom) {
    for _ in 0..1 + random.index(4) {
        let at = random.index(trace.len().max(1));
        match random.index(8) {
            0 => trace[at] ^= 1 << random.index(8),
            1 => trace[at] = random.index(256) as u8,
            2 => trace[at] = [0, 1, 0x7f, 0x80, 0xff][random.index(5)],
            3 => {
                let value = [0, 1, 0xff, 1 << 16, 1 << 24, u32::MAX][random.index(6)];
                let end = (at + 4).min(trace.len());
                trace[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            4 => {
                let end = (at + 1 + random.index(16)).min(trace.len());
                trace.drain(at..end);
            }
            5 => {
                let from = random.index(other.len().max(1));
                let stretch = &other[from..(from + random.index(64)).min(other.len())];
                trace.splice(at..at, stretch.iter().copied());
            }
            6 => {
                let from = random.index(trace.len().max(1));
                let to = (from + random.index(32)).min(trace.len());
                let target = at.min(trace.len() - (to - from));
                trace.copy_within(from..to, target);
            }
            _ => trace.truncate(at.max(64)),
        }
        if trace.is_empty() {
            trace.push(0);
        }
    }
    if random.index(4) != 0 {
        seal_all(trace);
    }
}

/// Sets the correct checksum of each section that can be found.
fn seal_all(trace: &mut [u8]) {
    let mut start = 16;
    while trace.len() >= start + 32 {
        let len = u32::from_le_bytes(trace[start + 4..start + 8].try_into().unwrap()) as usize;
        let end = (start + 32).saturating_add(len);
        if end > trace.len() {
            return;
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&trace[start..start + 28]);
        hasher.update(&trace[start + 32..end]);
        let sum = hasher.finalize();
        trace[start + 28..start + 32].copy_from_slice(&sum.to_le_bytes());
        start = end;
    }
}

#[test]
fn fuzz_reader() {
    let iterations = std::env::var("BROWNOUT_FUZZ_ITERS").map_or(3000, |count| {
        count.parse().expect("BROWNOUT_FUZZ_ITERS is a number")
    });
    let mut runner = TestRunner::deterministic();
    let mut seeds = vec![every_kind()];
    for len in [5, 20, 60, 60, 150] {
        let steps = vec(step(), len).new_tree(&mut runner).unwrap().current();
        seeds.push(write(&steps).0);
    }
    let mut random = SeededRandom::new(0x5eed_ace7);
    for _ in 0..iterations {
        let mut trace = seeds[random.index(seeds.len())].clone();
        let other = &seeds[random.index(seeds.len())];
        mutate(&mut trace, other, &mut random);
        read_all(&trace);
    }
}
