//! The stores of an interrupted recovery that make the difference.
//!
//! Recovery is run again, under the engine, on the image with which it started, so that its stores are known with their calling
//! contexts. On that image it passes. What is *present* is searched for among those of its stores that are in the failing image, what
//! is *absent* among those that are lost or that it would have made later.

use std::collections::HashSet;
use std::sync::Arc;

use brownout_recovery::{RawFrame, RecoveryRunner, RunnerError};

use super::between::{Between, Change};
use super::search::Search;
use crate::crash_point::Interruption;
use crate::error::CrashError;
use crate::failure_point::StackId;
use crate::image::{CrashImage, TornBytes};
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::recovery_environment::CrashSituation;
use crate::recovery_run::{RecoveryRun, RecoveryStore};

/// What interrupted recoveries leave, and the last of them.
pub struct InterruptedChain {
    pub image: CrashImage,
    /// The image with which the last one started.
    started_with: CrashImage,
    recovery: RecoveryRun,
    /// The events of its stores that are not in the image.
    lost: HashSet<u64>,
    /// What the image has of those of them that are torn.
    torn: Vec<TornBytes>,
}

/// Runs recoveries, one after the other, and interrupts each. The inner error says that one of them has not done the same as before.
pub fn interrupt(
    runner: &mut RecoveryRunner,
    image: &CrashImage,
    interruptions: &[Interruption],
    situation: &CrashSituation,
    files: &PersistentFiles,
) -> Result<Result<Option<InterruptedChain>, CrashError>, RunnerError> {
    let mut chain: Option<InterruptedChain> = None;
    for interruption in interruptions {
        let started_with = chain.map_or_else(|| image.clone(), |chain| chain.image);
        let attempt = runner.attempt_with_actions(&started_with.files, &situation.task(), &[])?;
        let actions = attempt.observation.and_then(|known| known.actions);
        let Some(actions) = actions else {
            return Ok(Err(CrashError::Unobserved));
        };
        let recovery = RecoveryRun::new(Arc::new(actions));
        let left = match recovery.interrupted(&started_with, interruption, files) {
            Ok(left) => left,
            Err(error) => return Ok(Err(error)),
        };
        chain = Some(InterruptedChain {
            image: left.image,
            started_with,
            recovery,
            lost: left.lost.iter().map(|lost| lost.event.0).collect(),
            torn: left.torn,
        });
    }
    Ok(Ok(chain))
}

/// Stores of recovery that make the difference.
#[derive(Debug)]
pub(super) struct FoundInside {
    pub(super) present: Vec<RecoveryCulprit>,
    pub(super) absent: Vec<RecoveryCulprit>,
    /// What the failing image has of stores that are torn.
    pub(super) torn: Vec<TornBytes>,
    /// How many stores of recovery are in the failing image.
    pub(super) stores: u64,
}

/// Stores of recovery at one place.
#[derive(Debug)]
pub(super) struct RecoveryCulprit {
    pub(super) frames: Vec<RawFrame>,
    pub(super) changes: Vec<Change>,
}

impl InterruptedChain {
    /// Searches for the stores of the last recovery that make the difference.
    pub(super) fn search(
        &self,
        search: &mut Search<'_>,
        interruption: &Interruption,
        operation: Operation,
    ) -> Result<Option<FoundInside>, RunnerError> {
        let Ok(stores) = self.recovery.stores() else {
            return Ok(None);
        };
        let is_there = |store: &RecoveryStore| {
            store.actions < interruption.actions && !self.lost.contains(&store.event)
        };
        let (there, others): (Vec<_>, Vec<_>) = stores.into_iter().partition(is_there);
        let mut places: Vec<Vec<RawFrame>> = Vec::new();
        let before = between(there, operation, &mut places);
        let after = between(others, operation, &mut places);
        let present = match before.is_whole() {
            true => search.present(&self.started_with, &before)?,
            false => Vec::new(),
        };
        let absent = match after.has_stores() {
            true => search.absent(&self.image, &after)?,
            false => Vec::new(),
        };
        let culprits = |between: &Between, chosen: Vec<usize>| {
            let chosen = chosen.into_iter().map(|unit| &between.units[unit]);
            chosen
                .map(|unit| RecoveryCulprit {
                    frames: unit.stack.map_or_else(Vec::new, |at| places[at.0].clone()),
                    changes: unit.changes.clone(),
                })
                .collect()
        };
        Ok(Some(FoundInside {
            present: culprits(&before, present),
            absent: culprits(&after, absent),
            torn: self.torn.clone(),
            stores: before.stores as u64,
        }))
    }
}

/// The stores of a recovery as steps of a search. Their calling contexts are numbered by `places`.
fn between(
    stores: Vec<RecoveryStore>,
    operation: Operation,
    places: &mut Vec<Vec<RawFrame>>,
) -> Between {
    let mut between = Between::default();
    for store in stores {
        let known = places.iter().position(|frames| *frames == store.frames);
        let place = known.unwrap_or_else(|| {
            places.push(store.frames.clone());
            places.len() - 1
        });
        let change = Change {
            event: brownout_trace::EventIndex(store.event),
            file: store.file,
            offset: store.offset,
            bytes: store.bytes,
        };
        // Lint has not seen recovery.
        between.add(Some(StackId(place)), (operation, false), vec![change]);
    }
    between
}
