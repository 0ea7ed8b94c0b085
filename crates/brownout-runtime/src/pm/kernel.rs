//! What system calls do to candidates: the kernel's writes into them, writes to their files through
//! descriptors, and write-back.
//!
//! Results that the kernel would write into a candidate go to a buffer first and are then stored like
//! any other store, so that order and value hold against other threads. Calls without an entry in
//! [`OUTPUTS`] work on the alias, and what they changed is found by comparing, unless they are known to write
//! nothing.

use super::{calls, lock_stripe, mappings, unlock_stripe};
use crate::context::Context;
use crate::process::wire_bytes;
use crate::sys::{self, is_err, linux};
use crate::syscall::{Outcome, native};
use crate::wire::{self, Head};
use crate::{guest, memory};
use alloc::vec::Vec;
use brownout_ring::{self as ring, FileAt, kind};

/// How many bytes the kernel writes at an argument.
#[derive(Clone, Copy)]
enum Extent {
    /// As many as the result says, at most what another argument allows.
    Result {
        limit: usize,
    },
    Fixed(u64),
    /// The result times this, at most another argument times this.
    Elements {
        count: usize,
        size: u64,
    },
    /// Another argument times this.
    Array {
        count: usize,
        size: u64,
    },
}

/// System call, argument, extent.
const OUTPUTS: &[(u32, usize, Extent)] = &[
    (linux::__NR_read, 1, Extent::Result { limit: 2 }),
    (linux::__NR_pread64, 1, Extent::Result { limit: 2 }),
    (linux::__NR_recvfrom, 1, Extent::Result { limit: 2 }),
    (linux::__NR_getrandom, 0, Extent::Result { limit: 1 }),
    (linux::__NR_getcwd, 0, Extent::Result { limit: 1 }),
    (linux::__NR_readlink, 1, Extent::Result { limit: 2 }),
    (linux::__NR_readlinkat, 2, Extent::Result { limit: 3 }),
    (linux::__NR_getdents64, 1, Extent::Result { limit: 2 }),
    (linux::__NR_getxattr, 2, Extent::Result { limit: 3 }),
    (linux::__NR_fgetxattr, 2, Extent::Result { limit: 3 }),
    (
        linux::__NR_sched_getaffinity,
        2,
        Extent::Result { limit: 1 },
    ),
    (linux::__NR_uname, 0, Extent::Fixed(390)),
    (linux::__NR_stat, 1, Extent::Fixed(144)),
    (linux::__NR_fstat, 1, Extent::Fixed(144)),
    (linux::__NR_lstat, 1, Extent::Fixed(144)),
    (linux::__NR_newfstatat, 2, Extent::Fixed(144)),
    (linux::__NR_statx, 4, Extent::Fixed(256)),
    (linux::__NR_clock_gettime, 1, Extent::Fixed(16)),
    (linux::__NR_gettimeofday, 0, Extent::Fixed(16)),
    (linux::__NR_time, 0, Extent::Fixed(8)),
    (linux::__NR_sysinfo, 0, Extent::Fixed(112)),
    (linux::__NR_times, 0, Extent::Fixed(32)),
    (linux::__NR_getrusage, 1, Extent::Fixed(144)),
    (linux::__NR_wait4, 1, Extent::Fixed(4)),
    (linux::__NR_pipe, 0, Extent::Fixed(8)),
    (linux::__NR_pipe2, 0, Extent::Fixed(8)),
    (
        linux::__NR_epoll_wait,
        1,
        Extent::Elements { count: 2, size: 12 },
    ),
    (
        linux::__NR_epoll_pwait,
        1,
        Extent::Elements { count: 2, size: 12 },
    ),
    (linux::__NR_poll, 0, Extent::Array { count: 1, size: 8 }),
];

/// Calls whose arguments are addresses to be managed, not memory to be used.
const BY_ADDRESS: &[u32] = &[
    linux::__NR_madvise,
    linux::__NR_msync,
    linux::__NR_mlock,
    linux::__NR_mlock2,
    linux::__NR_munlock,
    linux::__NR_mincore,
    linux::__NR_mbind,
    linux::__NR_set_mempolicy,
    linux::__NR_process_madvise,
    linux::__NR_userfaultfd,
];

/// Calls that write no memory of the program, whatever the registers hold: comparing would take another
/// thread's stores for the kernel's.
const SILENT: &[u32] = &[
    linux::__NR_write,
    linux::__NR_pwrite64,
    linux::__NR_sendto,
    linux::__NR_open,
    linux::__NR_openat,
    linux::__NR_close,
    linux::__NR_lseek,
    linux::__NR_access,
    linux::__NR_faccessat,
    linux::__NR_unlink,
    linux::__NR_unlinkat,
    linux::__NR_rename,
    linux::__NR_mkdir,
    linux::__NR_fsync,
    linux::__NR_fdatasync,
    linux::__NR_sync,
    linux::__NR_syncfs,
    linux::__NR_sync_file_range,
    linux::__NR_ftruncate,
    linux::__NR_fallocate,
    linux::__NR_flock,
    linux::__NR_sched_yield,
    linux::__NR_pause,
    linux::__NR_getpid,
    linux::__NR_gettid,
    linux::__NR_getppid,
    linux::__NR_kill,
    linux::__NR_tgkill,
    linux::__NR_membarrier,
];

/// Bytes compared around an argument of a call that is not in the table.
const WINDOW: u64 = 4096;

/// Makes a call of the program that the engine has no other interest in.
pub fn syscall(context: &mut Context, nr: u32, args: [u64; 6]) -> Outcome {
    if !mappings::any() {
        return native(u64::from(nr), &args);
    }
    let mut call = Call {
        nr,
        args,
        bounces: Vec::new(),
        scattered: Vec::new(),
        windows: Vec::new(),
        structures: Vec::new(),
        headers: Vec::new(),
    };
    call.redirect();
    let target = written_file(nr, &args);
    let outcome = native(u64::from(nr), &call.args);
    if let Outcome::Done(raw) = outcome {
        call.finish(context, raw);
        if !is_err(raw) {
            if let Some((fd, stat)) = target {
                file_written(context, nr, &args, raw, fd, &stat);
            }
            changed_otherwise(context, nr, &args, raw);
            synchronized(context, nr, &args);
        }
    }
    outcome
}

/// A result that goes to a buffer first.
struct Bounce {
    /// Where the program wants it.
    to: u64,
    buffer: Vec<u8>,
    extent: Extent,
}

struct Call {
    nr: u32,
    args: [u64; 6],
    bounces: Vec<Bounce>,
    /// Buffers that are filled one after the other: where the program has them, their length, and ours
    /// for those in candidates.
    scattered: Vec<(u64, u64, Option<Vec<u8>>)>,
    /// Memory before the call: program address, alias, bytes.
    windows: Vec<(u64, u64, Vec<u8>)>,
    /// Rewritten structures, kept alive for the call.
    structures: Vec<Vec<u64>>,
    /// Message headers: the program's, and ours in `structures`.
    headers: Vec<(u64, usize)>,
}

impl Call {
    /// Replaces arguments that point into candidates.
    fn redirect(&mut self) {
        if BY_ADDRESS.contains(&self.nr) || self.is_plain_futex() {
            return;
        }
        match self.nr {
            linux::__NR_readv
            | linux::__NR_preadv
            | linux::__NR_preadv2
            | linux::__NR_process_vm_readv => {
                self.redirect_vector(1, true);
            }
            linux::__NR_writev | linux::__NR_pwritev | linux::__NR_pwritev2 => {
                self.redirect_vector(1, false)
            }
            linux::__NR_process_vm_writev if self.args[0] == u64::from(sys::getpid()) => {
                self.redirect_vector(3, true)
            }
            linux::__NR_recvmsg | linux::__NR_sendmsg => {
                let at = self.args[1];
                if let Some(copy) = self.redirect_message(at, self.nr == linux::__NR_recvmsg) {
                    self.args[1] = copy;
                }
            }
            _ => {}
        }
        for index in 0..6 {
            let address = self.args[index];
            let Some(mapping) = mappings::find(address) else {
                continue;
            };
            let known = OUTPUTS
                .iter()
                .find(|&&(nr, argument, _)| nr == self.nr && argument == index);
            match known {
                Some(&(_, _, extent)) if mapping.observes(true) => self.bounce(index, extent),
                _ => self.window(index, &mapping),
            }
        }
        if self.nr == linux::__NR_recvmmsg {
            self.redirect_messages();
        }
    }

    /// Waiting on a word needs no right to write it, and both sides must use the same address.
    fn is_plain_futex(&self) -> bool {
        self.nr == linux::__NR_futex && !wire::wants_loads()
    }

    fn bounce(&mut self, index: usize, extent: Extent) {
        let len = match extent {
            Extent::Result { limit } => self.args[limit],
            Extent::Fixed(len) => len,
            Extent::Elements { count, size } | Extent::Array { count, size } => {
                u64::from(self.args[count] as u32) * size
            }
        };
        // Longer requests than memory could hold fail in the kernel anyway.
        let mut buffer = alloc::vec![0u8; len.min(1 << 30) as usize];
        let to = self.args[index];
        if matches!(extent, Extent::Array { .. }) {
            read(to, &mut buffer);
        }
        self.args[index] = buffer.as_mut_ptr() as u64;
        if let Extent::Result { limit } = extent {
            self.args[limit] = buffer.len() as u64;
        }
        self.bounces.push(Bounce { to, buffer, extent });
    }

    fn window(&mut self, index: usize, mapping: &mappings::Mapping) {
        let address = self.args[index];
        let alias = address.wrapping_add(mapping.delta);
        self.args[index] = alias;
        if !SILENT.contains(&self.nr) {
            self.watch(address, mapping);
        }
    }

    /// Remembers what is at `address`, to find what the kernel changes.
    fn watch(&mut self, address: u64, mapping: &mappings::Mapping) {
        let alias = address.wrapping_add(mapping.delta);
        let mut before = alloc::vec![0u8; WINDOW.min(mapping.end - address) as usize];
        let got = guest::read_into(alias, &mut before);
        before.truncate(got);
        if mapping.observes(true) {
            self.windows.push((address, alias, before));
        }
    }

    /// Rewrites an array of buffers: candidates go to buffers of ours, or to their aliases.
    fn redirect_buffers(&mut self, at: u64, count: u64, output: bool) -> Option<u64> {
        let mut bytes = alloc::vec![0u8; count.min(1024) as usize * 16];
        if !read(at, &mut bytes) {
            return None;
        }
        let mut vector: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        for entry in vector.chunks_exact_mut(2) {
            let mapping = mappings::find(entry[0]);
            let bounced = output
                && mapping
                    .as_ref()
                    .is_some_and(|mapping| mapping.observes(true));
            let mut buffer = bounced.then(|| alloc::vec![0u8; entry[1].min(1 << 30) as usize]);
            if output {
                let place = buffer.as_mut().map(|buffer| buffer.as_mut_ptr() as u64);
                self.scattered.push((entry[0], entry[1], buffer));
                entry[0] = place.unwrap_or(entry[0]);
            } else if let Some(mapping) = mapping {
                entry[0] = entry[0].wrapping_add(mapping.delta);
            }
        }
        Some(self.keep(vector))
    }

    fn keep(&mut self, structure: Vec<u64>) -> u64 {
        let at = structure.as_ptr() as u64;
        self.structures.push(structure);
        at
    }

    fn redirect_vector(&mut self, index: usize, output: bool) {
        if let Some(vector) = self.redirect_buffers(self.args[index], self.args[index + 1], output)
        {
            self.args[index] = vector;
        }
    }

    /// A copy of a `struct msghdr` (seven words) with all that it points to out of candidates.
    fn redirect_message(&mut self, at: u64, output: bool) -> Option<u64> {
        let mut header = read_header(at)?;
        header[2] = self.redirect_buffers(header[2], header[3], output)?;
        for pointer in [0, 4] {
            if let Some(mapping) = mappings::find(header[pointer]) {
                self.watch(header[pointer], &mapping);
                header[pointer] = header[pointer].wrapping_add(mapping.delta);
            }
        }
        let copy = self.keep(header.to_vec());
        if output {
            self.headers.push((at, self.structures.len() - 1));
        }
        Some(copy)
    }

    /// `recvmmsg`: an array of headers, each with a count behind it. Its buffers work on their aliases.
    fn redirect_messages(&mut self) {
        const STRIDE: u64 = 64;
        for index in 0..self.args[2].min(1024) {
            let at = self.args[1] + index * STRIDE;
            let Some(header) = read_header(at) else {
                return;
            };
            let mut bytes = alloc::vec![0u8; header[3].min(1024) as usize * 16];
            if !read(header[2], &mut bytes) {
                return;
            }
            let mut vector: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
                .collect();
            for entry in vector.chunks_exact_mut(2) {
                if let Some(mapping) = mappings::find(entry[0]) {
                    self.watch(entry[0], &mapping);
                    entry[0] = entry[0].wrapping_add(mapping.delta);
                }
            }
            let copy = self.keep(vector);
            // The header is at its alias by now, or the program's own; the kernel reads the pointer from
            // it, and `finish` puts it back.
            if guest::write(at + 16, &copy).is_ok() {
                self.structures
                    .push(alloc::vec![RESTORE, at + 16, header[2]]);
            }
        }
    }

    /// After the call: stores results where the program wanted them.
    fn finish(&mut self, context: &mut Context, raw: u64) {
        for structure in &self.structures {
            if let [RESTORE, at, value] = structure[..] {
                // It could be written a moment ago.
                let _ = guest::write(at, &value);
            }
        }
        let result = if is_err(raw) { 0 } else { raw };
        for bounce in core::mem::take(&mut self.bounces) {
            let len = match bounce.extent {
                _ if is_err(raw) => 0,
                Extent::Result { .. } => raw,
                Extent::Fixed(len) => len,
                Extent::Elements { size, .. } => raw * size,
                Extent::Array { .. } => bounce.buffer.len() as u64,
            };
            let len = (len as usize).min(bounce.buffer.len());
            write(context, self.nr, bounce.to, &bounce.buffer[..len]);
        }
        let mut left = result;
        for (to, len, buffer) in core::mem::take(&mut self.scattered) {
            let filled = len.min(left);
            left -= filled;
            if let Some(buffer) = buffer {
                write(context, self.nr, to, &buffer[..filled as usize]);
            }
        }
        for (at, index) in core::mem::take(&mut self.headers) {
            let header = &self.structures[index];
            // Length of the name, length of control data, flags.
            for (field, len) in [(1, 4), (5, 8), (6, 4)] {
                let value = header[field].to_le_bytes();
                // The program's header could be read a moment ago.
                let _ = put(context, at + 8 * field as u64, &value[..len]);
            }
        }
        for (address, alias, before) in core::mem::take(&mut self.windows) {
            record_changes(context, self.nr, address, alias, &before);
        }
    }
}

/// Reads the program's memory, candidates included. False if that cannot be done.
fn read(at: u64, bytes: &mut [u8]) -> bool {
    super::emulate::load_bytes(at, bytes).is_ok()
}

fn read_header(at: u64) -> Option<[u64; 7]> {
    let mut bytes = [0u8; 56];
    read(at, &mut bytes).then(|| {
        core::array::from_fn(|word| {
            u64::from_le_bytes(bytes[8 * word..8 * word + 8].try_into().unwrap_or_default())
        })
    })
}

/// Marks an entry of `Call::structures` that tells what to put back.
const RESTORE: u64 = u64::MAX;

/// Writes the result of a call that the runtime serves itself.
pub fn put(context: &mut Context, to: u64, bytes: &[u8]) -> Result<(), guest::Fault> {
    if mappings::any() && mappings::find(to).is_some_and(|mapping| mapping.observes(true)) {
        let nr = context.gpr[crate::context::reg::RAX] as u32;
        write(context, nr, to, bytes);
        return Ok(());
    }
    guest::write_bytes(to, bytes)
}

/// Writes a plain value as [`put`] does.
pub fn put_value<T: Copy>(context: &mut Context, to: u64, value: &T) -> Result<(), guest::Fault> {
    // SAFETY: callers pass plain structures of integers.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) };
    put(context, to, bytes)
}

/// Stores bytes that the kernel produced.
fn write(context: &mut Context, nr: u32, to: u64, bytes: &[u8]) {
    let caller = calls::context_of(context);
    let mut done = 0;
    while done < bytes.len() {
        let at = to + done as u64;
        let len = (4096 - (at & 4095) as usize).min(bytes.len() - done);
        let piece = &bytes[done..done + len];
        done += len;
        let Some(mapping) = mappings::find(at).filter(|mapping| mapping.observes(true)) else {
            // Past the mapping: whatever is there, the kernel would have written it.
            let _ = guest::write_bytes(at, piece);
            continue;
        };
        let stripe = mapping.stripe(at);
        lock_stripe(stripe);
        if guest::write_bytes(at.wrapping_add(mapping.delta), piece).is_ok() {
            record(context, nr, caller, at, piece);
        }
        unlock_stripe(stripe);
    }
}

fn record(context: &mut Context, nr: u32, caller: u32, addr: u64, bytes: &[u8]) {
    let head = Head {
        kind: kind::KERNEL_WRITE,
        flags: nr as u16,
        pc: context.pc,
        context: caller,
        addr,
    };
    context.wire.record(head, &[bytes]);
    context.dirty = 1;
}

fn record_changes(context: &mut Context, nr: u32, address: u64, alias: u64, before: &[u8]) {
    let mut after = alloc::vec![0u8; before.len()];
    guest::read_into(alias, &mut after);
    if after == before {
        return;
    }
    let caller = calls::context_of(context);
    let mut index = 0;
    while index < before.len() {
        let start = index;
        while index < before.len() && before[index] != after[index] {
            index += 1;
        }
        if index > start {
            record(
                context,
                nr,
                caller,
                address + start as u64,
                &after[start..index],
            );
        }
        index += 1;
    }
}

/// The descriptor that a call writes to, if it is of a candidate's file.
fn written_file(nr: u32, args: &[u64; 6]) -> Option<(i32, linux::stat)> {
    let fd = match nr {
        linux::__NR_write
        | linux::__NR_pwrite64
        | linux::__NR_writev
        | linux::__NR_pwritev
        | linux::__NR_pwritev2
        | linux::__NR_sendfile
        | linux::__NR_ftruncate
        | linux::__NR_fallocate => args[0],
        linux::__NR_copy_file_range | linux::__NR_splice => args[2],
        _ => return None,
    } as i32;
    let stat = sys::fstat(fd)?;
    mappings::is_known_file(stat.st_dev, stat.st_ino).then_some((fd, stat))
}

/// Records what a call did to a candidate's file.
fn file_written(
    context: &mut Context,
    nr: u32,
    args: &[u64; 6],
    raw: u64,
    fd: i32,
    before: &linux::stat,
) {
    let Some(stat) = sys::fstat(fd) else { return };
    let file = FileAt {
        dev: stat.st_dev,
        ino: stat.st_ino,
        offset: 0,
    };
    let caller = calls::context_of(context);
    if stat.st_size != before.st_size {
        record_resize(context, nr, &stat);
    }
    let position = |fd: i32| {
        // SAFETY: asks for the position.
        let raw = unsafe { crate::sys!(linux::__NR_lseek, fd, 0, linux::SEEK_CUR) };
        if is_err(raw) { 0 } else { raw }
    };
    let end = stat.st_size as u64;
    let (start, len) = match nr {
        linux::__NR_ftruncate => return,
        linux::__NR_fallocate => {
            const PLAIN: u64 = linux::FALLOC_FL_KEEP_SIZE as u64;
            match args[1] {
                0 | PLAIN => return,
                mode if mode
                    & u64::from(
                        linux::FALLOC_FL_COLLAPSE_RANGE | linux::FALLOC_FL_INSERT_RANGE,
                    )
                    != 0 =>
                {
                    (args[2], end.saturating_sub(args[2]))
                }
                _ => (args[2], args[3]),
            }
        }
        linux::__NR_pwrite64 => (args[3], raw),
        linux::__NR_pwritev | linux::__NR_pwritev2 if args[3] as i64 != -1 => (args[3], raw),
        linux::__NR_copy_file_range | linux::__NR_splice if args[3] != 0 => {
            // The offset has been advanced past what was written.
            (
                guest::read::<u64>(args[3]).unwrap_or(raw).wrapping_sub(raw),
                raw,
            )
        }
        _ => (position(fd).wrapping_sub(raw), raw),
    };
    record_file(
        context,
        nr,
        caller,
        file,
        start,
        (start + len).min(end),
        Some(fd),
    );
}

/// Records the bytes of a file between two offsets, as they are now: from its mappings, or else through
/// a descriptor.
fn record_file(
    context: &mut Context,
    nr: u32,
    caller: u32,
    file: FileAt,
    start: u64,
    end: u64,
    fd: Option<i32>,
) {
    let mappings = mappings::of_file(file.dev, file.ino);
    let reader = fd.filter(|_| mappings.is_empty()).and_then(Reader::of);
    let mut offset = start;
    while offset < end {
        let len = (memory::PAGE - (offset & 4095)).min(end - offset) as usize;
        let mut bytes = [0u8; 4096];
        let holds = |m: &&mappings::Mapping| {
            (m.file.offset..m.file.offset + (m.end - m.start)).contains(&offset)
        };
        let place = FileAt { offset, ..file };
        let head = Head {
            kind: kind::FILE_WRITE,
            flags: nr as u16,
            pc: context.pc,
            context: caller,
            addr: 0,
        };
        if let Some(mapping) = mappings.iter().find(holds) {
            let address = mapping.start + (offset - mapping.file.offset);
            let stripe = mapping.stripe(address);
            lock_stripe(stripe);
            if guest::read_into(address.wrapping_add(mapping.delta), &mut bytes[..len]) == len {
                context
                    .wire
                    .record(head, &[wire_bytes(&place), &bytes[..len]]);
            }
            unlock_stripe(stripe);
        } else if let Some(reader) = &reader
            && sys::pread(reader.fd, &mut bytes[..len], offset) == len as u64
        {
            context
                .wire
                .record(head, &[wire_bytes(&place), &bytes[..len]]);
        }
        offset += len as u64;
    }
}

/// A descriptor through which a file can be read: the program's own if that will do, because closing
/// another one would drop the locks that the process holds on the file.
struct Reader {
    fd: i32,
    own: bool,
}

impl Reader {
    fn of(fd: i32) -> Option<Reader> {
        if !is_err(sys::pread(fd, &mut [0u8; 1], 0)) {
            return Some(Reader { fd, own: false });
        }
        let mut name = [0u8; 32];
        let own = sys::open(
            sys::fd_link(fd, &mut name),
            linux::O_RDONLY | linux::O_CLOEXEC,
        );
        (!is_err(own)).then_some(Reader {
            fd: own as i32,
            own: true,
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.own {
            sys::close(self.fd);
        }
    }
}

/// Records a file's new length.
fn record_resize(context: &mut Context, nr: u32, stat: &linux::stat) {
    let caller = calls::context_of(context);
    let place = FileAt {
        dev: stat.st_dev,
        ino: stat.st_ino,
        offset: stat.st_size as u64,
    };
    let head = Head {
        kind: kind::FILE_RESIZE,
        flags: nr as u16,
        pc: context.pc,
        context: caller,
        addr: 0,
    };
    context.wire.record(head, &[wire_bytes(&place)]);
}

/// Calls that change a file by its name, or its memory by advice.
fn changed_otherwise(context: &mut Context, nr: u32, args: &[u64; 6], raw: u64) {
    let stat = match nr {
        linux::__NR_truncate => {
            let mut stat = core::mem::MaybeUninit::<linux::stat>::zeroed();
            // SAFETY: the program's path, which the kernel has just used; the kernel writes one `stat`.
            let raw = unsafe {
                crate::sys!(
                    linux::__NR_newfstatat,
                    linux::AT_FDCWD,
                    args[0],
                    stat.as_mut_ptr(),
                    0
                )
            };
            // SAFETY: zeroed is a valid `stat`.
            (!is_err(raw)).then(|| unsafe { stat.assume_init() })
        }
        linux::__NR_open if args[1] & u64::from(linux::O_TRUNC) != 0 => sys::fstat(raw as i32),
        linux::__NR_openat if args[2] & u64::from(linux::O_TRUNC) != 0 => sys::fstat(raw as i32),
        linux::__NR_creat => sys::fstat(raw as i32),
        linux::__NR_madvise if args[2] == u64::from(linux::MADV_REMOVE) => {
            let caller = calls::context_of(context);
            let (start, end) = (args[0], args[0].saturating_add(args[1]));
            for mapping in mappings::overlapping(start, end) {
                let offset = |address: u64| mapping.file.offset + (address - mapping.start);
                let (from, to) = (
                    offset(mapping.start.max(start)),
                    offset(mapping.end.min(end)),
                );
                record_file(context, nr, caller, mapping.file, from, to, None);
            }
            None
        }
        _ => None,
    };
    if let Some(stat) = stat.filter(|stat| mappings::is_known_file(stat.st_dev, stat.st_ino)) {
        record_resize(context, nr, &stat);
    }
}

/// Records write-back of candidates.
fn synchronized(context: &mut Context, nr: u32, args: &[u64; 6]) {
    let nowhere = FileAt {
        dev: 0,
        ino: 0,
        offset: 0,
    };
    match nr {
        linux::__NR_msync => {
            let [addr, len, flags, ..] = *args;
            if !mappings::overlapping(addr, addr.saturating_add(len)).is_empty() {
                let kind = if flags & u64::from(linux::MS_SYNC) != 0 {
                    0
                } else {
                    ring::sync::ASYNC
                };
                sync(context, ring::sync::MSYNC | kind, addr, nowhere, len);
            }
        }
        linux::__NR_fsync | linux::__NR_fdatasync | linux::__NR_sync_file_range => {
            let Some(stat) = sys::fstat(args[0] as i32) else {
                return;
            };
            if mappings::of_file(stat.st_dev, stat.st_ino).is_empty() {
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
            for mapping in mappings::overlapping(0, u64::MAX) {
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

fn sync(context: &mut Context, flags: u16, addr: u64, file: FileAt, len: u64) {
    let caller = calls::context_of(context);
    let head = Head {
        kind: kind::SYNC,
        flags,
        pc: context.pc,
        context: caller,
        addr,
    };
    context
        .wire
        .record(head, &[wire_bytes(&ring::Sync { file, len })]);
}
