//! Directory entries: copying their attributes, removing them, detecting changes.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Gives `copy` the owner and mode of `original`, as far as that is allowed. Does nothing if there is no original.
pub fn copy_attributes(original: &Path, copy: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(original) else {
        return Ok(());
    };
    // Only root can; for other users their own ownership is fine.
    let _ = std::os::unix::fs::chown(copy, Some(metadata.uid()), Some(metadata.gid()));
    fs::set_permissions(copy, fs::Permissions::from_mode(metadata.mode() & 0o7777))
}

/// Removes everything in a directory.
pub fn empty_directory(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            make_writable(&path);
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// A recovery may leave directories that not even their owner may write to.
fn make_writable(directory: &Path) {
    // What matters is whether the removal succeeds.
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// Detects changes of a file: any change of content or attributes sets a new change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_may_not_be_written_are_emptied_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir_all(inner.join("innermost")).unwrap();
        fs::write(inner.join("innermost/file"), "x").unwrap();
        fs::set_permissions(inner.join("innermost"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o000)).unwrap();
        empty_directory(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_copy_has_the_mode_of_the_original() {
        let directory = tempfile::tempdir().unwrap();
        let (original, copy) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&original, "").unwrap();
        fs::write(&copy, "").unwrap();
        fs::set_permissions(&original, fs::Permissions::from_mode(0o640)).unwrap();
        copy_attributes(&original, &copy).unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o640);
        copy_attributes(&directory.path().join("nothing"), &copy).unwrap();
    }

    #[test]
    fn a_changed_file_has_another_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "x").unwrap();
        let stamp = || Stamp::of(&fs::metadata(&file).unwrap());
        let before = stamp();
        assert_eq!(stamp(), before);
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&file, "y").unwrap();
        assert_ne!(stamp(), before);
    }
}
