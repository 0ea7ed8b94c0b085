//! Files that are complete or not there at all, also after a loss of power.
//!
//! The content goes to a file with a temporary name, which gets its name when the storage has the content. A reader never sees a
//! part of a file. When the directory is synchronised, the storage has the names, too.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use brownout_report::{Format, Report};
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// How the temporary names start and end.
const TEMPORARY: (&str, &str) = (".brownout-", ".tmp");

/// Whether a file has a temporary name: a process that was killed has left it.
pub fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1)
}

/// Writes a report to a file in the given format, atomically. Its name is durable when another file has been written to the same
/// directory with [`write_file`].
pub fn write_report(path: &Path, format: &dyn Format, report: &Report) -> Result<(), Failure> {
    replace(path, 0o666, |out| format.write(report, out))
}

/// Writes a file atomically: completely or not at all. It is durable when this returns, and so are the names of all files in the
/// directory.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Failure> {
    replace(path, 0o666, write)?;
    sync_directory_of(path).map_err(|source| written(path, source))
}

/// Writes a file that only its owner can read, atomically.
pub fn write_private_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Failure> {
    replace(path, 0o600, write)
}

fn written(path: &Path, source: io::Error) -> Failure {
    Failure::Written {
        path: path.to_owned(),
        source,
    }
}

/// `mode` is that of a new file; the umask still applies.
fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |source| written(path, source);
    // A device or a pipe, such as `/dev/stdout`, cannot be replaced and is written to directly.
    if path.exists() && !path.is_file() {
        let file = File::options().write(true).open(path).map_err(failed)?;
        let mut out = BufWriter::new(&file);
        return write(&mut out).and_then(|()| out.flush()).map_err(failed);
    }
    let rename_complete = || -> io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.permissions(fs::Permissions::from_mode(mode));
        builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
        let file: NamedTempFile = builder.tempfile_in(directory_of(path))?;
        let mut out = BufWriter::new(file.as_file());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    rename_complete().map_err(failed)
}

/// Gives a complete file its final name. The storage has both when this returns.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), Failure> {
    sync_file(from)?;
    let rename = || -> io::Result<()> {
        fs::rename(from, to)?;
        sync_directory_of(to)
    };
    rename().map_err(|source| written(to, source))
}

/// Makes the storage have a complete file and its name. Nothing needs to be done for a device or a pipe.
pub fn sync_file(path: &Path) -> Result<(), Failure> {
    let sync = || -> io::Result<()> {
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
        sync_directory_of(path)
    };
    sync().map_err(|source| written(path, source))
}

/// Makes the names of the files in the directory of `path` durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    if !path.is_file() {
        // A device or a pipe.
        return Ok(());
    }
    match File::open(directory_of(path))?.sync_all() {
        // Some file systems have no names to make durable.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_atomically() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        write_file(&path, |out| out.write_all(b"whole")).unwrap();
        let broken = write_file(&path, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(broken.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
