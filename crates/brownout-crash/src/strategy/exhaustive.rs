//! Every behaviour of recovery that a crash of the recorded run can lead to (Jaaru, ASPLOS'21, §3 and §4).
//!
//! Recovery runs under the engine, which shows what it reads. Where the bytes read can differ, because a crash may have lost
//! stores or happens at another time, each of the other byte strings is tried, too: with an image that shows recovery the same
//! bytes up to there. So each sequence of bytes that recovery can read is run exactly once, whatever the number of crash
//! times and of their states; see [`behaviours`] and [`explorer`]. Deviations from Jaaru: equal bytes are no choice, crashes at
//! different times share what is known, and where a process cannot be copied, recovery starts from the beginning.
//!
//! Where recovery could read something else so often that there are too many combinations, states are [sampled](mod@samples). What is
//! known when the time is over depends on the [order](schedule) of the runs.
//!
//! With a depth of 2 and more, recovery crashes, too (§3's stack of executions): before each of its actions that narrows what may
//! be lost of its stores, and at its end. Each such crash is one more [situation](situations) that recovery starts in, and all
//! situations share the tree. What recovery writes can differ from then on, so it is observed, too: once a run has written other
//! bytes, the runs that have read them are repeated, and the tree is built anew. Processes are not copied then: copies do not show what
//! recovery writes.
//!
//! Behaviours that explorations of other recordings have shown need no run ([`recollection`]). Once everything is explored, the findings of
//! lint are tried ([`mod@suspects`]).
//!
//! Stores are whole, as in Jaaru, or may be torn into words ([`StrategyInput::tearing`]).
//!
//! Can miss: what needs another order of the target's stores than the recorded one. A test is
//! incomplete, and says so, if recovery depends on more than what it reads or if states were sampled. Every failure
//! is one that a crash can lead to: recovery has failed natively on its image.

mod admission;
mod behaviours;
mod boundary;
mod budget;
mod coverage;
mod crash_times;
mod differing_reads;
mod explorer;
mod failures;
mod guide;
mod known_runs;
mod learning;
mod next_runs;
mod observed_pages;
mod open_nodes;
mod path;
mod recollection;
mod repeats;
mod sampled_times;
mod samples;
mod schedule;
mod situations;
mod suspects;
mod time_set;
mod versions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brownout_model::PossibleMemory;
use brownout_report::ExplorationCoverage;

use self::behaviours::NodeId;
use self::budget::Budget;
use self::crash_times::{Context, RecordedStores};
use self::explorer::Explorer;
use self::failures::FailureSite;
use self::guide::Guide;
use self::known_runs::{KnownRuns, is_observed_with};
use self::learning::EndedRun;
use self::observed_pages::ObservedPages;
use self::recollection::{Recalled, Recollection};
use self::repeats::Repeats;
use self::sampled_times::SampledTimes;
use self::schedule::Schedule;
use self::suspects::SuspectTrials;
use super::{ProposedCrash, Strategy, StrategyInfo, StrategyInput, TrialJob, TrialResults};
use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::{Choice, CrashPoint, Interruption, LineChoice, OtherLines, TornStore};
use crate::error::CrashError;
use crate::explored_behaviours::{ExploredPages, ExploredRun, FilePages};
use crate::possible_reads::{PossibleRead, PossibleReads};
use crate::suspect::SuspectImages;
use crate::trial::Trial;

pub static EXHAUSTIVE: StrategyInfo = StrategyInfo {
    name: "exhaustive",
    version: 3,
    summary: "Every behaviour of recovery that the persistency model allows, explored by what recovery reads",
    time_limit: None,
    tries_suspects: true,
    tries_all: true,
    tests_behaviours: false,
    start: |input| Ok(Box::new(Exhaustive::new(input)?)),
};

const UNREADABLE: &str = "what recovery did could not be read; please report this";
const IMPOSSIBLE: &str =
    "recovery has read bytes that the persistency model does not expect; please report this";

struct Exhaustive {
    stores: Arc<RecordedStores>,
    /// Runs that are under way use it, too.
    explorer: Arc<Mutex<Explorer>>,
    /// In which order behaviours are explored.
    schedule: Schedule,
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
    /// How many there were for each failure point.
    executions_at: HashMap<Context, u64>,
    /// Those of them that were copies of processes that had waited.
    copies: u64,
    /// Why executions were no copies, though copies were wanted, and how often.
    run_anew: BTreeMap<String, u64>,
    /// Times whose states are sampled, as long as there are samples to try.
    sampled_times: SampledTimes,
    /// Recoveries after crashes at times that are sampled.
    sampled_states: HashSet<CrashPoint>,
    /// Whether a run did something else than an earlier one that has read the same bytes.
    is_contradicted: bool,
    /// What runs have used that is not the same in each run.
    other_inputs: BTreeSet<String>,
    /// Why a behaviour may be missing.
    gaps: BTreeSet<String>,
    repeats: Repeats,
    suspects: SuspectTrials,
    /// The pages that are observed, if behaviours are remembered.
    observed_pages: Option<Vec<FilePages>>,
    /// Behaviours that explorations of other recordings have shown.
    remembered: u64,
}

fn lock(explorer: &Mutex<Explorer>) -> MutexGuard<'_, Explorer> {
    explorer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An exploration that has begun with what is remembered.
struct Begun<'m> {
    explorer: Explorer,
    pages: Option<ObservedPages<'m>>,
    recalled: Recalled,
}

fn begin<'m>(
    stores: &Arc<RecordedStores>,
    depth: usize,
    pages: Option<ObservedPages<'m>>,
) -> Begun<'m> {
    let mut explorer = Explorer::new(Arc::clone(stores), depth);
    let mut recalled = Recalled::default();
    if let Some(pages) = &pages {
        let observed = pages.bytes();
        let known = Recollection::of(pages.runs.iter().copied(), &observed);
        explorer.versions.situations.differing = observed;
        recalled = explorer.recall(&known);
    }
    Begun {
        explorer,
        pages,
        recalled,
    }
}

/// Lets crashes after which recovery starts alike follow each other, so that a process can be copied. Otherwise the order stays as it is.
fn gather_starts(wanted: &mut [WantedCrash], explorer: &Explorer) {
    let situations = explorer.situations();
    let mut numbers = HashMap::new();
    wanted.sort_by_cached_key(|wanted| {
        let next = numbers.len();
        let start = situations.start(wanted.situation);
        *numbers.entry(start).or_insert(next)
    });
}

/// A crash to try.
struct WantedCrash {
    point: CrashPoint,
    situation: u32,
    /// Whether a recovery that is interrupted would have failed otherwise.
    fails_anyway: bool,
}

impl Exhaustive {
    fn new(mut input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let suspects = SuspectTrials::new(&mut input)?;
        let explored = input.explored;
        let budget = Budget::new(input.max_states);
        let input_depth = input.depth;
        let extent = Extent::of(&input.survey.points);
        let profile = input.profile.name.to_owned();
        let stores = Arc::new(RecordedStores::of(input)?);
        let events = stores.times.iter();
        let events = events.map(|explored| explored.point.occurrence.event.0);
        let pages = explored.map(|known| ObservedPages::possibilities(known, &stores));
        let pages = pages.into_iter().flatten();
        let begun = pages.map(|pages| begin(&stores, input_depth, Some(pages)));
        let best = begun.max_by_key(|begun| begun.recalled.ends);
        let Begun {
            explorer,
            pages,
            recalled,
        } = best.unwrap_or_else(|| begin(&stores, input_depth, None));
        let schedule = Schedule::new(&explorer);
        let explorer = Arc::new(Mutex::new(explorer));
        let mut strategy = Self {
            times: events.zip(0..).collect(),
            extent: Extent {
                occurrences: stores.times.len() as u64,
                ..extent
            },
            explorer,
            schedule,
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
            executions_at: HashMap::new(),
            copies: 0,
            run_anew: BTreeMap::new(),
            sampled_times: SampledTimes::default(),
            sampled_states: HashSet::new(),
            is_contradicted: false,
            other_inputs: BTreeSet::new(),
            gaps: BTreeSet::new(),
            repeats: Repeats::default(),
            suspects,
            observed_pages: pages.map(|pages| pages.files),
            remembered: recalled.ends,
        };
        for (end, time) in recalled.too_open {
            strategy.sampled_times.add(end, time);
        }
        Ok(strategy)
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
                    Some(LineChoice::without(place, incomplete.stores, absent, torn))
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
}

impl Strategy for Exhaustive {
    fn propose(&mut self) -> Vec<ProposedCrash> {
        let explorer = Arc::clone(&self.explorer);
        let mut explorer = lock(&explorer);
        if !self.want_next(&mut explorer) {
            return Vec::new();
        }
        while self.wanted.is_empty() && self.running.is_empty() && self.known_runs.waiting() > 0 {
            self.observe_more(&mut explorer);
            self.want_next(&mut explorer);
        }
        if self.wanted.is_empty() && self.running.is_empty() && self.confirmations.is_empty() {
            self.want_repeats();
        }
        if self.wanted.is_empty() && self.confirmations.is_empty() {
            return self.suspects.propose(&mut self.proposed);
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        gather_starts(&mut wanted, &explorer);
        let wanted = wanted.into_iter();
        wanted
            .map(|wanted| self.proposal(&explorer, wanted))
            .collect()
    }

    fn learn(&mut self, trial: &Trial) {
        let explorer = Arc::clone(&self.explorer);
        let mut explorer = lock(&explorer);
        self.proposed.insert(trial.point.clone());
        self.suspects.learn(trial);
        let passes = trial.verdict.passed();
        let is_repetition = self.repeats.end(&trial.point);
        if is_repetition && !passes {
            self.is_contradicted = true;
        }
        if self.confirmations.remove(&trial.point) && passes {
            self.is_contradicted = true;
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
        if passes && !is_repetition {
            self.repeats.note(&trial.point, observation);
        }
        let ended = EndedRun::of(passes, observation);
        if ended.is_unobserved {
            self.ended.insert(trial.point.clone(), ended);
        }
        self.take(&mut explorer, trial);
        for node in nodes {
            self.settle(&mut explorer, node, ended);
        }
        self.schedule.advance(&mut explorer);
    }

    fn planned(&self) -> u64 {
        (self.proposed.len() + self.wanted.len()) as u64
    }

    fn extent(&self) -> Extent {
        self.extent
    }

    fn explores(&self) -> bool {
        true
    }

    fn exploration(&self) -> Option<ExplorationCoverage> {
        Some(self.coverage(&lock(&self.explorer)))
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

    fn suspects(&self) -> &[SuspectImages] {
        &self.suspects.suspects
    }

    fn explored(&self, trials: &[Trial]) -> Option<ExploredPages> {
        let files = self.observed_pages.clone()?;
        let explorer = lock(&self.explorer);
        if self.is_contradicted || explorer.behaviours.contradictions() > 0 {
            return None;
        }
        let runs = trials.iter().filter(|trial| {
            let is_first = trial.same_as.is_none() && trial.reached_from.is_none();
            is_first && trial.verdict.passed() && !trial.is_flaky()
        });
        let runs = runs.filter_map(|trial| {
            let observation = trial.observation.as_ref()?;
            let is_exact = observation.is_repeatable && observation.gaps.is_empty();
            let reads = observation.reads.clone().filter(|_| is_exact)?;
            let start = self.start_of(trial)?;
            Some(ExploredRun { start, reads })
        });
        Some(ExploredPages::new(files, runs.collect()))
    }

    fn job(&self, proposal: &ProposedCrash) -> TrialJob {
        let is_native = self.confirmations.contains(&proposal.point)
            || self.suspects.is_proposed(&proposal.point);
        if is_native {
            return TrialJob::Native;
        }
        let observed = Arc::clone(&proposal.observed);
        if self.depth > 1 {
            return TrialJob::Other(Box::new(move |runner, image, task| {
                Ok(TrialResults {
                    proposed: runner.attempt_with_actions(&image.files, task, &observed)?,
                    others: Vec::new(),
                })
            }));
        }
        if self.repeats.is_underway(&proposal.point) {
            return TrialJob::Other(Box::new(move |runner, image, task| {
                Ok(TrialResults {
                    proposed: runner.attempt_observed(&image.files, task, &observed)?,
                    others: Vec::new(),
                })
            }));
        }
        let Some(&time) = self.times.get(&proposal.point.event) else {
            return TrialJob::Native;
        };
        let start = self.stores.times[time as usize].start.clone();
        let explorer = Arc::clone(&self.explorer);
        TrialJob::Other(Box::new(move |runner, image, task| {
            let mut guide = Guide::new(explorer, &start);
            let attempt = runner.attempt_branch(&image.files, task, &observed, &mut guide)?;
            Ok(TrialResults {
                proposed: attempt,
                others: Vec::new(),
            })
        }))
    }
}
