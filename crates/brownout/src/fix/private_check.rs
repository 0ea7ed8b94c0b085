//! Checks of a program in a private view of the file system: with other sources, or with operations that are added while it runs.
//!
//! The view is that of the sandbox in which recoveries run: the whole file system, in which everything that is written goes to
//! a layer that is discarded. The user's sources, objects, programs and pools stay as they are. The persistent files are what they were
//! when the program was recorded.
//!
//! Can miss: what depends on the environment of the recorded run, as far as it is not that of this process.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_crash::{CrashError, PersistentFiles, RecordedRun, StartingContents, Token};
use brownout_engine::PatchCounts;
use brownout_recovery::{
    End, Isolation, Recovery, RunRequest, Sandbox, SandboxServerCommand, write_content,
};
use brownout_report::{Finding, Report, Severity, parse_json_lines};
use brownout_trace::replay::Content;

use super::executed_lines::ExecutedLines;
use crate::arguments::{EXECUTED_LINES, SERVE_SANDBOX, sign};
use crate::console::Console;
use crate::crash_test::CrashTestMonitor;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::patch_file::counts_path;
use crate::rules;
use crate::run_environment::RunEnvironment;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// How a program is checked again.
pub struct PrivateCheck<'a> {
    pub results: &'a Path,
    pub report: &'a Report,
    pub settings: &'a Settings,
    /// Where the preparation runs, if not where the program was recorded.
    pub directory: Option<&'a Path>,
    pub time_limit: Duration,
    /// What is said if the time is not enough.
    pub on_timeout: &'static str,
    /// Commands of the shell that come first. They exit with [`NOT_PREPARED`] if they fail.
    pub preparation: String,
    /// The plan of what is added to the running program, if anything is.
    pub plan: Option<PathBuf>,
}

/// What became of the check.
pub enum CheckedAgain {
    /// The program was checked; these are its findings, and what it has executed.
    Checked(Vec<Finding>, CheckedRun),
    /// It was not, for this reason, with the last lines of output.
    Failed(String, String),
    /// The program itself failed, with the last lines of output.
    TargetFailed(String),
}

/// What a program has executed that was checked.
#[derive(Debug)]
pub enum CheckedRun {
    /// How often operations were added to the running program.
    Patched(PatchCounts),
    /// Which lines of the rebuilt one were executed.
    Rebuilt(ExecutedLines),
}

/// The last line that the script prints, after the findings.
const END: &str = "end\n";
/// What the script exits with if the program could not be prepared.
pub const NOT_PREPARED: i32 = 101;
/// How much of the output of a failed check is shown.
const SHOWN_OUTPUT: usize = 2000;

impl PrivateCheck<'_> {
    /// Checks the program of a trace. Files for the script are written to `work`.
    pub fn run(
        &self,
        trace: &Path,
        work: &Path,
        console: &Console,
    ) -> Result<CheckedAgain, Failure> {
        let mut file = TraceFile::open(trace)?;
        let selection = file.select(&self.settings.patterns, console)?;
        let recorded = RecordedRun::new(trace, selection);
        let mut monitor = CrashTestMonitor::new(None, console);
        monitor.begin_reading(file.events());
        let files = recorded.files(&mut monitor)?;
        monitor.begin_reading(file.events());
        let starts = recorded.starting_contents(&files, &mut monitor)?;
        drop(monitor);
        let header = file.header().clone();
        let script = self.script(work, &header)?;
        let directory = self
            .directory
            .map_or_else(|| header.cwd.clone(), Path::to_owned);
        let mut recovery = Recovery::new(format!("sh {}", quoted(&script)), directory);
        recovery.network = true;
        let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
        let server = match RunEnvironment::read(self.results)? {
            Some(environment) => server.with_environment(environment.restored()),
            None => server,
        };
        self.run_script(&server, &recovery, (&files, &starts))
    }

    /// A file of zeros may have been there, or the program has made it. If the program fails without it, it is run with it.
    fn run_script(
        &self,
        server: &SandboxServerCommand,
        recovery: &Recovery,
        (files, starts): (&PersistentFiles, &StartingContents),
    ) -> Result<CheckedAgain, Failure> {
        let failed = |error| Failure::from(CrashError::from(error));
        let mut sandbox = Sandbox::start(server, recovery, files.paths()).map_err(failed)?;
        if sandbox.isolation() != Isolation::Layered {
            return Err(Failure::NoPrivateView);
        }
        let (outcome, has_zeros) = self.run_once(&mut sandbox, starts, false)?;
        let outcome = match outcome {
            CheckedAgain::TargetFailed(..) if has_zeros => {
                self.run_once(&mut sandbox, starts, true)?.0
            }
            outcome => outcome,
        };
        Ok(match (outcome, starts.incomplete(files).next()) {
            (CheckedAgain::TargetFailed(output), Some(path)) => {
                let why = format!(
                    "the program failed when it was run again; the content of {} at the start is not known, because the recorded run has not mapped \
                     all of it",
                    path.display()
                );
                CheckedAgain::Failed(why, output)
            }
            (outcome, _) => outcome,
        })
    }

    /// Runs the script. Files of zeros exist only if `zeros` says so; also returns whether there are any.
    fn run_once(
        &self,
        sandbox: &mut Sandbox,
        starts: &StartingContents,
        zeros: bool,
    ) -> Result<(CheckedAgain, bool), Failure> {
        let failed = |error| Failure::from(CrashError::from(error));
        let mut request = RunRequest::new(self.time_limit);
        let mut has_zeros = false;
        let opened = sandbox.files().map_err(failed)?;
        for (number, file) in opened.iter().take(starts.files().len()).enumerate() {
            let content = starts.content(number);
            let is_zero = |content: &&Content| {
                let mut pages = content.pages();
                pages.all(|(_, page)| page.iter().all(|byte| *byte == 0))
            };
            has_zeros |= content.as_ref().is_some_and(is_zero);
            match content.filter(|content| zeros || !is_zero(content)) {
                Some(content) => write_content(content, file).map_err(Failure::FixDirectory)?,
                None => request.absent.push(number),
            }
        }
        let run = self.outcome(sandbox, &request)?;
        Ok((run, has_zeros))
    }

    fn outcome(
        &self,
        sandbox: &mut Sandbox,
        request: &RunRequest,
    ) -> Result<CheckedAgain, Failure> {
        let failed = |error| Failure::from(CrashError::from(error));
        let outcome = sandbox.run(request).map_err(failed)?;
        let shown = [outcome.stdout.as_slice(), outcome.stderr.as_slice()].concat();
        let shown = last_part(&String::from_utf8_lossy(&shown));
        let status = match outcome.end {
            End::Exited(status) => status,
            End::TimedOut => {
                let why = self.on_timeout.to_owned();
                return Ok(CheckedAgain::Failed(why, shown));
            }
            other => {
                return Ok(CheckedAgain::Failed(
                    format!("it ended unexpectedly ({other:?})"),
                    shown,
                ));
            }
        };
        let judged = [ExitCode::Success as i32, ExitCode::BugsFound as i32];
        if status == NOT_PREPARED {
            let why = "the patched sources could not be built".to_owned();
            return Ok(CheckedAgain::Failed(why, shown));
        }
        if status == ExitCode::TargetFailed as i32 {
            return Ok(CheckedAgain::TargetFailed(shown));
        }
        if !judged.contains(&status) {
            let why = format!("`brownout check` of the program exited with status {status}");
            return Ok(CheckedAgain::Failed(why, shown));
        }
        // The end shows that nothing is missing: an empty answer must not pass for a program without findings.
        let answer = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let complete = answer.strip_suffix(END).filter(|_| outcome.stdout_complete);
        let Some(answer) = complete else {
            let why = "the findings could not be read".to_owned();
            return Ok(CheckedAgain::Failed(why, shown));
        };
        let lines = answer.trim_end_matches('\n');
        let (answer, last) = lines.rsplit_once('\n').unwrap_or(("", lines));
        let run = match &self.plan {
            Some(_) => serde_json::from_str(last).map(CheckedRun::Patched),
            None => serde_json::from_str(last).map(CheckedRun::Rebuilt),
        };
        let Ok(run) = run else {
            let why = "it is not known what the program has executed".to_owned();
            return Ok(CheckedAgain::Failed(why, shown));
        };
        let findings =
            parse_json_lines(answer, &rules::all()).map_err(|source| Failure::Findings {
                path: self.results.to_owned(),
                source,
            })?;
        // The status and the findings say the same thing in two ways. If they differ, neither can be relied on.
        let shows_bug = findings
            .iter()
            .any(|finding| finding.severity == Severity::Bug);
        if shows_bug != (status == ExitCode::BugsFound as i32) {
            let why = format!(
                "`brownout check` of the program exited with status {status}, which its findings contradict"
            );
            return Ok(CheckedAgain::Failed(why, shown));
        }
        Ok(CheckedAgain::Checked(findings, run))
    }

    /// The script that prepares the program and checks it.
    fn script(&self, work: &Path, header: &brownout_trace::Header) -> Result<PathBuf, Failure> {
        let mut text = self.preparation.clone();
        let program = std::env::current_exe().map_err(Failure::FixDirectory)?;
        let mut check = format!(
            "{} check --quiet --fail-on bug --out \"$TMPDIR/out\"",
            quoted(&program)
        );
        // Writing to a string cannot fail.
        let _ = write!(check, " --model {}", self.settings.model.name);
        for pattern in &self.report.subject.patterns {
            let _ = write!(check, " --pm {}", quoted(Path::new(pattern)));
        }
        for end in &self.report.subject.accepted_ends {
            let _ = write!(check, " --target-success {end}");
        }
        for word in crash_words(self.report) {
            let _ = write!(check, " {}", quoted(Path::new(&word)));
        }
        if header.loads {
            check.push_str(" --loads");
        }
        if let Some(plan) = &self.plan {
            let _ = write!(check, " --patch-plan {}", quoted(plan));
        }
        check.push_str(" --");
        for argument in &header.command {
            let _ = write!(check, " {}", quoted(Path::new(argument)));
        }
        let _ = writeln!(text, "cd {} || exit {NOT_PREPARED}", quoted(&header.cwd));
        let _ = writeln!(text, "{check} 1>&2\nstatus=$?");
        text.push_str("cat \"$TMPDIR/out/findings.jsonl\" &&");
        let _ = match &self.plan {
            Some(plan) => write!(text, " cat {} && echo &&", quoted(&counts_path(plan))),
            None => {
                let program = quoted(&program);
                write!(text, " {program} {EXECUTED_LINES} \"$TMPDIR/out\" &&")
            }
        };
        text.push_str(" echo end\nexit $status\n");
        let script = work.join("check.sh");
        fs::write(&script, text).map_err(Failure::FixDirectory)?;
        Ok(script)
    }
}

/// The options by which crashes were tested, if they were. What the results do not say is taken from a crash that they name.
fn crash_words(report: &Report) -> Vec<String> {
    let mut words = report.subject.crash_options.clone();
    let has = |name: &str| {
        let mut given = report.subject.crash_options.iter();
        given.any(|word| word.split('=').next() == Some(name))
    };
    let tokens = report.findings().iter().filter_map(Finding::crash_token);
    let mut tokens = tokens.filter_map(|token| token.parse::<Token>().ok());
    let Some(token) = tokens.next() else {
        return words;
    };
    let recovery = token.recovery;
    let success = recovery.success.iter().map(ToString::to_string);
    let success: Vec<String> = success.collect();
    let known = [
        ("--recover", Some(recovery.command.clone())),
        ("--client", recovery.client.clone()),
        ("--recover-ready", recovery.ready.as_ref().map(sign)),
        ("--recover-success", Some(success.join(","))),
        (
            "--recover-time-limit",
            token.time_limit.map(|limit| format!("{limit}ms")),
        ),
    ];
    let missing = known.into_iter().filter(|(name, _)| !has(name));
    words.extend(missing.filter_map(|(name, value)| Some(format!("{name}={}", value?))));
    if recovery.network && !has("--allow-network") {
        words.push("--allow-network".to_owned());
    }
    words
}

fn last_part(text: &str) -> String {
    let mut start = text.len().saturating_sub(SHOWN_OUTPUT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim().to_owned()
}

/// A path as a word of the shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}
