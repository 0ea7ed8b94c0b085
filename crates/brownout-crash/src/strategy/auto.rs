//! The default: spends a limited time where a bug is most likely to show.
//!
//! 1. Each failure point once, at its first occurrence, as [`prefix`](super::prefix) does. The test is incomplete before
//!    that is done.
//! 2. Images that try the [suspects](crate::suspect) of lint: their stores are lost, or persist in another order.
//! 3. Occurrences of failure points that differ from those before, the most [different](super::novelty) first.
//! 4. Stores as failure points, where flushes and fences are few: in operations, and in programs that only write back
//!    pages.
//! 5. All other occurrences and stores, spread over the run.
//!
//! Failure points at which recovery has failed come after all others: more of them show the same bug again. If everything
//! is tried before the time is over, the test ends. What is proposed does not depend on time, so an interrupted test can
//! be resumed, and its parts can be merged.
//!
//! Can miss: bugs that only show when stores that lint does not suspect persist in another order than that of the program.
//! Every image that it tries can be left by a crash.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use super::occurrences::{Occurrences, in_turns};
use super::prefix::{in_order, leaf_order};
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{
    FailurePoint, FailurePoints, Granularity, Leaf, PointKind, Scope, StackId,
};
use crate::suspect::{SuspectImages, propose};
use crate::trial::Trial;

pub static AUTO: StrategyInfo = StrategyInfo {
    name: "auto",
    version: 1,
    summary: "Each failure point, then what differs most from what was tried, within the time limit",
    time_limit: Some(Duration::from_secs(30)),
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
    /// What is tried as long as there is time, in reverse order.
    further: Vec<ProposedCrash>,
    /// Further occurrences of failure points that have failed.
    deferred: Vec<ProposedCrash>,
    contexts: HashMap<u64, Context>,
    failed: HashSet<Context>,
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
        let mut further = match input.occurrences {
            Some(_) => Vec::new(),
            None => further(input, &mut extent)?,
        };
        // Each crash point is proposed once.
        let mut known: HashSet<CrashPoint> = points_of(&required).collect();
        let occurrences: HashSet<CrashPoint> = points_of(&further).collect();
        let mut suspected = [suspicion.firsts, suspicion.others];
        for wave in &mut suspected {
            for proposal in wave.iter_mut() {
                if occurrences.contains(&proposal.point) {
                    proposal.purpose = TrialPurpose::Occurrence;
                }
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
        required.reverse();
        further.reverse();
        Ok(Self {
            contexts,
            planned: (required.len() + tries + further.len()) as u64,
            required_count: (!all_required).then_some(required.len() as u64),
            required,
            suspected,
            suspects: suspicion.suspects,
            further,
            deferred: Vec::new(),
            failed: HashSet::new(),
            wave: FIRST_WAVE,
            extent,
        })
    }

    /// The next crash points that are not required, of failure points that have not failed.
    fn more(&mut self, wave: usize) -> Vec<ProposedCrash> {
        let mut chosen = Vec::new();
        while chosen.len() < wave
            && let Some(proposal) = self.further.pop()
        {
            if self.failed.contains(&(proposal.kind, proposal.stack)) {
                self.deferred.push(proposal);
            } else {
                chosen.push(proposal);
            }
        }
        if chosen.is_empty() {
            let rest = self.deferred.len().min(wave);
            chosen.extend(self.deferred.drain(..rest));
        }
        chosen
    }
}

impl Strategy for Auto {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        let wave = self.wave;
        self.wave = (2 * wave).min(LARGEST_WAVE);
        let rest = self.required.len().saturating_sub(wave);
        let required: Vec<ProposedCrash> = self.required.drain(rest..).rev().collect();
        if !required.is_empty() {
            return required;
        }
        let suspected = self.suspected.iter_mut().find(|wave| !wave.is_empty());
        if let Some(suspected) = suspected {
            return std::mem::take(suspected);
        }
        let more = self.more(wave);
        for proposal in &more {
            let context = (proposal.kind, proposal.stack);
            self.contexts.insert(proposal.point.event, context);
        }
        more
    }

    fn learn(&mut self, trial: &Trial) {
        if trial.point.choice.is_some() {
            return;
        }
        let context = self.contexts.remove(&trial.point.event);
        self.failed
            .extend(context.filter(|_| !trial.verdict.passed()));
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

/// What is tried after all failure points, in order.
fn further(
    input: StrategyInput<'_>,
    extent: &mut Extent,
) -> Result<Vec<ProposedCrash>, CrashError> {
    let StrategyInput {
        run,
        survey,
        symbols,
        ..
    } = input;
    let leaves = survey.points.leaves();
    let mut points = FailurePoints::new(survey.points.scope().clone());
    let mut occurrences = Occurrences::default();
    let mut stores = StorePoints::new(&survey.points);
    run.walk(|event, definitions| {
        symbols.observe(event, definitions);
        if let Some(point) = points.observe(event, definitions, &run.selection, &mut *symbols) {
            occurrences.reach(&point, true);
        }
        occurrences.observe(event);
        if let Some(stores) = &mut stores {
            let reached = stores
                .points
                .observe(event, definitions, &run.selection, &mut *symbols);
            if let Some(point) = reached {
                let wanted = point.kind == PointKind::Store
                    && (stores.everywhere || point.occurrence.operation.active);
                stores.occurrences.reach(&point, wanted);
            }
            stores.occurrences.observe(event);
        }
        ControlFlow::Continue(())
    })?;
    let order: Vec<Context> = leaf_order(leaves, symbols)
        .into_iter()
        .map(|leaf| (leaves[leaf].kind, leaves[leaf].stack))
        .collect();
    let occurrences = occurrences.in_order(&order);
    let of = |points: Vec<FailurePoint>, purpose| {
        let points = points.into_iter();
        points.map(move |point| proposed(point, purpose))
    };
    let mut further: Vec<ProposedCrash> = of(occurrences.novel, TrialPurpose::Occurrence).collect();
    let mut rest = vec![of(occurrences.rest, TrialPurpose::Occurrence).collect()];
    if let Some(stores) = stores {
        extent.stores = stores.occurrences.count();
        let stores = stores.occurrences.in_order(&[]);
        further.extend(of(stores.first, TrialPurpose::Store));
        further.extend(of(stores.novel, TrialPurpose::Store));
        rest.push(of(stores.rest, TrialPurpose::Store).collect());
    }
    further.extend(in_turns(rest));
    Ok(further)
}

/// Stores as failure points.
struct StorePoints {
    points: FailurePoints,
    occurrences: Occurrences,
    /// Not only those in operations.
    everywhere: bool,
}

impl StorePoints {
    /// `None` if stores are failure points anyway, or there are enough others.
    fn new(points: &FailurePoints) -> Option<Self> {
        let scope = points.scope();
        let everywhere = only_writes_back(points.leaves());
        let worthwhile = everywhere || !scope.operations.is_empty();
        if scope.granularity == Granularity::Store || !worthwhile {
            return None;
        }
        Some(Self {
            points: FailurePoints::new(Scope {
                granularity: Granularity::Store,
                occurrences: 1,
                ..scope.clone()
            }),
            occurrences: Occurrences::default(),
            everywhere,
        })
    }
}

/// Whether the target makes its files durable by writing back pages (`msync`), and never by flushing lines: then a failure
/// point is far from the next one.
fn only_writes_back(leaves: &[Leaf]) -> bool {
    let has = |kind| leaves.iter().any(|leaf| leaf.kind == kind);
    has(PointKind::WriteBack) && !has(PointKind::Flush)
}
