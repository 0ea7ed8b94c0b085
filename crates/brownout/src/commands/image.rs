//! `brownout image`: writes the persistent files as they were after one event of the run.

use std::fs;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use brownout_trace::EventIndex;
use brownout_trace::replay::Images;
use brownout_trace::selection::Selection;

use crate::arguments::{ImageArgs, Moment};
use crate::console::{self, Console};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::image_files::{check_free, image_path};
use crate::quantity::number_of;
use crate::terminal_text::OneLine;
use crate::trace_file::TraceFile;

pub fn run(arguments: &ImageArgs, console: &Console) -> Result<ExitCode, Failure> {
    let mut trace = TraceFile::open(&arguments.trace)?;
    let last = last_event(&trace, arguments.at)?;
    let selection = trace.select(&arguments.selection.patterns, console)?;
    let images = replay(&mut trace, last, console)?;
    if images.unmapped_stores() > 0 {
        console.warn(format_args!(
            "{} to addresses where no file is mapped, according to the trace",
            number_of(images.unmapped_stores(), "store")
        ));
    }
    let code = trace.report_missing(console);
    let written = write(&trace, &images, &selection, arguments)?;
    if written.is_empty() {
        warn_no_images(&trace, &selection, console);
    }
    report(&written).map_err(Failure::Output)?;
    Ok(code)
}

/// The last event to replay; `None` for a trace without events.
fn last_event(trace: &TraceFile, moment: Moment) -> Result<Option<EventIndex>, Failure> {
    let events = trace.events();
    match moment {
        Moment::End => Ok(events.checked_sub(1).map(EventIndex)),
        Moment::After(event) if event.0 < events => Ok(Some(event)),
        Moment::After(event) => Err(Failure::NoSuchEvent {
            path: trace.path().to_owned(),
            event,
            events,
        }),
    }
}

fn replay(
    trace: &mut TraceFile,
    last: Option<EventIndex>,
    console: &Console,
) -> Result<Images, Failure> {
    let mut images = Images::default();
    let mut progress = console.progress("rebuilding files", last.map(|event| event.0));
    trace.walk(&mut progress, |event, _| {
        images.apply(event);
        let reached = last.is_none_or(|last| event.index >= last);
        Ok(if reached {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(images)
}

/// Writes all persistent files or none. After a failure, the files written so far are removed.
fn write(
    trace: &TraceFile,
    images: &Images,
    selection: &Selection,
    arguments: &ImageArgs,
) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let directory = &arguments.output;
    let definitions = trace.definitions();
    let mut targets = Vec::new();
    for (file, _) in images.files() {
        if let Some(file) = definitions
            .file(file)
            .filter(|file| selection.is_persistent(file.id))
        {
            let target = image_path(directory, &file.path)?;
            check_free(directory, &target)?;
            targets.push(target);
        }
    }
    let result = images.write_to(directory, definitions, |file| selection.is_persistent(file));
    match result {
        Ok(written) => Ok(written
            .into_iter()
            .map(|image| (image.path, image.len))
            .collect()),
        Err(source) => {
            for target in &targets {
                // The original failure is reported instead.
                let _ = fs::remove_file(target);
            }
            Err(Failure::Image {
                path: directory.clone(),
                source,
            })
        }
    }
}

fn report(written: &[(PathBuf, u64)]) -> io::Result<()> {
    let mut out = console::results();
    for (path, len) in written {
        writeln!(out, "{} ({})", OneLine::of(path), number_of(*len, "byte"))?;
    }
    out.flush()
}

fn warn_no_images(trace: &TraceFile, selection: &Selection, console: &Console) {
    if !selection.is_empty() {
        console.warn("no persistent file was mapped yet at that event; nothing was written");
        return;
    }
    console.warn("nothing persistent was seen; nothing was written");
    for candidate in selection.candidates() {
        if let Some(file) = trace.definitions().file(candidate.file) {
            let path = OneLine::of(&file.path);
            console.remark(format_args!("not selected: {path} (select it with --pm)"));
        }
    }
}
