//! A directory of the real file system with a private layer over it.
//!
//! An overlay: what is read comes from the real directory, what is written goes to the upper layer on the scratch
//! file system. The persistent files are in the upper layer from the beginning, so that the originals are neither read nor
//! copied.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::entries::{copy_attributes, empty_directory};

/// A directory with a private layer over it.
#[derive(Debug)]
pub struct Layer {
    /// Its path, both for recovery and on the machine.
    pub directory: PathBuf,
    /// The real directory, by a path that recovery cannot use.
    lower: PathBuf,
    /// The directory that holds the upper layer, by a path that recovery cannot use.
    store: PathBuf,
    /// Whether a user namespace owns the mounts.
    in_user_namespace: bool,
    /// What belongs into the upper layer, as relative paths.
    directories: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Layer {
    /// Prepares a layer whose upper layer is in `store`, a directory that does not exist yet.
    pub fn new(
        directory: &Path,
        lower: PathBuf,
        store: PathBuf,
        in_user_namespace: bool,
    ) -> io::Result<Self> {
        let layer = Self {
            directory: directory.to_owned(),
            lower,
            store,
            in_user_namespace,
            directories: BTreeSet::new(),
            files: BTreeSet::new(),
        };
        fs::create_dir_all(layer.upper())?;
        fs::create_dir(layer.work())?;
        copy_attributes(&layer.lower, &layer.upper())?;
        Ok(layer)
    }

    fn upper(&self) -> PathBuf {
        self.store.join("upper")
    }

    fn work(&self) -> PathBuf {
        self.store.join("work")
    }

    /// Creates the directories above a file in the layer, which must not be mounted. Returns the path of the file in the
    /// upper layer.
    pub fn make_room(&mut self, file: &Path) -> io::Result<PathBuf> {
        let inside = file
            .strip_prefix(&self.directory)
            .expect("the caller looked for the layer of the file");
        let mut directory = PathBuf::new();
        for part in inside.parent().into_iter().flat_map(Path::components) {
            directory.push(part);
            let upper = self.upper().join(&directory);
            if self.directories.insert(directory.clone()) || !upper.exists() {
                fs::create_dir(&upper)?;
                copy_attributes(&self.lower.join(&directory), &upper)?;
            }
        }
        self.files.insert(inside.to_owned());
        Ok(self.upper().join(inside))
    }

    /// Mounts the layer over its directory below `root`.
    pub fn mount(&self, root: &Path) -> io::Result<()> {
        // Options end at commas and paths at colons; paths of descriptors contain neither.
        let open = |path: &Path| {
            rustix::fs::open(
                path,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let (lower, upper, work) = (
            open(&self.lower)?,
            open(&self.upper())?,
            open(&self.work())?,
        );
        let mut options = format!(
            "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{}",
            lower.as_raw_fd(),
            upper.as_raw_fd(),
            work.as_raw_fd()
        );
        if self.in_user_namespace {
            options.push_str(",userxattr");
        }
        let options = CString::new(options).expect("numbers and words hold no zero");
        let target = super::below(root, &self.directory);
        rustix::mount::mount(
            "overlay",
            &target,
            "overlay",
            MountFlags::empty(),
            &*options,
        )?;
        Ok(())
    }

    pub fn unmount(&self, root: &Path) -> io::Result<()> {
        let target = super::below(root, &self.directory);
        Ok(rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW)?)
    }

    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// The persistent files of this layer, by their paths in the upper layer.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|inside| self.upper().join(inside))
    }

    /// Whether the upper layer contains exactly what belongs there.
    pub fn is_clean(&self) -> io::Result<bool> {
        let mut found = 0;
        let clean = self.holds_only_expected(Path::new(""), &mut found)?;
        // The overlay creates temporary files in a subdirectory of its work directory.
        let work = self.work().join("work");
        let idle = fs::read_dir(work).map_or(Ok(true), |mut entries| match entries.next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => Err(error),
        })?;
        Ok(clean && idle && found == self.directories.len() + self.files.len())
    }

    fn holds_only_expected(&self, directory: &Path, found: &mut usize) -> io::Result<bool> {
        for entry in fs::read_dir(self.upper().join(directory))? {
            let entry = entry?;
            let inside = directory.join(entry.file_name());
            *found += 1;
            let belongs = if entry.file_type()?.is_dir() {
                self.directories.contains(&inside) && self.holds_only_expected(&inside, found)?
            } else {
                self.files.contains(&inside)
            };
            if !belongs {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Discards everything that was written; the layer must not be mounted. Keeps the persistent files for which `keep`, given
    /// their paths in the upper layer, returns true.
    pub fn clear(&mut self, keep: impl Fn(&Path) -> bool) -> io::Result<()> {
        let aside = self.store.join("aside");
        fs::rename(self.upper(), &aside)?;
        empty_directory(&self.work())?;
        fs::create_dir(self.upper())?;
        copy_attributes(&self.lower, &self.upper())?;
        for inside in self.files.clone() {
            let now = self.make_room(&self.directory.join(&inside))?;
            if keep(&now) {
                fs::rename(aside.join(&inside), &now)?;
            }
        }
        empty_directory(&aside)?;
        fs::remove_dir(&aside)
    }
}
