//! System calls that need attention.
//!
//! A byte table tells the gate which calls these are; all others go straight to the kernel. An instrument may
//! request that every call is attended ([`attend_all`]).

mod memory_map;
pub(crate) mod paths;
mod seccomp;

use crate::arch::translator::cpu::SYSCALL_BYTES;
pub use paths::is_own_executable;

use crate::arch::translator::gate;
use crate::arch::translator::gate::INTERRUPTED;
use crate::arch::translator::syscalls;
use crate::hooks;
use crate::sys;
use crate::sys::{Raw, err, errno, linux};
use crate::translator::context::Context;
use crate::translator::process;
use crate::translator::signal;
use crate::translator::signal::{AltStack, NEEDED, bit};
use crate::{target_memory, wire};
use core::sync::atomic::{AtomicU8, Ordering};

const NUMBERS: usize = 1 << 16;
// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static TABLE: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];
/// System call numbers are below this.
const REAL: usize = 512;

/// Calls that are always attended. [`syscalls::ATTENDED`] has those of the architecture.
const ATTENDED: &[u32] = &[
    linux::__NR_mmap,
    linux::__NR_mprotect,
    linux::__NR_pkey_mprotect,
    linux::__NR_munmap,
    linux::__NR_mremap,
    linux::__NR_brk,
    linux::__NR_shmat,
    linux::__NR_shmdt,
    linux::__NR_rt_sigaction,
    linux::__NR_rt_sigprocmask,
    linux::__NR_rt_sigreturn,
    linux::__NR_rt_sigsuspend,
    linux::__NR_rt_sigtimedwait,
    linux::__NR_sigaltstack,
    linux::__NR_ppoll,
    linux::__NR_pselect6,
    linux::__NR_epoll_pwait,
    linux::__NR_epoll_pwait2,
    linux::__NR_clone,
    linux::__NR_clone3,
    linux::__NR_execve,
    linux::__NR_execveat,
    linux::__NR_exit,
    linux::__NR_exit_group,
    linux::__NR_prctl,
    linux::__NR_seccomp,
    linux::__NR_rseq,
    linux::__NR_readlinkat,
    linux::__NR_openat,
    linux::__NR_close,
    linux::__NR_getdents64,
    linux::__NR_close_range,
    linux::__NR_dup3,
    linux::__NR_fcntl,
    linux::__NR_io_uring_setup,
    linux::__NR_chroot,
    linux::__NR_pivot_root,
    linux::__NR_umount2,
];

pub fn create_table() {
    let attended = ATTENDED.iter().chain(syscalls::ATTENDED).copied();
    for nr in attended.chain(hooks::system_calls()) {
        TABLE[nr as usize].store(1, Ordering::Relaxed);
    }
}

/// Address of the table, for contexts.
pub fn table() -> u64 {
    TABLE.as_ptr() as u64
}

/// From now on, all calls are attended.
pub fn attend_all() {
    for entry in &TABLE[..REAL] {
        entry.store(1, Ordering::Relaxed);
    }
}

/// From now on, these calls are attended.
pub fn attend_to(numbers: &[u32]) {
    for &number in numbers {
        TABLE[number as usize].store(1, Ordering::Relaxed);
    }
}

/// The outcome of a call.
pub enum Outcome {
    /// The result of the call.
    Done(Raw),
    /// A signal comes first; the call is made again afterwards, if the handler returns to it.
    Interrupted,
    /// The registers were set by the call itself.
    Replaced,
}

/// Serves the call in the thread's registers.
pub fn serve(context: &mut Context) {
    let nr = context.cpu.syscall_number();
    let args = context.cpu.syscall_arguments();
    context.pc = context.next_pc - SYSCALL_BYTES;
    let outcome = if nr < REAL as u64 {
        attend(context, nr as u32, args)
    } else {
        native(nr, &args)
    };
    match outcome {
        Outcome::Done(raw) => {
            context.cpu.finish_syscall(raw, context.next_pc);
            context.pc = context.next_pc;
            // A target that steps through itself makes the next instruction in the same step.
            context.skip_trap = context.cpu.single_steps();
        }
        Outcome::Interrupted | Outcome::Replaced => {}
    }
}

/// Makes a call for the target.
pub fn native(nr: u64, args: &[u64; 6]) -> Outcome {
    // SAFETY: the target's own call with its own arguments.
    match unsafe { gate::native_syscall(nr, args) } {
        INTERRUPTED => Outcome::Interrupted,
        raw => Outcome::Done(raw),
    }
}

fn attend(context: &mut Context, nr: u32, args: [u64; 6]) -> Outcome {
    let [a, b, c, d, e, _] = args;
    hooks::before_syscall(context);
    Outcome::Done(match nr {
        linux::__NR_mmap => memory_map::mmap(context, args),
        linux::__NR_mprotect | linux::__NR_pkey_mprotect => memory_map::mprotect(context, nr, args),
        linux::__NR_munmap => memory_map::munmap(context, a, b),
        linux::__NR_mremap => memory_map::mremap(context, args),
        linux::__NR_brk => memory_map::brk(a),
        linux::__NR_shmat => memory_map::shmat(context, args),
        linux::__NR_shmdt => memory_map::shmdt(context, a),
        linux::__NR_rt_sigaction => signal::set_action(context, a, b, c, d),
        linux::__NR_rt_sigprocmask => set_mask(context, a, b, c, d),
        linux::__NR_rt_sigreturn => {
            signal::sigreturn(context);
            return Outcome::Replaced;
        }
        linux::__NR_sigaltstack => set_altstack(context, a, b),
        linux::__NR_rt_sigsuspend => return waiting(context, nr, args, 0, a),
        linux::__NR_ppoll => return waiting(context, nr, args, 3, d),
        linux::__NR_epoll_pwait | linux::__NR_epoll_pwait2 => {
            return waiting(context, nr, args, 4, e);
        }
        linux::__NR_pselect6 => return pselect(context, args),
        linux::__NR_clone => process::clone(context, args),
        linux::__NR_clone3 => process::clone3(context, a, b),
        linux::__NR_execve => process::exec(context, linux::AT_FDCWD, a, b, c, 0),
        linux::__NR_execveat => process::exec(context, a as i32, b, c, d, e as u32),
        linux::__NR_exit => process::exit_thread(context, a),
        linux::__NR_exit_group => process::exit_process(context, a, true),
        linux::__NR_prctl | linux::__NR_seccomp => return seccomp::serve(context, nr, args),
        // Restartable sequences name code addresses that the copy does not have. A kernel without them returns
        // this error.
        linux::__NR_rseq => err(errno::ENOSYS),
        linux::__NR_chroot | linux::__NR_pivot_root | linux::__NR_umount2 => {
            process::keep_own_image();
            return hooks::syscall(context, nr, args);
        }
        linux::__NR_readlinkat => return paths::readlink(context, nr, args, b, c, d),
        linux::__NR_openat => return paths::open(context, nr, args, 1),
        linux::__NR_close if a as i32 == wire::descriptor() => err(errno::EBADF),
        linux::__NR_dup3 if b as i32 == wire::descriptor() || a as i32 == wire::descriptor() => {
            err(errno::EBADF)
        }
        linux::__NR_fcntl if a as i32 == wire::descriptor() => err(errno::EBADF),
        linux::__NR_close_range => close_range(args),
        linux::__NR_getdents64 => return paths::getdents(context, args),
        _ => {
            return match syscalls::serve(context, nr, args) {
                Some(outcome) => outcome,
                None => hooks::syscall(context, nr, args),
            };
        }
    })
}

fn set_mask(context: &mut Context, how: u64, new: u64, old: u64, size: u64) -> Raw {
    if size != 8 {
        return err(errno::EINVAL);
    }
    let before = context.mask;
    if new != 0 {
        let Ok(set) = target_memory::read::<u64>(new) else {
            return err(errno::EFAULT);
        };
        let set = set & !(bit(linux::SIGKILL) | bit(linux::SIGSTOP));
        context.mask = match how as u32 {
            linux::SIG_BLOCK => before | set,
            linux::SIG_UNBLOCK => before & !set,
            linux::SIG_SETMASK => set,
            _ => return err(errno::EINVAL),
        };
    }
    if old != 0 && hooks::write_value(context, old, &before).is_err() {
        context.mask = before;
        return err(errno::EFAULT);
    }
    // A signal that this lets in is noted by the handler and delivered on the way out.
    if context.mask != before && context.pending_flag == 0 {
        signal::apply_mask(context.mask);
    }
    0
}

/// Calls that put another mask in force while they wait: `index` is the argument that points to it.
fn waiting(
    context: &mut Context,
    nr: u32,
    mut args: [u64; 6],
    index: usize,
    mask_at: u64,
) -> Outcome {
    if mask_at == 0 {
        return hooks::syscall(context, nr, args);
    }
    let Ok(mask) = target_memory::read::<u64>(mask_at) else {
        return Outcome::Done(err(errno::EFAULT));
    };
    let usable = mask & !NEEDED;
    args[index] = &raw const usable as u64;
    context.wait_mask = Some(mask);
    let outcome = hooks::syscall(context, nr, args);
    if context.pending_flag == 0 {
        context.wait_mask = None;
    }
    outcome
}

/// `pselect6` has its mask behind one more pointer.
fn pselect(context: &mut Context, mut args: [u64; 6]) -> Outcome {
    if args[5] == 0 {
        return hooks::syscall(context, linux::__NR_pselect6, args);
    }
    let Ok([mask_at, size]) = target_memory::read::<[u64; 2]>(args[5]) else {
        return Outcome::Done(err(errno::EFAULT));
    };
    if mask_at == 0 {
        return hooks::syscall(context, linux::__NR_pselect6, args);
    }
    let Ok(mask) = target_memory::read::<u64>(mask_at) else {
        return Outcome::Done(err(errno::EFAULT));
    };
    let usable = mask & !NEEDED;
    let pair = [&raw const usable as u64, size];
    args[5] = pair.as_ptr() as u64;
    context.wait_mask = Some(mask);
    let outcome = hooks::syscall(context, linux::__NR_pselect6, args);
    if context.pending_flag == 0 {
        context.wait_mask = None;
    }
    outcome
}

fn set_altstack(context: &mut Context, new: u64, old: u64) -> Raw {
    const SS_AUTODISARM: u32 = 1 << 31;
    const MINIMUM: u64 = 2048;
    let current = context.altstack;
    let in_use = current.holds(context.cpu.stack_pointer());
    let mut replacement = None;
    if new != 0 {
        let Ok(stack) = target_memory::read::<AltStack>(new) else {
            return err(errno::EFAULT);
        };
        if in_use {
            return err(errno::EPERM);
        }
        replacement = Some(match stack.flags & !SS_AUTODISARM {
            linux::SS_DISABLE => AltStack::disabled(),
            0 | linux::SS_ONSTACK if stack.size < MINIMUM => return err(errno::ENOMEM),
            0 | linux::SS_ONSTACK => AltStack {
                flags: stack.flags & SS_AUTODISARM,
                ..stack
            },
            _ => return err(errno::EINVAL),
        });
    }
    if old != 0 {
        let state = if !current.is_enabled() {
            linux::SS_DISABLE
        } else if in_use {
            linux::SS_ONSTACK
        } else {
            0
        };
        let shown = AltStack {
            flags: state | current.flags & SS_AUTODISARM,
            pad: 0,
            ..current
        };
        if hooks::write_value(context, old, &shown).is_err() {
            return err(errno::EFAULT);
        }
    }
    if let Some(stack) = replacement {
        context.altstack = stack;
    }
    0
}

/// `close_range` without the engine's descriptor.
fn close_range(args: [u64; 6]) -> Raw {
    let (first, last) = (args[0] as u32, args[1] as u32);
    let kept = wire::descriptor() as u32;
    const CLOSE_RANGE_CLOEXEC: u64 = 4;
    if args[2] & CLOSE_RANGE_CLOEXEC == 0 {
        hooks::closed(first..=last);
    }
    // SAFETY: closing descriptors does not touch memory.
    let close = |first: u32, last: u32| unsafe {
        crate::sys!(linux::__NR_close_range, first, last, args[2])
    };
    if first > last || !(first..=last).contains(&kept) {
        return close(first, last);
    }
    let below = if first < kept {
        close(first, kept - 1)
    } else {
        0
    };
    let above = if last > kept {
        close(kept + 1, last)
    } else {
        0
    };
    if sys::is_err(below) { below } else { above }
}
