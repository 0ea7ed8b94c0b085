//! Which processes hold the wire, and under which numbers the kernel knows them here.
//!
//! A process that the target forks just before it ends has the wire's descriptor from its first
//! instant and a slot only a little later: in between, the descriptor in `/proc` is all that tells of
//! it. And a process in a pid namespace of its own has other numbers for itself than we have for it:
//! that a process of that number here does not hold the wire tells so.

use crate::sys::process::user_id;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The processes that have a wire open under the number it was handed on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireProcesses {
    descriptor: RawFd,
    device: u64,
    inode: u64,
}

/// Where in `/proc` a thread is that told its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadLocation {
    /// It is this one.
    Found { pid: u32, tid: u32 },
    /// It has ended.
    Ended,
    /// It is one of several, in namespaces of their own, that call themselves the same.
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

    /// Whether there are any. Where `/proc` cannot be read, none are seen.
    pub(crate) fn exist(&self) -> bool {
        numbered("/proc").any(|(_, process)| self.holds(&process) == Some(true))
    }

    /// Finds the thread that calls itself `tid` in a process that calls itself `pid`.
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

    /// Whether a process, a directory in `/proc`, holds the wire; `None` if it does not let us look.
    fn holds(&self, process: &Path) -> Option<bool> {
        match fs::metadata(process.join(format!("fd/{}", self.descriptor))) {
            Ok(file) => Some(file.dev() == self.device && file.ino() == self.inode),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        }
    }
}

/// The subdirectories that have a number for a name.
fn numbered(directory: impl AsRef<Path>) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// Whether a process that does not let us look into it runs as the user that we are.
fn is_ours(process: &Path) -> bool {
    let user = status_field(process, "Uid:").and_then(|ids| ids.split('\t').nth(1)?.parse().ok());
    user == Some(user_id())
}

/// The number by which a process or thread in another pid namespace than ours knows itself.
fn inner_number(task: &Path) -> Option<u32> {
    let numbers = status_field(task, "NSpid:")?;
    // The first is our number for it.
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
    fn whoever_has_the_file_under_the_number_is_a_holder() {
        let wire = crate::wire::Wire::create(0).unwrap();
        let held = WireProcesses::of(wire.file(), wire.file().as_raw_fd()).unwrap();
        assert!(held.exist());
        let other = crate::wire::Wire::create(0).unwrap();
        let elsewhere = WireProcesses::of(wire.file(), other.file().as_raw_fd()).unwrap();
        assert!(!elsewhere.exist());
    }

    #[test]
    fn a_thread_of_a_holder_is_where_it_says() {
        let wire = crate::wire::Wire::create(0).unwrap();
        let wire_processes = WireProcesses::of(wire.file(), wire.file().as_raw_fd()).unwrap();
        let pid = std::process::id();
        let located = wire_processes.locate(pid, 7);
        assert_eq!(located, ThreadLocation::Found { pid, tid: 7 });
        assert_eq!(
            wire_processes.locate(u32::MAX, u32::MAX),
            ThreadLocation::Ended
        );
        // Whoever does not hold the wire is only a namesake.
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
