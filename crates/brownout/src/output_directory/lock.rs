//! The lock that keeps two runs from writing to one directory.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::failure::Failure;

/// Locks a directory for this process. Where the file system knows no locks, there is none.
pub fn lock(path: &Path) -> Result<Option<File>, Failure> {
    let Ok(directory) = File::open(path) else {
        return Ok(None);
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(Errno::WOULDBLOCK) => Err(Failure::InUse {
            path: path.to_owned(),
        }),
        Err(_) => Ok(None),
    }
}
