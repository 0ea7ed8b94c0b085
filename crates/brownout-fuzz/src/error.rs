//! Why a campaign cannot continue. The target is never the cause.

use std::error::Error;
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
}

impl From<SandboxError> for FuzzError {
    fn from(error: SandboxError) -> Self {
        Self::Runner(error.into())
    }
}

impl FuzzError {
    /// Whether an execution has failed, which others need not.
    pub fn is_about_one_execution(&self) -> bool {
        matches!(self, Self::Runner(_) | Self::Copies(_) | Self::Recording(_))
    }

    /// Whether there is no space left on a disk.
    pub fn is_full_disk(&self) -> bool {
        is_full_disk(self)
    }
}

/// Whether an error is caused by a disk without space, or a quota or limit that is reached.
pub fn is_full_disk(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if let Some(
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge,
        ) = kind
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_recognised_wherever_it_is_noticed() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let path = PathBuf::from("corpus");
        let written = FuzzError::Write {
            path: path.clone(),
            source: full(),
        };
        let exchanged = FuzzError::Copies(FuzzSandboxError::Exchange(full()));
        assert!(written.is_full_disk() && exchanged.is_full_disk());
        let denied = FuzzError::Read {
            path,
            source: io::ErrorKind::PermissionDenied.into(),
        };
        assert!(!denied.is_full_disk());
    }
}
