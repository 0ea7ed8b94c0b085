//! Crash images of a recorded test case: at every ordering point, and at random stores (PMFuzz §3.2).
//!
//! An image is what is there in program order, which a crash at that instant can leave. Images that are equal to an earlier one of the run
//! are left out.
//!
//! Can miss: of a run with many ordering points only some are used, distributed evenly.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_crash::{
    CrashError, CrashImage, CrashPoint, ImageBuilder, Progress, ProgressObserver, RecordedRun,
};
use brownout_trace::selection::{Patterns, Survey};
use brownout_trace::{EventIndex, EventKind, TraceReader};
use libafl_bolts::rands::Rand;

use crate::error::FuzzError;
use crate::image::StartImage;

/// The most crash images of one run.
const MOST: usize = 48;

/// A crash image: the event before which the crash happens, and what it leaves.
#[derive(Debug)]
pub struct CrashedImage {
    pub event: u64,
    pub image: StartImage,
}

/// Nobody is shown how far the work is.
struct Unobserved;

impl ProgressObserver for Unobserved {
    fn progress(&mut self, _: Progress) {}

    fn explained(&mut self, _: usize, _: usize) {}

    fn reading(&mut self, _: EventIndex) {}

    fn stop(&mut self) -> bool {
        false
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }
}

/// A recording, and the files of the campaign.
pub struct RecordedCase<'a> {
    pub trace: &'a Path,
    pub files: &'a [PathBuf],
    pub patterns: Option<&'a Patterns>,
}

impl RecordedCase<'_> {
    fn run(&self) -> Result<RecordedRun, FuzzError> {
        let failed = |source| CrashError::Trace {
            path: self.trace.to_owned(),
            source,
        };
        let mut survey = Survey::default();
        let mut reader = TraceReader::open(self.trace).map_err(failed)?;
        // Damage ends it; what comes before can be used.
        let _ = reader.for_each(|event, definitions| {
            survey.observe(event, definitions);
            ControlFlow::<()>::Continue(())
        });
        let selection = survey.select(reader.definitions(), self.patterns);
        Ok(RecordedRun::new(self.trace, selection))
    }

    /// The crash images of the run. A store is a point with a probability of `rate`.
    pub fn crash_images(
        &self,
        rate: f64,
        rand: &mut impl Rand,
    ) -> Result<Vec<CrashedImage>, FuzzError> {
        let run = self.run()?;
        let files = run.files(&mut Unobserved)?;
        let mut builder = ImageBuilder::new(&files, &run.selection);
        let mut last = None;
        let mut points = Vec::new();
        let mut is_stored = false;
        run.walk(|event, definitions| {
            let is_ordering = matches!(event.kind, EventKind::Fence { .. } | EventKind::Sync(_));
            let is_store = matches!(event.kind, EventKind::Store { .. });
            let is_random = is_store && rate > 0.0 && rand.next_float() < rate;
            if is_stored && (is_ordering || is_random) {
                let digest = builder.digest(definitions);
                if last != Some(digest) {
                    points.push(event.index.0);
                    last = Some(digest);
                }
            }
            is_stored |= is_store;
            builder.apply(event, definitions);
            ControlFlow::Continue(())
        })?;
        let step = points.len().div_ceil(MOST).max(1);
        let points: Vec<CrashPoint> = points
            .into_iter()
            .step_by(step)
            .map(|event| CrashPoint::chosen(event, None))
            .collect();
        let points_by_reference: Vec<&CrashPoint> = points.iter().collect();
        let images = run.images_at(&points_by_reference, &files, &mut Unobserved)?;
        let images = points
            .iter()
            .zip(images)
            .map(|(point, image)| CrashedImage {
                event: point.event,
                image: self.in_order(image, files.paths()),
            });
        Ok(images.collect())
    }

    /// The image of a crash before one event.
    pub fn crash_image_at(&self, event: u64) -> Result<StartImage, FuzzError> {
        let run = self.run()?;
        let files = run.files(&mut Unobserved)?;
        let point = CrashPoint::chosen(event, None);
        let image = run.image_at(&point, &files, &mut Unobserved)?;
        Ok(self.in_order(image, files.paths()))
    }

    /// The files of an image in the order of the campaign.
    fn in_order(&self, image: CrashImage, paths: &[PathBuf]) -> StartImage {
        let mut contents: Vec<_> = paths.iter().zip(image.files).collect();
        let files = self.files.iter().map(|path| {
            let at = contents.iter().position(|(known, _)| *known == path)?;
            contents.swap_remove(at).1
        });
        StartImage::new(files.collect())
    }
}
