//! Follows a run with the persistency model: which stores a crash may lose, and what lines held before them.

use std::ops::Range;

use brownout_model::{
    Access, CrashStates, LINE, LineRef, LiveStore, Marks, PersistObserver, PmAddress, Profile,
    SpaceId, StoreKind, Tearing, Time, Tracker, line_parts,
};
use brownout_trace::replay::{Content, Images};
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventIndex, FileId};
use rustc_hash::FxHashMap;

use crate::effect::{Effect, Threads, address, effects};

/// The part of a store in one line, as long as a crash may lose it.
#[derive(Clone, Debug)]
pub struct StorePart {
    pub event: EventIndex,
    /// Number of the store among all stores to its line, from 0.
    pub number: u64,
    /// The bytes of the line before and after the store; only those that it covers count.
    pub before: [u8; LINE as usize],
    pub after: [u8; LINE as usize],
}

/// Names a [`StorePart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(u32);

/// The part of a store in one line, when it becomes guaranteed.
#[derive(Clone, Copy, Debug)]
pub struct GuaranteedPart {
    pub store: EventIndex,
    pub file: FileId,
    /// Of the line.
    pub offset: u64,
}

/// Keeps the parts of stores until they are settled.
#[derive(Debug, Default)]
struct Parts {
    parts: Vec<StorePart>,
    free: Vec<PartId>,
    /// What has become guaranteed, if that is asked for.
    guaranteed: Option<Vec<GuaranteedPart>>,
}

impl Parts {
    fn add(&mut self, part: StorePart) -> PartId {
        match self.free.pop() {
            Some(id) => {
                self.parts[id.0 as usize] = part;
                id
            }
            None => {
                self.parts.push(part);
                PartId(self.parts.len() as u32 - 1)
            }
        }
    }
}

impl PersistObserver for Parts {
    type Store = PartId;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        _: Marks<'_>,
        store: &LiveStore<PartId>,
        _: Access,
    ) {
        if let Some(guaranteed) = &mut self.guaranteed {
            let address = line.address();
            guaranteed.push(GuaranteedPart {
                store: self.parts[store.tag.0 as usize].event,
                file: FileId(address.space.0),
                offset: address.offset,
            });
        }
    }

    fn settled(&mut self, _: LineRef<'_>, store: &LiveStore<PartId>) {
        self.free.push(store.tag);
    }
}

/// Follows a run with the model.
pub struct Persistency {
    tracker: Tracker<Parts>,
    parts: Parts,
    threads: Threads,
    /// Stores so far to each line that was stored to, by file and offset.
    counts: FxHashMap<(FileId, u64), u64>,
}

impl std::fmt::Debug for Persistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Persistency")
            .field("profile", self.tracker.profile())
            .finish_non_exhaustive()
    }
}

impl Persistency {
    pub fn new(profile: Profile) -> Self {
        Self {
            tracker: Tracker::new(profile),
            parts: Parts::default(),
            threads: Threads::default(),
            counts: FxHashMap::default(),
        }
    }

    pub fn profile(&self) -> &Profile {
        self.tracker.profile()
    }

    /// What a crash now can leave. The tags name [parts](Self::part).
    pub fn crash_states(&self, tearing: Tearing) -> CrashStates<PartId> {
        self.tracker.crash_states(tearing)
    }

    /// Like [`crash_states`](Self::crash_states), of the units that contain bytes of `range` alone.
    pub fn crash_states_in(
        &self,
        file: FileId,
        range: Range<u64>,
        tearing: Tearing,
    ) -> CrashStates<PartId> {
        let space = SpaceId(file.0);
        self.tracker.crash_states_in(space, range, tearing)
    }

    /// How many stores a crash now can lose of the units that contain bytes of `range`, counted up to `most`.
    pub fn losable_stores_in(&self, file: FileId, range: Range<u64>, most: usize) -> usize {
        self.tracker.live_stores_in(SpaceId(file.0), range, most)
    }

    pub fn part(&self, id: PartId) -> &StorePart {
        &self.parts.parts[id.0 as usize]
    }

    /// Notes from now on what becomes guaranteed.
    pub fn note_guarantees(&mut self) {
        self.parts.guaranteed = Some(Vec::new());
    }

    /// What has become guaranteed since this was last asked.
    pub fn take_guarantees(&mut self) -> Vec<GuaranteedPart> {
        self.parts
            .guaranteed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// How many stores a crash could lose, by their parts in lines.
    pub fn losable_stores(&self) -> usize {
        self.tracker.live_stores()
    }

    /// How many stores there were to a line.
    pub fn stores_to(&self, file: FileId, offset: u64) -> u64 {
        self.counts.get(&(file, offset)).copied().unwrap_or(0)
    }

    /// Takes the next event. `images` are the files before it.
    pub fn apply(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        selection: &Selection,
        images: &Images,
    ) {
        let profile = *self.profile();
        effects(event, definitions, selection, &profile, |effect| {
            let by = Access {
                thread: self.threads.of(event, || self.tracker.add_thread()),
                time: Time(event.index.0),
            };
            match effect {
                Effect::Fence => self.tracker.fence(&mut self.parts, by),
                Effect::Store { at, bytes, kind } => self.store(by, at, bytes, kind, images),
                Effect::Flush { at, effect } => {
                    let line = self.tracker.line(at);
                    self.tracker.flush(&mut self.parts, by, line, effect, ());
                }
                Effect::WriteBack { space, range } => {
                    self.tracker.write_back(&mut self.parts, by, space, range);
                }
                Effect::Replace { at, bytes } => {
                    let end = at.offset.saturating_add(bytes.len() as u64);
                    self.discard(at.space, at.offset..end);
                }
                Effect::Remove { space, range } => self.discard(space, range),
            }
        });
    }

    fn store(&mut self, by: Access, at: PmAddress, bytes: &[u8], kind: StoreKind, images: &Images) {
        let file = FileId(at.space.0);
        let empty = Content::default();
        let content = images.file(file).map_or(&empty, |image| image.content());
        for (offset, mask, skipped) in line_parts(at.offset, bytes.len() as u64) {
            let start = offset - offset % LINE;
            let mut before = [0; LINE as usize];
            content.read(start, &mut before);
            let mut after = before;
            let mut source = &bytes[skipped as usize..];
            for (first, len) in mask.runs() {
                let (head, tail) = source.split_at(len as usize);
                after[first as usize..(first + len) as usize].copy_from_slice(head);
                source = tail;
            }
            let count = self.counts.entry((file, start)).or_default();
            let number = *count;
            *count += 1;
            let tag = self.parts.add(StorePart {
                event: EventIndex(by.time.0),
                number,
                before,
                after,
            });
            let line = self.tracker.line(address(file, start));
            self.tracker
                .store(&mut self.parts, by, line, mask, kind, tag);
        }
    }

    /// These bytes no longer hold what was stored.
    fn discard(&mut self, space: SpaceId, gone: Range<u64>) {
        let free = &mut self.parts.free;
        let release = |tag: &_| free.push(*tag);
        self.tracker.discard(space, gone, release);
    }
}
