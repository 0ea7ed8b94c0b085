//! The files that are candidates in any process of the recording. A process that writes to them through a
//! descriptor need not have mapped them.
//!
//! What it can miss: files beyond the first [`SHARED_FILES`], in processes that do not map them.

use crate::wire;
use brownout_ring::{SHARED_FILES, SharedFile};
use core::sync::atomic::Ordering;

/// Whether there is any such file.
pub fn any() -> bool {
    wire::shared_files().is_some_and(|files| files.taken.load(Ordering::Relaxed) != 0)
}

/// Whether a file is one of them.
pub fn contains(dev: u64, ino: u64) -> bool {
    entries().iter().any(|file| {
        file.ino.load(Ordering::Acquire) == ino && file.dev.load(Ordering::Relaxed) == dev
    })
}

/// Adds a file for all processes.
pub fn add(dev: u64, ino: u64) {
    let Some(files) = wire::shared_files().filter(|_| !contains(dev, ino)) else {
        return;
    };
    if files.taken.load(Ordering::Relaxed) as usize >= SHARED_FILES {
        return;
    }
    let index = files.taken.fetch_add(1, Ordering::Relaxed) as usize;
    // Two processes may add the same file at once, which does no harm.
    if let Some(file) = files.entries.get(index) {
        file.dev.store(dev, Ordering::Relaxed);
        file.ino.store(ino, Ordering::Release);
    }
}

fn entries() -> &'static [SharedFile] {
    wire::shared_files().map_or(&[], |files| {
        let taken = files.taken.load(Ordering::Relaxed) as usize;
        &files.entries[..taken.min(SHARED_FILES)]
    })
}
