//! The order in which the threads of a target run, if it is not left to the system.
//!
//! The runtime runs one thread at a time and decides by a seed which one. The same seed gives the same order, and the same trace,
//! unless the target depends on something that the runtime cannot determine. If it does, that is reported.

use brownout_ring::input;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A schedule: a seed, and the number of steps over which its preemptions are distributed. Written `SEED` or `SEED:STEPS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadSchedule {
    pub seed: u64,
    pub length: u64,
}

impl ThreadSchedule {
    /// The number of steps if none is given.
    pub const LENGTH: u64 = 1000;

    /// The schedule of a seed, with the usual number of steps.
    pub fn of_seed(seed: u64) -> ThreadSchedule {
        ThreadSchedule {
            seed,
            length: Self::LENGTH,
        }
    }
}

/// A text is no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a schedule such as 7 or 7:5000: a seed, and the number of steps over which preemptions are distributed"
)]
pub struct InvalidSchedule;

impl FromStr for ThreadSchedule {
    type Err = InvalidSchedule;

    fn from_str(text: &str) -> Result<Self, InvalidSchedule> {
        let number = |text: &str| text.parse().map_err(|_| InvalidSchedule);
        match text.split_once(':') {
            None => number(text).map(Self::of_seed),
            Some((seed, length)) => {
                let length = number(length)?;
                if length == 0 {
                    return Err(InvalidSchedule);
                }
                Ok(ThreadSchedule {
                    seed: number(seed)?,
                    length,
                })
            }
        }
    }
}

impl fmt::Display for ThreadSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == Self::LENGTH {
            return write!(f, "{}", self.seed);
        }
        write!(f, "{}:{}", self.seed, self.length)
    }
}

/// A run under a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    pub schedule: ThreadSchedule,
    /// Steps that were made while a process had several threads.
    pub steps: u64,
    /// What can make runs with the same schedule differ.
    pub unpinned: Vec<Unpinned>,
    /// Why the target was ended, if none of its threads could ever run again.
    pub deadlock: Option<ScheduleDeadlock>,
}

/// The threads of a target that wait for each other under a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleDeadlock {
    pub schedule: ThreadSchedule,
    pub threads: NonZeroU32,
}

impl fmt::Display for ScheduleDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock under schedule {}: ", self.schedule)?;
        match self.threads.get() {
            1 => write!(f, "the only thread of the program waits")?,
            threads => write!(f, "all {threads} threads of the program wait")?,
        }
        f.write_str(" for locks or conditions, and no thread is left that could end that; the program was killed")
    }
}

/// What a target uses that a schedule does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unpinned {
    Signals,
    Processes,
    Outside,
    Timers,
    Ids,
    Usage,
    Addresses,
}

impl Unpinned {
    /// Those of [`input`] bits, and the addresses if the system cannot fix them.
    pub(crate) fn of(bits: u32, has_fixed_addresses: bool) -> Vec<Self> {
        let all = [
            (bits & input::SIGNALS != 0, Self::Signals),
            (bits & input::PROCESSES != 0, Self::Processes),
            (bits & input::OUTSIDE != 0, Self::Outside),
            (bits & input::TIMERS != 0, Self::Timers),
            (bits & input::IDS != 0, Self::Ids),
            (bits & input::USAGE != 0, Self::Usage),
            (!has_fixed_addresses, Self::Addresses),
        ];
        let used = all.into_iter().filter(|(is_used, _)| *is_used);
        used.map(|(_, unpinned)| unpinned).collect()
    }
}

impl fmt::Display for Unpinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signals => "signals between threads or processes",
            Self::Processes => "the order of several processes",
            Self::Outside => "waits that only the system can end",
            Self::Timers => "timers of the system",
            Self::Ids => "process and thread ids",
            Self::Usage => "the use of processors and memory that the system shows",
            Self::Addresses => "addresses, which this system cannot fix",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_a_seed_and_perhaps_a_number_of_steps() {
        let schedule: ThreadSchedule = "7".parse().unwrap();
        assert_eq!(schedule, ThreadSchedule::of_seed(7));
        assert_eq!(schedule.to_string(), "7");
        let longer: ThreadSchedule = "7:5000".parse().unwrap();
        assert_eq!((longer.seed, longer.length), (7, 5000));
        assert_eq!(longer.to_string(), "7:5000");
        for wrong in ["", "x", "-1", "7:", "7:0", ":7", "1:2:3"] {
            assert_eq!(
                wrong.parse::<ThreadSchedule>(),
                Err(InvalidSchedule),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_not_determined_is_named() {
        assert_eq!(Unpinned::of(0, true), []);
        // Time and random numbers are those of the schedule.
        assert_eq!(Unpinned::of(input::TIME | input::RANDOM, true), []);
        let found = Unpinned::of(input::SIGNALS | input::IDS, false);
        assert_eq!(
            found,
            [Unpinned::Signals, Unpinned::Ids, Unpinned::Addresses]
        );
    }
}
