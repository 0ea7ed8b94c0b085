//! System calls of an execution: those that lead to a station, those whose effect outlives the execution, and those about the id of the
//! process, which is the same in all copies.
//!
//! What it can miss: files that are changed through `io_uring`, and effects on other processes and the system, which the sandbox has to
//! keep away.

use super::page::{self, page, persistent_paths};
use super::{ranges, stations, transitions};
use crate::arch::instruments::pm::syscalls;
use crate::instruments::explore::other_files::named;
use crate::instruments::pm::kernel::{argument_count, stat_at};
use crate::sys::{self, linux, net};
use crate::target_memory::read_cstr;
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use brownout_ring::fuzz::{effect, station};
use core::sync::atomic::{AtomicU32, Ordering};

/// The id that the process takes for its own: that of the one of which it is a copy.
static ID: AtomicU32 = AtomicU32::new(0);

const LONGEST_PATH: usize = 4096;
/// No file, for calls that use a path.
const NO_DIRECTORY: u64 = linux::AT_FDCWD as u32 as u64;

pub fn create() {
    ID.store(sys::getpid(), Ordering::Relaxed);
}

/// A system call is about to be served.
pub fn before(context: &mut Context) {
    let nr = context.cpu.syscall_number() as u32;
    let args = context.cpu.syscall_arguments();
    if !stations::is_passed(station::BEFORE_FILES) && uses_persistent(nr, &args) {
        page::note(effect::PERSISTENT);
        stations::arrive(context, station::BEFORE_FILES);
    }
    if !stations::is_passed(station::BEFORE_INPUT) && uses_input(nr, &args) {
        use_input(context);
    }
    note_sync(context, nr, &args);
    note_effects(nr, &args);
}

/// A call that makes what was stored durable is an operation.
fn note_sync(context: &mut Context, nr: u32, args: &[u64; 6]) {
    let is_of_persistent = match nr {
        linux::__NR_msync => ranges::find(args[0]).is_some_and(|range| range.file.is_some()),
        linux::__NR_fsync | linux::__NR_fdatasync => {
            ranges::persistent_file(args[0] as i32).is_some()
        }
        _ => false,
    };
    if is_of_persistent {
        transitions::note_sync(context, nr);
    }
}

/// The input is about to be used.
pub fn use_input(context: &mut Context) {
    page::note(effect::INPUT);
    if !has_fork_function() {
        stations::arrive(context, station::BEFORE_INPUT);
    }
}

/// Whether the process is copied before a function, and not before it uses the input.
fn has_fork_function() -> bool {
    page().is_some_and(|page| page.fork_at.len.load(Ordering::Relaxed) > 0)
}

/// Calls that read a file or its length, or move its position, by the descriptor in their first argument.
const READS: &[u32] = &[
    linux::__NR_read,
    linux::__NR_pread64,
    linux::__NR_readv,
    linux::__NR_preadv,
    linux::__NR_preadv2,
    linux::__NR_lseek,
    linux::__NR_fstat,
    linux::__NR_statx,
    linux::__NR_newfstatat,
    linux::__NR_copy_file_range,
    linux::__NR_splice,
];

/// Whether a call uses the input.
fn uses_input(nr: u32, args: &[u64; 6]) -> bool {
    let Some(page) = page() else { return false };
    let input = (
        page.input_dev.load(Ordering::Relaxed),
        page.input_ino.load(Ordering::Relaxed),
    );
    let is_input = |stat: linux::stat| (stat.st_dev, stat.st_ino) == input;
    let descriptor = match nr {
        linux::__NR_mmap if args[3] & u64::from(linux::MAP_ANONYMOUS) == 0 => args[4],
        linux::__NR_sendfile => args[1],
        _ if READS.contains(&nr) => args[0],
        _ => NO_DIRECTORY,
    };
    if descriptor as u32 != NO_DIRECTORY as u32 {
        return sys::fstat(descriptor as i32).is_some_and(is_input);
    }
    // A file that is only opened can still change.
    let opens = nr == linux::__NR_openat || syscalls::OPENS.contains(&nr);
    !opens && named(nr, args).is_some_and(|at| stat_at(at, 0).is_some_and(is_input))
}

/// Whether a call names a persistent file, which need not exist.
fn uses_persistent(nr: u32, args: &[u64; 6]) -> bool {
    let Some((directory, path)) = named(nr, args) else {
        return false;
    };
    let text = read_cstr(path, LONGEST_PATH).unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    if text.is_empty() {
        return false;
    }
    let identity = |stat: linux::stat| (stat.st_dev, stat.st_ino);
    let found = stat_at((directory, path), 0).map(identity);
    let (parent, name) = split(text);
    let parent = || stat_of(directory, parent).map(identity);
    persistent_paths().iter().any(|known| {
        let (known_parent, known_name) = split(known);
        match found {
            Some(found) => stat_of(linux::AT_FDCWD, known).map(identity) == Some(found),
            None => {
                name == known_name
                    && parent().is_some()
                    && parent() == stat_of(linux::AT_FDCWD, known_parent).map(identity)
            }
        }
    })
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b".", path),
    }
}

fn stat_of(directory: i32, path: &[u8]) -> Option<linux::stat> {
    let mut text = path.to_vec();
    text.push(0);
    stat_at((directory, text.as_ptr() as u64), 0)
}

/// Calls that change names or attributes of files.
const CHANGE_NAMES: &[u32] = &[
    linux::__NR_unlinkat,
    linux::__NR_renameat,
    linux::__NR_renameat2,
    linux::__NR_linkat,
    linux::__NR_symlinkat,
    linux::__NR_mkdirat,
    linux::__NR_mknodat,
    linux::__NR_truncate,
    linux::__NR_fchmodat,
    linux::__NR_fchmod,
    linux::__NR_fchownat,
    linux::__NR_fchown,
    linux::__NR_utimensat,
    linux::__NR_setxattr,
    linux::__NR_fsetxattr,
    linux::__NR_lsetxattr,
];

/// Calls that write to the file whose descriptor is their first argument, or change its length.
const WRITES: &[u32] = &[
    linux::__NR_write,
    linux::__NR_pwrite64,
    linux::__NR_writev,
    linux::__NR_pwritev,
    linux::__NR_pwritev2,
    linux::__NR_ftruncate,
    linux::__NR_fallocate,
    linux::__NR_sendfile,
];

/// Calls that work on ranges of addresses, or only read memory.
const KEEP_MEMORY: &[u32] = &[
    linux::__NR_mmap,
    linux::__NR_munmap,
    linux::__NR_mprotect,
    linux::__NR_madvise,
    linux::__NR_msync,
    linux::__NR_brk,
    linux::__NR_futex,
    linux::__NR_write,
    linux::__NR_pwrite64,
    linux::__NR_writev,
];

/// Calls that take an array of buffers, or structures that point to some.
const SCATTERED: &[u32] = &[
    linux::__NR_readv,
    linux::__NR_preadv,
    linux::__NR_preadv2,
    linux::__NR_recvmsg,
    linux::__NR_recvmmsg,
    linux::__NR_process_vm_writev,
    linux::__NR_io_uring_enter,
];

/// Notes what of a call outlives the execution.
fn note_effects(nr: u32, args: &[u64; 6]) {
    if WRITES.contains(&nr) {
        return note_write(nr, args[0] as i32);
    }
    match nr {
        linux::__NR_copy_file_range | linux::__NR_splice => note_write(nr, args[2] as i32),
        linux::__NR_openat => note_open(nr, (args[0] as i32, args[1]), args[2]),
        syscalls::CREATE => note_open(nr, (linux::AT_FDCWD, args[0]), u64::from(linux::O_TRUNC)),
        _ if syscalls::OPENS.contains(&nr) => {
            note_open(nr, (linux::AT_FDCWD, args[0]), args[1]);
        }
        _ if CHANGE_NAMES.contains(&nr) || syscalls::CHANGE_NAMES.contains(&nr) => {
            page::note(effect::UNKNOWN_PAGES);
            page::note_files(nr);
        }
        linux::__NR_bind if names_file(args[1]) => page::note_files(nr),
        linux::__NR_clone | linux::__NR_clone3 | linux::__NR_execve | linux::__NR_execveat => {
            note_process(nr, args);
        }
        _ if KEEP_MEMORY.contains(&nr) || !ranges::any() => {}
        _ if SCATTERED.contains(&nr) || ranges::hold_any(&args[..argument_count(nr)]) => {
            page::note(effect::UNKNOWN_PAGES);
        }
        _ => {}
    }
}

/// Whether the address of a socket is the path of a file.
fn names_file(address: u64) -> bool {
    let family = crate::target_memory::read::<u16>(address);
    let first = crate::target_memory::read::<u8>(address + 2);
    family == Ok(net::AF_UNIX as u16) && first.is_ok_and(|first| first != 0)
}

/// Notes that a file is about to be written.
fn note_write(nr: u32, fd: i32) {
    let is_regular =
        |stat: linux::stat| stat.st_mode & linux::S_IFMT == linux::S_IFREG && stat.st_nlink > 0;
    if !sys::fstat(fd).is_some_and(is_regular) {
        return;
    }
    match ranges::persistent_file(fd) {
        Some(_) => page::note(effect::UNKNOWN_PAGES),
        None => page::note_files(nr),
    }
}

/// Notes that a file may be created or truncated.
fn note_open(nr: u32, at: (i32, u64), flags: u64) {
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if !has(linux::O_CREAT | linux::O_TRUNC) {
        return;
    }
    let is_changed = match stat_at(at, 0) {
        None => true,
        Some(stat) => stat.st_mode & linux::S_IFMT == linux::S_IFREG && has(linux::O_TRUNC),
    };
    if is_changed {
        match uses_persistent(linux::__NR_openat, &[at.0 as u64, at.1, 0, 0, 0, 0]) {
            true => page::note(effect::UNKNOWN_PAGES),
            false => page::note_files(nr),
        }
    }
}

/// Notes that another process is about to be started.
fn note_process(nr: u32, args: &[u64; 6]) {
    let flags = match nr {
        linux::__NR_clone => args[0],
        linux::__NR_clone3 => crate::target_memory::read(args[0]).unwrap_or(0),
        _ => 0,
    };
    if flags & u64::from(linux::CLONE_THREAD) == 0 {
        page::note(effect::PROCESSES);
    }
}

/// Makes a call.
pub fn make(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    let id = u64::from(ID.load(Ordering::Relaxed));
    if !stations::is_main() {
        return make(context, nr, args);
    }
    let real = |given: u64| match given {
        _ if given == id => u64::from(sys::getpid()),
        other => other,
    };
    let [a, b, c, d, e, f] = args;
    match nr {
        linux::__NR_getpid => Outcome::Done(id),
        // The first thread has the id of the process.
        linux::__NR_gettid if context.tid == sys::getpid() => Outcome::Done(id),
        linux::__NR_kill | linux::__NR_tkill => make(context, nr, [real(a), b, c, d, e, f]),
        linux::__NR_tgkill => make(context, nr, [real(a), real(b), c, d, e, f]),
        _ => make(context, nr, args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_into_directory_and_name() {
        assert_eq!(split(b"/a/b"), (&b"/a"[..], &b"b"[..]));
        assert_eq!(split(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"a"), (&b"."[..], &b"a"[..]));
    }
}
