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
use crate::shortfall::{Shortfall, conclude};

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
    let mut shortfalls = Vec::new();
    if let Some(reason) = lint_run.nothing_persistent {
        let code = ExitCode::NothingTested;
        shortfalls.push(Shortfall { code, reason });
    }
    if let Some(damage) = lint_run.trace.damage() {
        let (code, reason) = (damage.exit_code(), damage.sentence());
        shortfalls.push(Shortfall { code, reason });
    }
    let (code, conclusion) = conclude(&report, &shortfalls, Vec::new());
    report.conclusion = conclusion;
    finding_output::print(&report, &settings, Stream::Output)?;
    // Damage is reported last, where it is noticed.
    for shortfall in shortfalls
        .iter()
        .filter(|found| found.code == ExitCode::NothingTested)
    {
        console.warn(&shortfall.reason);
    }
    lint_run.trace.conclude(console)?;
    Ok(code)
}
