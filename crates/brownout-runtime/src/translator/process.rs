//! Threads and processes: the list of threads, and what is announced to the recorder.
//!
//! `clone` makes them, `exec` replaces their program, `exit` ends them.

mod blocks;
mod clone;
mod exec;
mod exit;
mod own_image;

pub use blocks::spare_block;
pub use clone::{clone, clone3, fork_copy, thread_begin, vfork};
pub use exec::{exec, exec_script};
pub use exit::{about_to_die, exit_process, exit_thread};
pub use own_image::keep as keep_own_image;

use crate::arch::translator::gate;
use crate::hooks;
use crate::lock::{Lock, set_single};
use crate::plain_data::PlainData;
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::context::{Context, Exit};
use crate::translator::load::Image;
use crate::wire;
use crate::wire::{Birth, Head};
use alloc::vec::Vec;
use brownout_ring::{self as ring, kind, origin};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A context in the list of threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ThreadRef(pub *mut Context);
// SAFETY: the list only hands out addresses; each access from another thread has its own SAFETY comment.
unsafe impl Send for ThreadRef {}

static THREADS: Lock<Vec<ThreadRef>> = Lock::new(Vec::new());
/// Process id of the owner of this memory; a vfork child runs in it with another.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Path of the target, for `/proc/self/exe`.
static EXECUTABLE: Lock<Vec<u8>> = Lock::new(Vec::new());
/// The auxiliary vector, for `/proc/self/auxv`.
static AUXILIARY: Lock<Vec<u8>> = Lock::new(Vec::new());

pub fn register(context: &mut Context) {
    let mut threads = THREADS.lock();
    threads.push(ThreadRef(context));
    let alone = threads.len() == 1;
    // SAFETY: `alone` is true only when the process starts: a thread that makes another one is in the list itself, and
    // registers the other one before that exists.
    unsafe { set_single(alone) };
    for thread in threads.iter() {
        // SAFETY: the context is in the list, which is locked.
        unsafe { hooks::set_alone(thread.0, alone) };
    }
    drop(threads);
    wire::set_alone(alone);
    hooks::thread_joined(context);
}

/// Runs `visit` on the context of every thread. Only fields that are safe to change from outside may
/// be touched.
pub fn for_each_thread(mut visit: impl FnMut(*mut Context)) {
    for thread in THREADS.lock().iter() {
        visit(thread.0);
    }
}

/// Whether no thread can be in, or return to, code in `range` that was retired at `epoch`. This holds for a thread
/// that has been in the dispatcher since; that is in the dispatcher for a system call, after which it looks up
/// where to resume; or that is in the gate's own system call and resumes elsewhere, or is redirected.
pub fn all_threads_left(epoch: u64, range: &Range<u64>) -> bool {
    THREADS.lock().iter().all(|thread| {
        let context = thread.0;
        // SAFETY: plain reads of words that their threads write; old values only delay the answer.
        unsafe {
            let serving = (&raw const (*context).exit).read_volatile() == Exit::Syscall as u32
                && (&raw const (*context).in_rust).read_volatile() != 0;
            serving
                || (&raw const (*context).epoch).read_volatile() >= epoch
                || returns_elsewhere(context, range)
        }
    })
}

/// Whether a thread is in the gate's own system call and does not return to `range`.
///
/// # Safety
/// `context` is that of a thread.
unsafe fn returns_elsewhere(context: *mut Context, range: &Range<u64>) -> bool {
    // SAFETY: the thread writes `sys_resume` before it sets `in_call`, and clears that, by a locked
    // instruction, before it reads `sys_resume` once. If `in_call` is set after the redirection, the
    // thread has yet to read the new address. Resuming through the resync entry is
    // always correct.
    unsafe {
        let resume = (&raw const (*context).sys_resume).read_volatile();
        if range.contains(&resume) {
            (&raw mut (*context).sys_resume).write_volatile(gate::after_syscall());
        }
        fence(Ordering::SeqCst);
        (&raw const (*context).in_call).read_volatile() != 0
            && !range.contains(&(&raw const (*context).sys_resume).read_volatile())
    }
}

/// Keeps the wire's descriptor from leaking into programs that are not followed.
pub fn protect_descriptor(fd: i32) {
    set_close_on_exec(fd, true);
}

fn set_close_on_exec(fd: i32, on: bool) {
    // SAFETY: changes a flag of the engine's own descriptor.
    unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_SETFD, u32::from(on)) };
}

pub fn set_executable(path: &CStr) {
    let fd = sys::open(path, linux::O_PATH | linux::O_CLOEXEC);
    let mut buffer = [0u8; 4096];
    let name = if is_err(fd) {
        None
    } else {
        sys::fd_path(fd as i32, &mut buffer)
    };
    *EXECUTABLE.lock() = name.unwrap_or(path.to_bytes()).to_vec();
    if !is_err(fd) {
        sys::close(fd as i32);
    }
}

/// Notes the auxiliary vector as the target has it.
pub fn set_auxiliary(vector: &[u64]) {
    let mut bytes = AUXILIARY.lock();
    bytes.clear();
    for word in vector {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// The bytes of the auxiliary vector.
pub fn auxiliary() -> Vec<u8> {
    AUXILIARY.lock().clone()
}

/// What `/proc/self/exe` should lead to.
pub fn executable() -> Vec<u8> {
    EXECUTABLE.lock().clone()
}

/// Announces to the recorder that a program image starts.
pub fn announce_exec<'a>(
    context: &mut Context,
    path: &CStr,
    arguments: impl Iterator<Item = &'a CStr>,
) {
    let (pid, parent) = (sys::getpid(), parent_pid());
    OWNER.store(pid, Ordering::Relaxed);
    wire::enter_process(pid);
    context.wire.claim(pid, context.tid);
    let mut text = path.to_bytes_with_nul().to_vec();
    for argument in arguments {
        if text.len() + argument.count_bytes() > ring::MAX_RECORD - 4096 {
            break;
        }
        text.extend_from_slice(argument.to_bytes_with_nul());
    }
    let start = ring::ProcessStart {
        pid,
        parent_pid: parent,
        parent: u32::MAX,
        origin: origin::EXEC,
    };
    announce(context, start, &text, None);
}

/// Announces a process and its first thread. `birth` is the number that the parent drew, if the process was forked.
fn announce(context: &mut Context, start: ring::ProcessStart, text: &[u8], birth: Option<Birth>) {
    let head = Head {
        kind: kind::PROCESS_START,
        ..Head::default()
    };
    context
        .wire
        .record_birth(birth, head, &[start.as_bytes(), text]);
    context.wire.record(
        Head {
            kind: kind::THREAD_START,
            addr: context.creation,
            ..Head::default()
        },
        &[],
    );
}

pub fn parent_pid() -> u32 {
    // SAFETY: getppid takes no arguments.
    unsafe { crate::sys!(linux::__NR_getppid) as u32 }
}

pub fn announce_modules(context: &mut Context, image: &Image, path: &CStr) {
    for &(addr, len, offset) in &image.code {
        announce_module(context, addr, len, offset, path.to_bytes());
    }
}

/// Announces to the recorder that code was mapped.
pub fn announce_module(context: &mut Context, addr: u64, len: u64, file_offset: u64, path: &[u8]) {
    let head = Head {
        kind: kind::MODULE,
        addr,
        ..Head::default()
    };
    context.wire.record(
        head,
        &[ring::ModuleMapping { len, file_offset }.as_bytes(), path],
    );
}

fn unregister(context: *mut Context) {
    THREADS.lock().retain(|thread| thread.0 != context);
}

/// Whether the caller is a vfork child: a process in the memory of another.
pub fn is_vfork_child() -> bool {
    sys::getpid() != OWNER.load(Ordering::Relaxed)
}
