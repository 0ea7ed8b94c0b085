//! `brownout crash`: tests crashes of a recorded run with the target's own recovery.

use std::path::Path;

use crate::arguments::{CrashArgs, crash_options};
use crate::console::Console;
use crate::crash_test::{
    Plan, RecordedBy, check_resumable, check_selectable, crash_test, program_file,
};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run;
use crate::output_directory::OutputDirectory;
use crate::recovery_context::RecoveryContext;
use crate::results::Results;
use crate::settings::Settings;
use crate::target_outcome;
use crate::trace_file::TraceFile;
use crate::unrecorded_changes::unrecorded_changes;

pub fn run(arguments: &CrashArgs, console: &Console) -> Result<ExitCode, Failure> {
    // Results about the trace of a results directory belong into this directory.
    let trace = arguments.trace.as_path();
    let beside = trace.is_dir().then_some(trace);
    let (mut settings, out) = Settings::with_out(
        arguments.out.as_deref().or(beside),
        &arguments.findings,
        &arguments.selection.patterns,
        console,
    )?;
    settings.accept_ends(&arguments.target_success, &arguments.trace)?;
    let options = settings.crash.complete(&arguments.crash);
    let mut plan = Plan::new(&options, &settings)?.ok_or(Failure::NoRecovery)?;
    plan.set_resume(arguments.resume)?;
    plan.recorded_by = RecordedBy::AnEarlierCommand;
    if let Some(shard) = arguments.shard {
        check_selectable(plan.strategy, "--shard")?;
        if plan.memory.is_some() {
            // It may be in the configuration file.
            return Err(Failure::MemoryOfPart);
        }
        plan.shard = shard;
    }
    let decisions = Decisions::read(&settings)?;
    let mut trace = TraceFile::open(&arguments.trace)?;
    if let Some(program) = trace.header().command.first() {
        let program = program_file(Path::new(program));
        plan.resolve_functions(&trace.header().cwd.join(program))?;
    }
    let mut directory = OutputDirectory::claim(&out)?;
    if plan.resume {
        // Before anything of the earlier test is replaced.
        check_resumable(&directory, &trace, &plan)?;
    }
    let examined = lint_run::examine(trace.path(), &settings, console)?;
    let suspects = match plan.strategy.tries_suspects {
        true => examined.suspects,
        false => Vec::new(),
    };
    let mut results = Results::about(&trace, &settings);
    results.subject.files = examined.subject.files;
    results.subject.crash_options = crash_options(&arguments.crash, &arguments.findings.config);
    results.subject.not_judged = examined.subject.not_judged;
    results.wrappers = examined.wrappers;
    results.better_profile = examined.better_profile;
    results.recovery = Some(plan.recovery.command.clone());
    results.keep_trace_analyses(&directory, trace.path(), &examined.findings)?;
    let has_results = directory.has_results();
    directory.set_trace(trace.path());
    let begin = || {
        results.write_unfinished(&decisions, &settings, &directory, "testing crashes")?;
        // When nothing refers to it any more.
        if !plan.resume {
            directory.discard_journal();
        }
        directory.write_recovery_context(&RecoveryContext::here(&plan.expected))
    };
    if !has_results {
        // The directory belongs to brownout, even if the test fails.
        begin()?;
    }
    let suspected = (&suspects[..], &examined.suspected_stores);
    let tested = crash_test(&mut trace, &plan, suspected, &directory, &begin, console);
    // Damage first: it may be the reason of everything else.
    let tested = tested.map_err(|failure| trace.damage().unwrap_or(failure))?;
    results.shortfalls.extend(trace.shortfall());
    let failed = target_outcome::recorded_failure(&trace, &settings.target_success);
    results.shortfalls.extend(failed);
    results.note_unmatched(examined.unmatched_patterns, &settings);
    results.note(trace.notes());
    let compared = unrecorded_changes(&trace, &plan.patterns, console)?;
    results.compared(compared, console);
    results.add_crash_test(tested, &suspects, &settings, console);
    let directory = Some(&directory);
    results.conclude(decisions, &settings, directory, Stream::Output, console)
}
