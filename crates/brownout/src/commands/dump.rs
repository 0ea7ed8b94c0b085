//! `brownout dump`: prints the events of a trace, one per line.

use std::io::{self, Write};
use std::ops::ControlFlow;

use brownout_trace::{Definitions, Event, EventIndex};

use crate::arguments::{DumpArgs, Format};
use crate::console::{self, Console};
use crate::event_json;
use crate::event_text::EventText;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::stacks::StackTable;
use crate::terminal_text::FrameText;
use crate::trace_file::TraceFile;

pub fn run(arguments: &DumpArgs, console: &Console) -> Result<ExitCode, Failure> {
    let mut trace = TraceFile::open(&arguments.trace)?;
    let mut stacks = StackTable::new(&trace.header().cwd);
    let mut out = console::results();
    check_range(arguments, &trace)?;
    trace.seek(EventIndex(arguments.from))?;
    let last = arguments.to.min(trace.events().saturating_sub(1));
    let mut progress = console.progress_beside_output("printing", Some(last));
    trace.walk(&mut progress, |event, definitions| {
        if event.index.0 > arguments.to {
            return Ok(ControlFlow::Break(()));
        }
        stacks.observe(event);
        if matches_filters(arguments, event) {
            print(arguments, event, definitions, &mut stacks, &mut out).map_err(Failure::Output)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush().map_err(Failure::Output)?;
    drop(progress);
    for problem in stacks.problems() {
        console.warn(problem);
    }
    Ok(trace.report_missing(console))
}

/// The first event must be in the trace; any number is good for the last.
fn check_range(arguments: &DumpArgs, trace: &TraceFile) -> Result<(), Failure> {
    let (from, events) = (arguments.from, trace.events());
    if from > arguments.to {
        return Err(Failure::EmptyRange {
            from,
            to: arguments.to,
        });
    }
    if from > 0 && from >= events {
        return Err(Failure::NoSuchEvent {
            path: trace.path().to_owned(),
            event: EventIndex(from),
            events,
        });
    }
    Ok(())
}

fn matches_filters(arguments: &DumpArgs, event: &Event<'_>) -> bool {
    let DumpArgs { kinds, threads, .. } = arguments;
    let kind = event.kind.class();
    let by_kind = kinds.is_empty() || kinds.contains(&kind);
    let by_thread = threads.is_empty()
        || threads
            .iter()
            .any(|filter| filter.matches(event.process, event.thread));
    by_kind && by_thread
}

fn print(
    arguments: &DumpArgs,
    event: &Event<'_>,
    definitions: &Definitions,
    stacks: &mut StackTable,
    out: &mut impl Write,
) -> io::Result<()> {
    let stack = stacks.stack_of(event, definitions);
    if arguments.format == Format::Json {
        let frames = match stack {
            Some(stack) if arguments.stacks => stacks.frames(stack),
            Some(stack) => vec![stacks.primary_frame(stack).frame.clone()],
            None => Vec::new(),
        };
        let object = event_json::event(event, definitions, &frames);
        return writeln!(out, "{object}");
    }
    let text = EventText {
        event,
        definitions,
        full: arguments.full,
    };
    let thread = format!("{}:{}", event.process, event.thread);
    write!(out, "{:>10}  {thread:<10}  {text}", event.index.0)?;
    match stack {
        Some(stack) if arguments.stacks => {
            writeln!(out)?;
            for frame in stacks.frames(stack) {
                writeln!(out, "{:>14}{}", "", FrameText::of(&frame))?;
            }
            Ok(())
        }
        Some(stack) => writeln!(out, "  {}", stacks.primary_frame(stack)),
        None => writeln!(out),
    }
}
