//! Whether recoveries on crash images share their starts, and which bytes of the images differ.
//!
//! Recovery that starts natively for each image does the same again and again until it first reads a byte that differs. Under the engine a
//! copy of an earlier one can go on from there, and one that reads what an earlier one has read need not run at all
//! ([`SharedStarts`], Jaaru §4). To begin with that takes a pass over the trace and the start of recovery under the engine, so it is
//! done only if many recoveries are left and they take long enough. If it turns out not to pay, native recoveries go on.
//!
//! Can miss nothing by itself: an image that differs in other bytes is recovered natively.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use brownout_model::Profile;
use brownout_recovery::{ByteRanges, SharedStarts};
use brownout_trace::{EventKind, FileId};

use crate::effect::{Effect, effects};
use crate::error::CrashError;
use crate::image::ImageBuilder;
use crate::persistent_files::PersistentFiles;
use crate::progress::ProgressObserver;
use crate::recorded_run::{RecordedRun, Survey};

/// From so many recoveries it is known what one takes.
const KNOWN: u64 = 16;
/// The least number of images that must be left.
const LEAST_IMAGES: u64 = 64;
/// The least time that native recoveries must be expected to take, and how many times that of a pass over the trace.
const LEAST_TIME: Duration = Duration::from_secs(2);
const PASSES: u32 = 4;
/// Bytes differ by cache lines, so that there are not too many ranges.
const LINE: u64 = 64;

/// When recoveries share their starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// If it is expected to save time.
    #[default]
    Auto,
    /// From the beginning, whatever it takes.
    Always,
    Never,
}

/// What recoveries of a campaign share.
#[derive(Debug, Default)]
pub struct SharedStart {
    sharing: Sharing,
    /// Crashes are tested from this event on.
    first_event: u64,
    /// What a pass over the trace takes.
    pass: Duration,
    starts: Option<Arc<SharedStarts>>,
}

/// What is left of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct WorkLeft {
    pub images: u64,
    /// Until the time limit.
    pub time: Option<Duration>,
    /// How many recoveries run at the same time.
    pub runners: usize,
    /// What a native recovery takes, and from how many that is known.
    pub typical: (Duration, u64),
}

impl SharedStart {
    pub fn new(sharing: Sharing, survey: &Survey) -> Self {
        let leaves = survey.points.leaves().iter();
        let firsts = leaves.filter_map(|leaf| Some(leaf.chosen().first()?.event.0));
        Self {
            sharing,
            first_event: firsts.min().unwrap_or(0),
            pass: survey.duration,
            starts: None,
        }
    }

    pub fn starts(&self) -> Option<&Arc<SharedStarts>> {
        self.starts.as_ref()
    }

    /// Begins to share if that is expected to save time.
    pub fn consider(
        &mut self,
        left: WorkLeft,
        (run, files): (&RecordedRun, &PersistentFiles),
        observer: &mut dyn ProgressObserver,
    ) -> Result<(), CrashError> {
        let is_wanted = match self.sharing {
            Sharing::Never => false,
            Sharing::Always => true,
            Sharing::Auto => self.pays(left),
        };
        if self.starts.is_some() || !is_wanted {
            return Ok(());
        }
        let Some(differing) = differing(run, files, self.first_event, observer)? else {
            return Ok(());
        };
        let is_forced = self.sharing == Sharing::Always;
        self.starts = Some(Arc::new(SharedStarts::new(differing, is_forced)));
        Ok(())
    }

    fn pays(&self, left: WorkLeft) -> bool {
        let (typical, known) = left.typical;
        let images = u32::try_from(left.images).unwrap_or(u32::MAX);
        let expected = typical.saturating_mul(images) / left.runners.max(1) as u32;
        let expected = left.time.map_or(expected, |time| time.min(expected));
        known >= KNOWN
            && left.images >= LEAST_IMAGES
            && expected >= LEAST_TIME.max(self.pass * PASSES)
    }
}

/// The bytes of each persistent file that differ between crashes from an event on: those that are stored from then on, and those in flight
/// then. `None` if the observer stops it.
fn differing(
    run: &RecordedRun,
    files: &PersistentFiles,
    first_event: u64,
    observer: &mut dyn ProgressObserver,
) -> Result<Option<Arc<[ByteRanges]>>, CrashError> {
    let mut changed: HashMap<FileId, ByteRanges> = HashMap::new();
    let mut images = ImageBuilder::new(files, &run.selection);
    let mut holders = Vec::new();
    let mut in_flight = Vec::new();
    let is_finished = run.walk_unless(
        || observer.stop(),
        |event, definitions| {
            // Stores are effects under every profile.
            effects(
                event,
                definitions,
                &run.selection,
                &Profile::ADR,
                |effect| {
                    if event.index.0 < first_event && matches!(effect, Effect::Fence) {
                        in_flight.clear();
                    }
                    in_flight.extend(effect.changed_bytes());
                },
            );
            if event.index.0 >= first_event {
                for (space, range) in in_flight.drain(..) {
                    let lines = range.start / LINE * LINE..range.end.next_multiple_of(LINE);
                    let of_file = changed.entry(FileId(space.0));
                    of_file.or_insert_with(ByteRanges::exact).insert(lines);
                }
            }
            images.apply(event, definitions);
            if matches!(event.kind, EventKind::Map(_)) {
                holders = images.holders(definitions);
            }
            ControlFlow::Continue(())
        },
    )?;
    let of_path = |holder: Option<FileId>| {
        let changed = holder.and_then(|file| changed.remove(&file));
        changed.unwrap_or_else(ByteRanges::exact)
    };
    Ok(is_finished.then(|| holders.into_iter().map(of_path).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_or_short_recoveries_start_natively() {
        let start = SharedStart {
            pass: Duration::from_secs(1),
            ..SharedStart::default()
        };
        let left = WorkLeft {
            images: 1000,
            time: None,
            runners: 2,
            typical: (Duration::from_millis(10), 16),
        };
        assert!(start.pays(left));
        let others = [
            WorkLeft { images: 63, ..left },
            WorkLeft {
                typical: (Duration::from_millis(10), 15),
                ..left
            },
            WorkLeft {
                typical: (Duration::from_millis(7), 99),
                ..left
            },
            WorkLeft {
                time: Some(Duration::from_secs(3)),
                ..left
            },
            WorkLeft { runners: 3, ..left },
        ];
        for other in others {
            assert!(!start.pays(other), "{other:?}");
        }
    }
}
