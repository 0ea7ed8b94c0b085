//! The default: spends a limited time where a bug is most likely to show.
//!
//! 1. Each failure point once, at its first occurrence, as [`prefix`](super::prefix) does. The test is incomplete before
//!    that is done.
//! 2. Images that try the [suspects](crate::suspect) of lint: their stores are lost, or persist in another order.
//! 3. Occurrences of failure points that differ from those before, the most [different](super::novelty) first, and in turn
//!    with them [states between stores](super::store_states), one of each kind, and images in which stores persist in another
//!    order than that of the program, one of each kind.
//! 4. All others of these, in turn; occurrences are spread over the run.
//!
//! If recovery fails at a state between stores, the failure points on both sides are tried next: they show whether the
//! state is a failure of its own. In the same way, a failure with stores lost is compared with program order. What recovery most likely fails at again comes after everything else: failure points that have
//! failed at another occurrence, and states between stores that lie between two crashes at which it failed. If everything
//! is tried before the time is over, the test ends. The crash points do not depend on time, so an interrupted test can
//! be resumed, and its parts can be merged.
//!
//! Can miss: bugs that only show if stores to several lines are lost that lint does not suspect. Every image that it tries can be
//! left by a crash.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;

use super::occurrences::{Occurrences, in_turns};
use super::prefix::{in_order, leaf_order};
use super::store_states::{StoreStates, Surroundings};
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, PointKind, StackId};
use crate::suspect::{SuspectImages, propose};
use crate::trial::Trial;

pub static AUTO: StrategyInfo = StrategyInfo {
    name: "auto",
    version: 2,
    summary: "Each failure point, then what differs most from what was tried, within the time limit",
    time_limit: Some(Duration::from_secs(30)),
    tries_suspects: true,
    start: |input| Ok(Box::new(Auto::new(input)?)),
};

/// Crash points of the first wave, and of the largest: each wave costs a pass over the trace.
const FIRST_WAVE: usize = 256;
const LARGEST_WAVE: usize = 8192;

/// A failure point, whatever its occurrence.
type Context = (PointKind, Option<StackId>);

struct Auto {
    /// What has to be tried, in reverse order.
    required: Vec<ProposedCrash>,
    /// The images of suspects, and the crashes in program order to compare them with.
    suspected: [Vec<ProposedCrash>; 2],
    suspects: Vec<SuspectImages>,
    /// For images of suspects, the image that keeps the suspect's store, as long as it is not proposed.
    keeping: HashMap<CrashPoint, ProposedCrash>,
    /// The planned crashes that are not in program order.
    known_choices: HashSet<CrashPoint>,
    /// The crashes in program order at the instants of open orders.
    controls: HashMap<u64, ProposedCrash>,
    /// What shows whether recovery fails for the reason for which it was tried: failure points around states between
    /// stores, and images that keep the stores of suspects.
    comparisons: Vec<ProposedCrash>,
    surroundings: Surroundings,
    /// What is tried as long as there is time, in reverse order.
    further: Vec<ProposedCrash>,
    /// What recovery most likely fails at again.
    deferred: Vec<ProposedCrash>,
    contexts: HashMap<u64, Context>,
    failed: HashSet<Context>,
    /// Whether recovery passes at the crashes in program order that were tried.
    verdicts: BTreeMap<u64, bool>,
    /// The planned crashes in program order, and whether they are proposed.
    proposed: HashMap<u64, bool>,
    wave: usize,
    planned: u64,
    required_count: Option<u64>,
    extent: Extent,
}

impl Auto {
    fn new(input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let points = &input.survey.points;
        let mut required = in_order(points, input.symbols);
        let mut extent = Extent::of(points);
        let suspicion = propose(
            input.suspects,
            input.run,
            input.survey,
            input.profile,
            input.symbols,
        )?;
        // If the user says how many occurrences to try, those are required and no others are tried.
        let all_required = input.occurrences.is_some();
        let (mut further, surroundings) = match input.occurrences {
            Some(_) => Default::default(),
            None => {
                extent.orders = suspicion
                    .orders
                    .iter()
                    .map(|orders| orders.len() as u64)
                    .sum();
                further(input, suspicion.orders, &mut extent)?
            }
        };
        let in_program_order = further.iter().map(|proposal| ProposedCrash {
            point: CrashPoint::program_order(proposal.point.event),
            purpose: TrialPurpose::Occurrence,
            ..proposal.clone()
        });
        let controls: HashMap<u64, ProposedCrash> = further
            .iter()
            .zip(in_program_order)
            .filter(|(proposal, _)| proposal.purpose == TrialPurpose::OpenOrder)
            .map(|(proposal, control)| (proposal.point.event, control))
            .collect();
        // Each crash point is proposed once.
        let mut known: HashSet<CrashPoint> = points_of(&required).collect();
        let occurrences: HashMap<CrashPoint, TrialPurpose> = further
            .iter()
            .map(|proposal| (proposal.point.clone(), proposal.purpose))
            .collect();
        let mut suspected = [suspicion.firsts, suspicion.others];
        for wave in &mut suspected {
            for proposal in wave.iter_mut() {
                let purpose = occurrences.get(&proposal.point);
                proposal.purpose = purpose.copied().unwrap_or(proposal.purpose);
            }
            wave.retain(|proposal| known.insert(proposal.point.clone()));
        }
        let tries: usize = suspected.iter().map(Vec::len).sum();
        further.retain(|proposal| !known.contains(&proposal.point));
        let contexts = required.iter().map(|proposal| {
            let context = (proposal.kind, proposal.stack);
            (proposal.point.event, context)
        });
        let contexts = contexts.collect();
        let planned = required
            .iter()
            .chain(suspected.iter().flatten())
            .chain(&further);
        let in_program_order = planned.filter(|proposal| proposal.point.choice.is_none());
        let proposed = in_program_order.map(|proposal| (proposal.point.event, false));
        let proposed = proposed.collect();
        let choices = suspected.iter().flat_map(|wave| points_of(wave));
        let choices = choices.chain(points_of(&further));
        let known_choices = choices.filter(|point| point.choice.is_some()).collect();
        required.reverse();
        further.reverse();
        Ok(Self {
            contexts,
            planned: (required.len() + tries + further.len()) as u64,
            required_count: (!all_required).then_some(required.len() as u64),
            required,
            suspected,
            suspects: suspicion.suspects,
            keeping: suspicion.keeping,
            known_choices,
            controls,
            comparisons: Vec::new(),
            surroundings,
            further,
            deferred: Vec::new(),
            failed: HashSet::new(),
            verdicts: BTreeMap::new(),
            proposed,
            wave: FIRST_WAVE,
            extent,
        })
    }

    /// The next crash points, in the order of what they promise.
    fn next(&mut self, wave: usize) -> Vec<ProposedCrash> {
        let rest = self.required.len().saturating_sub(wave);
        let required: Vec<ProposedCrash> = self.required.drain(rest..).rev().collect();
        if !required.is_empty() {
            return required;
        }
        let suspected = self.suspected.iter_mut().find(|wave| !wave.is_empty());
        if let Some(suspected) = suspected {
            return std::mem::take(suspected);
        }
        if !self.comparisons.is_empty() {
            return std::mem::take(&mut self.comparisons);
        }
        self.more(wave)
    }

    /// The next crash points that nothing requires.
    fn more(&mut self, wave: usize) -> Vec<ProposedCrash> {
        let mut chosen = Vec::new();
        while chosen.len() < wave
            && let Some(proposal) = self.further.pop()
        {
            if !self.is_new(&proposal) {
                continue;
            }
            if self.fails_again(&proposal) {
                self.deferred.push(proposal);
            } else {
                chosen.push(proposal);
            }
        }
        if chosen.is_empty() {
            let deferred = std::mem::take(&mut self.deferred).into_iter();
            self.deferred = deferred.filter(|crash| self.is_new(crash)).collect();
            let rest = self.deferred.len().min(wave);
            chosen.extend(self.deferred.drain(..rest));
        }
        let in_program_order = chosen.iter().filter(|crash| crash.point.choice.is_none());
        for proposal in in_program_order {
            let context = (proposal.kind, proposal.stack);
            self.contexts.insert(proposal.point.event, context);
        }
        chosen
    }

    /// Whether recovery most likely fails for a reason that is known.
    fn fails_again(&self, proposal: &ProposedCrash) -> bool {
        let event = proposal.point.event;
        let before = self.verdicts.range(..event).next_back();
        let after = self.verdicts.range(event..).next();
        let surrounded = [before, after].map(|known| known.is_some_and(|(_, passed)| !passed));
        self.failed.contains(&(proposal.kind, proposal.stack))
            || proposal.purpose == TrialPurpose::Store && surrounded == [true; 2]
    }

    /// Recovery has failed on the image of a suspect: another image shows whether the suspect's store is the reason.
    fn compare_suspect(&mut self, image: &CrashPoint) {
        let keeping = self.keeping.remove(image);
        let is_new = |crash: &ProposedCrash| self.known_choices.insert(crash.point.clone());
        if let Some(keeping) = keeping.filter(is_new) {
            self.planned += 1;
            self.comparisons.push(keeping);
        }
    }

    /// Recovery has failed at a state between stores: the failure points on both sides show whether it fails there, too.
    fn compare_state(&mut self, event: u64) {
        for point in self.surroundings.of(event) {
            self.compare_with(proposed(point, TrialPurpose::Occurrence));
        }
    }

    /// Tries a crash in program order next, unless it is tried already.
    fn compare_with(&mut self, crash: ProposedCrash) {
        match self.proposed.get(&crash.point.event) {
            Some(true) => return,
            Some(false) => {}
            None => self.planned += 1,
        }
        self.proposed.insert(crash.point.event, true);
        self.comparisons.push(crash);
    }

    /// Whether a crash is not proposed yet, as far as it is in program order.
    fn is_new(&self, crash: &ProposedCrash) -> bool {
        crash.point.choice.is_some() || self.proposed.get(&crash.point.event) != Some(&true)
    }
}

impl Strategy for Auto {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        let wave = self.wave;
        self.wave = (2 * wave).min(LARGEST_WAVE);
        let next = self.next(wave);
        let in_program_order = next.iter().filter(|crash| crash.point.choice.is_none());
        for crash in in_program_order {
            self.proposed.insert(crash.point.event, true);
        }
        next
    }

    fn learn(&mut self, trial: &Trial) {
        let passed = trial.verdict.passed();
        if trial.point.choice.is_some() {
            if !passed {
                self.compare_suspect(&trial.point);
                let control = self.controls.get(&trial.point.event).cloned();
                control
                    .into_iter()
                    .for_each(|crash| self.compare_with(crash));
            }
            return;
        }
        let event = trial.point.event;
        self.verdicts.insert(event, passed);
        let context = self.contexts.remove(&event);
        self.failed.extend(context.filter(|_| !passed));
        if trial.purpose == TrialPurpose::Store && !passed {
            self.compare_state(event);
        }
    }

    fn planned(&self) -> u64 {
        self.planned
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn required(&self) -> Option<u64> {
        self.required_count
    }

    fn suspects(&self) -> &[SuspectImages] {
        &self.suspects
    }
}

fn points_of(proposals: &[ProposedCrash]) -> impl Iterator<Item = CrashPoint> {
    proposals.iter().map(|proposal| proposal.point.clone())
}

fn proposed(point: FailurePoint, purpose: TrialPurpose) -> ProposedCrash {
    ProposedCrash {
        purpose,
        ..ProposedCrash::from(point)
    }
}

/// What is tried after all failure points, in order, and the failure points around states between stores.
fn further(
    input: StrategyInput<'_>,
    [different_orders, other_orders]: [Vec<ProposedCrash>; 2],
    extent: &mut Extent,
) -> Result<(Vec<ProposedCrash>, Surroundings), CrashError> {
    let StrategyInput {
        run,
        survey,
        symbols,
        ..
    } = input;
    let leaves = survey.points.leaves();
    let scope = survey.points.scope();
    let mut points = FailurePoints::new(scope.clone());
    let mut occurrences = Occurrences::default();
    let mut states = StoreStates::new(scope);
    run.walk(|event, definitions| {
        symbols.observe(event, definitions);
        let point = points.observe(event, definitions, &run.selection, &mut *symbols);
        if let Some(point) = &point {
            occurrences.reach(point);
        }
        occurrences.observe(event);
        if let Some(states) = &mut states {
            states.observe(event, definitions, &run.selection, &mut *symbols, point);
        }
        ControlFlow::Continue(())
    })?;
    let order: Vec<Context> = leaf_order(leaves, symbols)
        .into_iter()
        .map(|leaf| (leaves[leaf].kind, leaves[leaf].stack))
        .collect();
    let occurrences = occurrences.in_order(&order);
    let of = |points: Vec<FailurePoint>, purpose| -> VecDeque<ProposedCrash> {
        let points = points.into_iter();
        points.map(|point| proposed(point, purpose)).collect()
    };
    let mut different = vec![of(occurrences.novel, TrialPurpose::Occurrence)];
    let mut rest = vec![of(occurrences.rest, TrialPurpose::Occurrence)];
    let mut surroundings = Surroundings::default();
    if let Some(states) = states {
        let states = states.in_order(symbols);
        extent.stores = states.count;
        surroundings = states.surroundings;
        different.push(of(states.different, TrialPurpose::Store));
        rest.push(of(states.rest, TrialPurpose::Store));
    }
    different.push(different_orders.into());
    rest.push(other_orders.into());
    let mut further = in_turns(different);
    further.extend(in_turns(rest));
    Ok((further, surroundings))
}
