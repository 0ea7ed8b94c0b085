//! Every behaviour of recovery that a crash of the recorded run can lead to (Jaaru, ASPLOS'21, §3 and §4).
//!
//! Recovery runs under the engine, which shows what it reads. Where the bytes read can differ, because a crash may have lost
//! stores or happens at another time, each of the other byte strings is tried, too: with an image that shows recovery the same
//! bytes up to there. So each sequence of bytes that recovery can read is run exactly once, whatever the number of crash
//! times and of their states; see [`behaviours`] and [`explorer`]. Deviations from Jaaru: equal bytes are no choice, crashes at
//! different times share what is known, and where a process cannot be copied, recovery starts from the beginning.
//!
//! Where recovery could read something else so often that there are too many combinations, states are [sampled](mod@samples).
//!
//! With a depth of 2 and more, recovery crashes, too (§3's stack of executions): before each of its actions that narrows what may
//! be lost of its stores, and at its end. Each such crash is one more [situation](situations) that recovery starts in, and all
//! situations share the tree. What recovery writes can differ from then on, so it is observed, too: once a run has written other
//! bytes, the runs that have read them are repeated, and the tree is built anew. Processes are not copied then: copies do not show what
//! recovery writes.
//!
//! Stores are whole, as in Jaaru, or may be torn into words ([`StrategyInput::tearing`]).
//!
//! Can miss: what needs another order of the target's stores than the recorded one. A test is
//! incomplete, and says so, if recovery depends on more than what it reads or if states were sampled. Every failure
//! is one that a crash can lead to: recovery has failed natively on its image.

mod admission;
mod behaviours;
mod crash_times;
mod explorer;
mod guide;
mod known_runs;
mod open_nodes;
mod path;
mod samples;
mod situations;
mod time_set;
mod versions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brownout_model::{PossibleMemory, Tearing};
use brownout_recovery::{Observation, Verdict};
use brownout_report::{Covered, ExplorationCoverage, ExploredPoint};

use self::behaviours::{Next, NodeId};
use self::crash_times::{Context, RecordedStores, Start};
use self::explorer::{Explorer, MOST_CHOICES};
use self::guide::Guide;
use self::known_runs::{KnownRun, KnownRuns, is_observed_with};
use self::samples::{samples, samples_inside};
use self::time_set::TimeSet;
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput, TrialJob, TrialResults};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::{Choice, CrashPoint, Interruption, LineChoice, OtherLines, TornStore};
use crate::error::CrashError;
use crate::possible_reads::{PossibleRead, PossibleReads};
use crate::recovery_run::ActionSite;
use crate::trial::Trial;

pub static EXHAUSTIVE: StrategyInfo = StrategyInfo {
    name: "exhaustive",
    version: 1,
    summary: "Every behaviour of recovery that the persistency model allows, explored by what recovery reads",
    time_limit: None,
    tries_suspects: false,
    tries_all: true,
    start: |input| Ok(Box::new(Exhaustive::new(input)?)),
};

const NOT_A_FUNCTION: &str = "recovery does not always do the same after it has read the same bytes: it depends on time, chance, addresses or threads";
const UNREADABLE: &str = "what recovery did could not be read; please report this";
const IMPOSSIBLE: &str =
    "recovery has read bytes that the persistency model does not expect; please report this";
/// Crashes of one recovery after which it is determined whether the recovery fails without the crash, too, at most.
const MOST_COMPARED: usize = 8;
/// States that are sampled at one failure point, at most.
const MOST_SAMPLES: u64 = 512;
/// A wave costs a pass over the trace, so it is put off until so many runs are wanted or none is under way.
const WAVE: usize = 64;

struct Exhaustive {
    stores: Arc<RecordedStores>,
    /// Runs that are under way use it, too.
    explorer: Arc<Mutex<Explorer>>,
    /// The explored time of each failure point, by its event.
    times: HashMap<u64, u32>,
    /// The situations of crashes inside recoveries that were wanted.
    inside: HashMap<CrashPoint, u32>,
    /// How many runs may crash, the target included.
    depth: usize,
    /// Crashes to try.
    wanted: Vec<WantedCrash>,
    /// The nodes that runs under way will show.
    running: HashMap<CrashPoint, Vec<NodeId>>,
    /// The runs that have ended, those of an earlier test that is resumed among them.
    ended: HashMap<CrashPoint, EndedRun>,
    /// What runs have shown, if recovery may crash.
    known_runs: KnownRuns,
    /// Crashes that lead to a known failure, which is only confirmed, until that is done.
    confirmations: HashSet<CrashPoint>,
    /// The ends at which recovery fails and the failure points that lead to them.
    failures: HashSet<(NodeId, FailureSite)>,
    /// Those of the ends at which recovery hangs.
    hanging: HashSet<NodeId>,
    proposed: HashSet<CrashPoint>,
    /// The failure points at which a crash in program order was proposed.
    tried_points: HashSet<Context>,
    /// The persistency profile.
    profile: String,
    extent: Extent,
    budget: Budget,
    executions: u64,
    /// Those of them that were copies of processes that had waited.
    copies: u64,
    /// Why executions were no copies, though copies were wanted, and how often.
    run_anew: BTreeMap<String, u64>,
    /// Recoveries after crashes at times that are sampled.
    sampled_states: HashSet<CrashPoint>,
    /// Why a behaviour may be missing.
    gaps: BTreeSet<String>,
}

fn lock(explorer: &Mutex<Explorer>) -> MutexGuard<'_, Explorer> {
    explorer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A crash to try.
struct WantedCrash {
    point: CrashPoint,
    situation: u32,
    /// Whether a recovery that is interrupted would have failed otherwise.
    fails_anyway: bool,
}

/// Where power is lost if recovery fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FailureSite {
    Target(Context),
    /// In recoveries.
    Inside(Vec<ActionSite>),
}

/// Where the recoveries are interrupted that lead to a situation.
fn site_inside(explorer: &Explorer, situation: u32) -> FailureSite {
    let interruptions = explorer.situations().interruptions(situation).into_iter();
    FailureSite::Inside(
        interruptions
            .map(|known| known.crash.site.clone())
            .collect(),
    )
}

/// How a run ended.
#[derive(Clone, Copy)]
struct EndedRun {
    passes: bool,
    /// What it read is not known: the observation says why.
    is_unobserved: bool,
}

impl EndedRun {
    fn of(passes: bool, observation: &Observation) -> Self {
        Self {
            passes,
            is_unobserved: observation.reads.is_none(),
        }
    }
}

/// How many states are tried at each failure point.
#[derive(Default)]
struct Budget {
    most: Option<u64>,
    states: HashMap<Context, u64>,
    samples: HashMap<Context, u64>,
}

impl Budget {
    fn is_left(&self, point: Context) -> bool {
        let used = self.states.get(&point).copied().unwrap_or(0);
        self.most.is_none_or(|most| used < most)
    }

    fn take(&mut self, point: Context) {
        *self.states.entry(point).or_default() += 1;
    }

    /// Takes a sample, if there may be one more.
    fn take_sample(&mut self, point: Context) -> bool {
        let samples = self.samples.entry(point).or_default();
        let is_left = *samples < MOST_SAMPLES;
        *samples += u64::from(is_left);
        is_left
    }
}

impl Exhaustive {
    fn new(input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let budget = Budget {
            most: input.max_states,
            ..Budget::default()
        };
        let input_depth = input.depth;
        let extent = Extent::of(&input.survey.points);
        let profile = input.profile.name.to_owned();
        let stores = Arc::new(RecordedStores::of(input)?);
        let events = stores.times.iter();
        let events = events.map(|explored| explored.point.occurrence.event.0);
        Ok(Self {
            times: events.zip(0..).collect(),
            extent: Extent {
                occurrences: stores.times.len() as u64,
                ..extent
            },
            explorer: Arc::new(Mutex::new(Explorer::new(Arc::clone(&stores), input_depth))),
            stores,
            inside: HashMap::new(),
            depth: input_depth,
            known_runs: KnownRuns::default(),
            wanted: Vec::new(),
            running: HashMap::new(),
            ended: HashMap::new(),
            confirmations: HashSet::new(),
            failures: HashSet::new(),
            hanging: HashSet::new(),
            proposed: HashSet::new(),
            tried_points: HashSet::new(),
            profile,
            budget,
            executions: 0,
            copies: 0,
            run_anew: BTreeMap::new(),
            sampled_states: HashSet::new(),
            gaps: BTreeSet::new(),
        })
    }

    /// Wants a run for each node that no run has reached. What can be reached without a crash inside recovery comes first.
    fn want_frontier(&mut self, explorer: &mut Explorer) {
        let nodes = explorer.take_frontier();
        let of_target = explorer.situations().of_target();
        let is_first = |node: &NodeId| {
            let first = explorer.behaviours.times(*node).first();
            first.is_some_and(|first| first < of_target)
        };
        let (first, later): (Vec<NodeId>, Vec<NodeId>) = nodes.into_iter().partition(is_first);
        self.want_nodes(explorer, first);
        let is_of_target = |point: &CrashPoint| point.interruptions.is_empty();
        match self.running.keys().any(is_of_target) {
            true => explorer.put_back(later),
            false => self.want_nodes(explorer, later),
        }
    }

    fn want_nodes(&mut self, explorer: &mut Explorer, nodes: Vec<NodeId>) {
        for node in nodes {
            let Some(time) = self.time_to_run(explorer, node) else {
                continue;
            };
            self.budget.take(explorer.situations().context(time));
            explorer.behaviours.await_run(node);
            let memory = explorer.memory_at(node, time);
            let point = self.crash_point(explorer, time, &memory);
            if let Some(&ended) = self.ended.get(&point) {
                self.settle(explorer, node, ended);
                continue;
            }
            let nodes = self.running.entry(point.clone()).or_default();
            nodes.push(node);
            if nodes.len() == 1 {
                self.want(explorer, (point, time), &memory);
            }
        }
    }

    fn want(
        &mut self,
        explorer: &mut Explorer,
        (point, situation): (CrashPoint, u32),
        memory: &PossibleMemory,
    ) {
        if !point.interruptions.is_empty() {
            self.inside.insert(point.clone(), situation);
        }
        let fails_anyway = explorer.fails_anyway(situation, memory);
        self.wanted.push(WantedCrash {
            point,
            situation,
            fails_anyway,
        });
    }

    /// Takes the run on a crash that leads to a node for all that is known about the node.
    fn settle(&mut self, explorer: &mut Explorer, node: NodeId, run: EndedRun) {
        if explorer.behaviours.next(node).is_known() {
            return;
        }
        if !run.is_unobserved {
            // It would have got there if it did the same as the earlier ones.
            self.gaps.insert(NOT_A_FUNCTION.to_owned());
        }
        let passes = run.passes;
        explorer.behaviours.learn(node, Next::End { passes });
    }

    /// The time of a crash that shows what recovery does after a node; `None` if all its times are sampled or have enough states.
    fn time_to_run(&self, explorer: &Explorer, node: NodeId) -> Option<u32> {
        let mut times = explorer.behaviours.times(node).iter();
        times.find(|&time| {
            let point = explorer.situations().context(time);
            !explorer.sampled.contains(time) && self.budget.is_left(point)
        })
    }

    /// Wants runs on some of the states that a crash can leave.
    fn want_samples(&mut self, explorer: &mut Explorer, end: NodeId, time: u32) {
        let point = explorer.situations().context(time);
        let units = explorer.open_units(end, time);
        let situations = explorer.situations();
        let crash = situations.memory(time, None, &explorer.behaviours);
        let seed = u64::from(time);
        let samples = match situations.depth(time) {
            1 => samples(&crash, &units, seed),
            _ => samples_inside(&crash, (&units, explorer.versions.unit_size()), seed),
        };
        for memory in samples {
            if explorer.is_known(&memory, time) {
                continue;
            }
            if !self.budget.is_left(point) || !self.budget.take_sample(point) {
                return;
            }
            self.budget.take(point);
            let sample = self.crash_point(explorer, time, &memory);
            if !self.proposed.contains(&sample) && !self.running.contains_key(&sample) {
                self.running.insert(sample.clone(), Vec::new());
                self.want(explorer, (sample, time), &memory);
            }
        }
    }

    /// A known failure is reported at each failure point that leads to it, once it is confirmed there. One that needs a crash inside
    /// recovery is reported once for each action of recovery that is interrupted.
    fn confirm(&mut self, explorer: &mut Explorer, end: NodeId) {
        if self.hanging.contains(&end) {
            // To wait for the same hang at each failure point would take all the time there is.
            return;
        }
        let times = Arc::clone(explorer.behaviours.times(end));
        let of_target = explorer.situations().of_target();
        let mut needs_interruption = true;
        for time in times.parts(0..of_target).flatten() {
            needs_interruption = false;
            let site = FailureSite::Target(explorer.situations().context(time));
            if self.failures.insert((end, site)) {
                let memory = explorer.memory_at(end, time);
                self.want_confirmation(explorer, time, &memory);
            }
        }
        if !needs_interruption {
            return;
        }
        let interrupted = explorer.situations().interrupted().iter();
        let numbers: Vec<_> = interrupted.map(|known| known.numbers.clone()).collect();
        for numbers in numbers {
            for time in times.parts(numbers).flatten().take(MOST_COMPARED) {
                let site = (end, site_inside(explorer, time));
                if self.failures.contains(&site) {
                    break;
                }
                let memory = explorer.memory_at(end, time);
                if !explorer.fails_anyway(time, &memory) {
                    self.failures.insert(site);
                    self.want_confirmation(explorer, time, &memory);
                    break;
                }
            }
        }
    }

    fn want_confirmation(&mut self, explorer: &mut Explorer, time: u32, memory: &PossibleMemory) {
        let point = self.crash_point(explorer, time, memory);
        if !self.proposed.contains(&point) && self.confirmations.insert(point.clone()) {
            self.want(explorer, (point, time), memory);
        }
    }

    /// The crash that leaves what was read, with as many other stores as possible.
    fn crash_point(&self, explorer: &Explorer, time: u32, memory: &PossibleMemory) -> CrashPoint {
        let situations = explorer.situations();
        let target = situations.target_crash(time);
        let choice = |run: usize| {
            let incomplete = memory.incomplete_lines_of(run).into_iter();
            let mut lines: Vec<LineChoice> = incomplete
                .filter_map(|incomplete| {
                    let file = target.number_of(incomplete.line.space)?;
                    let place = (file, incomplete.line.offset);
                    let absent = incomplete.absent.into_iter().collect();
                    let torn = incomplete.torn.into_iter();
                    let torn = torn.map(|(store, words)| TornStore { store, words });
                    let torn = torn.collect();
                    Some(LineChoice::without(place, incomplete.stores, &absent, torn))
                })
                .collect();
            lines.sort();
            (!lines.is_empty()).then(|| Choice {
                profile: self.profile.clone(),
                tearing: self.stores.history.tearing(),
                others: OtherLines::Newest,
                lines,
            })
        };
        let interruptions = situations.interruptions(time);
        let interruptions = (1..).zip(interruptions).map(|(run, known)| Interruption {
            actions: known.crash.actions,
            digest: known.crash.digest,
            choice: choice(run),
        });
        CrashPoint {
            event: target.point.occurrence.event.0,
            choice: choice(0),
            interruptions: interruptions.collect(),
        }
    }

    /// Learns from a run that was observed.
    fn take(&mut self, explorer: &mut Explorer, trial: &Trial) {
        let Some(observation) = &trial.observation else {
            return;
        };
        let Some(start) = self.start_of(trial) else {
            return;
        };
        self.executions += u64::from(trial.same_as.is_none());
        self.copies += u64::from(observation.is_copy);
        if let Some(reason) = &observation.run_anew {
            *self.run_anew.entry(reason.clone()).or_default() += 1;
        }
        self.gaps.extend(observation.gaps.iter().cloned());
        if observation.reads.is_none() {
            return;
        }
        let run = KnownRun {
            point: trial.point.clone(),
            start,
            observation: observation.clone(),
            passes: trial.verdict.passed(),
            hangs: trial.verdict == Verdict::Hung,
            fails_anyway: trial.fails_anyway,
        };
        if self.depth > 1 {
            self.known_runs.add(run.clone());
        }
        self.take_run(explorer, &run);
    }

    /// How the recovery of a trial has started.
    fn start_of(&self, trial: &Trial) -> Option<Start> {
        let &time = self.times.get(&trial.point.event)?;
        let start = self.stores.times[time as usize].start.clone();
        if trial.point.interruptions.is_empty() {
            return Some(start);
        }
        let actions = trial.observation.as_ref()?.actions.as_ref()?;
        Some(Start {
            sizes: actions.sizes.clone(),
            ..start
        })
    }

    /// The situation in which a recovery has started; `None` if that is not known yet.
    fn situation_of(&self, point: &CrashPoint) -> Option<u32> {
        match point.interruptions.is_empty() {
            true => self.times.get(&point.event).copied(),
            false => self.inside.get(point).copied(),
        }
    }

    fn take_run(&mut self, explorer: &mut Explorer, run: &KnownRun) {
        let Some(reads) = &run.observation.reads else {
            return;
        };
        if !explorer.is_explained(reads) {
            // It is of a test that is resumed, and shows bytes that are not observed yet.
            return;
        }
        self.ended.insert(
            run.point.clone(),
            EndedRun::of(run.passes, &run.observation),
        );
        let acted = match run.observation.actions.as_ref().filter(|_| self.depth > 1) {
            None => None,
            Some(actions) => {
                let observed = &explorer.situations().differing;
                match self
                    .known_runs
                    .acted(actions, &self.stores.history, observed)
                {
                    Ok(acted) => acted,
                    Err(_) => {
                        self.gaps.insert(UNREADABLE.to_owned());
                        None
                    }
                }
            }
        };
        let learned = explorer.learn(&run.start, reads, run.passes, acted.as_ref());
        if let Some(situation) = self.situation_of(&run.point) {
            if !run.passes && !run.fails_anyway {
                let site = match explorer.situations().depth(situation) {
                    1 => FailureSite::Target(explorer.situations().context(situation)),
                    _ => site_inside(explorer, situation),
                };
                self.failures.insert((learned.end, site));
            }
            if explorer.sampled.contains(situation) {
                self.sampled_states.insert(run.point.clone());
            }
        }
        if run.hangs {
            self.hanging.insert(learned.end);
        }
        if !run.passes && learned.is_new {
            self.confirm(explorer, learned.end);
        }
        for time in learned.too_open {
            self.want_samples(explorer, learned.end, time);
        }
        for end in explorer.take_failing_ends() {
            self.confirm(explorer, end);
        }
    }

    fn proposal(&mut self, explorer: &Explorer, wanted: WantedCrash) -> ProposedCrash {
        let WantedCrash {
            point,
            situation,
            fails_anyway,
        } = wanted;
        let situations = explorer.situations();
        let known = situations.target_crash(situation).point;
        let interruptions = situations.interruptions(situation);
        let recoveries = interruptions.iter().map(|known| known.recovery.clone());
        let recoveries = recoveries.collect();
        let purpose = match &point.choice {
            _ if !point.interruptions.is_empty() => TrialPurpose::Interruption,
            None if self.tried_points.insert(situations.context(situation)) => {
                TrialPurpose::FailurePoint
            }
            None => TrialPurpose::Occurrence,
            Some(_) => TrialPurpose::OpenOrder,
        };
        let observed = match self.confirmations.contains(&point) {
            true => Arc::default(),
            false => Arc::clone(&situations.differing),
        };
        ProposedCrash {
            observed,
            is_repeated: !self.proposed.insert(point.clone()),
            point,
            purpose,
            recoveries,
            fails_anyway,
            ..ProposedCrash::from(known)
        }
    }

    /// Observes what recovery has written, too, and builds the tree anew from what is known.
    fn observe_more(&mut self, explorer: &mut Explorer) {
        let situations = &mut explorer.versions.situations;
        let (differing, runs) = self.known_runs.observe_more(&situations.differing);
        situations.differing = differing;
        explorer.restart();
        self.ended.retain(|_, run| run.is_unobserved);
        self.inside.clear();
        self.failures.clear();
        self.hanging.clear();
        for run in &runs {
            self.take_run(explorer, run);
        }
    }

    /// Why behaviours may be missing, in sentences.
    fn gaps(&self, explorer: &Explorer) -> Vec<String> {
        let contradictions = explorer.behaviours.contradictions() + explorer.other_actions();
        // Until everything is explored, not every crash inside recovery is known that can leave what was read.
        let are_crashes_known = self.depth == 1 || explorer.unfinished().is_empty();
        let is_impossible = are_crashes_known && explorer.has_impossible_reads();
        let reasons = [
            (contradictions > 0, NOT_A_FUNCTION),
            (is_impossible, IMPOSSIBLE),
        ];
        let own = reasons.into_iter().filter(|(applies, _)| *applies);
        let own = own.map(|(_, reason)| reason.to_owned());
        let all: BTreeSet<String> = self.gaps.iter().cloned().chain(own).collect();
        let counted = self.sampling(explorer).into_iter();
        let counted = counted.chain(self.exceeded_budget(explorer));
        all.into_iter().chain(counted).collect()
    }

    fn sampling(&self, explorer: &Explorer) -> Option<String> {
        let sampled = &explorer.sampled;
        let situations = explorer.situations();
        let states = sampled.iter().map(|time| situations.states_log10(time));
        (!sampled.is_empty()).then(|| {
            format!(
                "at {} of {} crash times recovery can read other bytes more than {MOST_CHOICES} times on its way, and states were \
                 sampled: {} of about 10^{:.1}",
                sampled.count(),
                situations.end(),
                self.sampled_states.len(),
                states.fold(0.0, f64::max)
            )
        })
    }

    fn exceeded_budget(&self, explorer: &Explorer) -> Option<String> {
        let most = self.budget.most?;
        let full = self
            .budget
            .states
            .values()
            .filter(|&&states| states >= most);
        let full = full.count();
        let is_exceeded = explorer
            .waiting()
            .any(|node| self.time_to_run(explorer, node).is_none());
        (is_exceeded && full > 0).then(|| {
            format!(
                "--max-states {most} was reached at {full} of {} failure points",
                self.stores.names.len()
            )
        })
    }

    /// For each failure point, at how many of its times every behaviour is known.
    fn points(&self, unfinished: &TimeSet) -> Vec<ExploredPoint> {
        let mut points: BTreeMap<&str, Covered> = BTreeMap::new();
        for (time, explored) in (0..).zip(&self.stores.times) {
            let name = &self.stores.names[&explored.context()];
            let covered = points.entry(name).or_default();
            covered.of += 1;
            covered.tried += u64::from(!unfinished.contains(time));
        }
        let points = points.into_iter();
        points
            .map(|(name, crash_times)| ExploredPoint {
                failure_point: name.to_owned(),
                crash_times,
            })
            .collect()
    }
}

impl Strategy for Exhaustive {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        let explorer = Arc::clone(&self.explorer);
        let mut explorer = lock(&explorer);
        self.want_frontier(&mut explorer);
        while self.wanted.is_empty() && self.running.is_empty() && self.known_runs.waiting() > 0 {
            self.observe_more(&mut explorer);
            self.want_frontier(&mut explorer);
        }
        let under_way = self.running.len() > self.wanted.len();
        if self.wanted.len() < WAVE && under_way {
            return Vec::new();
        }
        let wanted = std::mem::take(&mut self.wanted).into_iter();
        wanted
            .map(|wanted| self.proposal(&explorer, wanted))
            .collect()
    }

    fn learn(&mut self, trial: &Trial) {
        let explorer = Arc::clone(&self.explorer);
        let mut explorer = lock(&explorer);
        self.proposed.insert(trial.point.clone());
        let passes = trial.verdict.passed();
        if self.confirmations.remove(&trial.point) && passes {
            self.gaps.insert(NOT_A_FUNCTION.to_owned());
        }
        let nodes = self.running.remove(&trial.point).unwrap_or_default();
        let wanted = &explorer.situations().differing;
        let observation = trial.observation.as_ref();
        let Some(observation) = observation.filter(|known| is_observed_with(known, wanted)) else {
            // It ran on an equal image before, and less was observed.
            for &node in &nodes {
                explorer.behaviours.forget_run(node);
            }
            explorer.put_back(nodes);
            return;
        };
        let ended = EndedRun::of(passes, observation);
        if ended.is_unobserved {
            self.ended.insert(trial.point.clone(), ended);
        }
        self.take(&mut explorer, trial);
        for node in nodes {
            self.settle(&mut explorer, node, ended);
        }
    }

    fn planned(&self) -> u64 {
        (self.proposed.len() + self.wanted.len()) as u64
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn exploration(&self) -> Option<ExplorationCoverage> {
        let explorer = lock(&self.explorer);
        let situations = explorer.situations();
        let times = situations.of_target();
        let unfinished = explorer.unfinished();
        let points = self.points(&unfinished);
        let open_points = points.iter().filter(|point| !point.is_finished());
        let finished = |all: u64, open: u64| Covered::new(all - open, all);
        let open_in = |numbers: Range<u32>| -> u64 {
            let parts = unfinished.parts(numbers);
            parts.map(|part| u64::from(part.end - part.start)).sum()
        };
        let is_waiting = |&node: &NodeId| {
            explorer.behaviours.next(node) == Next::Awaited
                || self.time_to_run(&explorer, node).is_some()
        };
        let behaviours = &explorer.behaviours;
        let ends = behaviours
            .nodes()
            .filter(|&node| matches!(behaviours.next(node), Next::End { .. }));
        let paths: u64 = ends.map(|node| behaviours.times(node).count()).sum();
        let mut inside = vec![Covered::default(); self.depth - 1];
        for known in situations.interrupted() {
            let covered = &mut inside[known.depth - 2];
            let all = u64::from(known.numbers.end - known.numbers.start);
            covered.of += all;
            covered.tried += all - open_in(known.numbers.clone());
        }
        let unobserved = self.known_runs.waiting();
        if let Some(first) = inside.first_mut() {
            first.of += unobserved;
        }
        let waiting = explorer.waiting().filter(is_waiting).count() as u64;
        Some(ExplorationCoverage {
            failure_points: finished(points.len() as u64, open_points.count() as u64),
            crash_times: finished(u64::from(times), open_in(0..times)),
            inside_recovery: inside,
            executions: self.executions,
            copies: self.copies,
            run_anew: self.run_anew.clone(),
            waiting: waiting + unobserved,
            known_paths: paths.saturating_sub(self.executions),
            states_log10: situations.eager_states_log10(),
            torn_stores: self.stores.history.tearing() == Tearing::Words,
            gaps: self.gaps(&explorer),
            points,
        })
    }

    fn possible_reads(&mut self) -> Option<PossibleReads> {
        let mut explorer = lock(&self.explorer);
        let nodes = explorer.open_nodes().into_iter();
        let reads = nodes.map(|open| {
            let explored = &self.stores.times[open.time as usize];
            PossibleRead {
                point: self.crash_point(&explorer, open.time, &open.memory),
                operation: explored.start.operation,
                crash: explored.time,
                number: open.number,
                path: open.path,
                read: open.read,
                at: open.at,
                sources: open.sources,
            }
        });
        let reads = reads.collect();
        let stores = &self.stores;
        Some(PossibleReads {
            reads,
            wanted: Arc::clone(&explorer.situations().differing),
            history: Arc::clone(&stores.history),
            initial: Arc::clone(&stores.initial),
        })
    }

    fn job(&self, proposal: &ProposedCrash) -> TrialJob {
        if self.confirmations.contains(&proposal.point) {
            return super::native_job();
        }
        let observed = Arc::clone(&proposal.observed);
        if self.depth > 1 {
            return Box::new(move |runner, image, task| {
                Ok(TrialResults {
                    proposed: runner.attempt_with_actions(&image.files, task, &observed)?,
                    others: Vec::new(),
                })
            });
        }
        let Some(&time) = self.times.get(&proposal.point.event) else {
            return super::native_job();
        };
        let start = self.stores.times[time as usize].start.clone();
        let explorer = Arc::clone(&self.explorer);
        Box::new(move |runner, image, task| {
            let mut guide = Guide::new(explorer, &start);
            let attempt = runner.attempt_branch(&image.files, task, &observed, &mut guide)?;
            Ok(TrialResults {
                proposed: attempt,
                others: Vec::new(),
            })
        })
    }
}
