//! Crash testing of a recorded run, for the commands that do it.

mod calling_contexts;
mod campaign_run;
mod cause_search;
mod code_identity;
mod continuation;
mod coverage_gap;
mod crash_coverage;
mod explanations;
mod file_names;
mod flaky;
mod function_name;
mod hidden_status;
mod interrupt;
mod left_out;
mod missing_function;
mod monitor;
mod passed_recoveries;
mod plan;
mod point_filters;
mod preparation;
mod recovery_reads;
mod remembering;
mod resumption;
mod runners;
mod scope_check;
mod trial_results;
mod uncrashed;

use brownout_crash::{ProgressObserver as _, SuspectedStores};
use brownout_report::{CrashCoverage, Finding, LeftOut, ReadsSummary, Reason, ReasonKind};

use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::suspects::{JudgedSuspect, LintSuspect};
use crate::trace_file::TraceFile;

pub use calling_contexts::CrashSymbols;
use campaign_run::run_campaign;
use cause_search::search_causes;
pub use continuation::{crash_command, quoted as shell_word};
pub use coverage_gap::{none_tested, unfinished};
use crash_coverage::{coverage_of, shortfalls};
pub use crash_coverage::{
    coverage_sentence, is_coverage_sentence, merged_coverage, merged_shortfall,
};
use explanations::{examine_reads, explain_failures};
use file_names::unshown_names;
pub use function_name::program_file;
pub use interrupt::Interrupt;
pub use left_out::left_out;
pub use missing_function::{RecordedBy, why_never_called};
pub use monitor::CrashTestMonitor;
use passed_recoveries::doubts;
pub use plan::{Plan, check_selectable, scope};
pub use point_filters::PointFilters;
use preparation::prepare;
use recovery_reads::unobserved;
pub use recovery_reads::{ReadFindings, reads_summary};
use remembering::remember;
pub use resumption::{check_resumable, check_same_test};
pub use scope_check::check_scope;
pub use trial_results::{Shown, TestedTrials};

/// The results of crash testing.
pub struct CrashTest {
    pub findings: Vec<Finding>,
    /// What was left out on purpose.
    pub left_out: LeftOut,
    /// What was not tested, in sentences.
    pub gaps: Vec<String>,
    /// What was done, in a sentence.
    pub summary: String,
    pub coverage: CrashCoverage,
    /// What trying the suspects of lint has shown.
    pub judged: Vec<JudgedSuspect>,
    /// What recovery opens and reads, and which findings that concerns.
    pub reads: Option<ReadsSummary>,
    pub read_findings: ReadFindings,
    /// Whether reads of recovery that can see several stores were examined.
    pub examined_reads: bool,
    /// Why too little was tested.
    pub shortfalls: Vec<Reason>,
}

/// Why nothing was tested: nothing persistent was seen, or recovery does not pass on the files that the target left.
pub struct Refused {
    pub why: Reason,
    pub code: ExitCode,
}

/// Tests crashes of the run in `trace`, with a journal in `directory`. Of a damaged trace it uses the part before the damage;
/// [`TraceFile::shortfall`] then reports the damage. `begin` is called when the options are known to fit the run and the
/// test that is resumed: until then nothing of earlier results may be replaced.
pub fn crash_test(
    trace: &mut TraceFile,
    plan: &Plan,
    (suspects, suspected_stores): (&[LintSuspect], &SuspectedStores),
    directory: &OutputDirectory,
    begin: &dyn Fn() -> Result<(), Failure>,
    console: &Console,
) -> Result<Result<CrashTest, Refused>, Failure> {
    let mut monitor = CrashTestMonitor::new(plan.time_limit, console);
    let mut prepared = match prepare(trace, (plan, directory), begin, &mut monitor, console)? {
        Ok(prepared) => prepared,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut tested = run_campaign(
        &mut prepared,
        (plan, trace.identity()),
        suspects,
        (directory, begin),
        &mut monitor,
        console,
    )?;
    flaky::check_again(&prepared, plan, &mut tested, monitor.interrupted(), console)?;
    search_causes(
        &mut prepared,
        (plan, suspected_stores),
        &mut tested,
        &mut monitor,
        console,
    )?;
    explain_failures(&mut prepared, plan, &mut tested, &mut monitor)?;
    let unpersisted = examine_reads(&mut prepared, plan, &mut tested, &mut monitor)?;

    let (results, ending) = (&tested.results, &tested.ending);
    let files = prepared.survey.files.paths();
    let mut left_out = left_out(prepared.survey.points.creations(), files, trace);
    let mut reads = reads_summary(&prepared.reads.observed);
    left_out.unopened = reads.unopened();
    left_out.tested_behaviours = ending.extent.remembered;
    let Shown {
        mut findings,
        judged,
        shortfalls: incomplete_images,
    } = results.shown(&left_out, |_| true);
    let examined_reads = unpersisted.is_some();
    let unpersisted = unpersisted.unwrap_or_default();
    let mut gaps: Vec<String> = prepared.symbols.problems().collect();
    gaps.extend(monitor.gaps());
    let mut hidden = None;
    if results.failed() == 0 {
        let read = &tested.read_findings;
        let doubts = doubts(&prepared, plan, read, trace.events(), &mut monitor)?;
        doubts.note(&mut reads);
        gaps.extend(doubts.gaps);
        gaps.extend(unobserved(&prepared.reads.observed));
        hidden = doubts.nothing_tested;
    }
    let coverage = coverage_of(plan, results, ending, &monitor);
    let mut shortfalls = shortfalls(
        plan,
        &coverage,
        ending,
        tested.progress,
        &monitor,
        &left_out,
    );
    shortfalls.extend(incomplete_images);
    if examined_reads && !unpersisted.is_complete {
        let why = "not all reads of recovery that can see several stores were examined";
        shortfalls.push(Reason::other(why));
    }
    findings.extend(unpersisted.findings);
    let names = unshown_names(trace, &prepared.survey.files, &plan.recovery.command);
    let others = prepared.left_processes.into_iter().chain(names);
    shortfalls.extend(others.map(Reason::other));
    // What recovery finds does not matter if it reads nothing.
    let reads_nothing = |reason: &Reason| reason.kind == ReasonKind::NothingRead;
    if let Some(why) = hidden
        && !shortfalls.iter().any(reads_nothing)
    {
        shortfalls.push(Reason::new(ReasonKind::HiddenStatus, why));
    }
    if let Some(memory) = &plan.memory {
        let decided = std::mem::take(&mut tested.decided);
        let configuration = &tested.results.configuration;
        match remember(memory, decided, configuration, &shortfalls) {
            Ok(remark) => console.remark(remark),
            Err(why) => shortfalls.push(why),
        }
    }
    Ok(Ok(CrashTest {
        findings,
        gaps,
        summary: coverage_sentence(&coverage, results.failed()),
        shortfalls,
        left_out,
        judged,
        reads: Some(reads),
        read_findings: tested.read_findings,
        examined_reads,
        coverage,
    }))
}
