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
//! Stores are whole, as in Jaaru, or may be torn into words ([`StrategyInput::tearing`]).
//!
//! Can miss: what needs another order of the target's stores than the recorded one, and failures inside recovery (§3's stack of
//! executions). A test is
//! incomplete, and says so, if recovery depends on more than what it reads or if states were sampled. Every failure
//! is one that a crash can lead to: recovery has failed natively on its image.

mod behaviours;
mod crash_times;
mod explorer;
mod guide;
mod possible_reads;
mod samples;
mod time_set;
mod versions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brownout_model::{PossibleMemory, SpaceId, Tearing};
use brownout_recovery::Verdict;
use brownout_report::{Covered, ExplorationCoverage, ExploredPoint};

use self::behaviours::{Next, NodeId};
use self::crash_times::{Context, RecordedStores};
use self::explorer::{Explorer, MOST_CHOICES};
use self::guide::Guide;
use self::samples::samples;
use self::time_set::TimeSet;
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput, TrialJob, TrialResults};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::{Choice, CrashPoint, LineChoice, OtherLines, TornStore};
use crate::error::CrashError;
use crate::trial::Trial;
use crate::unpersisted_reads::{PossibleRead, PossibleReads};

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
const IMPOSSIBLE: &str =
    "recovery has read bytes that the persistency model does not expect; please report this";
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
    /// Crashes to try, and their times.
    wanted: Vec<(CrashPoint, u32)>,
    /// The nodes that runs under way will show.
    running: HashMap<CrashPoint, Vec<NodeId>>,
    /// The runs that have ended, those of an earlier test that is resumed among them.
    ended: HashMap<CrashPoint, EndedRun>,
    /// Crashes that lead to a known failure: it is only confirmed.
    confirmations: HashSet<CrashPoint>,
    /// The ends at which recovery fails and the failure points that lead to them.
    failures: HashSet<(NodeId, Context)>,
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

/// How a run ended.
#[derive(Clone, Copy)]
struct EndedRun {
    passes: bool,
    /// What it read is not known: the observation says why.
    is_unobserved: bool,
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
            explorer: Arc::new(Mutex::new(Explorer::new(Arc::clone(&stores)))),
            stores,
            wanted: Vec::new(),
            running: HashMap::new(),
            ended: HashMap::new(),
            confirmations: HashSet::new(),
            failures: HashSet::new(),
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

    fn explorer(&self) -> MutexGuard<'_, Explorer> {
        lock(&self.explorer)
    }

    /// Wants a run for each node that no run has reached.
    fn want_frontier(&mut self) {
        let frontier = self.explorer().take_frontier();
        for node in frontier {
            let explorer = Arc::clone(&self.explorer);
            let mut explorer = lock(&explorer);
            if explorer.behaviours.next(node) != Next::Unknown {
                // A run has got there in the meantime.
                continue;
            }
            let Some(time) = self.time_to_run(&explorer, node) else {
                continue;
            };
            self.budget.take(self.context(time));
            explorer.behaviours.await_run(node);
            let memory = explorer.memory_at(node, time);
            let point = self.crash_point(time, &memory);
            if let Some(&ended) = self.ended.get(&point) {
                drop(explorer);
                self.settle(node, ended);
                continue;
            }
            let nodes = self.running.entry(point.clone()).or_default();
            nodes.push(node);
            if nodes.len() == 1 {
                self.wanted.push((point, time));
            }
        }
    }

    /// Takes the run on a crash that leads to a node for all that is known about the node.
    fn settle(&mut self, node: NodeId, run: EndedRun) {
        let explorer = Arc::clone(&self.explorer);
        let mut explorer = lock(&explorer);
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
            !explorer.sampled.contains(time) && self.budget.is_left(self.context(time))
        })
    }

    /// Wants runs on some of the states that a crash can leave.
    fn want_samples(&mut self, end: NodeId, time: u32) {
        let point = self.context(time);
        let units = self.explorer().open_units(end, time);
        let crash = self.explorer().versions.memory(time);
        for memory in samples(&crash, &units, u64::from(time)) {
            if self.explorer().is_known(&memory, time) {
                continue;
            }
            if !self.budget.is_left(point) || !self.budget.take_sample(point) {
                return;
            }
            self.budget.take(point);
            let sample = self.crash_point(time, &memory);
            if !self.proposed.contains(&sample) && !self.running.contains_key(&sample) {
                self.running.insert(sample.clone(), Vec::new());
                self.wanted.push((sample, time));
            }
        }
    }

    /// A known failure is reported at each failure point that leads to it, once it is confirmed there.
    fn confirm(&mut self, end: NodeId) {
        let times = Arc::clone(self.explorer().behaviours.times(end));
        for time in times.iter() {
            if self.failures.insert((end, self.context(time))) {
                let memory = self.explorer().memory_at(end, time);
                let point = self.crash_point(time, &memory);
                if !self.proposed.contains(&point) && self.confirmations.insert(point.clone()) {
                    self.wanted.push((point, time));
                }
            }
        }
    }

    /// The crash that leaves what was read, with as many other stores as possible.
    fn crash_point(&self, time: u32, memory: &PossibleMemory) -> CrashPoint {
        let explored = &self.stores.times[time as usize];
        let incomplete = memory.incomplete_lines().into_iter();
        let mut lines: Vec<LineChoice> = incomplete
            .filter_map(|incomplete| {
                let mut holders = explored.holders.iter();
                let file = holders.position(|holder| {
                    holder.is_some_and(|file| SpaceId(file.0) == incomplete.line.space)
                })?;
                let place = (file, incomplete.line.offset);
                let absent = incomplete.absent.into_iter().collect();
                let torn = incomplete.torn.into_iter();
                let torn = torn.map(|(store, words)| TornStore { store, words });
                let torn = torn.collect();
                Some(LineChoice::without(place, incomplete.stores, &absent, torn))
            })
            .collect();
        lines.sort();
        CrashPoint {
            event: explored.point.occurrence.event.0,
            choice: (!lines.is_empty()).then(|| Choice {
                profile: self.profile.clone(),
                tearing: self.stores.history.tearing(),
                others: OtherLines::Newest,
                lines,
            }),
        }
    }

    /// Learns from a run that was observed.
    fn take(&mut self, trial: &Trial) {
        let time = self.times.get(&trial.point.event).copied();
        let (Some(time), Some(observation)) = (time, &trial.observation) else {
            return;
        };
        self.executions += u64::from(trial.same_as.is_none());
        self.copies += u64::from(observation.is_copy);
        if let Some(reason) = &observation.run_anew {
            *self.run_anew.entry(reason.clone()).or_default() += 1;
        }
        self.gaps.extend(observation.gaps.iter().cloned());
        let Some(reads) = &observation.reads else {
            return;
        };
        let passes = trial.verdict.passed();
        let start = &self.stores.times[time as usize].start;
        let learned = self.explorer().learn(start, reads, passes);
        if !passes {
            self.failures.insert((learned.end, self.context(time)));
            // To wait for the same hang at each failure point would take all the time there is.
            if learned.is_new && trial.verdict != Verdict::Hung {
                self.confirm(learned.end);
            }
        }
        for time in learned.too_open {
            self.want_samples(learned.end, time);
        }
        let is_sampled = self.explorer().sampled.contains(time);
        if is_sampled {
            self.sampled_states.insert(trial.point.clone());
        }
    }

    fn context(&self, time: u32) -> Context {
        self.stores.times[time as usize].context()
    }

    fn proposal(&mut self, point: CrashPoint, time: u32) -> ProposedCrash {
        let known = self.stores.times[time as usize].point;
        let purpose = match &point.choice {
            None if self.tried_points.insert(self.context(time)) => TrialPurpose::FailurePoint,
            None => TrialPurpose::Occurrence,
            Some(_) => TrialPurpose::OpenOrder,
        };
        ProposedCrash {
            point,
            purpose,
            ..ProposedCrash::from(known)
        }
    }

    /// Why behaviours may be missing, in sentences.
    fn gaps(&self, explorer: &Explorer) -> Vec<String> {
        let contradictions = explorer.behaviours.contradictions();
        let reasons = [
            (contradictions > 0, NOT_A_FUNCTION),
            (explorer.impossible_reads > 0, IMPOSSIBLE),
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
        let times = &self.stores.times;
        let states = sampled
            .iter()
            .map(|time| times[time as usize].time.states_log10);
        (!sampled.is_empty()).then(|| {
            format!(
                "at {} of {} crash times recovery can read other bytes more than {MOST_CHOICES} times on its way, and states were \
                 sampled: {} of about 10^{:.1}",
                sampled.count(),
                times.len(),
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
        for time in 0..self.stores.times.len() as u32 {
            let name = &self.stores.names[&self.context(time)];
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
        self.want_frontier();
        let under_way = self.running.len() > self.wanted.len();
        if self.wanted.len() < WAVE && under_way {
            return Vec::new();
        }
        let wanted = std::mem::take(&mut self.wanted).into_iter();
        wanted
            .map(|(point, time)| {
                self.proposed.insert(point.clone());
                self.proposal(point, time)
            })
            .collect()
    }

    fn learn(&mut self, trial: &Trial) {
        self.proposed.insert(trial.point.clone());
        self.take(trial);
        let is_known_failure = self.confirmations.contains(&trial.point);
        if is_known_failure && trial.verdict.passed() {
            self.gaps.insert(NOT_A_FUNCTION.to_owned());
        }
        let observation = trial.observation.as_ref();
        let ended = EndedRun {
            passes: trial.verdict.passed(),
            is_unobserved: observation.is_some_and(|observation| observation.reads.is_none()),
        };
        self.ended.insert(trial.point.clone(), ended);
        for node in self.running.remove(&trial.point).unwrap_or_default() {
            self.settle(node, ended);
        }
    }

    fn planned(&self) -> u64 {
        (self.proposed.len() + self.wanted.len()) as u64
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn exploration(&self) -> Option<ExplorationCoverage> {
        let explorer = self.explorer();
        let times = self.stores.times.len() as u32;
        let unfinished = explorer.unfinished();
        let points = self.points(&unfinished);
        let open_points = points.iter().filter(|point| !point.is_finished());
        let finished = |all: u64, open: u64| Covered::new(all - open, all);
        let is_waiting = |&node: &NodeId| {
            explorer.behaviours.next(node) == Next::Awaited
                || self.time_to_run(&explorer, node).is_some()
        };
        let behaviours = &explorer.behaviours;
        let ends = behaviours
            .nodes()
            .filter(|&node| matches!(behaviours.next(node), Next::End { .. }));
        let paths: u64 = ends.map(|node| behaviours.times(node).count()).sum();
        Some(ExplorationCoverage {
            failure_points: finished(points.len() as u64, open_points.count() as u64),
            crash_times: finished(u64::from(times), unfinished.count()),
            executions: self.executions,
            copies: self.copies,
            run_anew: self.run_anew.clone(),
            waiting: explorer.waiting().filter(is_waiting).count() as u64,
            known_paths: paths.saturating_sub(self.executions),
            states_log10: self.stores.states_log10(),
            torn_stores: self.stores.history.tearing() == Tearing::Words,
            gaps: self.gaps(&explorer),
            points,
        })
    }

    fn possible_reads(&mut self) -> Option<PossibleReads> {
        let nodes = self.explorer().open_nodes().into_iter();
        let reads = nodes.map(|open| {
            let explored = &self.stores.times[open.time as usize];
            PossibleRead {
                point: self.crash_point(open.time, &open.memory),
                operation: explored.start.operation,
                crash: explored.time,
                number: open.number,
                read: open.read,
                at: open.at,
                sources: open.sources,
            }
        });
        let reads = reads.collect();
        let stores = &self.stores;
        Some(PossibleReads {
            reads,
            wanted: Arc::clone(&stores.differing),
            history: Arc::clone(&stores.history),
            initial: Arc::clone(&stores.initial),
        })
    }

    fn job(&self, proposal: &ProposedCrash) -> TrialJob {
        if self.confirmations.contains(&proposal.point) {
            return super::native_job();
        }
        let differing = Arc::clone(&self.stores.differing);
        let Some(&time) = self.times.get(&proposal.point.event) else {
            return super::native_job();
        };
        let start = self.stores.times[time as usize].start.clone();
        let explorer = Arc::clone(&self.explorer);
        Box::new(move |runner, image, task| {
            let mut guide = Guide::new(explorer, &start);
            let attempt = runner.attempt_branch(&image.files, task, &differing, &mut guide)?;
            Ok(TrialResults {
                proposed: attempt,
                others: Vec::new(),
            })
        })
    }
}
