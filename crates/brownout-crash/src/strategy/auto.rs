//! The default: spends a limited time where a bug is most likely to show.
//!
//! 1. Each failure point once, at its first occurrence, as [`prefix`](super::prefix) does. The test is incomplete before
//!    that is done.
//! 2. The first images of each of the [suspects](crate::suspect) of lint: its stores are lost, or persist in another order.
//! 3. The [representatives](super::representative) of the updates of objects in all orders in which they can persist; and what
//!    differs most, and then all others, as [`further`](super::further) says: by turns, more often those that have shown
//!    [more](super::expected_value) that is new.
//!
//! If recovery fails at a state between stores, the failure points on both sides are tried next: they show whether the
//! state is a failure of its own. In the same way, a failure with stores lost is compared with program order. What
//! recovery most likely fails at again comes after everything else: failure points that have
//! failed at another occurrence, and states between stores that lie between two crashes at which it failed. If everything
//! is tried before the time is over, the test ends. Which crash points there are does not depend on time, so an interrupted
//! test can be resumed, and its parts can be merged; only how many are tried in one [wave](super::wave) does.
//!
//! Can miss: bugs that only show if stores to several objects are lost that lint does not suspect. Every image that it tries can be
//! left by a crash.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use super::expected_value::{ExpectedValues, Source};
use super::further::{Further, proposed};
use super::prefix::in_order;
use super::representative::{Representatives, control as control_of_update};
use super::store_states::Surroundings;
use super::wave::WaveSize;
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{PointKind, StackId};
use crate::object_types::TypedShare;
use crate::progress::ProgressObserver;
use crate::suspect::{SuspectImages, propose};
use crate::symbols::Symbols;
use crate::trial::Trial;

pub static AUTO: StrategyInfo = StrategyInfo {
    name: "auto",
    version: 6,
    summary: "Each failure point, then what differs most from what was tried, within the time limit",
    time_limit: Some(Duration::from_secs(30)),
    tries_suspects: true,
    tries_all: false,
    tests_behaviours: false,
    start: |input| Ok(Box::new(Auto::new(input)?)),
};

/// A failure point, whatever its occurrence.
pub(super) type Context = (PointKind, Option<StackId>);

struct Auto {
    /// What has to be tried, in reverse order.
    required: Vec<ProposedCrash>,
    /// The first images of suspects, and the crashes in program order to compare them with, in reverse order.
    suspected: Vec<ProposedCrash>,
    suspects: Vec<SuspectImages>,
    /// For images of suspects, the image that keeps the suspect's store, as long as it is not proposed.
    keeping: HashMap<CrashPoint, ProposedCrash>,
    /// The planned crashes that are not in program order.
    known_choices: HashSet<CrashPoint>,
    /// The crashes that are not in program order and were proposed.
    taken: HashSet<CrashPoint>,
    /// The crashes in program order at the instants of images with losses.
    controls: HashMap<u64, ProposedCrash>,
    /// What shows whether recovery fails for the reason for which it was tried: failure points around states between
    /// stores, and images that keep the stores of suspects.
    comparisons: Vec<ProposedCrash>,
    surroundings: Surroundings,
    /// `None` if the user says how many occurrences to try.
    representatives: Option<Representatives>,
    /// What crashes are counted as that are not only images of suspects.
    counted: HashMap<CrashPoint, TrialPurpose>,
    values: ExpectedValues,
    /// The crashes that nothing requires which were proposed and not tried yet.
    furthered: HashSet<CrashPoint>,
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
    wave: WaveSize,
    planned: u64,
    required_count: Option<u64>,
    extent: Extent,
}

impl Auto {
    fn new(input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let (points, pass) = (&input.survey.points, input.survey.duration);
        let mut required = in_order(points, input.symbols);
        let mut extent = Extent::of(points);
        // If the user says how many occurrences to try, those are required and no others are tried.
        let all_required = input.occurrences.is_some();
        let mut suspicion = propose(
            input.suspects,
            !all_required,
            input.run,
            input.survey,
            input.profile,
            &mut *input.symbols,
        )?;
        extent.orders = suspicion.orders.count;
        let others = std::mem::take(&mut suspicion.others);
        let representatives = (!all_required).then(|| Representatives::beside_others(&input));
        let mut further = match all_required {
            true => Further::only(others),
            false => Further::find(input, others, suspicion.orders, &mut extent)?,
        };
        // Each crash point is proposed once. What is counted as something else is not only the image of a suspect.
        let counted: HashMap<CrashPoint, TrialPurpose> = further
            .crashes
            .iter()
            .filter(|proposal| proposal.purpose != TrialPurpose::Suspect)
            .map(|proposal| (proposal.point.clone(), proposal.purpose))
            .collect();
        let with_losses = further.crashes.iter();
        let with_losses = with_losses.filter(|proposal| proposal.point.choice.is_some());
        let controls = with_losses
            .map(|proposal| (proposal.point.event, control(proposal, &counted)))
            .collect();
        let mut suspected = suspicion.firsts;
        for proposal in suspected.iter_mut().chain(&mut further.crashes) {
            let purpose = counted.get(&proposal.point);
            proposal.purpose = purpose.copied().unwrap_or(proposal.purpose);
        }
        let mut known: HashSet<CrashPoint> = HashSet::new();
        for crashes in [&mut required, &mut suspected, &mut further.crashes] {
            crashes.retain(|proposal| known.insert(proposal.point.clone()));
        }
        let contexts = required.iter().map(|proposal| {
            let context = (proposal.kind, proposal.stack);
            (proposal.point.event, context)
        });
        let contexts = contexts.collect();
        let planned = known.len() as u64;
        let (in_program_order, known_choices): (HashSet<_>, HashSet<_>) =
            known.into_iter().partition(|point| point.choice.is_none());
        let proposed = in_program_order.into_iter();
        let proposed = proposed.map(|point| (point.event, false)).collect();
        for crashes in [&mut required, &mut suspected, &mut further.crashes] {
            crashes.reverse();
        }
        Ok(Self {
            contexts,
            planned,
            required_count: (!all_required).then_some(required.len() as u64),
            required,
            suspected,
            suspects: suspicion.suspects,
            keeping: suspicion.keeping,
            known_choices,
            taken: HashSet::new(),
            controls,
            comparisons: Vec::new(),
            surroundings: further.surroundings,
            representatives,
            counted,
            values: ExpectedValues::default(),
            furthered: HashSet::new(),
            wave: WaveSize::new(pass),
            further: further.crashes,
            deferred: Vec::new(),
            failed: HashSet::new(),
            verdicts: BTreeMap::new(),
            proposed,
            extent,
        })
    }

    /// The next crash points, in the order of what they promise.
    fn next(&mut self, wave: usize) -> Vec<ProposedCrash> {
        for crashes in [&mut self.required, &mut self.suspected] {
            let rest = crashes.len().saturating_sub(wave);
            let next: Vec<ProposedCrash> = crashes.drain(rest..).rev().collect();
            if !next.is_empty() {
                return next;
            }
        }
        if !self.comparisons.is_empty() {
            return std::mem::take(&mut self.comparisons);
        }
        let source = self.values.next();
        let next = self.more_of(source, wave);
        match (next.is_empty(), source) {
            (true, Source::Representatives) => self.more_of(Source::Further, wave),
            (true, Source::Further) => self.more_of(Source::Representatives, wave),
            (false, _) => next,
        }
    }

    fn more_of(&mut self, source: Source, wave: usize) -> Vec<ProposedCrash> {
        match source {
            Source::Representatives => self.more_representatives(wave),
            Source::Further => self.more(wave),
        }
    }

    /// The next crashes that try representatives.
    fn more_representatives(&mut self, wave: usize) -> Vec<ProposedCrash> {
        let Some(representatives) = self.representatives.as_mut() else {
            return Vec::new();
        };
        let mut next = Vec::new();
        while next.is_empty() {
            let more = representatives.next(wave);
            if more.is_empty() {
                break;
            }
            for crash in more {
                // What is planned, too, is counted and tried once.
                let point = &crash.point;
                let (is_planned, is_proposed) =
                    match (&point.choice, self.proposed.get(&point.event)) {
                        (None, known) => (known.is_some(), known == Some(&true)),
                        (Some(_), _) => (
                            self.known_choices.contains(point),
                            self.taken.contains(point),
                        ),
                    };
                self.planned = self.planned.saturating_sub(u64::from(is_planned));
                if !(is_planned && is_proposed) {
                    next.push(crash);
                }
            }
        }
        for crash in &mut next {
            let purpose = self.counted.get(&crash.point);
            crash.purpose = purpose.copied().unwrap_or(crash.purpose);
        }
        for crash in &next {
            if !crash.point.is_in_program_order() {
                let control = self.controls.entry(crash.point.event);
                control.or_insert_with(|| control_of_update(crash));
            }
        }
        next
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
        let points = chosen.iter().map(|proposal| proposal.point.clone());
        self.furthered.extend(points);
        chosen
    }

    /// Whether recovery most likely fails for a reason that is known.
    fn fails_again(&self, proposal: &ProposedCrash) -> bool {
        if proposal.purpose == TrialPurpose::Suspect {
            return false;
        }
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
        let is_new = |crash: &ProposedCrash| {
            !self.taken.contains(&crash.point) && self.known_choices.insert(crash.point.clone())
        };
        if let Some(keeping) = keeping.filter(is_new) {
            self.planned += 1;
            self.compare(keeping);
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
        self.compare(crash);
    }

    fn compare(&mut self, crash: ProposedCrash) {
        self.comparisons.push(ProposedCrash {
            is_comparison: true,
            ..crash
        });
    }

    /// Whether a crash is not proposed yet.
    fn is_new(&self, crash: &ProposedCrash) -> bool {
        if crash.point.choice.is_some() {
            return !self.taken.contains(&crash.point);
        }
        self.proposed.get(&crash.point.event) != Some(&true)
    }
}

impl Strategy for Auto {
    fn prepare(
        &mut self,
        symbols: &mut dyn Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, CrashError> {
        let others_come_first =
            !(self.required.is_empty() && self.suspected.is_empty() && self.comparisons.is_empty());
        match &mut self.representatives {
            Some(representatives) if !others_come_first => {
                representatives.prepare(symbols, observer)
            }
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn propose(&mut self) -> Vec<ProposedCrash> {
        let wave = self.wave.next();
        let next = self.next(wave);
        self.wave.proposed(next.len());
        if let Some(representatives) = &mut self.representatives {
            let points = next.iter().map(|crash| crash.point.clone());
            points.for_each(|point| representatives.leave_out(point));
        }
        for crash in &next {
            match crash.point.choice {
                None => {
                    self.proposed.insert(crash.point.event, true);
                }
                Some(_) => {
                    self.taken.insert(crash.point.clone());
                }
            }
        }
        next
    }

    fn learn(&mut self, trial: &Trial) {
        let source = match self.furthered.remove(&trial.point) {
            true => Some(Source::Further),
            false => trial.behaviour.map(|_| Source::Representatives),
        };
        self.values.learn(trial, source);
        if let Some(representatives) = &mut self.representatives {
            representatives.learn(trial);
        }
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
        let representatives = self.representatives.as_ref();
        self.planned + representatives.map_or(0, Representatives::planned)
    }

    fn extent(&self) -> Extent {
        let representatives = self.representatives.as_ref();
        let behaviours = representatives.map(Representatives::behaviours);
        Extent {
            behaviours: behaviours.flatten().unwrap_or(0),
            behaviours_unknown: behaviours == Some(None),
            behaviours_sampled: representatives.map_or(0, Representatives::sampled),
            typed: representatives.map_or_else(TypedShare::default, Representatives::typed),
            ..self.extent
        }
    }

    fn required(&self) -> Option<u64> {
        self.required_count
    }

    fn suspects(&self) -> &[SuspectImages] {
        &self.suspects
    }
}

/// The crash in program order at the instant of an image with losses.
fn control(image: &ProposedCrash, counted: &HashMap<CrashPoint, TrialPurpose>) -> ProposedCrash {
    let point = CrashPoint::program_order(image.point.event);
    let purpose = match (counted.get(&point), image.purpose, image.kind) {
        (Some(&purpose), ..) => purpose,
        (None, TrialPurpose::OpenOrder, PointKind::Store) => TrialPurpose::Store,
        (None, TrialPurpose::OpenOrder, _) => TrialPurpose::Occurrence,
        (None, purpose, _) => purpose,
    };
    ProposedCrash {
        point,
        purpose,
        lost: None,
        ..image.clone()
    }
}
