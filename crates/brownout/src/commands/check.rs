//! `brownout check`: records a program, lints the trace, and tests crashes if there is a recovery.

use std::path::{Path, PathBuf};

use brownout_engine::{Recording, StopReason};
use brownout_trace::ProcessEnd;

use super::record;
use crate::arguments::{CheckArgs, RecordArgs, RecordingArgs};
use crate::console::Console;
use crate::crash_test::{Plan, Refused, crash_test, program_file};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run::lint;
use crate::output_directory::{OutputDirectory, RulesInForce, TRACE};
use crate::results::{Results, Shown};
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// The default output directory.
pub const OUT: &str = "brownout.out";

pub fn run(arguments: &CheckArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.patterns)?;
    let out = arguments.out.clone().or_else(|| settings.out.clone());
    let out = out.unwrap_or_else(|| PathBuf::from(OUT));
    let results = (out.as_path(), Stay::Kept);
    check(arguments, &settings, results, Stream::Error, console)
}

/// Whether the directory with the results is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Kept,
    /// It is removed before the command ends.
    Removed,
}

/// Records, lints, tests crashes if there is a recovery, then writes and prints the results. `stream` is where a person
/// reads them.
pub fn check(
    arguments: &CheckArgs,
    settings: &Settings,
    (out, stay): (&Path, Stay),
    stream: Stream,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let options = settings.crash.complete(&arguments.crash);
    let mut plan = Plan::new(&options, &settings.patterns)?;
    if let (Some(plan), Some(program)) = (&mut plan, arguments.recording.command.first()) {
        plan.resolve_functions(&program_file(Path::new(program)))?;
    }
    let decisions = Decisions::read(settings)?;
    let mut directory = OutputDirectory::claim(out)?;
    let recorded = record::record(
        &RecordArgs {
            patterns: settings.patterns.clone(),
            output: directory.unfinished_trace(),
            recording: recording(arguments, settings, plan.as_ref()),
        },
        console,
    );
    let recording = match recorded {
        Ok(recording) => recording,
        Err(failure) => {
            directory.abandon();
            return Err(failure);
        }
    };
    let linted = lint(&directory.unfinished_trace(), settings, console);
    directory.keep_trace()?;
    let lint_run = linted?;
    directory.write_run_file(&lint_run.subject, &RulesInForce::chosen(settings))?;
    let mut results = Results {
        subject: lint_run.subject,
        findings: lint_run.findings,
    };
    let failed = failed(&recording, console);
    let mut not_tried = None;
    if let (Some(plan), None) = (&plan, &lint_run.nothing_persistent) {
        if failed.is_some() {
            console.remark("the run failed, so crashes are not tested");
        } else {
            match try_crashes(plan, &mut results, &directory, settings, console) {
                Ok(refused) => not_tried = refused.map(Ok),
                // The findings of lint are still reported.
                Err(failure) => not_tried = Some(Err(failure)),
            }
        }
    }
    let shown = match lint_run.nothing_persistent {
        None => Shown::To(stream),
        Some(_) => Shown::ToNobody,
    };
    let code = results.conclude(decisions, settings, &directory, shown, console)?;
    if stay == Stay::Kept {
        directory.announce(console);
    }
    if let Some(code) = failed {
        return Ok(code);
    }
    if let Some(why) = lint_run.nothing_persistent {
        console.warn(why);
        return Ok(ExitCode::NothingPersistent);
    }
    match not_tried {
        None => Ok(code),
        Some(Err(failure)) => Err(failure),
        Some(Ok(refused)) => {
            console.warn(refused.why);
            Ok(refused.code)
        }
    }
}

/// Tests crashes of the recorded run, and adds the findings to the results.
fn try_crashes(
    plan: &Plan,
    results: &mut Results,
    directory: &OutputDirectory,
    settings: &Settings,
    console: &Console,
) -> Result<Option<Refused>, Failure> {
    let mut trace = TraceFile::open(&directory.file(TRACE))?;
    match crash_test(&mut trace, plan, directory, console)? {
        Ok(test) => {
            console.remark(test.summary);
            results.add(settings.levels.apply(test.findings), test.gaps, console);
            Ok(None)
        }
        Err(refused) => Ok(Some(refused)),
    }
}

/// Recording options, including the functions that crash testing needs watched.
fn recording(arguments: &CheckArgs, settings: &Settings, plan: Option<&Plan>) -> RecordingArgs {
    let mut recording = arguments.recording.clone();
    recording.loads |= settings.loads;
    if let Some(plan) = plan {
        let scope = &plan.scope;
        for function in [&scope.operation, &scope.after].into_iter().flatten() {
            if !recording.watched.contains(function) {
                recording.watched.push(function.clone());
            }
        }
    }
    recording
}

/// The exit code of a check that did not record a complete and successful run.
fn failed(recording: &Recording, console: &Console) -> Option<ExitCode> {
    // The reason was printed when it happened. Nothing is known about the rest of the run.
    if !matches!(recording.stopped, None | Some(StopReason::Interrupted)) {
        return Some(ExitCode::Usage);
    }
    let how = match recording.end {
        ProcessEnd::Exited { status: 0 } => return None,
        ProcessEnd::Exited { status } => format!("exited with status {status}"),
        ProcessEnd::Signaled { signal } => format!("was killed by signal {signal}"),
    };
    console.warn(format_args!(
        "the program {how}; the findings are those of a failed run"
    ));
    Some(ExitCode::TargetFailed)
}
