//! A recorded run, read as often as needed: its failure points, its persistent files and its crash images.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brownout_model::Profile;
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventIndex, FileRange, ReadError, TraceReader};

use crate::crash_point::{CrashPoint, common_profile};
use crate::error::CrashError;
use crate::failure_point::{FailurePoints, Scope};
use crate::image::{CrashImage, ImageBuilder, ImageDigest};
use crate::persistent_files::PersistentFiles;
use crate::progress::{ProgressObserver, STOP_INTERVAL};
use crate::starting_contents::{StartFollower, StartingContents};
use crate::symbols::Symbols;

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

    /// Gives events to `visit` until it breaks, or until `stop` returns true, which is asked every few thousand events. Returns
    /// whether nothing stopped it.
    pub(crate) fn walk_unless(
        &self,
        mut stop: impl FnMut() -> bool,
        mut visit: impl FnMut(&Event<'_>, &Definitions) -> ControlFlow<()>,
    ) -> Result<bool, CrashError> {
        let mut stopped = false;
        self.walk(|event, definitions| {
            stopped = event.index.0.is_multiple_of(STOP_INTERVAL) && stop();
            match stopped {
                true => ControlFlow::Break(()),
                false => visit(event, definitions),
            }
        })?;
        Ok(!stopped)
    }

    /// Finds all failure points, and all persistent files.
    pub fn survey(
        &self,
        scope: Scope,
        contexts: &mut impl Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Survey, CrashError> {
        let start = Instant::now();
        let mut points = FailurePoints::new(scope);
        let mut files = PersistentFiles::default();
        let read = self.walk(|event, definitions| {
            observer.reading(event.index);
            files.observe(event, definitions, &self.selection);
            contexts.observe(event, definitions);
            points.observe(event, definitions, &self.selection, contexts);
            ControlFlow::Continue(())
        })?;
        files.settle(read.definitions());
        Ok(Survey {
            points,
            files,
            duration: start.elapsed(),
        })
    }

    /// Finds all persistent files.
    pub fn files(
        &self,
        observer: &mut dyn ProgressObserver,
    ) -> Result<PersistentFiles, CrashError> {
        let mut files = PersistentFiles::default();
        let read = self.walk(|event, definitions| {
            observer.reading(event.index);
            files.observe(event, definitions, &self.selection);
            ControlFlow::Continue(())
        })?;
        files.settle(read.definitions());
        Ok(files)
    }

    /// What the persistent files held when the run started.
    pub fn starting_contents(
        &self,
        files: &PersistentFiles,
        observer: &mut dyn ProgressObserver,
    ) -> Result<StartingContents, CrashError> {
        let mut follower = StartFollower::new(files);
        self.walk(|event, _| {
            observer.reading(event.index);
            follower.observe(event);
            ControlFlow::Continue(())
        })?;
        Ok(follower.finish(files))
    }

    /// The image of a crash, which is not inside recovery.
    pub fn image_at(
        &self,
        point: &CrashPoint,
        files: &PersistentFiles,
        observer: &mut dyn ProgressObserver,
    ) -> Result<CrashImage, CrashError> {
        let mut images = self.images_at(&[point], files, observer)?;
        Ok(images.remove(0))
    }

    /// The images of several crashes, which are not inside recovery, in one pass over the trace.
    pub fn images_at(
        &self,
        points: &[&CrashPoint],
        files: &PersistentFiles,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Vec<CrashImage>, CrashError> {
        let mut builder = ImageBuilder::new(files, &self.selection);
        if let Some(profile) = common_profile(points.iter().copied())? {
            builder = builder.with_states(profile);
        }
        let mut waiting: Vec<usize> = (0..points.len()).collect();
        waiting.sort_by_key(|&number| std::cmp::Reverse(points[number].event));
        let image =
            |builder: &mut ImageBuilder<'_>, point: &CrashPoint, definitions: &Definitions| {
                Ok::<_, CrashError>(match &point.choice {
                    None => builder.image(definitions),
                    Some(choice) => builder.chosen(choice, point.event, definitions)?.image,
                })
            };
        let mut images: Vec<(usize, Result<CrashImage, CrashError>)> = Vec::new();
        let reader = self.walk(|next, definitions| {
            let is_reached = |&mut number: &mut usize| next.index.0 >= points[number].event;
            while let Some(number) = waiting.pop_if(is_reached) {
                images.push((number, image(&mut builder, points[number], definitions)));
            }
            if waiting.is_empty() {
                return ControlFlow::Break(());
            }
            observer.reading(next.index);
            builder.apply(next, definitions);
            ControlFlow::Continue(())
        })?;
        let definitions = reader.definitions();
        let at_end = waiting.into_iter();
        images.extend(
            at_end.map(|number| (number, image(&mut builder, points[number], definitions))),
        );
        images.sort_by_key(|&(number, _)| number);
        images.into_iter().map(|(_, image)| image).collect()
    }

    /// The crash before `event` that loses a store to `range`, with the later stores that cannot persist without it, and nothing else.
    /// `None` if no crash loses it there.
    pub fn crash_losing(
        &self,
        event: EventIndex,
        (store, range): (EventIndex, FileRange),
        profile: Profile,
        files: &PersistentFiles,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Option<CrashPoint>, CrashError> {
        let mut builder = ImageBuilder::new(files, &self.selection).with_states(profile);
        let reader = self.walk(|next, definitions| {
            if next.index >= event {
                return ControlFlow::Break(());
            }
            observer.reading(next.index);
            builder.apply(next, definitions);
            ControlFlow::Continue(())
        })?;
        let bytes = range.offset..range.offset.saturating_add(range.len);
        let units = (range.file, bytes);
        let choice = builder.choice_losing(Some(store), units, reader.definitions());
        Ok(choice.map(|choice| CrashPoint::chosen(event.0, Some(choice))))
    }

    /// The image in program order before `event`, or at the end of the trace.
    pub fn image_before(
        &self,
        event: Option<EventIndex>,
        files: &PersistentFiles,
        observer: &mut dyn ProgressObserver,
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

/// The results of a first pass over the trace.
#[derive(Debug)]
pub struct Survey {
    pub points: FailurePoints,
    pub files: PersistentFiles,
    /// How long the pass took.
    pub duration: Duration,
}
