//! A program that is recorded and whose recovery is explored by `brownout crash --strategy exhaustive`, one at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::processes::{Memory, follow};
use crate::bench::crash::run_quietly;

/// Otherwise libpmem syncs with `msync`, whose states are others.
const ENVIRONMENT: (&str, &str) = ("PMEM_IS_PMEM_FORCE", "1");
/// An exploration that takes longer is cut off.
const TIME_LIMIT: &str = "60s";

/// A recording of `PROGRAM AMOUNT DIR`, whose recovery is `PROGRAM check DIR`.
pub struct RecordedProgram {
    brownout: PathBuf,
    program: PathBuf,
    place: PathBuf,
}

/// What an exploration did, and what it took.
pub struct ExploredRun {
    pub executions: u64,
    pub time: Duration,
    /// Those of the executions that were copies of processes that had waited.
    pub copies: u64,
    /// Whether every behaviour is known.
    pub is_complete: bool,
    /// Why executions were no copies, and how often.
    pub run_anew: Vec<(String, u64)>,
    /// Nothing if it was not sampled.
    pub memory: Memory,
}

/// Whether memory is sampled while an exploration runs, which then takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    Nothing,
    Memory,
}

impl RecordedProgram {
    /// Records a run that does `amount` updates, in the new directory `place`.
    pub fn record(brownout: &Path, program: &Path, amount: u32, place: &Path) -> Result<Self> {
        let recorded = RecordedProgram {
            brownout: brownout.to_owned(),
            program: program.to_owned(),
            place: place.to_owned(),
        };
        fs::create_dir_all(recorded.pool())?;
        let mut command = Command::new(brownout);
        command
            .env(ENVIRONMENT.0, ENVIRONMENT.1)
            .args(["record", "-q", "-o"])
            .arg(place.join("trace"))
            .arg("--")
            .arg(program)
            .arg(amount.to_string())
            .arg(recorded.pool());
        run_quietly(&mut command)?;
        Ok(recorded)
    }

    fn pool(&self) -> PathBuf {
        self.place.join("pm")
    }

    /// The recovery, on the files as the recorded run has left them.
    pub fn recovery(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("check").arg(self.pool());
        command.env(ENVIRONMENT.0, ENVIRONMENT.1);
        command
    }

    /// Explores the recovery.
    pub fn explore(&self, sampling: Sampling) -> Result<ExploredRun> {
        let out = self.place.join("out");
        let recover = format!("{} check {}", self.program.display(), self.pool().display());
        let mut command = Command::new(&self.brownout);
        command
            .env(ENVIRONMENT.0, ENVIRONMENT.1)
            .args(["crash", "--strategy", "exhaustive", "--jobs", "1"])
            .args(["--time-limit", TIME_LIMIT, "--recover", &recover, "--out"])
            .arg(&out)
            .arg(self.place.join("trace"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let child = command.spawn()?;
        let (output, memory) = match sampling {
            Sampling::Memory => follow(child)?,
            Sampling::Nothing => (child.wait_with_output()?, Memory::default()),
        };
        let time = started.elapsed();
        let remarks = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(0) {
            bail!("{command:?} ended with {}: {remarks}", output.status);
        }
        let run: Value = serde_json::from_str(&fs::read_to_string(out.join("run.json"))?)?;
        fs::remove_dir_all(&out)?;
        let crash = &run["crash"];
        let exploration = &crash["exploration"];
        let number = |name: &str| {
            let number = exploration[name].as_u64();
            number.with_context(|| format!("run.json has no number of {name}"))
        };
        let run_anew = exploration["run_anew"].as_object();
        let run_anew = run_anew.into_iter().flatten();
        Ok(ExploredRun {
            executions: number("executions")?,
            copies: number("copies")?,
            is_complete: crash["complete"] == true,
            run_anew: run_anew
                .map(|(reason, count)| (reason.clone(), count.as_u64().unwrap_or(0)))
                .collect(),
            time,
            memory,
        })
    }
}

impl ExploredRun {
    pub fn print(&self) {
        let row = |name: &str, value: String| println!("{name:<44} {value:>12}");
        row("executions", self.executions.to_string());
        row("of these, copies", self.copies.to_string());
        for (reason, count) in &self.run_anew {
            row(&format!("run anew: {reason}"), count.to_string());
        }
        row("every behaviour is known", self.is_complete.to_string());
        self.memory.print();
    }
}
