//! `brownout check`: record a program and examine what it did, all in one.

use std::path::{Path, PathBuf};

use brownout_engine::{Recording, StopReason};
use brownout_report::Report;
use brownout_trace::ProcessEnd;

use super::record;
use crate::arguments::{CheckArgs, RecordArgs, RecordingArgs};
use crate::console::Console;
use crate::examination::examine;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::rules;
use crate::settings::Settings;
use crate::verdict::{self, Decisions, Stream};

/// Where results go if nobody says otherwise.
const OUT: &str = "brownout.out";

pub fn run(arguments: &CheckArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &arguments.patterns)?;
    let out = arguments.out.clone().or_else(|| settings.out.clone());
    let out = out.unwrap_or_else(|| PathBuf::from(OUT));
    let results = (out.as_path(), Stay::Kept);
    check(arguments, &settings, results, Stream::Error, console)
}

/// What becomes of the directory with the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Kept,
    /// It is removed before anybody can look.
    Removed,
}

/// Records, examines, keeps and prints. `stream` is where a person looks.
pub fn check(
    arguments: &CheckArgs,
    settings: &Settings,
    (out, stay): (&Path, Stay),
    stream: Stream,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let decisions = Decisions::read(settings)?;
    let directory = OutputDirectory::claim(out)?;
    let recorded = record::record(
        &RecordArgs {
            patterns: settings.patterns.clone(),
            output: directory.unfinished_trace(),
            recording: RecordingArgs {
                loads: arguments.recording.loads || settings.loads,
                ..arguments.recording.clone()
            },
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
    let examined = examine(&directory.unfinished_trace(), settings, console);
    directory.keep_trace()?;
    let examination = examined?;
    let mut report = Report::new(
        examination.subject,
        rules::in_force(settings),
        examination.findings,
    );
    decisions.apply(&mut report, settings, console)?;
    verdict::write_all(&report, &directory)?;
    let nothing = examination.nothing_persistent;
    if nothing.is_none() {
        verdict::print(&report, settings, stream)?;
    }
    if stay == Stay::Kept {
        console.remark(format_args!(
            "results are in {}",
            directory.path().display()
        ));
    }
    if let Some(code) = failed(&recording, console) {
        return Ok(code);
    }
    if let Some(why) = nothing {
        console.warn(why);
        return Ok(ExitCode::NothingPersistent);
    }
    Ok(verdict::exit_code(&report))
}

/// How a check ends that could not see a whole and successful run.
fn failed(recording: &Recording, console: &Console) -> Option<ExitCode> {
    // Why was told when it happened. What was not seen may hold anything.
    if !matches!(recording.stopped, None | Some(StopReason::Interrupted)) {
        return Some(ExitCode::Usage);
    }
    let how = match recording.end {
        ProcessEnd::Exited { status: 0 } => return None,
        ProcessEnd::Exited { status } => format!("exited with status {status}"),
        ProcessEnd::Signaled { signal } => format!("was killed by signal {signal}"),
    };
    console.warn(format_args!(
        "the program {how}; what was found is of a run that failed"
    ));
    Some(ExitCode::TargetFailed)
}
