//! System calls made by the runtime itself.
//!
//! These never block for long and are never interrupted: what may block on behalf of the target goes
//! through [`crate::arch::translator::gate::native_syscall`], which knows about signals.

pub use linux_raw_sys::errno;
pub use linux_raw_sys::general as linux;
pub use linux_raw_sys::net;

/// A system call's raw result: a value, or a small negative error number.
pub type Raw = u64;

pub use crate::arch::translator::cpu::syscall;

/// Issues a system call with fewer than six arguments.
#[macro_export]
macro_rules! sys {
    ($nr:expr $(, $arg:expr)* $(,)?) => {{
        let given = [$($arg as u64),*];
        let mut args = [0u64; 6];
        args[..given.len()].copy_from_slice(&given);
        $crate::sys::syscall($nr, args)
    }};
    ($nr:expr) => { $crate::sys::syscall($nr, [0; 6]) };
}

/// Whether a raw result is an error.
pub fn is_err(raw: Raw) -> bool {
    raw > -4096i64 as u64
}

/// The raw result that stands for an error number.
pub fn err(errno: u32) -> Raw {
    (-(errno as i64)) as u64
}

/// The error number of a raw result, with its name for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u32);

impl Errno {
    /// The error number of a raw result that is an error.
    pub fn of(raw: Raw) -> Errno {
        Errno((raw as i64).wrapping_neg() as u32)
    }
}

impl core::fmt::Display for Errno {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = match self.0 {
            errno::EPERM => "EPERM",
            errno::ENOENT => "ENOENT",
            errno::EAGAIN => "EAGAIN",
            errno::ENOMEM => "ENOMEM",
            errno::EACCES => "EACCES",
            errno::EFAULT => "EFAULT",
            errno::EEXIST => "EEXIST",
            errno::ENODEV => "ENODEV",
            errno::EINVAL => "EINVAL",
            errno::ENFILE => "ENFILE",
            errno::EMFILE => "EMFILE",
            errno::ETXTBSY => "ETXTBSY",
            errno::E2BIG => "E2BIG",
            errno::ENOEXEC => "ENOEXEC",
            errno::ELOOP => "ELOOP",
            errno::ENAMETOOLONG => "ENAMETOOLONG",
            errno::ENOTDIR => "ENOTDIR",
            errno::EIO => "EIO",
            number => return write!(out, "error {number}"),
        };
        out.write_str(name)
    }
}

/// Maps memory; the raw result.
///
/// # Safety
/// With `MAP_FIXED` nothing that is in use may lie in the range.
pub unsafe fn mmap(addr: u64, len: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> Raw {
    // SAFETY: the caller's promise.
    unsafe { sys!(linux::__NR_mmap, addr, len, prot, flags, fd, offset) }
}

/// Unmaps memory; the raw result.
///
/// # Safety
/// Nothing in the range may be in use.
pub unsafe fn munmap(addr: u64, len: u64) -> Raw {
    // SAFETY: the caller's promise.
    unsafe { sys!(linux::__NR_munmap, addr, len) }
}

/// The calling thread's kernel id.
pub fn gettid() -> u32 {
    // SAFETY: gettid takes no arguments and cannot fail.
    unsafe { sys!(linux::__NR_gettid) as u32 }
}

/// The process id.
pub fn getpid() -> u32 {
    // SAFETY: getpid takes no arguments and cannot fail.
    unsafe { sys!(linux::__NR_getpid) as u32 }
}

/// Opens the NUL-terminated `path`.
pub fn open(path: &core::ffi::CStr, flags: u32) -> Raw {
    // SAFETY: the path is a valid C string that the kernel only reads.
    unsafe { sys!(linux::__NR_openat, linux::AT_FDCWD, path.as_ptr(), flags, 0) }
}

/// Closes a descriptor of the runtime's own.
pub fn close(fd: i32) {
    // SAFETY: closing does not touch memory.
    unsafe { sys!(linux::__NR_close, fd) };
}

/// Reads at an offset into `buffer`; the raw result.
pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Raw {
    // SAFETY: the kernel writes at most the buffer's length into it.
    unsafe {
        sys!(
            linux::__NR_pread64,
            fd,
            buffer.as_mut_ptr(),
            buffer.len(),
            offset
        )
    }
}

/// The text of `/proc/self/maps`; empty if it cannot be read.
pub fn own_mappings() -> alloc::vec::Vec<u8> {
    let mut text = alloc::vec::Vec::new();
    let fd = open(c"/proc/self/maps", linux::O_RDONLY | linux::O_CLOEXEC);
    if is_err(fd) {
        return text;
    }
    let mut piece = [0u8; 4096];
    loop {
        // SAFETY: the kernel writes at most the buffer's length.
        let got = unsafe { sys!(linux::__NR_read, fd, piece.as_mut_ptr(), piece.len()) };
        if is_err(got) || got == 0 {
            break;
        }
        text.extend_from_slice(&piece[..got as usize]);
    }
    close(fd as i32);
    text
}

/// What `fstat` says of a descriptor.
pub fn fstat(fd: i32) -> Option<linux::stat> {
    let mut stat = core::mem::MaybeUninit::<linux::stat>::zeroed();
    // SAFETY: the kernel writes one `stat`.
    let raw = unsafe { sys!(linux::__NR_fstat, fd, stat.as_mut_ptr()) };
    // SAFETY: zeroed is a valid `stat`, and the call succeeded or left it so.
    (!is_err(raw)).then(|| unsafe { stat.assume_init() })
}

/// The path behind a descriptor, as `/proc/self/fd` shows it.
pub fn fd_path(fd: i32, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut name = [0u8; 32];
    let link = fd_link(fd, &mut name);
    // SAFETY: `link` is a valid C string, and the kernel writes at most the buffer's length.
    let raw = unsafe {
        sys!(
            linux::__NR_readlinkat,
            linux::AT_FDCWD,
            link.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    };
    (!is_err(raw)).then(|| &buffer[..raw as usize])
}

/// `/proc/self/fd/N`, written into `name`.
pub fn fd_link(fd: i32, name: &mut [u8; 32]) -> &core::ffi::CStr {
    let prefix = b"/proc/self/fd/";
    name[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0u8; 12];
    let mut at = digits.len();
    let mut rest = fd.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let len = digits.len() - at;
    name[prefix.len()..prefix.len() + len].copy_from_slice(&digits[at..]);
    name[prefix.len() + len] = 0;
    core::ffi::CStr::from_bytes_until_nul(name).unwrap_or_default()
}

/// Waits while `*word == expected`, at most `nanos`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, nanos: u64) {
    let timeout = [nanos / 1_000_000_000, nanos % 1_000_000_000];
    // SAFETY: the word and the time-out live for the length of the call.
    unsafe {
        sys!(
            linux::__NR_futex,
            word.as_ptr(),
            linux::FUTEX_WAIT,
            expected,
            timeout.as_ptr()
        )
    };
}

/// Wakes all waiters on `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: waking reads nothing but the address.
    unsafe {
        sys!(
            linux::__NR_futex,
            word.as_ptr(),
            linux::FUTEX_WAKE,
            i32::MAX
        )
    };
}

/// Yields the processor to other threads.
pub fn yield_now() {
    // SAFETY: takes no arguments and touches no memory.
    unsafe { sys!(linux::__NR_sched_yield) };
}

/// Sleeps for less than a second.
pub fn sleep(nanos: u64) {
    let time = [0, nanos];
    // SAFETY: the time lives for the length of the call.
    unsafe { sys!(linux::__NR_nanosleep, time.as_ptr(), 0) };
}

/// Ends all threads of the process.
pub fn exit_group(status: u64) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { sys!(linux::__NR_exit_group, status) };
    }
}

/// Kills the process.
pub fn kill_process() -> ! {
    loop {
        // SAFETY: ends the process, and touches no memory before.
        unsafe { sys!(linux::__NR_kill, getpid(), linux::SIGKILL) };
    }
}

/// Sets the thread's signal mask and returns the old one.
pub fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both masks are 8 bytes long, as the size argument says.
    unsafe {
        sys!(
            linux::__NR_rt_sigprocmask,
            linux::SIG_SETMASK,
            &raw const mask,
            &raw mut old,
            8
        )
    };
    old
}
