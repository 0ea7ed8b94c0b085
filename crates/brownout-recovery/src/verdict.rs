//! Verdicts: what the end of a recovery says about the image it ran on.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{Actor, End, Expectation, Outcome, Recovery};

/// Whether recovery copes with a crash image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    /// Ended with a status that does not mean success.
    Failed(i32),
    /// A server ended before its client did.
    ServerEnded,
    /// Succeeded, but did not print what was expected.
    WrongOutput,
    /// Exceeded the memory limit.
    OutOfMemory,
    /// Killed by a signal.
    Crashed(i32),
    /// Did not end within the time limit, nor within several times that limit, or was stuck.
    Hung,
}

impl Verdict {
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    pub fn of(
        outcome: &Outcome,
        recovery: &Recovery,
        expected: &Expectation,
        operations: &RangeInclusive<u64>,
    ) -> Self {
        match outcome.end {
            End::Exited(_) if outcome.actor == Actor::Recovery && recovery.client.is_some() => {
                Self::ServerEnded
            }
            End::Exited(status) if !outcome.succeeded(recovery) => Self::Failed(status),
            End::Exited(_) if !expected.met_by(&outcome.stdout, operations) => Self::WrongOutput,
            End::Exited(_) => Self::Passed,
            End::Signaled(signal) => Self::Crashed(signal),
            End::TimedOut => Self::Hung,
            End::OutOfMemory => Self::OutOfMemory,
        }
    }
}

/// Completes the sentence "recovery …".
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => write!(f, "passes"),
            Self::Failed(status) => write!(f, "fails with exit status {status}"),
            Self::ServerEnded => write!(f, "ends instead of serving its client"),
            Self::WrongOutput => write!(f, "does not print what is expected"),
            Self::OutOfMemory => write!(f, "exceeds the memory limit"),
            Self::Crashed(signal) => write!(f, "is killed by {}", signal_text(*signal)),
            Self::Hung => write!(f, "does not end"),
        }
    }
}

/// A signal as people know it.
pub fn signal_text(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// The name of a signal that can end a process; `None` for one without a common name.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}
