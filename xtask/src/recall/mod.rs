//! `cargo xtask recall`: how many of the bugs that the strategy `exhaustive` finds `representative` finds, and with how many executions.
//!
//! Programs are [generated] and checked with both strategies. A bug is a source line: that of the store which a crash loses and recovery
//! needs, or of the failure point if no store is named. Only programs count that `exhaustive` has explored completely. For each bug that
//! is missed, the [journals](missed) show why: which image it needs, and which images `representative` has tried at that instant.

mod generated;
mod missed;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::generated::Generator;
use self::missed::JournalTrial;
use crate::args::Args;
use crate::cpu::Flushes;
use crate::parallel;
use crate::shell::{memory_dir, root};
use crate::wrapper::Wrapper;

const CASES: u64 = 40;
const SEED: u64 = 1;
/// Of each test.
const TIME_LIMIT: &str = "60s";
const SOURCE: &str = "program.c";
/// The least share of the bugs that is wanted.
const WANTED: f64 = 0.9;

/// What a strategy has found in a program.
#[derive(Debug)]
struct Tested {
    bugs: BTreeSet<u64>,
    executions: u64,
    is_complete: bool,
    journal: Vec<JournalTrial>,
}

/// What both have found.
struct Compared {
    number: u64,
    exhaustive: Tested,
    representative: Tested,
}

pub fn run(mut args: Args) -> Result<()> {
    let cases: u64 = args.number("--cases")?.unwrap_or(CASES);
    let seed: u64 = args.number("--seed")?.unwrap_or(SEED);
    let only: Option<u64> = args.number("--only")?;
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let brownout = wrapper.brownout();
    let brownout = brownout.context("bugs are found by brownout alone")?;
    let place = memory_dir()?.join(format!("brownout-recall-{}", std::process::id()));
    let numbers: Vec<u64> = only.map_or_else(|| (0..cases).collect(), |only| vec![only]);
    let results = parallel::map(&numbers, jobs, |&number| {
        let directory = place.join(number.to_string());
        compare(brownout, seed, number, &directory)
            .with_context(|| format!("case {number} of seed {seed}"))
    });
    let results = results.into_iter().collect::<Result<Vec<Compared>>>()?;
    let share = report(&results, seed);
    if only.is_none() {
        fs::remove_dir_all(&place)?;
    } else {
        println!("program and results: {}", place.display());
    }
    if share < WANTED {
        bail!(
            "`representative` finds fewer than {:.0} % of the bugs",
            100.0 * WANTED
        );
    }
    Ok(())
}

/// Prints what was found; the share of the bugs that `representative` finds.
fn report(results: &[Compared], seed: u64) -> f64 {
    let (complete, cut): (Vec<&Compared>, Vec<&Compared>) =
        results.iter().partition(|case| case.exhaustive.is_complete);
    let (mut bugs, mut found, mut executions) = (0, 0, [0, 0]);
    for case in &complete {
        let missed: Vec<&u64> = case
            .exhaustive
            .bugs
            .difference(&case.representative.bugs)
            .collect();
        if !missed.is_empty() {
            let number = case.number;
            println!("case {number}: not found: lost stores of lines {missed:?}");
            for line in missed.iter().copied() {
                let tried = &case.representative.journal;
                println!(
                    "  {}",
                    missed::explain(*line, &case.exhaustive.journal, tried)
                );
            }
            println!("  again: cargo xtask recall --seed {seed} --only {number}");
        }
        bugs += case.exhaustive.bugs.len();
        found += case.exhaustive.bugs.len() - missed.len();
        executions[0] += case.exhaustive.executions;
        executions[1] += case.representative.executions;
    }
    let share = if bugs == 0 {
        1.0
    } else {
        found as f64 / bugs as f64
    };
    println!(
        "{} programs of seed {seed}, {} not explored completely",
        results.len(),
        cut.len()
    );
    println!("{:<44} {bugs:>10}", "bugs that `exhaustive` finds");
    println!(
        "{:<44} {found:>10} ({:.0} %)",
        "of these `representative` finds",
        100.0 * share
    );
    println!("{:<44} {:>10}", "executions of `exhaustive`", executions[0]);
    println!(
        "{:<44} {:>10}",
        "executions of `representative`", executions[1]
    );
    share
}

fn compare(brownout: &Path, seed: u64, number: u64, directory: &Path) -> Result<Compared> {
    fs::create_dir_all(directory)?;
    let seed = seed.wrapping_mul(1 << 32).wrapping_add(number);
    fs::write(directory.join(SOURCE), Generator::program(seed))?;
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-g", "-O0", "-I"])
        .arg(root().join("corpus"));
    if !Flushes::of_this_machine().clwb {
        compiler.arg("-DNO_CLWB");
    }
    let compiled = compiler
        .args(["-o", "program", SOURCE])
        .current_dir(directory)
        .status()?;
    if !compiled.success() {
        bail!("it cannot be compiled: {compiled}");
    }
    Ok(Compared {
        number,
        exhaustive: test(brownout, "exhaustive", directory)?,
        representative: test(brownout, "representative", directory)?,
    })
}

/// Checks the program with a strategy.
fn test(brownout: &Path, strategy: &str, directory: &Path) -> Result<Tested> {
    let pool = directory.join(format!("{strategy}.pool"));
    let out = directory.join(strategy);
    let mut command = Command::new(brownout);
    command
        .args([
            "check",
            "--quiet",
            "--jobs",
            "1",
            "--time-limit",
            TIME_LIMIT,
        ])
        .args([
            "--strategy",
            strategy,
            "--recover",
            "./program {pm} check",
            "--out",
        ])
        .args([out.as_os_str(), OsString::from("--").as_os_str()])
        .arg("./program")
        .arg(&pool);
    let status = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    // 3: it is not complete.
    if !matches!(status.code(), Some(0 | 1 | 3)) {
        bail!("`{strategy}`: {status}");
    }
    let run: Value = serde_json::from_str(&fs::read_to_string(out.join("run.json"))?)?;
    let crash = &run["crash"];
    let explored = &crash["exploration"]["executions"];
    let executions = explored.as_u64().or_else(|| crash["recoveries"].as_u64());
    let findings = fs::read_to_string(out.join("findings.jsonl"))?;
    let mut bugs = BTreeSet::new();
    for line in findings.lines() {
        bugs.extend(lines(&serde_json::from_str(line)?)?);
    }
    Ok(Tested {
        bugs,
        executions: executions.context("run.json does not say how often recovery ran")?,
        is_complete: crash["complete"] == true,
        journal: missed::trials(&fs::read_to_string(out.join("crash.jsonl"))?),
    })
}

/// The lines of a failed recovery: of the stores that are missing, or else of the failure point. None of other findings.
fn lines(finding: &Value) -> Result<Vec<u64>> {
    let rule = finding["rule"].as_str().unwrap_or_default();
    if !rule.starts_with("recovery-") {
        return Ok(Vec::new());
    }
    let stacks = finding["stacks"]
        .as_array()
        .context("a finding has stacks")?;
    let of_role = |role: &str| -> Vec<u64> {
        let stacks = stacks.iter().filter(|stack| stack["role"] == role);
        stacks.filter_map(own_line).collect()
    };
    let missing = of_role("store that is missing");
    Ok(match missing.is_empty() {
        true => of_role("failure point"),
        false => missing,
    })
}

/// The line of the program that a stack is about.
fn own_line(stack: &Value) -> Option<u64> {
    let mut frames = stack["frames"].as_array()?.iter();
    let is_own = |frame: &&Value| {
        frame["file"]
            .as_str()
            .is_some_and(|file| file.ends_with(SOURCE))
    };
    frames.find(is_own)?["line"].as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bug_is_the_line_of_the_store_that_is_missing() {
        let stack = |role: &str, line: u64| json!({ "role": role, "frames": [{ "file": "/d/program.c", "line": line }] });
        let mut finding = json!({
            "rule": "recovery-failed",
            "stacks": [stack("failure point", 9), stack("store that is missing", 5)],
        });
        assert_eq!(lines(&finding).unwrap(), [5]);
        finding["stacks"] = json!([stack("failure point", 9)]);
        assert_eq!(lines(&finding).unwrap(), [9]);
        finding["rule"] = json!("missing-flush");
        assert!(lines(&finding).unwrap().is_empty());
    }
}
