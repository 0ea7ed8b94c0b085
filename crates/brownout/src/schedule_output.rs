//! What `--schedule` says about a recording: what the seed does not determine, and whether two recordings are the same.

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
    let index = difference.index();
    let what = match difference {
        Difference::Event(_) => "differs from",
        Difference::End(_) => "does not end where the events end of",
    };
    console.warn(format_args!(
        "the recording {what} `{}`, first at event {index}:\n  there: {}\n  here:  {}",
        earlier.display(),
        event_line(earlier, index)?,
        event_line(new, index)?
    ));
    Ok(false)
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
