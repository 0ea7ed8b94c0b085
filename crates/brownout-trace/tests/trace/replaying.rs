//! Replaying a trace rebuilds its files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use brownout_trace::replay::Images;
use brownout_trace::*;

use crate::traces::{event, mapping, open, start, store, writer};

const POOL: FileId = FileId(0);
const BASE: u64 = 0x7f00_0000_0000;

/// Images after some events of process 1.
fn replay(kinds: &[EventKind<'_>]) -> Images {
    let mut images = Images::default();
    for &kind in kinds {
        images.apply(&event(kind));
    }
    images
}

fn read(images: &Images, file: FileId, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    images
        .file(file)
        .unwrap()
        .content()
        .read(offset, &mut bytes);
    bytes
}

#[test]
fn stores_through_every_mapping_reach_the_file() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x2000, POOL, 0, 0x3000)),
        EventKind::Content {
            file: POOL,
            offset: 0,
            bytes: b"was here",
        },
        EventKind::Map(Mapping {
            snapshot: false,
            ..mapping(BASE + 0x10_0000, 0x1000, POOL, 0x1000, 0x3000)
        }),
        store(BASE + 4, b"HERE"),
        store(BASE + 0x10_0000, b"second"),
        store(BASE + 0x1003, b"first"),
    ]);
    assert_eq!(read(&images, POOL, 0, 8), b"was HERE");
    assert_eq!(read(&images, POOL, 0x1000, 8), b"secfirst");
    assert_eq!(images.file(POOL).unwrap().content().len(), 0x3000);
}

#[test]
fn a_store_across_two_mappings_goes_to_both_files() {
    let other = FileId(1);
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0x5000, 0x6000)),
        EventKind::Map(mapping(BASE + 0x1000, 0x1000, other, 0, 0x1000)),
        store(BASE + 0xffc, b"12345678"),
    ]);
    assert_eq!(read(&images, POOL, 0x5ffc, 4), b"1234");
    assert_eq!(read(&images, other, 0, 4), b"5678");
}

#[test]
fn a_moved_mapping_shows_the_same_bytes() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x2000, POOL, 0, 0x8000)),
        EventKind::Remap {
            old: Address(BASE),
            old_len: 0x2000,
            new: Address(BASE + 0x10_0000),
            new_len: 0x4000,
        },
        store(BASE + 0x10_3000, b"grown"),
        store(BASE, b"left behind"),
    ]);
    assert_eq!(read(&images, POOL, 0x3000, 5), b"grown");
    assert_eq!(read(&images, POOL, 0, 4), [0; 4]);
    assert_eq!(images.unmapped_stores(), 1);
}

#[test]
fn stores_where_nothing_is_mapped_are_counted() {
    let images = replay(&[
        store(BASE, b"before"),
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0, 0x1000)),
        EventKind::Unmap {
            addr: Address(BASE),
            len: 0x1000,
        },
        store(BASE, b"after"),
    ]);
    assert_eq!(images.unmapped_stores(), 2);
    assert_eq!(read(&images, POOL, 0, 8), [0; 8]);
}

#[test]
fn the_kernel_and_descriptors_write_too() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0, 0x1000)),
        EventKind::KernelWrite {
            addr: Address(BASE + 8),
            bytes: b"read(2)",
            syscall: 0,
        },
        EventKind::FileWrite {
            file: POOL,
            offset: 0x1ffc,
            bytes: b"pwrite",
            syscall: 18,
        },
    ]);
    assert_eq!(read(&images, POOL, 8, 7), b"read(2)");
    assert_eq!(read(&images, POOL, 0x1ffc, 6), b"pwrite");
    assert_eq!(images.file(POOL).unwrap().content().len(), 0x2002);
}

#[test]
fn truncated_bytes_are_zero_when_the_file_grows_again() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x3000, POOL, 0, 0x3000)),
        store(BASE + 0xff0, &[1; 32]),
        store(BASE + 0x2000, &[1; 8]),
        EventKind::FileResize {
            file: POOL,
            len: 0xff8,
        },
        EventKind::FileResize {
            file: POOL,
            len: 0x3000,
        },
    ]);
    assert_eq!(read(&images, POOL, 0xff0, 16), [[1; 8], [0; 8]].concat());
    assert_eq!(read(&images, POOL, 0x2000, 8), [0; 8]);
}

#[test]
fn bytes_stored_past_the_end_do_not_become_part_of_a_growing_file() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0, 10)),
        store(BASE + 8, &[1; 8]),
        EventKind::FileResize {
            file: POOL,
            len: 0x2000,
        },
    ]);
    assert_eq!(read(&images, POOL, 8, 8), [1, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn mapping_a_file_again_uses_its_new_content() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x2000, POOL, 0, 0x2000)),
        store(BASE, b"first run"),
        store(BASE + 0x1800, b"kept"),
        EventKind::Unmap {
            addr: Address(BASE),
            len: 0x2000,
        },
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0, 0x2000)),
        EventKind::Content {
            file: POOL,
            offset: 2,
            bytes: b"changed",
        },
    ]);
    assert_eq!(read(&images, POOL, 0, 9), b"\0\0changed");
    assert_eq!(read(&images, POOL, 0x1800, 4), b"kept");
}

#[test]
fn mapping_a_range_that_is_already_mapped_keeps_its_stores() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0x1000, 0x3000)),
        store(BASE, b"stored"),
        EventKind::Map(mapping(BASE + 0x10_0000, 0x3000, POOL, 0, 0x3000)),
        EventKind::Content {
            file: POOL,
            offset: 0x2000,
            bytes: b"found",
        },
    ]);
    assert_eq!(read(&images, POOL, 0x1000, 6), b"stored");
    assert_eq!(read(&images, POOL, 0x2000, 5), b"found");
}

#[test]
fn processes_share_files_but_not_addresses() {
    let child = ProcessId(2);
    let mut images = replay(&[
        start(None, ProcessOrigin::Exec),
        EventKind::Map(mapping(BASE, 0x1000, POOL, 0, 0x1000)),
    ]);
    let in_child = |kind| Event {
        process: child,
        ..event(kind)
    };
    images.apply(&in_child(start(Some(ProcessId(1)), ProcessOrigin::Fork)));
    images.apply(&event(EventKind::Unmap {
        addr: Address(BASE),
        len: 0x1000,
    }));
    images.apply(&event(store(BASE, b"parent")));
    images.apply(&in_child(store(BASE, b"child")));
    assert_eq!(read(&images, POOL, 0, 6), b"child\0");
    assert_eq!(images.unmapped_stores(), 1);

    images.apply(&in_child(start(Some(ProcessId(1)), ProcessOrigin::Exec)));
    images.apply(&in_child(store(BASE, b"exec'd")));
    assert_eq!(images.unmapped_stores(), 2);
}

#[test]
fn memory_depends_on_what_was_written_not_on_the_file_size() {
    let huge = 1 << 50;
    let images = replay(&[
        EventKind::Map(mapping(BASE, 1 << 40, POOL, 0, huge)),
        EventKind::Content {
            file: POOL,
            offset: 0,
            bytes: &[0; 8192],
        },
        store(BASE + (1 << 39), b"far out"),
        EventKind::FileResize {
            file: POOL,
            len: huge * 2,
        },
    ]);
    let image = images.file(POOL).unwrap();
    assert_eq!(
        (image.content().len(), image.content().resident()),
        (huge * 2, 4096)
    );
}

#[test]
fn impossible_offsets_are_ignored() {
    let images = replay(&[
        EventKind::Map(mapping(BASE, 0x1000, POOL, u64::MAX - 8, u64::MAX)),
        store(BASE, &[1; 64]),
        EventKind::FileWrite {
            file: POOL,
            offset: u64::MAX - 2,
            bytes: b"long",
            syscall: 18,
        },
        EventKind::Content {
            file: POOL,
            offset: u64::MAX,
            bytes: b"x",
        },
    ]);
    assert_eq!(images.file(POOL).unwrap().content().resident(), 0);
    assert_eq!(read(&images, POOL, u64::MAX, 2), [0; 2]);
}

#[test]
fn images_are_written_sparse_below_the_directory() {
    let mut writer = writer();
    let pool = writer
        .file(
            FileIdentity { dev: 1, ino: 1 },
            Path::new("/mnt/../pm/pool"),
        )
        .unwrap();
    let old = writer
        .file(FileIdentity { dev: 1, ino: 2 }, Path::new("/pm/log"))
        .unwrap();
    let new = writer
        .file(FileIdentity { dev: 1, ino: 3 }, Path::new("/pm/log"))
        .unwrap();
    let other = writer
        .file(FileIdentity { dev: 1, ino: 4 }, Path::new("/pm/other"))
        .unwrap();
    let len = 1 << 30;
    for kind in [
        EventKind::Map(mapping(BASE, len, pool, 0, len)),
        store(BASE + len - 3, b"end"),
        EventKind::Map(mapping(BASE, 0x1000, old, 0, 0x1000)),
        store(BASE, b"old"),
        EventKind::Map(mapping(BASE, 0x1000, new, 0, 10)),
        store(BASE, b"new"),
        EventKind::Map(mapping(BASE, 0x1000, other, 0, 0x1000)),
    ] {
        writer.write(&event(kind)).unwrap();
    }
    let trace = writer.finish(Ending::default()).unwrap().1;
    let mut reader = open(&trace).unwrap();
    let mut images = Images::default();
    while let Some(event) = reader.next().unwrap() {
        images.apply(&event);
    }

    let dir = tempfile::tempdir().unwrap();
    let written = images
        .write_to(dir.path(), reader.definitions(), |file| file != other)
        .unwrap();
    let files: Vec<FileId> = written.iter().map(|image| image.file).collect();
    assert_eq!(files, [pool, new]);
    assert_eq!(written[0].path, dir.path().join("mnt/pm/pool"));
    let metadata = fs::metadata(&written[0].path).unwrap();
    assert_eq!(metadata.len(), len);
    assert!(
        metadata.blocks() * 512 < 1 << 20,
        "{} blocks",
        metadata.blocks()
    );
    assert_eq!(
        fs::read(dir.path().join("pm/log")).unwrap(),
        b"new\0\0\0\0\0\0\0"
    );
    assert!(!dir.path().join("pm/other").exists());
}

/// The digest of the pool after some events.
fn digest(kinds: &[EventKind<'_>]) -> u128 {
    replay(kinds).file_mut(POOL).unwrap().digest()
}

#[test]
fn equal_contents_have_equal_digests() {
    let base = EventKind::Map(mapping(0x10000, 0x3000, POOL, 0, 0x3000));
    let straight = digest(&[base, store(0x10008, &[1, 2]), store(0x12000, &[3])]);
    let detour = digest(&[
        base,
        store(0x12000, &[9]),
        store(0x11000, &[7]),
        store(0x10008, &[1, 2]),
        store(0x12000, &[3]),
        store(0x11000, &[0]),
    ]);
    assert_eq!(straight, detour);
    assert_ne!(straight, digest(&[base, store(0x10008, &[1, 2])]));
    let moved = digest(&[base, store(0x11008, &[1, 2]), store(0x12000, &[3])]);
    assert_ne!(straight, moved, "the position of a page counts");
    let shorter = EventKind::FileResize {
        file: POOL,
        len: 0x2001,
    };
    let cut = digest(&[base, store(0x10008, &[1, 2]), store(0x12000, &[3]), shorter]);
    assert_ne!(straight, cut, "the length counts");
}

#[test]
fn a_digest_changes_with_the_content_and_reverts_with_it() {
    let mut images = replay(&[
        EventKind::Map(mapping(0x10000, 0x3000, POOL, 0, 0x3000)),
        store(0x10008, &[1]),
    ]);
    let mut step = |kind: EventKind<'_>| {
        images.apply(&event(kind));
        images.file_mut(POOL).unwrap().digest()
    };
    let before = step(store(0x11000, &[5]));
    let between = step(store(0x11000, &[6]));
    let after = step(store(0x11000, &[5]));
    assert_ne!(before, between);
    assert_eq!(before, after);
}

#[test]
fn a_clone_of_a_content_does_not_change() {
    let mut images = replay(&[
        EventKind::Map(mapping(0x10000, 0x3000, POOL, 0, 0x3000)),
        store(0x10008, &[1]),
    ]);
    let copy = images.file(POOL).unwrap().content().clone();
    images.apply(&event(store(0x10008, &[2])));
    let mut byte = [0];
    copy.read(8, &mut byte);
    assert_eq!(byte, [1]);
    assert_eq!(read(&images, POOL, 8, 1), [2]);
}
