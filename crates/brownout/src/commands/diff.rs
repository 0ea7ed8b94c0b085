//! `brownout diff`: compares the findings of two runs.

use std::io::Write as _;

use brownout_report::{Baseline, ChangeLines, Conclusion, FindingChanges, Report, Sources};

use crate::arguments::{DiffArgs, Format};
use crate::console::{self, Console};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Detail, Stream};
use crate::output_directory::OutputDirectory;
use crate::run_differences::run_differences;
use crate::stored_results::read_report;

pub fn run(arguments: &DiffArgs, console: &Console) -> Result<ExitCode, Failure> {
    let sources = Sources::on_disk();
    let (earlier, before) = read_report(&arguments.before)?;
    let (later, mut after) = read_report(&arguments.after)?;
    if let Some(fail_on) = arguments.fail_on {
        after.fail_on = fail_on;
    }
    for (path, report) in [(&arguments.before, &before), (&arguments.after, &after)] {
        for reason in report.conclusion.reasons.texts() {
            console.warn(format_args!("{}: {reason}", path.display()));
        }
    }
    let differences = run_differences(&earlier, &later)?;
    for difference in &differences {
        console.warn(format_args!("the runs differ: {}", difference.text));
    }
    let conclusion = after.conclusion.clone();
    let known_before = baseline(&earlier, &before, &sources)?;
    let known_after = baseline(&later, &after, &sources)?;
    let changes = FindingChanges::between(
        (before, &known_before),
        (after, &known_after),
        &differences,
        &sources,
    );
    let mut text = Vec::new();
    match arguments.format {
        Format::Human => {
            let detail = Detail {
                verbose: arguments.verbose,
                suppressed: false,
                all: arguments.all,
            };
            let human = finding_output::human(detail, Some(&later), Stream::Output);
            human.write_changes(&changes, &mut text)
        }
        Format::Json => ChangeLines.write(&changes, &mut text),
    }
    .map_err(Failure::Output)?;
    let mut out = console::results();
    out.write_all(&text)
        .and_then(|()| out.flush())
        .map_err(Failure::Output)?;
    Ok(exit_code(&changes, &conclusion))
}

/// Findings in both do not count, but what was not tested does.
fn exit_code(changes: &FindingChanges, conclusion: &Conclusion) -> ExitCode {
    let mut undecided = changes.undecided.iter();
    if changes.new.fails() {
        ExitCode::BugsFound
    } else if !conclusion.is_conclusive() {
        match conclusion.exit_code.and_then(ExitCode::from_number) {
            Some(ExitCode::Success | ExitCode::BugsFound) => ExitCode::NothingTested,
            Some(code) => code,
            None => ExitCode::Usage,
        }
    } else if undecided.any(|(_, report)| report.fails()) {
        ExitCode::NothingTested
    } else {
        ExitCode::Success
    }
}

/// The baseline that was written with the results; that of the findings if an earlier version of brownout wrote none.
fn baseline(
    directory: &OutputDirectory,
    report: &Report,
    sources: &Sources,
) -> Result<Baseline, Failure> {
    let written = directory.baseline()?;
    Ok(written.unwrap_or_else(|| {
        let alone = report.clone().separated();
        Baseline::of(alone.findings(), sources)
    }))
}
