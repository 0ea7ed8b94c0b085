//! The thread that owns a slot, and whether it can still publish.
//!
//! A killed thread leaves its slot live. That a thread with its id exists does not mean that it is alive: the kernel can
//! reuse the id, and a killed process remains a zombie until its parent waits for it. The state in `/proc` identifies a
//! zombie, and the start time a thread that reuses the id.

use crate::sys::process::{thread_exists, ticks_since_boot};
use crate::wire_processes::{ThreadLocation, WireProcesses};
use brownout_ring::Slot;
use std::fs;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The thread that owns a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotOwner {
    /// Number of the process within the recording.
    pub(crate) process: u32,
    /// The ids in the thread's own pid namespace.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    located: ThreadLocation,
    wire_processes: WireProcesses,
    /// When the slot was first seen. A thread that started later reuses the id.
    seen_at: u64,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It has ended, whether or not it was waited for.
    Gone,
    /// It is blocked in a system call, so it is not publishing.
    Asleep,
    /// It is running, runnable, stopped, or waiting for a page.
    Active {
        /// Processor time it has used so far.
        cpu_ticks: u64,
    },
}

impl SlotOwner {
    /// Reads the owner of a slot that is live or closed.
    pub(crate) fn of(slot: &Slot, wire_processes: &WireProcesses) -> SlotOwner {
        let closed = slot.state.load(Acquire) != brownout_ring::slot::LIVE;
        let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
        SlotOwner {
            process: slot.process.load(Relaxed),
            pid,
            tid,
            // A thread that has closed its slot does not have to be located.
            located: if closed {
                ThreadLocation::Ended
            } else {
                wire_processes.locate(pid, tid)
            },
            wire_processes: *wire_processes,
            seen_at: ticks_since_boot(),
        }
    }

    /// The id of the process in the recorder's pid namespace, if it is known.
    pub(crate) fn outer_pid(&self) -> Option<u32> {
        match self.located {
            ThreadLocation::Found { pid, .. } => Some(pid),
            ThreadLocation::Ambiguous | ThreadLocation::Ended => None,
        }
    }

    pub(crate) fn activity(&self) -> Activity {
        let (pid, tid) = match self.located {
            ThreadLocation::Found { pid, tid } => (pid, tid),
            ThreadLocation::Ambiguous if self.wire_processes.exist() => {
                return Activity::Active { cpu_ticks: 0 };
            }
            ThreadLocation::Ambiguous | ThreadLocation::Ended => return Activity::Gone,
        };
        match fs::read(format!("/proc/{pid}/task/{tid}/stat")) {
            Ok(stat) => match parse_stat(&stat) {
                Some(Stat {
                    state: b'Z' | b'X', ..
                }) => Activity::Gone,
                Some(stat) if stat.started > self.seen_at => Activity::Gone,
                Some(Stat { state: b'S', .. }) => Activity::Asleep,
                Some(stat) => Activity::Active {
                    cpu_ticks: stat.cpu_ticks,
                },
                None => Activity::Active { cpu_ticks: 0 },
            },
            // The thread has ended, or `/proc` is missing or not readable. Ask the kernel.
            Err(_) if thread_exists(pid, tid) => Activity::Active { cpu_ticks: 0 },
            Err(_) => Activity::Gone,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.activity() != Activity::Gone
    }
}

/// The fields of `/proc/PID/task/TID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    /// User and system time used.
    cpu_ticks: u64,
    /// When the thread started, in ticks since the machine booted.
    started: u64,
}

fn parse_stat(stat: &[u8]) -> Option<Stat> {
    // The name in parentheses can contain any character, including parentheses and spaces.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&[u8]> = stat[name_end + 1..].split(|&byte| byte == b' ').collect();
    // Fields are numbered as in proc(5); the state is number 3 and follows the name.
    let field = |number: usize| fields.get(number - 2).copied();
    let number = |at: usize| std::str::from_utf8(field(at)?).ok()?.parse::<u64>().ok();
    Some(Stat {
        state: *field(3)?.first()?,
        cpu_ticks: number(14)? + number(15)?,
        started: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of(pid: u32, tid: u32) -> SlotOwner {
        let file = tempfile::tempfile().unwrap();
        SlotOwner {
            process: 0,
            pid,
            tid,
            located: ThreadLocation::Found { pid, tid },
            wire_processes: WireProcesses::of(&file, 0).unwrap(),
            seen_at: ticks_since_boot(),
        }
    }

    fn this_thread() -> SlotOwner {
        let tid = fs::read_link("/proc/thread-self").unwrap();
        let tid = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
        owner_of(std::process::id(), tid)
    }

    #[test]
    fn a_running_thread_is_alive_and_an_ended_one_is_not() {
        assert!(this_thread().is_alive());
        let ended = std::thread::spawn(this_thread).join().unwrap();
        // The kernel may take a moment to remove a joined thread from its list.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            !ended.is_alive()
        });
        assert!(gone);
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let owner = owner_of(child.id(), child.id());
        let gone = (0..400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            !owner.is_alive()
        });
        assert!(gone, "a child that was not waited for counts as gone");
        assert!(
            thread_exists(child.id(), child.id()),
            "a zombie still exists"
        );
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }

    #[test]
    fn a_thread_that_started_after_the_slot_was_seen_is_not_its_owner() {
        assert!(
            !SlotOwner {
                seen_at: 0,
                ..this_thread()
            }
            .is_alive()
        );
    }

    #[test]
    fn thread_names_may_contain_parentheses_and_spaces() {
        let stat = b"7 (a) R b) S 1 7 7 0 -1 4194560 1 0 0 0 30 4 0 0 20 0 1 0 4242 1 2 3";
        assert_eq!(
            parse_stat(stat),
            Some(Stat {
                state: b'S',
                cpu_ticks: 34,
                started: 4242
            })
        );
        assert_eq!(parse_stat(b"7 (x"), None);
    }
}
