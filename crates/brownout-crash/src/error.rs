//! Why crash testing fails.

use std::path::PathBuf;

use brownout_trace::ReadError;

use crate::crash_point::ImpossibleChoice;
use crate::journal::JournalError;
use brownout_recovery::RunnerError;
use brownout_recovery::SandboxError;

/// Why crash testing failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    #[error("cannot read the trace {}", path.display())]
    Trace {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
    #[error("recovery cannot be observed, so it cannot be interrupted")]
    Unobserved,
    #[error("cannot read what a recovery did")]
    Actions(#[source] ReadError),
    #[error(transparent)]
    Runner(#[from] RunnerError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Choice(#[from] ImpossibleChoice),
    #[error(transparent)]
    Journal(#[from] JournalError),
}
