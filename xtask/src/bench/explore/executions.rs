//! Executions a second, against starting the same recovery by fork and exec on a prepared file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::explored_run::{RecordedProgram, Sampling};
use super::{Misses, printed_rate};
use crate::bench::crash::{program, run_quietly};
use crate::programs::Built;
use crate::shell::{cargo, step, target_dir};

/// The least executions a second of the short recovery.
const WANTED_EXECUTIONS: f64 = 500.0;
/// Executions of one round of the short recovery.
const EXECUTIONS: u32 = 1000;
const POOL_BYTES: u64 = 1 << 20;
/// The least share of fork and exec at which libpmemobj is explored.
const WANTED_SHARE: f64 = 0.6;
/// How many inserts are explored.
const INSERTS: u32 = 40;
/// An exploration takes several seconds, so more rounds show little more.
const MOST_ROUNDS: usize = 2;
/// How long recoveries are started by fork and exec in one round.
const BARE_TIME: Duration = Duration::from_secs(1);

/// A recovery of about a millisecond, from its first choice on.
pub fn short(built: &[Built], place: &Path, rounds: usize) -> Result<Misses> {
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
        bare = bare.max(bare_rate(Command::new(&recovery).arg(&pool))?);
        explored = explored.max(printed_rate(&explored_words)?);
    }
    println!("executions a second of a recovery of about 1 ms");
    print_rates(bare, explored, "explored from its first choice on");
    println!(
        "{:<44} {WANTED_EXECUTIONS:>12.0} executions a second",
        "aim"
    );
    Ok((explored < WANTED_EXECUTIONS)
        .then(|| format!("{explored:.0} executions a second, less than {WANTED_EXECUTIONS}"))
        .into_iter()
        .collect())
}

/// `pmemobj_open` and a check of what is in the pool, explored by `brownout crash` from start to report.
pub fn pmemobj(brownout: &Path, built: &[Built], place: &Path, rounds: usize) -> Result<Misses> {
    let target = program(built, "obj_inserts")?;
    let recorded = RecordedProgram::record(brownout, &target, INSERTS, &place.join("pmemobj"))?;
    let (mut bare, mut explored): (f64, f64) = (0.0, 0.0);
    for _ in 0..rounds.min(MOST_ROUNDS) {
        bare = bare.max(bare_rate(&mut recorded.recovery())?);
        let run = recorded.explore(Sampling::Nothing)?;
        explored = explored.max(run.executions as f64 / run.time.as_secs_f64());
    }
    println!("executions a second of pmemobj_open and a check, after {INSERTS} inserts");
    print_rates(bare, explored, "brownout crash, from start to report");
    println!("{:<44} {:>12.0} %", "aim", 100.0 * WANTED_SHARE);
    recorded.explore(Sampling::Memory)?.print();
    fs::remove_dir_all(place.join("pmemobj"))?;
    let share = explored / bare;
    Ok((share < WANTED_SHARE)
        .then(|| {
            format!(
                "libpmemobj is explored at {:.0} % of fork and exec, less than {:.0} %",
                share * 100.0,
                WANTED_SHARE * 100.0
            )
        })
        .into_iter()
        .collect())
}

/// How often a command can be started and ends in a second.
fn bare_rate(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let mut runs = 0;
    while started.elapsed() < BARE_TIME {
        run_quietly(command)?;
        runs += 1;
    }
    if runs == 0 {
        bail!("{command:?} was not run");
    }
    Ok(f64::from(runs) / started.elapsed().as_secs_f64())
}

fn print_rates(bare: f64, explored: f64, how: &str) {
    println!("{:<44} {bare:>12.0}", "fork and exec");
    println!("{how:<44} {explored:>12.0}");
    println!("{:<44} {:>12.0} %", "share", 100.0 * explored / bare);
}
