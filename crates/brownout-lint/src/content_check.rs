//! Which lost stores change nothing: they put bytes into memory that a crash leaves there anyway.
//!
//! A pass does not keep the content of memory. If stores are lost, their trace can be read a second time, for the content of
//! their lines alone. A store may have overwritten others that were not guaranteed either, so all stores to its bytes since the
//! first of them are looked at: if none of them changes these bytes, nothing can be lost.
//!
//! Fresh memory is zero. That a zero is stored there and not flushed shows as soon as memory is used a second time, so a
//! byte counts only if it was stored before, or is not zero.
//!
//! The same pass recognises [locks](lock_words) among the lost stores.

mod lock_words;
mod version_locks;

use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use brownout_model::{ByteMask, LINE, PAGE, PmAddress, line_parts};
use brownout_trace::replay::Images;
use brownout_trace::{Address, Event, EventKind, FileId, FileRange, ProcessOrigin};
use rustc_hash::{FxHashMap, FxHashSet};

use lock_words::{LockWords, WordStore};

use crate::follower::address_spaces::AddressSpaces;
use crate::follower::pm_address;
use crate::rule_inputs::{LostStore, file};

type Line = [u8; LINE as usize];

/// A lost store: the start of its line, its bytes there, and its time.
type StoreId = (PmAddress, ByteMask, u64);

/// Reads a trace from its start for the content of the lines of lost stores.
pub struct ContentCheck {
    /// The lost stores with the time of the first store that they depend on, the latest first.
    waiting: Vec<(u64, StoreId)>,
    /// Those whose first store was seen: by line, with its content before.
    begun: FxHashMap<PmAddress, Vec<(StoreId, Line)>>,
    /// How many have begun and are not decided.
    undecided: usize,
    unchanged: FxHashSet<StoreId>,
    /// The pages of all of them.
    pages: FxHashSet<(FileId, u64)>,
    /// Which bytes of their lines were stored so far.
    stored: FxHashMap<PmAddress, ByteMask>,
    locks: LockWords,
    /// When the last of the lost stores was made.
    last: u64,
    images: Images,
    addresses: AddressSpaces,
}

impl ContentCheck {
    pub(crate) fn new<'a>(lost: impl IntoIterator<Item = &'a LostStore>) -> Self {
        let lost: Vec<&LostStore> = lost.into_iter().collect();
        let stores = lost.iter().map(|lost| (lost.tag.live_since, id(lost)));
        let mut waiting: Vec<(u64, StoreId)> = stores.collect();
        waiting.sort_unstable_by_key(|(since, (_, _, time))| std::cmp::Reverse((*since, *time)));
        let lines = lost.iter().map(|lost| lost.line);
        ContentCheck {
            waiting,
            begun: FxHashMap::default(),
            undecided: 0,
            unchanged: FxHashSet::default(),
            pages: lost.iter().map(|lost| page(lost.line)).collect(),
            stored: lines.map(|line| (line, ByteMask::NONE)).collect(),
            locks: LockWords::new(lost.iter().map(|lost| (lost.line, lost.bytes))),
            last: lost.iter().map(|lost| lost.time).max().unwrap_or(0),
            images: Images::default(),
            addresses: AddressSpaces::default(),
        }
    }

    /// Takes the next event. Breaks when all lost stores are decided.
    pub fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.store(event, addr, bytes.len() as u64);
                let may_be_locks = self.locks.any_open() && event.index.0 < self.last;
                if self.waiting.is_empty() && self.undecided == 0 && !may_be_locks {
                    return ControlFlow::Break(());
                }
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let len = bytes.len() as u64;
                if self.concerns(FileRange { file, offset, len }) {
                    for (offset, bytes, _) in line_parts(offset, len) {
                        let line = pm_address(file, offset);
                        self.note_stored(line, bytes);
                        self.locks.written(line, bytes);
                    }
                    self.images.apply(event);
                }
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let len = bytes.len() as u64;
                if self.concerns(FileRange { file, offset, len }) {
                    self.images.apply(event);
                }
            }
            _ => self.observe_rare(event),
        }
        ControlFlow::Continue(())
    }

    fn store(&mut self, event: &Event<'_>, addr: Address, len: u64) {
        let whole = self.addresses.resolve_whole(event.process, addr, len);
        if whole.is_some_and(|range| !self.concerns(range)) {
            return;
        }
        let ranges = self.addresses.resolve_all(event.process, addr, len);
        let parts = ranges.iter().flat_map(|range| {
            let parts = line_parts(range.offset, range.len);
            parts.map(|(offset, bytes, _)| (pm_address(range.file, offset), bytes))
        });
        let parts: Vec<(PmAddress, ByteMask)> = parts.collect();
        self.begin(event.index.0);
        for &(line, bytes) in &parts {
            self.note_stored(line, bytes);
        }
        let before: Vec<Option<Line>> = parts
            .iter()
            .map(|&(line, _)| self.locks.has(line).then(|| self.content(line)))
            .collect();
        self.images.apply(event);
        for ((line, bytes), before) in parts.into_iter().zip(before) {
            self.decide(line, event.index.0);
            if let Some(before) = before {
                self.follow_locks(event, (line, bytes), &before);
            }
        }
    }

    /// A store to a line that held `before` was made.
    fn follow_locks(
        &mut self,
        event: &Event<'_>,
        (line, bytes): (PmAddress, ByteMask),
        before: &Line,
    ) {
        let EventKind::Store { locked, .. } = event.kind else {
            self.locks.written(line, bytes);
            return;
        };
        let after = self.content(line);
        let store = WordStore {
            bytes,
            time: event.index.0,
            site: (event.process, event.pc, event.context),
            thread: event.thread,
            locked,
            before,
            after: &after,
        };
        self.locks.store(line, &store);
    }

    fn observe_rare(&mut self, event: &Event<'_>) {
        let process = event.process;
        match event.kind {
            EventKind::Map(mapping) => {
                self.addresses.map(process, mapping);
            }
            EventKind::Unmap { addr, len } => {
                self.addresses.unmap(process, addr, len);
            }
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                let old = old.0..old.0.saturating_add(old_len);
                let new = new.0..new.0.saturating_add(new_len);
                self.addresses.remap(process, old, new);
            }
            EventKind::ProcessStart {
                parent: Some(parent),
                origin: ProcessOrigin::Fork,
                ..
            } => self.addresses.fork(parent, process),
            EventKind::ProcessExit { .. } => {
                self.addresses.end(process);
            }
            _ => {}
        }
        self.images.apply(event);
    }

    /// Whether bytes of a file are in a page of a lost store.
    fn concerns(&self, bytes: FileRange) -> bool {
        let end = bytes.offset.saturating_add(bytes.len);
        let mut pages = bytes.offset / PAGE..end.div_ceil(PAGE);
        pages.any(|page| self.pages.contains(&(bytes.file, page)))
    }

    /// A store is about to be made.
    fn begin(&mut self, now: u64) {
        while let Some((_, store)) = self.waiting.pop_if(|(since, _)| *since <= now) {
            let (line, bytes, _) = store;
            let before = self.content(line);
            if is_known(&before, self.stored[&line], bytes) {
                self.begun.entry(line).or_default().push((store, before));
                self.undecided += 1;
            }
        }
    }

    fn note_stored(&mut self, line: PmAddress, bytes: ByteMask) {
        if let Some(stored) = self.stored.get_mut(&line) {
            *stored = stored.or(bytes);
        }
    }

    /// A store to a line was made.
    fn decide(&mut self, line: PmAddress, now: u64) {
        let Entry::Occupied(mut begun) = self.begun.entry(line) else {
            return;
        };
        let mut after = [0; LINE as usize];
        read(&self.images, line, &mut after);
        begun.get_mut().retain(|(store, before)| {
            let (_, bytes, time) = *store;
            let differs = positions(bytes).any(|at| before[at] != after[at]);
            if !differs && time == now {
                self.unchanged.insert(*store);
            }
            let is_decided = differs || time <= now;
            self.undecided -= usize::from(is_decided);
            !is_decided
        });
        if begun.get().is_empty() {
            begun.remove();
        }
    }

    fn content(&self, line: PmAddress) -> Line {
        let mut content = [0; LINE as usize];
        read(&self.images, line, &mut content);
        content
    }

    /// Whether a lost store changed nothing.
    pub(crate) fn is_unchanged(&self, lost: &LostStore) -> bool {
        // Of several stores only the first was looked at.
        lost.count == 1 && self.unchanged.contains(&id(lost))
    }

    /// Marks the lost stores that take or release a lock.
    pub(crate) fn mark_locks(&self, lost: &mut [LostStore]) {
        let known = self.locks.known();
        for store in lost {
            store.is_of_lock = known.contain(store.line, store.bytes, store.time);
        }
    }
}

fn id(lost: &LostStore) -> StoreId {
    (lost.line, lost.bytes, lost.time)
}

fn page(line: PmAddress) -> (FileId, u64) {
    (file(line), line.offset / PAGE)
}

fn read(images: &Images, line: PmAddress, out: &mut Line) {
    if let Some(image) = images.file(file(line)) {
        image.content().read(line.offset, out);
    }
}

/// Whether what is in all `bytes` of a line was put there by somebody.
fn is_known(line: &Line, stored: ByteMask, bytes: ByteMask) -> bool {
    let fresh = bytes.without(stored);
    positions(fresh).all(|at| line[at] != 0)
}

/// The positions of bytes in their line.
fn positions(bytes: ByteMask) -> impl Iterator<Item = usize> {
    let runs = bytes.runs();
    runs.flat_map(|(start, len)| start as usize..(start + len) as usize)
}
