//! Why a campaign cannot continue. The target is never the cause.

use std::io;
use std::path::PathBuf;

use brownout_crash::CrashError;
use brownout_recovery::{FuzzSandboxError, Isolation, RunnerError, SandboxError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuzzError {
    #[error(transparent)]
    Runner(#[from] RunnerError),
    #[error(transparent)]
    Copies(#[from] FuzzSandboxError),
    #[error("cannot read a recording")]
    Recording(#[from] CrashError),
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a file of a campaign: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error(
        "this system does not let brownout hide what the program writes from other processes (isolation: {0:?}); fuzzing needs user \
         namespaces and overlay file systems in them (Linux 5.11 or newer)"
    )]
    Isolation(Isolation),
    #[error("the mutators failed: {0}")]
    Mutation(String),
    #[error("a thread that runs the program ended unexpectedly")]
    ThreadDied,
}

impl From<SandboxError> for FuzzError {
    fn from(error: SandboxError) -> Self {
        Self::Runner(error.into())
    }
}

impl FuzzError {
    /// Whether there is no space left on a disk.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
