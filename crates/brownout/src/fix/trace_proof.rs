//! The proof by the trace: the operations of repairs are inserted into the recorded trace, which is then judged again.
//!
//! Nothing is executed. The findings that the repairs are for must be gone, and no others may appear.

use std::fs::File;
use std::path::{Path, PathBuf};

use brownout_fix::{AddedCounts, AddedOperation, PatchedTraceError, write_patched};
use brownout_model::Profile;
use brownout_report::{Finding, FindingId, Severity};
use brownout_trace::TraceReader;
use rustc_hash::FxHashSet;

use super::planned_repair::PlannedRepair;
use super::repaired_statements::{StatementPlace, StatementsInStacks};
use crate::console::Console;
use crate::failure::Failure;
use crate::lint_run::examine;
use crate::race_run::race;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// What identifies a finding in traces of one program: the rule and its first stack.
pub type FindingKey = (String, Vec<(String, u64)>);

pub fn key(rule: &str, stack: &brownout_report::Stack) -> FindingKey {
    let frames = stack.frames.iter();
    let frames = frames.map(|frame| (frame.module.clone(), frame.offset));
    (rule.to_owned(), frames.collect())
}

/// What the patched trace shows.
pub struct PatchedFindings {
    pub keys: FxHashSet<FindingKey>,
    pub ids: FxHashSet<FindingId>,
    /// Findings that the recorded trace does not have, of a kind that a repair must not add.
    pub added: Vec<Finding>,
    pub counts: AddedCounts,
}

/// Judges repairs by the trace.
pub struct TraceProof<'a> {
    trace: PathBuf,
    settings: &'a Settings,
    console: &'a Console,
    /// What the recorded trace shows.
    recorded: FxHashSet<FindingKey>,
    looks_for_races: bool,
    directory: tempfile::TempDir,
    passes: u64,
    events: u64,
}

/// So many events are judged at most before no more repairs are dropped for trial.
const MOST_EVENTS: u64 = 50_000_000;

impl<'a> TraceProof<'a> {
    /// For a trace that shows these findings.
    pub fn new(
        trace: &Path,
        findings: &[Finding],
        settings: &'a Settings,
        console: &'a Console,
    ) -> Result<Self, Failure> {
        let keys = findings.iter().filter_map(finding_key);
        Ok(Self {
            trace: trace.to_owned(),
            settings,
            console,
            recorded: keys.collect(),
            looks_for_races: findings
                .iter()
                .any(|finding| crate::rules::is_race_rule(&finding.rule)),
            directory: tempfile::tempdir().map_err(Failure::FixDirectory)?,
            passes: 0,
            events: TraceFile::open(trace)?.events(),
        })
    }

    /// Whether further passes over the trace are worth their time.
    pub fn may_try_more(&self) -> bool {
        self.passes < 4 || self.passes.saturating_mul(self.events) < MOST_EVENTS
    }

    /// The findings of the trace with the operations of these repairs.
    pub fn judge(&mut self, repairs: &[&PlannedRepair]) -> Result<PatchedFindings, Failure> {
        self.passes += 1;
        let path = self.directory.path().join("patched.trace");
        let counts = write(&self.trace, &path, repairs, self.settings)?;
        let mut findings = examine(&path, self.settings, self.console)?.findings;
        if self.looks_for_races {
            let mut trace = TraceFile::open(&path)?;
            findings.extend(race(&mut trace, self.settings, true, self.console)?.findings);
        }
        let keys: FxHashSet<FindingKey> = findings.iter().filter_map(finding_key).collect();
        let ids = findings.iter().map(|finding| finding.id.clone()).collect();
        let is_new = |finding: &Finding| {
            let key = finding_key(finding);
            let matters = finding.severity != Severity::Warning || is_about_order(&finding.rule);
            matters && key.is_some_and(|key| !self.recorded.contains(&key))
        };
        let added = findings.into_iter().filter(is_new).collect();
        Ok(PatchedFindings {
            keys,
            ids,
            added,
            counts,
        })
    }
}

/// What repairs add to a trace, and removals take from it.
pub fn counts(
    trace: &Path,
    repairs: &[&PlannedRepair],
    settings: &Settings,
) -> Result<AddedCounts, Failure> {
    let directory = tempfile::tempdir().map_err(Failure::FixDirectory)?;
    let path = directory.path().join("patched.trace");
    write(trace, &path, repairs, settings)
}

/// Writes the trace with the operations of repairs.
fn write(
    trace: &Path,
    path: &Path,
    repairs: &[&PlannedRepair],
    settings: &Settings,
) -> Result<AddedCounts, Failure> {
    let syncs = settings.model == Profile::MSYNC;
    let operations: Vec<AddedOperation> = repairs
        .iter()
        .map(|repair| AddedOperation {
            operation: repair.source.operation,
            syncs,
        })
        .collect();
    let statements: Vec<StatementPlace> = repairs
        .iter()
        .map(|repair| repair.statement.clone())
        .collect();
    let failed = |error: PatchedTraceError| match error {
        PatchedTraceError::Read(source) => Failure::trace(trace, source),
        PatchedTraceError::Write(source) => Failure::PatchedTrace(source),
    };
    let opened = TraceReader::open(trace);
    let mut reader = opened.map_err(|error| Failure::trace(trace, error))?;
    let mut matcher = StatementsInStacks::new(&statements, &reader.header().cwd.clone());
    let sink = File::create(path).map_err(Failure::FixDirectory)?;
    write_patched(&mut reader, sink, &operations, &mut matcher).map_err(failed)
}

fn finding_key(finding: &Finding) -> Option<FindingKey> {
    let stack = finding.stacks.first()?;
    Some(key(&finding.rule, stack))
}

/// Warnings that say that a repair has not achieved what it is for.
fn is_about_order(rule: &str) -> bool {
    super::candidates::is_repaired(rule)
}
