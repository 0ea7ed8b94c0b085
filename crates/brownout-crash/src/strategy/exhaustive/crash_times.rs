//! The times of a recorded run at which crashes are explored, and all stores of the run.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use brownout_model::{
    CrashTime, InitialBytes, PmAddress, SpaceId, StoreHistory, StoreHistoryBuilder, Tearing, Time,
    Wait,
};
use brownout_recovery::ByteRanges;
use brownout_trace::replay::Content;
use brownout_trace::{Event, EventKind, FileId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::StrategyInput;
use crate::effect::{Effect, Threads, add_to_history, effects};
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Granularity, PointKind, Scope, StackId};
use crate::image::ImageBuilder;
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;

/// What distinguishes the starts of recoveries, besides what they read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// How far the workload was, if operations are counted.
    pub operation: Option<Operation>,
    /// The size of each PM file that exists.
    pub sizes: Vec<Option<u64>>,
}

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

    /// The file that a PM file is for the model.
    pub fn holder(&self, number: usize) -> FileId {
        self.holders[number].unwrap_or_else(|| unmapped(number))
    }

    /// The number of the PM file that is in a space; `None` if the file there has lost its path.
    pub fn number_of(&self, space: SpaceId) -> Option<usize> {
        (0..self.holders.len()).find(|&number| self.holder(number).0 == space.0)
    }
}

/// All that a crash can leave of a run.
pub struct RecordedStores {
    pub history: Arc<StoreHistory>,
    pub initial: Arc<dyn InitialBytes>,
    pub times: Vec<ExploredTime>,
    /// The bytes of each PM file that differ between crashes.
    pub differing: Arc<[ByteRanges]>,
    /// How each failure point is named.
    pub names: FxHashMap<Context, String>,
}

/// The space of a PM file that no file of the run has the path of yet, so that its content is certain.
fn unmapped(number: usize) -> FileId {
    FileId(u32::MAX - number as u32)
}

impl RecordedStores {
    pub fn of(input: StrategyInput<'_>) -> Result<Self, CrashError> {
        let StrategyInput {
            run,
            survey,
            symbols,
            profile,
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
        let mut follower = Follower::new(StoreHistoryBuilder::new(profile, Tearing::Whole), files);
        let mut times = Vec::new();
        // The last failure point, if nothing was stored since.
        let mut label: Option<Label> = None;
        run.walk(|event, definitions| {
            symbols.observe(event, definitions);
            let point = points.observe(event, definitions, &run.selection, &mut *symbols);
            if let Some(point) = point {
                let operation = counts_operations.then_some(point.occurrence.operation);
                let sizes = images.sizes(definitions);
                let start = Start { operation, sizes };
                let holders = images.holders(definitions).into();
                label = Some(Label {
                    point,
                    holders,
                    start,
                });
            }
            let mut changed = false;
            effects(event, definitions, &run.selection, &profile, |effect| {
                changed |= effect.changes_content();
                follower.apply(event, effect);
            });
            follower.observe_content(event);
            let known = follower.times_taken;
            let new = &follower.history.crash_times()[known..];
            times.extend(new.iter().filter_map(|&time| explored(&label, time)));
            follower.times_taken += new.len();
            if changed {
                label = None;
            }
            images.apply(event, definitions);
            ControlFlow::Continue(())
        })?;
        let known = follower.times_taken;
        let history = follower.history.finish();
        times.extend(
            history.crash_times()[known..]
                .iter()
                .filter_map(|&time| explored(&label, time)),
        );
        let differing = differing_by_path(files.paths().len(), &times, &follower.differing);
        let mut names = FxHashMap::default();
        for context in times.iter().map(ExploredTime::context) {
            names.entry(context).or_insert_with(|| {
                let frames = context.1.map(|stack| symbols.frames(stack));
                let line = symbols.line(&frames.unwrap_or_default());
                format!("{} at {line}", context.0.name())
            });
        }
        Ok(Self {
            names,
            history: Arc::new(history),
            initial: Arc::new(InitialContents::of(files)),
            times,
            differing,
        })
    }
}

/// A failure point and what recoveries find there.
#[derive(Clone)]
struct Label {
    point: FailurePoint,
    holders: Arc<[Option<FileId>]>,
    start: Start,
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

/// Writes the history of a run.
struct Follower {
    history: StoreHistoryBuilder,
    threads: Threads,
    /// The bytes of each file that changed.
    differing: FxHashMap<FileId, ByteRanges>,
    /// Crash times of the history that were looked at.
    times_taken: usize,
    /// Files whose first content is the initial one, as long as they are mapped once.
    first_mapped: FxHashMap<FileId, u32>,
    initial: FxHashSet<FileId>,
}

impl Follower {
    fn new(history: StoreHistoryBuilder, files: &PersistentFiles) -> Self {
        Self {
            history,
            threads: Threads::default(),
            differing: FxHashMap::default(),
            times_taken: 0,
            first_mapped: FxHashMap::default(),
            initial: files.initial_contents().map(|(file, _)| file).collect(),
        }
    }

    fn apply(&mut self, event: &Event<'_>, effect: Effect<'_>) {
        if let Some((space, range)) = effect.changed_bytes() {
            self.differs(FileId(space.0), range);
        }
        add_to_history(&mut self.history, &mut self.threads, event, effect);
    }

    fn differs(&mut self, file: FileId, range: Range<u64>) {
        let differing = self.differing.entry(file);
        differing.or_insert_with(ByteRanges::exact).insert(range);
    }

    /// Content that is reported later than the first replaces it.
    fn observe_content(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Map(mapping) => *self.first_mapped.entry(mapping.file).or_default() += 1,
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let is_first = self.first_mapped.get(&file) == Some(&1);
                if !(is_first && self.initial.contains(&file)) {
                    let at = crate::effect::address(file, offset);
                    self.history.replace(Time(event.index.0), at, bytes);
                    self.differs(file, range_of(at, bytes));
                }
            }
            _ => {}
        }
    }
}

fn range_of(at: PmAddress, bytes: &[u8]) -> Range<u64> {
    at.offset..at.offset + bytes.len() as u64
}

/// What the files held when they were first mapped, and before.
struct InitialContents(FxHashMap<SpaceId, Content>);

impl InitialContents {
    fn of(files: &PersistentFiles) -> Self {
        let contents = files.initial_contents();
        let unmapped = (0..files.paths().len()).filter_map(|number| {
            let content = files.initial_content(number)?;
            Some((unmapped(number), content))
        });
        let all = contents.chain(unmapped);
        Self(
            all.map(|(file, content)| (SpaceId(file.0), content.clone()))
                .collect(),
        )
    }
}

impl InitialBytes for InitialContents {
    fn read(&self, address: PmAddress, bytes: &mut [u8]) {
        match self.0.get(&address.space) {
            Some(content) => content.read(address.offset, bytes),
            None => bytes.fill(0),
        }
    }
}
