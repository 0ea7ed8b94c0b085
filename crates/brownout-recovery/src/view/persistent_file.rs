//! A persistent file as recovery sees it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Refusal;

/// A persistent file as recovery sees it: a file of the scratch file system, in a layer or outside all layers.
#[derive(Debug)]
pub struct PersistentFile {
    path: PathBuf,
    backing: PathBuf,
    /// Kept open, so that no other file can get its inode number.
    file: File,
    inode: u64,
    mode: u32,
}

/// Removes the persistent files with these numbers for one run, by the paths that recovery uses, so that a layer notices.
pub fn hide(persistent_files: &[PersistentFile], numbers: &[usize]) -> Result<(), Refusal> {
    for persistent_file in numbers
        .iter()
        .filter_map(|&number| persistent_files.get(number))
    {
        fs::remove_file(&persistent_file.path).map_err(|error| persistent_file.refusal(error))?;
    }
    Ok(())
}

impl PersistentFile {
    /// Creates an empty file, with the mode of the original if there is one.
    pub fn make(path: &Path, backing: PathBuf, original: &Path) -> io::Result<Self> {
        let mode = fs::metadata(original).map_or(0o644, |original| original.mode() & 0o7777);
        let (file, inode) = make(&backing, mode)?;
        if let Ok(original) = fs::metadata(original) {
            // Only root can; for other users their own ownership is fine.
            let _ = std::os::unix::fs::fchown(&file, Some(original.uid()), Some(original.gid()));
        }
        Ok(Self {
            path: path.to_owned(),
            backing,
            file,
            inode,
            mode,
        })
    }

    /// A descriptor of the file itself, which bypasses the layers.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where recovery finds it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is on the scratch file system.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Whether recovery has neither removed, renamed nor replaced it, nor changed its mode.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.backing)
            .is_ok_and(|now| now.ino() == self.inode && now.mode() & 0o7777 == self.mode)
    }

    /// Creates a new file in place of the old one.
    pub fn recreate(&mut self) -> io::Result<()> {
        if let Ok(there) = fs::symlink_metadata(&self.backing) {
            if there.is_dir() {
                fs::remove_dir_all(&self.backing)?;
            } else {
                fs::remove_file(&self.backing)?;
            }
        }
        let owner = self.file.metadata()?;
        (self.file, self.inode) = make(&self.backing, self.mode)?;
        let _ = std::os::unix::fs::fchown(&self.file, Some(owner.uid()), Some(owner.gid()));
        Ok(())
    }

    pub fn refusal(&self, error: io::Error) -> Refusal {
        Refusal::PersistentFile {
            path: self.path.clone(),
            errno: error.into(),
        }
    }
}

fn make(backing: &Path, mode: u32) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(backing)?;
    // The mode at creation was limited by the umask.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    let inode = file.metadata()?.ino();
    Ok((file, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_renamed_or_replaced_is_not_in_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let other = directory.path().join("other");
        let original = Path::new("/missing");
        let mut persistent_file = PersistentFile::make(original, path.clone(), original).unwrap();
        assert!(persistent_file.is_in_place());
        let changes: [&dyn Fn(); 5] = [
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::rename(&path, &other).unwrap(),
            &|| {
                fs::write(&other, "new").unwrap();
                fs::rename(&other, &path).unwrap();
            },
            &|| {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            },
            &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap(),
        ];
        for change in changes {
            change();
            assert!(!persistent_file.is_in_place());
            persistent_file.recreate().unwrap();
            assert!(persistent_file.is_in_place());
            assert_eq!(persistent_file.file().metadata().unwrap().len(), 0);
        }
    }
}
