//! A recorded run, read as often as needed: where crashes could come, and what they would leave.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventIndex, ReadError, TraceReader};

use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Occurrence, Scope};
use crate::host::{ProgressObserver, Symbols};
use crate::image::{CrashImage, ImageBuilder, ImageDigest, PersistentFiles};
use crate::order::most_different_first;

/// A trace that can be read from its start as often as needed. Damage ends it.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    path: PathBuf,
    pub selection: Selection,
}

impl RecordedRun {
    pub fn new(path: &Path, selection: Selection) -> Self {
        Self {
            path: path.to_owned(),
            selection,
        }
    }

    /// Gives all events to `visit`, until it breaks.
    pub fn walk(
        &self,
        mut visit: impl FnMut(&Event<'_>, &Definitions) -> ControlFlow<()>,
    ) -> Result<TraceReader<File>, CrashError> {
        let failed = |source| CrashError::Trace {
            path: self.path.clone(),
            source,
        };
        let mut reader = TraceReader::open(&self.path).map_err(failed)?;
        match reader.for_each(&mut visit) {
            Ok(_) | Err(ReadError::Damaged(_)) => Ok(reader),
            Err(source) => Err(failed(source)),
        }
    }

    /// Finds all failure points, and all persistent files.
    pub fn survey(
        &self,
        scope: Scope,
        contexts: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<Survey, CrashError> {
        let mut points = FailurePoints::new(scope);
        let mut files = PersistentFiles::default();
        self.walk(|event, definitions| {
            observer.reading(event.index);
            files.observe(event, definitions, &self.selection);
            contexts.observe(event, definitions);
            points.observe(event, definitions, &self.selection, contexts);
            ControlFlow::Continue(())
        })?;
        Ok(Survey { points, files })
    }

    /// Finds all persistent files.
    pub fn files(
        &self,
        observer: &mut impl ProgressObserver,
    ) -> Result<PersistentFiles, CrashError> {
        let mut files = PersistentFiles::default();
        self.walk(|event, definitions| {
            observer.reading(event.index);
            files.observe(event, definitions, &self.selection);
            ControlFlow::Continue(())
        })?;
        Ok(files)
    }

    /// The crash image before `event`; at the end if there is no such event.
    pub fn image_before(
        &self,
        event: Option<EventIndex>,
        files: &PersistentFiles,
        observer: &mut impl ProgressObserver,
    ) -> Result<(CrashImage, ImageDigest), CrashError> {
        let mut builder = ImageBuilder::new(files, &self.selection);
        let reader = self.walk(|next, definitions| {
            if event.is_some_and(|event| next.index >= event) {
                return ControlFlow::Break(());
            }
            observer.reading(next.index);
            builder.apply(next, definitions);
            ControlFlow::Continue(())
        })?;
        let definitions = reader.definitions();
        Ok((builder.image(definitions), builder.digest(definitions)))
    }
}

/// What a first reading of the trace tells.
#[derive(Debug)]
pub struct Survey {
    pub points: FailurePoints,
    pub files: PersistentFiles,
}

impl Survey {
    /// The failure points to try, the most different first, and first occurrences before later ones.
    pub fn points(&self, symbols: &mut impl Symbols) -> Vec<FailurePoint> {
        let leaves = self.points.leaves();
        let paths: Vec<Vec<(String, u32)>> = leaves
            .iter()
            .map(|leaf| {
                let frames = leaf.stack.map(|stack| symbols.frames(stack));
                let steps = frames.unwrap_or_default().into_iter().rev();
                let steps = steps.map(|frame| match (frame.file, frame.line) {
                    (Some(file), Some(line)) => (file, line),
                    _ => (frame.module, frame.offset as u32),
                });
                steps.collect()
            })
            .collect();
        let order = most_different_first(&paths);
        let chosen: Vec<Vec<Occurrence>> = leaves.iter().map(|leaf| leaf.chosen()).collect();
        let most = chosen.iter().map(Vec::len).max().unwrap_or(0);
        let mut points = Vec::new();
        for turn in 0..most {
            points.extend(order.iter().filter_map(|&leaf| {
                Some(FailurePoint {
                    kind: leaves[leaf].kind,
                    stack: leaves[leaf].stack,
                    occurrence: *chosen[leaf].get(turn)?,
                })
            }));
        }
        points
    }
}
