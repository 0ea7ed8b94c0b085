//! Why a module's addresses could not be turned into source lines.

use std::io;
use std::path::PathBuf;

use crate::BuildId;

/// Something that kept a module's names or lines from being found. Frames of the module are still
/// given, with less in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleProblem {
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a 64-bit ELF file that can be understood", path.display())]
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
    /// The file that the problem is with.
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
