//! `cargo xtask fuzzing`: how soon `brownout fuzz` finds the mistakes in the stores of `tests/fuzzing`.
//!
//! Each store has one mistake that only a sequence of commands, the state that earlier inputs have left, or a crash image reaches. Its
//! second line, `// finds: RULE in FUNCTION` (or `RULE or RULE in FUNCTION`), says which finding shows it; a line `// recover: COMMAND`
//! gives the recovery. Campaigns begin without seeds, in a process each, with different random seeds. The table has the median of the
//! times, and how many campaigns have found it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use brownout_corpus::read_findings;

use crate::args::Args;
use crate::parallel;
use crate::shell::{root, target_dir};
use crate::wrapper::Wrapper;

/// How often it is looked whether a campaign has found something.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A store with a mistake.
struct Store {
    name: String,
    source: PathBuf,
    rule: String,
    function: String,
    recover: Option<String>,
}

pub fn run(mut args: Args) -> Result<()> {
    let filter = args.value("--filter")?.unwrap_or_default();
    let runs: u64 = args.number("--runs")?.unwrap_or(5);
    let limit = Duration::from_secs(args.number("--time-limit")?.unwrap_or(60));
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let wrapper = Wrapper::from_args(&mut args)?;
    let brownout = wrapper
        .brownout()
        .context("fuzzing needs a brownout")?
        .to_owned();
    args.finish()?;
    let work = target_dir()?.join("fuzzing");
    let stores: Vec<Store> = stores()?
        .into_iter()
        .filter(|store| store.name.contains(&filter))
        .collect();
    ensure!(
        !stores.is_empty() && runs > 0,
        "no store in tests/fuzzing has {filter:?} in its name, or --runs is 0"
    );
    for store in &stores {
        store.build(&work)?;
    }
    let cases: Vec<(&Store, u64)> = stores
        .iter()
        .flat_map(|store| (1..=runs).map(move |seed| (store, seed)))
        .collect();
    let times = parallel::map(&cases, jobs, |&(store, seed)| {
        store.time_to_find(&brownout, &work, seed, limit)
    });
    let times: Vec<Option<Duration>> = times.into_iter().collect::<Result<_>>()?;
    println!(
        "{:<24} {:<32} {:>8} {:>8}",
        "store", "finding", "median", "found"
    );
    let mut missed = 0;
    for (store, times) in stores.iter().zip(times.chunks(runs as usize)) {
        let found = times.iter().flatten().count();
        missed += usize::from(found == 0);
        let finding = format!("{} in {}", store.rule, store.function);
        println!(
            "{:<24} {finding:<32} {:>8} {found:>5}/{runs}",
            store.name,
            median(times).map_or_else(
                || "-".to_owned(),
                |time| format!("{:.1} s", time.as_secs_f64())
            ),
        );
    }
    if missed > 0 {
        bail!(
            "{missed} mistakes were never found within {} s",
            limit.as_secs()
        );
    }
    Ok(())
}

/// The median, in which a campaign that found nothing took longest.
fn median(times: &[Option<Duration>]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_by_key(|time| time.unwrap_or(Duration::MAX));
    times.get(times.len() / 2).copied().flatten()
}

fn stores() -> Result<Vec<Store>> {
    let directory = root().join("tests/fuzzing");
    let entries = fs::read_dir(&directory).context("tests/fuzzing cannot be read")?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    sources.iter().map(|source| Store::read(source)).collect()
}

impl Store {
    fn read(source: &Path) -> Result<Self> {
        let text = fs::read_to_string(source)?;
        let directive = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(&format!("// {name}: ")))
        };
        let finds = directive("finds").and_then(|finds| finds.split_once(" in "));
        let (rule, function) = finds
            .with_context(|| format!("{} has no `// finds: RULE in FUNCTION`", source.display()))?;
        let name = source.file_stem().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            source: source.to_owned(),
            rule: rule.to_owned(),
            function: function.to_owned(),
            recover: directive("recover").map(str::to_owned),
        })
    }

    fn directory(&self, work: &Path) -> PathBuf {
        work.join(&self.name)
    }

    fn build(&self, work: &Path) -> Result<()> {
        let directory = self.directory(work);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)?;
        let status = Command::new("cc")
            .args(["-O1", "-g", "-fno-inline", "-o"])
            .arg(directory.join(&self.name))
            .arg(&self.source)
            .status()?;
        ensure!(
            status.success(),
            "{} cannot be built",
            self.source.display()
        );
        Ok(())
    }

    /// How long a campaign takes to the finding; `None` if it takes longer than `limit`.
    fn time_to_find(
        &self,
        brownout: &Path,
        work: &Path,
        seed: u64,
        limit: Duration,
    ) -> Result<Option<Duration>> {
        let directory = self.directory(work);
        let out = directory.join(format!("out-{seed}"));
        let program = format!("./{}", self.name);
        let mut command = Command::new(brownout);
        command
            .args([
                "fuzz",
                "--quiet",
                "--jobs",
                "1",
                "--timeout",
                "1s",
                "--random-seed",
            ])
            .arg(seed.to_string())
            .arg("--out")
            .arg(&out);
        if let Some(recover) = &self.recover {
            command.args(["--recover", &recover.replace("{program}", &program)]);
        }
        let started = Instant::now();
        let mut campaign = command
            .args(["--", &program, "pool"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let found = self.wait(&mut campaign, &out, started, limit);
        campaign.kill()?;
        campaign.wait()?;
        let _ = fs::remove_dir_all(&out);
        found
    }

    fn wait(
        &self,
        campaign: &mut Child,
        out: &Path,
        started: Instant,
        limit: Duration,
    ) -> Result<Option<Duration>> {
        while started.elapsed() < limit {
            if self.is_found(out) {
                return Ok(Some(started.elapsed()));
            }
            if let Some(status) = campaign.try_wait()? {
                bail!("the campaign on {} has ended with {status}", self.name);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    /// Whether the findings have the one that shows the mistake.
    fn is_found(&self, out: &Path) -> bool {
        let Ok(text) = fs::read_to_string(out.join("findings.jsonl")) else {
            return false;
        };
        let Ok(findings) = read_findings(&text) else {
            return false;
        };
        findings.iter().any(|finding| {
            let own = finding.stacks.iter().flat_map(|stack| &stack.frames);
            let joined = finding.evidence.joined.iter();
            let joined = joined.flat_map(|joined| &joined.frames);
            let is_there = |name: &str| name == self.function;
            self.rule.split(" or ").any(|rule| finding.rule == rule)
                && own
                    .chain(joined)
                    .any(|frame| frame.function.as_deref().is_some_and(is_there))
        })
    }
}
