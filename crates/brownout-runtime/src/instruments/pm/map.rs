//! Mapping a candidate: at the target's address and at its alias, with a record of its content.

use crate::instruments::pm::candidate::{access_mode, is_dax_file};
use crate::instruments::pm::candidates;
use crate::instruments::pm::candidates::Candidate;
use crate::instruments::pm::real_prot;
use crate::instruments::pm::unmap::{replacing, unmapped};
use crate::memory;
use crate::memory::page_up;
use crate::plain_data::PlainData;
use crate::sys;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::translator::context::Context;
use crate::translator::map_lock;
use crate::translator::map_lock::MapLock;
use crate::wire::{self, Head};
use brownout_ring::{self as ring, FileAt, kind};

const PROT_READ: u64 = linux::PROT_READ as u64;
const PROT_WRITE: u64 = linux::PROT_WRITE as u64;
const MAP_SYNC: u64 = 0x80000;
/// Bytes of initial content in one record.
const CONTENT_PIECE: usize = 32 << 10;

/// The target's `mmap` of a candidate.
pub fn map(context: &mut Context, mut map_lock: MapLock, args: [u64; 6]) -> Raw {
    let [_, len, prot, flags, fd, offset] = args;
    let mut real = args;
    real[2] = real_prot(prot);
    if flags & u64::from(linux::MAP_FIXED) != 0 {
        replacing(&mut map_lock, args[0], len);
    }
    // SAFETY: the target's own call with fewer rights.
    let start = unsafe { sys::syscall(linux::__NR_mmap, real) };
    if is_err(start) {
        return start;
    }
    unmapped(context, start, start.saturating_add(len));
    // Access rights and placement aside, the alias is mapped like the original (`MAP_SYNC`).
    let mut twin = args;
    twin[2] = match access_mode(fd as i32) {
        Some(linux::O_RDONLY) => PROT_READ,
        _ => PROT_READ | PROT_WRITE,
    };
    let placement = linux::MAP_POPULATE | linux::MAP_FIXED_NOREPLACE;
    twin[3] = flags & !u64::from(placement) | u64::from(linux::MAP_FIXED);
    let raw = memory::place_alias(len, |addr| {
        twin[0] = addr;
        // If flags are validated, NOREPLACE is refused. A mapping without such flags first shows that the range is free.
        let empty = linux::MAP_PRIVATE
            | linux::MAP_ANONYMOUS
            | linux::MAP_NORESERVE
            | linux::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE leaves anything that is already there alone; what was free before is then replaced.
        unsafe {
            let free = sys::mmap(addr, len, linux::PROT_NONE, empty, -1, 0);
            if is_err(free) {
                return free;
            }
            let raw = sys::syscall(linux::__NR_mmap, twin);
            if is_err(raw) {
                sys::munmap(addr, len);
            }
            raw
        }
    });
    let alias = raw;
    let stat = sys::fstat(fd as i32);
    let (Some(stat), false) = (stat, is_err(raw)) else {
        // SAFETY: unmaps what was just mapped.
        unsafe { sys::munmap(start, len) };
        return if is_err(raw) { raw } else { err(errno::EBADF) };
    };
    let file = FileAt {
        dev: stat.st_dev,
        ino: stat.st_ino,
        offset,
    };
    let mapping = Candidate {
        start,
        end: start + page_up(len),
        delta: alias.wrapping_sub(start),
        file,
        prot,
    };
    let file_len = stat.st_size as u64;
    // Reading a large file takes long. No other thread can use this mapping yet, unless it replaces another.
    let map_lock = map_lock.is_marked().then_some(map_lock);
    announce(
        context,
        &mapping,
        prot as u32,
        flags as u32,
        file_len,
        fd as i32,
    );
    let _map_lock = map_lock.unwrap_or_else(map_lock::acquire);
    candidates::insert(mapping);
    candidates::changed();
    start
}

/// Records the mapping and what the file holds.
fn announce(
    context: &mut Context,
    mapping: &Candidate,
    prot: u32,
    map_flags: u32,
    file_len: u64,
    fd: i32,
) {
    let mut buffer = [0u8; 4096];
    let path = sys::fd_path(fd, &mut buffer).unwrap_or_default();
    let dax = u64::from(map_flags) & MAP_SYNC != 0 || is_dax_file(fd);
    // Content that another mapping of this process covers is known already.
    let end = file_len.min(mapping.file.offset + (mapping.end - mapping.start));
    let covers = |m: &Candidate| {
        m.file.offset <= mapping.file.offset && m.file.offset + (m.end - m.start) >= end
    };
    let known = candidates::of_file(mapping.file.dev, mapping.file.ino)
        .iter()
        .any(covers);
    let payload = ring::Map {
        file: mapping.file,
        len: mapping.end - mapping.start,
        file_len,
        prot,
        map_flags,
        facts: if dax { ring::map::DAX } else { 0 } | if known { 0 } else { ring::map::SNAPSHOT },
        pad: 0,
    };
    let head = Head {
        kind: kind::MAP,
        pc: context.pc,
        addr: mapping.start,
        ..Head::default()
    };
    context.wire.record(head, &[payload.as_bytes(), path]);
    // Who asks for reads does not rebuild the file.
    if !known && !wire::wants_reads() {
        record_content(context, mapping.file, end, fd);
    }
}

/// Records the bytes of a file from `at.offset` to `end`, leaving out holes and zeros.
///
/// This uses the target's own descriptor: closing another one of the same file would drop the locks that the
/// process holds on it.
fn record_content(context: &mut Context, at: FileAt, end: u64, fd: i32) {
    // SAFETY: moves the position of a descriptor, which is restored below.
    let seek =
        |offset: u64, whence: u32| unsafe { crate::sys!(linux::__NR_lseek, fd, offset, whence) };
    let position = seek(0, linux::SEEK_CUR);
    let mut piece = alloc::vec![0u8; CONTENT_PIECE];
    let mut offset = at.offset;
    'data: while offset < end {
        let data = seek(offset, linux::SEEK_DATA);
        if data == err(errno::ENXIO) {
            break;
        }
        if !is_err(data) {
            offset = data;
        }
        let hole = seek(offset, linux::SEEK_HOLE);
        let stop = if is_err(hole) { end } else { hole.min(end) };
        while offset < stop {
            let want = piece.len().min((stop - offset) as usize);
            let got = sys::pread(fd, &mut piece[..want], offset);
            if is_err(got) || got == 0 {
                break 'data;
            }
            let bytes = &piece[..got as usize];
            if bytes.iter().any(|&byte| byte != 0) {
                let place = FileAt { offset, ..at };
                context.wire.record(
                    Head {
                        kind: kind::CONTENT,
                        ..Head::default()
                    },
                    &[place.as_bytes(), bytes],
                );
            }
            offset += got;
        }
    }
    if !is_err(position) {
        seek(position, linux::SEEK_SET);
    }
}
