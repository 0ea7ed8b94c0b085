//! The time of a schedule: the same in each run with the same seed.
//!
//! It begins at a fixed instant. It goes on a little each time it is read, and jumps to the end of a sleep when no thread can
//! run before (see [`super::switch`]).

use super::switch::{wait, with_turns};
use super::turns::{Wait, Wakeup};
use crate::arch::instruments::schedule::syscalls;
use crate::hooks;
use crate::sys::{Raw, err, errno, linux};
use crate::target_memory;
use crate::translator::context::Context;

/// Calls that are served here.
pub const CALLS: &[u32] = &[
    linux::__NR_clock_gettime,
    linux::__NR_gettimeofday,
    syscalls::TIME,
    linux::__NR_nanosleep,
    linux::__NR_clock_nanosleep,
];

const SECOND: u64 = 1_000_000_000;
/// What the clocks show when a process begins: 1 January 2037, a day after the system has started. Files that were there before the
/// run are older, and the number of seconds still has 31 bits.
pub const REAL_TIME: u64 = 2_114_380_800 * SECOND;
const MONOTONIC: u64 = 86_400 * SECOND;
/// Nanoseconds that reading a clock takes.
const READING: u64 = 1_000;

/// What a clock shows at the beginning.
fn base(clock: u64) -> u64 {
    match clock as u32 {
        linux::CLOCK_REALTIME
        | linux::CLOCK_REALTIME_COARSE
        | linux::CLOCK_REALTIME_ALARM
        | linux::CLOCK_TAI => REAL_TIME,
        _ => MONOTONIC,
    }
}

/// Reads the time since the beginning.
fn read() -> u64 {
    let time = with_turns(|turns| {
        turns.time += READING;
        turns.time
    });
    time.unwrap_or(0)
}

/// What the processor's counter shows.
pub fn ticks() -> u64 {
    MONOTONIC + read()
}

/// The end of a wait that lasts for `length` nanoseconds.
pub fn after(length: u64) -> Option<u64> {
    with_turns(|turns| turns.time.saturating_add(length))
}

/// The end of a wait until a clock shows `time`.
pub fn at(clock: u64, time: u64) -> u64 {
    time.saturating_sub(base(clock))
}

/// A `timespec` of the target, in nanoseconds.
pub fn nanoseconds(at: u64) -> Result<u64, Raw> {
    let [seconds, nanos] = target_memory::read::<[u64; 2]>(at).map_err(|_| err(errno::EFAULT))?;
    if nanos >= SECOND || seconds > i64::MAX as u64 {
        return Err(err(errno::EINVAL));
    }
    Ok(seconds.saturating_mul(SECOND).saturating_add(nanos))
}

/// Serves a call about time; `None` if it is none.
pub fn serve(context: &mut Context, nr: u32, args: &[u64; 6]) -> Option<Raw> {
    let [first, second, third, fourth, ..] = *args;
    Some(match nr {
        linux::__NR_clock_gettime => {
            let time = base(first) + read();
            write(context, second, [time / SECOND, time % SECOND])
        }
        linux::__NR_gettimeofday => {
            let time = REAL_TIME + read();
            let zone = match second {
                0 => 0,
                at => write(context, at, [0]),
            };
            match write(context, first, [time / SECOND, time % SECOND / 1000]) {
                0 => zone,
                fault => fault,
            }
        }
        syscalls::TIME => {
            let seconds = (REAL_TIME + read()) / SECOND;
            match write(context, first, [seconds]) {
                0 => seconds,
                fault => fault,
            }
        }
        linux::__NR_nanosleep => sleep(context, None, first, second),
        linux::__NR_clock_nanosleep => {
            let until = (second as u32 & linux::TIMER_ABSTIME != 0).then_some(first);
            sleep(context, until, third, fourth)
        }
        _ => return None,
    })
}

/// Writes words for the target, unless the pointer is null.
fn write<const N: usize>(context: &mut Context, at: u64, words: [u64; N]) -> Raw {
    if at != 0 && hooks::write_value(context, at, &words).is_err() {
        return err(errno::EFAULT);
    }
    0
}

/// Sleeps for the time at `length`, or until the clock shows it.
fn sleep(context: &mut Context, clock: Option<u64>, length: u64, rest: u64) -> Raw {
    let time = match nanoseconds(length) {
        Ok(time) => time,
        Err(error) => return error,
    };
    let deadline = match clock {
        Some(clock) => Some(at(clock, time)),
        None => after(time),
    };
    let ended = wait(
        context,
        Wait {
            deadline,
            ..Wait::default()
        },
    );
    if ended != Wakeup::Interrupted {
        return 0;
    }
    let left = deadline.unwrap_or(0).saturating_sub(read());
    if clock.is_none() && write(context, rest, [left / SECOND, left % SECOND]) != 0 {
        return err(errno::EFAULT);
    }
    err(errno::EINTR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_a_clock_is_a_time_since_the_beginning() {
        let real = u64::from(linux::CLOCK_REALTIME);
        assert_eq!(at(real, REAL_TIME + 5), 5);
        assert_eq!(at(u64::from(linux::CLOCK_MONOTONIC), MONOTONIC + 7), 7);
        assert_eq!(at(real, 3), 0, "a time that is over");
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let time = [1u64, SECOND];
        assert_eq!(nanoseconds(time.as_ptr() as u64), Err(err(errno::EINVAL)));
        let time = [2u64, 3];
        assert_eq!(nanoseconds(time.as_ptr() as u64), Ok(2 * SECOND + 3));
    }
}
