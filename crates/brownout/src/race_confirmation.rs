//! Forces the races that were found: the program is run again, in a sandbox and from the files with which the recorded run started,
//! and the storing thread is held between its store and its persist.
//!
//! If another thread then reads the store, and makes something durable or sends something out, a crash at that instant leaves the effect
//! without its reason. The crash image lacks exactly what the held thread had stored; recovery is run on it if there is one.
//!
//! Can miss: programs that do something else when they run again, because of the time, the network or their standard input, which
//! is empty; races whose threads do not meet within the time limits.

mod code_stack;
mod forced_code;
mod forced_run;
mod forcing_outcome;
mod hold_choice;
mod lost_store;

pub use code_stack::{code_location, code_stack};

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use brownout_crash::{CrashError, PersistentFiles, RecordedRun, StartingContents};
use brownout_recovery::{Expectation, Recovery, RecoveryRunner, Sandbox, SandboxServerCommand};
use brownout_trace::replay::Content;

use crate::arguments::SERVE_SANDBOX;
use crate::console::Console;
use crate::crash_test::{CrashTestMonitor, Plan, shell_word};
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::quantity::number_of;
use crate::race_run::RaceRun;
use crate::settings::Settings;
use crate::trace_file::TraceFile;
use forced_run::{ForcedRun, TargetAgain};
use forcing_outcome::ForcingOutcome;
use hold_choice::choose_holds;

/// How long all races together are tried, unless the user says otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How races are forced.
pub struct Confirmation<'a> {
    /// The recovery that is run on crash images, if there is one.
    pub plan: Option<&'a Plan>,
    /// How long all races together are tried.
    pub time_limit: Duration,
    /// Where the traces of forced races are kept, so that they can be replayed.
    pub directory: Option<&'a OutputDirectory>,
    /// The environment of the recorded run, if it is known.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

impl Confirmation<'_> {
    fn server(&self) -> SandboxServerCommand {
        let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
        match &self.environment {
            Some(environment) => server.with_environment(environment.clone()),
            None => server,
        }
    }
}

/// Forces the races of a run, and notes in its findings what that has shown.
pub fn confirm(
    trace: &mut TraceFile,
    run: &mut RaceRun,
    settings: &Settings,
    how: &Confirmation<'_>,
    console: &Console,
) -> Result<(), Failure> {
    if let Some(directory) = how.directory {
        directory.remove_forced_traces();
    }
    if run.races.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    let holds = choose_holds(trace, run, settings, console)?;
    let selection = trace.select(&settings.patterns, console)?;
    let recorded = RecordedRun::new(trace.path(), selection);
    let mut monitor = CrashTestMonitor::new(None, console);
    monitor.begin_reading(trace.events());
    let files = recorded.files(&mut monitor)?;
    monitor.begin_reading(trace.events());
    let starts = recorded.starting_contents(&files, &mut monitor)?;
    drop(monitor);
    let mut target = TargetAgain {
        runner: target_runner(trace, &files, how)?,
        images: starting_images(&starts),
        unknown: starts.incomplete(&files).map(Path::to_owned).collect(),
        command: trace.header().command.clone(),
        patterns: trace.header().pm.clone(),
        recorded_wall: trace
            .summary()
            .and_then(|summary| summary.ending.wall)
            .unwrap_or_default(),
    };
    let mut progress = console.progress("forcing races", Some(holds.len() as u64));
    let mut outcomes = Vec::new();
    for (number, (finding, hold)) in holds.into_iter().enumerate() {
        progress.step(number as u64);
        let left = how.time_limit.saturating_sub(started.elapsed());
        let outcome = match hold {
            Err(why) => ForcingOutcome::NotForced(why),
            Ok(_) if left.is_zero() => ForcingOutcome::NotForced(
                "not tried: the time limit was reached; raise --confirm-time-limit".to_owned(),
            ),
            Ok(hold) => {
                let forced = ForcedRun::new(&hold, &finding, settings, how);
                forced.judge(&mut target, left, console)?
            }
        };
        outcomes.push((finding, outcome));
    }
    drop(progress);
    forcing_outcome::apply(outcomes, how.plan.is_some(), run);
    Ok(())
}

/// A runner whose sandbox runs the program itself.
fn target_runner(
    trace: &TraceFile,
    files: &PersistentFiles,
    how: &Confirmation<'_>,
) -> Result<RecoveryRunner, Failure> {
    let header = trace.header();
    let program = header.command.first();
    let program = program.map_or_else(String::new, |program| program.to_string_lossy().into());
    let target = Recovery::new(shell_word(&program), &header.cwd);
    let sandbox =
        Sandbox::start(&how.server(), &target, files.paths()).map_err(CrashError::from)?;
    Ok(RecoveryRunner::new(sandbox, target, Expectation::Anything))
}

/// What the persistent files may have been when the run started, in the order in which it is tried. The trace does not say whether a file
/// existed whose content was zero when it was mapped: probably the program had just created it.
pub fn starting_images(starts: &StartingContents) -> Vec<Vec<Option<Content>>> {
    let contents = starts.files().map(|start| Some(start?.content.clone()));
    let contents: Vec<Option<Content>> = contents.collect();
    let is_zero = |content: &Content| content.pages().next().is_none();
    let without_new: Vec<Option<Content>> = contents
        .iter()
        .map(|content| content.clone().filter(|content| !is_zero(content)))
        .collect();
    let differ = contents.iter().zip(&without_new);
    let differ = differ
        .into_iter()
        .any(|(one, other)| one.is_some() != other.is_some());
    match differ {
        true => vec![without_new, contents],
        false => vec![contents],
    }
}

/// What forcing races has shown, in a sentence.
fn summary(confirmed: usize, reproduced: usize, of: usize, has_recovery: bool) -> String {
    let all = number_of(of as u64, "race");
    let forced = format!("{reproduced} of {all} could be forced");
    match has_recovery {
        true => format!("{forced}; recovery fails because of {confirmed}"),
        false => forced,
    }
}
