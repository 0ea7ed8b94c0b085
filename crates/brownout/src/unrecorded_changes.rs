//! Persistent files that were changed without being recorded: what the trace rebuilds is not what the program left. Crash
//! images of such a run may be states that never existed.
//!
//! Can miss: changes that were undone or overwritten before the end, files that were gone or had been replaced then, and parts of
//! files that were never mapped.

use std::ffi::OsString;
use std::ops::ControlFlow;

use brownout_trace::replay::{FinalContent, Images};
use brownout_trace::selection::Survey;

use crate::console::Console;
use crate::failure::Failure;
use crate::trace_file::TraceFile;

/// If the mapped files hold more in all, none of them is compared: they are rebuilt in memory.
const MOST_BYTES: u64 = 2 << 30;

const CHANGED: &str = " was changed without being recorded, first between offsets ";

/// What a comparison of the persistent files with the trace has shown.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Files that differ, one sentence each.
    pub changed: Vec<String>,
    /// Why nothing was compared, in a sentence.
    pub gap: Option<String>,
}

/// Compares the files that the program left with what a trace rebuilds. The trace has been read to its end; `patterns` are
/// those that the user gave for persistent files.
pub fn unrecorded_changes(
    trace: &TraceFile,
    patterns: &[OsString],
    console: &Console,
) -> Result<Comparison, Failure> {
    let left = trace.notes().final_contents();
    if left.is_empty() || trace.damage().is_some() {
        return Ok(Comparison::default());
    }
    if left.iter().map(FinalContent::bytes).sum::<u64>() > MOST_BYTES {
        let gap = "the mapped files hold more than 2 GiB, so they were not checked for changes that are not in the trace";
        return Ok(Comparison {
            gap: Some(gap.to_owned()),
            ..Comparison::default()
        });
    }
    let mut again = TraceFile::open(trace.path())?;
    let patterns = again.patterns(patterns)?;
    let (mut survey, mut images) = (Survey::default(), Images::default());
    let mut progress = console.progress("comparing files with the trace", Some(again.events()));
    again.walk(&mut progress, |event, definitions| {
        survey.observe(event, definitions);
        images.apply(event);
        Ok(ControlFlow::Continue(()))
    })?;
    let definitions = again.definitions();
    let selection = survey.select(definitions, patterns.as_ref());
    let mut changed = Vec::new();
    for file in definitions.files() {
        let left = left.iter().find(|left| left.identity == file.identity);
        let image = images.file(file.id);
        let (Some(left), Some(image), true) = (left, image, selection.is_persistent(file.id))
        else {
            continue;
        };
        if let Some(range) = left.difference(image.content()) {
            changed.push(format!(
                "{}{CHANGED}{:#x} and {:#x}: by a process that is not recorded, or in \
                 a way that brownout does not observe; crash images may be states that never existed",
                file.path.display(),
                range.start,
                range.end
            ));
        }
    }
    Ok(Comparison { changed, gap: None })
}
