//! Runs a target again and again, on one input after the other, and counts what each execution does (PMFuzz, ASPLOS'21, §4.2–4.4).
//!
//! A [`FuzzServer`] starts the target once under the runtime, up to the first use of its input, and copies the process there for each
//! execution. If a persistent file is used before that, the target also waits before its first use: from there, a process is made for each
//! starting image ([`FuzzServer::set_image`]). Where a target cannot be copied, because it has threads, an earlier place is used, and at
//! worst the target is started for each execution; [`FuzzServer::fork_point`] says which and why.
//!
//! Time, random numbers, ids and addresses are the same in each execution: threads run under a [schedule](crate::ThreadSchedule).
//!
//! Persistent files are restored before each execution: the runtime notes which pages are stored to. Other effects are not undone here. The
//! caller runs this in a sandbox of its own, in which the persistent files are private, and has to renew it after an execution that
//! [wrote other files](FuzzExecution::wrote_files).
//!
//! What it can miss: processes that an execution has started and left behind.

mod execution;
mod fork_point;
mod input_file;
mod operations;
mod persistent_files;
mod process_end;
mod server;
mod shared;

pub use execution::{Comparison, CopyEnd, FuzzExecution, Transition};
pub use fork_point::{ForkPoint, Obstacle};
pub use operations::{CodePlace, OperationKind, PmOperation};
pub use server::FuzzServer;

use crate::repetition::Repetition;
use crate::schedule::ThreadSchedule;
use crate::target::TargetError;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct FuzzTarget {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables that the target has in addition to those of this process, or instead of them.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; where this process runs if not given.
    pub directory: Option<PathBuf>,
    pub input: InputChannel,
    /// The persistent files, by absolute paths without symbolic links. They need not exist. What they hold is overwritten.
    pub files: Vec<PathBuf>,
    /// The function before which the process is copied, instead of the first use of the input.
    pub fork_at: Option<String>,
    /// The time after which an execution is killed.
    pub timeout: Duration,
    pub schedule: ThreadSchedule,
    /// How runs are made alike.
    pub repetition: Repetition,
    /// Whether the operands of comparisons are captured. Executions are slower then.
    pub comparisons: bool,
}

/// How the target gets its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputChannel {
    /// As its standard input.
    Stdin,
    /// As a file, which is created at this absolute path. The command names it.
    File(PathBuf),
    /// From clients: it is a server. What they send is a file, which is created at this absolute path.
    Clients(PathBuf),
}

/// Why an execution, or any further one, is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuzzServerError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot use the input file {}", path.display())]
    Input {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the persistent file {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there are {given} persistent files; at most {most} can be fuzzed at once")]
    TooManyFiles { given: usize, most: usize },
    #[error("the path {} is too long; at most {most} bytes can be used", path.display())]
    LongPath { path: PathBuf, most: usize },
    #[error("the name of the function to fork at is empty or too long")]
    FunctionName,
    #[error("an image has {given} files, but the program has {expected} persistent files")]
    Image { given: usize, expected: usize },
    #[error("cannot determine how a process ended")]
    Wait(#[source] io::Error),
    #[error("cannot copy the program: too many processes or not enough memory")]
    Copy,
}
