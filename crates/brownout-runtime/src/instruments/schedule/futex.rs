//! Futexes of the threads of a process, served without the kernel: which thread is woken is the same in each run.
//!
//! Futexes with priority inheritance stay the kernel's. Wakes of futexes that processes may share are passed on to it, and
//! threads that wait for one look at its value now and then (see [`super::switch`]).

use super::clock;
use super::interrupted;
use super::switch::{outside, read_word, reschedule, wait, with_turns};
use super::turns::{Wait, Wakeup};
use crate::hooks;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use crate::wire;

/// Calls that are served here.
pub const CALLS: &[u32] = &[
    linux::__NR_futex,
    linux::__NR_futex_waitv,
    linux::__NR_futex_wake,
    linux::__NR_futex_wait,
    linux::__NR_futex_requeue,
];

/// Whether a call is one of those for which programs have to be prepared that a kernel does not have them.
pub fn is_newer(nr: u32) -> bool {
    nr != linux::__NR_futex && CALLS.contains(&nr)
}

/// What such a kernel returns.
pub fn unsupported() -> Raw {
    err(errno::ENOSYS)
}

/// Serves `futex`.
pub fn serve(
    context: &mut Context,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    let [word, operation, value, fourth, second_word, third_value] = args;
    let operation = operation as u32;
    let flags = linux::FUTEX_PRIVATE_FLAG | linux::FUTEX_CLOCK_REALTIME;
    let shared = operation & linux::FUTEX_PRIVATE_FLAG == 0;
    let (value, count) = (value as u32, value as u32 as usize);
    let native = |context: &mut Context| make(context, linux::__NR_futex, args);
    if word & 3 != 0 {
        return Outcome::Done(err(errno::EINVAL));
    }
    match operation & !flags {
        linux::FUTEX_WAIT => {
            let deadline = match fourth {
                0 => Ok(None),
                at => clock::nanoseconds(at).map(clock::after),
            };
            begin_wait(context, (word, value), !0, shared, deadline)
        }
        linux::FUTEX_WAIT_BITSET => {
            let clock = match operation & linux::FUTEX_CLOCK_REALTIME {
                0 => linux::CLOCK_MONOTONIC,
                _ => linux::CLOCK_REALTIME,
            };
            let deadline = match fourth {
                0 => Ok(None),
                at => clock::nanoseconds(at).map(|time| Some(clock::at(clock.into(), time))),
            };
            let bits = third_value as u32;
            if bits == 0 {
                return Outcome::Done(err(errno::EINVAL));
            }
            begin_wait(context, (word, value), bits, shared, deadline)
        }
        linux::FUTEX_WAKE => wake(context, word, !0, count, shared, native),
        linux::FUTEX_WAKE_BITSET => wake(context, word, third_value as u32, count, shared, native),
        linux::FUTEX_REQUEUE => requeue(context, (word, second_word), count, fourth),
        linux::FUTEX_CMP_REQUEUE => match read_word(word) {
            None => Outcome::Done(err(errno::EFAULT)),
            Some(found) if found != third_value as u32 => Outcome::Done(err(errno::EAGAIN)),
            Some(_) => requeue(context, (word, second_word), count, fourth),
        },
        linux::FUTEX_WAKE_OP => {
            let change = third_value as u32;
            let Some(is_also_woken) = change_word(context, second_word, change) else {
                return Outcome::Done(err(errno::EFAULT));
            };
            let woken = with_turns(|turns| {
                let first = turns.wake(word, !0, count);
                let limit = if is_also_woken {
                    fourth as u32 as usize
                } else {
                    0
                };
                first + turns.wake(second_word, !0, limit)
            });
            reschedule(context);
            Outcome::Done(woken.unwrap_or(0) as Raw)
        }
        // Those that may wait.
        linux::FUTEX_LOCK_PI | linux::FUTEX_LOCK_PI2 | linux::FUTEX_WAIT_REQUEUE_PI => {
            outside(context, native)
        }
        _ => native(context),
    }
}

fn begin_wait(
    context: &mut Context,
    (word, expected): (u64, u32),
    bits: u32,
    shared: bool,
    deadline: Result<Option<u64>, Raw>,
) -> Outcome {
    let deadline = match deadline {
        Ok(deadline) => deadline,
        Err(error) => return Outcome::Done(error),
    };
    match read_word(word) {
        None => return Outcome::Done(err(errno::EFAULT)),
        Some(found) if found != expected => return Outcome::Done(err(errno::EAGAIN)),
        Some(_) => {}
    }
    let awaited = Wait {
        word,
        bits,
        expected,
        shared,
        deadline,
        ..Wait::default()
    };
    match wait(context, awaited) {
        Wakeup::Happened => Outcome::Done(0),
        Wakeup::TimedOut => Outcome::Done(err(errno::ETIMEDOUT)),
        Wakeup::Interrupted => interrupted(context, deadline.is_none()),
    }
}

fn wake(
    context: &mut Context,
    word: u64,
    bits: u32,
    count: usize,
    shared: bool,
    native: impl FnOnce(&mut Context) -> Outcome,
) -> Outcome {
    let woken = with_turns(|turns| turns.wake(word, bits, count)).unwrap_or(0) as Raw;
    let elsewhere = match shared && wire::has_several_processes() {
        true => native(context),
        false => Outcome::Done(0),
    };
    if woken != 0 {
        reschedule(context);
    }
    match elsewhere {
        Outcome::Done(raw) if !is_err(raw) => Outcome::Done(woken + raw),
        _ => Outcome::Done(woken),
    }
}

fn requeue(context: &mut Context, (from, to): (u64, u64), count: usize, limit: u64) -> Outcome {
    let moved = with_turns(|turns| {
        let woken = turns.wake(from, !0, count);
        woken + turns.requeue(from, to, limit as u32 as usize)
    });
    reschedule(context);
    Outcome::Done(moved.unwrap_or(0) as Raw)
}

/// Changes a word as `FUTEX_WAKE_OP` says, and returns whether its old value is one at which its waiters are woken. No other
/// thread of the process runs meanwhile.
fn change_word(context: &mut Context, word: u64, change: u32) -> Option<bool> {
    let old = read_word(word)?;
    // Both are 12 bits with a sign.
    let operand = ((change << 8) as i32 >> 20) as u32;
    let limit = (change << 20) as i32 >> 20;
    let operand = match change >> 31 {
        0 => operand,
        _ => 1u32.checked_shl(operand & 31).unwrap_or(0),
    };
    let new = match change >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        4 => old ^ operand,
        _ => return None,
    };
    hooks::write_value(context, word, &new).ok()?;
    let signed = old as i32;
    Some(match change >> 24 & 15 {
        0 => signed == limit,
        1 => signed != limit,
        2 => signed < limit,
        3 => signed <= limit,
        4 => signed > limit,
        5 => signed >= limit,
        _ => false,
    })
}
