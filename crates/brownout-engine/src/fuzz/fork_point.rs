//! Where a target is copied for each execution, and why not later.

use std::fmt;

/// Where the target is copied for each execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    /// Before it first uses its input.
    Input,
    /// Before it first uses a persistent file.
    BeforeFiles(Obstacle),
    /// Nowhere: it is started for each execution.
    StartPerRun(Obstacle),
}

/// Why a target is not copied where it first uses its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has so many threads there.
    Threads(u32),
    /// It ends without using the input.
    InputUnused,
    /// It does not come there in time.
    TooSlow,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) => {
                write!(f, "it has {count} threads when it first uses its input")
            }
            Self::InputUnused => f.write_str("it ends before it uses its input"),
            Self::TooSlow => f.write_str("it takes too long to reach its first use of the input"),
        }
    }
}

impl fmt::Display for ForkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("copied at the first use of the input"),
            Self::BeforeFiles(obstacle) => write!(
                f,
                "copied before the first use of a persistent file, because {obstacle}"
            ),
            Self::StartPerRun(obstacle) => {
                write!(f, "started for each execution, because {obstacle}")
            }
        }
    }
}
