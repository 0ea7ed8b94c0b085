//! The build-id, the linker's fingerprint of a program file (`.note.gnu.build-id`).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::ModuleProblem;
use crate::elf::ElfFile;

/// A build-id: usually 20 bytes, never empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// `None` if `bytes` is empty: an empty note identifies nothing.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    /// The build-id of an ELF file; `None` if it has none.
    pub fn of_file(path: &Path) -> Result<Option<Self>, ModuleProblem> {
        Ok(ElfFile::open(path)?.build_id())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path of this build's debug file in a debug directory such as `/usr/lib/debug`.
    pub(crate) fn debug_path(&self, debug_directory: &Path) -> PathBuf {
        let hex = self.to_string();
        let (first, rest) = hex.split_at(2);
        debug_directory
            .join(".build-id")
            .join(first)
            .join(format!("{rest}.debug"))
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_build_id_is_none() {
        assert_eq!(BuildId::new(&[]), None);
    }

    #[test]
    fn the_debug_path_splits_off_the_first_byte() {
        let id = BuildId::new(&[0xab, 0x01, 0x02]).unwrap();
        assert_eq!(
            id.debug_path(Path::new("/usr/lib/debug")),
            Path::new("/usr/lib/debug/.build-id/ab/0102.debug")
        );
    }
}
