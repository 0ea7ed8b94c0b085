//! `cargo xtask bench lint`: how fast a trace is linted, and that memory does not follow its length.
//!
//! A synthetic trace is made at two lengths and linted several times, each in a process of its own. Speed is
//! by processor time, best of all rounds, so that other work on the machine counts as little as it can;
//! reading alone is measured for comparison. Then `brownout lint` as a whole is measured on recordings of a program that uses
//! libpmemobj ([`super::lint_recordings`]).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::lint_recordings;
use crate::args::Args;
use crate::shell::{cargo, target_dir};
use crate::wrapper::Wrapper;

const ROUNDS: usize = 10;
/// Events of the short trace and of the long one.
const SHORT: u64 = 5_000_000;
const LONG: u64 = 50_000_000;

/// The least millions of events per second.
const WANTED_SPEED: f64 = 20.0;
/// How much more memory the long trace may take.
const WANTED_GROWTH: f64 = 1.1;

/// What one process measured.
#[derive(Clone, Copy)]
struct Measurement {
    events: u64,
    seconds: f64,
    /// In KiB.
    memory: u64,
    findings: u64,
}

impl Measurement {
    fn millions_per_second(self) -> f64 {
        self.events as f64 / self.seconds / 1e6
    }

    fn parse(output: &str) -> Option<Self> {
        let mut words = output.split_whitespace();
        Some(Measurement {
            events: words.next()?.parse().ok()?,
            seconds: words.next()?.parse().ok()?,
            memory: words.next()?.parse().ok()?,
            findings: words.next()?.parse().ok()?,
        })
    }
}

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("traces are linted by brownout alone")?;
    let build = [
        "build",
        "--quiet",
        "--release",
        "--package",
        "brownout-lint",
    ];
    let built = cargo(&build)?.args(["--example", "lint_speed"]).status()?;
    if !built.success() {
        bail!("the benchmark cannot be built");
    }
    let target = target_dir()?;
    let program = target.join("release/examples/lint_speed");
    let trace = target.join("bench-lint.trace");

    println!(
        "{:>10} {:>12} {:>12} {:>14} {:>10}",
        "events", "read M/s", "lint M/s", "memory MiB", "findings"
    );
    let mut rows = Vec::new();
    for events in [SHORT, LONG] {
        output(&program, &["make", &events.to_string()], &trace)?;
        let read = best(&program, "read", &trace, rounds)?;
        let lint = best(&program, "lint", &trace, rounds)?;
        println!(
            "{:>10} {:>12.1} {:>12.1} {:>14.1} {:>10}",
            lint.events,
            read.millions_per_second(),
            lint.millions_per_second(),
            lint.memory as f64 / 1024.0,
            lint.findings,
        );
        rows.push(lint);
    }
    std::fs::remove_file(&trace)?;
    let (short, long) = (rows[0], rows[1]);
    if long.memory as f64 > short.memory as f64 * WANTED_GROWTH {
        bail!("memory grows with the length of the trace");
    }
    if long.millions_per_second() < WANTED_SPEED {
        bail!("less than {WANTED_SPEED} million events per second");
    }
    lint_recordings::run(brownout, rounds)
}

/// The fastest of several rounds.
fn best(program: &Path, act: &str, trace: &Path, rounds: usize) -> Result<Measurement> {
    let mut best: Option<Measurement> = None;
    for _ in 0..rounds.max(1) {
        let said = output(program, &[act], trace)?;
        let measured = Measurement::parse(&said).with_context(|| format!("it said {said:?}"))?;
        if best.is_none_or(|best| measured.seconds < best.seconds) {
            best = Some(measured);
        }
    }
    best.context("no round was run")
}

fn output(program: &Path, words: &[&str], trace: &Path) -> Result<String> {
    let output = Command::new(program).args(words).arg(trace).output()?;
    if !output.status.success() {
        bail!(
            "{words:?} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_events_by_processor_time() {
        let measured = Measurement::parse("50000000 2.5 16000 7\n").expect("it is whole");
        assert_eq!(measured.millions_per_second(), 20.0);
        assert_eq!((measured.memory, measured.findings), (16000, 7));
        assert!(Measurement::parse("50000000 2.5 16000").is_none());
    }
}
