//! System calls that can wait: they give the thread's turn away until what they wait for has happened.
//!
//! Calls on descriptors are made once a descriptor is ready, which is looked at whenever another thread gets its turn: what
//! one thread writes, another reads at the same point in each run. Other calls that can wait are made while other threads run,
//! and end when the kernel says so.

use super::client;
use super::clock;
use super::interrupted;
use super::switch::{are_ready, is_alone, outside, wait};
use super::turns::{Wait, WaitedDescriptor, Wakeup};
use crate::arch::instruments::schedule::syscalls;
use crate::instruments::pm::kernel::stat_at;
use crate::sys::{self, Raw, is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use alloc::vec::Vec;

const IN: u16 = linux::POLLIN as u16;
const OUT: u16 = linux::POLLOUT as u16;
const PRIORITY: u16 = linux::POLLPRI as u16;
/// Bytes that a descriptor which is ready takes without waiting.
const ATOMIC: u64 = 4096;
const MILLISECOND: u64 = 1_000_000;

/// Calls that read from their first argument.
const READS: &[u32] = &[
    linux::__NR_read,
    linux::__NR_readv,
    linux::__NR_recvfrom,
    linux::__NR_recvmsg,
    linux::__NR_recvmmsg,
    linux::__NR_accept,
    linux::__NR_accept4,
];
/// Calls that write to their first argument.
const WRITES: &[u32] = &[
    linux::__NR_write,
    linux::__NR_writev,
    linux::__NR_sendto,
    linux::__NR_sendmsg,
    linux::__NR_sendmmsg,
];
/// Calls that the kernel ends.
const OUTSIDE: &[u32] = &[
    linux::__NR_wait4,
    linux::__NR_waitid,
    linux::__NR_flock,
    linux::__NR_semop,
    linux::__NR_semtimedop,
    linux::__NR_msgrcv,
    linux::__NR_msgsnd,
    linux::__NR_mq_timedreceive,
    linux::__NR_mq_timedsend,
    linux::__NR_rt_sigsuspend,
    linux::__NR_rt_sigtimedwait,
    syscalls::PAUSE,
    linux::__NR_connect,
    linux::__NR_sendfile,
    linux::__NR_splice,
    linux::__NR_tee,
    linux::__NR_vmsplice,
    linux::__NR_io_getevents,
    linux::__NR_io_pgetevents,
    linux::__NR_io_uring_enter,
];

/// Calls that name the descriptors they wait for, and that may not be attended otherwise.
const SETS: &[u32] = &[syscalls::POLL, syscalls::SELECT, syscalls::EPOLL_WAIT];

/// Calls that are served here.
pub const CALLS: [&[u32]; 4] = [READS, WRITES, OUTSIDE, SETS];

/// Makes a call, which may wait.
pub fn serve(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    let [first, second, third, fourth, fifth, sixth] = args;
    match nr {
        syscalls::POLL => match polled(first, second) {
            Some(descriptors) => {
                let timeout = milliseconds(third);
                let mut args = args;
                args[2] = 0;
                until_ready(context, descriptors, timeout, |it| make(it, nr, args))
            }
            None => make(context, nr, args),
        },
        linux::__NR_ppoll if fourth == 0 => {
            let (Some(descriptors), Ok(timeout)) = (polled(first, second), timespec(third)) else {
                return make(context, nr, args);
            };
            let none = [0u64; 2];
            let mut args = args;
            args[2] = none.as_ptr() as u64;
            until_ready(context, descriptors, timeout, |it| make(it, nr, args))
        }
        syscalls::SELECT | linux::__NR_pselect6 if nr == syscalls::SELECT || sixth == 0 => {
            let timeout = match nr {
                syscalls::SELECT => timeval(fifth),
                _ => timespec(fifth),
            };
            let sets = [(second, IN), (third, OUT), (fourth, PRIORITY)];
            let (Some(descriptors), Ok(timeout)) = (selected(first, sets), timeout) else {
                return make(context, nr, args);
            };
            let none = [0u64; 2];
            let mut args = args;
            args[4] = none.as_ptr() as u64;
            until_ready(context, descriptors, timeout, |it| make(it, nr, args))
        }
        syscalls::EPOLL_WAIT | linux::__NR_epoll_pwait
            if nr == syscalls::EPOLL_WAIT || fifth == 0 =>
        {
            let mut args = args;
            args[3] = 0;
            let timeout = milliseconds(fourth);
            until_ready(context, one(first, IN), timeout, |it| make(it, nr, args))
        }
        linux::__NR_epoll_pwait2 if fifth == 0 => {
            let Ok(timeout) = timespec(fourth) else {
                return make(context, nr, args);
            };
            let none = [0u64; 2];
            let mut args = args;
            args[3] = none.as_ptr() as u64;
            until_ready(context, one(first, IN), timeout, |it| make(it, nr, args))
        }
        // With a mask of signals, the kernel has to wait: only it can put the mask in force.
        linux::__NR_ppoll
        | linux::__NR_pselect6
        | linux::__NR_epoll_pwait
        | linux::__NR_epoll_pwait2 => outside(context, |it| make(it, nr, args)),
        _ if READS.contains(&nr) => transfer(context, first, IN, |it| make(it, nr, args)),
        _ if WRITES.contains(&nr) => match !is_alone() && is_long(nr, &args) {
            true => outside(context, |it| make(it, nr, args)),
            false => transfer(context, first, OUT, |it| make(it, nr, args)),
        },
        linux::__NR_wait4 if third as u32 & linux::WNOHANG != 0 => make(context, nr, args),
        linux::__NR_waitid if fourth as u32 & linux::WNOHANG != 0 => make(context, nr, args),
        _ if OUTSIDE.contains(&nr) || is_locking(nr, second) || opens_pipe(nr, &args) => {
            outside(context, |it| make(it, nr, args))
        }
        _ => make(context, nr, args),
    }
}

fn one(fd: u64, events: u16) -> Vec<WaitedDescriptor> {
    alloc::vec![WaitedDescriptor {
        fd: fd as i32,
        events,
        happened: 0,
    }]
}

/// Waits for one of the descriptors, at most until `timeout` is over, and then makes the call, which does not wait.
fn until_ready(
    context: &mut Context,
    descriptors: Vec<WaitedDescriptor>,
    timeout: Option<u64>,
    make: impl FnOnce(&mut Context) -> Outcome,
) -> Outcome {
    let deadline = timeout.and_then(clock::after);
    // Another thread may have taken what has arrived.
    while timeout != Some(0) && !are_ready(&descriptors) {
        let awaited = Wait {
            descriptors: descriptors.clone(),
            deadline,
            ..Wait::default()
        };
        match wait(context, awaited) {
            Wakeup::Happened => {}
            Wakeup::TimedOut => break,
            Wakeup::Interrupted => return interrupted(context, false),
        }
    }
    make(context)
}

/// Waits until a descriptor is ready, unless the target does not want to wait for it, and then makes the call.
fn transfer(
    context: &mut Context,
    fd: u64,
    events: u16,
    make: impl FnOnce(&mut Context) -> Outcome,
) -> Outcome {
    let descriptors = one(fd, events);
    // A thread that is alone keeps nobody from running but the client. Another thread may have taken what has arrived.
    while (!is_alone() || client::is_wanted()) && !are_ready(&descriptors) && waits(fd) {
        let awaited = Wait {
            descriptors: descriptors.clone(),
            ..Wait::default()
        };
        if wait(context, awaited) == Wakeup::Interrupted {
            return interrupted(context, true);
        }
    }
    make(context)
}

/// Whether a call on a descriptor waits until the descriptor is ready.
fn waits(fd: u64) -> bool {
    // SAFETY: asks for flags.
    let flags = unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_GETFL) };
    !is_err(flags) && flags as u32 & linux::O_NONBLOCK == 0
}

/// Whether a write may wait in the middle: to a pipe or socket that does not have room for everything.
fn is_long(nr: u32, args: &[u64; 6]) -> bool {
    let len = match nr {
        linux::__NR_write | linux::__NR_sendto => args[2],
        // The lengths of the pieces are not added up.
        _ => u64::MAX,
    };
    let takes_parts = |stat: linux::stat| {
        let kind = stat.st_mode & linux::S_IFMT;
        kind == linux::S_IFIFO || kind == linux::S_IFSOCK
    };
    len > ATOMIC && sys::fstat(args[0] as i32).is_some_and(takes_parts) && waits(args[0])
}

/// Whether a call waits for a lock of a file.
fn is_locking(nr: u32, command: u64) -> bool {
    let waiting = [linux::F_SETLKW, linux::F_OFD_SETLKW];
    nr == linux::__NR_fcntl && waiting.contains(&(command as u32))
}

/// Whether a call opens a named pipe, which waits for the other end.
fn opens_pipe(nr: u32, args: &[u64; 6]) -> bool {
    let (path, flags) = match nr {
        linux::__NR_openat => ((args[0] as i32, args[1]), args[2]),
        syscalls::OPEN => ((linux::AT_FDCWD, args[0]), args[1]),
        _ => return false,
    };
    let is_pipe = |stat: linux::stat| stat.st_mode & linux::S_IFMT == linux::S_IFIFO;
    flags as u32 & linux::O_NONBLOCK == 0 && stat_at(path, 0).is_some_and(is_pipe)
}

/// A number of milliseconds, of which a negative one is endless.
fn milliseconds(value: u64) -> Option<u64> {
    let value = u64::try_from(value as i32).ok()?;
    Some(value * MILLISECOND)
}

/// The time at `at`, which is endless if there is none.
fn timespec(at: u64) -> Result<Option<u64>, Raw> {
    match at {
        0 => Ok(None),
        _ => clock::nanoseconds(at).map(Some),
    }
}

/// As [`timespec`] for a `timeval`.
fn timeval(at: u64) -> Result<Option<u64>, Raw> {
    if at == 0 {
        return Ok(None);
    }
    let fault = |_| sys::err(sys::errno::EFAULT);
    let [seconds, micros] = target_memory::read::<[u64; 2]>(at).map_err(fault)?;
    let nanos = micros.saturating_mul(1000);
    Ok(Some(
        seconds
            .saturating_mul(1000 * MILLISECOND)
            .saturating_add(nanos),
    ))
}

/// The descriptors of `poll`; `None` if they cannot be read.
fn polled(at: u64, count: u64) -> Option<Vec<WaitedDescriptor>> {
    let count = u32::try_from(count)
        .ok()
        .filter(|&count| count <= 1 << 16)?;
    let read = |index: u32| target_memory::read(at + 8 * u64::from(index)).ok();
    (0..count).map(read).collect()
}

/// The descriptors of `select`; `None` if they cannot be read.
fn selected(count: u64, sets: [(u64, u16); 3]) -> Option<Vec<WaitedDescriptor>> {
    let mut found: Vec<WaitedDescriptor> = Vec::new();
    for (set, events) in sets.into_iter().filter(|&(set, _)| set != 0) {
        for fd in 0..count.min(1 << 16) {
            let word: u64 = target_memory::read(set + fd / 64 * 8).ok()?;
            if word >> (fd % 64) & 1 != 0 {
                found.extend(one(fd, events));
            }
        }
    }
    Some(found)
}
