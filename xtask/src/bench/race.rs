//! `cargo xtask bench race`: what looking for races costs.
//!
//! Eight threads work on a persistent hash map. It is run natively and recorded as `brownout check` records it, with loads and locks
//! once there are threads, and `brownout race` looks for races. Recording is compared by time on the clock, the best of all rounds, at the
//! larger number of operations too, where starting the program counts little. The map is correct: a race found is a failure.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::crash::{own_directory, program, run_quietly};
use super::lint_recordings::{POLL_INTERVAL, events, peak_memory};
use crate::args::Args;
use crate::programs;
use crate::sys::children_time;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 3;
/// How many operations the threads do together; the aims are for the second number, and for recording at the last one.
const OPERATIONS: [u64; 3] = [10_000, 100_000, 1_000_000];
const MEASURED: u64 = 100_000;
/// The most that recording may take, as a multiple of running natively.
const WANTED_RATIO: f64 = 4.0;
/// The most that looking for races may take.
const WANTED_TIME: Duration = Duration::from_secs(20);
const WANTED_MEMORY_GIB: f64 = 1.0;

/// What was measured for one number of operations.
struct Row {
    operations: u64,
    native: Duration,
    recorded: Duration,
    events: u64,
    analysis: Duration,
    /// In KiB.
    memory: u64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.recorded.as_secs_f64() / self.native.as_secs_f64()
    }

    fn memory_gib(&self) -> f64 {
        self.memory as f64 / f64::from(1 << 20)
    }
}

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("races are found by brownout alone")?;
    let programs = programs::discover(|group| group == "bench")?;
    let map = program(&programs::build(&programs)?, "hash_map_threads")?;
    println!(
        "{:>10} {:>10} {:>10} {:>7} {:>10} {:>10} {:>11}",
        "operations", "native s", "recorded s", "ratio", "events", "analysis s", "memory MiB"
    );
    let mut rows = Vec::new();
    for operations in OPERATIONS {
        let row = measure(brownout, &map, operations, rounds)?;
        println!(
            "{:>10} {:>10.3} {:>10.3} {:>6.1}x {:>10} {:>10.2} {:>11.1}",
            row.operations,
            row.native.as_secs_f64(),
            row.recorded.as_secs_f64(),
            row.ratio(),
            row.events,
            row.analysis.as_secs_f64(),
            row.memory as f64 / 1024.0
        );
        rows.push(row);
    }
    judge(&rows)
}

fn judge(rows: &[Row]) -> Result<()> {
    let mut missed = Vec::new();
    if let Some(longest) = rows.last()
        && longest.ratio() > WANTED_RATIO
    {
        missed.push(format!(
            "recording takes more than {WANTED_RATIO} times as long as running natively"
        ));
    }
    for row in rows.iter().filter(|row| row.operations == MEASURED) {
        if row.analysis > WANTED_TIME {
            missed.push(format!("looking for races takes more than {WANTED_TIME:?}"));
        }
        if row.memory_gib() > WANTED_MEMORY_GIB {
            missed.push(format!(
                "looking for races takes more than {WANTED_MEMORY_GIB} GiB"
            ));
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => bail!("{}", missed.join("; ")),
    }
}

fn measure(brownout: &Path, map: &Path, operations: u64, rounds: usize) -> Result<Row> {
    let place = own_directory("race")?;
    let (trace, pool) = (place.join("trace"), place.join("pm"));
    let (mut native, mut recorded) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds.max(1) {
        let mut run = Command::new(map);
        native = native.min(timed(&mut run, operations, &pool)?);
        let mut record = Command::new(brownout);
        record.args(["record", "-q", "--shared-loads", "-o"]);
        record.arg(&trace).arg("--").arg(map);
        recorded = recorded.min(timed(&mut record, operations, &pool)?);
    }
    let events = events(brownout, &trace)?;
    let (mut analysis, mut memory) = (Duration::MAX, 0);
    for _ in 0..rounds.max(1) {
        let (time, most) = look_for_races(brownout, &trace)?;
        analysis = analysis.min(time);
        memory = memory.max(most);
    }
    fs::remove_dir_all(&place)?;
    Ok(Row {
        operations,
        native,
        recorded,
        events,
        analysis,
        memory,
    })
}

/// Runs a command on a new pool.
fn timed(command: &mut Command, operations: u64, pool: &Path) -> Result<Duration> {
    if pool.exists() {
        fs::remove_dir_all(pool)?;
    }
    fs::create_dir(pool)?;
    let started = Instant::now();
    run_quietly(command.arg(operations.to_string()).arg(pool))?;
    Ok(started.elapsed())
}

/// Runs `brownout race` once: its processor time, and the most memory that it has had at once, in KiB.
fn look_for_races(brownout: &Path, trace: &Path) -> Result<(Duration, u64)> {
    let before = children_time()?;
    let mut child = Command::new(brownout)
        .args(["race", "--quiet", "--fail-on", "warning"])
        .arg(trace)
        .stdout(Stdio::null())
        .spawn()?;
    let mut memory = 0;
    let status = loop {
        memory = peak_memory(&child).unwrap_or(memory);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    if !status.success() {
        bail!("`brownout race` failed, or found a race in a correct map: {status}");
    }
    Ok((children_time()? - before, memory))
}
