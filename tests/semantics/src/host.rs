//! The program that executes cases: natively, or under the engine, which records its path.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use brownout_engine::{LiveEvents, OnFull, SymbolicSource, Target, TargetOptions, ThreadSchedule};

use crate::layout::{CODE, GUARD, INPUT, OUTPUT};

pub struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    pub fn compile() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let source = directory.path().join("host.c");
        fs::write(&source, include_str!("host.c"))?;
        let mut compiler = Command::new("cc");
        compiler
            .arg("-O1")
            .arg("-o")
            .arg(directory.path().join("host"));
        for (name, value) in [
            ("CODE", CODE),
            ("INPUT", INPUT),
            ("OUTPUT", OUTPUT),
            ("GUARD", GUARD),
        ] {
            compiler.arg(format!("-D{name}={value}"));
        }
        let status = compiler.arg(&source).status().context("cc")?;
        ensure!(status.success(), "the host does not compile");
        Ok(Self { directory })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn words(&self, code: &[u8], input: &[u8]) -> Result<[PathBuf; 4]> {
        fs::write(self.file("code"), code)?;
        fs::write(self.file("input"), input)?;
        let _ = fs::remove_file(self.file("output"));
        Ok(["host", "code", "input", "output"].map(|name| self.file(name)))
    }

    /// What the code leaves when the CPU executes it.
    pub fn run_natively(&self, code: &[u8], input: &[u8]) -> Result<Vec<u8>> {
        let [program, rest @ ..] = self.words(code, input)?;
        let status = Command::new(program).args(rest).status()?;
        if !status.success() {
            bail!(
                "the host: {status}; its files are in {}",
                self.directory.path().display()
            );
        }
        Ok(fs::read(self.file("output"))?)
    }

    /// What it leaves under the engine, and the records of its path.
    pub fn record(&self, code: &[u8], input: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
        let words = self.words(code, input)?;
        let options = TargetOptions {
            command: words.iter().map(Into::into).collect(),
            loads: false,
            locks: false,
            shared_loads: false,
            reads: false,
            coverage: false,
            watch: Vec::new(),
            on_full: OnFull::Stop,
            repetition: None,
            hold: None,
            schedule: Some(ThreadSchedule::of_seed(1)),
            patch: None,
            symbolic: vec![SymbolicSource::File(self.file("input"))],
        };
        let target = Target::prepare(&options)?;
        let run = target.run(LiveEvents::discard(), &mut |_| ())?;
        let path = run.path.context("no path was recorded")?;
        ensure!(!path.is_cut_off, "the path is too long; make fewer cases");
        Ok((fs::read(self.file("output"))?, path.records))
    }
}
