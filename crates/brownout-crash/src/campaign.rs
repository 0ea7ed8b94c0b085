//! Crash testing of a whole trace: crash points, images, recoveries, verdicts (Mumak §4.1).
//!
//! A [strategy](crate::strategy) proposes crash points. The campaign builds their images, all images of one proposal in
//! one pass over the trace, runs recovery on each different image once, and writes every result to the journal. Recoveries that
//! take much longer than others are [put off](crate::postponed). Many recoveries can [share their starts](crate::shared_start).

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use brownout_recovery::{Attempt, PlannedRun, RunnerPool, Verdict};
use brownout_report::{ExplorationCoverage, Frame};
use brownout_trace::Definitions;

use crate::coverage::{CampaignEnd, CampaignEnding, TrialPurpose};
use crate::crash_point::{CrashPoint, common_profile};
use crate::error::CrashError;
use crate::image::{ImageBuilder, ImageDigest};
use crate::interrupted_sites::interrupted_recoveries;
use crate::journal::Journal;
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::postponed::{Postponed, TrialInput};
use crate::progress::{Progress, ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;
use crate::retraction::Believed;
use crate::shard::Shard;
use crate::shared_start::{SharedStart, WorkLeft};
use crate::strategy::{Effort, ProposedCrash, Strategy, TrialResults, TriedState};
use crate::symbols::{Symbols, failing_frames};
use crate::trial::{Failure, Trial};
use crate::uniform_failures::UniformFailures;
use crate::update_behaviour::TriedUpdate;

/// How long running recoveries may continue, at least, when testing is stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Recovery runs once for each different image, and for each state of the workload if operations are counted.
pub(crate) type Key = (ImageDigest, Option<Operation>);

/// The results of trying an image.
#[derive(Debug)]
pub struct Tried {
    input: TrialInput,
    /// `None` if recovery takes much longer than usual.
    results: Option<TrialResults>,
}

/// What a campaign works with.
pub struct Collaborators<'c> {
    pub strategy: &'c mut dyn Strategy,
    pub pool: &'c mut RunnerPool<Tried>,
    pub journal: &'c mut Journal,
    pub symbols: &'c mut dyn Symbols,
    pub observer: &'c mut dyn ProgressObserver,
}

/// Trials of crash points.
pub struct Campaign<'a> {
    run: &'a RecordedRun,
    files: &'a PersistentFiles,
    shard: Shard,
    /// Whether operations are counted, which makes equal images different cases.
    counts_operations: bool,
    time_limit: Duration,
    progress: Progress,
    /// Crash points that other shards try.
    elsewhere: u64,
    /// Crash points that were tried or are being tried.
    tried: HashSet<CrashPoint>,
    /// The first trial of each key whose recovery has ended.
    known: HashMap<Key, Trial>,
    /// Crash points that wait for the verdict of a key whose recovery is running.
    waiting: HashMap<Key, Vec<ProposedCrash>>,
    postponed: Postponed,
    trials: Vec<Trial>,
    uniform_failures: UniformFailures,
    shared_start: SharedStart,
    /// Trials whose verdicts no native recovery has given.
    believed: Believed,
}

impl<'a> Campaign<'a> {
    pub fn new(
        run: &'a RecordedRun,
        files: &'a PersistentFiles,
        shard: Shard,
        counts_operations: bool,
        time_limit: Duration,
    ) -> Self {
        Self {
            run,
            files,
            shard,
            counts_operations,
            time_limit,
            progress: Progress::default(),
            elsewhere: 0,
            tried: HashSet::new(),
            known: HashMap::new(),
            waiting: HashMap::new(),
            postponed: Postponed::default(),
            trials: Vec::new(),
            uniform_failures: UniformFailures::default(),
            shared_start: SharedStart::default(),
            believed: Believed::default(),
        }
    }

    /// Lets recoveries share their starts.
    pub fn share_starts(&mut self, shared_start: SharedStart) {
        self.shared_start = shared_start;
    }

    /// Takes over the trials of an earlier, interrupted campaign.
    pub fn resume(&mut self, trials: Vec<Trial>) {
        for trial in &trials {
            // If the digest is not readable, recovery runs again on an equal image.
            let Ok(digest) = u128::from_str_radix(&trial.image, 16) else {
                continue;
            };
            if trial.same_as.is_none() && trial.reached_from.is_none() {
                let key = (ImageDigest(digest), trial.operation);
                self.known.entry(key).or_insert_with(|| trial.clone());
            }
        }
        self.trials = trials;
    }

    /// Tries what the strategy proposes, until it proposes nothing more, the observer stops it, or recovery has failed
    /// everywhere in the same way.
    pub fn run(&mut self, with: &mut Collaborators<'_>) -> Result<CampaignEnding, CrashError> {
        let start = Instant::now();
        let exhausted = self.try_all(with)?;
        let enough = |required| self.progress.first_tries >= required;
        let exploration = with.strategy.exploration();
        let is_exact = exploration
            .as_ref()
            .is_none_or(ExplorationCoverage::is_exhaustive);
        let end = match with.strategy.required() {
            _ if exhausted && is_exact => CampaignEnd::Exhausted,
            _ if self.uniform_failures.are_enough() && exploration.is_none() => {
                CampaignEnd::FailsEverywhere
            }
            Some(required) if enough(required) => CampaignEnd::Sufficient,
            _ => CampaignEnd::Incomplete,
        };
        let ending = CampaignEnding {
            end,
            proposed: self.progress.done + self.elsewhere,
            extent: with.strategy.extent(),
            seconds: start.elapsed().as_secs_f64(),
            exploration,
            shared_starts: self.believed.coverage(self.shared_start.starts()),
        };
        with.journal.ending(&ending)?;
        Ok(ending)
    }

    /// Returns whether everything was tried.
    fn try_all(&mut self, with: &mut Collaborators<'_>) -> Result<bool, CrashError> {
        for trial in &self.trials {
            self.tried.insert(trial.point.clone());
            with.strategy.learn(trial);
        }
        for trial in &self.trials {
            self.progress.count(trial);
            self.uniform_failures.add(trial);
        }
        loop {
            let prepared = with.strategy.prepare(with.symbols, with.observer)?;
            if prepared.is_break() {
                break;
            }
            let mut wave = with.strategy.propose();
            wave.extend(self.believed.take_retracted());
            self.progress.points = with.strategy.planned().saturating_sub(self.elsewhere);
            let is_required = |proposal: &ProposedCrash| {
                proposal.purpose == TrialPurpose::FailurePoint && !proposal.is_comparison
            };
            if !wave.iter().any(is_required) {
                for postponed in self.postponed.take(with.pool.runners()) {
                    self.submit(postponed, false, with);
                }
            }
            if wave.is_empty() {
                if with.pool.is_idle() {
                    self.progress.points = self.progress.done;
                    return Ok(true);
                }
                if with.observer.stop() {
                    break;
                }
                self.collect(with)?;
                continue;
            }
            wave.retain(|proposal| {
                let is_new = self.tried.insert(proposal.point.clone());
                is_new || proposal.is_repeated
            });
            wave.sort_by(|a, b| a.point.cmp(&b.point));
            if !wave.is_empty() && !self.try_wave(&wave, with)? {
                break;
            }
            // Not within a wave, whose crash points are in the order of the trace. An exploration never ends early.
            if self.uniform_failures.are_enough() && !with.strategy.explores() {
                break;
            }
        }
        self.finish_running(with)?;
        // It may have been stopped just when there was nothing left.
        let all_known = self.trials.len() as u64 + self.elsewhere == self.tried.len() as u64;
        self.progress.running = self.waiting.len() as u64;
        let running = self.running_lines(with.symbols);
        with.observer.still_running(running);
        let prepared = with.strategy.prepare(with.symbols, with.observer)?;
        Ok(all_known && prepared.is_continue() && with.strategy.propose().is_empty())
    }

    /// Before which lines power was lost for the recoveries that have not ended.
    fn running_lines(&self, symbols: &mut dyn Symbols) -> Vec<String> {
        let mut proposals: Vec<&ProposedCrash> = self.waiting.values().flatten().collect();
        proposals.sort_by(|a, b| a.point.cmp(&b.point));
        let mut lines: Vec<String> = Vec::new();
        for proposal in proposals {
            let frames = stack_frames(proposal, symbols);
            let line = symbols.line(&frames);
            if !line.is_empty() && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// All trials, in no particular order.
    pub fn into_trials(self) -> Vec<Trial> {
        self.trials
    }

    /// Tries crash points, given in the order of the trace. Returns whether it got through.
    fn try_wave(
        &mut self,
        wave: &[ProposedCrash],
        with: &mut Collaborators<'_>,
    ) -> Result<bool, CrashError> {
        let mut builder = ImageBuilder::new(self.files, &self.run.selection);
        if let Some(profile) = common_profile(wave.iter().map(|proposal| &proposal.point))? {
            builder = builder.with_states(profile);
        }
        let mut proposals = wave.iter().peekable();
        let mut result = Ok(true);
        self.run.clone().walk(|event, definitions| {
            if must_stop(event.index, with.observer) {
                result = Ok(false);
                return ControlFlow::Break(());
            }
            while let Some(proposal) =
                proposals.next_if(|proposal| proposal.point.event <= event.index.0)
            {
                result = self.try_proposed(proposal, &mut builder, definitions, with);
                if !matches!(result, Ok(true)) {
                    return ControlFlow::Break(());
                }
            }
            builder.apply(event, definitions);
            if proposals.peek().is_some() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        result
    }

    fn try_proposed(
        &mut self,
        proposal: &ProposedCrash,
        builder: &mut ImageBuilder<'_>,
        definitions: &Definitions,
        with: &mut Collaborators<'_>,
    ) -> Result<bool, CrashError> {
        let event = proposal.point.event;
        let choice = proposal.point.choice.as_ref();
        let chosen = choice
            .map(|choice| builder.chosen(choice, event, definitions))
            .transpose()?;
        let mut digest = match &chosen {
            Some(chosen) => chosen.digest,
            None => builder.digest(definitions),
        };
        let mut interrupted = None;
        for (recovery, interruption) in proposal
            .recoveries
            .iter()
            .zip(&proposal.point.interruptions)
        {
            let image = interrupted.unwrap_or_else(|| match &chosen {
                Some(chosen) => chosen.image.clone(),
                None => builder.image(definitions),
            });
            let left = recovery
                .interrupted(&image, interruption, self.files)?
                .image;
            digest = left.digest();
            interrupted = Some(left);
        }
        if !proposal.is_comparison && !self.shard.takes(digest.0) {
            self.elsewhere += 1;
            self.progress.first_tries += u64::from(proposal.purpose == TrialPurpose::FailurePoint);
            self.progress.points = self.progress.points.saturating_sub(1);
            return Ok(true);
        }
        let operation = self.counts_operations.then_some(proposal.operation);
        let key = (digest, operation);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.push(proposal.clone());
            return Ok(!with.observer.stop());
        }
        let known = self.known.get(&key).filter(|_| !proposal.is_repeated);
        if let Some(trial) = known.cloned() {
            self.note_same(&trial, proposal, with)?;
            with.observer.progress(self.progress);
            return Ok(!with.observer.stop());
        }
        self.waiting.insert(key, vec![proposal.clone()]);
        let image = match (interrupted, chosen) {
            (Some(image), _) => image,
            (None, Some(chosen)) => chosen.image,
            (None, None) => builder.image(definitions),
        };
        let situation = CrashSituation {
            event,
            operation,
            time_limit: self.time_limit,
        };
        let input = TrialInput {
            key,
            proposal: proposal.clone(),
            image,
            situation,
        };
        let is_brief = !with.strategy.explores();
        if is_brief && !proposal.is_repeated {
            self.consider_sharing(with)?;
        }
        self.submit(input, is_brief, with);
        loop {
            if with.observer.stop() {
                return Ok(false);
            }
            if !with.pool.is_busy() {
                return Ok(true);
            }
            self.collect(with)?;
        }
    }

    /// Takes in a result, if there is one.
    fn collect(&mut self, with: &mut Collaborators<'_>) -> Result<(), CrashError> {
        let Some(result) = with.pool.collect() else {
            return Ok(());
        };
        let Tried { input, results } = result?;
        let key = input.key;
        let Some(TrialResults { proposed, others }) = results else {
            if let Some(first) = self.postponed.put_off(input) {
                self.submit(first, false, with);
            }
            return Ok(());
        };
        let starts = self.shared_start.starts();
        if starts.is_some_and(|starts| starts.is_contradicted()) {
            if !self.believed.is_retracted() {
                self.retract(with)?;
            }
            if proposed.indirect.is_some() {
                self.submit(input, true, with);
                return Ok(());
            }
        }
        self.postponed
            .decided(key, proposed.verdict == Verdict::Hung);
        self.progress.recoveries += 1 + others.len() as u64;
        let mut proposals = self.waiting.remove(&key).unwrap_or_default().into_iter();
        if let Some(first) = proposals.next() {
            let trial = new_trial(&first, key, proposed, with.symbols);
            self.note(trial.clone(), first.is_repeated, with)?;
            self.believed.note(&trial, &first);
            for state in others {
                self.note_other(&first, key, state, with)?;
            }
            for proposal in proposals {
                self.note_same(&trial, &proposal, with)?;
            }
            self.known.insert(key, trial);
        }
        with.observer.progress(self.progress);
        Ok(())
    }

    /// Another crash point with an equal image.
    fn note_same(
        &mut self,
        first: &Trial,
        proposal: &ProposedCrash,
        with: &mut Collaborators<'_>,
    ) -> Result<(), CrashError> {
        let mut trial = first.clone();
        trial.point = proposal.point.clone();
        trial.kind = proposal.kind;
        trial.purpose = proposal.purpose;
        trial.fails_anyway = proposal.fails_anyway;
        trial.same_as = Some(first.point.clone());
        if let Some(failure) = &mut trial.failure {
            failure.stack = stack_frames(proposal, with.symbols);
            failure.line = with.symbols.line(&failure.stack);
            failure.interrupted = interrupted_recoveries(proposal, with.symbols);
            failure.lost = lost_line(proposal, with.symbols);
            failure.updates = updates_of(proposal);
        }
        trial.behaviour = proposal.behaviour.as_ref().map(|tried| tried.number);
        self.believed.note(&trial, proposal);
        self.note(trial, proposal.is_repeated, with)
    }

    /// Another state that the trial of a proposal has tried.
    fn note_other(
        &mut self,
        proposal: &ProposedCrash,
        key: Key,
        state: TriedState,
        with: &mut Collaborators<'_>,
    ) -> Result<(), CrashError> {
        let point = CrashPoint::chosen(proposal.point.event, state.choice);
        if !self.tried.insert(point.clone()) {
            return Ok(());
        }
        let mut trial = new_trial(proposal, key, state.attempt, with.symbols);
        trial.reached_from = Some(std::mem::replace(&mut trial.point, point));
        self.note(trial, false, with)
    }

    fn note(
        &mut self,
        trial: Trial,
        is_repeated: bool,
        with: &mut Collaborators<'_>,
    ) -> Result<(), CrashError> {
        with.journal.trial(&trial)?;
        with.strategy.learn(&trial);
        let mut known = self.trials.iter_mut().filter(|_| is_repeated);
        if let Some(repeated) = known.find(|known| known.point == trial.point) {
            *repeated = trial;
            return Ok(());
        }
        self.progress.count(&trial);
        self.uniform_failures.add(&trial);
        self.trials.push(trial);
        Ok(())
    }

    /// Lets a runner try an image. If `is_brief`, recovery gets little more time than those that pass.
    fn submit(&self, input: TrialInput, is_brief: bool, with: &mut Collaborators<'_>) {
        let job = with.strategy.job(&input.proposal);
        let starts = self.shared_start.starts().cloned();
        let effort = match starts.filter(|_| !input.proposal.is_repeated) {
            _ if !is_brief => Effort::Full,
            Some(starts) => Effort::Shared(starts),
            None => Effort::Brief,
        };
        let planned = match &effort {
            Effort::Shared(starts) => {
                let task = input.situation.task();
                Some(PlannedRun::new(starts, &input.image.files, &task))
            }
            Effort::Full | Effort::Brief => None,
        };
        let should_wait = move || planned.as_ref().is_some_and(PlannedRun::is_underway);
        with.pool.submit_unless(should_wait, move |runner| {
            let task = input.situation.task();
            let results = job.run(effort, runner, &input.image, &task)?;
            Ok(Tried { input, results })
        });
    }

    /// Lets recoveries share their starts from now on, if that is expected to save time.
    fn consider_sharing(&mut self, with: &mut Collaborators<'_>) -> Result<(), CrashError> {
        let planned = with.strategy.planned().saturating_sub(self.elsewhere);
        let left = WorkLeft {
            images: planned.saturating_sub(self.progress.done),
            time: with.observer.time_left(),
            runners: with.pool.runners(),
            typical: with.pool.typical_duration(),
        };
        self.shared_start
            .consider(left, (self.run, self.files), with.observer)
    }

    /// Takes back all verdicts that no native recovery has given. Those of this campaign are tried again.
    fn retract(&mut self, with: &mut Collaborators<'_>) -> Result<(), CrashError> {
        let is_believed = |trial: &Trial| trial.indirect.is_some();
        self.known.retain(|_, trial| !is_believed(trial));
        let retracted = self.trials.extract_if(.., |trial| is_believed(trial));
        let retracted: Vec<Trial> = retracted.collect();
        for trial in &retracted {
            self.progress.discount(trial);
        }
        self.believed.retract(retracted.len() as u64);
        Ok(with.journal.retract(retracted.len() as u64)?)
    }

    /// Waits for recoveries that are running, unless they take much longer than those that passed. Someone who
    /// interrupts the test does not wait for slow ones.
    fn finish_running(&mut self, with: &mut Collaborators<'_>) -> Result<(), CrashError> {
        let start = Instant::now();
        let passed = self.trials.iter().filter(|trial| trial.verdict.passed());
        let slowest = passed.map(|trial| trial.seconds).fold(0.0, f64::max);
        let slowest = Duration::try_from_secs_f64(slowest).unwrap_or_default();
        let grace = if with.observer.interrupted() {
            STOP_GRACE
        } else {
            STOP_GRACE.max((2 * slowest).min(self.time_limit))
        };
        while !with.pool.is_idle() && start.elapsed() < grace {
            self.collect(with)?;
        }
        Ok(())
    }
}

fn new_trial(
    proposal: &ProposedCrash,
    (digest, operation): Key,
    attempt: Attempt,
    symbols: &mut dyn Symbols,
) -> Trial {
    Trial {
        point: proposal.point.clone(),
        kind: proposal.kind,
        purpose: proposal.purpose,
        operation,
        image: format!("{:032x}", digest.0),
        same_as: None,
        reached_from: None,
        failure: (!attempt.verdict.passed()).then(|| {
            let stack = stack_frames(proposal, symbols);
            Failure {
                line: symbols.line(&stack),
                interrupted: interrupted_recoveries(proposal, symbols),
                lost: lost_line(proposal, symbols),
                updates: updates_of(proposal),
                stack,
                recovery: failing_frames(&attempt.frames, symbols),
                output: attempt.output,
                again: attempt.second_verdict,
            }
        }),
        verdict: attempt.verdict,
        fails_anyway: proposal.fails_anyway,
        seconds: attempt.duration.as_secs_f64(),
        observation: attempt.observation,
        behaviour: proposal.behaviour.as_ref().map(|tried| tried.number),
        indirect: attempt.indirect,
    }
}

fn updates_of(proposal: &ProposedCrash) -> Vec<TriedUpdate> {
    let tried = proposal.behaviour.as_ref();
    tried.map_or_else(Vec::new, |tried| tried.updates.clone())
}

/// The line of the last store that an open order loses.
fn lost_line(proposal: &ProposedCrash, symbols: &mut dyn Symbols) -> Option<String> {
    let frames = symbols.frames(proposal.lost?);
    Some(symbols.line(&frames))
}

fn stack_frames(proposal: &ProposedCrash, symbols: &mut dyn Symbols) -> Vec<Frame> {
    proposal
        .stack
        .map(|stack| symbols.frames(stack))
        .unwrap_or_default()
}
