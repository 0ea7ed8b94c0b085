//! A directory of the real file system with a private layer over it.
//!
//! An overlay: what is read comes from the real directory, what is written goes to the upper layer on the scratch
//! file system. The PM files are in the upper layer from the beginning, so that the originals are neither read nor
//! copied.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::entries::{empty_directory, imitate};

/// A directory with a private layer over it.
#[derive(Debug)]
pub struct Layer {
    /// Where it is, for recovery as on the machine.
    pub directory: PathBuf,
    /// The real directory, by a path that recovery cannot use.
    lower: PathBuf,
    /// What holds the upper layer, by such a path.
    store: PathBuf,
    /// Whether a user namespace owns the mounts.
    in_user_namespace: bool,
    /// What belongs into the upper layer, relative to it.
    directories: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Layer {
    /// Prepares a layer whose upper side is in `store`, a directory that does not exist yet.
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
        imitate(&layer.lower, &layer.upper())?;
        Ok(layer)
    }

    fn upper(&self) -> PathBuf {
        self.store.join("upper")
    }

    fn work(&self) -> PathBuf {
        self.store.join("work")
    }

    /// Makes the directories above a file that is to be in the layer; only while it is not mounted. Returns where the
    /// file itself belongs.
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
                imitate(&self.lower.join(&directory), &upper)?;
            }
        }
        self.files.insert(inside.to_owned());
        Ok(self.upper().join(inside))
    }

    /// Puts the layer over the directory, as `root` shows it.
    pub fn mount(&self, root: &Path) -> io::Result<()> {
        // Options end at commas and paths at colons; a number has neither.
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

    /// The files that belong here, by their path in the upper layer.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|inside| self.upper().join(inside))
    }

    /// Whether the upper layer holds what belongs there and nothing else.
    pub fn is_clean(&self) -> io::Result<bool> {
        let mut found = 0;
        let clean = self.holds_only_expected(Path::new(""), &mut found)?;
        // The overlay keeps a directory in it for what it is about to put in place.
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

    /// Throws away all that was written, while it is not mounted. Only files stay that belong here and that `keep`, given
    /// their path in the upper layer, says are in order.
    pub fn clear(&mut self, keep: impl Fn(&Path) -> bool) -> io::Result<()> {
        let aside = self.store.join("aside");
        fs::rename(self.upper(), &aside)?;
        empty_directory(&self.work())?;
        fs::create_dir(self.upper())?;
        imitate(&self.lower, &self.upper())?;
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
