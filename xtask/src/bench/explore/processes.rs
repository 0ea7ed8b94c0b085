//! The memory of an exploration: of the explorer, and of the processes that it lets wait.
//!
//! Sampled while it runs, so that what is there for less than an interval can be missed.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Output};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Result;

/// Reading the memory of many processes takes milliseconds.
const INTERVAL: Duration = Duration::from_millis(250);

/// The most that was seen, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub explorer: u64,
    /// All other processes together, with their shares of what they have in common.
    pub others: u64,
    /// How many those were.
    pub processes: usize,
}

impl Memory {
    pub fn print(&self) {
        let row = |name: &str, kib: u64| println!("{name:<44} {:>12.1} MiB", kib as f64 / 1024.0);
        row("memory of the explorer", self.explorer);
        let name = format!("memory of {} other processes", self.processes);
        row(&name, self.others);
    }

    fn sample(&mut self, explorer: u32) {
        let status = fs::read_to_string(format!("/proc/{explorer}/status"));
        let peak = status.ok().and_then(|status| kib_of(&status, "VmHWM:"));
        self.explorer = self.explorer.max(peak.unwrap_or(0));
        let shares = descendants(explorer).into_iter().filter_map(|pid| {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            kib_of(&rollup, "Pss:")
        });
        let shares: Vec<u64> = shares.collect();
        let sum = shares.iter().sum();
        if sum > self.others {
            self.others = sum;
            self.processes = shares.len();
        }
    }
}

/// Waits for a process, and samples its memory and that of all that it has started. That slows them down: the kernel counts the pages of
/// all processes.
pub fn follow(child: Child) -> Result<(Output, Memory)> {
    let pid = child.id();
    let (finished, stop) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || {
            let mut seen = Memory::default();
            while stop.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen.sample(pid);
            }
            seen
        });
        let output = child.wait_with_output();
        drop(finished);
        let seen = sampler.join().expect("the sampler does not panic");
        Ok((output?, seen))
    })
}

/// All processes that a process has started, and those that they have started.
fn descendants(of: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let Some(parent) = stat.ok().as_deref().and_then(parent_in) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![of];
    while let Some(pid) = waiting.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        waiting.extend(&own);
        found.extend(own);
    }
    found
}

/// The parent's id in a line of `/proc/PID/stat`: the second word after the name, which ends with the last parenthesis.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_follows_the_name_and_the_state() {
        assert_eq!(parent_in("17 (a) b) S 4 17 17 0"), Some(4));
        assert_eq!(parent_in("17"), None);
    }

    #[test]
    fn amounts_are_found_by_name() {
        let text = "Rss:      100 kB\nPss:       42 kB\n";
        assert_eq!(kib_of(text, "Pss:"), Some(42));
        assert_eq!(kib_of(text, "Swap:"), None);
    }

    #[test]
    fn a_child_is_a_descendant() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = descendants(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
