//! Reads arbitrary bytes as a trace: every event, in both ways, the definitions, seeking, and replay.
//!
//! `cargo +nightly fuzz run read_trace -- -max_len=65536`. Each input is read as it is, and once more with
//! the checksums of its sections made right, without which hardly an input would get past them.
#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;

use brownout_trace::replay::Images;
use brownout_trace::{EventIndex, EventKind, FORMAT_VERSION, RecognisedLocks, TraceReader};
use libfuzzer_sys::fuzz_target;

/// Events that are replayed at most: each may touch a page, and a short input can hold many.
const REPLAYED: usize = 5000;

const PREAMBLE: usize = 16;
const FRAME: usize = 32;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&sealed(bytes));
});

fn read(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::new(Cursor::new(bytes)) else {
        return;
    };
    let mut images = Images::default();
    let mut locks = RecognisedLocks::default();
    let mut events = 0;
    while let Ok(Some((event, definitions))) = reader.next_defined() {
        definitions
            .context_frames(event.process, event.context)
            .count();
        definitions.module_at(event.process, event.pc);
        if let EventKind::Call { function, .. } = event.kind {
            definitions.function(function);
        }
        locks.event(&event);
        events += 1;
        if events <= REPLAYED {
            images.apply(&event);
        }
    }
    let middle = EventIndex(reader.events() / 2);
    if reader.seek(middle).is_ok()
        && let Ok(Some(event)) = reader.next()
    {
        assert_eq!(event.index, middle);
    }
    let Ok(mut reader) = TraceReader::new(Cursor::new(bytes)) else {
        return;
    };
    let mut shown = 0;
    let _ = reader.for_each(|event, _| {
        shown += usize::from(event.index.0 == shown as u64);
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(shown, events, "both ways of reading give the same");
}

/// The input with a right preamble and right checksums.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = b"BRNTRACE".to_vec();
    sealed.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    let sum = crc32fast::hash(&sealed);
    sealed.extend_from_slice(&sum.to_le_bytes());
    sealed.extend_from_slice(bytes.get(PREAMBLE..).unwrap_or_default());
    let mut start = PREAMBLE;
    while let Some(len) = sealed.get(start + 4..start + 8) {
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let Some(content) = sealed.get(start + FRAME..start + FRAME + len) else {
            break;
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&sealed[start..start + 28]);
        hasher.update(content);
        let sum = hasher.finalize();
        sealed[start + 28..start + FRAME].copy_from_slice(&sum.to_le_bytes());
        start += FRAME + len;
    }
    sealed
}
