//! `brownout lint`: applies the rules to a trace.

use crate::arguments::LintArgs;
use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run::lint;
use crate::output_directory::OutputDirectory;
use crate::results::{FindingsOf, Results};
use crate::settings::Settings;

pub fn run(arguments: &LintArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.selection.patterns, console)?;
    let decisions = Decisions::read(&settings)?;
    // Before the work of linting, and before a trace that is in the directory is read.
    let directory = arguments.out.as_deref().map(OutputDirectory::claim);
    let mut directory = directory.transpose()?;
    let lint_run = lint(&arguments.trace, &settings, console)?;
    let mut results = Results::new(lint_run.subject, lint_run.findings);
    results.wrappers = lint_run.wrappers;
    results.tested(lint_run.tested);
    if let Some(directory) = &mut directory {
        let trace = lint_run.trace.path();
        results.keep(directory, trace, FindingsOf::CrashTesting)?;
        directory.set_trace(trace);
    }
    results.shortfalls.extend(lint_run.trace.shortfall());
    results.note(lint_run.trace.notes());
    if let Some(why) = lint_run.nothing_persistent {
        results.fall_short(ExitCode::NothingTested, why);
    }
    let directory = directory.as_ref();
    let concluded = results.conclude(decisions, &settings, directory, Stream::Output, console)?;
    if let Some(directory) = directory {
        directory.announce(concluded.next.as_deref(), console);
    }
    Ok(concluded.code)
}
