//! Follows the events of a recorded run and writes the history of its stores, from which the model computes what a crash can
//! leave.

use std::ops::Range;

use brownout_model::{InitialBytes, PmAddress, SpaceId, StoreHistoryBuilder, Time};
use brownout_trace::replay::Content;
use brownout_trace::{Event, EventKind, FileId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::changes::Changes;
use crate::effect::{Effect, Threads, add_to_history, address};
use crate::persistent_files::PersistentFiles;

/// Writes the history of a run.
pub struct HistoryFollower {
    pub history: StoreHistoryBuilder,
    threads: Threads,
    pub changes: Changes,
    /// Files whose first content is the initial one, as long as they are mapped once.
    first_mapped: FxHashMap<FileId, u32>,
    initial: FxHashSet<FileId>,
}

impl HistoryFollower {
    pub fn new(history: StoreHistoryBuilder, files: &PersistentFiles) -> Self {
        Self {
            history,
            threads: Threads::default(),
            changes: Changes::default(),
            first_mapped: FxHashMap::default(),
            initial: files.initial_contents().map(|(file, _)| file).collect(),
        }
    }

    pub fn apply(&mut self, event: &Event<'_>, effect: Effect<'_>) {
        if let Some((space, range)) = effect.changed_bytes() {
            self.changes.add(FileId(space.0), range);
        }
        add_to_history(&mut self.history, &mut self.threads, event, effect);
    }

    /// Content that is reported later than the first replaces it.
    pub fn observe_content(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Map(mapping) => *self.first_mapped.entry(mapping.file).or_default() += 1,
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let is_first = self.first_mapped.get(&file) == Some(&1);
                if !(is_first && self.initial.contains(&file)) {
                    let at = address(file, offset);
                    self.history.replace(Time(event.index.0), at, bytes);
                    self.changes.add(file, range_of(at, bytes));
                }
            }
            _ => {}
        }
    }
}

fn range_of(at: PmAddress, bytes: &[u8]) -> Range<u64> {
    at.offset..at.offset + bytes.len() as u64
}

/// The space of a persistent file that no file of the run has the path of yet, so that its content is certain.
pub fn unmapped(number: usize) -> FileId {
    FileId(u32::MAX - number as u32)
}

/// What the files held when they were first mapped, and before.
pub struct InitialContents(FxHashMap<SpaceId, Content>);

impl InitialContents {
    pub fn of(files: &PersistentFiles) -> Self {
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
