//! The outcome of a run.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Recovery;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum End {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Killed at the time limit.
    TimedOut,
    /// Killed because it exceeded the memory limit.
    OutOfMemory,
}

/// Which process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Actor {
    Recovery,
    Client,
}

/// A frame of the stack of a recovery that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawFrame {
    /// The file that contains the code; `None` if it is not from a file.
    #[serde(with = "crate::path_text::optional")]
    pub module: Option<PathBuf>,
    /// The build id of that file; empty if it has none.
    pub build_id: Vec<u8>,
    /// The offset in that file; the address if there is no file.
    pub offset: u64,
    /// Whether this is a return address rather than the address of the instruction.
    pub is_return: bool,
}

/// Processes of a run for whose ends no other process of it has waited. No verdict depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Orphans {
    /// There are none, or nobody asked.
    #[default]
    None,
    /// They ended by themselves, as far as is known without doing the work of recovery.
    Ended,
    /// They ran on, or used persistent files, when the first process had ended.
    Left,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    pub actor: Actor,
    pub duration: Duration,
    /// The beginning of what recovery printed, or its client if there is one.
    pub stdout: Vec<u8>,
    /// Whether `stdout` is complete.
    pub stdout_complete: bool,
    /// The end of what was printed to standard error; includes the standard output of a server.
    pub stderr: Vec<u8>,
    pub orphans: Orphans,
    /// Where it failed, innermost frame first, if the run was traced and tracing is possible.
    pub frames: Vec<RawFrame>,
}

impl Outcome {
    /// Whether the end of recovery means success.
    pub fn succeeded(&self, recovery: &Recovery) -> bool {
        let decides = match self.actor {
            Actor::Recovery => recovery.client.is_none(),
            // A server that ends before its client has not succeeded, even with status 0.
            Actor::Client => true,
        };
        decides && matches!(self.end, End::Exited(status) if recovery.success.contains(&status))
    }
}
