//! `cargo xtask exactness`: the stores of a trace, replayed over the files as they were when they were
//! mapped, give the files as the program left them, byte for byte.
//!
//! Each program under `tests/programs/pm` gets an empty directory and leaves its persistent files in it.
//! `brownout image --at end` rebuilds them from the trace alone. Programs whose threads race are run
//! many times, because there the order in which stores are logged must be the order in which memory
//! took them. Programs that do the same in every run must also leave the files they leave natively.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::args::Args;
use crate::cpu::Cpu;
use crate::programs::Built;
use crate::shell::{memory_dir, target_dir};
use crate::test_directory::{End, Job, Outcome, TestDirectory, forbid_core_files, output_of};
use crate::wrapper::Wrapper;
use crate::{parallel, programs};

/// Runs of a program whose threads race, in full and in the core run, and of the others.
const RACING_RUNS: usize = 100;
const RACING_CORE_RUNS: usize = 5;
const ORDINARY_RUNS: usize = 2;

struct Options {
    wrapper: Wrapper,
    runs: Option<usize>,
    cpu: Cpu,
    core: bool,
    keep: bool,
}

pub fn run(mut args: Args) -> Result<()> {
    let core = args.switch("--core");
    let filter = args.value("--filter")?.unwrap_or_default();
    let runs = args.number("--runs")?;
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let cpu = Cpu::from_args(&mut args)?;
    let keep = args.switch("--keep");
    let list = args.switch("--list");
    let programs = programs::discover(|group| group == "pm")?;
    if list {
        args.finish()?;
        programs
            .iter()
            .for_each(|program| println!("{}/{}", program.group, program.name));
        return Ok(());
    }
    let options = Options {
        wrapper: Wrapper::from_args(&mut args)?,
        runs,
        cpu,
        core,
        keep,
    };
    args.finish()?;
    forbid_core_files()?;
    let built: Vec<Built> = programs::build(&programs)?
        .into_iter()
        .filter(|built| built.title().contains(&filter) && !(core && built.program.slow))
        .collect();
    if built.is_empty() {
        bail!("no program's name contains {filter:?}");
    }

    let started = Instant::now();
    println!("{:<44} {:>5} {:>9}  result", "program", "runs", "tested");
    let verdicts = parallel::map(&built, jobs, |built| {
        let verdict = judge(built, &options);
        let result = verdict.as_ref().map_or("FAILED", |_| "ok");
        let (runs, time) = verdict.as_ref().copied().unwrap_or((0, Duration::ZERO));
        println!(
            "{:<44} {runs:>5} {:>6.0} ms  {result}",
            built.title(),
            time.as_secs_f64() * 1e3
        );
        verdict
    });
    if !options.keep {
        // Empty unless something was kept.
        let _ = fs::remove_dir(directories()?);
    }
    let failures: Vec<_> = built
        .iter()
        .zip(&verdicts)
        .filter_map(|(built, verdict)| Some((built, verdict.as_ref().err()?)))
        .collect();
    failures
        .iter()
        .for_each(|(built, error)| println!("\n{}: FAILED\n    {error:#}", built.title()));
    let total: usize = verdicts.iter().flatten().map(|(runs, _)| runs).sum();
    println!(
        "\nexactness: {} programs on {}, {total} runs: {} passed, {} failed; {} s",
        built.len(),
        options.cpu.name(),
        built.len() - failures.len(),
        failures.len(),
        started.elapsed().as_secs()
    );
    if !failures.is_empty() {
        bail!(
            "the traces of {} programs do not reproduce the files that they leave",
            failures.len()
        );
    }
    Ok(())
}

/// Judges one program in directories that are removed afterwards unless `--keep` is given.
fn judge(built: &Built, options: &Options) -> Result<(usize, Duration)> {
    let folder = format!("{}-{}", built.program.name, built.variant.name());
    let directory = TestDirectory::create(&directories()?.join(&folder))?;
    let images = target_dir()?.join("exactness").join(&folder);
    let verdict = judge_in(built, options, &directory, &images);
    if !options.keep {
        directory.remove()?;
        remove(&images)?;
    }
    verdict
}

/// Runs one program as often as it needs; how often that was and the shortest time.
fn judge_in(
    built: &Built,
    options: &Options,
    directory: &TestDirectory,
    images: &Path,
) -> Result<(usize, Duration)> {
    let program = built.program;
    let runs = options
        .runs
        .unwrap_or(match (program.threaded, options.core) {
            (true, false) => RACING_RUNS,
            (true, true) => RACING_CORE_RUNS,
            (false, false) => ORDINARY_RUNS,
            (false, true) => 1,
        });
    let native_files = images.join("native");

    let outcome = run_once(built, &options.cpu, directory, None)?;
    expect_success(&outcome).context("natively")?;
    let repeatable = !program.threaded && !program.varying;
    if repeatable {
        copy_files(&directory.cwd(), &native_files)?;
    }
    let mut best = Duration::MAX;
    for number in 1..=runs {
        let outcome = run_once(built, &options.cpu, directory, Some(&options.wrapper))?;
        best = best.min(outcome.wall);
        expect_success(&outcome).with_context(|| format!("run {number}"))?;
        if repeatable {
            compare_files(&native_files, &directory.cwd(), 0).with_context(|| {
                format!("run {number}: the files differ from those of a native run")
            })?;
        }
        if let Some(brownout) = options.wrapper.brownout() {
            let image = images.join("image");
            remove(&image)?;
            let words: [OsString; 7] = [
                brownout.into(),
                "image".into(),
                directory.trace().into(),
                "--at".into(),
                "end".into(),
                "-o".into(),
                image.clone().into(),
            ];
            output_of(&words, Duration::from_secs(120)).with_context(|| format!("run {number}"))?;
            let rebuilt = image.join(
                directory
                    .cwd()
                    .strip_prefix("/")
                    .unwrap_or(&directory.cwd()),
            );
            compare_files(&directory.cwd(), &rebuilt, program.missed).with_context(|| {
                format!("run {number}: the trace does not give the final files")
            })?;
        }
    }
    Ok((runs, best))
}

/// The directory for all directories of this process.
fn directories() -> Result<PathBuf> {
    Ok(memory_dir()?.join(format!("brownout-exactness-{}", std::process::id())))
}

fn run_once(
    built: &Built,
    cpu: &Cpu,
    directory: &TestDirectory,
    wrapper: Option<&Wrapper>,
) -> Result<Outcome> {
    let mut argv: Vec<OsString> = vec![built.path.clone().into()];
    argv.extend(built.args().into_iter().map(OsString::from));
    argv.push(directory.cwd().into());
    let words = match wrapper {
        Some(wrapper) => wrapper.wrap(&directory.trace(), Some(&directory.cwd().join("*")), &argv),
        None => argv,
    };
    let mut env = built.program.env.clone();
    env.push(("PMEM_IS_PMEM_FORCE".to_owned(), "1".to_owned()));
    env.extend(cpu.environment());
    directory.run_unread(&Job {
        argv: &words,
        setup: "",
        stdin: b"",
        env: &env,
        limit: built.program.limit,
    })
}

fn expect_success(outcome: &Outcome) -> Result<()> {
    if outcome.end == End::Exit(0) {
        return Ok(());
    }
    bail!(
        "{}: {}",
        outcome.end,
        String::from_utf8_lossy(&outcome.stderr).trim()
    )
}

fn remove(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The regular files directly in `dir`, by name. Directories in it are scratch space of the program.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(PathBuf::from(entry.file_name()));
        }
    }
    names.sort();
    Ok(names)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    fs::create_dir_all(to)?;
    for name in files_in(from)? {
        let source = File::open(from.join(&name))?;
        let target = File::create(to.join(&name))?;
        target.set_len(source.metadata()?.len())?;
        for (start, end) in data_ranges(&source)? {
            let mut bytes = vec![0; (end - start) as usize];
            source.read_exact_at(&mut bytes, start)?;
            target.write_all_at(&bytes, start)?;
        }
    }
    Ok(())
}

/// Fails with the first difference between the files of two directories, if more than `missed` bytes of
/// a file differ.
fn compare_files(expected: &Path, actual: &Path, missed: u64) -> Result<()> {
    let names = files_in(expected)?;
    if names.is_empty() {
        bail!("the program left no file in {}", expected.display());
    }
    let found = files_in(actual)?;
    if names != found {
        bail!("the files are {found:?} instead of {names:?}");
    }
    for name in names {
        compare_file(&expected.join(&name), &actual.join(&name), missed)
            .with_context(|| name.display().to_string())?;
    }
    Ok(())
}

/// Compares where either file has data; holes are zero in both.
fn compare_file(expected: &Path, actual: &Path, missed: u64) -> Result<()> {
    let expected = File::open(expected)?;
    let actual = File::open(actual)?;
    let (length, actual_length) = (expected.metadata()?.len(), actual.metadata()?.len());
    if length != actual_length {
        bail!("{actual_length} bytes long instead of {length}");
    }
    let mut ranges = data_ranges(&expected)?;
    ranges.extend(data_ranges(&actual)?);
    ranges.sort_unstable();
    let mut differing = 0u64;
    let mut first = None;
    let mut compared = 0;
    for (start, end) in ranges {
        let mut at = start.max(compared);
        compared = compared.max(end);
        while at < end {
            let size = (end - at).min(1 << 20) as usize;
            let (mut a, mut b) = (vec![0; size], vec![0; size]);
            expected.read_exact_at(&mut a, at)?;
            actual.read_exact_at(&mut b, at)?;
            if a != b {
                differing += a.iter().zip(&b).filter(|(x, y)| x != y).count() as u64;
                let offset = a.iter().zip(&b).position(|(x, y)| x != y).unwrap_or(0);
                first.get_or_insert((at + offset as u64, a[offset], b[offset]));
            }
            at += size as u64;
        }
    }
    if let Some((offset, want, got)) = first.filter(|_| differing > missed) {
        bail!(
            "differs first at offset {offset:#x}: {got:#04x} instead of {want:#04x} ({differing} bytes in all)"
        );
    }
    Ok(())
}

/// The parts of a sparse file that hold data.
fn data_ranges(file: &File) -> Result<Vec<(u64, u64)>> {
    let length = file.metadata()?.len();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(start))?;
        ranges.push((start, end));
        at = end;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("xtask-exactness-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_differing_byte_is_found_behind_a_hole() {
        let dir = temporary("hole");
        let (a, b) = (dir.join("a"), dir.join("b"));
        for (path, byte) in [(&a, 1u8), (&b, 2)] {
            let file = File::create(path).unwrap();
            file.set_len(1 << 33).unwrap();
            file.write_all_at(&[byte], (1 << 32) + 5).unwrap();
        }
        let error = compare_file(&a, &b, 0).unwrap_err().to_string();
        assert!(
            error.contains("0x100000005") && error.contains("0x02 instead of 0x01 (1 bytes"),
            "{error}"
        );
        compare_file(&a, &b, 1).unwrap();
        compare_file(&a, &a, 0).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn missing_files_and_lengths_count() {
        let dir = temporary("missing");
        let (a, b) = (dir.join("a"), dir.join("b"));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        assert!(
            compare_files(&a, &b, 0).is_err(),
            "nothing to compare is no success"
        );
        fs::write(a.join("x"), "12").unwrap();
        assert!(compare_files(&a, &b, 0).is_err());
        fs::write(b.join("x"), "1").unwrap();
        assert!(compare_files(&a, &b, 0).is_err());
        fs::write(b.join("x"), "12").unwrap();
        compare_files(&a, &b, 0).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
}
