//! `cargo xtask exploration`: the strategy `exhaustive` sees exactly what recovery does after every crash.
//!
//! Each case is a random script of stores, flushes and fences, and of a recovery that reads, branches, prints what it has read
//! and exits with a status that depends on it. The target is recorded once. Then `brownout crash --strategy exhaustive` explores
//! the recovery, and the same recovery runs natively, as a process of its own, on every crash image at every time, as a
//! [machine] enumerates them that shares no code with the persistency model. Both must have seen the same behaviours,
//! and the exploration must have run each of them once, unless recovery reads in ways of which brownout does not know how much they
//! read: then it may have run some more often. Some recoveries crash, too: then images are also those that the
//! machine enumerates for what a native recovery has done, and runs may be repeated.
//!
//! Can miss: what needs other instructions than the scripts have, more than one file, files that are renamed or change their
//! size, and more crash images than can be tried one by one.

mod case;
mod explored;
mod machine;
mod native;
mod recorded;
mod script;
mod transcript;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::case::{Counts, Programs};
use self::script::Variant;
use crate::args::Args;
use crate::shell::memory_dir;
use crate::wrapper::Wrapper;
use crate::{parallel, programs};

const CASES: u64 = 200;
const SEED: u64 = 1;
/// Failures that are shown in full.
const MOST_SHOWN: usize = 5;
/// After so many cases it is said how far the run has got.
const PROGRESS: u64 = 500;

pub fn run(mut args: Args) -> Result<()> {
    let cases = args.number("--cases")?.unwrap_or(CASES);
    let seed = args.number("--seed")?.unwrap_or(SEED);
    let only = args.number("--only")?;
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let keep = args.switch("--keep");
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("recoveries are explored by brownout alone")?;
    let sources = programs::discover(|group| group == "exploration")?;
    let built = programs::build(&sources)?;
    let script = &built
        .first()
        .context("there is no interpreter of scripts")?
        .path;
    let programs = Programs { brownout, script };
    let place = memory_dir()?.join(format!("brownout-exploration-{}", std::process::id()));
    let numbers: Vec<u64> = only.map_or_else(|| (0..cases).collect(), |only| vec![only]);

    let started = Instant::now();
    let (ended, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let results = parallel::map(&numbers, jobs, |&number| {
        let directory = place.join(number.to_string());
        let result = run_case(&programs, seed, number, &directory);
        let failed = failed.fetch_add(u64::from(result.is_err()), Ordering::Relaxed)
            + u64::from(result.is_err());
        let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
        if ended % PROGRESS == 0 {
            println!(
                "{ended} of {cases} cases, {failed} failed; {} s",
                started.elapsed().as_secs()
            );
        }
        if !keep && result.is_ok() {
            // What cannot be removed now is removed with the whole directory, or reported then.
            let _ = fs::remove_dir_all(&directory);
        }
        (number, result)
    });
    report(&results);
    let failed: Vec<(u64, &anyhow::Error)> = results
        .iter()
        .filter_map(|(number, result)| Some((*number, result.as_ref().err()?)))
        .collect();
    for (number, error) in failed.iter().take(MOST_SHOWN) {
        println!("\ncase {number} of seed {seed}: {error:#}");
        println!("  again: cargo xtask exploration --seed {seed} --only {number} --keep");
        println!(
            "  script, trace and results: {}",
            place.join(number.to_string()).display()
        );
    }
    println!(
        "\nexploration: {} case{} of seed {seed}: {} passed, {} failed; {} s",
        results.len(),
        if results.len() == 1 { "" } else { "s" },
        results.len() - failed.len(),
        failed.len(),
        started.elapsed().as_secs()
    );
    if failed.is_empty() && !keep {
        let _ = fs::remove_dir_all(&place);
    }
    if !failed.is_empty() {
        bail!(
            "{} explorations differ from what recovery does natively",
            failed.len()
        );
    }
    Ok(())
}

fn run_case(programs: &Programs, seed: u64, number: u64, directory: &Path) -> Result<Counts> {
    fs::create_dir_all(directory)?;
    case::run(programs, seed, number, directory)
}

/// Prints what was compared, by how recovery does what it does.
fn report(results: &[(u64, Result<Counts>)]) {
    let mut by_variant: BTreeMap<Variant, Counts> = BTreeMap::new();
    let mut all = Counts::default();
    for (number, result) in results {
        let variant = Variant::ALL[(number % Variant::ALL.len() as u64) as usize];
        if let Ok(counts) = result {
            by_variant.entry(variant).or_default().add(counts);
            all.add(counts);
        }
    }
    println!(
        "{:<20} {:>8} {:>8} {:>10} {:>12} {:>10} {:>12}",
        "recovery", "cases", "torn", "images", "behaviours", "failing", "executions"
    );
    let named = by_variant
        .iter()
        .map(|(variant, counts)| (variant.name(), counts));
    for (name, counts) in named.chain([("all", &all)]) {
        println!(
            "{name:<20} {:>8} {:>8} {:>10} {:>12} {:>10} {:>12}",
            counts.cases,
            counts.torn,
            counts.images,
            counts.behaviours,
            counts.failing,
            counts.executions
        );
    }
}
