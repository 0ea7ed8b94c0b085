//! How fast `brownout lint` is on recordings of a program that uses libpmemobj, and that memory does not follow their length.
//!
//! Unlike the synthetic trace, a recording has calls of watched functions, transactions, the library's own stores and thousands of calling
//! contexts, which are symbolised. Each length is the same work on the same keys, repeated.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::crash::{own_directory, program, run_quietly};
use crate::programs;
use crate::sys::children_time;
use crate::test_directory::output_of;

/// About as many millions of events.
const MILLIONS: [u64; 3] = [1, 10, 50];
/// The least millions of events per second in the longest.
const WANTED_SPEED: f64 = 15.0;
/// How much more memory the longest may take than the shortest.
const WANTED_GROWTH: f64 = 1.1;
/// How often the memory of a running process is looked at.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What linting a recording cost.
struct Linted {
    cpu: Duration,
    /// In KiB.
    memory: u64,
}

pub fn run(brownout: &Path, rounds: usize) -> Result<()> {
    let programs = programs::discover(|group| group == "bench")?;
    let map = program(&programs::build(&programs)?, "obj_map")?;
    let place = own_directory("lint")?;
    let trace = place.join("trace");
    println!("\nrecordings of libpmemobj transactions");
    println!("{:>10} {:>12} {:>14}", "events", "lint M/s", "memory MiB");
    let mut rows = Vec::new();
    for millions in MILLIONS {
        let pool = place.join("pm");
        fs::create_dir(&pool)?;
        let mut record = Command::new(brownout);
        record.args(["record", "-q", "-o"]).arg(&trace).arg("--");
        record.arg(&map).arg(millions.to_string()).arg(&pool);
        run_quietly(record.env("PMEM_IS_PMEM_FORCE", "1"))?;
        let events = events(brownout, &trace)?;
        let mut best: Option<Linted> = None;
        for _ in 0..rounds.max(1) {
            let linted = lint(brownout, &trace)?;
            if best.as_ref().is_none_or(|best| linted.cpu < best.cpu) {
                best = Some(linted);
            }
        }
        let best = best.context("no round was run")?;
        let speed = events as f64 / best.cpu.as_secs_f64() / 1e6;
        let memory = best.memory as f64 / 1024.0;
        println!("{events:>10} {speed:>12.1} {memory:>14.1}");
        rows.push((speed, memory));
        fs::remove_file(&trace)?;
        fs::remove_dir_all(&pool)?;
    }
    fs::remove_dir_all(&place)?;
    let [(_, least), .., (speed, most)] = rows[..] else {
        bail!("nothing was measured");
    };
    if most > least * WANTED_GROWTH {
        bail!("memory grows with the length of the recording");
    }
    if speed < WANTED_SPEED {
        bail!("less than {WANTED_SPEED} million events per second");
    }
    Ok(())
}

/// The number of events in a trace.
pub(super) fn events(brownout: &Path, trace: &Path) -> Result<u64> {
    let mut words = vec![brownout.as_os_str().to_owned()];
    words.extend(["stat", "--quiet", "--format", "json"].map(Into::into));
    words.push(trace.into());
    let report: Value = serde_json::from_slice(&output_of(&words, Duration::from_secs(300))?)?;
    let events = report["events"].as_object();
    let events = events.context("`stat` reports no events")?;
    Ok(events.values().filter_map(Value::as_u64).sum())
}

fn lint(brownout: &Path, trace: &Path) -> Result<Linted> {
    let before = children_time()?;
    let mut child = Command::new(brownout)
        .args(["lint", "-q", "--format", "json"])
        .arg(trace)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut memory = 0;
    let status = loop {
        memory = peak_memory(&child).unwrap_or(memory);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    // 1: there are findings.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("`brownout lint` failed: {status}");
    }
    let cpu = children_time()? - before;
    Ok(Linted { cpu, memory })
}

/// The most memory that a running process has had at once, in KiB.
pub(super) fn peak_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
