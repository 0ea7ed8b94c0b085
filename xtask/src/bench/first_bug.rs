//! How soon `auto` and `prefix` find the first bug of the programs of the corpus that have a recovery.
//!
//! Each program is checked with each strategy, in its last build. The time is from the start of brownout, recording included, until the
//! journal has the first crash from which recovery fails. The journal is looked at every millisecond. Programs that choose a strategy
//! themselves are left out, and so are those whose recovery passes with both strategies.
//!
//! All bugs of `prefix` must be among those of `auto`. A bug is the line of the program at which recovery fails; `auto` may name it in a
//! finding that is about several lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use brownout_corpus::{
    Built, Harness, Program, ReportedFinding, discover, line_of, lines_of, read_findings,
};
use serde_json::Value;

use super::crash::own_directory;
use crate::cpu::Flushes;
use crate::shell::{root, target_dir};

const STRATEGIES: [&str; 2] = ["auto", "prefix"];
const JOURNAL: &str = "out/crash.jsonl";
const FINDINGS: &str = "out/findings.jsonl";
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// For each strategy, when it found the first bug, if it did.
type Times = [Option<Duration>; STRATEGIES.len()];

/// What a strategy has found in a program.
#[derive(Default)]
struct Found {
    first: Option<Duration>,
    findings: Vec<ReportedFinding>,
}

pub fn run(brownout: &Path, limit: usize) -> Result<()> {
    let mut programs = discover(&root().join("corpus"))?;
    programs.retain(is_wanted);
    let place = own_directory("first-bug")?;
    let harness = Harness {
        brownout: brownout.to_owned(),
        built: target_dir()?.join("corpus"),
        scratch: place.clone(),
        defines: match Flushes::of_this_machine().clwb {
            true => Vec::new(),
            false => vec!["NO_CLWB".to_owned()],
        },
    };
    println!("\ntime to the first bug, in seconds");
    println!("{:<44} {:>10} {:>10}", "program", "auto", "prefix");
    let mut rows: Vec<Times> = Vec::new();
    let mut missed = 0;
    for program in &programs {
        let build = program.builds.last().context("a program has a build")?;
        let built = harness.build(program, build)?;
        let [auto, prefix] =
            STRATEGIES.map(|strategy| first_bug(&harness, &built, strategy, limit, &place));
        let (auto, prefix) = (auto?, prefix?);
        let times = [auto.first, prefix.first];
        if times.iter().any(Option::is_some) {
            let [auto, prefix] = times.map(shown);
            println!("{:<44} {auto:>10} {prefix:>10}", program.name);
            rows.push(times);
        }
        for line in missed_lines(&auto.findings, &prefix.findings, &program.source) {
            println!("  `prefix` finds a bug at line {line}, and `auto` does not");
            missed += 1;
        }
    }
    fs::remove_dir_all(&place)?;
    print_summary(&rows)?;
    if missed > 0 {
        bail!("`auto` misses {missed} bugs that `prefix` finds");
    }
    Ok(())
}

/// The lines at which `prefix` finds that recovery fails, and which no finding of `auto` names.
fn missed_lines(
    auto: &[ReportedFinding],
    prefix: &[ReportedFinding],
    source: &Path,
) -> BTreeSet<u32> {
    let fails = |finding: &&ReportedFinding| finding.rule.starts_with("recovery-");
    let found = prefix.iter().filter(fails);
    let found = found.filter_map(|finding| line_of(finding, source));
    let named = auto.iter().filter(fails);
    let named: BTreeSet<u32> = named
        .flat_map(|finding| lines_of(finding, source))
        .collect();
    found.filter(|line| !named.contains(line)).collect()
}

/// Whether a program has a mistake and a recovery, and leaves the strategy open.
fn is_wanted(program: &Program) -> bool {
    let chooses = |option: &String| option == "--strategy";
    program.recover.is_some()
        && !program.name.starts_with("clean/")
        && !program.options.iter().any(chooses)
}

fn print_summary(rows: &[Times]) -> Result<()> {
    if rows.is_empty() {
        bail!("no strategy found a bug");
    }
    for (at, strategy) in STRATEGIES.iter().enumerate() {
        let found = rows.iter().filter(|times| times[at].is_some()).count();
        println!(
            "`{strategy}` finds bugs of {found} of {} programs",
            rows.len()
        );
    }
    let missed = rows
        .iter()
        .filter(|[auto, prefix]| auto.is_none() && prefix.is_some());
    let missed = missed.count();
    if let Some(mean) = mean_ratio(rows) {
        println!("geometric mean of the time of `auto` by that of `prefix`: {mean:.2}");
    }
    if missed > 0 {
        bail!("`prefix` finds bugs of {missed} programs of which `auto` finds none");
    }
    Ok(())
}

/// The geometric mean of how many times as long `auto` takes, where both find a bug.
fn mean_ratio(rows: &[Times]) -> Option<f64> {
    let ratios = rows.iter().filter_map(|&[auto, prefix]| {
        Some((auto?.as_secs_f64() / prefix?.as_secs_f64().max(1e-6)).ln())
    });
    let logarithms: Vec<f64> = ratios.collect();
    (!logarithms.is_empty())
        .then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

fn shown(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| format!("{:.3}", time.as_secs_f64()))
}

/// Checks a program.
fn first_bug(
    harness: &Harness,
    built: &Built,
    strategy: &str,
    limit: usize,
    place: &Path,
) -> Result<Found> {
    let scratch = place.join(format!(
        "{}-{strategy}",
        built.program.name.replace('/', "-")
    ));
    fs::create_dir_all(&scratch)?;
    let limit = format!("{limit}s");
    let options = [
        "--no-narrowing",
        "--strategy",
        strategy,
        "--time-limit",
        &limit,
    ];
    let mut command = harness.check(built, &options, &scratch)?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let journal = scratch.join(JOURNAL);
    let mut found = None;
    let status = loop {
        let ended = child.try_wait()?;
        if found.is_none() && has_failure(&journal) {
            found = Some(started.elapsed());
        }
        match ended {
            Some(status) => break status,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    // Whatever it found: 2 and 4 are failures of the check itself.
    if !matches!(status.code(), Some(0 | 1 | 3)) {
        bail!("{} with `{strategy}`: {status}", built.title());
    }
    let findings = fs::read_to_string(scratch.join(FINDINGS)).unwrap_or_default();
    fs::remove_dir_all(&scratch)?;
    Ok(Found {
        first: found,
        findings: read_findings(&findings)?,
    })
}

/// Whether a journal has a trial that failed. There may be none yet, and its last line may be incomplete.
fn has_failure(journal: &Path) -> bool {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().any(is_failure)
}

fn is_failure(line: &str) -> bool {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    line.get("verdict").is_some() && line.get("failure").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_failed_is_the_first_bug() {
        assert!(is_failure(r#"{"event":1,"verdict":"passed","failure":{}}"#));
        assert!(!is_failure(r#"{"event":1,"verdict":"passed"}"#));
        assert!(!is_failure(r#"{"event":1,"verdict":"fai"#));
        assert!(!is_failure(r#"{"cause_of":1,"failure":{}}"#));
    }

    #[test]
    fn a_bug_of_prefix_that_auto_does_not_name_is_missed() {
        let finding = |lines: [u32; 2]| {
            let [first, second] = lines;
            let text = format!(
                r#"{{"rule":"recovery-failed","severity":"bug","stacks":[
                    {{"frames":[{{"file":"/kv.c","line":{first}}}]}},{{"frames":[{{"file":"/kv.c","line":{second}}}]}}]}}"#
            );
            read_findings(&text.replace('\n', "")).expect("it is a finding")
        };
        let missed =
            |auto, prefix| missed_lines(&finding(auto), &finding(prefix), Path::new("/kv.c"));
        assert!(missed([7, 9], [9, 3]).is_empty());
        assert_eq!(missed([7, 9], [3, 9]), BTreeSet::from([3]));
    }

    #[test]
    fn times_are_compared_where_both_find_a_bug() {
        let second = |count| Some(Duration::from_secs(count));
        let rows = [
            [second(4), second(1)],
            [second(1), None],
            [second(1), second(1)],
        ];
        let mean = mean_ratio(&rows).expect("two programs count");
        assert!((mean - 2.0).abs() < 1e-9);
        assert_eq!(mean_ratio(&[[None, second(1)]]), None);
    }
}
