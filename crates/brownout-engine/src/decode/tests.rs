//! Each kind of record is decoded into its event, and impossible records are rejected.

use super::*;
use crate::fake_producer::owner;
use brownout_ring::{file_use, map, origin, sync};
use brownout_trace::{Arguments, ProcessOrigin, Sync};

/// The number of watched functions: `ADDR`, read as a function number, is the last one.
const WATCHED: usize = 0x7001;
const POOL: FileIdentity = FileIdentity { dev: 8, ino: 99 };

fn number(file: FileIdentity) -> Option<FileId> {
    (file == POOL).then_some(FileId(5))
}

/// Decodes a record of `kind` with everything else fixed.
fn decoded(kind: u16, flags: u16, payload: &[u8]) -> Result<Decoded<'_>, Corruption> {
    let head = Record {
        len: 0,
        kind,
        flags,
        seq: 17,
        pc: 0x401000,
        context: 3,
        size: payload.len() as u32,
        addr: 0x7000,
    };
    decode(&owner(2, 40, 41), &head, payload, WATCHED, number)
}

fn event_kind(kind: u16, flags: u16, payload: &[u8]) -> EventKind<'_> {
    match decoded(kind, flags, payload) {
        Ok(Decoded::Event(event)) => event.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn notes_about_failed_calls_begin_alike_on_the_wire_and_in_the_trace() {
    assert_eq!(brownout_ring::FAILED_SYNC, brownout_trace::FAILED_SYNC_NOTE);
}

/// Native-endian words one after the other.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

const ADDR: Address = Address(0x7000);

#[test]
fn an_event_carries_process_thread_instruction_and_context() {
    let payload = words(&[64]);
    let Ok(Decoded::Event(event)) = decoded(kind::UNMAP, 0, &payload) else {
        panic!()
    };
    let expected = Event {
        index: EventIndex(17),
        process: ProcessId(2),
        thread: ThreadId(41),
        pc: AppPc(0x401000),
        context: ContextId(3),
        kind: EventKind::Unmap {
            addr: ADDR,
            len: 64,
        },
    };
    assert_eq!(event, expected);
}

#[test]
fn calls_keep_their_arguments_and_returns_their_result() {
    let function = FunctionId(0x7000);
    let arguments = words(&[1, u64::MAX]);
    assert_eq!(
        event_kind(kind::CALL, 0, &arguments),
        EventKind::Call {
            function,
            args: CallArguments::new(&[1, u64::MAX]),
        }
    );
    assert_eq!(
        event_kind(kind::RETURN, 0, &words(&[3, 4])),
        EventKind::Return {
            function,
            value: Some([3, 4]),
        }
    );
    assert_eq!(
        event_kind(kind::RETURN, 0, &[]),
        EventKind::Return {
            function,
            value: None,
        }
    );
    for (kind, payload) in [
        (kind::CALL, words(&[0; 7])),
        (kind::CALL, vec![0; 12]),
        (kind::RETURN, words(&[0])),
    ] {
        let size = payload.len() as u64;
        assert_eq!(
            decoded(kind, 0, &payload),
            Err(Corruption::Payload { kind, size })
        );
    }
}

#[test]
fn stores_keep_their_bytes_and_flavour() {
    let store = |flags| event_kind(kind::STORE, flags, b"abc");
    let expected = |flavor, locked, string| EventKind::Store {
        addr: ADDR,
        bytes: b"abc",
        flavor,
        locked,
        string,
    };
    assert_eq!(store(0), expected(StoreFlavor::Temporal, false, false));
    assert_eq!(
        store(store::LOCKED),
        expected(StoreFlavor::Temporal, true, false)
    );
    assert_eq!(
        store(store::STRING),
        expected(StoreFlavor::Temporal, false, true)
    );
    assert_eq!(
        store(store::MODIFIES),
        expected(StoreFlavor::Modifying, false, false)
    );
    assert_eq!(
        store(store::MODIFIES | store::LOCKED),
        expected(StoreFlavor::Temporal, true, false)
    );
    assert_eq!(
        store(store::NON_TEMPORAL),
        expected(StoreFlavor::NonTemporal, false, false)
    );
    assert_eq!(
        store(store::DIRECT),
        expected(StoreFlavor::Direct, false, false)
    );
}

#[test]
fn flushes_and_fences_keep_their_kind() {
    let flush = |flags| event_kind(kind::FLUSH, flags, &[]);
    let clwb = |volatile| EventKind::Flush {
        addr: ADDR,
        kind: FlushKind::Clwb,
        volatile,
    };
    assert_eq!(flush(flush::CLWB), clwb(false));
    assert_eq!(flush(flush::CLWB | flush::VOLATILE), clwb(true));
    let fence = event_kind(kind::FENCE, fence::LOCKED, &[]);
    assert_eq!(
        fence,
        EventKind::Fence {
            kind: FenceKind::Locked
        }
    );
}

#[test]
fn events_on_a_mapped_file_carry_its_number() {
    let write = [words(&[8, 99, 4096]), b"xyz".to_vec()].concat();
    assert_eq!(
        event_kind(kind::FILE_WRITE, 18, &write),
        EventKind::FileWrite {
            file: FileId(5),
            offset: 4096,
            bytes: b"xyz",
            syscall: 18
        }
    );
    assert_eq!(
        event_kind(kind::FILE_RESIZE, 0, &words(&[8, 99, 64])),
        EventKind::FileResize {
            file: FileId(5),
            len: 64
        }
    );
    assert_eq!(
        event_kind(kind::SYNC, sync::SYNC_FILE_RANGE, &words(&[8, 99, 64, 128])),
        EventKind::Sync(Sync::SyncFileRange {
            file: FileId(5),
            offset: 64,
            len: 128
        })
    );
    let content = [words(&[8, 99, 0]), b"xyz".to_vec()].concat();
    assert_eq!(
        event_kind(kind::CONTENT, 0, &content),
        EventKind::Content {
            file: FileId(5),
            offset: 0,
            bytes: b"xyz"
        }
    );
}

#[test]
fn events_on_a_file_that_was_never_mapped_are_ignored() {
    let other = words(&[8, 98, 0, 0]);
    assert_eq!(decoded(kind::FILE_WRITE, 1, &other), Ok(Decoded::Unrelated));
    assert_eq!(
        decoded(kind::FILE_RESIZE, 0, &other),
        Ok(Decoded::Unrelated)
    );
    assert_eq!(
        decoded(kind::SYNC, sync::FSYNC, &other),
        Ok(Decoded::Unrelated)
    );
    let unknown = Corruption::File { dev: 8, ino: 98 };
    assert_eq!(decoded(kind::CONTENT, 0, &other), Err(unknown));
}

#[test]
fn msync_carries_an_address_range() {
    let whole = words(&[0, 0, 0, 4096]);
    let msync = |asynchronous| {
        EventKind::Sync(Sync::Msync {
            addr: ADDR,
            len: 4096,
            asynchronous,
        })
    };
    assert_eq!(event_kind(kind::SYNC, sync::MSYNC, &whole), msync(false));
    assert_eq!(
        event_kind(kind::SYNC, sync::MSYNC | sync::ASYNC, &whole),
        msync(true)
    );
}

#[test]
fn a_mapping_comes_with_its_file_and_path() {
    let mut payload = words(&[8, 99, 4096, 8192, 65536]);
    for word in [3_u32, 1, map::DAX, 0] {
        payload.extend(word.to_ne_bytes());
    }
    assert_eq!(payload.len(), size_of::<brownout_ring::Map>());
    payload.extend(b"/mnt/pool");
    let Ok(Decoded::Map { file, path, event }) = decoded(kind::MAP, 0, &payload) else {
        panic!()
    };
    assert_eq!((file, path), (POOL, Path::new("/mnt/pool")));
    let EventKind::Map(mapping) = event.kind else {
        panic!()
    };
    assert_eq!((mapping.addr, mapping.offset), (ADDR, 4096));
    assert_eq!((mapping.len, mapping.file_len), (8192, 65536));
    assert_eq!((mapping.prot, mapping.flags, mapping.dax), (3, 1, true));
}

#[test]
fn unmap_and_remap_are_decoded() {
    assert_eq!(
        event_kind(kind::UNMAP, 0, &words(&[4096])),
        EventKind::Unmap {
            addr: ADDR,
            len: 4096
        }
    );
    let moved = EventKind::Remap {
        old: ADDR,
        old_len: 1,
        new: Address(2),
        new_len: 3,
    };
    assert_eq!(event_kind(kind::REMAP, 0, &words(&[1, 2, 3])), moved);
    assert_eq!(
        event_kind(kind::PROTECT, 1, &words(&[4096])),
        EventKind::Protect {
            addr: ADDR,
            len: 4096,
            writable: true
        }
    );
}

#[test]
fn a_process_start_splits_path_and_arguments() {
    let mut payload: Vec<u8> = [40_u32, 30, u32::MAX, origin::EXEC]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    payload.extend(b"/bin/ls\0ls\0-l\0");
    let expected = EventKind::ProcessStart {
        pid: 40,
        parent_pid: 30,
        parent: None,
        origin: ProcessOrigin::Exec,
        exe: Path::new("/bin/ls"),
        args: Arguments::from_bytes(b"ls\0-l\0"),
    };
    assert_eq!(event_kind(kind::PROCESS_START, 0, &payload), expected);
}

#[test]
fn a_context_is_a_definition() {
    let expected = Decoded::Context {
        process: ProcessId(2),
        context: ContextId(3),
        parent: ContextId(9),
        return_address: AppPc(0x7000),
    };
    assert_eq!(
        decoded(kind::CONTEXT, 0, &9_u32.to_ne_bytes()),
        Ok(expected)
    );
}

#[test]
fn uses_of_files_are_no_events() {
    let payload = words(&[8, 99, 64, 16]);
    let read = FileUse::Read {
        file: POOL,
        offset: 64,
        len: 16,
    };
    for (flags, expected) in [
        (file_use::OPENED, FileUse::Opened(POOL)),
        (file_use::READ, read),
        (file_use::UNSEEN, FileUse::Unseen),
    ] {
        let decoded = decoded(kind::FILE_USE, flags, &payload);
        assert_eq!(decoded, Ok(Decoded::FileUse(expected)));
    }
}

#[test]
fn unknown_flags_are_rejected() {
    for (kind, flags) in [
        (kind::STORE, 0x20),
        (kind::FLUSH, 0),
        (kind::FLUSH, 4),
        (kind::FENCE, 0),
        (kind::FENCE, 4),
        (kind::PROTECT, 2),
        (kind::SYNC, 6),
        (kind::FILE_USE, 4),
    ] {
        let payload = words(&[8, 99, 0, 0]);
        assert_eq!(
            decoded(kind, flags, &payload),
            Err(Corruption::Flags { kind, flags })
        );
    }
}

#[test]
fn a_payload_that_is_too_short_never_panics() {
    let bytes = [0xff; 80];
    for kind in 0..=kind::PROTECT + 1 {
        for len in 0..bytes.len() {
            for flags in [0, 1, 2, 3, 5, 0x101, u16::MAX] {
                let _ = decoded(kind, flags, &bytes[..len]);
            }
        }
    }
    for kind in [
        kind::STORE,
        kind::LOAD,
        kind::KERNEL_WRITE,
        kind::MAP,
        kind::MODULE,
        kind::CONTEXT,
    ] {
        assert_eq!(
            decoded(kind, 0, &[]),
            Err(Corruption::Payload { kind, size: 0 }),
            "{kind}"
        );
    }
}

#[test]
fn a_size_beyond_the_record_is_rejected() {
    let head = Record {
        size: 9,
        ..crate::fake_producer::head(kind::STORE, 0, 0, 0)
    };
    let refused = Corruption::Payload {
        kind: kind::STORE,
        size: 9,
    };
    assert_eq!(
        decode(&owner(0, 1, 1), &head, &[0; 8], WATCHED, number),
        Err(refused)
    );
}
