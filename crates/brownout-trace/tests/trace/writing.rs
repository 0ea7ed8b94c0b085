//! The behaviour of a writer when a write fails.

use std::io::{self, Write};

use brownout_trace::*;

use crate::traces::{event, header, open, readable, store};

/// A disk with limited room.
#[derive(Default)]
struct Disk {
    room: usize,
    content: Vec<u8>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room - self.content.len();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = &bytes[..bytes.len().min(room)];
        self.content.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TraceSink for Disk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.content.truncate(len as usize);
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_a_readable_trace() {
    let disk = Disk {
        room: 20_000,
        ..Disk::default()
    };
    let mut writer = TraceWriter::new(disk, &header()).unwrap();
    let mut safe = 0;
    let error = loop {
        for number in 0..300 {
            // Bytes that do not compress, to fill the disk.
            let noise = crc32fast::hash(&[number as u8, safe as u8]).to_le_bytes();
            writer.write(&event(store(0x1000, &noise))).unwrap();
        }
        match writer.flush_chunk() {
            Ok(()) => safe += 300,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, WriteError::StorageFull { events, .. } if events == safe));
    assert!(matches!(
        writer.write(&event(store(0, b"late"))),
        Err(WriteError::Closed)
    ));

    let stopped = Ending {
        stopped: Some(EarlyStop::StorageFull),
        ..Ending::default()
    };
    let (summary, disk) = writer.finish(stopped.clone()).unwrap();
    assert_eq!(summary.counts.total(), safe);
    let (events, error) = readable(&disk.content);
    assert_eq!(events.len() as u64, safe);
    assert!(error.is_none());
    let reader = open(&disk.content).unwrap();
    assert_eq!(reader.summary().unwrap().ending, stopped);
}

#[test]
fn a_full_device_is_distinguished_from_other_errors() {
    let created = TraceWriter::create("/dev/full", &header());
    assert!(matches!(
        created,
        Err(WriteError::StorageFull { events: 0, .. })
    ));
    let created = TraceWriter::create("/does/not/exist/trace", &header());
    assert!(matches!(created, Err(WriteError::Io(_))));
}

#[test]
fn an_event_that_is_too_long_is_rejected_and_writing_can_continue() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    let long = vec![1; (8 << 20) + 1];
    let refused = writer.write(&event(store(0x1000, &long)));
    assert!(matches!(refused, Err(WriteError::EventTooLong { .. })));
    writer.write(&event(store(0x1000, &long[1..]))).unwrap();
    writer.write(&event(store(0x1000, b"short"))).unwrap();
    let trace = writer.finish(Ending::default()).unwrap().1;
    let mut reader = open(&trace).unwrap();
    assert_eq!(
        reader.next().unwrap().unwrap().kind,
        store(0x1000, &long[1..])
    );
    assert_eq!(
        reader.next().unwrap().unwrap().kind,
        store(0x1000, b"short")
    );
}
