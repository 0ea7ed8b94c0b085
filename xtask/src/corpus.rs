//! `cargo xtask corpus`: every program under `corpus/`, in every build it names, yields exactly the findings
//! that are written on its lines. `--native` builds and runs them without brownout, which is how a new program
//! is tried first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use brownout_corpus::{Build, Built, CorpusOutcome, Harness, Program, discover};

use crate::args::Args;
use crate::cpu::Flushes;
use crate::parallel;
use crate::shell::{memory_dir, root, target_dir};
use crate::test_directory::forbid_core_files;
use crate::wrapper::Wrapper;

/// Whether recovery can be shown an image at the pool's original path, which programs with a recovery need.
fn private_mounts_are_possible() -> bool {
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["mount", "-t", "tmpfs", "none", "/tmp"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What all builds of one program came to.
#[derive(Default)]
struct Row {
    builds: usize,
    findings: usize,
    /// What is wrong, and with which builds.
    complaints: BTreeMap<String, Vec<String>>,
}

pub fn run(mut args: Args) -> Result<()> {
    let filter = args.value("--filter")?.unwrap_or_default();
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let dir = args
        .value("--dir")?
        .map_or_else(|| root().join("corpus"), PathBuf::from);
    let native = args.switch("--native");
    let core = args.switch("--core");
    let list = args.switch("--list");
    let mut programs = discover(&dir)?;
    programs.retain(|program| program.name.contains(&filter));
    if programs.is_empty() {
        bail!("no program in {} has {filter:?} in its name", dir.display());
    }
    if list {
        args.finish()?;
        programs
            .iter()
            .for_each(|program| println!("{}", program.name));
        return Ok(());
    }
    if !private_mounts_are_possible() {
        let before = programs.len();
        programs.retain(|program| program.recover.is_none());
        println!(
            "{} programs with a recovery are left out: this machine does not let users mount in their own namespaces",
            before - programs.len()
        );
    }
    let flushes = Flushes::of_this_machine();
    let harness = Harness {
        brownout: brownout(&mut args, native)?,
        built: target_dir()?.join("corpus"),
        scratch: memory_dir()?,
        defines: if flushes.clwb {
            Vec::new()
        } else {
            vec!["NO_CLWB".to_owned()]
        },
    };
    args.finish()?;
    forbid_core_files()?;

    let started = Instant::now();
    let mut pieces: Vec<(&Program, &Build)> = programs
        .iter()
        .flat_map(|program| builds(program, core).map(move |build| (program, build)))
        .collect();
    if !flushes.clflushopt {
        let before = pieces.len();
        pieces.retain(|(_, build)| !needs_fence(build));
        println!(
            "{} builds are left out: this CPU has neither clwb nor clflushopt, and clflush needs no fence",
            before - pieces.len()
        );
    }
    let outcomes = parallel::map(&pieces, jobs, |&(program, build)| {
        judge(&harness, program, build, native)
    });
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for ((program, build), outcome) in pieces.iter().zip(outcomes) {
        let row = rows.entry(&program.name).or_default();
        row.builds += 1;
        match outcome {
            Ok(findings) => row.findings += findings,
            Err(complaints) => {
                for complaint in complaints {
                    let builds = row.complaints.entry(complaint).or_default();
                    builds.push(build.to_string());
                }
            }
        }
    }
    print_table(&rows);
    let failed = rows.values().filter(|row| !row.complaints.is_empty());
    let failed = failed.count();
    println!(
        "\ncorpus: {} programs in {} builds: {} as expected, {failed} not; {} s",
        rows.len(),
        pieces.len(),
        rows.len() - failed,
        started.elapsed().as_secs()
    );
    if failed > 0 {
        bail!("brownout does not report what is written in {failed} programs");
    }
    Ok(())
}

/// Whether a build flushes with an instruction that a fence must follow.
fn needs_fence(build: &Build) -> bool {
    !matches!(build.variant.as_deref(), Some("clflush" | "nt"))
}

/// The builds to judge: all, or the first and the last of each variant, which differ in compiler and level.
fn builds(program: &Program, core: bool) -> impl Iterator<Item = &Build> {
    let all = &program.builds;
    all.iter().enumerate().filter_map(move |(at, build)| {
        let variant_of = |at: Option<usize>| Some(&all.get(at?)?.variant);
        let own = Some(&build.variant);
        let is_edge = variant_of(at.checked_sub(1)) != own || variant_of(Some(at + 1)) != own;
        (!core || is_edge).then_some(build)
    })
}

/// The tool under test, built unless a path is given or nothing runs under it.
fn brownout(args: &mut Args, native: bool) -> Result<PathBuf> {
    if native {
        return Ok(PathBuf::new());
    }
    let wrapper = Wrapper::from_args(args)?;
    let path = wrapper.brownout().context("the corpus needs a brownout")?;
    Ok(path.to_owned())
}

/// The number of findings, or complaints, each with the line it is about.
fn judge(
    harness: &Harness,
    program: &Program,
    build: &Build,
    native: bool,
) -> Result<usize, Vec<String>> {
    let verdict = harness.build(program, build).and_then(|built: Built| {
        if !native {
            return harness.judge(&built);
        }
        let complaint = harness.try_natively(&built)?;
        Ok(complaint.map_or(
            CorpusOutcome::AsExpected { findings: 0 },
            CorpusOutcome::Broken,
        ))
    });
    match verdict {
        Ok(CorpusOutcome::AsExpected { findings }) => Ok(findings),
        Ok(CorpusOutcome::Broken(complaint)) => Err(vec![complaint]),
        Ok(CorpusOutcome::Mismatched(mismatches)) => Err(mismatches
            .iter()
            .map(|mismatch| match mismatch.line() {
                Some(line) => format!("line {line}: {mismatch}"),
                None => format!("outside: {mismatch}"),
            })
            .collect()),
        Err(error) => Err(vec![error.to_string()]),
    }
}

fn print_table(rows: &BTreeMap<&str, Row>) {
    println!(
        "{:<48} {:>6} {:>8}  result",
        "program", "builds", "findings"
    );
    for (name, row) in rows {
        let result = if row.complaints.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        println!("{name:<48} {:>6} {:>8}  {result}", row.builds, row.findings);
        for (complaint, builds) in &row.complaints {
            let builds = if builds.len() == row.builds {
                "all builds".to_owned()
            } else {
                builds.join(" ")
            };
            println!("    {complaint}\n        ({builds})");
        }
    }
}
