//! Representative testing (Squint: Neal, §4.4.5): of all updates of objects that are likely to show the same mistakes, one is tried, in
//! all orders in which its stores can persist.
//!
//! [`update_behaviour`](crate::update_behaviour) finds the updates and what represents them, `search` when, `schedule` their order,
//! `members` what follows a failure, `crash_times` when a crash is tried, `losable_stores` what it can lose, `loss_sets` what it loses, and
//! `images` builds the images. `behaviour_code` and `behaviour_trials` are for what is remembered: see
//! [`tested_behaviours`](crate::tested_behaviours).
//!
//! Deviations from Squint: a crash is tried at some instants of a behaviour, not at all (`crash_times`), and until the end of the run if a
//! store is never guaranteed; of many states, a sample is tried (`loss_sets`); members at code that no representative has tried follow one
//! that passes.
//!
//! Can miss: mistakes that a represented behaviour has and its representative does not; orders of stores to several objects other than
//! those that are tried; orders of large updates that no sample has, which are counted. Every image that it tries can be left by a crash.

mod behaviour_code;
mod behaviour_trials;
mod crash_times;
mod images;
mod losable_stores;
mod loss_sets;
mod members;
mod schedule;
mod search;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::{ProposedCrash, Strategy, StrategyInfo};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::progress::ProgressObserver;
use crate::symbols::Symbols;
use crate::tested_behaviours::TestedBehaviour;
use crate::trial::Trial;
pub(super) use search::Representatives;

pub static REPRESENTATIVE: StrategyInfo = StrategyInfo {
    name: "representative",
    version: 2,
    summary: "The orders in which updates of objects can persist, one of each kind of update",
    time_limit: None,
    tries_suspects: false,
    tries_all: false,
    tests_behaviours: true,
    start: |input| {
        Ok(Box::new(Representative {
            extent: Extent::of(&input.survey.points),
            representatives: Representatives::all(&input),
            controls: HashMap::new(),
            compared: HashSet::new(),
            comparisons: Vec::new(),
        }))
    },
};

/// Crashes that are proposed at once.
const WAVE: usize = 512;

struct Representative {
    representatives: Representatives,
    /// For each event at which stores are lost, the crash in program order there.
    controls: HashMap<u64, ProposedCrash>,
    /// The events at which it is proposed.
    compared: HashSet<u64>,
    /// Crashes in program order where recovery has failed with losses: if they fail, too, the losses are not the reason.
    comparisons: Vec<ProposedCrash>,
    extent: Extent,
}

impl Strategy for Representative {
    fn prepare(
        &mut self,
        symbols: &mut dyn Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, CrashError> {
        self.representatives.prepare(symbols, observer)
    }

    fn propose(&mut self) -> Vec<ProposedCrash> {
        let mut next = std::mem::take(&mut self.comparisons);
        next.extend(self.representatives.next(WAVE));
        for crash in &next {
            let event = crash.point.event;
            match crash.point.is_in_program_order() {
                true => {
                    self.compared.insert(event);
                }
                false => {
                    self.controls.entry(event).or_insert_with(|| control(crash));
                }
            }
        }
        next
    }

    fn learn(&mut self, trial: &Trial) {
        self.representatives.learn(trial);
        let event = trial.point.event;
        if trial.verdict.passed() || trial.point.is_in_program_order() {
            return;
        }
        if let Some(control) = self.controls.get(&event)
            && self.compared.insert(event)
        {
            self.comparisons.push(control.clone());
        }
    }

    fn planned(&self) -> u64 {
        self.representatives.planned() + self.comparisons.len() as u64
    }

    fn extent(&self) -> Extent {
        Extent {
            behaviours: self.representatives.behaviours().unwrap_or(0),
            behaviours_unknown: self.representatives.behaviours().is_none(),
            behaviours_sampled: self.representatives.sampled(),
            typed: self.representatives.typed(),
            remembered: self.representatives.remembered(),
            ..self.extent
        }
    }

    fn tested_behaviours(&self, trials: &[Trial]) -> Vec<TestedBehaviour> {
        self.representatives.tested_behaviours(trials)
    }
}

/// The crash in program order at the instant of an image with losses.
pub(super) fn control(image: &ProposedCrash) -> ProposedCrash {
    ProposedCrash {
        point: CrashPoint::program_order(image.point.event),
        purpose: TrialPurpose::Occurrence,
        lost: None,
        is_comparison: true,
        behaviour: None,
        ..image.clone()
    }
}
