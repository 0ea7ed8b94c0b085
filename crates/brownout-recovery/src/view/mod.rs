//! The file system that recovery sees.
//!
//! The whole tree, except that the persistent files are crash images and that nothing written to it persists. It is built on a
//! *scratch* tmpfs that is mounted in the private namespace only:
//!
//! ```text
//! scratch/old      the real root
//! scratch/layers   upper layers of overlays, one per directory that has no mounts below it
//! scratch/root     what becomes the root: copies of the directories that have mounts below them
//! ```
//!
//! The kernel does not allow a user namespace to mount an overlay over a directory that contains mounts, because that
//! could uncover what they hide. Such directories (`/` and few others) are copied: directories in them get layers,
//! symbolic links and small files are copied, large files are bound read-only. So a large file directly in such a
//! directory cannot be written. Directories that cannot be overlaid are read-only, as are `/dev` and `/sys`. `/proc` is
//! that of the namespace.
//!
//! `scratch` is then hidden below the new root and can only be reached through descriptors. The kernel discards it with
//! the last process of the namespace.

mod build;
mod entries;
mod layer;
mod mounts;
mod persistent_file;
mod scratch;

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use build::{BuildError, Plan};
pub use entries::empty_directory;
pub use persistent_file::{PersistentFile, hide};

use entries::Stamp;
use layer::Layer;
use scratch::Scratch;

use super::{Isolation, Refusal};

/// `TMPDIR` of recovery. It is directly in the root, which is always private.
pub const TEMPORARY_DIRECTORY: &str = "/brownout-recovery-tmp";

const TEMPORARY_MODE: u32 = 0o700;

fn make_temporary_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(TEMPORARY_MODE).create(path)
}

/// The state of the file system after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As before the run.
    Unchanged,
    /// Something other than the persistent files was written, or a persistent file is not where it was.
    Changed,
}

/// The file system that recovery sees.
#[derive(Debug)]
pub struct View {
    scratch: Scratch,
    layers: Vec<Layer>,
    persistent_files: Vec<PersistentFile>,
    /// Copies of files in directories without a layer, and their stamps.
    copies: Vec<(PathBuf, Stamp)>,
    /// Free inodes of the scratch file system before the first run: each new name takes one.
    free_inodes: u64,
}

/// The path below another root of an absolute path.
fn below(root: &Path, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mut whole = OsString::from(root);
    if !relative.as_os_str().is_empty() {
        whole.push("/");
        whole.push(relative);
    }
    PathBuf::from(whole)
}

impl View {
    /// The isolation that this view gives.
    pub fn isolation(&self) -> Isolation {
        if self.layers.is_empty() {
            Isolation::ReadOnly
        } else {
            Isolation::Layered
        }
    }

    pub fn persistent_files(&self) -> impl Iterator<Item = &File> {
        self.persistent_files.iter().map(PersistentFile::file)
    }

    /// Removes persistent files for one run.
    pub fn hide(&self, numbers: &[usize]) -> Result<(), Refusal> {
        hide(&self.persistent_files, numbers)
    }

    /// Examines what a run has left, when all its processes have ended.
    pub fn condition(&self) -> io::Result<Condition> {
        self.empty_temporary_directory()?;
        let copies = self.copies.iter().all(|(path, stamp)| {
            path.symlink_metadata()
                .is_ok_and(|now| Stamp::of(&now) == *stamp)
        });
        let unchanged = copies
            && self
                .persistent_files
                .iter()
                .all(PersistentFile::is_in_place)
            && self.scratch.free_inodes()? == self.free_inodes;
        Ok(if unchanged {
            Condition::Unchanged
        } else {
            Condition::Changed
        })
    }

    fn empty_temporary_directory(&self) -> io::Result<()> {
        let directory = below(&self.scratch.root(), Path::new(TEMPORARY_DIRECTORY));
        match fs::symlink_metadata(&directory) {
            Ok(now) if now.is_dir() => {
                if now.mode() & 0o7777 != TEMPORARY_MODE {
                    fs::set_permissions(&directory, Permissions::from_mode(TEMPORARY_MODE))?;
                }
                // The size of a directory in a tmpfs is 0 if it is empty.
                if now.len() > 0 {
                    empty_directory(&directory)?;
                }
                Ok(())
            }
            Ok(_) => {
                fs::remove_file(&directory)?;
                make_temporary_directory(&directory)
            }
            Err(_) => make_temporary_directory(&directory),
        }
    }

    /// Undoes the changes of a run. Returns the numbers of the persistent files that were created again, or `None` if a new view is
    /// needed.
    pub fn restore(&mut self) -> io::Result<Option<Vec<usize>>> {
        let lost: Vec<usize> = (0..self.persistent_files.len())
            .filter(|&number| !self.persistent_files[number].is_in_place())
            .collect();
        let is_kept = |path: &Path| {
            let number = self
                .persistent_files
                .iter()
                .position(|file| file.backing() == path);
            number.is_some_and(|number| !lost.contains(&number))
        };
        let mut cleared = Vec::new();
        for (number, layer) in self.layers.iter_mut().enumerate() {
            if layer.is_clean()? && layer.files().all(|path| is_kept(&path)) {
                continue;
            }
            layer.unmount(Path::new("/"))?;
            layer.clear(is_kept)?;
            cleared.push(number);
        }
        for &number in &lost {
            self.persistent_files[number].recreate()?;
        }
        for number in cleared {
            self.layers[number].mount(Path::new("/"))?;
        }
        let restored = self.condition()? == Condition::Unchanged;
        Ok(restored.then_some(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_another_root() {
        let cases = [
            ("/r", "/", "/r"),
            ("/r", "/a/b", "/r/a/b"),
            ("/", "/a", "//a"),
        ];
        for (root, path, whole) in cases {
            let found = below(Path::new(root), Path::new(path));
            assert_eq!(found.as_os_str(), whole);
        }
    }
}
