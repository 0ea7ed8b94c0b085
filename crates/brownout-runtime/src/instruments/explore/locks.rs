//! Locks of whole files (`flock`) that a copy of a process takes.
//!
//! A lock belongs to what is open. The system cannot distinguish copies: a process that is kept while it has a lock would keep it from all
//! other copies that open the file, though each of them stands for a run of its own. From the first fork on, a process therefore decides
//! itself which of its descriptors have a lock. A descriptor is all that is open for it, because calls that duplicate one end the branch.
//!
//! What it can miss: a lock that a process outside of the exploration takes meanwhile.

use crate::sys::{err, errno, linux};
use alloc::collections::BTreeMap;

/// The locks of a process, by descriptor.
#[derive(Default)]
pub struct FileLocks(BTreeMap<u32, FileLock>);

struct FileLock {
    /// Device and inode.
    file: (u64, u64),
    is_exclusive: bool,
}

impl FileLocks {
    pub const fn new() -> FileLocks {
        FileLocks(BTreeMap::new())
    }

    /// Does for a descriptor of a file what `flock` does with this operation, which does not wait. The result of the call.
    pub fn apply(&mut self, fd: u32, file: (u64, u64), operation: u32) -> u64 {
        let is_exclusive = match operation & !linux::LOCK_NB {
            linux::LOCK_SH => false,
            linux::LOCK_EX => true,
            linux::LOCK_UN => {
                self.release(fd);
                return 0;
            }
            _ => return err(errno::EINVAL),
        };
        // A lock is given back before one of another kind is taken, also if that fails then.
        self.release(fd);
        let mut others = self.0.values().filter(|lock| lock.file == file);
        if others.any(|lock| lock.is_exclusive || is_exclusive) {
            return err(errno::EAGAIN);
        }
        self.0.insert(fd, FileLock { file, is_exclusive });
        0
    }

    /// A descriptor is closed.
    pub fn release(&mut self, fd: u32) {
        self.0.remove(&fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (u64, u64) = (1, 2);

    #[test]
    fn locks_of_a_file_exclude_each_other() {
        let mut locks = FileLocks::new();
        let [shared, exclusive] =
            [linux::LOCK_SH, linux::LOCK_EX].map(|kind| kind | linux::LOCK_NB);
        let busy = err(errno::EAGAIN);
        assert_eq!(locks.apply(3, FILE, shared), 0);
        assert_eq!(locks.apply(4, FILE, shared), 0);
        assert_eq!(locks.apply(5, FILE, exclusive), busy);
        assert_eq!(locks.apply(5, (1, 3), exclusive), 0);
        // The third descriptor loses the lock that it had.
        assert_eq!(locks.apply(3, FILE, exclusive), busy);
        locks.release(4);
        assert_eq!(locks.apply(5, FILE, exclusive), 0);
        assert_eq!(locks.apply(6, (1, 3), exclusive), 0);
        assert_eq!(locks.apply(3, FILE, shared), busy);
        assert_eq!(locks.apply(5, FILE, linux::LOCK_UN), 0);
        assert_eq!(locks.apply(3, FILE, shared), 0);
        assert_eq!(locks.apply(3, FILE, linux::LOCK_NB), err(errno::EINVAL));
    }
}
