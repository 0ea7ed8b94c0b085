//! The candidates: which mappings may be persistent memory, and where their aliases are.

use super::refresh_all;
use crate::context::Context;
use crate::lock::Lock;
use crate::memory::{self, page_down, page_up};
use crate::process::wire_bytes;
use crate::sys::{self, Raw, err, errno, is_err, linux};
use crate::syscall;
use crate::wire::{self, Head};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use brownout_ring::{self as ring, FileAt, kind};
use core::sync::atomic::{AtomicBool, Ordering};

const PROT_READ: u64 = linux::PROT_READ as u64;
const PROT_WRITE: u64 = linux::PROT_WRITE as u64;
const MAP_SYNC: u64 = 0x80000;
/// Bytes of initial content in one record.
const CONTENT_PIECE: usize = 32 << 10;

/// Bytes that an access may begin before a candidate and still end in it.
const REACH: u64 = super::site::AREA as u64;

/// One candidate mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Distance from the program's address to the alias.
    pub delta: u64,
    pub file: FileAt,
    /// Rights that the program has asked for.
    pub prot: u64,
}

impl Mapping {
    /// Whether the engine stands between the program and this kind of access.
    pub fn observes(&self, write: bool) -> bool {
        if write {
            self.prot & PROT_WRITE != 0
        } else {
            wire::wants_loads() && self.prot & PROT_READ != 0
        }
    }
}

static MAPPINGS: Lock<BTreeMap<u64, Mapping>> = Lock::new(BTreeMap::new());
/// Files that this process or its parents have ever mapped as candidates.
static FILES: Lock<BTreeSet<(u64, u64)>> = Lock::new(BTreeSet::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there has been a candidate in this process.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Whether a file has been a candidate.
pub fn is_known_file(dev: u64, ino: u64) -> bool {
    FILES.lock().contains(&(dev, ino))
}

pub fn quiesced<R>(work: impl FnOnce() -> R) -> R {
    let guards = (MAPPINGS.lock(), FILES.lock());
    let result = work();
    drop(guards);
    result
}

/// The mapping around an address.
pub fn find(addr: u64) -> Option<Mapping> {
    let mappings = MAPPINGS.lock();
    let (_, mapping) = mappings.range(..=addr).next_back()?;
    (addr < mapping.end).then_some(*mapping)
}

/// The stretch around an address in which accesses do not touch candidates, not even with their end.
pub fn gap(addr: u64) -> (u64, u64) {
    let mappings = MAPPINGS.lock();
    let start = mappings
        .range(..=addr)
        .next_back()
        .map_or(0, |(_, mapping)| mapping.end);
    let end = mappings
        .range(addr..)
        .next()
        .map_or(u64::MAX, |(&start, _)| start.saturating_sub(REACH));
    (start, end)
}

/// Mappings that overlap a range.
pub fn overlapping(start: u64, end: u64) -> Vec<Mapping> {
    let mappings = MAPPINGS.lock();
    let mut found: Vec<Mapping> = mappings
        .range(..end)
        .rev()
        .take_while(|(_, mapping)| mapping.end > start)
        .map(|(_, m)| *m)
        .collect();
    found.reverse();
    found
}

/// Whether a range touches an alias.
pub fn has_alias_in(start: u64, end: u64) -> bool {
    any()
        && MAPPINGS
            .lock()
            .values()
            .any(|m| m.start.wrapping_add(m.delta) < end && m.end.wrapping_add(m.delta) > start)
}

/// Mappings of a file.
pub fn of_file(dev: u64, ino: u64) -> Vec<Mapping> {
    MAPPINGS
        .lock()
        .values()
        .filter(|m| m.file.dev == dev && m.file.ino == ino)
        .copied()
        .collect()
}

/// Start and length of the smallest range that holds all candidates and accesses that end in them.
pub fn hull() -> (u64, u64) {
    let mappings = MAPPINGS.lock();
    match (mappings.first_key_value(), mappings.last_key_value()) {
        (Some((&start, _)), Some((_, last))) => {
            let start = start.saturating_sub(REACH);
            (start, last.end - start)
        }
        _ => (0, 0),
    }
}

fn changed() {
    let (start, len) = hull();
    refresh_all(start, len);
}

/// Whether a mapping about to be made is a candidate: shared, of a regular file or a DAX device that
/// the program may write.
pub fn is_candidate(prot: u64, flags: u64, fd: i32) -> bool {
    let shared = matches!(flags & 0xf, 1 | 3);
    if !shared || flags & u64::from(linux::MAP_ANONYMOUS) != 0 || fd < 0 {
        return false;
    }
    let Some(stat) = sys::fstat(fd) else {
        return false;
    };
    let kind = stat.st_mode & linux::S_IFMT;
    // SAFETY: asks for flags.
    let mode = unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_GETFL) };
    let writable = !is_err(mode) && mode as u32 & linux::O_ACCMODE == linux::O_RDWR;
    let device = kind == linux::S_IFCHR && is_dax_device(&stat);
    writable
        && (kind == linux::S_IFREG || device)
        && (prot & PROT_WRITE != 0 || prot & PROT_READ != 0)
}

/// A device of the `dax` class.
fn is_dax_device(stat: &linux::stat) -> bool {
    let (major, minor) = (
        (stat.st_rdev >> 8) & 0xfff,
        stat.st_rdev & 0xff | (stat.st_rdev >> 12) & 0xfff00,
    );
    let mut buffer = [0u8; 256];
    let link = alloc::format!("/sys/dev/char/{major}:{minor}/subsystem\0");
    let Ok(name) = core::ffi::CStr::from_bytes_with_nul(link.as_bytes()) else {
        return false;
    };
    // SAFETY: a valid string and a buffer of the stated length.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_readlinkat,
            linux::AT_FDCWD,
            name.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    };
    !is_err(raw) && buffer[..raw as usize].ends_with(b"/dax")
}

/// The rights that the program's own mapping really gets.
fn real_prot(prot: u64) -> u64 {
    if wire::wants_loads() {
        0
    } else {
        prot & !PROT_WRITE
    }
}

/// The program's `mmap` of a candidate.
pub fn map(context: &mut Context, args: [u64; 6]) -> Raw {
    let [_, len, prot, flags, fd, offset] = args;
    let mut real = args;
    real[2] = real_prot(prot);
    // SAFETY: the program's own call with fewer rights.
    let start = unsafe { sys::syscall(linux::__NR_mmap, real) };
    if is_err(start) {
        return start;
    }
    // Access rights and placement aside, the alias is mapped like the original (`MAP_SYNC`).
    let mut twin = args;
    twin[2] = PROT_READ | PROT_WRITE;
    twin[3] = flags & !u64::from(linux::MAP_FIXED | linux::MAP_POPULATE)
        | u64::from(linux::MAP_FIXED_NOREPLACE);
    let raw = memory::place_alias(len, |addr| {
        twin[0] = addr;
        // SAFETY: NOREPLACE leaves anything that is already there alone.
        unsafe { sys::syscall(linux::__NR_mmap, twin) }
    });
    let alias = raw;
    let stat = sys::fstat(fd as i32);
    let (Some(stat), false) = (stat, is_err(raw)) else {
        // SAFETY: takes back what was just mapped.
        unsafe { sys::munmap(start, len) };
        return if is_err(raw) { raw } else { err(errno::EBADF) };
    };
    let file = FileAt {
        dev: stat.st_dev,
        ino: stat.st_ino,
        offset,
    };
    let mapping = Mapping {
        start,
        end: start + page_up(len),
        delta: alias.wrapping_sub(start),
        file,
        prot,
    };
    let file_len = stat.st_size as u64;
    announce(
        context,
        &mapping,
        prot as u32,
        flags as u32,
        file_len,
        fd as i32,
    );
    MAPPINGS.lock().insert(start, mapping);
    FILES.lock().insert((file.dev, file.ino));
    if !ANY.swap(true, Ordering::Relaxed) {
        syscall::attend_all();
    }
    changed();
    start
}

/// Records the mapping and what the file holds.
fn announce(
    context: &mut Context,
    mapping: &Mapping,
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
    let covers = |m: &Mapping| {
        m.file.offset <= mapping.file.offset && m.file.offset + (m.end - m.start) >= end
    };
    let known = of_file(mapping.file.dev, mapping.file.ino)
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
    context.wire.record(head, &[wire_bytes(&payload), path]);
    if !known {
        record_content(context, mapping.file, end, fd);
    }
}

fn is_dax_file(fd: i32) -> bool {
    const STATX_ATTR_DAX: u64 = 0x20_0000;
    let mut statx = core::mem::MaybeUninit::<linux::statx>::zeroed();
    // SAFETY: the kernel writes one `statx`.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_statx,
            fd,
            c"".as_ptr(),
            linux::AT_EMPTY_PATH,
            0,
            statx.as_mut_ptr()
        )
    };
    // SAFETY: zeroed is a valid `statx`.
    !is_err(raw) && unsafe { statx.assume_init() }.stx_attributes & STATX_ATTR_DAX != 0
}

/// Records the bytes of a file from `at.offset` to `end`, leaving out holes and zeros.
///
/// The program's own descriptor serves: closing another one of the same file would drop the locks
/// that the process holds on it.
fn record_content(context: &mut Context, at: FileAt, end: u64, fd: i32) {
    // SAFETY: moves the position of a descriptor, which is put back below.
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
                    &[wire_bytes(&place), bytes],
                );
            }
            offset += got;
        }
    }
    if !is_err(position) {
        seek(position, linux::SEEK_SET);
    }
}

/// The program has unmapped or replaced a range.
pub fn unmapped(context: &mut Context, start: u64, end: u64) {
    if !any() {
        return;
    }
    let (start, end) = (page_down(start), page_up(end));
    let hit = overlapping(start, end);
    if hit.is_empty() {
        return;
    }
    for mapping in hit {
        let (from, to) = (mapping.start.max(start), mapping.end.min(end));
        cut(&mapping, from, to);
        // SAFETY: the program has given up what this is the alias of.
        unsafe { sys::munmap(from.wrapping_add(mapping.delta), to - from) };
        let head = Head {
            kind: kind::UNMAP,
            pc: context.pc,
            addr: from,
            ..Head::default()
        };
        context.wire.record(head, &[&(to - from).to_le_bytes()]);
    }
    changed();
}

/// Takes `[from, to)` out of a mapping in the table.
fn cut(mapping: &Mapping, from: u64, to: u64) {
    let mut mappings = MAPPINGS.lock();
    mappings.remove(&mapping.start);
    if mapping.start < from {
        mappings.insert(
            mapping.start,
            Mapping {
                end: from,
                ..*mapping
            },
        );
    }
    if to < mapping.end {
        let mut file = mapping.file;
        file.offset += to - mapping.start;
        mappings.insert(
            to,
            Mapping {
                start: to,
                file,
                ..*mapping
            },
        );
    }
}

/// The program's `mprotect`, if the range touches a candidate.
pub fn protect(context: &mut Context, args: [u64; 6]) -> Option<Raw> {
    let [addr, len, prot, ..] = args;
    let end = addr.checked_add(page_up(len))?;
    if !any() || addr != page_down(addr) {
        return None;
    }
    let hit = overlapping(addr, end);
    if hit.is_empty() {
        return None;
    }
    let mut at = addr;
    let set = |from: u64, to: u64, prot: u64| {
        if from < to {
            // SAFETY: the program's own call, in parts.
            unsafe { crate::sys!(linux::__NR_mprotect, from, to - from, prot) }
        } else {
            0
        }
    };
    for mapping in hit {
        let (from, to) = (mapping.start.max(addr), mapping.end.min(end));
        for raw in [set(at, from, prot), set(from, to, real_prot(prot))] {
            if is_err(raw) {
                return Some(raw);
            }
        }
        cut(&mapping, from, to);
        let mut file = mapping.file;
        file.offset += from - mapping.start;
        MAPPINGS.lock().insert(
            from,
            Mapping {
                start: from,
                end: to,
                file,
                prot,
                ..mapping
            },
        );
        let writable = u16::from(prot & PROT_WRITE != 0);
        let head = Head {
            kind: kind::PROTECT,
            flags: writable,
            pc: context.pc,
            addr: from,
            ..Head::default()
        };
        context.wire.record(head, &[&(to - from).to_le_bytes()]);
        at = to;
    }
    let raw = set(at, end, prot);
    changed();
    Some(raw)
}

/// The program's `mremap`, if it concerns a candidate.
pub fn remap(context: &mut Context, args: [u64; 6]) -> Option<Raw> {
    let [old, old_len, new_len, flags, target, _] = args;
    let mapping = if any() { find(old)? } else { return None };
    // SAFETY: the program's own call.
    let raw = unsafe { sys::syscall(linux::__NR_mremap, args) };
    if is_err(raw) {
        return Some(raw);
    }
    let (old_len, new_len) = (page_up(old_len), page_up(new_len));
    if flags & u64::from(linux::MREMAP_FIXED) != 0 {
        unmapped(context, target, target + new_len);
    }
    let moved = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
    let old_alias = old.wrapping_add(mapping.delta);
    let alias = memory::place_alias(new_len, |addr| {
        // SAFETY: the alias follows the original. A fixed mremap replaces what is there, so the range
        // is first shown to be free.
        unsafe {
            let flags = linux::MAP_PRIVATE
                | linux::MAP_ANONYMOUS
                | linux::MAP_NORESERVE
                | linux::MAP_FIXED_NOREPLACE;
            let free = sys::mmap(addr, new_len, linux::PROT_NONE, flags, -1, 0);
            if is_err(free) {
                return free;
            }
            crate::sys!(linux::__NR_mremap, old_alias, old_len, new_len, moved, addr)
        }
    });
    if is_err(alias) {
        crate::fatal::unsupported(format_args!(
            "the engine could not follow mremap of {old:#x} (error {})",
            -(alias as i64)
        ));
    }
    let keeps_old = old_len == 0 || flags & u64::from(linux::MREMAP_DONTUNMAP) != 0;
    if !keeps_old {
        cut(&mapping, old, (old + old_len).min(mapping.end));
    }
    let mut file = mapping.file;
    file.offset += old - mapping.start;
    let new = Mapping {
        start: raw,
        end: raw + new_len,
        delta: alias.wrapping_sub(raw),
        file,
        ..mapping
    };
    MAPPINGS.lock().insert(raw, new);
    let head = Head {
        kind: kind::REMAP,
        pc: context.pc,
        addr: old,
        ..Head::default()
    };
    context.wire.record(
        head,
        &[
            &old_len.to_le_bytes(),
            &raw.to_le_bytes(),
            &new_len.to_le_bytes(),
        ],
    );
    changed();
    Some(raw)
}
