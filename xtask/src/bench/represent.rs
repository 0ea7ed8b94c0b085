//! `cargo xtask bench represent`: what finding update behaviours costs, and what strategies find first.
//!
//! `brownout stat --behaviours` finds the update behaviours of a recording of libpmemobj transactions (steps B to D of Squint). Its
//! time by step is what it reports itself; its memory is the most that the process has had at once. It has one thread, so its processor
//! time is what it takes on a machine without other work; the best round counts. Then the time to the first bug of the corpus is
//! measured ([`super::first_bug`]).

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::crash::{own_directory, program, run_quietly};
use super::first_bug;
use super::lint_recordings::{POLL_INTERVAL, events, peak_memory};
use super::measure::Cost;
use crate::args::Args;
use crate::programs;
use crate::sys::children_time;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 2;
/// About as many millions of events.
const MILLIONS: u64 = 10;
/// The most that finding the behaviours may take.
const WANTED_TIME: Duration = Duration::from_secs(30);
const WANTED_MEMORY_GIB: f64 = 4.0;
/// How long each strategy tests a program of the corpus, in seconds.
const TIME_LIMIT: usize = 10;

/// What one round has measured.
#[derive(Clone, Debug)]
struct Found {
    cost: Cost,
    /// Name and seconds on the clock.
    steps: Vec<(String, f64)>,
    /// In KiB.
    memory: u64,
    stores: u64,
    updates: u64,
    groups: u64,
}

impl Found {
    /// From what `stat --behaviours` prints.
    fn parse(report: &Value, cost: Cost, memory: u64) -> Option<Self> {
        let found = &report["update_behaviours"];
        let steps = found["seconds"].as_object()?;
        let step = |(name, seconds): (&String, &Value)| Some((name.clone(), seconds.as_f64()?));
        Some(Self {
            cost,
            steps: steps.iter().map(step).collect::<Option<Vec<_>>>()?,
            memory,
            stores: report["stores"].as_u64()?,
            updates: found["updates"].as_u64()?,
            groups: found["groups"].as_u64()?,
        })
    }

    fn memory_gib(&self) -> f64 {
        self.memory as f64 / f64::from(1 << 20)
    }
}

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let only = args.value("--only")?;
    let limit = args.number("--time-limit")?.unwrap_or(TIME_LIMIT);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("update behaviours are found by brownout alone")?;
    match only.as_deref() {
        None => {
            steps(brownout, rounds)?;
            first_bug::run(brownout, limit)
        }
        Some("steps") => steps(brownout, rounds),
        Some("first-bug") => first_bug::run(brownout, limit),
        Some(other) => bail!("--only is `steps` or `first-bug`, not {other:?}"),
    }
}

/// Measures steps B to D.
fn steps(brownout: &Path, rounds: usize) -> Result<()> {
    let programs = programs::discover(|group| group == "bench")?;
    let map = program(&programs::build(&programs)?, "obj_map")?;
    let place = own_directory("represent")?;
    let trace = place.join("trace");
    let pool = place.join("pm");
    fs::create_dir(&pool)?;
    let mut record = Command::new(brownout);
    record.args(["record", "-q", "-o"]).arg(&trace).arg("--");
    record.arg(&map).arg(MILLIONS.to_string()).arg(&pool);
    run_quietly(record.env("PMEM_IS_PMEM_FORCE", "1"))?;
    let events = events(brownout, &trace)?;
    let mut best: Option<Found> = None;
    for _ in 0..rounds.max(1) {
        let found = find(brownout, &trace)?;
        if best
            .as_ref()
            .is_none_or(|best| found.cost.cpu < best.cost.cpu)
        {
            best = Some(found);
        }
    }
    fs::remove_dir_all(&place)?;
    let best = best.context("no round was run")?;
    print(&best, events);
    if best.cost.cpu > WANTED_TIME {
        bail!("finding the update behaviours takes more than {WANTED_TIME:?}");
    }
    if best.memory_gib() > WANTED_MEMORY_GIB {
        bail!("finding the update behaviours takes more than {WANTED_MEMORY_GIB} GiB");
    }
    Ok(())
}

fn print(found: &Found, events: u64) {
    println!("update behaviours of libpmemobj transactions");
    println!("{:<44} {events:>12}", "events");
    println!("{:<44} {:>12}", "stores to persistent files", found.stores);
    println!("{:<44} {:>12}", "update behaviours", found.updates);
    println!("{:<44} {:>12}", "representatives", found.groups);
    for (name, seconds) in &found.steps {
        println!("{:<44} {seconds:>12.2} s", format!("step `{name}`"));
    }
    let Cost { cpu, wall } = found.cost;
    println!("{:<44} {:>12.2} s", "from start to end", wall.as_secs_f64());
    println!("{:<44} {:>12.2} s", "processor time", cpu.as_secs_f64());
    let speed = events as f64 / cpu.as_secs_f64() / 1e6;
    println!("{:<44} {speed:>12.2} M/s", "events by processor time");
    println!("{:<44} {:>12.2} GiB", "memory", found.memory_gib());
}

/// Runs `brownout stat --behaviours` once.
fn find(brownout: &Path, trace: &Path) -> Result<Found> {
    let before = children_time()?;
    let started = Instant::now();
    let mut child = Command::new(brownout)
        .args(["stat", "--quiet", "--behaviours", "--format", "json"])
        .arg(trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut out = child.stdout.take().context("its output is piped")?;
    let printed = thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut memory = 0;
    let status = loop {
        memory = peak_memory(&child).unwrap_or(memory);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    let cost = Cost {
        cpu: children_time()? - before,
        wall: started.elapsed(),
    };
    let printed = printed.join().expect("the reader does not panic")?;
    if !status.success() {
        bail!("`brownout stat --behaviours` failed: {status}");
    }
    let report = serde_json::from_str(&printed)?;
    Found::parse(&report, cost, memory).context("`stat --behaviours` does not report its steps")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_without_steps_is_not_measured() {
        let mut report = json!({
            "stores": 7,
            "update_behaviours": { "updates": 5, "groups": 2, "seconds": { "order": 0.5, "types": 1.0 } },
        });
        let cost = Cost::WORST;
        let found = Found::parse(&report, cost, 1 << 20).expect("it is whole");
        assert_eq!((found.stores, found.updates, found.groups), (7, 5, 2));
        assert_eq!(found.steps[0], ("order".to_owned(), 0.5));
        assert_eq!(found.memory_gib(), 1.0);
        report["update_behaviours"]["seconds"] = Value::Null;
        assert!(Found::parse(&report, cost, 0).is_none());
    }
}
