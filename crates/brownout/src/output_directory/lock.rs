//! The lock that keeps two runs from writing to one directory.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::failure::Failure;

/// How long a directory may stay locked before it counts as in use. The processes that run recoveries share the lock of the
/// brownout that started them, and end shortly after it if it was killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Locks a directory for this process. Where the file system knows no locks, there is none.
pub fn lock(path: &Path) -> Result<Option<File>, Failure> {
    let Ok(directory) = File::open(path) else {
        return Ok(None);
    };
    let start = Instant::now();
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(directory)),
            Err(Errno::WOULDBLOCK) if start.elapsed() < LOCK_TIMEOUT => sleep(POLL_INTERVAL),
            Err(Errno::WOULDBLOCK) => {
                return Err(Failure::InUse {
                    path: path.to_owned(),
                });
            }
            Err(_) => return Ok(None),
        }
    }
}
