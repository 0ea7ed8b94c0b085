//! Times of files that change while the target runs: the beginning of the run, as the target sees time.
//!
//! Files that did not change since show their own times. What it can miss: times that the target sets itself, and times that it
//! learns by other calls than these.

use super::clock::REAL_TIME;
use crate::arch::instruments::schedule::syscalls;
use crate::hooks;
use crate::sys::{is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::syscall::Outcome;
use crate::wire;
use core::mem::offset_of;

/// Calls that are served here.
pub const CALLS: &[u32] = &[
    linux::__NR_fstat,
    linux::__NR_newfstatat,
    linux::__NR_statx,
    syscalls::STAT,
    syscalls::LSTAT,
];

const SECOND: u64 = 1_000_000_000;

/// Where the times are in what `stat` and its like write: seconds, which nanoseconds follow.
const STAT_TIMES: [usize; 3] = [
    offset_of!(linux::stat, st_atime),
    offset_of!(linux::stat, st_mtime),
    offset_of!(linux::stat, st_ctime),
];
/// The same for `statx`.
const STATX_TIMES: [usize; 4] = [
    offset_of!(linux::statx, stx_atime),
    offset_of!(linux::statx, stx_btime),
    offset_of!(linux::statx, stx_ctime),
    offset_of!(linux::statx, stx_mtime),
];

/// Makes a call that shows times of a file.
pub fn serve(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    make: impl FnOnce(&mut Context, u32, [u64; 6]) -> Outcome,
) -> Outcome {
    let outcome = make(context, nr, args);
    if !matches!(outcome, Outcome::Done(raw) if !is_err(raw)) {
        return outcome;
    }
    let (at, times): (u64, &[usize]) = match nr {
        linux::__NR_statx => (args[4], &STATX_TIMES),
        linux::__NR_newfstatat => (args[2], &STAT_TIMES),
        _ => (args[1], &STAT_TIMES),
    };
    let started = wire::schedule_start();
    for &offset in times {
        let place = at + offset as u64;
        let Ok(seconds) = target_memory::read::<u64>(place) else {
            continue;
        };
        let Ok(nanos) = target_memory::read::<u32>(place + 8) else {
            continue;
        };
        if is_since(started, seconds, nanos) {
            // The buffer has just been written: it is there.
            let _ = hooks::write_value(context, place, &(REAL_TIME / SECOND));
            let _ = hooks::write_value(context, place + 8, &0u32);
        }
    }
    outcome
}

fn is_since(started: u64, seconds: u64, nanos: u32) -> bool {
    seconds.saturating_mul(SECOND).saturating_add(nanos.into()) >= started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_since_the_start_are_replaced() {
        let started = 100 * SECOND + 5;
        assert!(!is_since(started, 100, 4));
        assert!(is_since(started, 100, 5));
        assert!(is_since(started, 101, 0));
    }
}
