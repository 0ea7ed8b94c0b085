//! Why crash testing comes to nothing.

use std::path::PathBuf;

use brownout_trace::ReadError;

use crate::crash_point::ImpossibleChoice;
use crate::journal::JournalError;
use brownout_recovery::RunnerError;
use brownout_recovery::SandboxError;

/// Why crash testing came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    #[error("the trace {} cannot be read", path.display())]
    Trace {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
    #[error(transparent)]
    RecoveryRunner(#[from] RunnerError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Choice(#[from] ImpossibleChoice),
    #[error(transparent)]
    Journal(#[from] JournalError),
}
