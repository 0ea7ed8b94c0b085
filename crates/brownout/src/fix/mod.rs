//! Repairs of findings: which are tried, how they are judged, and what they come to.
//!
//! ```text
//! findings ─▶ candidates ─▶ edits (brownout-fix) ─▶ search ◀─▶ trace_proof ─▶ patch ─▶ running_proof, rebuilt_proof
//! ```

mod alias_scores;
mod candidates;
mod checked_repairs;
mod deadline;
mod executed_lines;
mod patch;
mod patch_plan;
mod planned_repair;
mod pointer_counts;
mod private_check;
mod program_sources;
mod rebuilt_proof;
mod removals;
mod repaired_statements;
mod run_survey;
mod running_proof;
mod search;
mod trace_proof;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brownout_crash::Token;
use brownout_fix::{AddedCounts, RepairRefusal};
use brownout_report::{
    Finding, FindingId, FixProof, Frame, Report, RuleRepair, Severity, SourceFix,
};

use rustc_hash::FxHashSet;

pub use candidates::is_on_request;
pub use checked_repairs::{prove_by_building, prove_by_running};
pub use executed_lines::ExecutedLines;
pub use patch::Patch;
pub use rebuilt_proof::Rebuild;
pub use running_proof::RunningProof;

use alias_scores::ordered_levels;
use candidates::{TaskBounds, called_functions, is_repaired, refusal, tasks};
use deadline::{DeadlineRequest, Deadlines};
use planned_repair::PlannedRepair;
use pointer_counts::{MOST_FUNCTIONS, PointerCounts};
use program_sources::ProgramSources;
use removals::Removals;
use run_survey::RunSurvey;
use search::{SearchOutcome, TaskSearch, repairs, search};
use trace_proof::TraceProof;

use crate::console::Console;
use crate::failure::Failure;
use crate::lint_run::examine;
use crate::race_run::race;
use crate::rules;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// How a repair is known to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The recorded trace with the added operations no longer shows the finding.
    Trace,
    /// The unmodified program was run with the added operations and checked again.
    Running,
    /// The program was built from the patched sources, recorded and checked again.
    Rebuilt,
    /// Not shown by anything yet: log entries do not show in a trace.
    None,
}

/// What `fix` has come to for a finding.
pub struct FindingRepair {
    pub finding: Finding,
    /// The edits for this finding alone; empty if there are none.
    pub patch: Patch,
    /// Why it is not repaired, if it is not.
    pub refusal: Option<String>,
    /// There is a patch, which the author has to judge.
    pub is_suggestion: bool,
    /// A repair for another finding cures it.
    pub is_covered: bool,
    pub proof: Proof,
    /// Why the running program has not shown that it is repaired, if that was tried.
    pub doubt: Option<String>,
    /// Whether its edits are a part of the patch for all findings.
    pub is_in_patch: bool,
    /// Its repairs; none if that of another finding covers it.
    planned: Vec<PlannedRepair>,
    /// The added code.
    pub code: Vec<String>,
}

impl FindingRepair {
    pub fn is_repaired(&self) -> bool {
        self.refusal.is_none()
    }

    /// The repair in the form that reports have. Paths of the diff are relative to `here`.
    pub fn source_fix(&self, here: &Path) -> Option<SourceFix> {
        let proof = match self.proof {
            Proof::Trace => FixProof::Trace,
            Proof::Running => FixProof::Running,
            Proof::Rebuilt => FixProof::Rebuilt,
            Proof::None => return None,
        };
        (self.is_repaired() && !self.patch.is_empty()).then(|| SourceFix {
            proof,
            diff: self.patch.diff(here),
            edits: self.patch.source_edits(),
        })
    }

    /// Whether it relies on a repair.
    fn uses(&self, repair: &PlannedRepair) -> bool {
        let mut own = self.planned.iter();
        own.any(|own| {
            own.statement == repair.statement && is_log_entry(own) == is_log_entry(repair)
        })
    }

    /// Whether findings of its rule are repaired unless something prevents it.
    pub fn is_reparable(&self) -> bool {
        let joined = self.finding.evidence.joined.iter();
        let mut rules = joined.map(|joined| joined.rule.as_str());
        is_repaired(&self.finding.rule) || rules.any(is_repaired)
    }

    /// Whether its finding is about something that does nothing.
    pub fn is_about_removal(&self) -> bool {
        removals::rank(&self.finding.rule).is_some()
    }

    fn refused(finding: Finding, refusal: String) -> Self {
        Self {
            finding,
            patch: Patch::default(),
            refusal: Some(refusal),
            is_suggestion: false,
            is_covered: false,
            proof: Proof::None,
            doubt: None,
            is_in_patch: false,
            planned: Vec::new(),
            code: Vec::new(),
        }
    }
}

/// All repairs for the findings of a results directory.
pub struct Repairs {
    pub findings: Vec<FindingRepair>,
    /// The edits for all findings together.
    pub combined: Patch,
    /// The repairs and removals that it consists of.
    parts: Vec<PlannedRepair>,
    /// The repairs whose operations a running program can execute.
    planned: Vec<PlannedRepair>,
    sources: ProgramSources,
    /// Findings that the repairs add.
    pub added: Vec<Finding>,
    pub counts: AddedCounts,
    pub is_minimal: bool,
    /// What has shown which findings are added.
    pub added_shown_by: Proof,
}

impl Repairs {
    /// Takes what only findings that are not repaired need out of the patch. Returns whether that has changed it and left anything.
    fn drop_refused(&mut self, trace: &Path, settings: &Settings) -> Result<bool, Failure> {
        let Self {
            findings,
            parts,
            planned,
            ..
        } = self;
        let is_needed = |part: &PlannedRepair| {
            let mut repaired = findings.iter().filter(|repair| repair.is_repaired());
            repaired.any(|repair| repair.uses(part))
        };
        let before = parts.len();
        parts.retain(is_needed);
        planned.retain(is_needed);
        if parts.len() == before {
            return Ok(false);
        }
        for repair in findings
            .iter_mut()
            .filter(|repair| repair.refusal.is_some())
        {
            repair.is_in_patch = false;
        }
        let text = |path: &Path| self.sources.text(path);
        let left: Vec<&PlannedRepair> = self.parts.iter().collect();
        self.combined = Patch::new(&left, &text).map_err(|_| Failure::RepairsConflict)?;
        self.counts = trace_proof::counts(trace, &left, settings)?;
        self.is_minimal = false;
        Ok(!left.is_empty())
    }

    /// The directory to which the paths of all diffs are relative: this one, or the deepest that has all files.
    pub fn diff_directory(&self, here: &Path) -> PathBuf {
        let patches = self.findings.iter().map(|repair| &repair.patch);
        let files = patches
            .chain(std::iter::once(&self.combined))
            .flat_map(|patch| &patch.files);
        let paths: Vec<&Path> = files.map(|file| file.path.as_path()).collect();
        let has_all = |directory: &&Path| paths.iter().all(|path| path.starts_with(directory));
        let common = here.ancestors().find(has_all);
        common.unwrap_or(Path::new("/")).to_owned()
    }
}

/// What `fix` is asked to do.
#[derive(Clone, Copy)]
pub struct FixRequest<'a> {
    /// The rules and findings that are named; empty if all findings that can be repaired are meant.
    pub named: &'a [String],
    /// Whether the program will be rebuilt: only then are log entries and removals a part of the patch.
    pub builds: bool,
    /// Whether removals of what does nothing are suggested.
    pub removes: bool,
}

impl FixRequest<'_> {
    /// Whether a finding is cured by removing something, if that is asked for.
    fn is_removed(&self, finding: &Finding) -> bool {
        let is_named = self.named.is_empty() || is_wanted(finding, self.named);
        self.removes && is_named && removals::rank(&finding.rule).is_some()
    }
}

/// Which findings are to be repaired: all that can be, or those that are named.
pub fn is_wanted(finding: &Finding, named: &[String]) -> bool {
    let is_named =
        |name: &String| finding.rule == *name || finding.id.as_str().starts_with(name.as_str());
    match named {
        [] => finding.severity != Severity::Performance && finding.cause.is_none(),
        _ => named.iter().any(is_named),
    }
}

/// Finds repairs for findings of a report about a trace. Log entries are a part of the patch only if the program is rebuilt: they can
/// abort a transaction, and a trace does not show what they do.
pub fn repair_findings(
    report: &Report,
    request: FixRequest<'_>,
    (results, trace): (&Path, &Path),
    settings: &Settings,
    console: &Console,
) -> Result<Repairs, Failure> {
    let (named, logs) = (request.named, request.builds);
    let recorded = recorded_findings(report, trace, settings, console)?;
    let mut file = TraceFile::open(trace)?;
    let sources = ProgramSources::new(&file.header().cwd);
    let survey = RunSurvey::of(&mut file, &sources, console)?;
    let plan = |candidate: &candidates::Candidate| {
        PlannedRepair::new(candidate, &sources, &survey, settings.model)
    };
    let deadlines = deadlines(report, named, &recorded, &mut file, console)?;
    let wanted = wanted_of_trace(report, named, &recorded);
    let counts = pointer_counts(&wanted, &deadlines, (&mut file, results), settings, console)?;
    let levels = |frames: &[&Frame]| ordered_levels(frames, &sources, counts.as_ref()?);
    let bounds = TaskBounds {
        deadlines: &deadlines,
        levels: &levels,
    };
    let mut all_tasks = Vec::new();
    let mut work = Vec::new();
    for finding in report
        .findings()
        .iter()
        .filter(|finding| is_wanted(finding, named) && !request.is_removed(finding))
    {
        let tasks = tasks_of(finding, named, &recorded, &bounds);
        let tasks = tasks.map(|tasks| {
            let searches = tasks
                .iter()
                .map(|task| TaskSearch::new(work.len(), task, &plan));
            all_tasks.extend(searches);
        });
        work.push((finding.clone(), tasks));
    }
    let mut proof = TraceProof::new(trace, &recorded, settings, console)?;
    let outcome = match all_tasks.is_empty() {
        true => SearchOutcome {
            tasks: all_tasks,
            added: Vec::new(),
            counts: AddedCounts::default(),
            is_minimal: true,
        },
        false => search(all_tasks, &mut proof, &|number, finding| {
            // Nothing later is known to persist it: with a fence, as what it was found with.
            let nowhere = TaskBounds {
                deadlines: &Deadlines::default(),
                levels: &|_| None,
            };
            let found = tasks(finding, true, &nowhere).unwrap_or_default();
            let searches = found
                .iter()
                .map(|task| TaskSearch::new(number, &task.with_fence(), &plan));
            searches.collect()
        })?,
    };
    let mut operations = repairs(&outcome.tasks);
    operations.retain(|repair| !is_log_entry(repair));
    let text = |path: &Path| sources.text(path);
    let findings = work
        .into_iter()
        .enumerate()
        .map(|(number, (finding, tasks))| match tasks {
            Err(refusal) => FindingRepair::refused(finding, refusal.to_string()),
            Ok(()) => {
                let first = outcome
                    .tasks
                    .partition_point(|task| task.finding() < number);
                let last = outcome
                    .tasks
                    .partition_point(|task| task.finding() <= number);
                finding_repair(finding, &outcome.tasks[first..last], logs, &text)
            }
        });
    let mut findings: Vec<FindingRepair> = findings.collect();
    let mut all = repairs(&outcome.tasks);
    all.retain(|repair| logs || !is_log_entry(repair));
    let done = (all.into_iter().cloned().collect(), outcome.counts);
    let mut removals = Removals::new(&sources, logs, done);
    for finding in removed(report, request) {
        let known = recorded.iter().filter(|known| known.id == finding.id);
        let known: Vec<&Finding> = known.collect();
        findings.push(removals.try_removal(finding.clone(), &known, &mut proof)?);
    }
    let (done, counts) = removals.into_done();
    let combined = Patch::new(&done.iter().collect::<Vec<_>>(), &text);
    let combined = combined.map_err(|_| Failure::RepairsConflict)?;
    let planned = operations.into_iter().cloned().collect();
    Ok(Repairs {
        findings,
        combined,
        parts: done,
        added: outcome.added,
        counts,
        is_minimal: outcome.is_minimal,
        planned,
        sources,
        added_shown_by: Proof::Trace,
    })
}

/// The findings that removals cure, in the order in which these are tried.
fn removed<'r>(report: &'r Report, request: FixRequest<'_>) -> Vec<&'r Finding> {
    let found = report.findings().iter();
    let mut found: Vec<&Finding> = found
        .filter(|finding| request.is_removed(finding))
        .collect();
    found.sort_by_key(|finding| removals::rank(&finding.rule));
    found
}

/// The findings of the trace, with complete stacks.
fn recorded_findings(
    report: &Report,
    trace: &Path,
    settings: &Settings,
    console: &Console,
) -> Result<Vec<Finding>, Failure> {
    let run = examine(trace, settings, console)?;
    let mut findings = run.findings;
    let mut wrappers = run.wrappers;
    if report
        .findings()
        .iter()
        .any(|finding| rules::is_race_rule(&finding.rule))
    {
        let mut file = TraceFile::open(trace)?;
        let races = race(&mut file, settings, true, console)?;
        findings.extend(races.findings);
        wrappers.add(races.wrappers);
    }
    wrappers.mark(&mut findings);
    Ok(findings)
}

/// The findings of the trace that are to be repaired.
fn wanted_of_trace<'r>(
    report: &Report,
    named: &[String],
    recorded: &'r [Finding],
) -> Vec<&'r Finding> {
    let wanted = report.findings().iter();
    let wanted = wanted.filter(|finding| is_wanted(finding, named));
    let ids: FxHashSet<&FindingId> = wanted
        .flat_map(|finding| {
            let joined = finding.evidence.joined.iter().map(|joined| &joined.id);
            joined.chain(std::iter::once(&finding.id))
        })
        .collect();
    let shown = recorded.iter();
    shown
        .filter(|recorded| ids.contains(&recorded.id))
        .collect()
}

/// Counts what functions are called with, if a finding is about one that others call.
fn pointer_counts(
    wanted: &[&Finding],
    deadlines: &Deadlines,
    (trace, results): (&mut TraceFile, &Path),
    settings: &Settings,
    console: &Console,
) -> Result<Option<PointerCounts>, Failure> {
    let names = wanted
        .iter()
        .flat_map(|finding| called_functions(finding, deadlines));
    let names: BTreeSet<String> = names.collect();
    let names: Vec<String> = names.into_iter().take(MOST_FUNCTIONS).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let counted = PointerCounts::of_run(trace, results, &names, settings, console)?;
    Ok(match counted {
        Ok(counts) => Some(counts),
        Err(why) => {
            console.remark(format_args!(
                "whether functions also serve volatile memory is not known, because the program could not be run again: {why}"
            ));
            None
        }
    })
}

/// The deadlines of what the wanted findings are about.
fn deadlines(
    report: &Report,
    named: &[String],
    recorded: &[Finding],
    trace: &mut TraceFile,
    console: &Console,
) -> Result<Deadlines, Failure> {
    let shown = wanted_of_trace(report, named, recorded);
    let requests: Vec<DeadlineRequest<'_>> = shown
        .into_iter()
        .flat_map(|finding| {
            let repair = candidates::repair_of(&finding.rule);
            let locked = repair == RuleRepair::Fence { is_locked: true };
            let stacks = finding.stacks.iter();
            stacks.map(move |stack| DeadlineRequest { stack, locked })
        })
        .collect();
    let wanted = report.findings().iter();
    let wanted = wanted.filter(|finding| is_wanted(finding, named));
    let tokens = wanted.filter_map(|finding| finding.crash_token());
    let tokens = tokens.filter_map(|token| token.parse::<Token>().ok());
    let failure_points: Vec<u64> = tokens.map(|token| token.point.event).collect();
    Deadlines::of(trace, &requests, &failure_points, console)
}

/// What has to be repaired for a finding and those that are reported as one with it.
fn tasks_of(
    finding: &Finding,
    named: &[String],
    recorded: &[Finding],
    bounds: &TaskBounds<'_>,
) -> Result<Vec<candidates::RepairTask>, RepairRefusal> {
    let is_asked_for = |rule: &str| is_repaired(rule) || (is_on_request(rule) && !named.is_empty());
    let joined = finding.evidence.joined.iter();
    let joined = joined.map(|joined| (&joined.id, joined.rule.as_str(), joined.confirmed));
    let own = (&finding.id, finding.rule.as_str(), finding.confirmed);
    let parts: Vec<(&FindingId, &str, Option<bool>)> = std::iter::once(own)
        .chain(joined)
        .filter(|(_, rule, _)| is_asked_for(rule))
        .collect();
    if parts.is_empty() {
        let reason = refusal(&finding.rule).unwrap_or("there is no automatic repair");
        return Err(RepairRefusal::Rule(reason));
    }
    let mut all = Vec::new();
    for (id, _, confirmed) in parts {
        // Several stores of a line share the id.
        let shown = recorded.iter().filter(|recorded| recorded.id == *id);
        let mut shown = shown.peekable();
        if shown.peek().is_none() {
            let file = finding.primary_frame().and_then(|frame| frame.file.clone());
            return Err(RepairRefusal::Stale {
                file: file.unwrap_or_else(|| "a source file".to_owned()),
                why: "the trace and the sources no longer show this finding",
            });
        }
        for recorded in shown {
            all.extend(tasks(recorded, confirmed == Some(true), bounds)?);
        }
    }
    Ok(all)
}

fn finding_repair(
    finding: Finding,
    tasks: &[TaskSearch],
    logs: bool,
    text: &dyn Fn(&Path) -> Option<String>,
) -> FindingRepair {
    if let Some(refusal) = tasks.iter().find_map(TaskSearch::refusal) {
        return FindingRepair::refused(finding, refusal.to_string());
    }
    let planned = repairs(tasks);
    let is_log_entry = planned.iter().any(|repair| is_log_entry(repair));
    let code = planned
        .iter()
        .flat_map(|repair| repair.source.code.clone())
        .collect();
    let unproven = "a log entry can abort the transaction, so it is a part of the patch only if the rebuilt program shows \
                    that it works; give the build command with --build";
    match Patch::new(&planned, text) {
        Ok(patch) => FindingRepair {
            finding,
            is_suggestion: false,
            is_covered: planned.is_empty(),
            patch,
            refusal: (is_log_entry && !logs).then(|| unproven.to_owned()),
            proof: match is_log_entry {
                true => Proof::None,
                false => Proof::Trace,
            },
            doubt: None,
            is_in_patch: logs || !is_log_entry,
            planned: planned.into_iter().cloned().collect(),
            code,
        },
        Err(conflict) => FindingRepair::refused(finding, conflict.to_string()),
    }
}

fn is_log_entry(repair: &PlannedRepair) -> bool {
    repair.source.operation == brownout_fix::RepairOperation::Log
}
