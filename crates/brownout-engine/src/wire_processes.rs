//! The processes that have the wire open, and their ids in the recorder's pid namespace.
//!
//! A forked process has the wire's descriptor from its first instruction, but claims a slot only a little later. If the
//! target ends in between, the descriptor in `/proc` is the only sign of the new process.
//!
//! A process in another pid namespace sees other ids than the recorder does. This is detected when the process that has
//! the same id here does not have the wire open.

use crate::sys::process::user_id;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The processes that have the wire open at the descriptor that the target inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireProcesses {
    descriptor: RawFd,
    device: u64,
    inode: u64,
}

/// Where in `/proc` a thread is, given its ids in its own pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadLocation {
    /// The thread with these ids in the recorder's pid namespace.
    Found { pid: u32, tid: u32 },
    /// The thread has ended.
    Ended,
    /// One of several threads that have the same ids, each in its own namespace.
    Ambiguous,
}

impl WireProcesses {
    pub(crate) fn of(wire: &fs::File, descriptor: RawFd) -> io::Result<WireProcesses> {
        let metadata = wire.metadata()?;
        Ok(WireProcesses {
            descriptor,
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Whether there are any. None are found if `/proc` cannot be read.
    pub(crate) fn exist(&self) -> bool {
        self.exist_besides(&[])
    }

    /// Whether there are any except the processes with the ids `known` in the recorder's pid namespace.
    pub(crate) fn exist_besides(&self, known: &[u32]) -> bool {
        numbered("/proc")
            .any(|(pid, process)| !known.contains(&pid) && self.holds(&process) == Some(true))
    }

    /// Finds the thread that has the ids `pid` and `tid` in its own pid namespace.
    pub(crate) fn locate(&self, pid: u32, tid: u32) -> ThreadLocation {
        let same = PathBuf::from(format!("/proc/{pid}"));
        let no_proc = || !Path::new("/proc/self").exists();
        let holds = self.holds(&same).unwrap_or_else(|| is_ours(&same));
        if holds || no_proc() {
            return ThreadLocation::Found { pid, tid };
        }
        let mut found = ThreadLocation::Ended;
        for (number, process) in numbered("/proc") {
            if inner_number(&process) != Some(pid) || self.holds(&process) == Some(false) {
                continue;
            }
            let threads = numbered(process.join("task"));
            for (thread, _) in threads.filter(|(_, thread)| inner_number(thread) == Some(tid)) {
                if found != ThreadLocation::Ended {
                    return ThreadLocation::Ambiguous;
                }
                found = ThreadLocation::Found {
                    pid: number,
                    tid: thread,
                };
            }
        }
        found
    }

    /// Whether the process with this directory in `/proc` has the wire open; `None` if reading it is not permitted.
    fn holds(&self, process: &Path) -> Option<bool> {
        match fs::metadata(process.join(format!("fd/{}", self.descriptor))) {
            Ok(file) => Some(file.dev() == self.device && file.ino() == self.inode),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        }
    }
}

/// The subdirectories whose names are numbers.
fn numbered(directory: impl AsRef<Path>) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// Whether a process, whose descriptors we may not read, runs as our user.
fn is_ours(process: &Path) -> bool {
    let user = status_field(process, "Uid:").and_then(|ids| ids.split('\t').nth(1)?.parse().ok());
    user == Some(user_id())
}

/// The id of a process or thread in its own pid namespace, if that is not ours.
fn inner_number(task: &Path) -> Option<u32> {
    let numbers = status_field(task, "NSpid:")?;
    // The first is its id in our namespace.
    let inner = numbers.split_whitespace().skip(1).last()?;
    inner.parse().ok()
}

/// A field of the file `status` of a process or thread.
fn status_field(task: &Path, name: &str) -> Option<String> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_process_with_the_file_at_the_descriptor_is_found() {
        let wire = crate::wire::Wire::create(0).unwrap();
        let held = WireProcesses::of(wire.file(), wire.file().as_raw_fd()).unwrap();
        assert!(held.exist());
        let other = crate::wire::Wire::create(0).unwrap();
        let elsewhere = WireProcesses::of(wire.file(), other.file().as_raw_fd()).unwrap();
        assert!(!elsewhere.exist());
    }

    #[test]
    fn a_thread_in_our_namespace_is_located_by_its_ids() {
        let wire = crate::wire::Wire::create(0).unwrap();
        let wire_processes = WireProcesses::of(wire.file(), wire.file().as_raw_fd()).unwrap();
        let pid = std::process::id();
        let located = wire_processes.locate(pid, 7);
        assert_eq!(located, ThreadLocation::Found { pid, tid: 7 });
        assert_eq!(
            wire_processes.locate(u32::MAX, u32::MAX),
            ThreadLocation::Ended
        );
        // A process without the wire only happens to have the same id.
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let located = wire_processes.locate(other.id(), other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(located, ThreadLocation::Ended);
    }
}
