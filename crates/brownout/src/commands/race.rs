//! `brownout race`: looks for persistency-induced races in a trace.

use std::ffi::OsString;
use std::path::Path;

use brownout_report::{Reason, ReasonKind};

use crate::arguments::{CrashTestArgs, RaceArgs};
use crate::console::Console;
use crate::crash_test::Plan;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::output_directory::{self, OutputDirectory};
use crate::race_confirmation::{Confirmation, TIME_LIMIT, confirm};
use crate::race_run::race;
use crate::recovery_context::RecoveryContext;
use crate::results::{Results, subject};
use crate::run_environment::RunEnvironment;
use crate::settings::Settings;
use crate::target_outcome;
use crate::trace_file::TraceFile;
use crate::unrecorded_changes::unrecorded_changes;

pub fn run(arguments: &RaceArgs, console: &Console) -> Result<ExitCode, Failure> {
    if let Some(out) = &arguments.out {
        output_directory::plan(out);
    }
    let patterns = &arguments.selection.patterns;
    let mut settings = Settings::new(&arguments.findings, patterns, console)?;
    settings.accept_ends(&arguments.target_success, &arguments.trace)?;
    let decisions = Decisions::read(&settings)?;
    // Before the work, and before a trace that is in the directory is read.
    let directory = arguments.out.as_deref().map(OutputDirectory::claim);
    let mut directory = directory.transpose()?;
    let plan = confirmation_plan(arguments, &settings)?;
    let mut trace = TraceFile::open(&arguments.trace)?;
    let mut run = race(&mut trace, &settings, !arguments.no_init_removal, console)?;
    let gaps = trace.incomplete_reason().into_iter().collect();
    let mut results = Results::new(subject(&trace, &settings, gaps), Vec::new());
    if let Some(directory) = &mut directory {
        results.keep_all_but_races(directory, trace.path())?;
        directory.set_trace(trace.path());
    }
    if arguments.confirm && run.untested.is_none() {
        let how = Confirmation {
            plan: plan.as_ref(),
            time_limit: arguments.confirm_time_limit.unwrap_or(TIME_LIMIT),
            directory: directory.as_ref(),
            environment: environment(&arguments.trace)?,
        };
        confirm(&mut trace, &mut run, &settings, &how, console)?;
        if let (Some(plan), Some(directory)) = (&plan, &directory) {
            directory.write_recovery_context(&RecoveryContext::here(&plan.expected))?;
        }
    }
    results.shortfalls.extend(trace.shortfall());
    let failed = target_outcome::recorded_failure(&trace, &settings.target_success);
    results.shortfalls.extend(failed);
    results.note_unmatched(run.unmatched_patterns.take(), &settings);
    results.note(trace.notes());
    let compared = unrecorded_changes(&trace, &settings.patterns, console)?;
    results.compared(compared, console);
    if let Some(why) = &run.nothing_persistent {
        let reason = Reason::new(ReasonKind::NothingPersistent, why);
        results.fall_short(ExitCode::NothingTested, reason);
    } else if let Some(why) = &run.untested {
        let reason = Reason::new(ReasonKind::NoRacesTested, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    results.add_races(run, console);
    let directory = directory.as_ref();
    results.conclude(decisions, &settings, directory, Stream::Output, console)
}

/// The recovery with which forced races are tried; `None` if there is none.
fn confirmation_plan(arguments: &RaceArgs, settings: &Settings) -> Result<Option<Plan>, Failure> {
    if !arguments.confirm {
        return Ok(None);
    }
    let given = CrashTestArgs {
        recover: arguments.recover.clone(),
        recover_success: arguments.recover_success.clone(),
        ..CrashTestArgs::default()
    };
    Plan::new(&settings.crash.complete(&given), settings)
}

/// The environment of the recorded run, if the results have it.
fn environment(trace: &Path) -> Result<Option<Vec<(OsString, OsString)>>, Failure> {
    if !trace.is_dir() {
        return Ok(None);
    }
    let known = RunEnvironment::read(trace)?;
    Ok(known.map(|environment| environment.restored()))
}
