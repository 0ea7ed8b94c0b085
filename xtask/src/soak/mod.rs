//! `cargo xtask soak`: long-running programs do not grow under the engine.
//!
//! Each program repeats one thing for a given time: our own under `tests/programs/soak/`, and those of `table`. It runs
//! natively, then under test, while the memory of its processes and of the recorder is sampled. After warming up, the
//! program must not grow more than natively, and the recorder must not grow at all: what it keeps depends on the number of
//! sites and files, not on how long they are used. The program must also end as it does natively.
//!
//! What it can miss: growth too slow to show in the time.

mod memory;
mod table;

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use self::memory::{MemorySamples, Samples};
use crate::args::Args;
use crate::shell::{find_program, target_dir};
use crate::test_directory::{End, Job, Outcome, TestDirectory};
use crate::wrapper::Wrapper;
use crate::{parallel, programs};

const MINUTES: u64 = 5;
/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// What a program may take longer than its time: until it sees that it is over, and to start.
const GRACE: Duration = Duration::from_secs(60);
/// Growth that is not yet taken for a leak, and growth for each MiB that is there.
const ALLOWED_KIB: i64 = 3 << 10;
const ALLOWED_PERCENT: i64 = 4;

/// A program that runs for as many seconds as its last argument says.
struct Subject {
    title: String,
    argv: Vec<OsString>,
    /// Run by `/bin/sh` in its directory first.
    setup: &'static str,
}

/// A run and what its processes took.
struct MeasuredRun {
    outcome: Outcome,
    memory: MemorySamples,
}

pub fn run(mut args: Args) -> Result<()> {
    let minutes = args.number("--minutes")?.unwrap_or(MINUTES);
    let filter = args.value("--filter")?.unwrap_or_default();
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let sources = programs::discover(|group| group == "soak")?;
    let built = programs::build(&sources)?;
    let mut subjects: Vec<Subject> = built
        .iter()
        .map(|built| Subject {
            title: built.title(),
            argv: std::iter::once(built.path.clone().into())
                .chain(built.args().into_iter().map(Into::into))
                .collect(),
            setup: "",
        })
        .collect();
    for case in table::CASES {
        let Some(program) = find_program(case.program) else {
            println!(
                "{:<24} skipped: {} is not installed",
                case.name, case.program
            );
            continue;
        };
        subjects.push(Subject {
            title: case.name.to_owned(),
            argv: std::iter::once(program.into())
                .chain(case.args.iter().map(Into::into))
                .collect(),
            setup: case.setup,
        });
    }
    subjects.retain(|subject| subject.title.contains(&filter));
    if subjects.is_empty() {
        bail!("no program has {filter:?} in its name");
    }
    let turns = subjects.len().div_ceil(jobs.max(1)) as u64;
    // Of the time, a quarter is native.
    let seconds = (minutes * 60 * 3 / 4 / turns).max(4);
    report(&subjects, seconds, jobs, &wrapper)
}

fn report(subjects: &[Subject], seconds: u64, jobs: usize, wrapper: &Wrapper) -> Result<()> {
    let started = Instant::now();
    println!("each for {seconds} s; memory after warming up, and growth from then on");
    println!(
        "{:<24} {:>11} {:>7} {:>11} {:>7} {:>11} {:>7}  result",
        "program", "native", "growth", "tested", "growth", "recorder", "growth"
    );
    let failures = parallel::map(subjects, jobs, |subject| {
        let failure = judge(subject, seconds, wrapper).unwrap_or_else(|error| {
            println!("{:<24} {error:#}", subject.title);
            Some(format!("{error:#}"))
        });
        failure.map(|failure| format!("{}: {failure}", subject.title))
    });
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    println!(
        "\nsoak: {} programs, {} failed; {} s",
        subjects.len(),
        failures.len(),
        started.elapsed().as_secs()
    );
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// Runs a program natively and under test; what is wrong, if anything.
fn judge(subject: &Subject, seconds: u64, wrapper: &Wrapper) -> Result<Option<String>> {
    let folder = subject
        .title
        .replace(|letter: char| !letter.is_alphanumeric(), "-");
    let directory = TestDirectory::create(&target_dir()?.join("soak").join(folder))?;
    let native = sampled(&directory, subject, (seconds / 3).max(3), None)?;
    let tested = sampled(&directory, subject, seconds, Some(wrapper))?;
    directory.remove()?;
    let failure = verdict(&native, &tested);
    println!(
        "{:<24} {:>7} KiB {:>7} {:>7} KiB {:>7} {:>7} KiB {:>7}  {}",
        subject.title,
        native.memory.program.warm(),
        native.memory.program.growth(),
        tested.memory.program.warm(),
        tested.memory.program.growth(),
        tested.memory.recorder.warm(),
        tested.memory.recorder.growth(),
        failure.as_deref().unwrap_or("ok")
    );
    Ok(failure)
}

fn verdict(native: &MeasuredRun, tested: &MeasuredRun) -> Option<String> {
    if native.outcome.end != End::Exit(0) {
        return Some(format!("natively {}", native.outcome.end));
    }
    if tested.outcome.end != native.outcome.end || tested.outcome.stdout != native.outcome.stdout {
        let stderr = String::from_utf8_lossy(&tested.outcome.stderr);
        return Some(format!("{}: {}", tested.outcome.end, stderr.trim()));
    }
    let native_growth = native.memory.program.growth().max(0);
    let growth = tested.memory.program.growth() - native_growth;
    if growth > allowed(&tested.memory.program) {
        return Some(format!("grows by {growth} KiB more than natively"));
    }
    let recorder = &tested.memory.recorder;
    let growth = recorder.growth();
    (growth > allowed(recorder)).then(|| format!("the recorder grows by {growth} KiB"))
}

/// Growth that may be noise.
fn allowed(samples: &Samples) -> i64 {
    ALLOWED_KIB + samples.warm() * ALLOWED_PERCENT / 100
}

fn sampled(
    directory: &TestDirectory,
    subject: &Subject,
    seconds: u64,
    wrapper: Option<&Wrapper>,
) -> Result<MeasuredRun> {
    let mut argv = subject.argv.clone();
    argv.push(seconds.to_string().into());
    let words = match wrapper {
        Some(wrapper) => wrapper.wrap(&directory.trace(), None, &argv),
        None => argv,
    };
    let recorder = wrapper
        .and_then(Wrapper::brownout)
        .map(fs::canonicalize)
        .transpose()?;
    let job = Job {
        argv: &words,
        setup: subject.setup,
        stdin: b"",
        env: &[],
        limit: Duration::from_secs(seconds) + GRACE,
    };
    let (outcome, memory) = memory::sample(INTERVAL, directory, recorder.as_deref(), || {
        directory.run_unread(&job)
    });
    Ok(MeasuredRun {
        outcome: outcome?,
        memory,
    })
}
