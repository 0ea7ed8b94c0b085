//! Signals: saves what the caller had set up before this process changes it, and receives signals as values while a target
//! runs.

use super::checked;
use super::process::is_open;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Whether `SIGPIPE` was ignored when this process started.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Bit n (0 to 2) is set if descriptor n was closed when this process started.
static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);

/// Runs before Rust's own start-up code, which ignores `SIGPIPE` and opens `/dev/null` in place of closed standard streams.
/// A target must start with the state of our caller.
#[used]
#[unsafe(link_section = ".init_array")]
static OBSERVE_CALLER: extern "C" fn() = observe_caller;

extern "C" fn observe_caller() {
    PIPE_IGNORED.store(disposition_is_ignore(libc::SIGPIPE), Ordering::Relaxed);
    for fd in 0..3 {
        if !is_open(fd) {
            CLOSED_STREAMS.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

fn disposition_is_ignore(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call only writes the current one to `action`, for which
    // zero bytes are a valid value already.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// The standard streams that were closed when this process started.
pub(crate) fn closed_streams() -> impl Iterator<Item = libc::c_int> {
    let closed = CLOSED_STREAMS.load(Ordering::Relaxed);
    (0..3).filter(move |fd| closed & (1 << fd) != 0)
}

/// Signal dispositions belong to the whole process, so tests that run targets take turns.
#[cfg(test)]
pub(crate) static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The kernel: the terminal driver, for example, sends it to the whole foreground process group.
    Kernel,
    /// A process, for example with `kill`.
    Process,
}

/// Signals that the recorder receives as values while a target runs.
const HANDLED: [libc::c_int; 7] = [
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// While it exists, the signals in [`HANDLED`] are read from it instead of acting on the process.
///
/// A child created meanwhile calls [`SignalGate::restore_in_child`] to get the state of our caller.
pub(crate) struct SignalGate {
    descriptor: OwnedFd,
    /// An event counter that [`SignalGate::wake`] increments.
    wakes: OwnedFd,
    mask_before: libc::sigset_t,
    child_before: libc::sigaction,
    file_size_before: libc::sigaction,
}

impl SignalGate {
    pub(crate) fn open() -> io::Result<SignalGate> {
        let mut taken = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: sigemptyset initialises the set, sigaddset changes an initialised one.
        let taken = unsafe {
            libc::sigemptyset(taken.as_mut_ptr());
            for signal in HANDLED {
                libc::sigaddset(taken.as_mut_ptr(), signal);
            }
            taken.assume_init()
        };
        // SAFETY: the set is initialised; the result is a descriptor or -1.
        let descriptor =
            checked(unsafe { libc::signalfd(-1, &taken, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just created and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let wakes = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;

        let mut mask_before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are live and large enough; zero bytes are a valid empty set.
        let mask_before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &taken, mask_before.as_mut_ptr());
            mask_before.assume_init()
        };
        Ok(SignalGate {
            descriptor,
            wakes,
            mask_before,
            // If SIGCHLD were ignored, the kernel would reap our children before we could wait for them.
            child_before: set_disposition(libc::SIGCHLD, libc::SIG_DFL)?,
            // Exceeding the file size limit must be a write error, not the end of this process.
            file_size_before: set_disposition(libc::SIGXFSZ, libc::SIG_IGN)?,
        })
    }

    /// Waits for a signal or [`SignalGate::wake`], at most for `timeout`.
    pub(crate) fn next(&self, timeout: Duration) -> Option<(Signal, Origin)> {
        let poll = |fd| PollFd::new(fd, PollFlags::IN);
        // A timeout that does not fit is longer than any run.
        let timeout = Timespec::try_from(timeout).ok();
        // An interrupted wait ends early, which the caller expects.
        let _ = rustix::event::poll(
            &mut [poll(&self.descriptor), poll(&self.wakes)],
            timeout.as_ref(),
        );
        // Fails if nobody has woken this thread.
        let _ = rustix::io::read(&self.wakes, &mut [0; 8]);

        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as long as the read may fill. It does not block.
        let read =
            unsafe { libc::read(self.descriptor.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: the kernel has just filled it, and any bytes are a valid value.
        let info = unsafe { info.assume_init() };
        let origin = if info.ssi_code > 0 {
            Origin::Kernel
        } else {
            Origin::Process
        };
        let signal = Signal::from_named_raw(info.ssi_signo as libc::c_int)?;
        Some((signal, origin))
    }

    /// Ends the current or the next wait in [`SignalGate::next`].
    pub(crate) fn wake(&self) {
        // Fails only if the counter is at its end, and then the wait ends too.
        let _ = rustix::io::write(&self.wakes, &1_u64.to_ne_bytes());
    }

    /// Restores the signal dispositions and mask of our caller in this process, a new child. Async-signal-safe.
    pub(crate) fn restore_in_child(&self) {
        let pipe = if PIPE_IGNORED.load(Ordering::Relaxed) {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        let _ = set_disposition(libc::SIGPIPE, pipe);
        self.restore();
    }

    fn restore(&self) {
        // SAFETY: the actions and the mask were filled by the kernel when the gate was opened.
        unsafe {
            libc::sigaction(libc::SIGCHLD, &self.child_before, ptr::null_mut());
            libc::sigaction(libc::SIGXFSZ, &self.file_size_before, ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask_before, ptr::null_mut());
        }
    }
}

impl Drop for SignalGate {
    fn drop(&mut self) {
        self.restore();
    }
}

fn set_disposition(
    signal: libc::c_int,
    handler: libc::sighandler_t,
) -> io::Result<libc::sigaction> {
    // SAFETY: zero bytes are a valid action: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    let mut before = action;
    // SAFETY: `handler` is SIG_DFL or SIG_IGN, so no code of ours will run in signal context.
    checked(unsafe { libc::sigaction(signal, &action, &mut before) })?;
    Ok(before)
}

/// Ends this process with `signal`, as the target ended, but without a core dump.
///
/// Returns only if the signal does not terminate processes.
pub(crate) fn die_by(signal: libc::c_int) {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    // SAFETY: plain values; the set is initialised by sigemptyset before use.
    unsafe {
        let _ = set_disposition(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::raise(signal);
    }
}
