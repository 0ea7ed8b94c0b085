//! Writes to a candidate's file through descriptors, and changes of its length.

use crate::arch::instruments::pm::syscalls;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::plain_data::PlainData;
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::context::Context;
use crate::wire::Head;
use crate::{memory, target_memory};
use brownout_ring::{FileAt, kind};

/// The file that a call writes to or resizes.
#[derive(Clone, Copy)]
pub struct WriteTarget {
    pub fd: i32,
    /// Before the call.
    pub stat: linux::stat,
    /// It is a candidate's file.
    pub is_candidate: bool,
}

/// The descriptor of the file that a call writes to or resizes.
fn descriptor(nr: u32, args: &[u64; 6]) -> Option<i32> {
    Some(match nr {
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
    } as i32)
}

/// The file that a call is about to write to or resize.
pub fn write_target(nr: u32, args: &[u64; 6]) -> Option<WriteTarget> {
    let fd = descriptor(nr, args)?;
    let stat = sys::fstat(fd)?;
    Some(WriteTarget {
        fd,
        stat,
        is_candidate: candidates::is_known_file(stat.st_dev, stat.st_ino),
    })
}

/// Records what a call did to a candidate's file.
pub fn record_written(
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
    let caller = calling_context::context_of(context);
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
                target_memory::read::<u64>(args[3])
                    .unwrap_or(raw)
                    .wrapping_sub(raw),
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
    let mappings = candidates::of_file(file.dev, file.ino);
    let mut reader = None;
    let mut offset = start;
    while offset < end {
        let len = (memory::PAGE - (offset & 4095)).min(end - offset) as usize;
        let mut bytes = [0u8; 4096];
        let holds = |m: &&candidates::Candidate| {
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
            stripe.lock();
            if target_memory::read_into(address.wrapping_add(mapping.delta), &mut bytes[..len])
                == len
            {
                context
                    .wire
                    .record(head, &[place.as_bytes(), &bytes[..len]]);
            }
            stripe.unlock();
        } else if let Some(fd) = fd
            && let Some(reader) = reader.get_or_insert_with(|| Reader::of(fd))
            && sys::pread(reader.fd, &mut bytes[..len], offset) == len as u64
        {
            context
                .wire
                .record(head, &[place.as_bytes(), &bytes[..len]]);
        }
        offset += len as u64;
    }
}

/// A descriptor through which a file can be read: the target's own if it is readable, because closing another one
/// would drop the locks that the process holds on the file.
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
    let caller = calling_context::context_of(context);
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
    context.wire.record(head, &[place.as_bytes()]);
}

/// Calls that change a file by its name, or its memory by advice.
pub fn changed_otherwise(context: &mut Context, nr: u32, args: &[u64; 6], raw: u64) {
    let stat = match nr {
        linux::__NR_truncate => {
            let mut stat = core::mem::MaybeUninit::<linux::stat>::zeroed();
            // SAFETY: the target's path, which the kernel has just used; the kernel writes one `stat`.
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
        linux::__NR_openat if args[2] & u64::from(linux::O_TRUNC) != 0 => sys::fstat(raw as i32),
        linux::__NR_madvise if args[2] == u64::from(linux::MADV_REMOVE) => {
            let caller = calling_context::context_of(context);
            let (start, end) = (args[0], args[0].saturating_add(args[1]));
            for mapping in candidates::overlapping(start, end) {
                let offset = |address: u64| mapping.file.offset + (address - mapping.start);
                let (from, to) = (
                    offset(mapping.start.max(start)),
                    offset(mapping.end.min(end)),
                );
                record_file(context, nr, caller, mapping.file, from, to, None);
            }
            None
        }
        _ if syscalls::truncates(nr, args) => sys::fstat(raw as i32),
        _ => None,
    };
    if let Some(stat) = stat.filter(|stat| candidates::is_known_file(stat.st_dev, stat.st_ino)) {
        record_resize(context, nr, &stat);
    }
}
