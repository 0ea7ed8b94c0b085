//! `cargo xtask repairs`: `brownout fix` repairs the programs in `tests/repairs`.
//!
//! Each program has its repair written beside the mistake, by hand: a line `// repair: CODE` is code of the repaired program alone,
//! and a line that ends with `// broken` is one of the broken program alone. The broken program is checked and repaired, with the proof by
//! running it, then with that by building it, and the patch is applied. What comes out must build without warnings, print what it printed
//! before, yield no other findings than the program that was repaired by hand, and execute at most twice the flushes and twice the fences
//! that the repair by hand adds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use brownout_corpus::{Build, Compiler, Language, Level, Program, read_findings};

use crate::args::Args;
use crate::cpu::Flushes;
use crate::parallel;
use crate::shell::{root, target_dir};
use crate::wrapper::Wrapper;

/// What the programs of the corpus share.
const SHARED: [&str; 3] = ["pm.h", "pm.rs", "obj.h"];
/// Findings of this rule are repaired if they are named.
const TRANSIENT: &str = "transient-data";
/// At most so many times the flushes, and the fences, of the repair by hand.
const MOST_OPERATIONS: u64 = 2;

pub fn run(mut args: Args) -> Result<()> {
    let filter = args.value("--filter")?.unwrap_or_default();
    let jobs = args.number("--jobs")?.unwrap_or_else(parallel::cores);
    let core = args.switch("--core");
    let wrapper = Wrapper::from_args(&mut args)?;
    let brownout = wrapper
        .brownout()
        .context("repairs need a brownout")?
        .to_owned();
    args.finish()?;
    let flushes = Flushes::of_this_machine();
    if !flushes.clflushopt {
        println!(
            "repairs are left out: this CPU has neither clwb nor clflushopt, and clflush needs no fence"
        );
        return Ok(());
    }
    let started = Instant::now();
    let work = target_dir()?.join("repairs");
    let mut cases = Vec::new();
    for (number, source) in sources()?.into_iter().enumerate() {
        let program = Program::read(&source)?;
        let builds: Vec<Build> = match core {
            // Compilers and levels take turns.
            true => program
                .builds
                .iter()
                .cycle()
                .skip(number * 3)
                .take(1)
                .cloned()
                .collect(),
            false => program.builds.clone(),
        };
        let builds = builds.into_iter().map(|build| (program.clone(), build));
        cases.extend(builds.filter(|(program, _)| program.name.contains(&filter)));
    }
    ensure!(
        !cases.is_empty(),
        "no program in tests/repairs has {filter:?} in its name"
    );
    let results = parallel::map(&cases, jobs, |(program, build)| {
        let title = format!("{} {build}", program.name);
        let case = Case::new(program, build, &work, &brownout, flushes.clwb);
        (title, case.and_then(|case| case.judge()))
    });
    let mut failed = 0;
    for (title, result) in &results {
        match result {
            Ok(outcome) => println!("{title:<44} ok      {outcome}"),
            Err(error) => {
                failed += 1;
                println!("{title:<44} FAILED  {error:#}");
            }
        }
    }
    println!(
        "\nrepairs: {} of {} programs repaired; {} s",
        results.len() - failed,
        results.len(),
        started.elapsed().as_secs()
    );
    if failed > 0 {
        bail!("brownout does not repair {failed} programs");
    }
    Ok(())
}

fn sources() -> Result<Vec<PathBuf>> {
    let directory = root().join("tests/repairs");
    let entries = fs::read_dir(&directory).context("tests/repairs cannot be read")?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

/// The program with the mistake, without the repair.
fn broken(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("// repair:"));
    let lines = lines.map(|line| line.strip_suffix(" // broken").unwrap_or(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The program as its author repairs it.
fn repaired_by_hand(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.ends_with("// broken"));
    let lines = lines.map(|line| match line.split_once("// repair:") {
        Some((indent, code)) if indent.trim().is_empty() => {
            format!("{indent}{}\n", code.trim_start())
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// A program in one build, in a directory of its own.
struct Case<'a> {
    program: &'a Program,
    build: &'a Build,
    brownout: &'a Path,
    has_clwb: bool,
    directory: PathBuf,
    name: String,
}

/// What a run under `brownout check` has shown.
struct Checked {
    /// The rules of its findings, sorted.
    findings: Vec<String>,
    flushes: u64,
    fences: u64,
}

impl Checked {
    /// The rules that `fix` is given. Without any flush in the program, nothing else says that its data is persistent.
    fn named_rules(&self) -> &'static [&'static str] {
        let is_other = |rule: &String| rule != TRANSIENT && !rule.contains("redundant");
        let has_transient = self.findings.iter().any(|rule| rule == TRANSIENT);
        match has_transient && !self.findings.iter().any(is_other) {
            true => &[TRANSIENT],
            false => &[],
        }
    }
}

impl<'a> Case<'a> {
    fn new(
        program: &'a Program,
        build: &'a Build,
        work: &Path,
        brownout: &'a Path,
        has_clwb: bool,
    ) -> Result<Self> {
        let name = program.source.file_name().context("a program has a name")?;
        let name = name.to_string_lossy().into_owned();
        let directory = work.join(format!("{name}-{build}"));
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        for (folder, text) in [
            ("fix", broken as fn(&str) -> String),
            ("hand", repaired_by_hand),
        ] {
            fs::create_dir_all(directory.join(folder))?;
            let source = fs::read_to_string(&program.source)?;
            fs::write(directory.join(folder).join(&name), text(&source))?;
        }
        for shared in SHARED {
            fs::copy(root().join("corpus").join(shared), directory.join(shared))?;
        }
        Ok(Self {
            program,
            build,
            brownout,
            has_clwb,
            directory,
            name,
        })
    }

    fn judge(&self) -> Result<String> {
        self.compile("fix")?;
        let before = self.output("fix")?;
        let found = self.check("fix")?;
        let named = found.named_rules();
        self.prove_by_running(named)?;
        let mut fix = Command::new(self.brownout);
        fix.args([
            "fix",
            "out",
            "--apply",
            "--force",
            "--build",
            &self.compile_command(),
        ]);
        fix.args(named);
        let fixed = self.run(fix, "fix")?;
        ensure!(fixed.status.success(), "brownout fix: {}", both(&fixed));
        self.compile("fix")?;
        let after = self.output("fix")?;
        ensure!(
            before == after,
            "the output has changed from {before:?} to {after:?}"
        );
        let repaired = self.check("fix")?;
        self.compile("hand")?;
        let hand = self.check("hand")?;
        ensure!(
            found.findings != hand.findings,
            "the broken program yields what the repaired one yields"
        );
        // A program may flush what needs no flush: that is not what it is about.
        let is_clean = hand.findings.iter().all(|rule| rule.contains("redundant"));
        ensure!(
            is_clean,
            "the program repaired by hand yields {:?}",
            hand.findings
        );
        let is_expected = |rule: &String| hand.findings.contains(rule);
        ensure!(
            repaired.findings.iter().all(is_expected),
            "the repaired program yields {:?}, that repaired by hand {:?}",
            repaired.findings,
            hand.findings
        );
        let added = |checked: &Checked| checked.flushes.saturating_sub(found.flushes);
        let fenced = |checked: &Checked| checked.fences.saturating_sub(found.fences);
        for (what, ours, theirs) in [
            ("flushes", added(&repaired), added(&hand)),
            ("fences", fenced(&repaired), fenced(&hand)),
        ] {
            ensure!(
                ours <= MOST_OPERATIONS * theirs.max(1),
                "it adds {ours} {what}, and the repair by hand {theirs}"
            );
        }
        let ours = (added(&repaired), fenced(&repaired));
        let theirs = (added(&hand), fenced(&hand));
        Ok(format!(
            "{} flushes and {} fences added, {} and {} by hand",
            ours.0, ours.1, theirs.0, theirs.1
        ))
    }

    /// The running program shows each repair, too. Log entries are not tried in it.
    fn prove_by_running(&self, named: &[&str]) -> Result<()> {
        let mut fix = Command::new(self.brownout);
        fix.args(["fix", "out", "--format", "json"]).args(named);
        let proven = self.run(fix, "fix")?;
        let lines = String::from_utf8_lossy(&proven.stdout).into_owned();
        let mut count = 0;
        for line in lines.lines() {
            let repair: serde_json::Value = serde_json::from_str(line)?;
            let is_log_entry = repair["reason"]
                .as_str()
                .is_some_and(|reason| reason.starts_with("a log entry"));
            if repair["id"].is_string() && !is_log_entry {
                ensure!(repair["proof"] == "running", "not shown by running: {line}");
            }
            count += 1;
        }
        ensure!(count > 1, "brownout fix: {}", both(&proven));
        Ok(())
    }

    /// The command that builds the program, in its folder. Warnings are errors.
    fn compile_command(&self) -> String {
        let (level, name) = (self.build.level.tag(), &self.name);
        let flags = self.program.flags.join(" ");
        let compiler = match (self.build.compiler, self.program.language) {
            (Compiler::Rustc, _) => {
                let level = match self.build.level {
                    Level::O0 => 0,
                    _ => 2,
                };
                let cfg = if self.has_clwb { "" } else { "--cfg no_clwb" };
                return format!(
                    "rustc --edition=2024 -g -D warnings -A unused_macros -C opt-level={level} {cfg} {name} -o program"
                );
            }
            (Compiler::Gcc, Language::Cpp) => "g++",
            (Compiler::Gcc, _) => "gcc",
            (Compiler::Clang, Language::Cpp) => "clang++",
            (Compiler::Clang, _) => "clang",
        };
        let define = if self.has_clwb { "" } else { "-DNO_CLWB" };
        format!(
            "{compiler} -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-function -D_GNU_SOURCE -{level} {define} {name} {flags} -o program"
        )
    }

    fn compile(&self, folder: &str) -> Result<()> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.compile_command()]);
        let compiled = self.run(shell, folder)?;
        ensure!(
            compiled.status.success(),
            "{folder} cannot be compiled: {}",
            both(&compiled)
        );
        Ok(())
    }

    fn pool(&self) -> PathBuf {
        self.directory.join("pool")
    }

    fn run(&self, mut command: Command, folder: &str) -> Result<Output> {
        command.envs(self.program.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory.join(folder));
        command
            .output()
            .with_context(|| format!("cannot run {command:?}"))
    }

    /// What the program prints by itself.
    fn output(&self, folder: &str) -> Result<(Option<i32>, String)> {
        let _ = fs::remove_file(self.pool());
        let mut program = Command::new("./program");
        program.arg(self.pool());
        let ended = self.run(program, folder)?;
        Ok((ended.status.code(), both(&ended)))
    }

    fn check(&self, folder: &str) -> Result<Checked> {
        let _ = fs::remove_file(self.pool());
        let mut check = Command::new(self.brownout);
        check
            .args(["check", "--quiet", "--out", "out"])
            .args(&self.program.options);
        check.arg("--").arg("./program").arg(self.pool());
        let checked = self.run(check, folder)?;
        ensure!(
            matches!(checked.status.code(), Some(0 | 1)),
            "brownout check: {}",
            both(&checked)
        );
        let findings = self.directory.join(folder).join("out/findings.jsonl");
        let findings = read_findings(&fs::read_to_string(findings)?)?;
        let mut stat = Command::new(self.brownout);
        stat.args(["stat", "out", "--format", "json"]);
        let stat: serde_json::Value = serde_json::from_slice(&self.run(stat, folder)?.stdout)?;
        let mut rules: Vec<String> = findings.into_iter().map(|finding| finding.rule).collect();
        rules.sort();
        Ok(Checked {
            findings: rules,
            flushes: stat["events"]["flush"].as_u64().unwrap_or(0),
            fences: stat["events"]["fence"].as_u64().unwrap_or(0),
        })
    }
}

fn both(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_broken_and_repaired_by_its_annotations() {
        let text = "a;\nif (x) // broken\n  b;\n  // repair: flush(b);\n";
        assert_eq!(broken(text), "a;\nif (x)\n  b;\n");
        assert_eq!(repaired_by_hand(text), "a;\n  b;\n  flush(b);\n");
    }
}
