//! The times of a recorded run at which crashes are explored, and all stores of the run.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use brownout_model::{
    CrashTime, InitialBytes, PossibleMemory, SpaceId, StoreHistory, StoreHistoryBuilder, Time,
    Wait, states_log10,
};
use brownout_recovery::ByteRanges;
use brownout_trace::replay::Content;
use brownout_trace::{Event, EventKind, FileId, RENAME_NOTE};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::StrategyInput;
use crate::effect::effects;
use crate::error::CrashError;
use crate::failure_point::{
    FailurePoint, FailurePoints, Granularity, NameChanges, PointKind, Scope, StackId,
};
use crate::history_follower::{HistoryFollower, InitialContents, unmapped};
use crate::image::ImageBuilder;
use crate::symbols::Symbols;

pub use crate::recovery_start::Start;

/// A time at which crashes are explored.
#[derive(Clone, Debug)]
pub struct ExploredTime {
    /// The failure point: nothing is stored between it and the crash time.
    pub point: FailurePoint,
    pub time: CrashTime,
    /// The file that has each path.
    pub holders: Arc<[Option<FileId>]>,
    pub start: Start,
}

/// A failure point, whatever its occurrence.
pub type Context = (PointKind, Option<StackId>);

impl ExploredTime {
    pub fn context(&self) -> Context {
        (self.point.kind, self.point.stack)
    }

    /// The file that a persistent file is for the model.
    pub fn holder(&self, number: usize) -> FileId {
        self.holders[number].unwrap_or_else(|| unmapped(number))
    }

    /// The number of the persistent file that is in a space; `None` if the file there has lost its path.
    pub fn number_of(&self, space: SpaceId) -> Option<usize> {
        (0..self.holders.len()).find(|&number| self.holder(number).0 == space.0)
    }
}

/// All that a crash can leave of a run.
pub struct RecordedStores {
    pub history: Arc<StoreHistory>,
    pub initial: Arc<dyn InitialBytes>,
    pub times: Vec<ExploredTime>,
    /// How many crash times are wanted, but are at no failure point, and so are not explored.
    pub left_out: u64,
    /// The bytes of each persistent file that differ between crashes.
    pub differing: Arc<[ByteRanges]>,
    /// How each failure point is named.
    pub names: FxHashMap<Context, String>,
    pub paths: Vec<PathBuf>,
    /// Each persistent file after the first crash that leaves it. Its other bytes than the differing ones are the same after all crashes.
    pub first_contents: Vec<Option<Content>>,
}

impl RecordedStores {
    pub fn of(input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let StrategyInput {
            run,
            survey,
            symbols,
            profile,
            tearing,
            ..
        } = input;
        let files = &survey.files;
        let scope = survey.points.scope();
        let mut points = FailurePoints::new(Scope {
            // If stores persist at once, each of them is an operation that narrows what may be lost.
            granularity: match profile.cached {
                Wait::Nothing => Granularity::Store,
                _ => Granularity::Flush,
            },
            ..scope.clone()
        });
        let counts_operations = !scope.operations.is_empty();
        let mut images = ImageBuilder::new(files, &run.selection);
        let history = StoreHistoryBuilder::new(profile, tearing);
        let mut follower = HistoryFollower::new(history, files);
        // Crash times of the history that were looked at.
        let mut known = 0;
        let mut times = Vec::new();
        let mut first_contents: Vec<Option<Content>> = vec![None; files.paths().len()];
        // The last failure point, if nothing was stored since.
        let mut label: Option<Label> = None;
        let mut names = NameChanges::default();
        let mut left_out = 0;
        run.walk(|event, definitions| {
            symbols.observe(event, definitions);
            if names.observe(definitions, &run.selection) {
                follower.history.widen();
                label = None;
            }
            let point = points.observe(event, definitions, &run.selection, &mut *symbols);
            if let Some(point) = point {
                let operation = counts_operations.then_some(point.occurrence.operation);
                let sizes = images.sizes(definitions);
                label = Some(Label {
                    point,
                    holders: images.holders(definitions).into(),
                    start: Start { operation, sizes },
                });
            }
            if label.is_some() && is_rename(event) {
                follower.history.narrow(Time(event.index.0));
            }
            let mut changed = false;
            follower.changes.begin_event();
            effects(event, definitions, &run.selection, &profile, |effect| {
                changed |= effect.changes_content();
                follower.apply(event, effect);
            });
            follower.observe_content(event);
            let new = &follower.history.crash_times()[known..];
            let explored_before = times.len();
            times.extend(new.iter().filter_map(|&time| explored(&label, time)));
            if label.is_none() && !new.is_empty() {
                left_out += u64::from(points.is_between(event, definitions, &mut *symbols));
            }
            known += new.len();
            if times.len() > explored_before && first_contents.iter().any(Option::is_none) {
                let image = images.image(definitions);
                for (first, now) in first_contents.iter_mut().zip(image.files) {
                    *first = first.take().or(now);
                }
            }
            if explored_before == 0 && !times.is_empty() {
                follower.changes.begin_exploring();
            }
            if changed {
                label = None;
            }
            images.apply(event, definitions);
            ControlFlow::Continue(())
        })?;
        left_out += u64::from(label.is_none() && points.is_unfinished());
        let history = follower.history.finish();
        times.extend(
            history.crash_times()[known..]
                .iter()
                .filter_map(|&time| explored(&label, time)),
        );
        let history = Arc::new(history);
        let initial: Arc<dyn InitialBytes> = Arc::new(InitialContents::of(files));
        let first = times.first().map(|first| {
            PossibleMemory::new(Arc::clone(&initial), Arc::clone(&history), first.time)
        });
        let changed = follower.changes.differing(first.as_ref(), profile.unit);
        let differing = differing_by_path(files.paths().len(), &times, &changed);
        Ok(Self {
            names: point_names(&times, symbols),
            history,
            initial,
            times,
            left_out,
            differing,
            paths: files.paths().to_vec(),
            first_contents,
        })
    }
}

impl RecordedStores {
    /// The decimal logarithm of the number of states that the explored crashes can leave.
    pub fn states_log10(&self) -> f64 {
        states_log10(self.times.iter().map(|explored| explored.time))
    }
}

/// How each failure point of these times is named.
fn point_names(times: &[ExploredTime], symbols: &mut dyn Symbols) -> FxHashMap<Context, String> {
    let mut names = FxHashMap::default();
    for context in times.iter().map(ExploredTime::context) {
        names.entry(context).or_insert_with(|| {
            let frames = context.1.map(|stack| symbols.frames(stack));
            let line = symbols.line(&frames.unwrap_or_default());
            format!("{} at {line}", context.0.name())
        });
    }
    names
}

/// A failure point and what recoveries find there.
#[derive(Clone)]
struct Label {
    point: FailurePoint,
    holders: Arc<[Option<FileId>]>,
    start: Start,
}

/// Whether a file is about to be renamed.
fn is_rename(event: &Event<'_>) -> bool {
    matches!(event.kind, EventKind::Note { text } if text.starts_with(RENAME_NOTE))
}

fn explored(label: &Option<Label>, time: CrashTime) -> Option<ExploredTime> {
    let Label {
        point,
        holders,
        start,
    } = label.clone()?;
    Some(ExploredTime {
        point,
        time,
        holders,
        start,
    })
}

/// The bytes under each path that differ between crashes. A file has the bytes that were stored to it under whatever name it
/// had then; where files take each other's place, all of their bytes may differ.
fn differing_by_path(
    paths: usize,
    times: &[ExploredTime],
    of_files: &FxHashMap<FileId, ByteRanges>,
) -> Arc<[ByteRanges]> {
    let holders = |path: usize| -> FxHashSet<Option<FileId>> {
        times.iter().map(|time| time.holders[path]).collect()
    };
    let longest = |path: usize| times.iter().filter_map(|time| time.start.sizes[path]).max();
    let of_path = |path| {
        let mut differing = ByteRanges::exact();
        let holders = holders(path);
        if holders.iter().flatten().count() > 1 {
            differing.insert(0..longest(path).unwrap_or(0));
        }
        for stored in holders
            .iter()
            .flatten()
            .filter_map(|file| of_files.get(file))
        {
            stored.ranges().for_each(|range| differing.insert(range));
        }
        differing
    };
    (0..paths).map(of_path).collect()
}
