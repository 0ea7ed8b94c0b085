//! `cargo xtask solving`: how soon `brownout symex` finds the mistakes in the programs of `tests/solving`, beside `brownout fuzz` alone.
//!
//! Each program forgets a flush behind one condition on its input, or on the persistent file that it starts on: a line
//! `// symbolic: SOURCE` then says so, and the program runs once before. Campaigns begin without seeds, with one worker. A program's clean
//! twin has the condition and not the mistake: `brownout symex` must report nothing for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use brownout_corpus::read_findings;

use crate::args::Args;
use crate::parallel;
use crate::shell::{root, target_dir};
use crate::wrapper::Wrapper;

/// How often it is looked whether a campaign has found something.
const LOOK: Duration = Duration::from_millis(50);
const RULE: &str = "missing-flush";

/// A program, and what it is solved for.
struct Guarded {
    name: String,
    source: PathBuf,
    symbolic: Option<String>,
}

/// What the campaigns on a program have shown.
struct Times {
    symex: Option<Duration>,
    fuzz: Option<Duration>,
    /// Rules of findings on the clean twin, if there is a bug among them.
    on_twin: Vec<String>,
}

pub fn run(mut args: Args) -> Result<()> {
    let filter = args.value("--filter")?.unwrap_or_default();
    let limit = Duration::from_secs(args.number("--time-limit")?.unwrap_or(60));
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let without_fuzz = args.switch("--no-fuzz");
    let search = args.value("--search")?.unwrap_or_else(|| "pm".to_owned());
    let wrapper = Wrapper::from_args(&mut args)?;
    let brownout = wrapper
        .brownout()
        .context("solving needs a brownout")?
        .to_owned();
    args.finish()?;
    let mut programs = programs()?;
    programs.retain(|program| program.name.contains(&filter));
    ensure!(
        !programs.is_empty(),
        "no program in tests/solving has {filter:?} in its name"
    );
    let work = target_dir()?.join("solving");
    let times = parallel::map(&programs, jobs, |program| {
        let symex = program.campaign(&brownout, &work, &["symex", "--search", &search]);
        let fuzz = ["fuzz", "--random-seed", "1"];
        Ok(Times {
            symex: symex?.time_to_find(limit)?,
            fuzz: match without_fuzz {
                true => None,
                false => program
                    .campaign(&brownout, &work, &fuzz)?
                    .time_to_find(limit)?,
            },
            on_twin: program.findings_on_twin(&brownout, &work, &search, limit)?,
        })
    });
    let times: Vec<Times> = times.into_iter().collect::<Result<_>>()?;
    println!("{:<24} {:>8} {:>8}  clean twin", "program", "symex", "fuzz");
    let mut failures = 0;
    for (program, times) in programs.iter().zip(&times) {
        let shown = |time: Option<Duration>| {
            time.map_or_else(
                || "-".to_owned(),
                |time| format!("{:.1} s", time.as_secs_f64()),
            )
        };
        let twin = match times.on_twin.is_empty() {
            true => "silent".to_owned(),
            false => times.on_twin.join(", "),
        };
        let fuzz = if without_fuzz {
            "".to_owned()
        } else {
            shown(times.fuzz)
        };
        println!(
            "{:<24} {:>8} {fuzz:>8}  {twin}",
            program.name,
            shown(times.symex)
        );
        failures += usize::from(times.symex.is_none() || !times.on_twin.is_empty());
    }
    let found = |by: fn(&Times) -> Option<Duration>| times.iter().filter_map(by).count();
    println!(
        "{} of {} found by symex, {} by fuzz, within {} s each",
        found(|times| times.symex),
        programs.len(),
        found(|times| times.fuzz),
        limit.as_secs()
    );
    match failures {
        0 => Ok(()),
        _ => bail!("{failures} programs were not solved, or have findings on their clean twins"),
    }
}

fn programs() -> Result<Vec<Guarded>> {
    let directory = root().join("tests/solving");
    let entries = fs::read_dir(&directory).context("tests/solving cannot be read")?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    let read = sources.into_iter().map(|source| {
        let text = fs::read_to_string(&source)?;
        let symbolic = { text.lines() }.find_map(|line| line.strip_prefix("// symbolic: "));
        let name = source.file_stem().unwrap_or_default();
        Ok(Guarded {
            name: name.to_string_lossy().into_owned(),
            symbolic: symbolic.map(str::to_owned),
            source,
        })
    });
    read.collect()
}

impl Guarded {
    /// Builds the program in a directory of its own.
    fn build(&self, directory: &Path, twin: bool) -> Result<()> {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory)?;
        let variant = if twin { "-DCLEAN" } else { "-DMISTAKE" };
        let status = Command::new("cc")
            .args(["-O1", "-g", "-fno-inline", variant, "-o"])
            .arg(directory.join("program"))
            .arg(&self.source)
            .status()?;
        ensure!(
            status.success(),
            "{} cannot be built",
            self.source.display()
        );
        if self.symbolic.is_some() {
            let status = Command::new("./program")
                .arg("pool")
                .current_dir(directory)
                .stdin(Stdio::null())
                .status()?;
            ensure!(status.success(), "{} ends with {status}", self.name);
        }
        Ok(())
    }

    /// A campaign on the program that was not started.
    fn campaign(&self, brownout: &Path, work: &Path, command: &[&str]) -> Result<Campaign> {
        let directory = work.join(format!("{}-{}", self.name, command[0]));
        self.build(&directory, false)?;
        let mut started = self.command(brownout, &directory, command);
        if command[0] == "symex" {
            started.args(self.sources());
        }
        Ok(Campaign {
            name: self.name.clone(),
            command: started,
            out: directory.join("out"),
        })
    }

    fn sources(&self) -> Vec<String> {
        let source = self.symbolic.iter();
        source
            .flat_map(|source| ["--symbolic".to_owned(), source.clone()])
            .collect()
    }

    fn command(&self, brownout: &Path, directory: &Path, command: &[&str]) -> Command {
        let mut started = Command::new(brownout);
        started
            .args(command)
            .args(["--quiet", "--jobs", "1", "--timeout", "5s", "--out", "out"])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        started
    }

    /// What a campaign of the same length reports for the clean twin.
    fn findings_on_twin(
        &self,
        brownout: &Path,
        work: &Path,
        search: &str,
        limit: Duration,
    ) -> Result<Vec<String>> {
        let directory = work.join(format!("{}-twin", self.name));
        self.build(&directory, true)?;
        let limit = format!("{}s", limit.as_secs());
        let symex = ["symex", "--search", search, "--time-limit", &limit];
        let mut command = self.command(brownout, &directory, &symex);
        let status = command
            .args(self.sources())
            .args(["--", "./program", "pool"])
            .status()?;
        ensure!(
            matches!(status.code(), Some(0 | 1)),
            "the campaign on the clean twin of {} has ended with {status}",
            self.name
        );
        // Findings that only cost time do not count.
        if status.code() == Some(0) {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(directory.join("out/findings.jsonl")).unwrap_or_default();
        let findings = read_findings(&text)?;
        Ok(findings.into_iter().map(|finding| finding.rule).collect())
    }
}

/// A campaign that is to be timed.
struct Campaign {
    name: String,
    command: Command,
    out: PathBuf,
}

impl Campaign {
    /// How long the campaign takes to the mistake; `None` if it takes longer than `limit`, or ends without it.
    fn time_to_find(mut self, limit: Duration) -> Result<Option<Duration>> {
        let started = Instant::now();
        let mut campaign = self.command.args(["--", "./program", "pool"]).spawn()?;
        let mut found = None;
        while found.is_none() && started.elapsed() < limit {
            let ended = campaign.try_wait()?;
            found = self.is_found().then(|| started.elapsed());
            if let Some(status) = ended {
                ensure!(
                    matches!(status.code(), Some(0 | 1)),
                    "the campaign on {} has ended with {status}",
                    self.name
                );
                return Ok(found);
            }
            std::thread::sleep(LOOK);
        }
        campaign.kill()?;
        campaign.wait()?;
        Ok(found)
    }

    fn is_found(&self) -> bool {
        let text = fs::read_to_string(self.out.join("findings.jsonl")).unwrap_or_default();
        let findings = read_findings(&text).unwrap_or_default();
        findings.iter().any(|finding| finding.rule == RULE)
    }
}
