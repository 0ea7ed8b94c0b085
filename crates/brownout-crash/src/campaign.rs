//! Crash testing of a whole trace: failure points, images, recoveries, verdicts (Mumak §4.1).
//!
//! The trace is read through to find failure points, once more for the image that no crash has touched, and then once for
//! each wave of trials: failure points come in an order in which the most different are first, and each wave takes
//! twice as many of them as the one before, in the order of the trace, so that all images of a wave are
//! made in one reading. Whenever testing is stopped, what was tried covers the program as widely as it can.

use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_report::Frame;
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventIndex, ReadError, TraceReader};

use crate::bench::{Attempt, Bench, BenchError, Circumstances};
use crate::failure_point::{FailurePoints, Occurrence, Places, PointKind, Scope, StackId};
use crate::image::{CrashImage, ImageBuilder, ImageDigest, PersistentFiles};
use crate::journal::{Journal, JournalError, Shard};
use crate::operation::Operation;
use crate::order::most_different_first;
use crate::pool::Pool;
use crate::recovery::{RawFrame, SandboxError};
use crate::trial::{Failure, Trial};
use crate::verdict::Verdict;

/// Trials of the first wave.
const FIRST_WAVE: usize = 256;
/// How long to wait for a result before looking whether to stop.
const GLANCE: Duration = Duration::from_millis(50);
/// How long running recoveries may go on when testing is stopped.
const FAREWELL: Duration = Duration::from_secs(2);
/// The shortest time limit of a recovery, and how many times longer than that of the uncrashed image it is.
const LEAST_LIMIT: Duration = Duration::from_secs(5);
const LIMIT_FACTOR: u32 = 10;
/// For the uncrashed image, of which nothing is known.
const FIRST_LIMIT: Duration = Duration::from_secs(600);

/// Why crash testing came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    #[error("the trace {} cannot be read", path.display())]
    Trace {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What is known about calling contexts and modules.
pub trait Symbols: Places {
    /// The frames of a context, innermost first.
    fn frames(&mut self, stack: StackId) -> Vec<Frame>;

    /// The line that a failure point with these frames is about.
    fn line(&mut self, frames: &[Frame]) -> String;

    /// The frames of a recovery that failed, innermost first.
    fn recovery_frames(&mut self, frames: &[RawFrame]) -> Vec<Frame>;
}

/// Is told how testing goes, and says whether it is to go on.
pub trait Watcher {
    fn progress(&mut self, progress: Progress);

    /// Events read in a pass over the trace.
    fn reading(&mut self, task: &'static str, event: EventIndex);

    fn stop(&mut self) -> bool;
}

/// How far testing has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Failure points dealt with, and to be dealt with.
    pub done: u64,
    pub points: u64,
    /// Recoveries on different images.
    pub recoveries: u64,
    /// Failure points after which recovery does not pass.
    pub failed: u64,
}

/// A failure point to try.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub kind: PointKind,
    pub stack: Option<StackId>,
    pub occurrence: Occurrence,
}

/// A trace that can be read from its start as often as needed. Damage ends it.
#[derive(Clone, Debug)]
pub struct Run {
    path: PathBuf,
    pub selection: Selection,
}

impl Run {
    pub fn new(path: &Path, selection: Selection) -> Self {
        Self {
            path: path.to_owned(),
            selection,
        }
    }

    /// Gives all events to `visit`, until it breaks.
    pub fn walk(
        &self,
        mut visit: impl FnMut(&Event<'_>, &Definitions) -> ControlFlow<()>,
    ) -> Result<TraceReader<File>, CrashError> {
        let failed = |source| CrashError::Trace {
            path: self.path.clone(),
            source,
        };
        let mut reader = TraceReader::open(&self.path).map_err(failed)?;
        match reader.for_each(&mut visit) {
            Ok(_) | Err(ReadError::Damaged(_)) => Ok(reader),
            Err(source) => Err(failed(source)),
        }
    }

    /// Finds all failure points, and all persistent files.
    pub fn survey(
        &self,
        scope: Scope,
        places: &mut impl Symbols,
        watcher: &mut impl Watcher,
    ) -> Result<Survey, CrashError> {
        let mut points = FailurePoints::new(scope);
        let mut files = PersistentFiles::default();
        self.walk(|event, definitions| {
            watcher.reading("looking for failure points", event.index);
            files.observe(event, definitions, &self.selection);
            places.observe(event, definitions);
            points.observe(event, definitions, &self.selection, places);
            ControlFlow::Continue(())
        })?;
        Ok(Survey { points, files })
    }

    /// Finds all persistent files.
    pub fn files(&self, watcher: &mut impl Watcher) -> Result<PersistentFiles, CrashError> {
        let mut files = PersistentFiles::default();
        self.walk(|event, definitions| {
            watcher.reading("looking for files", event.index);
            files.observe(event, definitions, &self.selection);
            ControlFlow::Continue(())
        })?;
        Ok(files)
    }

    /// The crash image before `event`; at the end if there is no such event.
    pub fn image_before(
        &self,
        event: Option<EventIndex>,
        files: &PersistentFiles,
        watcher: &mut impl Watcher,
    ) -> Result<(CrashImage, ImageDigest), CrashError> {
        let mut builder = ImageBuilder::new(files, &self.selection);
        let reader = self.walk(|next, definitions| {
            if event.is_some_and(|event| next.index >= event) {
                return ControlFlow::Break(());
            }
            watcher.reading("rebuilding files", next.index);
            builder.apply(next, definitions);
            ControlFlow::Continue(())
        })?;
        let definitions = reader.definitions();
        Ok((builder.image(definitions), builder.digest(definitions)))
    }
}

/// What a first reading of the trace tells.
#[derive(Debug)]
pub struct Survey {
    pub points: FailurePoints,
    pub files: PersistentFiles,
}

impl Survey {
    /// The failure points to try, the most different first, and first occurrences before later ones.
    pub fn points(&self, symbols: &mut impl Symbols) -> Vec<Point> {
        let leaves = self.points.leaves();
        let paths: Vec<Vec<(String, u32)>> = leaves
            .iter()
            .map(|leaf| {
                let frames = leaf.stack.map(|stack| symbols.frames(stack));
                let steps = frames.unwrap_or_default().into_iter().rev();
                let steps = steps.map(|frame| match (frame.file, frame.line) {
                    (Some(file), Some(line)) => (file, line),
                    _ => (frame.module, frame.offset as u32),
                });
                steps.collect()
            })
            .collect();
        let order = most_different_first(&paths);
        let chosen: Vec<Vec<Occurrence>> = leaves.iter().map(|leaf| leaf.chosen()).collect();
        let most = chosen.iter().map(Vec::len).max().unwrap_or(0);
        let mut points = Vec::new();
        for turn in 0..most {
            points.extend(order.iter().filter_map(|&leaf| {
                Some(Point {
                    kind: leaves[leaf].kind,
                    stack: leaves[leaf].stack,
                    occurrence: *chosen[leaf].get(turn)?,
                })
            }));
        }
        points
    }
}

/// How the uncrashed image fared.
#[derive(Clone, Debug)]
pub struct Uncrashed {
    pub attempt: Attempt,
    /// How long a recovery may take from now on.
    pub time_limit: Duration,
}

/// Runs recovery on the image that the finished program left. What fails there would fail without any crash.
pub fn try_uncrashed(
    bench: &mut Bench,
    image: &CrashImage,
    last_event: u64,
    operation: Option<Operation>,
    time_limit: Option<Duration>,
) -> Result<Uncrashed, BenchError> {
    let circumstances = Circumstances {
        event: last_event,
        operation,
        time_limit: time_limit.unwrap_or(FIRST_LIMIT),
    };
    let attempt = bench.attempt(image, &circumstances)?;
    let default_limit = (attempt.duration * LIMIT_FACTOR).max(LEAST_LIMIT);
    Ok(Uncrashed {
        time_limit: time_limit.unwrap_or(default_limit),
        attempt,
    })
}

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
    pub run: &'a Run,
    pub files: &'a PersistentFiles,
    pub shard: Shard,
    /// Whether recoveries are told of operations, which makes equal images different cases.
    pub counts_operations: bool,
    pub time_limit: Duration,
    progress: Progress,
    /// The verdict, if there is one already, of each key.
    known: HashMap<Key, Option<Trial>>,
    /// Failure points that wait for the verdict of a key.
    waiting: HashMap<Key, Vec<Point>>,
    trials: Vec<Trial>,
}

impl<'a> Campaign<'a> {
    pub fn new(
        run: &'a Run,
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
            let digest = u128::from_str_radix(&trial.image, 16).unwrap_or(0);
            let key = (ImageDigest(digest), trial.operation);
            if trial.same_as.is_none() {
                self.known.insert(key, Some(trial.clone()));
            }
        }
        self.trials = trials;
    }

    /// Tries all `points`, in waves. Returns whether all were dealt with.
    pub fn try_all(
        &mut self,
        points: &[Point],
        pool: &mut Pool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        watcher: &mut impl Watcher,
    ) -> Result<bool, CrashError> {
        let done: std::collections::HashSet<u64> =
            self.trials.iter().map(|trial| trial.event).collect();
        let mut left: Vec<Point> = points
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
            if !self.try_wave(&wave, pool, journal, symbols, watcher)? {
                self.take_leave(pool, journal, symbols, watcher)?;
                return Ok(false);
            }
            size *= 2;
        }
        while !pool.is_idle() {
            if watcher.stop() {
                self.take_leave(pool, journal, symbols, watcher)?;
                return Ok(false);
            }
            self.collect(GLANCE, pool, journal, symbols, watcher)?;
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
        wave: &[Point],
        pool: &mut Pool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        watcher: &mut impl Watcher,
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
                    watcher,
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
        point: &Point,
        builder: &mut ImageBuilder<'_>,
        definitions: &Definitions,
        pool: &mut Pool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        watcher: &mut impl Watcher,
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
                watcher.progress(self.progress);
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
        let circumstances = Circumstances {
            event: point.occurrence.event.0,
            operation,
            time_limit: self.time_limit,
        };
        pool.submit(move |bench| {
            let attempt = bench.attempt(&image, &circumstances)?;
            Ok(Tried { key, attempt })
        });
        loop {
            if watcher.stop() {
                return Ok(false);
            }
            if !pool.is_busy() {
                return Ok(true);
            }
            self.collect(GLANCE, pool, journal, symbols, watcher)?;
        }
    }

    /// Takes in a result, if there is one.
    fn collect(
        &mut self,
        patience: Duration,
        pool: &mut Pool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        watcher: &mut impl Watcher,
    ) -> Result<(), CrashError> {
        let Some(result) = pool.collect(patience) else {
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
                        again: attempt.again,
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
        watcher.progress(self.progress);
        Ok(())
    }

    /// Another failure point with an equal image.
    fn note_same(
        &mut self,
        first: &Trial,
        point: Point,
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
    fn take_leave(
        &mut self,
        pool: &mut Pool<Tried>,
        journal: &mut Journal,
        symbols: &mut impl Symbols,
        watcher: &mut impl Watcher,
    ) -> Result<(), CrashError> {
        let start = std::time::Instant::now();
        while !pool.is_idle() && start.elapsed() < FAREWELL {
            self.collect(GLANCE, pool, journal, symbols, watcher)?;
        }
        Ok(())
    }
}

/// Where recovery failed. One that returned from its `main` was nowhere in particular.
fn recovery_frames(frames: &[RawFrame], symbols: &mut impl Symbols) -> Vec<Frame> {
    let frames = symbols.recovery_frames(frames);
    if frames.iter().all(Frame::is_plumbing) {
        return Vec::new();
    }
    frames
}

fn stack_frames(point: Point, symbols: &mut impl Symbols) -> Vec<Frame> {
    point
        .stack
        .map(|stack| symbols.frames(stack))
        .unwrap_or_default()
}
