//! Fixture of the tests: a sandbox with persistent files, and recoveries in C and shell.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brownout_recovery::{Isolation, Outcome, Recovery, RunRequest, Sandbox, SandboxServerCommand};
use tempfile::TempDir;

/// The sandbox server of the tests.
pub fn sandbox_server() -> SandboxServerCommand {
    SandboxServerCommand::new(env!("CARGO_BIN_EXE_serve-sandbox"), &[])
}

/// A directory of the user with two persistent files, which no test may change.
pub struct Fixture {
    directory: TempDir,
}

pub const ORIGINAL: &str = "the user's own";
pub const IMAGE: &str = "crash image";

impl Fixture {
    pub fn set_up() -> Self {
        let directory = TempDir::new().unwrap();
        for name in ["pool", "pool2", "bystander"] {
            std::fs::write(directory.path().join(name), ORIGINAL).unwrap();
        }
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn files(&self) -> Vec<PathBuf> {
        vec![self.path().join("pool"), self.path().join("pool2")]
    }

    pub fn recovery(&self, command: &str) -> Recovery {
        Recovery::new(command, self.path())
    }

    pub fn sandbox(&self, command: &str) -> Sandbox {
        Sandbox::start(&sandbox_server(), &self.recovery(command), &self.files()).unwrap()
    }

    /// Compiles a program; its functions keep their names and frames.
    pub fn compile(&self, name: &str, source: &str) -> PathBuf {
        self.compile_with(&[], name, source)
    }

    pub fn compile_with(&self, options: &[&str], name: &str, source: &str) -> PathBuf {
        let program = self.path().join(name);
        let file = self.path().join(format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let status = Command::new("cc")
            .args(["-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls"])
            .args(["-pthread", "-w"])
            .args(options)
            .arg("-o")
            .args([&program, &file])
            .status()
            .unwrap();
        assert!(status.success());
        program
    }

    /// Checks that the user's files are unchanged.
    pub fn assert_untouched(&self) {
        for name in ["pool", "pool2", "bystander"] {
            let text = std::fs::read_to_string(self.path().join(name)).unwrap();
            assert_eq!(text, ORIGINAL, "{name}");
        }
    }
}

pub fn write(file: &File, text: &str) {
    file.set_len(0).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

pub fn read(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap()
}

pub fn quick() -> RunRequest {
    RunRequest::new(Duration::from_secs(20))
}

/// Runs on fresh images.
pub fn run(sandbox: &mut Sandbox) -> Outcome {
    run_as(sandbox, &quick())
}

pub fn run_as(sandbox: &mut Sandbox, run: &RunRequest) -> Outcome {
    for file in sandbox.files().unwrap() {
        write(file, IMAGE);
    }
    sandbox.run(run).unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine allows unprivileged namespaces with layers; prints a message if it does not.
pub fn layers_are_possible() -> bool {
    let fixture = Fixture::set_up();
    let recovery = fixture.recovery("true {pm}");
    let sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let possible = sandbox.isolation() == Isolation::Layered;
    if !possible {
        eprintln!(
            "only {:?} is possible here: tests that need more are skipped",
            sandbox.isolation()
        );
    }
    possible
}

/// The number of processes with `tag` in their command line or environment.
pub fn processes_with(tag: &str) -> usize {
    let has_tag = |path: PathBuf| std::fs::read(path).is_ok_and(|text| contains(&text, tag));
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            ["cmdline", "environ"]
                .iter()
                .any(|name| has_tag(entry.path().join(name)))
        })
        .count()
}

fn contains(text: &[u8], tag: &str) -> bool {
    text.windows(tag.len())
        .any(|window| window == tag.as_bytes())
}
