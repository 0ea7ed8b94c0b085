//! `brownout lint`: the rules over a trace.

use brownout_report::Report;

use crate::arguments::LintArgs;
use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Stream};
use crate::lint_run::examine;
use crate::rules;
use crate::settings::Settings;

pub fn run(arguments: &LintArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.selection.patterns)?;
    let decisions = Decisions::read(&settings)?;
    let examination = examine(&arguments.trace, &settings, console)?;
    let mut report = Report::new(
        examination.subject,
        rules::in_force(&settings),
        examination.findings,
    );
    decisions.apply(&mut report, &settings, console)?;
    let nothing = examination.nothing_persistent;
    if nothing.is_none() {
        finding_output::print(&report, &settings, Stream::Output)?;
    }
    // A damaged trace is told last, where it is seen.
    examination.trace.conclude(console)?;
    if let Some(why) = nothing {
        console.warn(why);
        return Ok(ExitCode::NothingPersistent);
    }
    Ok(finding_output::exit_code(&report))
}
