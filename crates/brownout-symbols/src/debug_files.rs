//! Finds separate debug files and `dwz` supplements.
//!
//! The search order is that of gdb ("Separate Debug Files" in its manual): by build-id in each debug directory, then
//! by the name in `.gnu_debuglink` in the program's directory, in its `.debug` subdirectory and in each debug
//! directory. A candidate is used only if its build-id, or else its checksum, matches the program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::Object as _;

use crate::BuildId;
use crate::elf::ElfFile;

/// The directories in which debug files are installed, `/usr/lib/debug` on most systems.
#[derive(Clone, Debug)]
pub(crate) struct DebugDirectories(pub(crate) Vec<PathBuf>);

impl Default for DebugDirectories {
    fn default() -> Self {
        Self(vec![PathBuf::from("/usr/lib/debug")])
    }
}

impl DebugDirectories {
    /// The file with the debug information stripped from `program`.
    pub(crate) fn debug_file(&self, program: &ElfFile) -> Option<ElfFile> {
        self.by_build_id(program.build_id().as_ref())
            .or_else(|| self.by_debug_link(program))
    }

    /// The file to which `dwz` moved the shared parts of several debug files.
    pub(crate) fn supplement(&self, debug_file: &ElfFile) -> Option<ElfFile> {
        let elf = debug_file.parse().ok()?;
        let (name, build_id) = elf.gnu_debugaltlink().ok()??;
        let build_id = BuildId::new(build_id);
        // The debug file may have been found through a symbolic link in `.build-id`; the name is
        // relative to its real directory.
        let real_path = debug_file.path().canonicalize().ok()?;
        let sibling = real_path.parent()?.join(OsStr::from_bytes(name));
        ElfFile::open(&sibling)
            .ok()
            .filter(|found| found.build_id() == build_id)
            .or_else(|| self.by_build_id(build_id.as_ref()))
    }

    fn by_build_id(&self, build_id: Option<&BuildId>) -> Option<ElfFile> {
        let build_id = build_id?;
        self.0.iter().find_map(|directory| {
            ElfFile::open(&build_id.debug_path(directory))
                .ok()
                .filter(|found| found.build_id().as_ref() == Some(build_id))
        })
    }

    fn by_debug_link(&self, program: &ElfFile) -> Option<ElfFile> {
        let elf = program.parse().ok()?;
        let (name, checksum) = elf.gnu_debuglink().ok()??;
        let name = OsStr::from_bytes(name);
        let directory = program.path().parent()?;
        let below_root = directory.strip_prefix("/").unwrap_or(directory);
        let near = [directory.join(name), directory.join(".debug").join(name)];
        let installed = self.0.iter().map(|root| root.join(below_root).join(name));
        near.into_iter()
            .chain(installed)
            .filter(|candidate| candidate != program.path())
            .find_map(|candidate| open_if_matching(&candidate, program, checksum))
    }
}

fn open_if_matching(candidate: &Path, program: &ElfFile, checksum: u32) -> Option<ElfFile> {
    let found = ElfFile::open(candidate).ok()?;
    let same = match (found.build_id(), program.build_id()) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => crc32fast::hash(found.bytes()) == checksum,
    };
    same.then_some(found)
}
