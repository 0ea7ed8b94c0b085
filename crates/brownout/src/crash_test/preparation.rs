//! What must hold before crashes can be tested: there are persistent files, the options fit the run, and recovery passes on
//! the files that the target left.

use std::time::Duration;

use brownout_crash::{Operation, RecordedRun, Survey};
use brownout_recovery::RecoveryRunner;
use brownout_report::{Reason, ReasonKind};

use super::Refused;
use super::calling_contexts::CrashSymbols;
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::recovery_reads::TestReads;
use super::runners::open_runners;
use super::scope_check::check_scope;
use super::uncrashed::{describe_left_processes, describe_uncrashed, recover_uncrashed};
use crate::commands::describe_candidates;
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::trace_file::TraceFile;

/// What crashes are tested with.
pub struct Prepared {
    pub run: RecordedRun,
    pub survey: Survey,
    pub symbols: CrashSymbols,
    pub runners: Vec<RecoveryRunner>,
    /// How long a recovery may take.
    pub time_limit: Duration,
    /// What recovery opens and reads.
    pub reads: TestReads,
    /// Why the verdicts do not decide, if recovery leaves processes behind.
    pub left_processes: Option<String>,
}

/// Prepares a test of the run in `trace`. `begin` is called when the options are known to fit the run, unless an earlier test is
/// resumed, whose options have yet to be compared.
pub fn prepare(
    trace: &mut TraceFile,
    (plan, directory): (&Plan, &OutputDirectory),
    begin: &dyn Fn() -> Result<(), Failure>,
    monitor: &mut CrashTestMonitor,
    console: &Console,
) -> Result<Result<Prepared, Refused>, Failure> {
    let selection = trace.select(&plan.patterns, console)?;
    if selection.is_empty() {
        return Ok(Err(Refused {
            why: Reason::new(
                ReasonKind::NothingPersistent,
                describe_candidates(&selection, trace.definitions(), &plan.patterns),
            ),
            code: ExitCode::NothingTested,
        }));
    }
    let mut symbols = CrashSymbols::new(&trace.header().cwd, plan.filters.clone());
    let last_event = trace.events();
    let run = RecordedRun::new(trace.path(), selection);
    monitor.begin_reading(last_event);
    let survey = run.survey(plan.scope.clone(), &mut symbols, monitor)?;
    check_scope(&survey.points, &plan.scope, &run, plan.recorded_by)?;
    symbols.check_filters()?;
    if !plan.resume {
        begin()?;
    }
    let mut runners = open_runners(plan, &survey, console)?;
    monitor.begin_reading(last_event);
    let operation: Option<Operation> = plan.counts_operations().then(|| survey.points.operation());
    let (uncrashed, image) = recover_uncrashed(
        &run,
        &survey,
        &mut runners[0],
        (last_event, operation),
        plan,
        monitor,
    )?;
    if !uncrashed.attempt.verdict.passed() {
        return Ok(Err(Refused {
            why: Reason::new(
                ReasonKind::RecoveryFailedWithoutCrash,
                describe_uncrashed(&uncrashed, plan),
            ),
            code: ExitCode::TargetFailed,
        }));
    }
    let reads = match TestReads::earlier(directory, plan)? {
        Some(reads) => reads,
        None => {
            let (run, image) = ((&run, &survey), (&image, last_event));
            TestReads::observe(run, image, operation, &uncrashed, plan, monitor)?
        }
    };
    Ok(Ok(Prepared {
        run,
        survey,
        symbols,
        runners,
        time_limit: uncrashed.time_limit,
        left_processes: describe_left_processes(&uncrashed, &reads.observed),
        reads,
    }))
}
