//! `brownout stat`: statistics of a trace.

mod behaviours;
mod census;
mod failure_points;
mod human;
mod json;
mod sites;
mod update_behaviours;

use std::io::Write as _;
use std::ops::ControlFlow;
use std::time::Duration;

use brownout_trace::selection::{Selection, Survey};
use brownout_trace::{Definitions, Header, Summary};

use crate::arguments::{Format, StatArgs};
use crate::console::{self, Console};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::stacks::StackTable;
use crate::trace_file::TraceFile;
use crate::unrecorded_changes::unrecorded_changes;
use census::Census;
use sites::{BusySite, SiteCounts};

/// The statistics to print.
struct Statistics<'a> {
    header: &'a Header,
    summary: Option<&'a Summary>,
    definitions: &'a Definitions,
    selection: Selection,
    census: Census,
    sites: Vec<BusySite>,
    /// Size of the trace.
    bytes: u64,
    /// Why the trace does not contain the whole run, if it does not.
    incomplete: Option<String>,
}

impl Statistics<'_> {
    fn bytes_per_event(&self) -> Option<f64> {
        let events = self.census.counts().total();
        (events > 0).then(|| self.bytes as f64 / events as f64)
    }

    fn wall(&self) -> Option<Duration> {
        self.summary?.ending.wall
    }

    fn cpu(&self) -> Option<Duration> {
        self.summary?.ending.cpu
    }

    fn events_per_second(&self) -> Option<f64> {
        let seconds = self.wall()?.as_secs_f64();
        (seconds > 0.0).then(|| self.census.counts().total() as f64 / seconds)
    }
}

pub fn run(arguments: &StatArgs, console: &Console) -> Result<ExitCode, Failure> {
    if arguments.failure_points {
        return failure_points::run(arguments, console);
    }
    if arguments.behaviours {
        return behaviours::run(arguments, console);
    }
    let mut trace = TraceFile::open(&arguments.trace)?;
    let patterns = trace.patterns(&arguments.selection.patterns)?;
    let mut survey = Survey::default();
    let mut census = Census::default();
    let mut stacks = StackTable::new(&trace.header().cwd);
    let mut counts = SiteCounts::default();
    let mut progress = console.progress("reading", Some(trace.events()));
    trace.walk(&mut progress, |event, definitions| {
        survey.observe(event, definitions);
        census.observe(event, definitions);
        stacks.observe(event);
        counts.observe(event, definitions, &mut stacks);
        Ok(ControlFlow::Continue(()))
    })?;
    drop(progress);
    let given = &arguments.selection.patterns;
    let compared = unrecorded_changes(&trace, given, console)?;
    for note in compared.changed.iter().chain(&compared.gap) {
        census.note(note);
    }

    let definitions = trace.definitions();
    let statistics = Statistics {
        header: trace.header(),
        summary: trace.summary(),
        definitions,
        selection: survey.select(definitions, patterns.as_ref()),
        census,
        sites: counts.busiest(arguments.top, &mut stacks),
        bytes: trace.byte_len(),
        incomplete: trace.incomplete_reason(),
    };
    let code = trace.report_missing(console);
    let mut out = console::results();
    match arguments.format {
        Format::Human => human::print(&statistics, &mut out),
        Format::Json => json::print(&statistics, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)?;
    for problem in stacks.problems() {
        console.warn(problem);
    }
    Ok(code)
}
