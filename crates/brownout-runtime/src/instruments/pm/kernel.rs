//! What system calls do to candidates: the kernel's writes into them, writes to their files through
//! descriptors, and write-back; and which files they open and read, if the recorder asks for that.
//!
//! What it can miss: writes that the kernel makes after a call has returned (`aio`, and unusual uses of
//! `io_uring`). The recording then has a note.

mod arguments;
mod file;
mod io_uring;
mod names;
mod outputs;
mod read_files;
mod redirect;
mod store;
mod write_back;
mod written_files;

pub(crate) use arguments::argument_count;
pub use io_uring::closed;
pub use io_uring::collect;
pub(crate) use outputs::Extent;
pub use read_files::mapped_unobserved;
pub use store::write;
pub(crate) use write_back::synchronized;

use self::file::WriteTarget;
use self::redirect::Call;
use crate::arch::instruments::pm::syscalls;
use crate::instruments::pm::{candidates, shared_files};
use crate::sys::{is_err, linux};
use crate::translator::context::Context;
use crate::translator::syscall::{Outcome, attend_all};
use crate::wire::{self, Head};
use crate::{fatal, target_memory};
use brownout_ring::kind;
use core::sync::atomic::{AtomicBool, Ordering};

/// A path as a call gets it: a descriptor of a directory, and the address of the text.
pub(crate) type PathAt = (i32, u64);

/// What is at a path of the target. `flags` are those of the call.
pub(crate) fn stat_at((directory, path): PathAt, flags: u32) -> Option<linux::stat> {
    let mut stat = core::mem::MaybeUninit::<linux::stat>::zeroed();
    // SAFETY: the kernel checks the target's path, and writes one `stat`.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_newfstatat,
            directory,
            path,
            stat.as_mut_ptr(),
            flags
        )
    };
    // SAFETY: zeroed is a valid `stat`.
    (!is_err(raw)).then(|| unsafe { stat.assume_init() })
}

/// Calls that are observed even by a process without candidates: other processes may have mapped what it
/// writes through descriptors.
pub const FILE_CALLS: &[u32] = &[
    linux::__NR_write,
    linux::__NR_pwrite64,
    linux::__NR_writev,
    linux::__NR_pwritev,
    linux::__NR_pwritev2,
    linux::__NR_sendfile,
    linux::__NR_copy_file_range,
    linux::__NR_splice,
    linux::__NR_truncate,
    linux::__NR_ftruncate,
    linux::__NR_fallocate,
    syscalls::CREATE,
    linux::__NR_fsync,
    linux::__NR_fdatasync,
    linux::__NR_sync_file_range,
    linux::__NR_renameat,
    linux::__NR_renameat2,
    linux::__NR_linkat,
    linux::__NR_unlinkat,
    syscalls::RENAME,
    syscalls::LINK,
    syscalls::UNLINK,
];

pub fn create() {
    written_files::create();
    if wire::wants_reads() {
        attend_all();
    }
}

/// Makes a system call of the target with its arguments redirected from candidates, and records what it does to
/// them.
pub fn syscall(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    if nr == linux::__NR_close {
        closed(args[0] as u32..=args[0] as u32);
    }
    if !candidates::any() {
        return elsewhere(context, nr, args, make);
    }
    refuse_user_faults(nr, &args);
    read_files::memory_used(context, nr, &args);
    let mut led = args;
    let submission = io_uring::before(context, nr, &mut led);
    let mut call = Call::redirected(nr, led);
    let target = file::write_target(nr, &args);
    let replaces_unknown = names::replaces_unknown(nr, &args);
    let outcome = make(context, nr, *call.args());
    let taken = match outcome {
        Outcome::Done(raw) if !is_err(raw) => raw,
        _ => 0,
    };
    io_uring::after(&args, taken, &submission);
    if let Outcome::Done(raw) = outcome {
        note_unseen(context, nr);
        call.finish(context, raw);
        io_uring::attach(context, nr, args[1], raw);
        collect(context);
        if !is_err(raw) {
            read_files::used(context, nr, &args, raw);
            done_to_files(context, nr, &args, raw, target);
            names::changed(context, nr, &args, replaces_unknown);
        } else {
            write_back::failed(context, nr, &args, raw);
        }
    }
    outcome
}

/// Refuses candidates whose pages the target provides when they are first touched: the engine touches them
/// elsewhere.
fn refuse_user_faults(nr: u32, args: &[u64; 6]) {
    /// `ioctl` request `UFFDIO_REGISTER`, whose argument begins with start and length.
    const REGISTER: u64 = 0xc020_aa00;
    if nr != linux::__NR_ioctl || args[1] != REGISTER {
        return;
    }
    if let Ok([start, len]) = target_memory::read::<[u64; 2]>(args[2])
        && !candidates::overlapping(start, start.saturating_add(len)).is_empty()
    {
        fatal::unsupported(format_args!(
            "the program handles page faults of the mapped file at {start:#x} with userfaultfd, which the engine does not support"
        ));
    }
}

/// Makes a call of a process that has no candidates; others may have.
fn elsewhere(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    if nr == linux::__NR_io_uring_setup {
        let outcome = make(context, nr, args);
        if let Outcome::Done(raw) = outcome {
            io_uring::attach(context, nr, args[1], raw);
            read_files::used(context, nr, &args, raw);
        }
        return outcome;
    }
    if !shared_files::any() {
        let outcome = make(context, nr, args);
        if let Outcome::Done(raw) = outcome
            && !is_err(raw)
        {
            read_files::used(context, nr, &args, raw);
        }
        return outcome;
    }
    let target = file::write_target(nr, &args);
    let replaces_unknown = names::replaces_unknown(nr, &args);
    let outcome = make(context, nr, args);
    if let Outcome::Done(raw) = outcome {
        if is_err(raw) {
            write_back::failed(context, nr, &args, raw);
        } else {
            read_files::used(context, nr, &args, raw);
            done_to_files(context, nr, &args, raw, target);
            names::changed(context, nr, &args, replaces_unknown);
        }
    }
    outcome
}

/// Records what a call that succeeded did to files of candidates, and names other files that it changed.
fn done_to_files(
    context: &mut Context,
    nr: u32,
    args: &[u64; 6],
    raw: u64,
    target: Option<WriteTarget>,
) {
    match target {
        Some(target) if target.is_candidate => {
            file::record_written(context, nr, args, raw, target.fd, &target.stat);
        }
        Some(target) => written_files::written(context, &target),
        None => written_files::named(context, nr, args),
    }
    file::changed_otherwise(context, nr, args, raw);
    write_back::synchronized(context, nr, args);
}

/// Notes once that the kernel may make writes that are not recorded.
fn note_unseen(context: &mut Context, nr: u32) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if nr == linux::__NR_io_submit && !NOTED.swap(true, Ordering::Relaxed) {
        note(
            context,
            "the program uses io_submit: writes by it to persistent memory or its files are not \
             recorded",
        );
    }
}

/// Leaves a note for the user in the recording.
fn note(context: &mut Context, text: &str) {
    let head = Head {
        kind: kind::NOTE,
        pc: context.pc,
        ..Head::default()
    };
    context.wire.record(head, &[text.as_bytes()]);
}
