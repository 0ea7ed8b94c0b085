//! Crash testing of a whole trace: failure points, images, recoveries, verdicts (Mumak §4.1).
//!
//! The trace is read through to find failure points, once more for the image that no crash has touched, and then once for
//! each wave of trials: failure points come in an order in which the most different are first, and each wave takes
//! twice as many of them as the one before, in the order of the trace, so that all images of a wave are
//! made in one reading. Whenever testing is stopped, what was tried covers the program as widely as it can.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use brownout_report::Frame;
use brownout_trace::Definitions;

use crate::error::CrashError;
use crate::failure_point::FailurePoint;
use crate::host::{Progress, ProgressObserver, Symbols};
use crate::image::{ImageBuilder, ImageDigest, PersistentFiles};
use crate::journal::{Journal, Shard};
use crate::operation::Operation;
use crate::recorded_run::RecordedRun;
use crate::situation::CrashSituation;
use crate::trial::{Failure, Trial};
use brownout_recovery::Attempt;
use brownout_recovery::RawFrame;
use brownout_recovery::RunnerPool;
use brownout_recovery::Verdict;

/// Trials of the first wave.
const FIRST_WAVE: usize = 256;
/// How long running recoveries may go on when testing is stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Images that differ, and operations if these are counted, are tried apart.
type Key = (ImageDigest, Option<Operation>);

/// What became of an image, on its way from a bench.
#[derive(Debug)]
pub struct Tried {
    key: Key,
    attempt: Attempt,
}

/// Trials of failure points.
pub struct Campaign<'a> {
    run: &'a RecordedRun,
    files: &'a PersistentFiles,
    shard: Shard,
    /// Whether recoveries are told of operations, which makes equal images different cases.
    counts_operations: bool,
    time_limit: Duration,
    progress: Progress,
    /// The verdict, if there is one already, of each key.
    known: HashMap<Key, Option<Trial>>,
    /// Failure points that wait for the verdict of a key.
    waiting: HashMap<Key, Vec<FailurePoint>>,
    trials: Vec<Trial>,
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
            known: HashMap::new(),
            waiting: HashMap::new(),
            trials: Vec::new(),
        }
    }

    /// Takes over trials of an earlier, interrupted campaign.
    pub fn resume(&mut self, trials: Vec<Trial>) {
        for trial in &trials {
            // One whose image cannot be told is only not found again.
            let Ok(digest) = u128::from_str_radix(&trial.image, 16) else {
                continue;
            };
            if trial.same_as.is_none() {
                let key = (ImageDigest(digest), trial.operation);
                self.known.insert(key, Some(trial.clone()));
            }
        }
        self.trials = trials;
    }

    /// Tries all `points`, in waves. Returns whether all were dealt with.
    pub fn try_all(
        &mut self,
        points: &[FailurePoint],
        pool: &mut RunnerPool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<bool, CrashError> {
        let done: HashSet<u64> = self.trials.iter().map(|trial| trial.event).collect();
        let mut left: Vec<FailurePoint> = points
            .iter()
            .filter(|point| !done.contains(&point.occurrence.event.0))
            .copied()
            .collect();
        self.progress.points = points.len() as u64;
        self.progress.done = (points.len() - left.len()) as u64;
        self.progress.failed = self.failures().count() as u64;
        let mut size = FIRST_WAVE;
        while !left.is_empty() {
            let rest = left.split_off(size.min(left.len()));
            let mut wave = std::mem::replace(&mut left, rest);
            wave.sort_by_key(|point| point.occurrence.event);
            if !self.try_wave(&wave, pool, journal, symbols, observer)? {
                self.finish_running(pool, journal, symbols, observer)?;
                return Ok(false);
            }
            size *= 2;
        }
        while !pool.is_idle() {
            if observer.stop() {
                self.finish_running(pool, journal, symbols, observer)?;
                return Ok(false);
            }
            self.collect(pool, journal, symbols, observer)?;
        }
        Ok(true)
    }

    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// What was tried, in no particular order.
    pub fn into_trials(self) -> Vec<Trial> {
        self.trials
    }

    fn failures(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !trial.verdict.passed())
    }

    fn try_wave(
        &mut self,
        wave: &[FailurePoint],
        pool: &mut RunnerPool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<bool, CrashError> {
        let mut builder = ImageBuilder::new(self.files, &self.run.selection);
        let mut points = wave.iter().peekable();
        let mut result = Ok(true);
        self.run.clone().walk(|event, definitions| {
            while let Some(point) = points.next_if(|point| point.occurrence.event <= event.index) {
                result = self.try_point(
                    point,
                    &mut builder,
                    definitions,
                    pool,
                    journal,
                    symbols,
                    observer,
                );
                if !matches!(result, Ok(true)) {
                    return ControlFlow::Break(());
                }
            }
            builder.apply(event, definitions);
            if points.peek().is_some() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        result
    }

    fn try_point(
        &mut self,
        point: &FailurePoint,
        builder: &mut ImageBuilder<'_>,
        definitions: &Definitions,
        pool: &mut RunnerPool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<bool, CrashError> {
        let digest = builder.digest(definitions);
        if !self.shard.takes(digest.0) {
            self.progress.points -= 1;
            return Ok(true);
        }
        let operation = self.counts_operations.then_some(point.occurrence.operation);
        let key = (digest, operation);
        match self.known.get(&key) {
            Some(Some(trial)) => {
                let trial = trial.clone();
                self.note_same(&trial, *point, journal, symbols)?;
                observer.progress(self.progress);
                return Ok(true);
            }
            Some(None) => {
                self.waiting.entry(key).or_default().push(*point);
                return Ok(true);
            }
            None => {}
        }
        self.known.insert(key, None);
        self.waiting.insert(key, vec![*point]);
        let image = builder.image(definitions);
        let situation = CrashSituation {
            event: point.occurrence.event.0,
            operation,
            time_limit: self.time_limit,
        };
        pool.submit(move |runner| {
            let attempt = runner.attempt(&image.files, &situation.task())?;
            Ok(Tried { key, attempt })
        });
        loop {
            if observer.stop() {
                return Ok(false);
            }
            if !pool.is_busy() {
                return Ok(true);
            }
            self.collect(pool, journal, symbols, observer)?;
        }
    }

    /// Takes in a result, if there is one.
    fn collect(
        &mut self,
        pool: &mut RunnerPool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<(), CrashError> {
        let Some(result) = pool.collect() else {
            return Ok(());
        };
        let Tried { key, attempt } = result?;
        self.progress.recoveries += 1;
        let mut points = self.waiting.remove(&key).unwrap_or_default().into_iter();
        if let Some(point) = points.next() {
            let trial = Trial {
                event: point.occurrence.event.0,
                kind: point.kind,
                operation: key.1,
                image: format!("{:032x}", key.0.0),
                same_as: None,
                failure: (!attempt.verdict.passed()).then(|| {
                    let stack = stack_frames(point, symbols);
                    Failure {
                        line: symbols.line(&stack),
                        stack,
                        recovery: recovery_frames(&attempt.frames, symbols),
                        output: attempt.output,
                        again: attempt.second_verdict,
                    }
                }),
                verdict: attempt.verdict,
                seconds: attempt.duration.as_secs_f64(),
            };
            self.note(trial.clone(), journal)?;
            self.known.insert(key, Some(trial.clone()));
            for point in points {
                self.note_same(&trial, point, journal, symbols)?;
            }
        }
        observer.progress(self.progress);
        Ok(())
    }

    /// Another failure point with an equal image.
    fn note_same(
        &mut self,
        first: &Trial,
        point: FailurePoint,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
    ) -> Result<(), CrashError> {
        let mut trial = first.clone();
        trial.event = point.occurrence.event.0;
        trial.kind = point.kind;
        trial.same_as = Some(first.event);
        if let Some(failure) = &mut trial.failure {
            failure.stack = stack_frames(point, symbols);
            failure.line = symbols.line(&failure.stack);
        }
        self.note(trial, journal)
    }

    fn note(&mut self, trial: Trial, journal: &mut Journal) -> Result<(), CrashError> {
        journal.trial(&trial)?;
        self.progress.done += 1;
        self.progress.failed += u64::from(trial.verdict != Verdict::Passed);
        self.trials.push(trial);
        Ok(())
    }

    /// Waits a little for recoveries that are under way.
    fn finish_running(
        &mut self,
        pool: &mut RunnerPool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        observer: &mut impl ProgressObserver,
    ) -> Result<(), CrashError> {
        let start = Instant::now();
        while !pool.is_idle() && start.elapsed() < STOP_GRACE {
            self.collect(pool, journal, symbols, observer)?;
        }
        Ok(())
    }
}

/// Where recovery failed. One that returned from its `main` was nowhere in particular.
fn recovery_frames(frames: &[RawFrame], symbols: &mut impl Symbols) -> Vec<Frame> {
    let frames = symbols.recovery_frames(frames);
    if frames.iter().all(Frame::is_library) {
        return Vec::new();
    }
    frames
}

fn stack_frames(point: FailurePoint, symbols: &mut impl Symbols) -> Vec<Frame> {
    point
        .stack
        .map(|stack| symbols.frames(stack))
        .unwrap_or_default()
}
