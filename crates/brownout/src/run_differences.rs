//! What was done differently in two runs, as far as their results say.
//!
//! A difference counts only if the later run can miss something because of it: a run without filters tests what one with filters tests.
//! Directories are not compared, so that two checkouts can be, nor are the programs themselves, which change when a bug is fixed.
//!
//! Can miss: the environment, input files, and other state that the command reads.

use std::path::Path;

use brownout_crash::{TestConfiguration, journal};
use brownout_recovery::Recovery;
use brownout_report::{Hides, RunDifference};

use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::run_file::RunFile;

/// In what the later run differs, so that it need not show what the earlier one has shown.
pub fn run_differences(
    earlier: &OutputDirectory,
    later: &OutputDirectory,
) -> Result<Vec<RunDifference>, Failure> {
    let (before, after) = (earlier.run_file()?, later.run_file()?);
    let mut found = Vec::new();
    let mut add = |hides, text: String| found.push(RunDifference::new(hides, text));
    if comparable_command(&before) != comparable_command(&after) {
        let [now, was] = [&after, &before].map(|run| format!("`{}`", run.command.join(" ")));
        add(Hides::AnyFinding, changed("the command", now, was));
    }
    match (&before.model, &after.model) {
        (Some(was), Some(now)) if was == now => {}
        (Some(was), Some(now)) => add(Hides::AnyFinding, changed("the model", now, was)),
        _ => {
            let text = "the results do not say for which model the runs were linted";
            add(Hides::AnyFinding, text.to_owned());
        }
    }
    if before.pm != after.pm {
        let text = "other files count as persistent memory (`--pm`)";
        add(Hides::AnyFinding, text.to_owned());
    }
    let (Some(_), Some(coverage)) = (&before.conclusion.crash, &after.conclusion.crash) else {
        // Without crash tests, their rules are not applied.
        return Ok(found);
    };
    let mut texts = match (configuration(earlier), configuration(later)) {
        (Ok(before), Ok(after)) => crash_differences(&before, &after),
        (Err(why), _) | (_, Err(why)) => vec![why],
    };
    if coverage.limit_reached {
        texts.push("the later run reached its time limit".to_owned());
    }
    texts.retain(|text| found.iter().all(|known| known.text != *text));
    let of_crashes = texts.into_iter();
    found.extend(of_crashes.map(|text| RunDifference::new(Hides::CrashFindings, text)));
    Ok(found)
}

/// The command; arguments that are persistent files are replaced by their numbers, because each run may use a new one.
fn comparable_command(run: &RunFile) -> Vec<String> {
    let directory = Path::new(run.directory.as_deref().unwrap_or("/"));
    let number = |argument: &str| {
        let path = directory.join(argument);
        let mut files = run.files.iter();
        files.position(|file| Path::new(&file.path) == path)
    };
    let arguments = run.command.iter().map(|argument| match number(argument) {
        Some(number) => format!("{{pm {number}}}"),
        None => argument.clone(),
    });
    arguments.collect()
}

/// How crashes were tested; an error in words.
fn configuration(directory: &OutputDirectory) -> Result<TestConfiguration, String> {
    let path = directory.file(JOURNAL);
    let unknown = |why: String| {
        format!(
            "`{}` does not say how crashes were tested: {why}",
            path.display()
        )
    };
    match journal::read(&path) {
        Ok(Some(entries)) => Ok(entries.head.configuration),
        Ok(None) => Err(unknown("it is missing or empty".to_owned())),
        Err(error) => Err(unknown(error.to_string())),
    }
}

fn crash_differences(before: &TestConfiguration, after: &TestConfiguration) -> Vec<String> {
    let mut found = Vec::new();
    if before.strategy.name != after.strategy.name {
        let (now, was) = (&after.strategy.name, &before.strategy.name);
        found.push(changed("the strategy", now, was));
    } else if before.strategy != after.strategy {
        found.push(changed("the strategy", &after.strategy, &before.strategy));
    }
    if before.profile != after.profile {
        found.push(changed("the model", &after.profile, &before.profile));
    }
    if before.recovery.command != after.recovery.command {
        let (now, was) = (&after.recovery.command, &before.recovery.command);
        found.push(format!("recovery changed from `{was}` to `{now}`"));
    } else if before.recovery != in_directory_of(&before.recovery, &after.recovery) {
        found.push("the client, the limits or other options of recovery differ".to_owned());
    }
    let options = [
        (
            before.expected != after.expected,
            "other output of recovery is expected",
        ),
        (
            before.time_limit != after.time_limit,
            "the time limit of a recovery differs",
        ),
        (
            before.patterns != after.patterns,
            "crash images have other files (`--pm`)",
        ),
        (
            selects_other_points(before, after),
            "crashes are tried at fewer or other failure points",
        ),
        (
            before.tearing != after.tearing,
            "only one run tests torn stores (`--tearing`)",
        ),
        (after.depth < before.depth, "`--depth` is lower"),
    ];
    let differing = options.into_iter().filter(|(differs, _)| *differs);
    found.extend(differing.map(|(_, text)| text.to_owned()));
    found
}

/// Whether the later test leaves out failure points that the earlier one has tried.
fn selects_other_points(before: &TestConfiguration, after: &TestConfiguration) -> bool {
    let is_filtered = |test: &TestConfiguration| {
        test.after.is_some() || !test.operations.is_empty() || !test.within.is_empty()
    };
    let filters = |test: &TestConfiguration| {
        let TestConfiguration {
            after,
            operations,
            within,
            ..
        } = test.clone();
        (after, operations, within)
    };
    is_filtered(after) && filters(after) != filters(before)
        || before.granularity != after.granularity
        || before.from_start && !after.from_start
        || after.occurrences < before.occurrences
}

/// The recovery as if it ran in the directory of `other`.
fn in_directory_of(other: &Recovery, recovery: &Recovery) -> Recovery {
    Recovery {
        directory: other.directory.clone(),
        ..recovery.clone()
    }
}

fn changed(what: &str, now: impl std::fmt::Display, was: impl std::fmt::Display) -> String {
    format!("{what} changed from {was} to {now}")
}
