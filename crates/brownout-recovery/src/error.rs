//! Why recoveries cannot be run.
//!
//! A recovery that fails is never an error: how it failed is in its [`Outcome`](super::Outcome).

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An error number of the kernel, in a form that can be sent.
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
        Self(
            error
                .raw_os_error()
                .unwrap_or(Self::from(rustix::io::Errno::IO).0),
        )
    }
}

/// A step of setting up a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SetupStep {
    Namespaces,
    UserMap,
    Loopback,
    Scratch,
    Mounts,
    Root,
}

impl fmt::Display for SetupStep {
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

/// Why better isolation is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step} is not possible here ({errno})")]
pub struct Obstacle {
    pub step: SetupStep,
    pub errno: Errno,
}

impl SetupStep {
    pub(super) fn failed(self, errno: impl Into<Errno>) -> Obstacle {
        Obstacle {
            step: self,
            errno: errno.into(),
        }
    }
}

/// Why the sandbox server cannot run a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(
        "cannot show recovery the crash image at the original path: {obstacle}; \
         write {{pm}} in the command in place of the path, and brownout inserts the path of a private copy"
    )]
    NoPlaceholder { obstacle: Obstacle },
    #[error("cannot create the persistent file {}: {errno}", path.display())]
    PersistentFile { path: PathBuf, errno: Errno },
    #[error("cannot show recovery a persistent file at {}: this file system cannot hold private files", path.display())]
    KernelFileSystem { path: PathBuf },
    #[error("cannot run recovery in {}: not a directory", path.display())]
    Directory { path: PathBuf },
    #[error(
        "`{text}` in the command names none of the persistent files (there are {files}); {{pm}} is the first, {{pm:2}} the second"
    )]
    Placeholder { text: String, files: usize },
    #[error("the command contains an unpaired quote: {command}")]
    Quotes { command: String },
    #[error("cannot start {command}: {errno}")]
    Start { command: String, errno: Errno },
    #[error("cannot run recovery under the engine: {reason}")]
    Engine { reason: String },
    #[error("cannot clean up after a run: {errno}")]
    Cleanup { errno: Errno },
    #[error("cannot wait for the end of a run: {errno}")]
    Wait { errno: Errno },
}

/// Why recoveries cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("cannot start the sandbox server {}: {source}", program.display())]
    StartSandboxServer { program: PathBuf, source: io::Error },
    #[error("cannot prepare a sandbox: {0}")]
    Prepare(io::Error),
    #[error(
        "the sandbox server has ended unexpectedly; was it killed, or did the machine run out of memory?"
    )]
    SandboxServerGone,
    #[error("cannot communicate with the sandbox server: {0}")]
    Channel(#[from] super::channel::ChannelError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}
