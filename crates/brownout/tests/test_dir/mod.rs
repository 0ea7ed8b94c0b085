//! A temporary directory for each test, in which programs are compiled and brownout runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A temporary directory.
pub struct TestDir {
    pub directory: tempfile::TempDir,
}

/// The exit status and output of brownout.
pub struct Completed {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Completed {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl TestDir {
    /// Creates a directory with a program compiled from one of the tests' sources.
    pub fn with(source: &str, options: &[&str]) -> Self {
        let dir = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        dir.compile(source, options);
        dir
    }

    pub fn compile(&self, source: &str, options: &[&str]) {
        let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).join(source);
        let (name, stem) = (source.file_name().unwrap(), source.file_stem().unwrap());
        fs::copy(&source, self.directory.path().join(name)).unwrap();
        let compiled = Command::new("cc")
            .args(["-O1", "-Wl,--build-id", "-o"])
            .args([stem, name])
            .args(options)
            .current_dir(self.directory.path())
            .status();
        assert!(compiled.unwrap().success());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("GITHUB_ACTIONS")
            .env_remove("GITHUB_WORKSPACE")
            .stdin(Stdio::null());
        command
    }

    pub fn brownout(&self, arguments: &[&str]) -> Completed {
        self.command(arguments).output().unwrap().into()
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The findings in `brownout.out`.
    pub fn findings(&self) -> Vec<Value> {
        findings(&self.path("brownout.out"))
    }
}

/// The findings in a results directory.
pub fn findings(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("findings.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
