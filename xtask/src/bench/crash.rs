//! `cargo xtask bench crash`: how fast recoveries are tried.
//!
//! The lower bound is the same recovery started by fork and exec alone, on a file that exists already, as many at a time.
//! `brownout crash` must also make each image and isolate the recoveries. Rounds are interleaved and the best of each
//! counts. Then follows a whole check of twenty thousand transactions and as many removals, compared with the cost of
//! running the program again for each failure point, as tools without a trace do.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::programs::{self, Built, Variant};
use crate::shell::memory_dir;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 3;
/// Recoveries of one round.
const RECOVERIES: usize = 600;
/// The least share of the bound.
const WANTED: f64 = 0.8;

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
    let share = recoveries(brownout, &program(&built, "crash_log")?, rounds, jobs)?;
    whole_check(brownout, &program(&built, "obj_transactions")?, jobs)?;
    if share < WANTED {
        bail!(
            "{:.0} % of the bound, less than {:.0} %",
            share * 100.0,
            WANTED * 100.0
        );
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

/// Recoveries a second, bare and under `brownout crash`; the latter's share.
fn recoveries(brownout: &Path, program: &Path, rounds: usize, jobs: usize) -> Result<f64> {
    let place = own_directory("recoveries")?;
    let trace = place.join("trace");
    let pool = place.join("pm");
    fs::create_dir(&pool)?;
    run_quietly(
        Command::new(brownout)
            .args(["record", "-q", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(program)
            .arg(&pool),
    )?;
    let (mut bare, mut tried): (f64, f64) = (0.0, 0.0);
    for _ in 0..rounds {
        bare = bare.max(bare_rate(program, &place, jobs)?);
        tried = tried.max(tried_rate(brownout, program, &trace, &pool, &place, jobs)?);
    }
    let share = tried / bare;
    println!("recoveries of about 10 ms on a pool of 64 MiB, {jobs} at a time");
    println!("{:<44} {bare:>10.1} /s", "fork and exec on a prepared file");
    println!(
        "{:<44} {tried:>10.1} /s",
        "brownout crash, from start to report"
    );
    println!("{:<44} {:>10.0} %", "share", share * 100.0);
    fs::remove_dir_all(&place)?;
    Ok(share)
}

/// Fork and exec alone. Each job has a file of its own.
fn bare_rate(program: &Path, place: &Path, jobs: usize) -> Result<f64> {
    let source = place.join("pm/log");
    let mut places = Vec::new();
    for job in 0..jobs {
        let own = place.join(format!("bare{job}"));
        fs::create_dir_all(&own)?;
        fs::copy(&source, own.join("log"))?;
        places.push(own);
    }
    let left = &AtomicUsize::new(RECOVERIES);
    let started = Instant::now();
    let done = thread::scope(|scope| {
        let threads: Vec<_> = places
            .iter()
            .map(|own| {
                scope.spawn(move || -> Result<()> {
                    let take = || {
                        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                            left.checked_sub(1)
                        })
                    };
                    while take().is_ok() {
                        run_quietly(Command::new(program).arg("check").arg(own))?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect::<Result<Vec<()>>>()
    });
    done?;
    Ok(RECOVERIES as f64 / started.elapsed().as_secs_f64())
}

fn tried_rate(
    brownout: &Path,
    program: &Path,
    trace: &Path,
    pool: &Path,
    place: &Path,
    jobs: usize,
) -> Result<f64> {
    let recover = format!("{} check {}", program.display(), pool.display());
    let out = place.join("out");
    // The program reaches two failure points again and again.
    let occurrences = (RECOVERIES / 2).to_string();
    let started = Instant::now();
    let mut command = Command::new(brownout);
    command
        .args([
            "crash",
            "--strategy",
            "prefix",
            "--occurrences",
            &occurrences,
            "--jobs",
            &jobs.to_string(),
        ])
        .args(["--recover", &recover, "--out"])
        .args([&out, trace]);
    let output = remarks_of(&mut command)?;
    let elapsed = started.elapsed();
    let recoveries = count_before(&output, " recoveries on different images")
        .context("brownout crash does not say how many recoveries it has run")?;
    fs::remove_dir_all(&out)?;
    Ok(recoveries as f64 / elapsed.as_secs_f64())
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
    println!();
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
