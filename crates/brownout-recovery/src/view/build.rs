//! Builds the file system that recovery sees, directory by directory.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::entries::{Stamp, copy_attributes};
use super::layer::Layer;
use super::mounts::{Mount, Mounts};
use super::persistent_file::PersistentFile;
use super::scratch::{Scratch, mount_proc};
use super::{TEMPORARY_DIRECTORY, View, below};
use crate::{Isolation, Obstacle, Refusal, SetupStep};

/// Files up to this size are copied where a directory cannot have a layer.
const COPY_LIMIT: u64 = 64 * 1024;
/// At most so many files are copied into one directory; the others are bound.
const COPIES_PER_DIRECTORY: usize = 1000;

/// Describes the view to build.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The absolute paths of the persistent files.
    pub files: &'a [PathBuf],
    pub disk_limit: Option<u64>,
    pub strongest: Isolation,
    pub in_user_namespace: bool,
}

/// Why a view cannot be built.
#[derive(Debug)]
pub enum BuildError {
    /// It is not possible on this machine.
    Obstacle(Obstacle),
    /// It is not possible for these files.
    Refusal(Refusal),
}

impl View {
    /// Builds the view and makes it the root of this process, which must have a mount namespace of its own.
    pub fn build(plan: &Plan<'_>) -> Result<Self, BuildError> {
        let obstacle =
            |step: SetupStep| move |error: io::Error| BuildError::Obstacle(step.failed(error));
        let mounts = Mounts::read().map_err(obstacle(SetupStep::Mounts))?;
        let files: Vec<PathBuf> = plan.files.iter().map(|path| resolve(path)).collect();
        if let Some(number) = files.iter().position(|file| !can_hold(&mounts, file)) {
            let path = plan.files[number].clone();
            return Err(BuildError::Refusal(Refusal::KernelFileSystem { path }));
        }
        let scratch = Scratch::enter(plan.disk_limit).map_err(obstacle(SetupStep::Scratch))?;
        let mut builder = Builder {
            plan,
            mounts,
            scratch,
            files,
            layers: Vec::new(),
            copies: Vec::new(),
            islands: 0,
        };
        builder
            .copy(Path::new("/"), true)
            .map_err(obstacle(SetupStep::Root))?;
        let persistent_files = builder
            .make_persistent_files()
            .map_err(BuildError::Refusal)?;
        builder
            .finish(persistent_files)
            .map_err(obstacle(SetupStep::Root))
    }
}

/// The path without symbolic links; the file need not exist.
fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            return match path.strip_prefix(ancestor) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_owned()
}

/// Whether a file system can hold a persistent file; those of the kernel cannot.
fn can_hold(mounts: &Mounts, file: &Path) -> bool {
    let special = ["/proc", "/sys", "/dev"]
        .iter()
        .find(|root| file.starts_with(root));
    let Some(special) = special else {
        return file.is_absolute() && file.parent().is_some();
    };
    *special == "/dev"
        && mounts.of(file).is_some_and(|mount| {
            mount.mount_point != Path::new("/dev") && mount.file_system == "tmpfs"
        })
}

struct Builder<'a> {
    plan: &'a Plan<'a>,
    mounts: Mounts,
    scratch: Scratch,
    /// The persistent files, without symbolic links.
    files: Vec<PathBuf>,
    layers: Vec<Layer>,
    copies: Vec<(PathBuf, Stamp)>,
    islands: usize,
}

impl Builder<'_> {
    fn real(&self, path: &Path) -> PathBuf {
        below(&self.scratch.old(), path)
    }

    fn shown(&self, path: &Path) -> PathBuf {
        below(&self.scratch.root(), path)
    }

    fn holds_persistent_file(&self, directory: &Path) -> bool {
        self.files.iter().any(|file| file.starts_with(directory))
    }

    /// Shows a directory at its path, which exists in the view.
    fn show(&mut self, directory: &Path, on_scratch: bool) -> io::Result<()> {
        let is_read_only = self
            .mounts
            .of(directory)
            .is_some_and(|mount| mount.is_read_only);
        if self.mounts.below(directory).next().is_some() {
            return self.copy(directory, on_scratch);
        }
        if is_read_only && !self.holds_persistent_file(directory) {
            return self.bind(directory);
        }
        match self.layer(directory) {
            Ok(()) => Ok(()),
            Err(_) if self.holds_persistent_file(directory) => self.copy(directory, on_scratch),
            Err(_) => self.bind(directory),
        }
    }

    /// Mounts a layer over a directory, with the directories of its persistent files.
    fn layer(&mut self, directory: &Path) -> io::Result<()> {
        if self.plan.strongest < Isolation::Layered {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let store = self.scratch.layers().join(self.layers.len().to_string());
        let made = Layer::new(
            directory,
            self.real(directory),
            store.clone(),
            self.plan.in_user_namespace,
        )
        .and_then(|mut layer| {
            for file in self.files.iter().filter(|file| file.starts_with(directory)) {
                layer.make_room(file)?;
            }
            // Only mounting shows whether a layer is possible.
            layer.mount(&self.scratch.root())?;
            if layer.has_files() {
                // Persistent files are created while the layer is not mounted.
                layer.unmount(&self.scratch.root())?;
            }
            Ok(layer)
        });
        match made {
            Ok(layer) => {
                self.layers.push(layer);
                Ok(())
            }
            Err(error) => {
                // The next layer uses the same name.
                let _ = fs::remove_dir_all(store);
                Err(error)
            }
        }
    }

    /// Shows a directory read-only.
    fn bind(&self, path: &Path) -> io::Result<()> {
        let shown = self.shown(path);
        rustix::mount::mount_bind_recursive(self.real(path), &shown)?;
        make_read_only(&shown, true)
    }

    /// Shows a private copy of a directory.
    fn copy(&mut self, directory: &Path, on_scratch: bool) -> io::Result<()> {
        if !on_scratch {
            let island = self.scratch.islands().join(self.islands.to_string());
            self.islands += 1;
            fs::create_dir(&island)?;
            rustix::mount::mount_bind(&island, self.shown(directory))?;
        }
        copy_attributes(&self.real(directory), &self.shown(directory))?;
        let mut names: Vec<_> = match fs::read_dir(self.real(directory)) {
            Ok(entries) => entries.flatten().map(|entry| entry.file_name()).collect(),
            // A directory that the user may not list can still lead to ones that they may use.
            Err(_) => Vec::new(),
        };
        for path in self.ways_through(directory) {
            if !names.contains(&path) {
                names.push(path);
            }
        }
        let mut copied = 0;
        for name in names {
            let path = directory.join(name);
            if !self.files.contains(&path) {
                self.copy_entry(&path, &mut copied)?;
            }
        }
        Ok(())
    }

    /// The entries of a directory through which mounts and persistent files are reached.
    fn ways_through(&self, directory: &Path) -> Vec<std::ffi::OsString> {
        let mounts = self
            .mounts
            .below(directory)
            .map(|mount| mount.mount_point.as_path());
        let files = self.files.iter().filter_map(|file| file.parent());
        mounts
            .chain(files)
            .filter_map(|path| path.strip_prefix(directory).ok()?.components().next())
            .map(|part| part.as_os_str().to_owned())
            .collect()
    }

    fn copy_entry(&mut self, path: &Path, copied: &mut usize) -> io::Result<()> {
        let (real, shown) = (self.real(path), self.shown(path));
        let Ok(metadata) = fs::symlink_metadata(&real) else {
            // A directory on the path to a persistent file or a mount that does not exist yet or cannot be examined.
            fs::create_dir(&shown)?;
            return self.copy(path, true);
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            fs::create_dir(&shown)?;
            return match path.to_str() {
                Some("/proc") => mount_proc(&shown, &real),
                Some("/sys") => self.bind(path),
                Some("/dev") => self.devices(path),
                // A directory that cannot be shown appears empty, unless it must hold a persistent file.
                _ => self.show(path, true).or_else(|error| {
                    if self.holds_persistent_file(path) {
                        Err(error)
                    } else {
                        Ok(())
                    }
                }),
            };
        }
        if kind.is_symlink() {
            return std::os::unix::fs::symlink(fs::read_link(&real)?, &shown);
        }
        if kind.is_file()
            && metadata.len() <= COPY_LIMIT
            && *copied < COPIES_PER_DIRECTORY
            && fs::copy(&real, &shown).is_ok()
        {
            *copied += 1;
            copy_attributes(&real, &shown)?;
            let stamp = Stamp::of(&fs::symlink_metadata(&shown)?);
            self.copies.push((shown, stamp));
            return Ok(());
        }
        if kind.is_fifo() {
            let mode = Mode::from_raw_mode(0o666);
            let kind = rustix::fs::FileType::Fifo;
            return Ok(rustix::fs::mknodat(rustix::fs::CWD, &shown, kind, mode, 0)?);
        }
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&shown)?;
        // A file that cannot be bound appears empty.
        let _ = self.bind(path);
        Ok(())
    }

    /// Shows the devices. File systems among them, such as `/dev/shm`, are treated like any other.
    fn devices(&mut self, path: &Path) -> io::Result<()> {
        let shown = self.shown(path);
        rustix::mount::mount_bind_recursive(self.real(path), &shown)?;
        make_read_only(&shown, false)?;
        let inner: Vec<Mount> = self.mounts.below(path).cloned().collect();
        for mount in inner.iter().filter(|mount| mount.file_system != "devpts") {
            if let Err(error) = self.show(&mount.mount_point, false) {
                if self.holds_persistent_file(&mount.mount_point) {
                    return Err(error);
                }
                make_read_only(&self.shown(&mount.mount_point), true)?;
            }
        }
        Ok(())
    }

    /// Creates the persistent files; the layers that contain some are not mounted yet.
    fn make_persistent_files(&mut self) -> Result<Vec<PersistentFile>, Refusal> {
        let mut persistent_files = Vec::with_capacity(self.files.len());
        for (path, resolved) in self.plan.files.iter().zip(&self.files) {
            let layer = self
                .layers
                .iter_mut()
                .find(|layer| resolved.starts_with(&layer.directory));
            let backing = match layer {
                Some(layer) => layer.make_room(resolved),
                None => Ok(below(&self.scratch.root(), resolved)),
            };
            let original = below(&self.scratch.old(), resolved);
            let persistent_file =
                backing.and_then(|backing| PersistentFile::make(path, backing, &original));
            persistent_files.push(persistent_file.map_err(|error| Refusal::PersistentFile {
                path: path.clone(),
                errno: error.into(),
            })?);
        }
        Ok(persistent_files)
    }

    fn finish(self, persistent_files: Vec<PersistentFile>) -> io::Result<View> {
        for layer in self.layers.iter().filter(|layer| layer.has_files()) {
            layer.mount(&self.scratch.root())?;
        }
        super::make_temporary_directory(&self.shown(Path::new(TEMPORARY_DIRECTORY)))?;
        self.scratch.leave_for_root()?;
        let free_inodes = self.scratch.free_inodes()?;
        Ok(View {
            scratch: self.scratch,
            layers: self.layers,
            persistent_files,
            copies: self.copies,
            free_inodes,
        })
    }
}

fn make_read_only(mount_point: &Path, recursive: bool) -> io::Result<()> {
    let mount_point = rustix::fs::open(mount_point, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    crate::sys::make_read_only(std::os::fd::AsFd::as_fd(&mount_point), recursive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("link")).unwrap();
        assert_eq!(resolve(&real.join("link/x/y")), real.join("a/x/y"));
        assert_eq!(resolve(&real.join("link")), real.join("a"));
        assert_eq!(
            resolve(Path::new("/no-such-thing/x")),
            Path::new("/no-such-thing/x")
        );
    }

    #[test]
    fn kernel_file_systems_hold_no_persistent_files() {
        let mounts = Mounts::read().unwrap();
        for place in ["/proc/x", "/sys/x", "/dev/x", "/"] {
            assert!(!can_hold(&mounts, Path::new(place)), "{place}");
        }
        assert!(can_hold(&mounts, Path::new("/home/somebody/pool")));
    }
}
