//! `cargo xtask bench fuzz`: how many executions a fuzzer can make in a second.
//!
//! A program that only reads its standard input, and one that opens a libpmemobj pool of 8 MiB, runs five commands and closes it; each
//! against starting the program by fork and exec. When it closes a pool, libpmemobj frees 11 MiB of its memory, each page of which a copy
//! of the process has to copy first. Rounds are interleaved and the best of each counts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::crash::{own_directory, program};
use crate::args::Args;
use crate::programs;
use crate::shell::{cargo, step, target_dir};

const ROUNDS: usize = 5;
/// How long one round of one load takes.
const TIME: Duration = Duration::from_secs(2);

/// What is executed.
struct Load {
    text: &'static str,
    program: &'static str,
    input: &'static str,
    has_pool: bool,
    /// The least executions a second.
    aim: f64,
}

const LOADS: &[Load] = &[
    Load {
        text: "a program that reads standard input",
        program: "fuzz_words",
        input: "some words and no magic\n",
        has_pool: false,
        aim: 1000.0,
    },
    Load {
        text: "five commands on a libpmemobj pool",
        program: "fuzz_list",
        input: "i5\ni6\ns\nd\ns\n",
        has_pool: true,
        aim: 1000.0,
    },
];

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    args.finish()?;
    let programs = programs::discover(|group| group == "bench")?;
    let built = programs::build(&programs)?;
    let words = ["build", "--quiet", "--release", "--package"];
    step(cargo(&words)?.args(["brownout-engine", "--example", "fuzz_speed"]))?;
    let executor = target_dir()?.join("release/examples/fuzz_speed");
    let place = own_directory("fuzz")?;
    println!(
        "{:<40} {:>14} {:>14} {:>8} {:>8}",
        "executions a second", "fork and exec", "copies", "times", "aim"
    );
    let mut misses = Vec::new();
    for load in LOADS {
        let target = Prepared {
            program: program(&built, load.program)?,
            input: place.join("input"),
            pool: load.has_pool.then(|| place.join("pool")),
        };
        fs::write(&target.input, load.input)?;
        let (mut bare, mut copies): (f64, f64) = (0.0, 0.0);
        for _ in 0..rounds {
            bare = bare.max(target.bare_rate()?);
            copies = copies.max(target.rate(&executor)?);
        }
        println!(
            "{:<40} {bare:>14.0} {copies:>14.0} {:>8.1} {:>8.0}",
            load.text,
            copies / bare,
            load.aim
        );
        if copies < load.aim {
            misses.push(format!(
                "{}: {copies:.0} executions a second, less than {:.0}",
                load.text, load.aim
            ));
        }
    }
    fs::remove_dir_all(&place).context("cannot remove what was measured with")?;
    if !misses.is_empty() {
        bail!("{}", misses.join("; "));
    }
    Ok(())
}

struct Prepared {
    program: PathBuf,
    input: PathBuf,
    pool: Option<PathBuf>,
}

impl Prepared {
    /// How often the program can be started and ends in a second.
    fn bare_rate(&self) -> Result<f64> {
        let started = Instant::now();
        let mut runs = 0;
        while started.elapsed() < TIME {
            let mut command = Command::new(&self.program);
            command.args(&self.pool).env("PMEM_IS_PMEM_FORCE", "1");
            command.stdin(File::open(&self.input)?);
            let status = command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            if !status.success() {
                bail!("{command:?} ended with {status}");
            }
            runs += 1;
        }
        Ok(f64::from(runs) / started.elapsed().as_secs_f64())
    }

    /// The executions a second that the executor prints.
    fn rate(&self, executor: &Path) -> Result<f64> {
        let mut command = Command::new(executor);
        command.arg(TIME.as_secs().to_string()).arg(&self.input);
        let none = Path::new("-");
        command.arg(self.pool.as_deref().unwrap_or(none));
        command.arg(&self.program).args(&self.pool);
        command.env("PMEM_IS_PMEM_FORCE", "1");
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().with_context(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{command:?} printed {text:?} and not its rate: {errors}")
        })
    }
}
