//! A copy of the checkout, in which files can be changed and compiled.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::root;
use crate::tidy::tracked_files;

/// Makes `copy` hold the files of the checkout. Files that have not changed keep their times, so that cargo need not
/// build them again.
pub fn copy_checkout(copy: &Path) -> Result<()> {
    let files = tracked_files()?;
    for path in &files {
        // A file that a change in progress has deleted.
        let Ok(wanted) = fs::read(root().join(path)) else {
            continue;
        };
        write_file(&copy.join(path), &wanted)?;
    }
    remove_others(copy, copy, &files)
}

/// Writes a file unless it has that content already.
pub fn write_file(path: &Path, wanted: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file without a folder")?)?;
    fs::write(path, wanted).with_context(|| path.display().to_string())
}

/// Removes what an earlier use of the copy added.
fn remove_others(copy: &Path, folder: &Path, files: &[String]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            remove_others(copy, &path, files)?;
        } else if !files.iter().any(|file| copy.join(file) == path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
