//! Build-ids of the files that targets map code from, each file read once.

use crate::elf;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One version of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FileVersion {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// The build-ids read so far.
#[derive(Default)]
pub(crate) struct BuildIds {
    known: HashMap<FileVersion, Vec<u8>>,
}

impl BuildIds {
    /// The build-id of the file at `path`, as process `pid` sees it. Empty if the file has none or no longer exists.
    pub(crate) fn of(&mut self, pid: u32, path: &Path) -> &[u8] {
        // The root directory of the process may differ from ours.
        let in_its_root = match path.strip_prefix("/") {
            Ok(relative) => PathBuf::from(format!("/proc/{pid}/root")).join(relative),
            Err(_) => path.into(),
        };
        let file = File::open(in_its_root).or_else(|_| File::open(path));
        file.and_then(|file| self.read(&file)).unwrap_or_default()
    }

    fn read(&mut self, file: &File) -> io::Result<&[u8]> {
        let metadata = file.metadata()?;
        let version = FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let known = self.known.entry(version);
        Ok(known.or_insert_with(|| elf::build_id(file).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_build_id_and_missing_files_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::write(&text, "no program").unwrap();
        let mut build_ids = BuildIds::default();
        let pid = std::process::id();
        assert!(build_ids.of(pid, &text).is_empty());
        assert!(build_ids.of(pid, &directory.path().join("gone")).is_empty());
        assert!(build_ids.of(pid, Path::new("[vdso]")).is_empty());
    }

    #[test]
    fn a_file_is_read_once_whichever_root_it_is_opened_through() {
        let exe = std::env::current_exe().unwrap();
        let mut build_ids = BuildIds::default();
        let ours = build_ids.of(std::process::id(), &exe).to_vec();
        let no_such_process = build_ids.of(u32::MAX, &exe).to_vec();
        assert_eq!(ours, no_such_process);
        assert_eq!(build_ids.known.len(), 1);
    }
}
