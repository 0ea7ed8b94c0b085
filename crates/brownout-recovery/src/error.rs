//! Why recoveries cannot be run.
//!
//! None of this is ever the fault of a recovery: what a recovery does wrong is an [`Outcome`](super::Outcome).

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An error number of the kernel, as it goes over the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A step on the way to a place of its own for a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Step {
    Namespaces,
    UserMap,
    Loopback,
    Scratch,
    Mounts,
    Root,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "creating namespaces",
            Self::UserMap => "mapping the user into a namespace",
            Self::Loopback => "bringing up the private network",
            Self::Scratch => "mounting a private tmpfs",
            Self::Mounts => "reading the mounts",
            Self::Root => "building a private view of the file system",
        })
    }
}

/// What stands in the way of better isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step} is not possible here ({errno})")]
pub struct Obstacle {
    pub step: Step,
    pub errno: Errno,
}

impl Step {
    pub(super) fn failed(self, errno: impl Into<Errno>) -> Obstacle {
        Obstacle {
            step: self,
            errno: errno.into(),
        }
    }
}

/// What the sandbox server cannot do for a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(
        "recovery cannot be given the crash image at the path of the original: {obstacle}; \
         write {{pm}} in the command where the path stands, and brownout puts there that of a private copy"
    )]
    NoPlaceholder { obstacle: Obstacle },
    #[error("cannot make the PM file {}: {errno}", path.display())]
    PmFile { path: PathBuf, errno: Errno },
    #[error("cannot give recovery a PM file at {}: no private files are possible there", path.display())]
    PmFilePlace { path: PathBuf },
    #[error("recovery is to run in {}, which is no directory", path.display())]
    Directory { path: PathBuf },
    #[error(
        "{text} in the command names none of the {files} PM files; {{pm}} is the first, {{pm:2}} the second"
    )]
    Placeholder { text: String, files: usize },
    #[error("{} is not UTF-8 and cannot stand for {{pm}} in a command", path.display())]
    PathText { path: PathBuf },
    #[error("the command has an unpaired quote: {command}")]
    Quotes { command: String },
    #[error("cannot start {command}: {errno}")]
    Start { command: String, errno: Errno },
    #[error("cannot run recovery under the engine: {reason}")]
    Engine { reason: String },
    #[error("cannot clean up after a run: {errno}")]
    Cleanup { errno: Errno },
    #[error("cannot watch over a run: {errno}")]
    RunMonitor { errno: Errno },
}

/// Why recoveries cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("cannot start {}, which is to keep recoveries: {source}", program.display())]
    StartSandboxServer { program: PathBuf, source: io::Error },
    #[error("cannot prepare for running recoveries: {0}")]
    Prepare(io::Error),
    #[error(
        "the process that keeps recoveries has gone; was it killed, by hand or for lack of memory?"
    )]
    SandboxServerGone,
    #[error("cannot speak with the process that keeps recoveries: {0}")]
    Channel(#[from] super::channel::ChannelError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}
