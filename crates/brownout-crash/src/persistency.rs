//! Follows a run with the persistency model: which stores a crash may lose, and what lines held before them.

use std::ops::Range;

use brownout_model::{
    Access, ByteMask, CrashStates, FlushEffect, LINE, LineRef, LiveStore, Marks, PersistObserver,
    PmAddress, Profile, SpaceId, StoreKind, Tearing, ThreadSlot, Time, Tracker, line_parts,
};
use brownout_trace::replay::{Content, Images};
use brownout_trace::selection::Selection;
use brownout_trace::{
    Address, Definitions, Event, EventIndex, EventKind, FileId, FileRange, FlushKind, ProcessId,
    StoreFlavor, Sync, ThreadId,
};
use rustc_hash::FxHashMap;

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

    fn overwritten(
        &mut self,
        _: LineRef<'_>,
        _: &LiveStore<PartId>,
        _: &mut LiveStore<PartId>,
        _: ByteMask,
    ) {
    }

    fn settled(&mut self, _: LineRef<'_>, store: &LiveStore<PartId>) {
        self.free.push(store.tag);
    }
}

/// Follows a run with the model.
pub struct Persistency {
    tracker: Tracker<Parts>,
    parts: Parts,
    threads: FxHashMap<(ProcessId, ThreadId), ThreadSlot>,
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
            threads: FxHashMap::default(),
            counts: FxHashMap::default(),
        }
    }

    pub fn profile(&self) -> &Profile {
        self.tracker.profile()
    }

    /// What a crash now can leave. The tags name [parts](Self::part).
    pub fn crash_states(&self) -> CrashStates<PartId> {
        self.tracker.crash_states(Tearing::Whole)
    }

    /// Like [`crash_states`](Self::crash_states), of the units that contain bytes of `range` alone.
    pub fn crash_states_in(&self, file: FileId, range: Range<u64>) -> CrashStates<PartId> {
        let space = SpaceId(file.0);
        self.tracker.crash_states_in(space, range, Tearing::Whole)
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
        let fences = self.profile().needs_fences();
        let resolve = |addr: Address, len: u64| {
            let process = definitions.process(event.process)?;
            let range = process.address_space().resolve(addr, len)?;
            selection.is_persistent(range.file).then_some(range)
        };
        match event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                ..
            } => {
                let by = self.access(event);
                if locked && fences {
                    // A locked instruction is a fence before it is a store.
                    self.tracker.fence(&mut self.parts, by);
                }
                let kind = match flavor {
                    StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
                    _ => StoreKind::Cached,
                };
                self.store(event, addr, bytes, kind, resolve, images);
            }
            EventKind::KernelWrite { addr, bytes, .. } => {
                self.store(event, addr, bytes, StoreKind::Cached, resolve, images);
            }
            EventKind::Flush { addr, kind, .. } if fences => {
                let Some(range) = resolve(addr, 1) else {
                    return;
                };
                let kind = match kind {
                    FlushKind::Clflush => FlushEffect::Immediate,
                    _ => FlushEffect::Deferred,
                };
                let by = self.access(event);
                let line = self.tracker.line(address(range.file, range.offset));
                self.tracker.flush(&mut self.parts, by, line, kind, ());
            }
            EventKind::Fence { .. } if fences => {
                let by = self.access(event);
                self.tracker.fence(&mut self.parts, by);
            }
            EventKind::Sync(sync) => self.sync(event, definitions, sync),
            // What the kernel writes to a file replaces what was stored there.
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let end = offset.saturating_add(bytes.len() as u64);
                self.discard(file, offset..end);
            }
            EventKind::FileResize { file, len } => {
                self.discard(file, len..u64::MAX);
            }
            _ => {}
        }
    }

    fn store(
        &mut self,
        event: &Event<'_>,
        addr: Address,
        bytes: &[u8],
        kind: StoreKind,
        resolve: impl Fn(Address, u64) -> Option<FileRange>,
        images: &Images,
    ) {
        let by = self.access(event);
        let (mut addr, mut rest) = (addr, bytes);
        while let Some(range) = resolve(addr, rest.len() as u64).filter(|_| !rest.is_empty()) {
            let (now, later) = rest.split_at(range.len as usize);
            let empty = Content::default();
            let content = images
                .file(range.file)
                .map_or(&empty, |image| image.content());
            for (offset, mask, skipped) in line_parts(range.offset, range.len) {
                let start = offset - offset % LINE;
                let mut before = [0; LINE as usize];
                content.read(start, &mut before);
                let mut after = before;
                let mut source = &now[skipped as usize..];
                for (first, len) in mask.runs() {
                    let (head, tail) = source.split_at(len as usize);
                    after[first as usize..(first + len) as usize].copy_from_slice(head);
                    source = tail;
                }
                let count = self.counts.entry((range.file, start)).or_default();
                let number = *count;
                *count += 1;
                let tag = self.parts.add(StorePart {
                    event: event.index,
                    number,
                    before,
                    after,
                });
                let line = self.tracker.line(address(range.file, start));
                self.tracker
                    .store(&mut self.parts, by, line, mask, kind, tag);
            }
            addr = Address(addr.0.wrapping_add(range.len));
            rest = later;
        }
    }

    fn sync(&mut self, event: &Event<'_>, definitions: &Definitions, sync: Sync) {
        let by = self.access(event);
        let mut write_back = |file: FileId, range| {
            self.tracker
                .write_back(&mut self.parts, by, SpaceId(file.0), range);
        };
        match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous: false,
            } => {
                let Some(process) = definitions.process(event.process) else {
                    return;
                };
                let (mut addr, mut left) = (addr, len);
                while left > 0 {
                    let Some(range) = process.address_space().resolve(addr, left) else {
                        break;
                    };
                    let end = range.offset.saturating_add(range.len);
                    write_back(range.file, range.offset..end);
                    addr = Address(addr.0.wrapping_add(range.len));
                    left -= range.len.min(left);
                }
            }
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
                write_back(file, 0..u64::MAX);
            }
            // These begin to write back and do not wait for the end.
            _ => {}
        }
    }

    /// These bytes no longer hold what was stored.
    fn discard(&mut self, file: FileId, gone: Range<u64>) {
        let free = &mut self.parts.free;
        let release = |tag: &_| free.push(*tag);
        self.tracker.discard(SpaceId(file.0), gone, release);
    }

    fn access(&mut self, event: &Event<'_>) -> Access {
        let key = (event.process, event.thread);
        let tracker = &mut self.tracker;
        let thread = *self
            .threads
            .entry(key)
            .or_insert_with(|| tracker.add_thread());
        Access {
            thread,
            time: Time(event.index.0),
        }
    }
}

fn address(file: FileId, offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(file.0),
        offset,
    }
}
