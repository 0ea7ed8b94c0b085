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
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::entries::{empty_directory, imitate, remove};

/// A directory with a private layer over it.
#[derive(Debug)]
pub struct Layer {
    /// Where it is, for recovery as on the machine.
    pub place: PathBuf,
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
        place: &Path,
        lower: PathBuf,
        store: PathBuf,
        in_user_namespace: bool,
    ) -> io::Result<Self> {
        let layer = Self {
            place: place.to_owned(),
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
            .strip_prefix(&self.place)
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
        let target = super::below(root, &self.place);
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
        let target = super::below(root, &self.place);
        Ok(rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW)?)
    }

    /// Whether a path is in the upper layer.
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.store)
    }

    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Undoes what a run has written beside the files that belong here, while the layer is mounted and nobody uses it. Returns
    /// whether that was possible: what was written over, removed or hidden comes back only with [`clear`](Self::clear).
    pub fn tidy(&mut self) -> io::Result<bool> {
        let is_tidy = self.looks_as_below(Path::new("")) && self.tidy_directory(Path::new(""))?;
        // A directory on the way to a file may be gone.
        let is_whole = || {
            self.directories
                .iter()
                .all(|inside| self.upper().join(inside).is_dir())
        };
        Ok(is_tidy && is_whole())
    }

    fn tidy_directory(&mut self, directory: &Path) -> io::Result<bool> {
        for entry in fs::read_dir(self.upper().join(directory))? {
            let entry = entry?;
            let inside = directory.join(entry.file_name());
            if self.files.contains(&inside) {
                continue;
            }
            let is_directory = entry.file_type()?.is_dir();
            if is_directory && self.adopt(&inside) {
                if !self.tidy_directory(&inside)? {
                    return Ok(false);
                }
                continue;
            }
            match fs::symlink_metadata(self.lower.join(&inside)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => return Ok(false),
            }
            // Removed as a program would do it, so that the overlay knows.
            remove(&self.place.join(&inside))?;
        }
        Ok(true)
    }

    /// Whether a directory of the upper layer shows what is below it, so that it may stay.
    fn adopt(&mut self, inside: &Path) -> bool {
        if !self.looks_as_below(inside) {
            return false;
        }
        let is_below = self.lower.join(inside).is_dir();
        if is_below {
            self.directories.insert(inside.to_owned());
        }
        is_below || self.directories.contains(inside)
    }

    /// Whether a directory hides nothing of the one below it, if there is one, and has its mode.
    fn looks_as_below(&self, inside: &Path) -> bool {
        let (upper, lower) = (self.upper().join(inside), self.lower.join(inside));
        let Ok(now) = fs::symlink_metadata(&upper) else {
            return false;
        };
        let is_opaque = |name: &str| rustix::fs::lgetxattr(&upper, name, &mut [0; 8][..]).is_ok();
        if is_opaque("user.overlay.opaque") || is_opaque("trusted.overlay.opaque") {
            return false;
        }
        let Ok(below) = fs::symlink_metadata(&lower) else {
            return true;
        };
        below.is_dir() && now.mode() == below.mode()
    }

    /// Throws away all that was written, while it is not mounted. Only files stay that belong here and that `keep`, given
    /// their path in the upper layer, says are in order.
    pub fn clear(&mut self, keep: impl Fn(&Path) -> bool) -> io::Result<()> {
        let aside = self.store.join("aside");
        fs::rename(self.upper(), &aside)?;
        empty_directory(&self.work())?;
        fs::create_dir(self.upper())?;
        imitate(&self.lower, &self.upper())?;
        self.directories.clear();
        for inside in self.files.clone() {
            let now = self.make_room(&self.place.join(&inside))?;
            if keep(&now) {
                fs::rename(aside.join(&inside), &now)?;
            }
        }
        empty_directory(&aside)?;
        fs::remove_dir(&aside)
    }
}
