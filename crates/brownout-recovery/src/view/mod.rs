//! The file system that recovery sees.
//!
//! The whole tree as it is, except that the PM files are crash images and that nothing written to it lasts. It is built
//! on a *scratch* tmpfs that is mounted in the private namespace only:
//!
//! ```text
//! scratch/old      the real root
//! scratch/layers   upper sides of overlays, one per directory that has no mounts below it
//! scratch/root     what becomes the root: copies of the directories that do have mounts below them
//! ```
//!
//! A user namespace may not put an overlay over a directory with mounts in it, because that could uncover what they hide.
//! Such directories (`/` always, few others) are copied: directories in them get layers, symbolic links and small
//! files are copied, large files are bound read-only. Deviation from a real tree: a large file directly in such a directory
//! cannot be written. What cannot be overlaid at all is read-only, `/dev` and `/sys` too; `/proc` is that of the
//! namespace.
//!
//! `scratch` is then hidden below the new root, where only descriptors reach it. With the last process of the namespace the
//! kernel discards it.

mod build;
mod entries;
mod layer;
mod mounts;
mod pm_file;
mod scratch;

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use build::{BuildError, Plan};
pub use entries::empty_directory;
pub use pm_file::PmFile;

use entries::Stamp;
use layer::Layer;
use scratch::Scratch;

use super::{Isolation, Refusal};

/// Where recovery has its `TMPDIR`: directly in the root, which is always private.
pub const TEMPORARY_DIRECTORY: &str = "/brownout-recovery-tmp";

const TEMPORARY_MODE: u32 = 0o700;

fn make_temporary_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(TEMPORARY_MODE).create(path)
}

/// What the file system is like after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As before it.
    Unchanged,
    /// Something was written beside the PM files, or they are not where they were.
    Changed,
}

/// The file system that recovery sees.
#[derive(Debug)]
pub struct View {
    scratch: Scratch,
    layers: Vec<Layer>,
    pm_files: Vec<PmFile>,
    /// Copies of files in directories without a layer, and what they were like when made.
    copies: Vec<(PathBuf, Stamp)>,
    /// The scratch file system's free inodes when nothing has been written: each new name takes one.
    free_inodes: u64,
}

/// Where an absolute path is below another root.
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
    /// How well it keeps what is written.
    pub fn isolation(&self) -> Isolation {
        if self.layers.is_empty() {
            Isolation::ReadOnly
        } else {
            Isolation::Layered
        }
    }

    pub fn pm_files(&self) -> impl Iterator<Item = &File> {
        self.pm_files.iter().map(PmFile::file)
    }

    /// Takes PM files out of the tree for one run.
    pub fn hide(&self, numbers: &[usize]) -> Result<(), Refusal> {
        for pm_file in numbers
            .iter()
            .filter_map(|&number| self.pm_files.get(number))
        {
            // By the path that recovery uses: the layer has to know.
            fs::remove_file(pm_file.path()).map_err(|error| pm_file.refusal(error))?;
        }
        Ok(())
    }

    /// Looks at what a run has left, when all its processes are gone.
    pub fn condition(&self) -> io::Result<Condition> {
        self.empty_temporary_directory()?;
        let copies = self.copies.iter().all(|(path, stamp)| {
            path.symlink_metadata()
                .is_ok_and(|now| Stamp::of(&now) == *stamp)
        });
        let unchanged = copies
            && self.pm_files.iter().all(PmFile::is_in_place)
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
                // A tmpfs counts entries as bytes.
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

    /// Undoes what a run has changed. Returns the numbers of the PM files that are new, or `None` if only a new view will
    /// do.
    pub fn restore(&mut self) -> io::Result<Option<Vec<usize>>> {
        let lost: Vec<usize> = (0..self.pm_files.len())
            .filter(|&number| !self.pm_files[number].is_in_place())
            .collect();
        let is_kept = |path: &Path| {
            let number = self.pm_files.iter().position(|file| file.backing() == path);
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
            self.pm_files[number].make_anew()?;
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
