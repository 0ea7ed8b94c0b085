//! Processes: starts the loader in a child, waits for it, and checks whether a thread exists.

use super::checked;
use super::signals::{SignalGate, closed_streams};
use brownout_trace::ProcessEnd;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// A free descriptor number for the wire in the target. It is near the top of what the caller's limit allows, so that the
/// target's own descriptors get the same numbers as in a native run.
///
/// It is below `HIGHEST`, the limit of most systems, because at each fork the kernel copies the descriptor table up to the highest
/// number in use. A table of 4096 entries makes it an eighth more expensive.
pub(crate) fn high_descriptor() -> io::Result<RawFd> {
    const HIGHEST: u64 = 1024;
    // Without a limit, any number will do.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST);
    (3..limit.min(HIGHEST) as RawFd)
        .rev()
        .find(|&fd| !is_open(fd))
        .ok_or_else(|| rustix::io::Errno::MFILE.into())
}

/// Whether a descriptor with this number is open.
pub(super) fn is_open(fd: RawFd) -> bool {
    // SAFETY: the descriptor is used for one call, which fails for a number that is not open and changes nothing.
    rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok()
}

/// The environment of this process, byte for byte and in order.
pub(crate) fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: libc keeps `environ` as a null-terminated array of NUL-terminated strings. Reading it is unsound only while
    // another thread sets variables, which nothing in this process does.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// While this exists, programs that the calling thread starts have the same addresses each time, where the system allows that.
pub(crate) struct FixedAddresses {
    /// What the thread had before, and whether that could be changed.
    before: libc::c_int,
    is_allowed: bool,
}

impl FixedAddresses {
    pub(crate) fn begin() -> FixedAddresses {
        const QUERY: libc::c_ulong = 0xffff_ffff;
        // SAFETY: reads and changes an attribute of this thread.
        unsafe {
            let before = libc::personality(QUERY);
            let wanted = (before | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong;
            let is_allowed = before != -1 && libc::personality(wanted) != -1;
            FixedAddresses { before, is_allowed }
        }
    }

    /// Whether the system allows that.
    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed
    }
}

impl Drop for FixedAddresses {
    fn drop(&mut self) {
        if self.is_allowed {
            // SAFETY: restores the attribute of this thread: what holds this is not sent to another one.
            unsafe { libc::personality(self.before as libc::c_ulong) };
        }
    }
}

/// What a child executes, with its arguments and environment.
pub(crate) struct Image<'a> {
    pub(crate) program: &'a File,
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    /// A file for the child to inherit, and its descriptor number in the child.
    pub(crate) handed_on: (&'a File, RawFd),
    /// Its standard streams, if they are not those of our caller.
    pub(crate) streams: Option<[&'a File; 3]>,
    /// Where it starts, if it is not where this process is.
    pub(crate) directory: Option<&'a CStr>,
}

/// A child process that has not been waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pid(pub(crate) libc::pid_t);

/// What a child needs to become the loader.
struct Child<'a> {
    image: &'a Image<'a>,
    gate: &'a SignalGate,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// The error if it fails, else 0.
    errno: libc::c_int,
}

/// Stack size of a child until it executes the loader.
const CHILD_STACK: usize = 64 << 10;

/// Starts a child that executes `image`, with the standard streams, signal dispositions and signal mask of our caller. It is
/// killed if the calling thread ends before it does, as when this process is killed; it would go on without being recorded.
pub(crate) fn spawn(image: &Image<'_>, gate: &SignalGate) -> io::Result<Pid> {
    let mut child = Child {
        image,
        gate,
        argv: pointers(image.arguments),
        envp: pointers(image.environment),
        errno: 0,
    };
    let mut stack: Vec<u128> = Vec::with_capacity(CHILD_STACK / size_of::<u128>());
    // The child shares our memory instead of copying it, and we wait until it has executed the loader or ended.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `stack` is used only by the child, is aligned and has that size. `child` outlives its use, because this
    // thread continues only when the child no longer uses our memory.
    let pid = checked(unsafe {
        let top = stack.as_mut_ptr().byte_add(CHILD_STACK);
        libc::clone(become_loader, top.cast(), flags, (&raw mut child).cast())
    })?;
    if child.errno == 0 {
        return Ok(Pid(pid));
    }
    let _ = wait(Pid(pid), WaitMode::Block);
    Err(io::Error::from_raw_os_error(child.errno))
}

/// Runs in the child. Returns only if the loader cannot be executed.
extern "C" fn become_loader(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes its `Child`, which nothing else uses meanwhile. The code below makes only system calls on open
    // descriptors; it does not allocate or lock. `argv` and `envp` are null-terminated arrays of NUL-terminated strings.
    unsafe {
        let child = &mut *child.cast::<Child<'_>>();
        let image = child.image;
        if libc::dup2(image.handed_on.0.as_raw_fd(), image.handed_on.1) != -1 {
            closed_streams().for_each(|fd| {
                libc::close(fd);
            });
            child.gate.restore_in_child();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
            for (number, stream) in image.streams.iter().flatten().enumerate() {
                libc::dup2(stream.as_raw_fd(), number as libc::c_int);
            }
            if let Some(directory) = image.directory
                && libc::chdir(directory.as_ptr()) == -1
            {
                child.errno = *libc::__errno_location();
                return 127;
            }
            libc::execveat(
                image.program.as_raw_fd(),
                c"".as_ptr(),
                child.argv.as_ptr().cast(),
                child.envp.as_ptr().cast(),
                libc::AT_EMPTY_PATH,
            );
        }
        child.errno = *libc::__errno_location();
    }
    127
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    Block,
    Poll,
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) end: ProcessEnd,
    /// User and system time of the child and of those of its descendants that were waited for.
    pub(crate) cpu: Duration,
}

/// Waits for `pid`. Returns `None` if it has not ended.
pub(crate) fn wait(pid: Pid, mode: WaitMode) -> io::Result<Option<Ended>> {
    let flags = if mode == WaitMode::Poll {
        libc::WNOHANG
    } else {
        0
    };
    let mut status = 0;
    // SAFETY: zero bytes are a valid rusage; the kernel fills both.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: as above; `status` and `usage` outlive the call.
        match checked(unsafe { libc::wait4(pid.0, &mut status, flags, &mut usage) }) {
            Ok(0) => return Ok(None),
            Ok(_) => {
                let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
                let end = end(status);
                return Ok(Some(Ended { end, cpu }));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn end(status: libc::c_int) -> ProcessEnd {
    if libc::WIFSIGNALED(status) {
        ProcessEnd::Signaled {
            signal: libc::WTERMSIG(status),
        }
    } else {
        ProcessEnd::Exited {
            status: libc::WEXITSTATUS(status),
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Sends `signal` to a child. The child has not been waited for, so its id cannot have been reused.
pub(crate) fn kill(pid: Pid, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.0);
    // Fails if the child has ended.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
}

/// The processor time that a process has used, if it exists.
pub(crate) fn cpu_time(pid: Pid) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: the call fills the clock id that it is given.
    if unsafe { libc::clock_getcpuclockid(pid.0, &mut clock) } != 0 {
        return None;
    }
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the struct it is given.
    checked(unsafe { libc::clock_gettime(clock, &mut used) }).ok()?;
    Some(Duration::new(used.tv_sec as u64, used.tv_nsec as u32))
}

/// Whether a thread runs, waits for a processor, or waits for a disk: it is not asleep.
pub(crate) fn is_runnable(pid: u32, tid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain anything.
    let name_end = stat.iter().rposition(|&byte| byte == b')');
    let state = name_end.and_then(|end| stat.get(end + 2));
    matches!(state, Some(b'R' | b'D'))
}

/// Whether thread `tid` of process `pid` exists, running or as a zombie.
pub(crate) fn thread_exists(pid: u32, tid: u32) -> bool {
    let (pid, tid) = (pid as libc::pid_t, tid as libc::pid_t);
    if pid <= 0 || tid <= 0 {
        return false;
    }
    // SAFETY: signal 0 checks for existence and sends nothing.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Time since the machine booted, in the units of `/proc/*/stat`.
pub(crate) fn ticks_since_boot() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the struct it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}

/// Whether this process may execute the file at `path`. Checks the effective ids, as `execve` does.
pub(crate) fn may_execute(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated and the call only reads it.
    checked(unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS)
    })?;
    Ok(())
}

/// The user that runs this process.
pub(crate) fn user_id() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The effective user and group of this process.
pub(crate) fn effective_ids() -> (u32, u32) {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    (user.as_raw(), group.as_raw())
}

/// Runs `action` with the file size limit raised as far as this process may raise it.
pub(crate) fn with_file_size_limit_raised<T>(action: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Fsize);
    if limit.current == limit.maximum {
        return action();
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If it cannot be raised, the action has to make do with less.
    let _ = setrlimit(Resource::Fsize, raised);
    let result = action();
    let _ = setrlimit(Resource::Fsize, limit);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_of_the_wire_is_high_and_free_but_keeps_the_table_short() {
        let descriptor = high_descriptor().unwrap();
        assert!(!is_open(descriptor));
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1024);
        assert!((limit.min(1024) as RawFd - 64..1024).contains(&descriptor));
    }
}
