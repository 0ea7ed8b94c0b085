//! `cargo xtask transparency`: programs behave under the engine as they do natively.
//!
//! Each program is run natively once and under test several times; end, standard output and produced
//! files must be equal. Real programs come from the tables in `table/`, our own from
//! `tests/programs/`, where each states how it is built and how it ends. `verdict` decides about programs
//! that do not even behave natively as they should on this machine.
//!
//! What it can miss: it compares what a program shows, so a wrong value that is never printed, written
//! or acted upon stays unseen.

mod case;
mod table;
mod verdict;

use std::ffi::OsString;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::case::{Case, Program};
use self::verdict::{Runs, Standing, allowed_odd};
use crate::args::Args;
use crate::compare::{Normaliser, Scope};
use crate::cpu::Cpu;
use crate::shell::{find_program, target_dir};
use crate::test_directory::{End, Job, Outcome, TestDirectory, forbid_core_files};
use crate::wrapper::Wrapper;
use crate::{parallel, programs, setup};

/// Folders of `tests/programs/` that belong to other commands.
const OTHER_GROUPS: [&str; 4] = ["pm", "bench", "soak", "exploration"];
const RUNS: usize = 3;
/// Native runs of a program that seems to differ, to learn whether it always does the same.
const NATIVE_RUNS: usize = 5;

struct Options {
    wrapper: Wrapper,
    runs: usize,
    cpu: Cpu,
    keep: bool,
    allow_missing: bool,
}

/// A run of either kind, ready to be started.
struct Subject {
    title: String,
    argv: Vec<OsString>,
    setup: String,
    stdin: String,
    env: Vec<(String, String)>,
    limit: Duration,
    end: End,
    stdout: bool,
    stderr: bool,
    files: bool,
    ignored: &'static [&'static str],
    normalisers: &'static [Normaliser],
    missing: Vec<&'static str>,
}

/// What became of a subject.
struct SubjectResult {
    standing: Standing,
    notes: Vec<String>,
    native: Duration,
    tested: Duration,
}

/// Programs that the tables need: of the core run, or of `all` runs.
pub fn needed_programs(all: bool) -> impl Iterator<Item = &'static str> {
    table::cases()
        .filter(move |case| all || case.core)
        .flat_map(|case| case.needs.iter().copied())
}

pub fn run(mut args: Args) -> Result<()> {
    let core = args.switch("--core");
    let filter = args.value("--filter")?.unwrap_or_default();
    let runs = args.number("--runs")?.unwrap_or(RUNS);
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let cpu = Cpu::from_args(&mut args)?;
    let keep = args.switch("--keep");
    let allow_missing = args.switch("--allow-missing");
    let list = args.switch("--list");
    let own_programs = programs::discover(|group| !OTHER_GROUPS.contains(&group))?;
    if list {
        args.finish()?;
        own_programs
            .iter()
            .for_each(|program| println!("{}/{}", program.group, program.name));
        table::cases().for_each(|case| println!("{}", case.name));
        return Ok(());
    }
    let options = Options {
        wrapper: Wrapper::from_args(&mut args)?,
        runs,
        cpu,
        keep,
        allow_missing,
    };
    args.finish()?;
    forbid_core_files()?;

    let missing = programs::missing_compilers(&own_programs);
    if !missing.is_empty() {
        bail!(
            "our own programs need {}; `cargo xtask setup` installs them",
            missing.join(", ")
        );
    }
    let built = programs::build(&own_programs)?;
    let mut subjects: Vec<Subject> = built
        .iter()
        .filter(|built| !core || !built.program.slow)
        .map(own_subject)
        .collect();
    for case in table::cases().filter(|case| !core || case.core) {
        subjects.push(table_subject(case)?);
    }
    subjects.retain(|subject| subject.title.contains(&filter));
    for subject in &mut subjects {
        subject.env.extend(options.cpu.environment());
    }
    if subjects.is_empty() {
        bail!("no run's name contains {filter:?}");
    }
    report(&subjects, &options, jobs)
}

fn own_subject(built: &programs::Built) -> Subject {
    let program = built.program;
    let argv =
        std::iter::once(built.path.clone().into()).chain(built.args().into_iter().map(Into::into));
    Subject {
        title: built.title(),
        argv: argv.collect(),
        setup: String::new(),
        stdin: program.stdin.clone(),
        env: program.env.clone(),
        limit: program.limit,
        end: program.end,
        stdout: true,
        stderr: program.stderr,
        files: true,
        ignored: &[],
        normalisers: &[],
        missing: Vec::new(),
    }
}

fn table_subject(case: &Case) -> Result<Subject> {
    let argv: Vec<OsString> = match case.program {
        Program::Shell(script) => vec!["/bin/sh".into(), "-c".into(), script.into()],
        Program::Argv(words) => {
            let program = find_program(words[0]).map_or(words[0].into(), OsString::from);
            std::iter::once(program)
                .chain(words[1..].iter().map(Into::into))
                .collect()
        }
    };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let env = vec![
        ("PORT".to_owned(), port.to_string()),
        ("RUSTC".to_owned(), rustc()?),
    ];
    Ok(Subject {
        title: case.name.to_owned(),
        argv,
        setup: case.setup.to_owned(),
        stdin: case.stdin.to_owned(),
        env,
        limit: case.limit,
        end: case.end,
        stdout: case.stdout,
        stderr: case.stderr,
        files: case.files,
        ignored: case.ignored,
        normalisers: case.normalisers,
        missing: case
            .needs
            .iter()
            .copied()
            .filter(|name| find_program(name).is_none())
            .collect(),
    })
}

/// The compiler behind rustup's proxy, which would want the user's home.
fn rustc() -> Result<String> {
    static PATH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    if let Some(path) = PATH.get() {
        return Ok(path.clone());
    }
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .context("cannot run rustc")?;
    let path = format!(
        "{}/bin/rustc",
        String::from_utf8_lossy(&output.stdout).trim()
    );
    Ok(PATH.get_or_init(|| path).clone())
}

fn report(subjects: &[Subject], options: &Options, jobs: usize) -> Result<()> {
    let started = Instant::now();
    println!("{:<44} {:>9} {:>9}  result", "run", "native", "tested");
    let verdicts = parallel::map(subjects, jobs, |subject| {
        let verdict = judge(subject, options);
        match &verdict {
            Ok(verdict) => {
                let (native, tested) = (milliseconds(verdict.native), milliseconds(verdict.tested));
                let result = verdict.standing;
                println!("{:<44} {native:>9} {tested:>9}  {result}", subject.title);
            }
            Err(error) => println!("{:<44} {:>9} {:>9}  {error:#}", subject.title, "-", "-"),
        }
        verdict
    });
    let count = |wanted: Standing| {
        let has =
            |verdict: &&Result<SubjectResult>| matches!(verdict, Ok(v) if v.standing == wanted);
        verdicts.iter().filter(has).count()
    };
    let (passed, unusual) = (count(Standing::Ok), count(Standing::Unusual));
    let unstable = count(Standing::Unstable);
    let mut failed = count(Standing::Failed);
    let mut skipped = 0;
    for (subject, verdict) in subjects.iter().zip(&verdicts) {
        match verdict {
            Ok(verdict) if verdict.standing == Standing::Ok => {}
            Ok(verdict) => {
                println!("\n{}: {}", subject.title, verdict.standing);
                verdict.notes.iter().for_each(|note| println!("    {note}"));
            }
            Err(_) if !subject.missing.is_empty() => skipped += 1,
            Err(error) => {
                failed += 1;
                println!("\n{}: {error:#}", subject.title);
            }
        }
    }
    println!(
        "\ntransparency: {} programs on {}, {} runs each: {passed} passed, {unusual} unusual, {unstable} unstable, {failed} failed, {skipped} skipped; {} s",
        subjects.len(),
        options.cpu.name(),
        options.runs,
        started.elapsed().as_secs()
    );
    if failed > 0 {
        bail!("{failed} programs behave differently under test");
    }
    let odd = unusual + unstable;
    if odd > allowed_odd(subjects.len()) {
        bail!(
            "{odd} programs do not behave natively as they should: this machine cannot be used to test the engine"
        );
    }
    if skipped > 0 && !options.allow_missing {
        bail!(
            "{skipped} programs are not installed (`cargo xtask setup --all`, or --allow-missing)"
        );
    }
    Ok(())
}

/// Judges one subject in a directory that is removed afterwards unless `--keep` is given.
fn judge(subject: &Subject, options: &Options) -> Result<SubjectResult> {
    if !subject.missing.is_empty() {
        let package = |name: &&'static str| setup::package_of(name).unwrap_or(name);
        let packages: Vec<_> = subject.missing.iter().map(package).collect();
        bail!("skipped: install {}", packages.join(" "));
    }
    let plain = |letter: char| {
        if letter.is_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    let folder: String = subject.title.chars().map(plain).collect();
    let directory = TestDirectory::create(&target_dir()?.join("transparency").join(folder))?;
    let verdict = judge_in(subject, options, &directory);
    if !options.keep {
        directory.remove()?;
    }
    verdict
}

/// Runs one subject natively and under test; an error if it cannot be judged. What the first failing run
/// left stays in the directory with `--keep`.
fn judge_in(
    subject: &Subject,
    options: &Options,
    directory: &TestDirectory,
) -> Result<SubjectResult> {
    let scope = Scope {
        stdout: subject.stdout,
        stderr: subject.stderr,
        files: subject.files,
        ignored: subject.ignored,
        normalisers: subject.normalisers,
    };
    let mut runs = Runs {
        expected: subject.end,
        natives: vec![run_once(subject, directory, &subject.argv)?],
        tested: Vec::new(),
    };
    let words = options
        .wrapper
        .wrap(&directory.trace(), None, &subject.argv);
    for _ in 0..options.runs {
        let tested = run_once(subject, directory, &words)?;
        let hung = tested.end == End::TimedOut;
        runs.tested.push(tested);
        if hung || (options.keep && !runs.all_native(scope)) {
            break;
        }
    }
    if options.keep && !runs.all_native(scope) {
        let (standing, mut notes) = runs.judge(scope);
        notes.push(format!("see {}", directory.dir().display()));
        return Ok(verdict(&runs, standing, notes));
    }
    while !runs.all_native(scope) && !runs.natives_differ(scope) && runs.natives.len() < NATIVE_RUNS
    {
        runs.natives
            .push(run_once(subject, directory, &subject.argv)?);
    }
    let (standing, notes) = runs.judge(scope);
    Ok(verdict(&runs, standing, notes))
}

fn verdict(runs: &Runs, standing: Standing, notes: Vec<String>) -> SubjectResult {
    let best = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.wall).min();
    SubjectResult {
        standing,
        notes,
        native: best(&runs.natives).unwrap_or_default(),
        tested: best(&runs.tested).unwrap_or_default(),
    }
}

fn run_once(subject: &Subject, directory: &TestDirectory, words: &[OsString]) -> Result<Outcome> {
    directory.run(&Job {
        argv: words,
        setup: &subject.setup,
        stdin: subject.stdin.as_bytes(),
        env: &subject.env,
        limit: subject.limit,
    })
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
