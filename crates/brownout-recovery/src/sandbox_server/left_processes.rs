//! Processes that recovery leaves behind when its first process has ended. They are killed, and no verdict depends on them: if they
//! do the work of recovery, nothing is tested.
//!
//! A helper that ends soon after is harmless, unless it uses the persistent files. What a process does that ends in the instant until the
//! end of the first process is noticed, is not known; it is reported that there was one.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::Orphans;
use crate::run_monitor::{MonitorError, RunMonitor};

/// Notices when a persistent file is used. A mapping uses it until it is removed, at the latest when the process ends. Where the user has
/// no watches left, it notices nothing.
pub struct FileUseNotices(Option<OwnedFd>);

impl FileUseNotices {
    pub fn new(persistent_files: &[PathBuf]) -> Self {
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if let Some(descriptor) = &descriptor {
            for file in persistent_files {
                // A file that does not exist is not used.
                let _ = inotify::add_watch(descriptor, file, WatchFlags::OPEN | WatchFlags::CLOSE);
            }
        }
        Self(descriptor)
    }

    /// Whether a file was opened or closed since this was called before.
    fn has_news(&self) -> bool {
        let Some(descriptor) = &self.0 else {
            return false;
        };
        let mut events = [0; 4096];
        let mut has_news = false;
        while rustix::io::read(descriptor, &mut events).is_ok_and(|len| len > 0) {
            has_news = true;
        }
        has_news
    }
}

/// Whether processes are left that run on for longer than `patience`, or use a persistent file meanwhile. To be called as soon as the
/// first process has ended. `have_ended`: there were some that ended before.
pub fn orphans(
    monitor: &RunMonitor<'_>,
    files: &FileUseNotices,
    patience: Duration,
    have_ended: bool,
) -> Result<Orphans, MonitorError> {
    // What the first process did.
    files.has_news();
    let (were_any, run_on) = monitor.wait_for_children(patience)?;
    Ok(match run_on || files.has_news() {
        true => Orphans::Left,
        false if were_any || have_ended => Orphans::Ended,
        false => Orphans::None,
    })
}
