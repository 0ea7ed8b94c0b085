//! System calls of an explored process: which of them leave the copies of the process independent of each other.
//!
//! Calls that are not known to do so end the branch. What a process writes to its standard output and error goes to its
//! mailbox.

use super::{STATE, file_reads, mailbox, other_files, read_calls};
use crate::arch::instruments::pm::emulate::load_bytes;
use crate::arch::instruments::pm::syscalls;
use crate::arch::translator::syscalls::SET_THREAD_POINTER;
use crate::instruments::explore;
use crate::instruments::pm::candidates;
use crate::instruments::pm::kernel::{argument_count, stat_at};
use crate::sys;
use crate::sys::{err, errno, is_err, linux};
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use alloc::vec::Vec;
use brownout_ring::explore::shared_effect;

/// Calls that read or change only what a fork copies.
const PRIVATE: &[u32] = &[
    linux::__NR_rt_sigreturn,
    linux::__NR_getpid,
    linux::__NR_getppid,
    linux::__NR_gettid,
    linux::__NR_getuid,
    linux::__NR_geteuid,
    linux::__NR_getgid,
    linux::__NR_getegid,
    linux::__NR_sched_yield,
    linux::__NR_exit,
    linux::__NR_exit_group,
    linux::__NR_brk,
    linux::__NR_fsync,
    linux::__NR_fdatasync,
    linux::__NR_uname,
    linux::__NR_sysinfo,
    linux::__NR_times,
    linux::__NR_chdir,
    linux::__NR_fchdir,
    linux::__NR_umask,
    linux::__NR_set_tid_address,
    linux::__NR_close,
    linux::__NR_munmap,
    linux::__NR_sigaltstack,
    linux::__NR_getrusage,
    linux::__NR_clock_gettime,
    linux::__NR_clock_getres,
    linux::__NR_gettimeofday,
    linux::__NR_getcwd,
    linux::__NR_set_robust_list,
    linux::__NR_fstat,
    linux::__NR_statfs,
    linux::__NR_fstatfs,
    linux::__NR_msync,
    linux::__NR_getrandom,
    linux::__NR_sched_getaffinity,
    linux::__NR_faccessat,
    linux::__NR_rt_sigaction,
    linux::__NR_rt_sigprocmask,
    linux::__NR_rseq,
    linux::__NR_prlimit64,
    linux::__NR_newfstatat,
    linux::__NR_faccessat2,
    linux::__NR_readlinkat,
    linux::__NR_statx,
    linux::__NR_mmap,
];

/// The request of `ioctl` that asks for the attributes of a terminal.
const TCGETS: u64 = 0x5401;
const STANDARD_OUTPUT: u64 = 1;
const STANDARD_ERROR: u64 = 2;

/// Ends the branch if the call that the process is about to make could disturb other branches.
pub fn check(context: &mut Context) {
    let nr = context.cpu.syscall_number() as u32;
    let args = context.cpu.syscall_arguments();
    // Open bytes are decided before the process reads them, not before the kernel does.
    let reads_candidate =
        !BY_ADDRESS.contains(&nr) && points_to_candidate(&args[..argument_count(nr)]);
    if reads_candidate || !is_private(nr, &args) {
        mailbox::give_up(shared_effect::CALL, nr);
    }
    other_files::note(nr, &args);
    match nr {
        linux::__NR_mmap => file_reads::before_map(context, &args),
        linux::__NR_munmap => file_reads::unmapped(args[0], args[1]),
        _ => {}
    }
}

/// Calls that work on ranges of addresses, not on what is there, and those whose input is read by the runtime.
const BY_ADDRESS: &[u32] = &[
    linux::__NR_mmap,
    linux::__NR_munmap,
    linux::__NR_mprotect,
    linux::__NR_madvise,
    linux::__NR_msync,
    linux::__NR_brk,
    linux::__NR_write,
    linux::__NR_writev,
];

fn points_to_candidate(args: &[u64]) -> bool {
    args.iter().any(|&arg| candidates::find(arg).is_some())
}

fn is_private(nr: u32, args: &[u64; 6]) -> bool {
    let [a, b, c, ..] = *args;
    match nr {
        _ if PRIVATE.contains(&nr) || syscalls::LOOKS_UP.contains(&nr) => true,
        SET_THREAD_POINTER => true,
        linux::__NR_write | linux::__NR_writev => is_output(a) || is_discarded(a),
        linux::__NR_openat => is_private_open(a as i32, b, c),
        _ if nr != syscalls::CREATE && syscalls::OPENS.contains(&nr) => {
            is_private_open(linux::AT_FDCWD, a, b)
        }
        linux::__NR_read
        | linux::__NR_pread64
        | linux::__NR_readv
        | linux::__NR_preadv
        | linux::__NR_preadv2 => read_calls::is_private(nr, args),
        linux::__NR_sendfile => {
            is_output(a) && explored_size(b).is_some() && read_calls::is_private(nr, args)
        }
        // The kernel refuses to copy to anything else.
        linux::__NR_copy_file_range => !is_regular(c),
        linux::__NR_lseek | linux::__NR_getdents64 => has_own_position(a),
        // To wait for another process is not possible.
        linux::__NR_flock => b as u32 & (linux::LOCK_NB | linux::LOCK_UN) != 0,
        linux::__NR_ftruncate => explored_size(a) == Some(b),
        linux::__NR_fallocate => {
            let end = c.checked_add(args[3]);
            b == 0 && explored_size(a).is_some_and(|size| end.is_some_and(|end| end <= size))
        }
        linux::__NR_mprotect | linux::__NR_madvise => !explored_range(a, b),
        linux::__NR_fcntl => {
            matches!(b as u32, linux::F_GETFD | linux::F_SETFD | linux::F_GETFL)
        }
        // Asks whether a descriptor is a terminal.
        linux::__NR_ioctl => b == TCGETS,
        linux::__NR_futex => matches!(b as u32 & 0x7f, linux::FUTEX_WAKE),
        linux::__NR_kill | linux::__NR_tgkill => a == u64::from(STATE.lock().id),
        linux::__NR_prctl => a == u64::from(linux_raw_sys::prctl::PR_SET_NAME),
        _ => false,
    }
}

/// Whether opening a file changes nothing outside of the process, and neither this nor reading from it has to wait. Files may
/// be opened for writing: explored ones are only written through mappings, which are private, and a call that writes to another file is
/// not private.
fn is_private_open(directory: i32, path: u64, flags: u64) -> bool {
    let truncates = flags & u64::from(linux::O_TRUNC) != 0;
    let Some(stat) = stat_at((directory, path), 0) else {
        // There is nothing to open, but it may be created.
        return flags & u64::from(linux::O_CREAT) == 0 && !truncates;
    };
    let is_read = flags as u32 & linux::O_ACCMODE == linux::O_RDONLY;
    match stat.st_mode & linux::S_IFMT {
        linux::S_IFCHR if DISCARDING.contains(&stat.st_rdev) => true,
        linux::S_IFREG => !truncates,
        linux::S_IFIFO => false,
        _ => is_read && !truncates,
    }
}

/// The numbers of the devices that take what is written and do nothing with it: `/dev/null` and `/dev/zero`.
const DISCARDING: [u64; 2] = [1 << 8 | 3, 1 << 8 | 5];

/// Whether what is written to a descriptor is gone.
fn is_discarded(fd: u64) -> bool {
    sys::fstat(fd as i32).is_some_and(|stat| {
        stat.st_mode & linux::S_IFMT == linux::S_IFCHR && DISCARDING.contains(&stat.st_rdev)
    })
}

/// Whether no other process shares the position of a descriptor.
pub fn has_own_position(fd: u64) -> bool {
    let state = STATE.lock();
    fd > STANDARD_ERROR && (!state.was_forked || state.own_descriptors.contains(&(fd as u32)))
}

/// Whether a descriptor is one of those whose output goes to the mailbox.
fn is_output(fd: u64) -> bool {
    matches!(fd, STANDARD_OUTPUT | STANDARD_ERROR)
}

fn is_regular(fd: u64) -> bool {
    sys::fstat(fd as i32).is_some_and(|stat| stat.st_mode & linux::S_IFMT == linux::S_IFREG)
}

/// The size of an explored file that is open. To give it that size again, or storage, changes nothing that a branch can see.
fn explored_size(fd: u64) -> Option<u64> {
    let stat = sys::fstat(fd as i32)?;
    let mut state = STATE.lock();
    state.file_of(stat.st_dev, stat.st_ino)?;
    Some(stat.st_size as u64)
}

/// Whether a range touches the mapping of an explored file.
fn explored_range(start: u64, len: u64) -> bool {
    let end = start.saturating_add(len);
    let state = STATE.lock();
    state
        .files
        .iter()
        .any(|file| file.mappings.touch(start, end))
}

/// Makes a call that was checked.
pub fn make(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    match nr {
        linux::__NR_getpid | linux::__NR_gettid => Outcome::Done(u64::from(STATE.lock().id)),
        linux::__NR_getppid => Outcome::Done(u64::from(STATE.lock().parent)),
        linux::__NR_kill | linux::__NR_tgkill => make(context, nr, to_this_process(nr, args)),
        linux::__NR_read
        | linux::__NR_pread64
        | linux::__NR_readv
        | linux::__NR_preadv
        | linux::__NR_preadv2
        | linux::__NR_sendfile => match read_calls::read(context, nr, &args) {
            Some(raw) => Outcome::Done(raw),
            None => make(context, nr, args),
        },
        linux::__NR_write | linux::__NR_writev if !is_output(args[0]) => make(context, nr, args),
        linux::__NR_write => Outcome::Done(put(context, args[0], &[(args[1], args[2])])),
        linux::__NR_writev => match buffers(context, args[1], args[2]) {
            Some(buffers) => Outcome::Done(put(context, args[0], &buffers)),
            None => Outcome::Done(err(errno::EFAULT)),
        },
        _ if nr == linux::__NR_openat || syscalls::OPENS.contains(&nr) => {
            let outcome = make(context, nr, args);
            if let Outcome::Done(raw) = outcome
                && !is_err(raw)
            {
                STATE.lock().own_descriptors.insert(raw as u32);
            }
            outcome
        }
        linux::__NR_close => {
            let mut state = STATE.lock();
            state.own_descriptors.remove(&(args[0] as u32));
            state.locks.release(args[0] as u32);
            drop(state);
            make(context, nr, args)
        }
        linux::__NR_flock => flock(context, args, make),
        _ => make(context, nr, args),
    }
}

/// Locks a file, or unlocks it. Which locks there are is up to the system as long as the process is the only one.
fn flock(
    context: &mut Context,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    let [fd, operation, ..] = args;
    let Some(stat) = sys::fstat(fd as i32) else {
        return make(context, linux::__NR_flock, args);
    };
    if !STATE.lock().was_forked
        && let Outcome::Done(raw) = make(context, linux::__NR_flock, args)
        && is_err(raw)
    {
        return Outcome::Done(raw);
    }
    let file = (stat.st_dev, stat.st_ino);
    Outcome::Done(STATE.lock().locks.apply(fd as u32, file, operation as u32))
}

/// The arguments of a call that sends a signal to this process, with the ids that it really has.
fn to_this_process(nr: u32, args: [u64; 6]) -> [u64; 6] {
    let [_, b, c, d, e, f] = args;
    let second = match nr {
        linux::__NR_tgkill if b == u64::from(STATE.lock().id) => u64::from(sys::gettid()),
        _ => b,
    };
    [u64::from(sys::getpid()), second, c, d, e, f]
}

/// The buffers of a call that takes an array of them.
pub fn buffers(context: &mut Context, at: u64, count: u64) -> Option<Vec<(u64, u64)>> {
    (0..count.min(1024))
        .map(|index| {
            let mut words = [0u8; 16];
            read(context, at + 16 * index, &mut words)?;
            let word = |from: usize| {
                u64::from_le_bytes(words[from..from + 8].try_into().unwrap_or_default())
            };
            Some((word(0), word(8)))
        })
        .collect()
}

/// Puts what the process writes to a standard stream into its mailbox. The result of the call.
fn put(context: &mut Context, stream: u64, buffers: &[(u64, u64)]) -> u64 {
    let mut done = 0;
    for &(start, len) in buffers {
        let mut bytes = alloc::vec![0u8; len.min(1 << 20) as usize];
        if read(context, start, &mut bytes).is_none() {
            return if done > 0 { done } else { err(errno::EFAULT) };
        }
        mailbox::put_output(stream as u8, &bytes);
        done += len;
    }
    done
}

/// Reads memory of the process, open bytes included.
fn read(context: &mut Context, at: u64, bytes: &mut [u8]) -> Option<()> {
    explore::before_read(context, at, bytes.len() as u64);
    load_bytes(at, bytes).ok()
}
