//! Write-back of candidates: `msync`, `fsync` and similar calls, and their failures.

use super::written_files::decimal;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::plain_data::PlainData;
use crate::sys;
use crate::sys::linux;
use crate::translator::context::Context;
use crate::wire::Head;
use brownout_ring::{self as ring, FAILED_SYNC, FileAt, kind};

/// Records write-back of candidates.
pub fn synchronized(context: &mut Context, nr: u32, args: &[u64; 6]) {
    let no_file = FileAt {
        dev: 0,
        ino: 0,
        offset: 0,
    };
    match nr {
        linux::__NR_msync => {
            let [addr, len, flags, ..] = *args;
            if !candidates::overlapping(addr, addr.saturating_add(len)).is_empty() {
                let kind = if flags & u64::from(linux::MS_SYNC) != 0 {
                    0
                } else {
                    ring::sync::ASYNC
                };
                sync(context, ring::sync::MSYNC | kind, addr, no_file, len);
            }
        }
        linux::__NR_fsync | linux::__NR_fdatasync | linux::__NR_sync_file_range => {
            let Some(stat) = sys::fstat(args[0] as i32) else {
                return;
            };
            if !candidates::is_known_file(stat.st_dev, stat.st_ino) {
                return;
            }
            let file = FileAt {
                dev: stat.st_dev,
                ino: stat.st_ino,
                offset: 0,
            };
            match nr {
                linux::__NR_fsync => sync(context, ring::sync::FSYNC, 0, file, 0),
                linux::__NR_fdatasync => sync(context, ring::sync::FDATASYNC, 0, file, 0),
                _ => sync(
                    context,
                    ring::sync::SYNC_FILE_RANGE,
                    0,
                    FileAt {
                        offset: args[1],
                        ..file
                    },
                    args[2],
                ),
            }
        }
        linux::__NR_syncfs | linux::__NR_sync => {
            let only = (nr == linux::__NR_syncfs)
                .then(|| sys::fstat(args[0] as i32).map_or(0, |stat| stat.st_dev));
            for mapping in candidates::overlapping(0, u64::MAX) {
                if only.is_none_or(|dev| dev == mapping.file.dev) {
                    sync(
                        context,
                        ring::sync::SYNCFS,
                        0,
                        FileAt {
                            offset: 0,
                            ..mapping.file
                        },
                        0,
                    );
                }
            }
        }
        _ => {}
    }
}

/// Notes that a call has failed with `raw` which should have written candidates back. `sync_file_range` guarantees nothing anyway.
pub fn failed(context: &mut Context, nr: u32, args: &[u64; 6], raw: sys::Raw) {
    let (name, numbers) = match nr {
        linux::__NR_msync => {
            let [addr, len, flags, ..] = *args;
            let end = addr.saturating_add(len);
            if flags & u64::from(linux::MS_SYNC) == 0
                || candidates::overlapping(addr, end).is_empty()
            {
                return;
            }
            ("msync", [addr, len])
        }
        linux::__NR_fsync | linux::__NR_fdatasync => {
            let stat = sys::fstat(args[0] as i32);
            let known = |stat: &linux::stat| candidates::is_known_file(stat.st_dev, stat.st_ino);
            let Some(stat) = stat.filter(known) else {
                return;
            };
            let name = match nr {
                linux::__NR_fsync => "fsync",
                _ => "fdatasync",
            };
            (name, [stat.st_dev, stat.st_ino])
        }
        _ => return,
    };
    let head = Head {
        kind: kind::NOTE,
        pc: context.pc,
        context: calling_context::context_of(context),
        ..Head::default()
    };
    let mut buffers = [[0u8; 20]; 3];
    let [error, first, second] = &mut buffers;
    let parts: [&[u8]; 8] = [
        FAILED_SYNC.as_bytes(),
        name.as_bytes(),
        b" ",
        decimal(raw.wrapping_neg(), error),
        b" ",
        decimal(numbers[0], first),
        b" ",
        decimal(numbers[1], second),
    ];
    context.wire.record(head, &parts);
}

fn sync(context: &mut Context, flags: u16, addr: u64, file: FileAt, len: u64) {
    let caller = calling_context::context_of(context);
    let head = Head {
        kind: kind::SYNC,
        flags,
        pc: context.pc,
        context: caller,
        addr,
    };
    context
        .wire
        .record(head, &[ring::Sync { file, len }.as_bytes()]);
}
