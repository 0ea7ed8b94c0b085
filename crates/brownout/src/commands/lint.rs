//! `brownout lint`: applies the rules to a trace.

use brownout_report::{Reason, ReasonKind};

use crate::arguments::LintArgs;
use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run::lint;
use crate::output_directory::{self, OutputDirectory};
use crate::results::Results;
use crate::settings::Settings;
use crate::target_outcome;
use crate::unrecorded_changes::unrecorded_changes;

pub fn run(arguments: &LintArgs, console: &Console) -> Result<ExitCode, Failure> {
    if let Some(out) = &arguments.out {
        output_directory::plan(out);
    }
    let patterns = &arguments.selection.patterns;
    let mut settings = Settings::new(&arguments.findings, patterns, console)?;
    settings.accept_ends(&arguments.target_success, &arguments.trace)?;
    let decisions = Decisions::read(&settings)?;
    // Before the work of linting, and before a trace that is in the directory is read.
    let directory = arguments.out.as_deref().map(OutputDirectory::claim);
    let mut directory = directory.transpose()?;
    let run = lint(&arguments.trace, &settings, console)?;
    let mut results = Results::of_lint(run.subject, run.findings, run.wrappers, run.tested);
    results.better_profile = run.better_profile;
    if let Some(directory) = &mut directory {
        let trace = run.trace.path();
        results.keep_crash_test(directory, trace, &settings)?;
        results.keep_races(directory, trace)?;
        directory.set_trace(trace);
    }
    results.shortfalls.extend(run.trace.shortfall());
    let failed = target_outcome::recorded_failure(&run.trace, &settings.target_success);
    results.shortfalls.extend(failed);
    results.note_unmatched(run.unmatched_patterns, &settings);
    results.note(run.trace.notes());
    let compared = unrecorded_changes(&run.trace, &settings.patterns, console)?;
    results.compared(compared, console);
    if let Some(why) = run.nothing_persistent.or(run.nothing_stored) {
        let reason = Reason::new(ReasonKind::NothingPersistent, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    let directory = directory.as_ref();
    results.conclude(decisions, &settings, directory, Stream::Output, console)
}
