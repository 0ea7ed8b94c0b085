//! What a run of a recovery came to.

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
    /// It was killed because its time was over.
    TimedOut,
    /// It was killed because it had more memory than allowed.
    OutOfMemory,
}

/// Whose end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Actor {
    Recovery,
    Client,
}

/// A level of the stack of a recovery that failed, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RawFrame {
    /// The file that the code is from; `None` if it is from no file.
    pub module: Option<PathBuf>,
    /// The note that identifies the build of that file; empty if there is none.
    pub build_id: Vec<u8>,
    /// Where in that file; the address where there is no file.
    pub offset: u64,
    /// Whether this is where a call returns to, rather than the instruction itself.
    pub is_return: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    pub actor: Actor,
    pub duration: Duration,
    /// What the recovery wrote, or the client if there is one, from its beginning.
    pub stdout: Vec<u8>,
    /// Whether `stdout` is all of it.
    pub stdout_complete: bool,
    /// The last that was written to standard error; a server's standard output is among it.
    pub stderr: Vec<u8>,
    /// Where it failed, if it did, the run was to be traced and tracing is possible here.
    pub frames: Vec<RawFrame>,
}

impl Outcome {
    /// Whether recovery succeeded as far as its end can tell.
    pub fn succeeded(&self, recovery: &Recovery) -> bool {
        let speaks = match self.actor {
            Actor::Recovery => recovery.client.is_none(),
            // A server that ended before its client did is no success, whatever its status.
            Actor::Client => true,
        };
        speaks && matches!(self.end, End::Exited(status) if recovery.success.contains(&status))
    }
}
