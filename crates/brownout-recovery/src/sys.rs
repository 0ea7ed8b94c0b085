//! System calls and numbers that rustix does not have. Together with `arch`, this is the only file of the crate that uses
//! libc; all others use rustix.

use std::ffi::{CStr, OsStr, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitIdOptions, WaitOptions, WaitStatus};

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

/// Lets the programs that this process starts have the same addresses each time, where the system permits that.
pub fn disable_address_randomization() {
    // SAFETY: changes attributes of this process only.
    unsafe {
        let present = libc::personality(0xffff_ffff);
        if present >= 0 {
            libc::personality((present | libc::ADDR_NO_RANDOMIZE) as c_ulong);
        }
    }
}

/// Waits for all children. Threads of traced processes are children too.
pub const ALL_CHILDREN: WaitOptions = WaitOptions::from_bits_retain(libc::__WALL as u32);
/// The same for `waitid`.
pub const ALL_CHILDREN_BY_ID: WaitIdOptions = WaitIdOptions::from_bits_retain(libc::__WALL as u32);

/// Kinds of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    Mount,
    Pid,
    Ipc,
    User,
    Network,
}

impl Namespace {
    fn flag(self) -> c_int {
        match self {
            Self::Mount => libc::CLONE_NEWNS,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::User => libc::CLONE_NEWUSER,
            Self::Network => libc::CLONE_NEWNET,
        }
    }
}

/// Forks into new namespaces; the child is the first process of a new PID namespace if that is among them.
pub fn fork_into(namespaces: &[Namespace]) -> io::Result<Fork> {
    if !is_single_threaded() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let namespaces = namespaces.iter().map(|namespace| namespace.flag());
    let flags = namespaces.fold(libc::SIGCHLD, |flags, flag| flags | flag) as c_ulong;
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
    if number <= 2 {
        return None;
    }
    // SAFETY: the descriptor is used for one call, which fails for a number that is not open and changes nothing.
    let is_open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
    // SAFETY: the descriptor is open, and was before this process opened any, so that nothing else owns it.
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends a signal to every process of the PID namespace but its first, which must be the caller.
pub fn signal_namespace(signal: Signal) -> io::Result<()> {
    assert!(
        std::process::id() == 1,
        "only the first process of a namespace may do this"
    );
    // SAFETY: touches no memory.
    check(unsafe { libc::kill(-1, signal.as_raw()) }.into()).map(drop)
}

/// Sets an environment variable of this process, which has no other thread yet.
pub fn set_variable(name: &str, value: &OsStr) {
    // SAFETY: the only caller is an engine host before it starts its first thread, so nothing reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
}

/// Kills every process of the PID namespace but its first and this one. To be called only in a namespace of a sandbox.
pub fn kill_others() {
    // SAFETY: touches no memory.
    unsafe { libc::kill(-1, libc::SIGKILL) };
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
    // SAFETY: an all-zero `sigset_t` is a valid value: the empty set.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    let before = change_mask(libc::SIG_SETMASK, &none);
    let started = start();
    change_mask(libc::SIG_SETMASK, &before);
    started
}

/// Makes this process's group the foreground group of a terminal again.
pub fn take_terminal(terminal: BorrowedFd<'_>) {
    // A process of the background that changes the foreground group is stopped by SIGTTOU unless it is blocked.
    // SAFETY: an all-zero `sigset_t` is a valid value, and each call gets a pointer to it that lives across the call.
    let signals = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTTOU);
        signals
    };
    let before = change_mask(libc::SIG_BLOCK, &signals);
    // Fails if this is not a terminal; then there is nothing to do.
    let _ = rustix::termios::tcsetpgrp(terminal, rustix::process::getpgrp());
    change_mask(libc::SIG_SETMASK, &before);
}

/// Changes the signal mask of this thread; the mask before.
fn change_mask(how: c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: an all-zero `sigset_t` is a valid value, and both pointers live across the call.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(how, signals, &raw mut before);
        before
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

/// The system call that a stopped thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// It is in none.
    None,
    /// It waits for a process.
    Wait,
    /// It waits for a thread.
    Futex,
    /// It ends the process.
    ExitGroup,
    /// It ends the thread.
    Exit,
    Other,
}

impl SystemCall {
    fn of(number: Option<u64>) -> Self {
        match number.map(|number| number as c_long) {
            None => Self::None,
            Some(libc::SYS_wait4 | libc::SYS_waitid) => Self::Wait,
            Some(libc::SYS_futex) => Self::Futex,
            Some(libc::SYS_exit_group) => Self::ExitGroup,
            Some(libc::SYS_exit) => Self::Exit,
            Some(_) => Self::Other,
        }
    }
}

/// What a thread waits for that sleeps in a system call without a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndlessWait {
    /// Another thread or process.
    Others,
    /// That data can be read from this descriptor or written to it.
    Transfer(u64),
}

impl EndlessWait {
    /// `None` for a system call with these arguments that ends by itself, or is not known here.
    pub fn of(number: i64, arguments: &[u64]) -> Option<Self> {
        let &[first, second, _, fourth, ..] = arguments else {
            return None;
        };
        let is_endless = match number {
            libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_flock => true,
            libc::SYS_futex => {
                let waits = [
                    libc::FUTEX_WAIT,
                    libc::FUTEX_WAIT_BITSET,
                    libc::FUTEX_LOCK_PI,
                ];
                let has_time_limit = fourth != 0;
                waits.contains(&(second as c_int & libc::FUTEX_CMD_MASK)) && !has_time_limit
            }
            libc::SYS_fcntl => {
                let waits = [libc::F_SETLKW, libc::F_OFD_SETLKW];
                waits.contains(&(second as c_int))
            }
            libc::SYS_read | libc::SYS_write => return Some(Self::Transfer(first)),
            _ => false,
        };
        is_endless.then_some(Self::Others)
    }
}

/// Why the tracer was informed of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStop {
    /// A signal is about to be delivered.
    Signal,
    /// The thread is about to end.
    Exit,
    /// The thread stopped because its process did, or because it was asked to.
    Stop,
    Other,
}

impl TraceStop {
    /// What the status that `wait` returned means.
    pub fn of(status: WaitStatus) -> Self {
        match status.as_raw() >> 16 {
            0 => Self::Signal,
            libc::PTRACE_EVENT_EXIT => Self::Exit,
            libc::PTRACE_EVENT_STOP => Self::Stop,
            _ => Self::Other,
        }
    }
}

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
    Ok((Registers::from(&user), SystemCall::of(system_call(&user))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_with_a_time_limit_end_by_themselves() {
        let futex = |operation: c_int, timeout| {
            let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as u64;
            EndlessWait::of(libc::SYS_futex, &[0x1000, operation, 2, timeout, 0, 0])
        };
        let others = Some(EndlessWait::Others);
        assert_eq!(futex(libc::FUTEX_WAIT, 0), others);
        assert_eq!(futex(libc::FUTEX_WAIT_BITSET, 0), others);
        assert_eq!(futex(libc::FUTEX_WAIT, 0x7ffc), None);
        assert_eq!(futex(libc::FUTEX_WAKE, 0), None);
        let nothing = [0; 6];
        assert_eq!(EndlessWait::of(libc::SYS_clock_nanosleep, &nothing), None);
        assert_eq!(EndlessWait::of(libc::SYS_wait4, &nothing), others);
        assert_eq!(EndlessWait::of(libc::SYS_wait4, &[]), None);
        let read = EndlessWait::of(libc::SYS_read, &[3, 0x1000, 4096, 0, 0, 0]);
        assert_eq!(read, Some(EndlessWait::Transfer(3)));
    }
}
