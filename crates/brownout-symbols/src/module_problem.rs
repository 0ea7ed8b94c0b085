//! Why the addresses of a module have no names or source lines.

use std::io;
use std::path::PathBuf;

use crate::BuildId;

/// A problem that hides a module's names or source lines. Its frames are still returned, with fewer fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleProblem {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a valid 64-bit ELF file", path.display())]
    NotElf {
        path: PathBuf,
        #[source]
        source: object::read::Error,
    },
    #[error(
        "{} has changed since it was recorded: its build-id was {recorded} and is now {}",
        path.display(),
        found.as_ref().map_or_else(|| "missing".to_owned(), BuildId::to_string)
    )]
    Changed {
        path: PathBuf,
        recorded: BuildId,
        found: Option<BuildId>,
    },
    #[error("a debug section of {} is damaged", path.display())]
    DamagedSection {
        path: PathBuf,
        #[source]
        source: object::read::Error,
    },
    #[error("the debug information of {} is damaged", path.display())]
    DamagedDebugInfo {
        path: PathBuf,
        #[source]
        source: gimli::Error,
    },
}

impl ModuleProblem {
    /// The file that has the problem.
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::Unreadable { path, .. }
            | Self::NotElf { path, .. }
            | Self::Changed { path, .. }
            | Self::DamagedSection { path, .. }
            | Self::DamagedDebugInfo { path, .. } => path,
        }
    }
}
