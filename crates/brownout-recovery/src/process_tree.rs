//! The descendants of this process, their threads and memory.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

/// A descendant of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// The number in `/proc`, which differs from this process's view if `/proc` belongs to another namespace.
    pub pid: Pid,
    /// Whether it has ended but was not waited for.
    pub is_zombie: bool,
}

/// All descendants of this process.
pub fn descendants() -> Vec<Descendant> {
    let Some(this) = fs::read_link("/proc/self")
        .ok()
        .and_then(|link| link.to_str()?.parse().ok())
    else {
        return Vec::new();
    };
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // The process may have ended by now.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Some((parent, is_zombie)) = parent(&status) {
            children.entry(parent).or_default().push((pid, is_zombie));
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![this];
    while let Some(parent) = parents.pop() {
        for &(pid, is_zombie) in children.get(&parent).into_iter().flatten() {
            parents.push(pid);
            if let Some(pid) = Pid::from_raw(pid) {
                found.push(Descendant { pid, is_zombie });
            }
        }
    }
    found
}

/// The threads of a process.
pub fn threads_of(process: Pid) -> Vec<Pid> {
    let directory = format!("/proc/{}/task", process.as_raw_nonzero());
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// The parent in a line of `/proc/PID/stat`, and whether the process is a zombie. The name, in parentheses, may contain
/// any character.
fn parent(status: &str) -> Option<(i32, bool)> {
    let mut fields = status[status.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    Some((fields.next()?.parse().ok()?, state == "Z"))
}

/// Bytes of anonymous memory of all descendants together.
pub fn anonymous_memory() -> u64 {
    let page = rustix::param::page_size() as u64;
    descendants()
        .iter()
        .filter_map(|process| {
            let path = format!("/proc/{}/statm", process.pid.as_raw_nonzero());
            let sizes = fs::read_to_string(path).ok()?;
            let mut sizes = sizes
                .split_ascii_whitespace()
                .skip(1)
                .map(str::parse::<u64>);
            let (resident, shared) = (sizes.next()?.ok()?, sizes.next()?.ok()?);
            Some(resident.saturating_sub(shared) * page)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_is_not_mistaken_for_a_parent() {
        assert_eq!(parent("7 (a) S 1 (b) Z 3 0"), Some((3, true)));
        assert_eq!(parent("7 (x y) S 5 7 7"), Some((5, false)));
        assert_eq!(parent("7 (x"), None);
    }

    #[test]
    fn grandchildren_are_descendants() {
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & echo $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let pids: Vec<i32> = descendants()
            .iter()
            .map(|process| process.pid.as_raw_nonzero().get())
            .collect();
        assert!(pids.contains(&(child.id() as i32)));
        assert!(pids.contains(&line.trim().parse().unwrap()));
        assert!(anonymous_memory() > 0);
        // The end of its input ends the grandchild, and that the child.
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
