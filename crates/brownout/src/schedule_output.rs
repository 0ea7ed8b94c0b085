//! What `--schedule` says about a recording: what the seed does not determine, and whether two recordings are the same.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use brownout_engine::ScheduledRun;
use brownout_trace::{Difference, EventIndex, TraceReader, first_difference};

use crate::console::Console;
use crate::event_text::EventText;
use crate::failure::Failure;
use crate::quantity::number_of;

/// Warns of a deadlock, and of what can make another recording with the same schedule differ.
pub fn report(scheduled: Option<&ScheduledRun>, console: &Console) {
    let Some(run) = scheduled else { return };
    let schedule = run.schedule;
    if let Some(deadlock) = run.deadlock {
        console.warn(deadlock);
    }
    if run.unpinned.is_empty() {
        return;
    }
    let unpinned: Vec<String> = run.unpinned.iter().map(ToString::to_string).collect();
    console.warn(format_args!(
        "schedule {schedule} does not determine what the program uses: {}; another recording with it may differ",
        unpinned.join("; ")
    ));
}

/// Whether two recordings have the same events. Says so, or where they first differ.
pub fn compare(
    (earlier, new): (&Path, &Path),
    scheduled: Option<&ScheduledRun>,
    console: &Console,
) -> Result<bool, Failure> {
    let unreadable = |source| Failure::trace(earlier, source);
    let (mut one, mut other) = (open(earlier)?, open(new)?);
    let found = first_difference(&mut one, &mut other).map_err(unreadable)?;
    let Some(difference) = found else {
        let steps = scheduled.map_or(0, |run| run.steps);
        console.remark(format_args!(
            "the same events as in `{}` ({}, {} of threads)",
            earlier.display(),
            number_of(one.position().0, "event"),
            number_of(steps, "step")
        ));
        return Ok(true);
    };
    let options = other_options(&one, &other);
    if !options.is_empty() {
        console.warn(format_args!(
            "`{}` was recorded with other options, so that the events cannot be compared: {}",
            earlier.display(),
            options.join("; ")
        ));
        return Ok(false);
    }
    let index = difference.index();
    let what = match difference {
        Difference::Event(_) => "differs from",
        Difference::End(_) => "has a different number of events than",
    };
    console.warn(format_args!(
        "the recording {what} `{}`, first at event {index}:\n  there: {}\n  here:  {}",
        earlier.display(),
        event_line(earlier, index)?,
        event_line(new, index)?
    ));
    Ok(false)
}

/// What one recording has by its options and the other does not, one phrase each. Options also decide what counts as a step, and
/// so the order of threads.
fn other_options(earlier: &TraceReader<File>, new: &TraceReader<File>) -> Vec<String> {
    let loads =
        |trace: &TraceReader<File>| match (trace.header().loads, trace.header().shared_loads) {
            (true, _) => "all loads",
            (false, true) => "the loads that threads share",
            (false, false) => "no loads",
        };
    let mut phrases = Vec::new();
    if loads(earlier) != loads(new) {
        phrases.push(format!(
            "the earlier one contains {}, this one {}",
            loads(earlier),
            loads(new)
        ));
    }
    // Without loads, the functions are not recorded that only races need.
    let has_other_loads = !phrases.is_empty();
    let is_due_to_loads = |name: &str| {
        let mut functions = brownout_race::watched_functions();
        has_other_loads && functions.any(|function| function.name == name)
    };
    let functions = |trace: &TraceReader<File>| -> BTreeSet<String> {
        let functions = trace.definitions().functions().map(|(_, name)| name);
        let functions = functions.filter(|name| !is_due_to_loads(name));
        functions.map(str::to_owned).collect()
    };
    let (there, here) = (functions(earlier), functions(new));
    for (which, one, other) in [
        ("only the earlier one records", &there, &here),
        ("only this one records", &here, &there),
    ] {
        let names: Vec<&str> = one.difference(other).map(String::as_str).collect();
        if !names.is_empty() {
            phrases.push(format!("{which} calls of {}", listed(&names)));
        }
    }
    phrases
}

/// The first few names.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {}", number_of(more as u64, "other function")),
    }
}

fn open(path: &Path) -> Result<TraceReader<File>, Failure> {
    TraceReader::open(path).map_err(|source| Failure::trace(path, source))
}

/// An event as `brownout dump` shows it.
fn event_line(path: &Path, index: EventIndex) -> Result<String, Failure> {
    let unreadable = |source| Failure::trace(path, source);
    let mut reader = open(path)?;
    reader.seek(index).map_err(unreadable)?;
    let mut line = String::new();
    match reader.next_defined().map_err(unreadable)? {
        Some((event, definitions)) => {
            let thread = event.thread;
            let text = EventText {
                event: &event,
                definitions,
                full: false,
            };
            let _ = write!(line, "thread {thread}: {text}");
        }
        None => line.push_str("no event"),
    }
    Ok(line)
}
