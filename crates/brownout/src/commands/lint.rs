//! `brownout lint`: applies the rules to a trace.

use brownout_report::Report;

use crate::arguments::LintArgs;
use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Stream};
use crate::lint_run::lint;
use crate::rules;
use crate::settings::Settings;

pub fn run(arguments: &LintArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.selection.patterns)?;
    let decisions = Decisions::read(&settings)?;
    let lint_run = lint(&arguments.trace, &settings, console)?;
    let mut report = Report::new(
        lint_run.subject,
        rules::in_force(&settings),
        lint_run.findings,
    );
    report.fail_on = settings.fail_on;
    decisions.apply(&mut report, &settings, console)?;
    let nothing = lint_run.nothing_persistent;
    if nothing.is_none() {
        finding_output::print(&report, &settings, Stream::Output)?;
    }
    // A damaged trace is reported last, where it is noticed.
    lint_run.trace.conclude(console)?;
    if let Some(why) = nothing {
        console.warn(why);
        return Ok(ExitCode::NothingPersistent);
    }
    Ok(finding_output::exit_code(&report))
}
