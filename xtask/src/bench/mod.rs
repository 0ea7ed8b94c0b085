//! `cargo xtask bench engine`: what recording costs, as a multiple of running natively.
//!
//! Rounds are interleaved (native, recorded, native, …) and the best of each counts, so that other load on the machine
//! affects both sides equally and little. The processor time of a recording includes that of the recorder, and its trace
//! goes to disk. Valgrind without a tool and QEMU are measured for comparison where they are installed.

mod crash;
mod explore;
mod first_bug;
mod fix;
mod fuzz;
mod lint;
mod lint_recordings;
mod load;
mod measure;
mod race;
mod represent;
mod table;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::load::{Kind, LOADS, Load};
use self::measure::{Cost, WorkDirectories};
use crate::args::Args;
use crate::programs::{self, Built, Variant};
use crate::shell::{cargo, find_program, memory_dir, target_dir};
use crate::test_directory::output_of;
use crate::wrapper::Wrapper;

const BENCHMARKS: &str =
    "`engine`, `lint`, `crash`, `explore`, `fix`, `fuzz`, `race` and `represent`";
const RUNS: usize = 4;
/// Starting is short: it is repeated this many times as often.
const START_UPS: usize = 10;
/// Rounds in which the other translators take part; they are slow, and only shown for comparison.
const OTHER_RUNS: usize = 1;

/// Other translators: name and the words before the program's.
const OTHERS: &[(&str, &[&str])] = &[
    ("valgrind", &["valgrind", "-q", "--tool=none"]),
    ("qemu", &["qemu-x86_64"]),
];

struct Options {
    wrapper: Wrapper,
    runs: usize,
    others: bool,
}

/// What was measured of one load.
struct Row<'a> {
    load: &'a Load,
    native: Cost,
    tested: Cost,
    /// In the order of [`OTHERS`].
    others: Vec<Option<Cost>>,
    trace: Option<Trace>,
}

/// The recording of a load.
struct Trace {
    path: PathBuf,
    events: u64,
    bytes: u64,
}

pub fn run(mut args: Args) -> Result<()> {
    match args.positional().as_deref() {
        Some("engine") => {}
        Some("lint") => return lint::run(args),
        Some("crash") => return crash::run(args),
        Some("explore") => return explore::run(args),
        Some("fix") => return fix::run(args),
        Some("fuzz") => return fuzz::run(args),
        Some("race") => return race::run(args),
        Some("represent") => return represent::run(args),
        Some(other) => bail!("there is no benchmark {other:?}, only {BENCHMARKS}"),
        None => bail!("give the benchmark to run: {BENCHMARKS}"),
    }
    let runs = args.number("--runs")?.unwrap_or(RUNS);
    let only = args.value("--only")?.unwrap_or_default();
    let loads = args.switch("--loads");
    let others = !args.switch("--no-others");
    let wrapper = Wrapper::from_args(&mut args)?.with_loads(loads);
    args.finish()?;
    let options = Options {
        wrapper,
        runs,
        others,
    };
    let programs = programs::discover(|group| group == "bench" || group == "system")?;
    let built = programs::build(&programs)?;

    table::print_head();
    let mut rows = Vec::new();
    let mut failures = 0;
    for load in LOADS.iter().filter(|load| load.name.contains(&only)) {
        if let Some(missing) = load.needs.iter().find(|name| find_program(name).is_none()) {
            println!("{:<24} skipped: {missing} is not installed", load.name);
            continue;
        }
        match measure(load, &built, &options) {
            Ok(row) => {
                table::print_row(&row);
                rows.push(row);
            }
            Err(error) => {
                println!("{:<24} FAILED: {error:#}", load.name);
                failures += 1;
            }
        }
    }
    table::print_summary(&rows, loads);
    let traces = rows.iter().filter_map(|row| row.trace.as_ref());
    if let Some(longest) = traces.max_by_key(|trace| trace.events) {
        table::print_traces(&rows, reader_speed(longest)?);
    }
    if failures > 0 {
        bail!("{failures} loads failed");
    }
    Ok(())
}

fn measure<'a>(load: &'a Load, built: &[Built], options: &Options) -> Result<Row<'a>> {
    let place = prepare(load)?;
    let argv = arguments(load, built, &place)?;
    let path = place.cwd.join("trace");
    let tested = options.wrapper.wrap(&path, None, &argv);
    let once = |words: &[OsString]| match load.kind {
        Kind::Server => place.serve(words),
        _ => place.run(words),
    };

    let others = OTHERS.iter().map(|_| None).collect();
    let mut row = Row {
        load,
        native: Cost::WORST,
        tested: Cost::WORST,
        others,
        trace: None,
    };
    let start_up = load.kind == Kind::StartUp;
    for round in 0..options.runs * if start_up { START_UPS } else { 1 } {
        row.native = row.native.best(once(&argv).context("natively")?);
        row.tested = row.tested.best(once(&tested).context("under test")?);
        if !options.others || (round >= OTHER_RUNS && !start_up) {
            continue;
        }
        for (slot, (_, prefix)) in row.others.iter_mut().zip(OTHERS) {
            let Some(program) = find_program(prefix[0]) else {
                continue;
            };
            let mut words = vec![OsString::from(program)];
            words.extend(prefix[1..].iter().map(Into::into));
            words.extend(argv.iter().cloned());
            // That another translator cannot run a load is no failure of ours.
            *slot = once(&words)
                .ok()
                .map(|cost| slot.map_or(cost, |best| best.best(cost)));
        }
    }
    if let Some(brownout) = options.wrapper.brownout() {
        row.trace = Some(examine(brownout, path)?);
    }
    fs::remove_dir_all(&place.pm)?;
    Ok(row)
}

/// Makes the directories of a load and what its setup puts there.
fn prepare(load: &Load) -> Result<WorkDirectories> {
    let cwd = target_dir()?
        .join("bench")
        .join(load.name.replace([' ', ','], "-"));
    if cwd.exists() {
        fs::remove_dir_all(&cwd)?;
    }
    fs::create_dir_all(&cwd)?;
    if !load.setup.is_empty() {
        let mut setup = Command::new("/bin/sh");
        let status = setup.args(["-ec", load.setup]).current_dir(&cwd).status()?;
        if !status.success() {
            bail!("its setup failed: {status}");
        }
    }
    let pm = memory_dir()?.join(format!("brownout-bench-{}", std::process::id()));
    Ok(WorkDirectories { cwd, pm })
}

/// The words of a load's command with everything filled in.
fn arguments(load: &Load, built: &[Built], place: &WorkDirectories) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    for word in load.command {
        let placeholder = word
            .strip_prefix('{')
            .and_then(|word| word.strip_suffix('}'));
        words.push(match placeholder {
            Some("pm") => place.pm.clone().into(),
            Some("cc1") => {
                let question = ["gcc".into(), "-print-prog-name=cc1".into()];
                let answer = output_of(&question, Duration::from_secs(10))?;
                String::from_utf8(answer)?.trim().into()
            }
            Some(name) => {
                let wanted =
                    |built: &&Built| built.program.name == name && built.variant == Variant::Pie;
                let found = built
                    .iter()
                    .find(wanted)
                    .with_context(|| format!("no program {name}"))?;
                found.path.clone().into()
            }
            None if words.is_empty() => find_program(word)
                .with_context(|| format!("no program {word}"))?
                .into(),
            None => word.into(),
        });
    }
    Ok(words)
}

fn examine(brownout: &Path, path: PathBuf) -> Result<Trace> {
    let mut words: Vec<OsString> = vec![brownout.into()];
    words.extend(["stat", "--quiet", "--format", "json"].map(OsString::from));
    words.push(path.clone().into());
    let report: Value = serde_json::from_slice(&output_of(&words, Duration::from_secs(300))?)?;
    let counts = report["events"]
        .as_object()
        .context("`stat` reports no events")?;
    let events = counts.values().filter_map(Value::as_u64).sum();
    let bytes = report["trace_bytes"]
        .as_u64()
        .context("`stat` reports no size")?;
    Ok(Trace {
        path,
        events,
        bytes,
    })
}

/// Millions of events per second that the library reads of a trace.
fn reader_speed(trace: &Trace) -> Result<f64> {
    let words = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "brownout-trace",
        "--example",
        "reader_speed",
        "--",
    ];
    let output = cargo(&words)?.arg(&trace.path).output()?;
    if !output.status.success() {
        bail!(
            "the reader failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let report = String::from_utf8(output.stdout)?;
    Ok(report
        .split_whitespace()
        .next_back()
        .context("the reader said nothing")?
        .parse()?)
}
