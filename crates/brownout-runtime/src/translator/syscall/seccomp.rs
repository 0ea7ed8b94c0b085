//! Filters that the target puts on its own system calls.
//!
//! The engine makes calls that the target does not make, and a filter may kill the process for them. Each filter
//! therefore gets a prologue that allows the engine's own calls, which are made from another address than the
//! target's.
//!
//! What it can miss: calls that the engine serves by a call of its own (`mmap`, `rt_sigaction`…) are allowed even
//! if the filter forbids them.

use crate::arch::translator::gate;
use crate::arch::translator::syscalls::SET_THREAD_POINTER;
use crate::hooks;
use crate::sys::{err, errno, linux};
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use crate::{fatal, target_memory};
use alloc::vec::Vec;

const PR_SET_SECCOMP: u64 = 22;
/// Longest filter that the kernel takes.
const MAX_INSTRUCTIONS: usize = 4096;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ADDRESS_LOW: u32 = 8;
const ADDRESS_HIGH: u32 = 12;

/// Calls that the engine makes for itself.
const OWN: [u32; 29] = [
    linux::__NR_read,
    linux::__NR_close,
    linux::__NR_fstat,
    linux::__NR_lseek,
    linux::__NR_mmap,
    linux::__NR_mprotect,
    linux::__NR_munmap,
    linux::__NR_rt_sigaction,
    linux::__NR_rt_sigprocmask,
    linux::__NR_rt_sigreturn,
    linux::__NR_pread64,
    linux::__NR_sched_yield,
    linux::__NR_mremap,
    linux::__NR_mincore,
    linux::__NR_madvise,
    linux::__NR_nanosleep,
    linux::__NR_getpid,
    linux::__NR_fcntl,
    linux::__NR_getppid,
    linux::__NR_sigaltstack,
    SET_THREAD_POINTER,
    linux::__NR_gettid,
    linux::__NR_futex,
    linux::__NR_tgkill,
    linux::__NR_rt_tgsigqueueinfo,
    linux::__NR_readlinkat,
    linux::__NR_statx,
    linux::__NR_openat,
    linux::__NR_newfstatat,
];

/// `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FilterStep {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Filter {
    len: u16,
    pad: [u16; 3],
    steps: u64,
}

crate::plain_data!(FilterStep {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
});
crate::plain_data!(Filter {
    len: u16,
    pad: [u16; 3],
    steps: u64,
});

impl FilterStep {
    fn load(offset: u32) -> FilterStep {
        const LOAD_WORD: u16 = 0x20;
        FilterStep::new(LOAD_WORD, 0, 0, offset)
    }

    fn if_equal(value: u32, then: usize, otherwise: usize) -> FilterStep {
        const JUMP_IF_EQUAL: u16 = 0x15;
        FilterStep::new(JUMP_IF_EQUAL, then as u8, otherwise as u8, value)
    }

    fn allow() -> FilterStep {
        const RETURN: u16 = 0x06;
        const ALLOW: u32 = 0x7fff_0000;
        FilterStep::new(RETURN, 0, 0, ALLOW)
    }

    fn new(code: u16, if_true: u8, if_false: u8, value: u32) -> FilterStep {
        FilterStep {
            code,
            if_true,
            if_false,
            value,
        }
    }
}

/// The prologue: the steps before the target's own.
fn prologue() -> Vec<FilterStep> {
    let [one, other] = gate::after_target_calls();
    let high = (one >> 32) as u32;
    // After the load of the number: one step for each of the engine's calls, then the permission.
    let calls = OWN.len();
    let mut steps = alloc::vec![
        FilterStep::load(ADDRESS_HIGH),
        FilterStep::if_equal(high, 0, 3 + 1 + calls + 1),
        FilterStep::load(ADDRESS_LOW),
        FilterStep::if_equal(one as u32, 1 + 1 + calls + 1, 0),
        FilterStep::if_equal(other as u32, 1 + calls + 1, 0),
        FilterStep::load(NUMBER),
    ];
    for (index, &number) in OWN.iter().enumerate() {
        let last = index + 1 == calls;
        steps.push(FilterStep::if_equal(
            number,
            calls - index - 1,
            usize::from(last),
        ));
    }
    steps.push(FilterStep::allow());
    steps
}

/// `prctl` and `seccomp`.
pub fn serve(context: &mut Context, nr: u32, mut args: [u64; 6]) -> Outcome {
    const STRICT: u64 = 1;
    const FILTER: u64 = 2;
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    let (strict, filter, at) = match nr {
        linux::__NR_prctl if args[0] == PR_SET_SECCOMP => (args[1] == STRICT, args[1] == FILTER, 2),
        linux::__NR_prctl => (false, false, 0),
        _ => (args[0] == SET_MODE_STRICT, args[0] == SET_MODE_FILTER, 2),
    };
    if strict {
        // A process may then only read, write and exit.
        fatal::unsupported(format_args!(
            "the program enters seccomp strict mode, which the engine does not support"
        ));
    }
    if !filter {
        return hooks::syscall(context, nr, args);
    }
    let Ok(wanted) = target_memory::read::<Filter>(args[at]) else {
        return Outcome::Done(err(errno::EFAULT));
    };
    let mut steps = prologue();
    for index in 0..u64::from(wanted.len) {
        match target_memory::read::<FilterStep>(
            wanted
                .steps
                .wrapping_add(index * size_of::<FilterStep>() as u64),
        ) {
            Ok(step) => steps.push(step),
            Err(_) => return Outcome::Done(err(errno::EFAULT)),
        }
    }
    // An invalid filter is passed on unchanged, for the kernel to refuse.
    let fits = wanted.len > 0 && steps.len() <= MAX_INSTRUCTIONS;
    let extended = Filter {
        len: steps.len() as u16,
        steps: steps.as_ptr() as u64,
        ..wanted
    };
    if fits {
        args[at] = &raw const extended as u64;
    }
    crate::translator::syscall::native(u64::from(nr), &args)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the prologue decides: `None` if it leaves that to the target's steps.
    fn run(address: u64, number: u32) -> Option<u32> {
        let steps = prologue();
        let (mut at, mut word) = (0, 0);
        while let Some(step) = steps.get(at) {
            at += 1;
            match step.code {
                0x20 => {
                    word = match step.value {
                        NUMBER => number,
                        ADDRESS_LOW => address as u32,
                        ADDRESS_HIGH => (address >> 32) as u32,
                        other => panic!("nothing to load at {other}"),
                    }
                }
                0x15 if word == step.value => at += usize::from(step.if_true),
                0x15 => at += usize::from(step.if_false),
                _ => return Some(step.value),
            }
        }
        assert_eq!(at, steps.len(), "ends where the target's steps begin");
        None
    }

    #[test]
    fn only_the_engines_own_calls_are_allowed() {
        let [one, other] = gate::after_target_calls();
        let own = one ^ 0x1000;
        for number in OWN {
            assert_eq!(run(own, number), Some(0x7fff_0000));
            assert_eq!(run(one, number), None);
            assert_eq!(run(other, number), None);
            assert_eq!(run(own ^ 1 << 40, number), None);
        }
        assert_eq!(run(own, linux::__NR_execve), None);
    }
}
