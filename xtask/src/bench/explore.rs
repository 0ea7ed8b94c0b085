//! `cargo xtask bench explore`: how fast recoveries are explored.
//!
//! Forks a second, natively and under the engine, of a process that holds little more than the C library and of one that
//! has loaded libpmemobj. Then executions a second: of a recovery of about a millisecond, from its first choice on, and of
//! `pmemobj_open` with a check, by `brownout crash` from start to report; both against starting the recovery by fork and exec. Then
//! how executions, time and memory grow with the run. Rounds are interleaved and the best of each counts.

mod executions;
mod explored_run;
mod growth;
mod processes;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::crash::{own_directory, program};
use crate::args::Args;
use crate::programs::{self, Built};
use crate::test_directory::output_of;
use crate::wrapper::Wrapper;

const ROUNDS: usize = 5;
const LIMIT: Duration = Duration::from_secs(300);
/// The most that a fork may cost under the engine, as a multiple of native.
const WANTED_FORK: f64 = 1.5;

/// Programs that fork, with what they are.
const PROGRAMS: &[(&str, &str)] = &[
    ("forks_small", "a small program"),
    ("forks_pmemobj", "with libpmemobj loaded"),
];

/// What was measured against what is wanted: the sentences about what is missed.
type Misses = Vec<String>;

pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.number("--runs")?.unwrap_or(ROUNDS);
    let only = args.value("--only")?.unwrap_or_default();
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("recoveries are explored by brownout alone")?;
    let programs = programs::discover(|group| group == "bench")?;
    let built = programs::build(&programs)?;
    let place = own_directory("explore")?;
    type Part<'a> = (&'a str, &'a dyn Fn() -> Result<Misses>);
    let parts: [Part<'_>; 4] = [
        ("forks", &|| forks(&wrapper, &built, &place, rounds)),
        ("executions", &|| executions::short(&built, &place, rounds)),
        ("pmemobj", &|| {
            executions::pmemobj(brownout, &built, &place, rounds)
        }),
        ("growth", &|| growth::run(brownout, &built, &place)),
    ];
    let mut misses = Misses::new();
    for (name, part) in parts {
        if name.contains(&only) {
            misses.extend(part()?);
            println!();
        }
    }
    fs::remove_dir_all(&place).context("cannot remove what was measured with")?;
    if !misses.is_empty() {
        bail!("{}", misses.join("; "));
    }
    Ok(())
}

/// Measures forks.
fn forks(wrapper: &Wrapper, built: &[Built], place: &Path, rounds: usize) -> Result<Misses> {
    println!(
        "{:<44} {:>12} {:>12} {:>8} {:>8}",
        "forks a second", "native", "engine", "times", "aim"
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
        println!("{text:<44} {bare:>12.0} {engine:>12.0} {times:>8.2} {WANTED_FORK:>8.2}");
    }
    Ok((worst > WANTED_FORK)
        .then(|| {
            format!("a fork costs {worst:.2} times as much as natively, more than {WANTED_FORK}")
        })
        .into_iter()
        .collect())
}

/// The rate that a program prints.
fn printed_rate(words: &[OsString]) -> Result<f64> {
    let output = String::from_utf8(output_of(words, LIMIT)?)?;
    let rate = output.trim().parse();
    rate.with_context(|| format!("{words:?} printed {output:?} and not its rate"))
}
