//! Tries the findings of lint: once everything is explored, recovery runs natively on the images in which exactly the stores of a finding
//! are lost.
//!
//! Such images are among the explored states, so most of them need no further run: an equal image was recovered before. The others show
//! recovery only bytes that it has read before, and are run to have their verdicts.

use std::collections::{HashMap, HashSet};

use super::super::{ProposedCrash, StrategyInput};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::suspect::{SuspectImages, propose};
use crate::trial::Trial;

/// The images that try the findings of lint.
#[derive(Default)]
pub struct SuspectTrials {
    pub suspects: Vec<SuspectImages>,
    /// Images to try, and the crashes in program order to compare them with.
    waiting: Vec<ProposedCrash>,
    /// For images of suspects, the image that keeps the suspect's store, as long as it is not wanted.
    keeping: HashMap<CrashPoint, ProposedCrash>,
    /// Those that were proposed, and are run natively.
    proposed: HashSet<CrashPoint>,
}

impl SuspectTrials {
    pub fn new(input: &mut StrategyInput<'_>) -> Result<Self, CrashError> {
        if input.suspects.is_empty() {
            return Ok(Self::default());
        }
        let found = propose(
            input.suspects,
            false,
            input.run,
            input.survey,
            input.profile,
            &mut *input.symbols,
        )?;
        // Write-backs of several pages are explored anyway.
        let images = found.suspects.iter().flat_map(|suspect| &suspect.images);
        let events: HashSet<u64> = images.clone().map(|image| image.event).collect();
        let images: HashSet<&CrashPoint> = images.collect();
        let is_wanted = |crash: &ProposedCrash| {
            images.contains(&crash.point)
                || crash.point.is_in_program_order() && events.contains(&crash.point.event)
        };
        let crashes = found.firsts.into_iter().chain(found.others);
        Ok(Self {
            waiting: crashes.filter(is_wanted).collect(),
            suspects: found.suspects,
            keeping: found.keeping,
            proposed: HashSet::new(),
        })
    }

    /// What is to be tried that was not proposed yet.
    pub fn propose(&mut self, known: &mut HashSet<CrashPoint>) -> Vec<ProposedCrash> {
        let mut next = std::mem::take(&mut self.waiting);
        next.retain(|crash| known.insert(crash.point.clone()));
        self.proposed
            .extend(next.iter().map(|crash| crash.point.clone()));
        next
    }

    /// Whether a crash is tried for a suspect, and for nothing else.
    pub fn is_proposed(&self, point: &CrashPoint) -> bool {
        self.proposed.contains(point)
    }

    /// Recovery has failed: another image shows whether the suspect's store is the reason.
    pub fn learn(&mut self, trial: &Trial) {
        if !trial.verdict.passed() {
            self.waiting.extend(self.keeping.remove(&trial.point));
        }
    }
}
