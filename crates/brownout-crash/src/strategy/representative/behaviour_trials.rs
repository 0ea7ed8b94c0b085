//! Which update behaviours a test has decided: all crashes that try them were recovered from, or one was not. One of which a crash can
//! leave more states than are tried is only decided by a failure.
//!
//! Several behaviours may share an image, and another part of a strategy may have tried it; so verdicts are looked up by
//! crash point at the end.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::images::FoundImage;
use crate::crash_point::CrashPoint;
use crate::tested_behaviours::{CodeDigest, TestedBehaviour};
use crate::trial::Trial;
use crate::update_behaviour::{BehaviourNumber, NamedShape};

/// What is needed to remember a behaviour.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) shape: NamedShape,
    pub(super) code: BTreeSet<CodeDigest>,
}

/// The crashes that try the behaviours of a run, if behaviours are to be remembered.
#[derive(Debug, Default)]
pub(super) struct BehaviourTrials {
    /// Of the behaviours to try.
    pub(super) identities: FxHashMap<BehaviourNumber, Identity>,
    points: FxHashMap<BehaviourNumber, Vec<CrashPoint>>,
    /// Those whose images are all built, with no state left out.
    complete: FxHashSet<BehaviourNumber>,
}

impl BehaviourTrials {
    /// Notes an image that was built.
    pub(super) fn image(&mut self, image: &FoundImage) {
        let behaviour = image.planned.behaviour;
        if self.identities.contains_key(&behaviour) {
            let points = self.points.entry(behaviour).or_default();
            points.push(image.crash.clone());
        }
    }

    /// Notes that all images of some behaviours are built, and that a crash can leave no other state of them.
    pub(super) fn completed(&mut self, behaviours: impl Iterator<Item = BehaviourNumber>) {
        self.complete.extend(behaviours);
    }

    /// The behaviours that trials have decided. One without any image is decided by nothing.
    pub(super) fn decided(&self, trials: &[Trial]) -> Vec<TestedBehaviour> {
        let verdicts = trials
            .iter()
            .map(|trial| (&trial.point, trial.verdict.passed()));
        let verdicts: FxHashMap<&CrashPoint, bool> = verdicts.collect();
        let mut decided: Vec<(BehaviourNumber, bool)> = Vec::new();
        for (&behaviour, points) in &self.points {
            let results = || points.iter().map(|point| verdicts.get(point).copied());
            if results().any(|passed| passed == Some(false)) {
                decided.push((behaviour, false));
            } else if self.complete.contains(&behaviour)
                && results().all(|passed| passed == Some(true))
            {
                decided.push((behaviour, true));
            }
        }
        decided.sort_unstable();
        let tested = decided.into_iter().filter_map(|(behaviour, passed)| {
            let Identity { shape, code } = self.identities.get(&behaviour)?.clone();
            Some(TestedBehaviour::new(shape, code, passed))
        });
        tested.collect()
    }
}
