//! The fallback for machines that forbid namespaces: a private directory.
//!
//! The directory contains the persistent files, and `{pm}` in the command stands for their paths. What recovery writes elsewhere is
//! really written; it uses the machine's network and sees all processes. All processes that it starts are still found and
//! ended, because orphans become children of the sandbox server.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use crate::command_line::CommandLine;
use crate::view::{Condition, PersistentFile, empty_directory, hide};
use crate::{Obstacle, Recovery, Refusal};

/// The prefix of the names of private directories.
const PREFIX: &str = "brownout-recovery-";
/// A younger directory may not have been locked yet by its sandbox server.
const SETTLING: Duration = Duration::from_secs(10);

/// A private directory; removed on drop.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    temporary: PathBuf,
    persistent_files: Vec<PersistentFile>,
    /// Locked while the sandbox server runs.
    _lock: File,
}

impl PrivateDirectory {
    pub fn make(
        files: &[PathBuf],
        recovery: &Recovery,
        obstacle: Obstacle,
    ) -> Result<Self, Refusal> {
        let commands = [Some(&recovery.command), recovery.client.as_ref()];
        let names_file = |command: &&String| CommandLine::has_placeholder(command);
        if !files.is_empty()
            && !commands
                .into_iter()
                .flatten()
                .any(|command| names_file(&command))
        {
            return Err(Refusal::NoPlaceholder { obstacle });
        }
        let refused = |error: io::Error| Refusal::PersistentFile {
            path: files.first().cloned().unwrap_or_default(),
            errno: error.into(),
        };
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|errno| refused(errno.into()))?;
        Self::make_in(&parent(), files).map_err(refused)
    }

    fn make_in(parent: &Path, files: &[PathBuf]) -> io::Result<Self> {
        remove_abandoned(parent);
        // In another container a process may have the same number.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let path = parent.join(format!("{PREFIX}{}-{now}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let temporary = path.join("tmp");
        fs::create_dir(&temporary)?;
        let mut directory = Self {
            path,
            temporary,
            persistent_files: Vec::new(),
            _lock: lock,
        };
        for (number, original) in files.iter().enumerate() {
            // Recovery may depend on the name, and two files may have the same name.
            let holder = directory.path.join(number.to_string());
            fs::create_dir(&holder)?;
            let name = original.file_name().unwrap_or("pm".as_ref());
            let path = holder.join(name);
            let persistent_file = PersistentFile::make(&path, path.clone(), original)?;
            directory.persistent_files.push(persistent_file);
        }
        Ok(directory)
    }

    /// The paths of the persistent files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.persistent_files.iter().map(PersistentFile::path)
    }

    pub fn persistent_files(&self) -> impl Iterator<Item = &File> {
        self.persistent_files.iter().map(PersistentFile::file)
    }

    pub fn temporary_directory(&self) -> &Path {
        &self.temporary
    }

    pub fn hide(&self, numbers: &[usize]) -> Result<(), Refusal> {
        hide(&self.persistent_files, numbers)
    }

    pub fn condition(&self) -> io::Result<Condition> {
        if self.temporary.is_dir() {
            empty_directory(&self.temporary)?;
        }
        let is_clean = self.temporary.is_dir()
            && self
                .persistent_files
                .iter()
                .all(|file| file.is_in_place() && is_alone(file));
        Ok(if is_clean {
            Condition::Unchanged
        } else {
            Condition::Changed
        })
    }

    pub fn restore(&mut self) -> io::Result<Vec<usize>> {
        let mut lost = Vec::new();
        for (number, persistent_file) in self.persistent_files.iter_mut().enumerate() {
            let holder = self.path.join(number.to_string());
            if !(persistent_file.is_in_place() && is_alone(persistent_file)) {
                lost.push(number);
                fs::create_dir_all(&holder)?;
                empty_directory(&holder)?;
                persistent_file.recreate()?;
            }
        }
        fs::create_dir_all(&self.temporary)?;
        empty_directory(&self.temporary)?;
        Ok(lost)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // The next sandbox server removes what cannot be removed now.
        let _ = empty_directory(&self.path);
        let _ = fs::remove_dir(&self.path);
    }
}

/// Whether the directory of a persistent file contains nothing else.
fn is_alone(persistent_file: &PersistentFile) -> bool {
    persistent_file
        .path()
        .parent()
        .and_then(|holder| fs::read_dir(holder).ok())
        .is_some_and(|entries| entries.count() == 1)
}

/// A file system in memory, if there is one.
fn parent() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Removes the directories of sandbox servers that were killed: they are not locked.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let is_settled = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| {
                SystemTime::now()
                    .duration_since(modified)
                    .is_ok_and(|age| age > SETTLING)
            });
        let is_abandoned = is_settled
            && File::open(&path).is_ok_and(|directory| {
                rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
            });
        if is_abandoned {
            // Those of other users cannot be removed.
            let _ = empty_directory(&path);
            let _ = fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_file_is_created_again_and_other_files_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let files = [PathBuf::from("/a/pool"), PathBuf::from("/b/pool")];
        let mut directory = PrivateDirectory::make_in(parent.path(), &files).unwrap();
        assert_eq!(directory.condition().unwrap(), Condition::Unchanged);
        let paths: Vec<PathBuf> = directory.paths().map(Path::to_owned).collect();
        fs::rename(&paths[1], paths[1].with_extension("old")).unwrap();
        fs::write(directory.temporary.join("file"), "x").unwrap();
        assert_eq!(directory.condition().unwrap(), Condition::Changed);
        assert_eq!(directory.restore().unwrap(), [1]);
        assert_eq!(directory.condition().unwrap(), Condition::Unchanged);
        drop(directory);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_directories_of_dead_servers_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [dead, young, alive] =
            ["1", "2", "3"].map(|number| parent.path().join(format!("{PREFIX}{number}")));
        for directory in [&dead, &young, &alive] {
            fs::create_dir_all(directory.join("0")).unwrap();
        }
        let lock = File::open(&alive).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        for old in [&dead, &alive] {
            let past = SystemTime::now() - 2 * SETTLING;
            File::open(old).unwrap().set_modified(past).unwrap();
        }
        remove_abandoned(parent.path());
        assert!(!dead.exists() && young.exists() && alive.exists());
    }
}
