//! `brownout race`: looks for persistency-induced races in a trace.

use brownout_report::{Reason, ReasonKind};

use crate::arguments::RaceArgs;
use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::output_directory::{self, OutputDirectory};
use crate::race_run::race;
use crate::results::{Results, subject};
use crate::settings::Settings;
use crate::target_outcome;
use crate::trace_file::TraceFile;

pub fn run(arguments: &RaceArgs, console: &Console) -> Result<ExitCode, Failure> {
    if let Some(out) = &arguments.out {
        output_directory::plan(out);
    }
    let patterns = &arguments.selection.patterns;
    let mut settings = Settings::new(&arguments.findings, patterns, console)?;
    settings.accept_ends(&arguments.target_success, &arguments.trace)?;
    let decisions = Decisions::read(&settings)?;
    // Before the work, and before a trace that is in the directory is read.
    let directory = arguments.out.as_deref().map(OutputDirectory::claim);
    let mut directory = directory.transpose()?;
    let mut trace = TraceFile::open(&arguments.trace)?;
    let run = race(&mut trace, &settings, !arguments.no_init_removal, console)?;
    let gaps = trace.incomplete_reason().into_iter().collect();
    let mut results = Results::new(subject(&trace, &settings, gaps), Vec::new());
    if let Some(directory) = &mut directory {
        results.keep_all_but_races(directory, trace.path())?;
        directory.set_trace(trace.path());
    }
    results.shortfalls.extend(trace.shortfall());
    let failed = target_outcome::recorded_failure(&trace, &settings.target_success);
    results.shortfalls.extend(failed);
    results.note(trace.notes());
    if let Some(why) = &run.nothing_persistent {
        let reason = Reason::new(ReasonKind::NothingPersistent, why);
        results.fall_short(ExitCode::NothingTested, reason);
    } else if let Some(why) = &run.untested {
        let reason = Reason::new(ReasonKind::NoRacesTested, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    results.add_races(run, console);
    let directory = directory.as_ref();
    results.conclude(decisions, &settings, directory, Stream::Output, console)
}
