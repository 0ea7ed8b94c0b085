//! System calls without a safe wrapper.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

use crate::arch::{Registers, system_call};

/// Which side of a fork this is.
pub enum Fork {
    Parent(Pid),
    Child,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Whether this process has no thread but the calling one, which forking relies on.
fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Forks into new namespaces; the child is the first process of a new PID namespace if that is among them.
pub fn fork_into(namespaces: c_int) -> io::Result<Fork> {
    if !is_single_threaded() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let flags = (namespaces | libc::SIGCHLD) as c_ulong;
    // SAFETY: without CLONE_VM and with no stack given this is a fork: the child runs on its own copy of this
    // stack. No other thread exists, so that no lock is held in the copy by a thread that is not there.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    Ok(match Pid::from_raw(pid as c_int) {
        Some(child) => Fork::Parent(child),
        None => Fork::Child,
    })
}

/// Takes over a descriptor that this process inherited from the one that started it; `None` if it is not open. Must be
/// called once for each number, before anything else can have opened a descriptor.
pub fn take_inherited(number: c_int) -> Option<OwnedFd> {
    // SAFETY: F_GETFD touches no memory and fails for a number that is not open.
    let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    // SAFETY: the descriptor is open, and was before this process opened any, so that nothing else owns it.
    (number > 2 && is_open).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends a signal to every process of the PID namespace but its first, which must be the caller.
pub fn signal_namespace(signal: c_int) -> io::Result<()> {
    assert!(
        std::process::id() == 1,
        "only the first process of a namespace may do this"
    );
    // SAFETY: touches no memory.
    check(unsafe { libc::kill(-1, signal) }.into()).map(drop)
}

/// Restores the default action of signals that this process inherited as ignored, for example from `nohup` or a shell.
/// `SIGPIPE` is left alone: Rust ignores it in this process and restores it in the processes that it starts.
pub fn restore_ignored_signals() {
    for signal in (1..=libc::SIGSYS).filter(|&signal| signal != libc::SIGPIPE) {
        // SAFETY: an all-zero `sigaction` is a valid value, and both calls get pointers that live across the call. No
        // handler is installed, and for signals that cannot be changed the calls fail.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            if known && action.sa_sigaction == libc::SIG_IGN {
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// A descriptor that can be read when a child has ended or stopped. Blocks `SIGCHLD`, which it replaces, and `SIGTTOU`.
pub fn child_events() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero `sigset_t` is a valid value, and each call gets a pointer to it that lives across the call.
    let descriptor = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        libc::sigaddset(&raw mut signals, libc::SIGTTOU);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()).into())?;
        libc::sigdelset(&raw mut signals, libc::SIGTTOU);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        check(libc::signalfd(-1, &raw const signals, flags).into())?
    };
    // SAFETY: the kernel has just made this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

/// Runs `start` with no signal blocked, so that the processes that it starts inherit an empty mask. The end of a child in
/// the meantime is not lost if children are polled before [`child_events`] is waited for.
pub fn with_open_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero `sigset_t` is a valid value, and each call gets pointers that live across the call. The mask of
    // this thread is restored at the end.
    let before = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, &raw mut before);
        before
    };
    let started = start();
    // SAFETY: the pointer is to a mask that the kernel has written.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    started
}

/// Makes this process's group the foreground group of a terminal again.
pub fn take_terminal(terminal: BorrowedFd<'_>) {
    // SAFETY: an all-zero `sigset_t` is a valid value, and each call gets pointers that live across the call. The mask of
    // this thread is restored at the end.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut before);
        // Fails if this is not a terminal; then there is nothing to do.
        libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpgrp());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// Makes the mount at `mount_point` read-only, with those below it if `recursive`.
pub fn make_read_only(mount_point: BorrowedFd<'_>, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let mut flags = libc::AT_EMPTY_PATH;
    if recursive {
        flags |= libc::AT_RECURSIVE;
    }
    let empty: &CStr = c"";
    // SAFETY: the path and the attributes live across the call, and the size is that of the attributes.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount_point.as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Brings up `lo` of this network namespace.
pub fn bring_up_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an all-zero `ifreq` is a valid value: numbers, and a name that ends at once.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: this request reads one `ifreq`, which lives across the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}

/// Removes all System V shared memory, semaphores and message queues of this IPC namespace, which must be the caller's
/// own.
pub fn remove_system_v_ipc() {
    // The kernel numbers the objects from 0 on. The *_INFO calls return the highest number in use, or 0 if there is none;
    // the latter costs one failing call of *_STAT.
    // SAFETY: each call writes at most one structure of the type that it is documented to write, and gets a pointer to
    // such a one, all-zero, which is a valid value of it.
    unsafe {
        let mut info: libc::shmid_ds = std::mem::zeroed();
        let mut totals: SharedMemoryTotals = std::mem::zeroed();
        let highest = libc::shmctl(0, SHM_INFO, (&raw mut totals).cast());
        for number in 0..=highest {
            let id = libc::shmctl(number, SHM_STAT, &raw mut info);
            if id >= 0 {
                libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            }
        }
        let mut totals: libc::seminfo = std::mem::zeroed();
        let mut set: libc::semid_ds = std::mem::zeroed();
        let highest = libc::semctl(0, 0, libc::SEM_INFO, &raw mut totals);
        for number in 0..=highest {
            let id = libc::semctl(number, 0, libc::SEM_STAT, &raw mut set);
            if id >= 0 {
                libc::semctl(id, 0, libc::IPC_RMID);
            }
        }
        let mut totals: libc::msginfo = std::mem::zeroed();
        let mut queue: libc::msqid_ds = std::mem::zeroed();
        let highest = libc::msgctl(0, libc::MSG_INFO, (&raw mut totals).cast());
        for number in 0..=highest {
            let id = libc::msgctl(number, libc::MSG_STAT, &raw mut queue);
            if id >= 0 {
                libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut());
            }
        }
    }
}

/// `<linux/shm.h>`.
const SHM_INFO: c_int = 14;
/// `<linux/shm.h>`.
const SHM_STAT: c_int = 13;

/// `struct shm_info` of `<linux/shm.h>`.
#[repr(C)]
struct SharedMemoryTotals {
    used_ids: c_int,
    pages: [c_ulong; 5],
}

/// The system call that a stopped thread is in, by number; `None` if it is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall(pub Option<u64>);

fn ptrace(request: c_uint, pid: Pid, address: usize, data: *mut c_void) -> io::Result<c_long> {
    // SAFETY: every caller in this file passes as `data` a number, or a pointer to a value of the type that the request
    // writes, which lives across the call. `address` is a number for each of them.
    check(unsafe { libc::ptrace(request, pid.as_raw_nonzero().get(), address, data) })
}

/// A number as the last argument of `ptrace`.
fn number(value: c_int) -> *mut c_void {
    std::ptr::without_provenance_mut(value as usize)
}

/// Starts to trace a child and all processes that it starts; they are killed if the tracer ends.
pub fn seize(child: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    ptrace(libc::PTRACE_SEIZE, child, 0, number(options)).map(drop)
}

/// Resumes a stopped thread, with a signal if that is not 0.
pub fn resume(thread: Pid, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, thread, 0, number(signal)).map(drop)
}

/// Leaves a thread stopped as it would be without a tracer.
pub fn leave_stopped(thread: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, thread, 0, number(0)).map(drop)
}

/// Stops a thread.
pub fn interrupt(thread: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, thread, 0, number(0)).map(drop)
}

/// The message of an event stop.
pub fn event_message(thread: Pid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    ptrace(
        libc::PTRACE_GETEVENTMSG,
        thread,
        0,
        (&raw mut message).cast(),
    )?;
    Ok(message)
}

/// The registers of a stopped thread.
pub fn registers(thread: Pid) -> io::Result<(Registers, SystemCall)> {
    // SAFETY: all-zero is a valid value of a structure of numbers.
    let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, thread, 0, (&raw mut user).cast())?;
    Ok((Registers::from(&user), SystemCall(system_call(&user))))
}
