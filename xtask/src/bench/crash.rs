//! `cargo xtask bench crash`: how fast recoveries are tried.
//!
//! The lower bound is the same recovery started by fork and exec alone, on a file that exists already, as many at a time.
//! `brownout crash` must also make each image and isolate the recoveries: see [`recoveries`]. Then follows a whole check of twenty thousand
//! transactions and as many removals, compared with the cost of running the program again for each failure point, as tools without a trace
//! do.

mod recoveries;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::programs::{self, Built, Variant};
use crate::shell::memory_dir;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 3;

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let jobs = args.number("--jobs")?;
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("recoveries are tried by brownout alone")?;
    let programs = programs::discover(|group| group == "bench")?;
    let built = programs::build(&programs)?;
    let mut misses = Vec::new();
    for case in recoveries::CASES {
        misses.extend(case.run(brownout, &built, rounds, jobs)?);
        println!();
    }
    whole_check(brownout, &program(&built, "obj_transactions")?, jobs)?;
    if !misses.is_empty() {
        bail!("{}", misses.join("; "));
    }
    Ok(())
}

pub(super) fn program(built: &[Built], name: &str) -> Result<PathBuf> {
    let found = built
        .iter()
        .find(|built| built.program.name.ends_with(name) && built.variant == Variant::Pie);
    found
        .map(|built| built.path.clone())
        .with_context(|| format!("{name} is not among the programs"))
}

/// A check of a libpmemobj program, and what running it again for each failure point would take.
fn whole_check(brownout: &Path, program: &Path, jobs: usize) -> Result<()> {
    let place = own_directory("check")?;
    let pool = place.join("pm");
    fs::create_dir_all(&pool)?;
    let environment = ("PMEM_IS_PMEM_FORCE", "1");
    let started = Instant::now();
    let mut native = Command::new(program);
    run_quietly(native.arg(&pool).env(environment.0, environment.1))?;
    let native = started.elapsed();
    fs::remove_file(pool.join("pool"))?;

    let recover = format!("{} check {}", program.display(), pool.display());
    let out: OsString = place.join("out").into();
    let started = Instant::now();
    let mut command = Command::new(brownout);
    command
        .env(environment.0, environment.1)
        .args([
            "check",
            "--strategy",
            "prefix",
            "--after",
            "pmemobj_create",
            "--jobs",
            &jobs.to_string(),
        ])
        .args(["--recover", &recover, "--out"])
        .arg(&out)
        .arg("--")
        .arg(program)
        .arg(&pool);
    let output = remarks_of(&mut command)?;
    let check = started.elapsed();
    let recoveries = count_before(&output, " recoveries on different images").unwrap_or(0);
    let points = count_before(&output, " failure points").unwrap_or(0);
    let started = Instant::now();
    run_quietly(
        Command::new(program)
            .arg("check")
            .arg(&pool)
            .env(environment.0, environment.1),
    )?;
    let recovery = started.elapsed();
    // On average a crash comes half way through the run.
    let again = (native / 2 + recovery) * u32::try_from(points)? / u32::try_from(jobs)?;
    println!("40,000 libpmemobj transactions, {jobs} recoveries at a time");
    row("the program natively", native);
    row("one recovery", recovery);
    row("brownout check, from start to report", check);
    println!("{:<44} {points:>10}", "failure points");
    println!("{:<44} {recoveries:>10}", "recoveries on different images");
    row("running again for each point (estimate)", again);
    fs::remove_dir_all(&place)?;
    Ok(())
}

/// An empty directory in memory.
pub(super) fn own_directory(name: &str) -> Result<PathBuf> {
    let path = memory_dir()?.join(format!(
        "brownout-bench-crash-{name}-{}",
        std::process::id()
    ));
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// What a brownout command prints to standard error. Findings are not a failure here.
fn remarks_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("{command:?} ended with {}: {remarks}", output.status);
    }
    Ok(remarks)
}

fn row(name: &str, time: Duration) {
    println!("{name:<44} {:>10.3} s", time.as_secs_f64());
}

pub(super) fn run_quietly(command: &mut Command) -> Result<()> {
    let status = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The number right before a text.
fn count_before(text: &str, what: &str) -> Option<u64> {
    let before = text.split_once(what)?.0;
    before.rsplit([' ', '\n']).next()?.parse().ok()
}
