//! The results directory of `brownout check` and `brownout crash`.
//!
//! brownout uses a directory only if it is new or empty, or if it contains the `run.json` of an earlier check.
//! From an earlier check it replaces only its own files, each atomically, so that a reader never sees a partial
//! file. `run.json` is replaced first, by one that says that the run has not finished: whenever the process is killed, what it
//! leaves is not taken for results of a run that passed.

mod durable_file;
mod lock;
mod run_destination;

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use brownout_report::{Baseline, Conclusion, FindingId, Report, Subject};

use crate::console::Console;
use crate::crash_test::shell_word;
use crate::expected_output::EXPECTED;
use crate::failure::Failure;
use crate::recovery_context::RecoveryContext;
use crate::run_environment::ENVIRONMENT;
use crate::run_file::{RUN, RulesInForce, RunFile};
use lock::lock;

pub use durable_file::{sync_file, write_file, write_private_file, write_report};
pub use run_destination::{ResultsOf, is_in_use, mark_failed, plan};

pub const FINDINGS: &str = "findings.jsonl";
pub const SUPPRESSED: &str = "suppressed.jsonl";
/// The findings as a baseline.
pub const BASELINE: &str = "baseline.json";
pub const HTML: &str = "report.html";
pub const SARIF: &str = "report.sarif";
pub const JUNIT: &str = "junit.xml";
/// The journal of crash testing.
pub const JOURNAL: &str = "crash.jsonl";
pub const TRACE: &str = "trace";
/// The names of traces of runs in which a race was forced begin so; the id of the finding follows.
const FORCED: &str = "forced-";
const UNFINISHED: &str = "unfinished";
/// What the names of directories with the results of one schedule begin with.
const PART: &str = "schedule-";
/// What the names of directories with the results on one input of a campaign begin with.
const INPUT: &str = "input-";
/// The file of a campaign of `brownout fuzz`.
const CAMPAIGN: &str = "campaign.json";
/// Everything but `run.json`, which marks the directory.
const RESULTS: [&str; 10] = [
    FINDINGS,
    BASELINE,
    SUPPRESSED,
    HTML,
    SARIF,
    JUNIT,
    JOURNAL,
    ENVIRONMENT,
    EXPECTED,
    TRACE,
];

/// Whether a results directory is there when the command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Kept,
    /// It is removed before: nobody can be referred to it.
    Removed,
}

/// A results directory that can be written to.
#[derive(Debug)]
pub struct OutputDirectory {
    path: PathBuf,
    /// Whether this process created it; it is then removed if the run fails.
    made: bool,
    /// The path of the trace, if it is not in the directory.
    trace: Option<PathBuf>,
    stay: Stay,
    /// Keeps other processes from writing to the directory as long as it is open.
    _lock: Option<File>,
}

impl OutputDirectory {
    /// Prepares `path` for results; fails if it contains files of the user, or a campaign, which can be the work of days.
    pub fn claim(path: &Path) -> Result<Self, Failure> {
        let path = with_pid(path);
        if is_campaign(&path) {
            run_destination::give_up();
            return Err(Failure::HoldsCampaign { path });
        }
        Self::claim_for_campaign(&path)
    }

    /// Prepares `path` for a campaign of `brownout fuzz`, which it may contain.
    pub fn claim_for_campaign(path: &Path) -> Result<Self, Failure> {
        let path = with_pid(path);
        let failed = |source| Failure::OutputDirectory {
            path: path.clone(),
            source,
        };
        let made = !path.exists();
        fs::create_dir_all(&path).map_err(failed)?;
        // Nothing of another process's run may be touched, also not if this one fails.
        let lock = lock(&path).inspect_err(|_| run_destination::give_up())?;
        run_destination::claim(&path);
        let mut entries = fs::read_dir(&path).map_err(failed)?;
        let ours = path.join(RUN).is_file();
        // Left by a check that was killed before it wrote `run.json`.
        let is_left = |name: &OsStr| is_unfinished_trace(name) || durable_file::is_temporary(name);
        let foreign = entries.any(|entry| entry.is_ok_and(|entry| !is_left(&entry.file_name())));
        if foreign && !ours {
            return Err(Failure::NotOurs { path });
        }
        let directory = Self {
            trace: if ours {
                RunFile::read(&path)?.trace
            } else {
                None
            },
            path,
            made,
            stay: Stay::Kept,
            _lock: lock,
        };
        directory.remove_abandoned();
        Ok(directory)
    }

    /// Opens the results of an earlier check.
    pub fn open(path: &Path) -> Result<(Self, Subject, RulesInForce), Failure> {
        let run = RunFile::read(path)?;
        let directory = Self {
            path: path.to_owned(),
            made: false,
            trace: run.trace,
            stay: Stay::Kept,
            _lock: None,
        };
        let subject = Subject {
            command: run.command,
            directory: run.directory,
            gaps: run.gaps,
            files: run.files,
            not_judged: run.not_judged,
            accepted_ends: run.target_success,
            model: run.model,
            patterns: run.pm,
            crash_options: run.crash_options,
        };
        Ok((directory, subject, run.in_force))
    }

    /// What `run.json` says.
    pub fn run_file(&self) -> Result<RunFile, Failure> {
        RunFile::read(&self.path)
    }

    /// The baseline that was written with the results; `None` if an earlier version of brownout wrote none.
    pub fn baseline(&self) -> Result<Option<Baseline>, Failure> {
        let path = self.file(BASELINE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|source| Failure::ResultsFile {
            path: path.clone(),
            source,
        })?;
        let parsed = Baseline::parse(&text);
        parsed
            .map(Some)
            .map_err(|source| Failure::Baseline { path, source })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether there are results, of an earlier process or of this one.
    pub fn has_results(&self) -> bool {
        self.file(RUN).is_file()
    }

    /// Keeps what `replay` needs to repeat recoveries.
    pub fn write_recovery_context(&self, context: &RecoveryContext) -> Result<(), Failure> {
        context.write(&self.path)
    }

    /// Removes the journal of an earlier test, so that it cannot be mistaken for that of this one.
    pub fn discard_journal(&self) {
        // One that cannot be removed cannot be replaced either; that error is reported.
        let _ = fs::remove_file(self.file(JOURNAL));
    }

    /// The directory as an argument in a shell.
    pub fn shell_word(&self) -> String {
        shell_word(&self.path.to_string_lossy())
    }

    pub fn set_stay(&mut self, stay: Stay) {
        self.stay = stay;
    }

    pub fn is_kept(&self) -> bool {
        self.stay == Stay::Kept
    }

    /// The path of this process's trace until it is complete.
    pub fn unfinished_trace(&self) -> PathBuf {
        self.file(&format!("{UNFINISHED}.{}", std::process::id()))
    }

    /// Replaces the results of an earlier run by those of `report`, which say that this run has not finished. `run.json` comes
    /// first, so that nothing of them can be mistaken for results of this run.
    pub fn replace_results(&mut self, report: &Report) -> Result<(), Failure> {
        self.trace = None;
        if self.write_run_file(report, &report.conclusion).is_err() {
            // The disk may be full: there is room when what can be made again is gone.
            self.remove(&[HTML, SARIF, JUNIT]);
            self.write_run_file(report, &report.conclusion)?;
        }
        self.remove(&RESULTS);
        self.remove_parts();
        self.remove_forced_traces();
        Ok(())
    }

    /// The name of the directory with the results of a part of the run, which is inside of this one.
    pub fn part_name(part: impl Display) -> String {
        format!("{PART}{part}")
    }

    /// The name of the directory with the results on one input, which is inside of this one.
    pub fn input_part_name(case: u64) -> String {
        format!("{INPUT}{case}")
    }

    /// Removes the results of the parts of an earlier run.
    fn remove_parts(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(PART));
            let is_part = number.is_some_and(|number| number.parse::<u64>().is_ok());
            if let Ok((part, ..)) = Self::open(&entry.path())
                && is_part
            {
                part.remove(&RESULTS);
                part.remove_forced_traces();
                part.remove(&[RUN]);
                // Files of the user stay, and the directory with them.
                let _ = fs::remove_dir(&part.path);
            }
        }
    }

    fn remove(&self, names: &[&str]) {
        for name in names {
            // A file that cannot be removed cannot be replaced either; that error is reported.
            let _ = fs::remove_file(self.file(name));
        }
    }

    /// Where the trace of a run is kept in which the race of a finding was forced.
    pub fn forced_trace(&self, finding: &FindingId) -> PathBuf {
        self.file(&format!("{FORCED}{finding}"))
    }

    /// The traces of runs in which races were forced.
    pub fn forced_traces(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let is_forced = |name: &OsStr| {
            let id = name.to_str().and_then(|name| name.strip_prefix(FORCED));
            let is_id =
                |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            id.is_some_and(is_id)
        };
        let mut traces: Vec<PathBuf> = entries
            .filter(|entry| is_forced(&entry.file_name()))
            .map(|entry| entry.path())
            .collect();
        traces.sort();
        traces
    }

    /// Removes the traces of runs in which races were forced: those of this process come in their place.
    pub fn remove_forced_traces(&self) {
        for trace in self.forced_traces() {
            // One that cannot be removed belongs to no finding.
            let _ = fs::remove_file(trace);
        }
    }

    /// Moves the finished trace to its final path.
    pub fn keep_trace(&mut self) -> Result<(), Failure> {
        durable_file::rename_durably(&self.unfinished_trace(), &self.file(TRACE))
    }

    /// Removes the trace of a run that failed, and the directory if this process created it.
    pub fn abandon(self) {
        // The next check removes what cannot be removed now.
        let _ = fs::remove_file(self.unfinished_trace());
        if self.made {
            self.remove(&RESULTS);
            self.remove_forced_traces();
            self.remove(&[RUN]);
            let _ = fs::remove_dir(&self.path);
            run_destination::give_up();
        }
    }

    /// Removes results that nobody needs, and the directory if it holds nothing else.
    pub fn discard(mut self) {
        self.made = true;
        self.abandon();
    }

    /// The trace that the results belong to.
    pub fn trace(&self) -> Result<PathBuf, Failure> {
        let trace = match &self.trace {
            Some(trace) => trace.clone(),
            None => self.file(TRACE),
        };
        fs::canonicalize(&trace).map_err(|source| match is_campaign(&self.path) {
            true => Failure::NoTraceOfCampaign {
                path: self.path.clone(),
            },
            false => Failure::TraceIo {
                path: trace,
                source,
            },
        })
    }

    /// Whether these are the results of `brownout fuzz`, which belong to many recordings.
    pub fn holds_campaign(&self) -> bool {
        is_campaign(&self.path)
    }

    /// Whether the results belong to this trace.
    pub fn is_about(&self, trace: &Path) -> bool {
        let known = self.trace().ok();
        known.is_some() && known == fs::canonicalize(trace).ok()
    }

    /// Prints the path of the directory, and what to do next, if the directory is kept.
    pub fn announce(&self, next: Option<&str>, console: &Console) {
        if !self.is_kept() {
            return;
        }
        console.remark(format_args!("results are in {}", self.path.display()));
        if let Some(next) = next {
            console.remark(format_args!("next: {next}"));
        }
    }

    /// Makes the results belong to `trace`, which may be outside the directory.
    pub fn set_trace(&mut self, trace: &Path) {
        let inside = fs::canonicalize(self.file(TRACE)).ok();
        let trace = fs::canonicalize(trace).ok();
        self.trace = trace.filter(|trace| Some(trace) != inside.as_ref());
    }

    /// Writes `run.json`, with a conclusion that may not be that of the report yet. From now on the results are those of this
    /// process, also if it fails.
    pub fn write_run_file(&self, report: &Report, conclusion: &Conclusion) -> Result<(), Failure> {
        run_destination::occupy(&self.path);
        let subject = &report.subject;
        let run = RunFile {
            trace: self.trace.clone(),
            brownout: env!("CARGO_PKG_VERSION").to_owned(),
            command: subject.command.clone(),
            directory: subject.directory.clone(),
            gaps: subject.gaps.clone(),
            files: subject.files.clone(),
            not_judged: subject.not_judged.clone(),
            target_success: subject.accepted_ends.clone(),
            model: subject.model.clone(),
            pm: subject.patterns.clone(),
            crash_options: subject.crash_options.clone(),
            known: report.known_count(),
            findings: Some(report.findings().len()),
            suppressed: Some(report.suppressed().len()),
            in_force: RulesInForce::of(report),
            conclusion: conclusion.clone(),
        };
        write_file(&self.file(RUN), |out| {
            serde_json::to_writer_pretty(&mut *out, &run)?;
            out.write_all(b"\n")
        })
    }

    /// Removes what processes have left that were killed: no other process uses the directory while it is locked.
    fn remove_abandoned(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if is_unfinished_trace(&name) || durable_file::is_temporary(&name) {
                // One that cannot be removed is not mistaken for anything else.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a directory holds a campaign of `brownout fuzz`.
fn is_campaign(path: &Path) -> bool {
    path.join(CAMPAIGN).exists()
}

/// Whether a file has the name of a trace that is not complete.
fn is_unfinished_trace(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED));
    let pid = rest.and_then(|rest| rest.strip_prefix('.'));
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok())
}

/// Replaces `{pid}`, so that concurrent checks can use one directory each.
fn with_pid(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) => text
            .replace("{pid}", &std::process::id().to_string())
            .into(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(
            OutputDirectory::claim(root.path()),
            Err(Failure::NotOurs { .. })
        ));
        assert!(root.path().join("thesis.tex").exists());
    }

    #[test]
    fn an_earlier_check_is_replaced_and_other_files_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let first = OutputDirectory::claim(&path).unwrap();
        let report = Report::default();
        first.write_run_file(&report, &report.conclusion).unwrap();
        fs::write(first.file("notes"), "mine").unwrap();
        drop(first);
        let second = OutputDirectory::claim(&path).unwrap();
        second.write_run_file(&report, &report.conclusion).unwrap();
        assert_eq!(fs::read_to_string(second.file("notes")).unwrap(), "mine");
        assert!(OutputDirectory::open(&path).is_ok());
    }

    #[test]
    fn a_new_trace_removes_the_results_of_the_old_one() {
        let root = tempfile::tempdir().unwrap();
        let mut directory = OutputDirectory::claim(root.path()).unwrap();
        fs::write(directory.file(FINDINGS), "old").unwrap();
        fs::write(directory.unfinished_trace(), "new").unwrap();
        directory.replace_results(&Report::default()).unwrap();
        directory.keep_trace().unwrap();
        assert!(!directory.file(FINDINGS).exists());
        assert_eq!(fs::read_to_string(directory.file(TRACE)).unwrap(), "new");
    }

    #[test]
    fn what_a_killed_check_has_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for name in ["unfinished.4294967295", ".brownout-Xy1.tmp"] {
            fs::write(root.path().join(name), "half").unwrap();
        }
        OutputDirectory::claim(root.path()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        for name in ["unfinished.tex", ".tmpXy1", ".brownout-notes"] {
            fs::write(root.path().join(name), "mine").unwrap();
            let claimed = OutputDirectory::claim(root.path());
            assert!(matches!(claimed, Err(Failure::NotOurs { .. })), "{name}");
            fs::remove_file(root.path().join(name)).unwrap();
        }
    }

    #[test]
    fn a_failed_run_leaves_no_files() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let directory = OutputDirectory::claim(&path).unwrap();
        fs::write(directory.unfinished_trace(), "half").unwrap();
        directory.abandon();
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_in_use_is_refused_and_not_changed() {
        let root = tempfile::tempdir().unwrap();
        let first = OutputDirectory::claim(root.path()).unwrap();
        let second = OutputDirectory::claim(root.path());
        assert!(matches!(second, Err(Failure::InUse { .. })));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        drop(first);
        assert!(OutputDirectory::claim(root.path()).is_ok());
    }

    #[test]
    fn pid_is_replaced_in_the_directory_name() {
        let pid = std::process::id().to_string();
        assert_eq!(
            with_pid(Path::new("out-{pid}")),
            Path::new(&format!("out-{pid}"))
        );
    }
}
