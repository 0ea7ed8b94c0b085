//! `brownout check` and what follows from it, as a user meets them: results, exit codes, decisions,
//! options from a file, and what is unusual.
//!
//! The program under test is `counter.c`, whose mistakes its arguments choose.

mod config;
mod decisions;
mod demo;
mod results;
mod unusual;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A directory with the program in it.
struct Place {
    directory: tempfile::TempDir,
}

/// What a run of brownout gave.
struct Run {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Place {
    fn new() -> Self {
        Self::compiled(&["-g"])
    }

    fn compiled(options: &[&str]) -> Self {
        let place = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        place.compile(options);
        place
    }

    fn compile(&self, options: &[&str]) {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/counter.c");
        fs::copy(source, self.path("counter.c")).unwrap();
        let compiled = Command::new("cc")
            .args(["-O1", "-Wl,--build-id", "-o", "counter", "counter.c"])
            .args(options)
            .current_dir(self.directory.path())
            .status();
        assert!(compiled.unwrap().success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("GITHUB_ACTIONS")
            .env_remove("GITHUB_WORKSPACE")
            .stdin(Stdio::null());
        command
    }

    fn brownout(&self, arguments: &[&str]) -> Run {
        self.command(arguments).output().unwrap().into()
    }

    /// Checks the program with these mistakes in it.
    fn check(&self, options: &[&str], mistakes: &[&str]) -> Run {
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./counter", "pool"]);
        arguments.extend(mistakes);
        self.brownout(&arguments)
    }

    /// The findings that were kept.
    fn findings(&self) -> Vec<Value> {
        findings(&self.path("brownout.out"))
    }
}

fn findings(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("findings.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The rules of findings with severity `bug`.
fn bugs(findings: &[Value]) -> Vec<&str> {
    findings
        .iter()
        .filter(|finding| finding["severity"] == "bug")
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}
