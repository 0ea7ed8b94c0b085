//! The proof by the rebuilt program: the patched sources are built in a private view of the file system, and the program is
//! recorded and checked again.
//!
//! The view is that of the sandbox in which recoveries run: the whole file system, in which everything that is written goes to
//! a layer that is discarded. The user's sources, objects, programs and pools stay as they are. The persistent files are what they were when the
//! program was recorded. Only this proof shows that the source computes the right addresses.
//!
//! Can miss: what depends on the environment of the recorded run, as far as it is not that of this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_crash::{CrashError, PersistentFiles, RecordedRun, StartingContents, Token};
use brownout_recovery::{
    End, Isolation, Recovery, RunRequest, Sandbox, SandboxServerCommand, write_content,
};
use brownout_report::{Finding, Report, Severity, parse_json_lines};
use brownout_trace::replay::Content;

use super::candidates::ON_REQUEST;
use super::patch::Patch;
use crate::arguments::SERVE_SANDBOX;
use crate::console::Console;
use crate::crash_test::CrashTestMonitor;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::run_environment::RunEnvironment;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// How the program is built and what is checked then.
pub struct Rebuild<'a> {
    pub command: &'a str,
    pub directory: Option<&'a Path>,
    pub time_limit: Duration,
    pub results: &'a Path,
    pub report: &'a Report,
    pub settings: &'a Settings,
}

/// What became of the patched sources.
pub enum RebuiltRun {
    /// The rebuilt program was checked; these are its findings.
    Checked(Vec<Finding>),
    /// It was not, for this reason, with the last lines of output.
    Failed(String, String),
    /// The rebuilt program itself failed, with the last lines of output.
    TargetFailed(String),
}

impl RebuiltRun {
    /// Why there are no findings, and the last lines of output.
    pub fn failure(self) -> (String, String) {
        match self {
            Self::Failed(why, output) => (why, output),
            Self::TargetFailed(output) => ("the rebuilt program failed".to_owned(), output),
            Self::Checked(_) => (String::new(), String::new()),
        }
    }
}

/// The last line that the script prints, after the findings.
const END: &str = "end\n";
/// What the script exits with if the program could not be built.
const BUILD_FAILED: i32 = 101;
/// How much of the output of a failed build is shown.
const SHOWN_OUTPUT: usize = 2000;

impl Rebuild<'_> {
    /// Builds and checks the program from the patched sources.
    pub fn run(
        &self,
        patch: &Patch,
        trace: &Path,
        console: &Console,
    ) -> Result<RebuiltRun, Failure> {
        let mut file = TraceFile::open(trace)?;
        let selection = file.select(&self.settings.patterns, console)?;
        let recorded = RecordedRun::new(trace, selection);
        let mut monitor = CrashTestMonitor::new(None, console);
        monitor.begin_reading(file.events());
        let files = recorded.files(&mut monitor)?;
        monitor.begin_reading(file.events());
        let starts = recorded.starting_contents(&files, &mut monitor)?;
        drop(monitor);
        let work = tempfile::tempdir().map_err(Failure::FixDirectory)?;
        let header = file.header().clone();
        let script = self.script(patch, work.path(), &header)?;
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
        console.remark(format_args!(
            "building the patched sources with `{}`",
            self.command
        ));
        self.run_script(&server, &recovery, (&files, &starts))
    }

    /// A file of zeros may have been there, or the program has made it. If the program fails without it, it is run with it.
    fn run_script(
        &self,
        server: &SandboxServerCommand,
        recovery: &Recovery,
        (files, starts): (&PersistentFiles, &StartingContents),
    ) -> Result<RebuiltRun, Failure> {
        let failed = |error| Failure::from(CrashError::from(error));
        let mut sandbox = Sandbox::start(server, recovery, files.paths()).map_err(failed)?;
        if sandbox.isolation() != Isolation::Layered {
            return Err(Failure::NoPrivateView);
        }
        let (outcome, has_zeros) = self.run_once(&mut sandbox, starts, false)?;
        let outcome = match outcome {
            RebuiltRun::TargetFailed(..) if has_zeros => {
                self.run_once(&mut sandbox, starts, true)?.0
            }
            outcome => outcome,
        };
        Ok(match (outcome, starts.incomplete(files).next()) {
            (RebuiltRun::TargetFailed(output), Some(path)) => {
                let why = format!(
                    "the rebuilt program failed; the content of {} at the start is not known, because the recorded run has not mapped \
                     all of it",
                    path.display()
                );
                RebuiltRun::Failed(why, output)
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
    ) -> Result<(RebuiltRun, bool), Failure> {
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

    fn outcome(&self, sandbox: &mut Sandbox, request: &RunRequest) -> Result<RebuiltRun, Failure> {
        let failed = |error| Failure::from(CrashError::from(error));
        let outcome = sandbox.run(request).map_err(failed)?;
        let shown = [outcome.stdout.as_slice(), outcome.stderr.as_slice()].concat();
        let shown = last_part(&String::from_utf8_lossy(&shown));
        let status = match outcome.end {
            End::Exited(status) => status,
            End::TimedOut => {
                let why =
                    "building and checking took too long; give it more time with --build-time"
                        .to_owned();
                return Ok(RebuiltRun::Failed(why, shown));
            }
            other => {
                return Ok(RebuiltRun::Failed(
                    format!("the build ended unexpectedly ({other:?})"),
                    shown,
                ));
            }
        };
        let judged = [ExitCode::Success as i32, ExitCode::BugsFound as i32];
        if status == BUILD_FAILED {
            let why = "the patched sources could not be built".to_owned();
            return Ok(RebuiltRun::Failed(why, shown));
        }
        if status == ExitCode::TargetFailed as i32 {
            return Ok(RebuiltRun::TargetFailed(shown));
        }
        if !judged.contains(&status) {
            let why =
                format!("`brownout check` of the rebuilt program exited with status {status}");
            return Ok(RebuiltRun::Failed(why, shown));
        }
        // The end shows that nothing is missing: an empty answer must not pass for a program without findings.
        let answer = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let complete = answer.strip_suffix(END).filter(|_| outcome.stdout_complete);
        let Some(answer) = complete else {
            let why = "the findings of the rebuilt program could not be read".to_owned();
            return Ok(RebuiltRun::Failed(why, shown));
        };
        let findings = parse_json_lines(answer).map_err(|source| Failure::Findings {
            path: self.results.to_owned(),
            source,
        })?;
        // The status and the findings say the same thing in two ways. If they differ, neither can be relied on.
        let shows_bug = findings
            .iter()
            .any(|finding| finding.severity == Severity::Bug);
        if shows_bug != (status == ExitCode::BugsFound as i32) {
            let why = format!(
                "`brownout check` of the rebuilt program exited with status {status}, which its findings contradict"
            );
            return Ok(RebuiltRun::Failed(why, shown));
        }
        Ok(RebuiltRun::Checked(findings))
    }

    /// The script that puts the patched sources in place, builds, and checks.
    fn script(
        &self,
        patch: &Patch,
        work: &Path,
        header: &brownout_trace::Header,
    ) -> Result<PathBuf, Failure> {
        use std::fmt::Write as _;
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (number, file) in patch.files.iter().enumerate() {
            let new = work.join(format!("{number}.source"));
            fs::write(&new, file.edited()).map_err(Failure::FixDirectory)?;
            let _ = writeln!(
                text,
                "cat {} > {} || exit {BUILD_FAILED}",
                quoted(&new),
                quoted(&file.path)
            );
        }
        let _ = writeln!(text, "( {} ) 1>&2 || exit {BUILD_FAILED}", self.command);
        let program = std::env::current_exe().map_err(Failure::FixDirectory)?;
        let mut check = format!(
            "{} check --quiet --fail-on bug --out \"$TMPDIR/out\"",
            quoted(&program)
        );
        let _ = write!(check, " --model {}", self.settings.model.name);
        for pattern in &self.report.subject.patterns {
            let _ = write!(check, " --pm {}", quoted(Path::new(pattern)));
        }
        for end in &self.report.subject.accepted_ends {
            let _ = write!(check, " --target-success {end}");
        }
        if let Some(recovery) = recovery_of(self.report) {
            let _ = write!(check, " --recover {}", quoted(Path::new(&recovery)));
        }
        if header.loads {
            check.push_str(" --loads");
        }
        check.push_str(" --");
        for argument in &header.command {
            let _ = write!(check, " {}", quoted(Path::new(argument)));
        }
        let _ = writeln!(text, "cd {} || exit {BUILD_FAILED}", quoted(&header.cwd));
        let _ = writeln!(text, "{check} 1>&2\nstatus=$?");
        text.push_str("cat \"$TMPDIR/out/findings.jsonl\" && echo end\n");
        text.push_str("exit $status\n");
        let script = work.join("rebuild.sh");
        fs::write(&script, text).map_err(Failure::FixDirectory)?;
        Ok(script)
    }
}

/// The recovery by which crashes were tested, if they were.
fn recovery_of(report: &Report) -> Option<String> {
    let tokens = report.findings().iter().filter_map(Finding::crash_token);
    let mut tokens = tokens.filter_map(|token| token.parse::<Token>().ok());
    let recovery = tokens.next()?.recovery;
    // A server with a client has options of its own.
    recovery.client.is_none().then_some(recovery.command)
}

/// Whether the rebuilt program still shows a finding: the same one, or one of its rule in its function that was not there before.
pub fn still_shown(finding: &Finding, rebuilt: &[Finding], before: &Report) -> bool {
    let ids = |finding: &Finding| -> Vec<String> {
        let joined = finding
            .evidence
            .joined
            .iter()
            .map(|joined| joined.id.to_string());
        std::iter::once(finding.id.to_string())
            .chain(joined)
            .collect()
    };
    let (own, lineless) = (ids(finding), finding.lineless_id());
    let known: Vec<String> = before.findings().iter().flat_map(ids).collect();
    let place = |finding: &Finding| {
        finding
            .primary_frame()
            .and_then(|frame| frame.function.clone())
    };
    rebuilt.iter().any(|other| {
        let is_same =
            ids(other).iter().any(|id| own.contains(id)) || other.lineless_id() == lineless;
        // Data whose flushes are all gone is transient.
        let is_alike = [finding.rule.as_str(), ON_REQUEST].contains(&other.rule.as_str())
            && place(other) == place(finding);
        is_same || (is_alike && !ids(other).iter().any(|id| known.contains(id)))
    })
}

fn last_part(text: &str) -> String {
    let mut start = text.len().saturating_sub(SHOWN_OUTPUT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim().to_owned()
}

/// A path as a word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}
