//! `cargo xtask bench explore`: how fast recoveries are explored.
//!
//! Forks a second, natively and under the engine, of a process that holds little more than the C library and of one that
//! has loaded libpmemobj. Then executions a second of a recovery of about a millisecond, from its first choice on, against
//! starting it by fork and exec. Rounds are interleaved and the best of each counts.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::crash::{own_directory, program, run_quietly};
use crate::args::Args;
use crate::programs::{self, Built};
use crate::shell::{cargo, step, target_dir};
use crate::test_directory::output_of;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 5;
const LIMIT: Duration = Duration::from_secs(300);
/// The most that a fork may cost under the engine, as a multiple of native.
const WANTED_FORK: f64 = 1.5;
/// The least executions a second.
const WANTED_EXECUTIONS: f64 = 500.0;
/// Executions of one round.
const EXECUTIONS: u32 = 1000;
const POOL_BYTES: u64 = 1 << 20;

/// Programs that fork, with what they are.
const PROGRAMS: &[(&str, &str)] = &[
    ("forks_small", "a small program"),
    ("forks_pmemobj", "with libpmemobj loaded"),
];

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let programs = programs::discover(|group| group == "bench")?;
    let built = programs::build(&programs)?;
    let place = own_directory("explore")?;
    let cost = forks(&wrapper, &built, &place, rounds)?;
    let rate = executions(&built, &place, rounds)?;
    fs::remove_dir_all(&place).context("cannot remove what was measured with")?;
    if cost > WANTED_FORK {
        bail!("a fork costs {cost:.2} times as much as natively, more than {WANTED_FORK}");
    }
    if rate < WANTED_EXECUTIONS {
        bail!("{rate:.0} executions a second, less than {WANTED_EXECUTIONS}");
    }
    Ok(())
}

/// Measures forks; what one costs at most under the engine, as a multiple of native.
fn forks(wrapper: &Wrapper, built: &[Built], place: &Path, rounds: usize) -> Result<f64> {
    println!(
        "{:<44} {:>12} {:>12} {:>8}",
        "forks a second", "native", "engine", "times"
    );
    let mut worst: f64 = 0.0;
    for (name, text) in PROGRAMS {
        let native = [OsString::from(program(built, name)?)];
        let tested = wrapper.wrap(&place.join("trace"), None, &native);
        let (mut bare, mut engine): (f64, f64) = (0.0, 0.0);
        for _ in 0..rounds {
            bare = bare.max(printed_rate(&native)?);
            engine = engine.max(printed_rate(&tested)?);
        }
        let times = bare / engine;
        worst = worst.max(times);
        println!("{text:<44} {bare:>12.0} {engine:>12.0} {times:>8.2}");
    }
    Ok(worst)
}

/// Measures executions of a recovery; how many are explored in a second.
fn executions(built: &[Built], place: &Path, rounds: usize) -> Result<f64> {
    let recovery = program(built, "explore_word")?;
    let pool = place.join("pool");
    File::create(&pool)?.set_len(POOL_BYTES)?;
    let words = ["build", "--quiet", "--release", "--package"];
    step(cargo(&words)?.args(["brownout-engine", "--example", "explore_speed"]))?;
    let explorer = target_dir()?.join("release/examples/explore_speed");
    let explored_words: [OsString; 5] = [
        explorer.into(),
        EXECUTIONS.to_string().into(),
        pool.clone().into(),
        recovery.clone().into(),
        pool.clone().into(),
    ];
    let (mut bare, mut explored): (f64, f64) = (0.0, 0.0);
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..EXECUTIONS {
            run_quietly(Command::new(&recovery).arg(&pool))?;
        }
        bare = bare.max(f64::from(EXECUTIONS) / started.elapsed().as_secs_f64());
        explored = explored.max(printed_rate(&explored_words)?);
    }
    println!();
    println!("executions a second of a recovery of about 1 ms");
    println!("{:<44} {bare:>12.0}", "fork and exec");
    println!(
        "{:<44} {explored:>12.0}",
        "explored from its first choice on"
    );
    println!("{:<44} {:>12.0} %", "share", 100.0 * explored / bare);
    Ok(explored)
}

/// The rate that a program prints.
fn printed_rate(words: &[OsString]) -> Result<f64> {
    let output = String::from_utf8(output_of(words, LIMIT)?)?;
    let rate = output.trim().parse();
    rate.with_context(|| format!("{words:?} printed {output:?} and not its rate"))
}
