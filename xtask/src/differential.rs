//! `cargo xtask differential`: generated instructions leave every register and every byte of memory as
//! they do natively.
//!
//! `tests/differential` makes cases from a seed and executes them; here it is run natively and under
//! `brownout record`, with operands in ordinary memory, in a shared mapping of a file, and there with
//! loads recorded too. A case that differs is shrunk to as few instructions as still differ, and printed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::cpu::Cpu;
use crate::parallel;
use crate::shell::{cargo, memory_dir, step, target_dir};
use crate::test_directory::{End, Job, Outcome, TestDirectory, forbid_core_files};
use crate::wrapper::Wrapper;

/// Cases of one process.
const BATCH: usize = 4000;
const CORE_CASES: usize = 3 * BATCH;
const CASES: usize = 60 * BATCH;
const LIMIT: Duration = Duration::from_secs(120);
/// How many times a batch is taken up again after a case that ended it.
const MAX_ENDED: usize = 40;
const REGIONS: [&str; 3] = ["low", "high", "middle"];

/// Where the operands lie and what is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Ordinary,
    Shared,
    SharedLoads,
}

impl Mode {
    const ALL: [Mode; 3] = [Mode::Ordinary, Mode::Shared, Mode::SharedLoads];

    fn name(self) -> &'static str {
        match self {
            Mode::Ordinary => "ordinary memory",
            Mode::Shared => "shared file",
            Mode::SharedLoads => "shared file, --loads",
        }
    }
}

/// The cases of one process, and the programs that handle them.
struct Batch<'a> {
    tool: &'a Path,
    brownout: &'a Path,
    seed: u64,
    count: usize,
    region: &'static str,
    cpu: &'a str,
    folder: PathBuf,
}

/// What a batch found.
#[derive(Default)]
struct BatchResult {
    failures: Vec<String>,
    /// Instructions that ended the run with a sentence.
    unsupported: Vec<String>,
}

pub fn run(mut args: Args) -> Result<()> {
    if args.switch("--symbolic") {
        return symbolic(args);
    }
    let core = args.switch("--core");
    let seed: u64 = args.number("--seed")?.unwrap_or(1);
    let cases = args
        .number("--cases")?
        .unwrap_or(if core { CORE_CASES } else { CASES });
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let cpu = Cpu::from_args(&mut args)?;
    let wrapper = Wrapper::from_args(&mut args)?;
    args.finish()?;
    let Some(brownout) = wrapper.brownout() else {
        bail!("differential needs brownout itself, not a wrapper");
    };
    forbid_core_files()?;
    step(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "differential",
    ])?)?;
    let tool = target_dir()?.join("release/differential");
    let root = memory_dir()?.join(format!("brownout-differential-{}", std::process::id()));
    let started = Instant::now();
    let batches: Vec<Batch> = (0..cases.div_ceil(BATCH))
        .map(|number| Batch {
            tool: &tool,
            brownout,
            seed: seed + number as u64,
            count: BATCH.min(cases - number * BATCH),
            region: REGIONS[number % REGIONS.len()],
            cpu: cpu.name(),
            folder: root.join(number.to_string()),
        })
        .collect();
    let verdicts = parallel::map(&batches, jobs, |batch| {
        let verdict = batch.judge();
        let result = match &verdict {
            Ok(verdict) if verdict.failures.is_empty() => "ok",
            _ => "FAILED",
        };
        println!(
            "seed {:<6} {:>5} cases, {:<6}  {result}",
            batch.seed, batch.count, batch.region
        );
        verdict
    });
    let _ = fs::remove_dir_all(&root);
    report(&batches, verdicts, cases, started)
}

/// Compares symbolic replay with the processor (`tests/semantics`).
fn symbolic(mut args: Args) -> Result<()> {
    /// Each form several times.
    const CASES: usize = 12_000;
    /// Each form once: what `cargo xtask test` runs.
    const CORE: &str = "modelled";
    const CORE_SEQUENCES: usize = 100;
    let core = args.switch("--core");
    let seed: u64 = args.number("--seed")?.unwrap_or(1);
    let cases: Option<usize> = args.number("--cases")?;
    args.finish()?;
    let (instructions, sequences) = match cases {
        None if core => (CORE.to_owned(), CORE_SEQUENCES),
        _ => {
            let cases = cases.unwrap_or(CASES);
            (cases.to_string(), cases / 12)
        }
    };
    let words = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "semantics",
        "--",
    ];
    step(cargo(&words)?.args([seed.to_string(), instructions, sequences.to_string()]))
}

fn report(
    batches: &[Batch],
    verdicts: Vec<Result<BatchResult>>,
    cases: usize,
    started: Instant,
) -> Result<()> {
    let mut failures = 0;
    let mut unsupported = Vec::new();
    for (batch, verdict) in batches.iter().zip(verdicts) {
        let verdict = verdict.with_context(|| format!("seed {}, {}", batch.seed, batch.region))?;
        for failure in &verdict.failures {
            println!("\nseed {}, {}: {failure}", batch.seed, batch.region);
        }
        failures += verdict.failures.len();
        unsupported.extend(verdict.unsupported);
    }
    unsupported.sort();
    unsupported.dedup();
    if !unsupported.is_empty() {
        println!("\nnot supported (the run ended with a message that says so):");
        unsupported.iter().for_each(|line| println!("    {line}"));
    }
    println!(
        "\ndifferential: {cases} cases for {} in {} ways: {failures} differ; {} s",
        batches.first().map_or("no CPU", |batch| batch.cpu),
        Mode::ALL.len(),
        started.elapsed().as_secs()
    );
    if failures > 0 {
        bail!("{failures} cases differ from native execution");
    }
    Ok(())
}

impl Batch<'_> {
    fn judge(&self) -> Result<BatchResult> {
        fs::create_dir_all(&self.folder)?;
        let cases = self.folder.join("cases");
        self.tool(&[
            "generate".into(),
            self.seed.to_string().into(),
            self.count.to_string().into(),
            self.region.into(),
            self.cpu.into(),
            cases.clone().into(),
        ])?;
        let native = self.native(&cases, "native")?;
        let mut verdict = BatchResult::default();
        for mode in Mode::ALL {
            let results = self.folder.join("engine");
            let ended = self.recorded(&cases, mode, &results)?;
            for (index, outcome) in ended {
                self.judge_ended(&cases, mode, index, &outcome, &mut verdict)?;
            }
            for (index, text) in self.differences(&cases, &native, &results)? {
                let shrunk = self.shrink(&cases, mode, index)?.unwrap_or(text);
                verdict.failures.push(format!("{}\n{shrunk}", mode.name()));
            }
            fs::remove_file(&results)?;
        }
        fs::remove_dir_all(&self.folder)?;
        Ok(verdict)
    }

    /// Executes cases natively; where the outcomes are.
    fn native(&self, cases: &Path, name: &str) -> Result<PathBuf> {
        let results = self.folder.join(name);
        let _ = fs::remove_file(&results);
        let outcome = self.execute(cases, 0, Mode::Shared, &results, None)?;
        if outcome.end != End::Exit(0) {
            bail!("natively: {}: {}", outcome.end, last_line(&outcome));
        }
        Ok(results)
    }

    /// Executes cases under the engine, going on behind those that end it. Returns these.
    fn recorded(&self, cases: &Path, mode: Mode, results: &Path) -> Result<Vec<(usize, Outcome)>> {
        let _ = fs::remove_file(results);
        let wrapper = Wrapper::Record {
            brownout: self.brownout.to_owned(),
            loads: mode == Mode::SharedLoads,
            schedule: None,
        };
        let mut ended = Vec::new();
        let mut from = 0;
        loop {
            let outcome = self.execute(cases, from, mode, results, Some(&wrapper))?;
            if outcome.end == End::Exit(0) {
                return Ok(ended);
            }
            let text = self.tool(&["progress".into(), results.into()])?;
            let next: usize = String::from_utf8(text)?.trim().parse()?;
            let index = next.max(from);
            ended.push((index, outcome));
            from = index + 1;
            if ended.len() > MAX_ENDED {
                bail!("more than {MAX_ENDED} cases end the engine; the last is {index}");
            }
        }
    }

    fn execute(
        &self,
        cases: &Path,
        from: usize,
        mode: Mode,
        results: &Path,
        wrapper: Option<&Wrapper>,
    ) -> Result<Outcome> {
        let directory = TestDirectory::create(&self.folder.join("directory"))?;
        let mut argv: Vec<OsString> = vec![
            self.tool.into(),
            "execute".into(),
            cases.into(),
            from.to_string().into(),
            results.into(),
        ];
        if mode != Mode::Ordinary {
            argv.push(directory.cwd().join("memory").into());
        }
        let argv = match wrapper {
            Some(wrapper) => {
                wrapper.wrap(&directory.trace(), Some(&directory.cwd().join("*")), &argv)
            }
            None => argv,
        };
        let outcome = directory.run_unread(&Job {
            argv: &argv,
            setup: "",
            stdin: b"",
            env: &[],
            limit: LIMIT,
        })?;
        directory.remove()?;
        Ok(outcome)
    }

    /// A case that ended the run: a sentence about what is not supported is an answer, all else is not.
    fn judge_ended(
        &self,
        cases: &Path,
        mode: Mode,
        index: usize,
        outcome: &Outcome,
        verdict: &mut BatchResult,
    ) -> Result<()> {
        const UNSUPPORTED: i32 = 2;
        let line = last_line(outcome);
        let shown = self.tool(&["show".into(), cases.into(), index.to_string().into()])?;
        let shown = String::from_utf8(shown)?;
        if outcome.end == End::Exit(UNSUPPORTED) && line.contains("support") {
            let title = shown.lines().next().unwrap_or_default().trim();
            verdict
                .unsupported
                .push(format!("{}: {title}", mode.name()));
        } else {
            verdict.failures.push(format!(
                "{}: case {index} ended the run: {}: {line}\n{shown}",
                mode.name(),
                outcome.end
            ));
        }
        Ok(())
    }

    /// The cases whose outcomes differ, each with its description.
    fn differences(
        &self,
        cases: &Path,
        native: &Path,
        engine: &Path,
    ) -> Result<Vec<(usize, String)>> {
        let output = Command::new(self.tool)
            .arg("compare")
            .args([cases, native, engine])
            .output()?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!(
                "compare: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let text = String::from_utf8(output.stdout)?;
        let mut found: Vec<(usize, String)> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("case ") {
                let number = rest.split([',', ' ']).next().unwrap_or_default();
                found.push((number.parse()?, String::new()));
            }
            if let Some((_, text)) = found.last_mut() {
                text.push_str(line);
                text.push('\n');
            }
        }
        Ok(found)
    }

    /// The case with as many of its instructions left out as can be while it still differs.
    fn shrink(&self, cases: &Path, mode: Mode, index: usize) -> Result<Option<String>> {
        let mut dropped: Vec<String> = Vec::new();
        let mut best = None;
        for number in 0.. {
            let mut tried = dropped.clone();
            if number > 0 {
                tried.push((number - 1).to_string());
            }
            let reduced = self.folder.join("reduced");
            let made = Command::new(self.tool)
                .arg("reduce")
                .arg(cases)
                .args([index.to_string(), tried.join(",")])
                .arg(&reduced)
                .output()?;
            if !made.status.success() {
                break;
            }
            let native = self.native(&reduced, "reduced-native")?;
            let results = self.folder.join("reduced-engine");
            self.recorded(&reduced, mode, &results)?;
            if let Some((_, text)) = self.differences(&reduced, &native, &results)?.pop() {
                dropped = tried;
                best = Some(text);
            }
        }
        Ok(best)
    }

    /// Runs the tool; what it prints.
    fn tool(&self, words: &[OsString]) -> Result<Vec<u8>> {
        let output = Command::new(self.tool).args(words).output()?;
        if !output.status.success() {
            bail!(
                "{:?}: {}",
                words[0],
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(output.stdout)
    }
}

/// The last words of a run, warnings aside.
fn last_line(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr);
    let is_said = |line: &&str| !line.is_empty() && !line.contains("warning");
    text.lines().rfind(is_said).unwrap_or_default().to_owned()
}
