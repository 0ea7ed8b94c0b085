//! `brownout crash`: tests crashes of a recorded run with the target's own recovery.

use std::path::{Path, PathBuf};

use super::check::OUT;
use crate::arguments::CrashArgs;
use crate::console::Console;
use crate::crash_test::{Plan, RecordedBy, check_resumable, crash_test, program_file};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run;
use crate::output_directory::OutputDirectory;
use crate::results::{FindingsOf, Results};
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// Where the results go. Those about the trace of a results directory belong into this directory.
fn output(arguments: &CrashArgs, settings: &Settings) -> PathBuf {
    let trace = &arguments.trace;
    let beside = trace.is_dir().then(|| trace.clone());
    let out = arguments.out.clone().or(beside);
    out.or_else(|| settings.out.clone())
        .unwrap_or_else(|| PathBuf::from(OUT))
}

pub fn run(arguments: &CrashArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.selection.patterns, console)?;
    let options = settings.crash.complete(&arguments.crash);
    let mut plan = Plan::new(&options, &settings)?.ok_or(Failure::NoRecovery)?;
    plan.resume = arguments.resume;
    plan.recorded_by = RecordedBy::AnEarlierCommand;
    plan.shard = arguments.shard.unwrap_or_default();
    let decisions = Decisions::read(&settings)?;
    let mut trace = TraceFile::open(&arguments.trace)?;
    if let Some(program) = trace.header().command.first() {
        let program = program_file(Path::new(program));
        plan.resolve_functions(&trace.header().cwd.join(program))?;
    }
    let mut directory = OutputDirectory::claim(&output(arguments, &settings))?;
    if plan.resume {
        // Before anything of the earlier test is replaced.
        check_resumable(&directory, &trace, &plan)?;
    }
    let mut results = Results::about(&trace, &settings);
    results.keep(&directory, trace.path(), FindingsOf::TraceAnalyses)?;
    let has_results = directory.has_results();
    directory.set_trace(trace.path());
    let begin = || {
        results.write_unfinished(&decisions, &settings, &directory, "testing crashes")?;
        directory.write_environment()
    };
    if !has_results {
        // The directory belongs to brownout, even if the test fails.
        begin()?;
    }
    let suspects = match plan.strategy.tries_suspects {
        true => lint_run::suspects(trace.path(), &settings, console)?,
        false => Vec::new(),
    };
    let tested = crash_test(&mut trace, &plan, &suspects, &directory, begin, console);
    // Damage first: it may be the reason of everything else.
    let tested = tested.map_err(|failure| trace.damage().unwrap_or(failure))?;
    results.shortfalls.extend(trace.shortfall());
    results.note(trace.notes());
    results.add_crash_test(tested, &suspects, &settings, console);
    let concluded = results.conclude(
        decisions,
        &settings,
        Some(&directory),
        Stream::Output,
        console,
    )?;
    directory.announce(concluded.next.as_deref(), console);
    Ok(concluded.code)
}
