//! Which files the target opens and reads other than by loads that are recorded, for a recorder that asks for it
//! ([`wire::wants_reads`]): system calls that open, look up or read a file or use the memory of a candidate, and mappings
//! that are no candidates, which count as read.
//!
//! What it can miss: reads through `io_uring` and `io_submit`. The recorder is then warned.

use super::arguments::argument_count;
use super::outputs::{BY_ADDRESS, output};
use super::stat_at;
use crate::arch::instruments::pm::emulate;
use crate::arch::instruments::pm::syscalls;
use crate::instruments::pm::candidates;
use crate::plain_data::PlainData;
use crate::sys::{self, is_err, linux};
use crate::translator::context::Context;
use crate::wire::{self, Head};
use crate::{memory, target_memory};
use brownout_ring::{FileAt, FileUse, file_use, kind};

/// Buffers that one call may name.
const MOST_BUFFERS: u64 = 1024;
/// A position that stands for the descriptor's own.
const OWN_POSITION: u64 = u64::MAX;

/// Reports what a call, which succeeded with `raw`, has opened, looked up or read.
pub fn used(context: &mut Context, nr: u32, args: &[u64; 6], raw: u64) {
    if !wire::wants_reads() {
        return;
    }
    if matches!(nr, linux::__NR_io_uring_setup | linux::__NR_io_setup) {
        let nothing = FileAt {
            dev: 0,
            ino: 0,
            offset: 0,
        };
        report(context, file_use::UNSEEN, nothing, 0);
    } else if is_opening(nr) {
        if let Some(stat) = sys::fstat(raw as i32) {
            report(context, file_use::OPENED, file_at(&stat, 0), 0);
        }
    } else if let Some((directory, path)) = looked_up(nr, args) {
        if let Some(stat) = stat_at((directory, path), linux::AT_EMPTY_PATH) {
            report(context, file_use::OPENED, file_at(&stat, 0), 0);
        }
    } else if let Some((fd, offset)) = source(nr, args, raw)
        && let Some(stat) = sys::fstat(fd)
    {
        report(context, file_use::READ, file_at(&stat, offset), raw);
    }
}

/// Reports what a call will read of the memory of candidates.
pub fn memory_used(context: &mut Context, nr: u32, args: &[u64; 6]) {
    if !wire::wants_reads() || BY_ADDRESS.contains(&nr) {
        return;
    }
    match nr {
        linux::__NR_write | linux::__NR_pwrite64 | linux::__NR_sendto => {
            memory_read(context, args[1], args[2]);
        }
        linux::__NR_writev
        | linux::__NR_pwritev
        | linux::__NR_pwritev2
        | linux::__NR_vmsplice
        | linux::__NR_process_vm_writev => buffers_read(context, args[1], args[2]),
        linux::__NR_sendmsg => {
            // The buffers are the third and fourth word of the header.
            if let Some([at, count]) = words(args[1].wrapping_add(16)) {
                buffers_read(context, at, count);
            }
        }
        linux::__NR_futex => memory_read(context, args[0], 4),
        _ => {
            for (index, &address) in args[..argument_count(nr)].iter().enumerate() {
                // How much of it the call reads is not known.
                if output(nr, index).is_none() {
                    memory_read(context, address, memory::PAGE - address % memory::PAGE);
                }
            }
        }
    }
}

/// Reports a mapping that is about to be made and is no candidate: its loads are not recorded, so all of it may be read.
pub fn mapped_unobserved(context: &mut Context, args: &[u64; 6]) {
    let &[_, len, _, flags, fd, offset] = args;
    if !wire::wants_reads() || flags & u64::from(linux::MAP_ANONYMOUS) != 0 {
        return;
    }
    if let Some(stat) = sys::fstat(fd as i32) {
        report(context, file_use::READ, file_at(&stat, offset), len);
    }
}

fn is_opening(nr: u32) -> bool {
    matches!(
        nr,
        linux::__NR_openat | linux::__NR_openat2 | linux::__NR_open_by_handle_at
    ) || syscalls::OPENS.contains(&nr)
}

/// The directory and the path that a call has looked up.
fn looked_up(nr: u32, args: &[u64; 6]) -> Option<(i32, u64)> {
    match nr {
        linux::__NR_newfstatat
        | linux::__NR_statx
        | linux::__NR_faccessat
        | linux::__NR_faccessat2 => Some((args[0] as i32, args[1])),
        linux::__NR_truncate => Some((linux::AT_FDCWD, args[0])),
        _ if syscalls::LOOKS_UP.contains(&nr) => Some((linux::AT_FDCWD, args[0])),
        _ => None,
    }
}

/// The descriptor from which a call has read `raw` bytes, and where in the file they begin.
fn source(nr: u32, args: &[u64; 6], raw: u64) -> Option<(i32, u64)> {
    let (fd, start) = match nr {
        linux::__NR_read | linux::__NR_readv => (args[0], OWN_POSITION),
        linux::__NR_pread64 | linux::__NR_preadv | linux::__NR_preadv2 => (args[0], args[3]),
        linux::__NR_sendfile => (args[1], advanced(args[2], raw)),
        linux::__NR_copy_file_range | linux::__NR_splice => (args[0], advanced(args[1], raw)),
        _ => return None,
    };
    let fd = fd as i32;
    if start != OWN_POSITION {
        return Some((fd, start));
    }
    // SAFETY: asks for the position. It fails for pipes and the like, which are no files.
    let position = unsafe { crate::sys!(linux::__NR_lseek, fd, 0, linux::SEEK_CUR) };
    (!is_err(position)).then(|| (fd, position.saturating_sub(raw)))
}

/// The position in the memory at `pointer`, before it was advanced by what was read.
fn advanced(pointer: u64, raw: u64) -> u64 {
    match pointer {
        0 => OWN_POSITION,
        _ => target_memory::read::<u64>(pointer).map_or(OWN_POSITION, |at| at.saturating_sub(raw)),
    }
}

/// Reports the parts of a range of memory that are in candidates.
fn memory_read(context: &mut Context, start: u64, len: u64) {
    let end = start.saturating_add(len);
    for mapping in candidates::overlapping(start, end) {
        let (from, to) = (start.max(mapping.start), end.min(mapping.end));
        let read = mapping.part(from, to);
        report(context, file_use::READ, read.file, read.len());
    }
}

/// Reports an array of buffers: an address and a length each.
fn buffers_read(context: &mut Context, at: u64, count: u64) {
    for index in 0..count.min(MOST_BUFFERS) {
        let Some([start, len]) = words(at.wrapping_add(16 * index)) else {
            return;
        };
        memory_read(context, start, len);
    }
}

/// Two words of the target's memory, candidates included.
fn words(at: u64) -> Option<[u64; 2]> {
    let mut bytes = [0u8; 16];
    emulate::load_bytes(at, &mut bytes).ok()?;
    let (words, _) = bytes.as_chunks();
    Some([words[0], words[1]].map(u64::from_le_bytes))
}

fn file_at(stat: &linux::stat, offset: u64) -> FileAt {
    FileAt {
        dev: stat.st_dev,
        ino: stat.st_ino,
        offset,
    }
}

fn report(context: &mut Context, flags: u16, file: FileAt, len: u64) {
    let head = Head {
        kind: kind::FILE_USE,
        flags,
        pc: context.pc,
        ..Head::default()
    };
    context
        .wire
        .record(head, &[FileUse { file, len }.as_bytes()]);
}
