//! Crash testing as a user meets it: `check --recover`, `crash`, `replay`, `merge`.
//!
//! The program under test is `slots.c`, which is its own recovery.

mod behaviours;
mod budget;
mod causes;
mod confirmed;
mod depth;
mod earlier_reasons;
mod endings;
mod exhaustive;
mod journal;
mod kept_results;
mod known_failures;
mod left_out;
mod locks;
mod memory;
mod names;
mod open_reads;
mod oracles;
mod orders;
mod paths;
mod reads;
mod renamed;
mod replays;
mod run_differences;
mod scripts;
mod shared_memo;
mod shared_starts;
mod sharing;
mod states;
mod strategies;
mod tearing;
mod verdicts;
mod without_lines;

#[path = "../test_dir/mod.rs"]
mod test_dir;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use test_dir::{Completed, TestDir, findings};

impl TestDir {
    fn new() -> Self {
        Self::with("crash/slots.c", &["-g"])
    }

    /// Checks the program, on a new file, with this recovery and these options.
    fn check(&self, recover: &str, options: &[&str], program: &[&str]) -> Completed {
        // There is none the first time.
        let _ = fs::remove_file(self.path("pool"));
        let mut arguments = vec!["check", "--recover", recover];
        arguments.extend(options);
        arguments.extend(["--", "./slots", "pool", "put"]);
        arguments.extend(program);
        self.brownout(&arguments)
    }

    /// Records the program.
    fn record(&self, options: &[&str], program: &[&str]) {
        let mut arguments = vec!["record", "-q", "-o", "trace"];
        arguments.extend(options);
        arguments.extend(["--", "./slots", "pool", "put"]);
        arguments.extend(program);
        let run = self.brownout(&arguments);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    }

    /// Tries crashes of what was recorded.
    fn crash(&self, options: &[&str]) -> Completed {
        let mut arguments = vec!["crash", "trace", "--recover", "./slots {pm} check"];
        arguments.extend(options);
        self.brownout(&arguments)
    }
}

/// Whether users may mount something in namespaces of their own, without which recovery is kept from nothing. Says so
/// where they may not.
fn private_mounts_are_possible() -> bool {
    let mounted = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["mount", "-t", "tmpfs", "none", "/tmp"])
        .stderr(Stdio::null())
        .status();
    let possible = mounted.is_ok_and(|status| status.success());
    if !possible {
        println!("left out: users may not mount anything in namespaces of their own here");
    }
    possible
}

/// What `run.json` in a results directory says.
fn run_file(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The first finding of a recovery that fails.
fn recovery_failure(findings: &[Value]) -> &Value {
    let is_failure = |finding: &&Value| finding["rule"].as_str().unwrap().starts_with("recovery-");
    findings.iter().find(is_failure).unwrap()
}

/// Rule and count of the findings of crash testing.
fn crashes(findings: &[Value]) -> Vec<(&str, u64)> {
    findings
        .iter()
        .filter(|finding| finding["rule"].as_str().unwrap().starts_with("recovery-"))
        .map(|finding| {
            let rule = finding["rule"].as_str().unwrap();
            (rule, finding["count"].as_u64().unwrap())
        })
        .collect()
}

/// The rules of the crash findings: how often recovery fails depends on what else is tried.
fn crash_rules(findings: &[Value]) -> Vec<&str> {
    crashes(findings)
        .into_iter()
        .map(|(rule, _)| rule)
        .collect()
}

/// The functions of the stack with this role.
fn functions<'a>(finding: &'a Value, role: &str) -> Vec<&'a str> {
    let stacks = finding["stacks"].as_array().unwrap();
    let stack = stacks.iter().find(|stack| stack["role"] == role);
    let frames = stack.map(|stack| stack["frames"].as_array().unwrap());
    let frames = frames.into_iter().flatten();
    frames
        .filter_map(|frame| frame["function"].as_str())
        .collect()
}
