//! Follows a trace with the model and shows the rules what happens.
//!
//! `msync` and `fsync` make stores durable under every profile: a program that relies on them alone is judged by
//! them, also under `adr`, where they are flush and fence of their pages in one call. Under `msync` flush
//! and fence instructions do nothing for durability and are not looked at.

pub(crate) mod address_spaces;
pub(crate) mod effects;
pub(crate) mod fast_path;
pub(crate) mod guarantees;
pub(crate) mod line_marks;
pub(crate) mod overwrites;
pub(crate) mod thread;

use std::ops::Range;

use brownout_model::{
    Access, ByteMask, FlushKind, LINE, PmAddress, Profile, SpaceId, StoreKind, ThreadSlot, Time,
    Tracker,
};
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, FileRange, ProcessEnd, ProcessId,
    ProcessOrigin, StoreFlavor, Sync, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::Attribution;
use crate::follower::address_spaces::Addresses;
use crate::follower::effects::StorePart;
use crate::follower::fast_path::Quick;
use crate::follower::guarantees::Watch;
use crate::follower::line_marks::DIRTY;
use crate::follower::thread::ThreadState;
use crate::lost_stores::WrittenBack;
use crate::oracle::{Oracle, Oracles};
use crate::raw_finding::RawFinding;
use crate::site_keys::{SiteId, Sites};
use crate::transactions::{Functions, Reservations};

/// Applies all rules to a trace, event by event.
pub struct Lint<A> {
    pub(crate) tracker: Tracker<Watch>,
    pub(crate) watch: Watch,
    pub(crate) written_back: WrittenBack,
    /// Processes that came to their own end.
    pub(crate) completed: FxHashSet<ProcessId>,
    pub(crate) sites: Sites<A>,
    pub(crate) addresses: Addresses,
    pub(crate) functions: Functions,
    pub(crate) reservations: Reservations,
    pub(crate) oracles: Oracles,
    pub(crate) quick: Quick,
    survey: Survey,
    threads: FxHashMap<(ProcessId, ThreadId), ThreadSlot>,
    current: Option<((ProcessId, ThreadId), ThreadSlot)>,
}

/// What a whole trace led to.
pub struct Outcome<A> {
    /// Which files are persistent memory.
    pub selection: Selection,
    /// By rule, then in the order in which they were met.
    pub findings: Vec<RawFinding>,
    /// As it was given to [`Lint::new`].
    pub attribution: A,
}

impl<A: Attribution> Lint<A> {
    pub fn new(profile: Profile, attribution: A) -> Self {
        Lint {
            tracker: Tracker::new(profile),
            watch: Watch::new(),
            written_back: WrittenBack::default(),
            completed: FxHashSet::default(),
            sites: Sites::new(attribution),
            addresses: Addresses::default(),
            functions: Functions::default(),
            reservations: Reservations::default(),
            oracles: Oracles::default(),
            quick: Quick::default(),
            survey: Survey::default(),
            threads: FxHashMap::default(),
            current: None,
        }
    }

    /// Has demands of one program's own checked as well.
    pub fn with_oracles(mut self, oracles: Vec<Box<dyn Oracle>>) -> Self {
        self.oracles = Oracles::new(oracles);
        self
    }

    /// Takes the next event. `definitions` are those after it.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.survey.observe(event, definitions);
        let fences = self.tracker.profile().needs_fences();
        match event.kind {
            EventKind::Store { .. } | EventKind::KernelWrite { .. } => {}
            EventKind::Flush { .. } | EventKind::Fence { .. } if fences => {}
            EventKind::Load { .. } | EventKind::Flush { .. } | EventKind::Fence { .. } => return,
            _ => return self.observe_rare(event, definitions),
        }
        let site = self.sites.of(&mut self.watch.known, event, definitions);
        self.quick.met(site);
        if !self.oracles.are_none() {
            self.consult(event, definitions, site);
        }
        let by = self.access(event);
        match event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                ..
            } => {
                if locked || self.in_transaction(by) {
                    self.before_store(event, by, site, locked && fences);
                }
                let kind = match flavor {
                    StoreFlavor::Temporal => StoreKind::Cached,
                    StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
                };
                self.store(event.process, by, site, addr, bytes, kind);
            }
            EventKind::Flush {
                addr,
                kind,
                volatile,
            } => {
                let kind = flush_kind(kind);
                let range = self.addresses.resolve(event.process, addr, 1);
                match range.filter(|_| !volatile) {
                    Some(range) => self.flush(by, site, range, kind),
                    None => self.flush_volatile(by, site, kind),
                }
            }
            EventKind::Fence { kind } => self.fence(by, site, kind),
            EventKind::KernelWrite { addr, bytes, .. } => {
                self.store(event.process, by, site, addr, bytes, StoreKind::Cached);
            }
            _ => {}
        }
    }

    /// A store is about to take place by a locked instruction, which is a fence first, or in a transaction.
    #[inline(never)]
    fn before_store(&mut self, event: &Event<'_>, by: Access, site: SiteId, fence: bool) {
        if fence {
            self.real_fence(by, site);
        }
        if self.in_transaction(by) {
            self.stored_in_transaction(event, by, site);
        }
    }

    #[inline(never)]
    fn observe_rare(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let process = event.process;
        match event.kind {
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => self.file_written(file, offset..offset.saturating_add(bytes.len() as u64)),
            EventKind::FileResize { file, len } => self.discard(file, len..u64::MAX),
            EventKind::Sync(sync) => {
                let site = self.sites.of(&mut self.watch.known, event, definitions);
                let by = self.access(event);
                self.sync(process, by, site, sync);
            }
            EventKind::Map(mapping) => {
                let gone = self.addresses.map(process, mapping);
                self.abandon(gone);
            }
            EventKind::Unmap { addr, len } => {
                let gone = self.addresses.unmap(process, addr, len);
                self.abandon(gone);
            }
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                let old = old.0..old.0.saturating_add(old_len);
                let new = new.0..new.0.saturating_add(new_len);
                let gone = self.addresses.remap(process, old, new);
                self.abandon(gone);
            }
            EventKind::Module { .. } => {
                self.sites.module_mapped(event, definitions);
                self.quick.forget();
            }
            EventKind::ProcessStart {
                parent,
                origin,
                pid,
                ..
            } => match (origin, parent) {
                (ProcessOrigin::Fork, Some(parent)) => self.addresses.fork(parent, process),
                _ => self.replaced_by(process, pid, definitions),
            },
            EventKind::Call { function, args } => {
                self.called(event, definitions, function, args);
            }
            EventKind::Return { function, value } => {
                self.returned(event, definitions, function, value);
            }
            EventKind::ThreadExit => {
                if let Some(thread) = self.threads.remove(&(process, event.thread)) {
                    self.thread_ended(thread);
                }
                self.current = None;
            }
            EventKind::ProcessExit { end } => {
                self.process_ended(process, matches!(end, ProcessEnd::Exited { .. }));
            }
            _ => {}
        }
    }

    /// The trace has ended. Where patterns are given, they alone say which files are persistent.
    pub fn finish(mut self, definitions: &Definitions, patterns: Option<&Patterns>) -> Outcome<A> {
        let selection = self.survey.select(definitions, patterns);
        for thread in self.tracker.threads() {
            self.thread_ended(thread);
        }
        self.judge(&selection);
        Outcome {
            findings: self
                .watch
                .rules
                .into_findings(&self.watch.known, &selection)
                .into_iter()
                .chain(self.oracles.into_findings(&self.watch.known, &selection))
                .collect(),
            selection,
            attribution: self.sites.into_attribution(),
        }
    }

    /// Who does something, and when.
    #[inline]
    pub(crate) fn access(&mut self, event: &Event<'_>) -> Access {
        let key = (event.process, event.thread);
        let thread = match self.current {
            Some((current, slot)) if current == key => slot,
            _ => self.switch_to(key),
        };
        Access {
            thread,
            time: Time(event.index.0),
        }
    }

    /// The number of a thread that has done something before.
    pub(crate) fn known_thread(&self, key: (ProcessId, ThreadId)) -> Option<ThreadSlot> {
        match self.current {
            Some((current, slot)) if current == key => Some(slot),
            _ => self.threads.get(&key).copied(),
        }
    }

    /// Something besides the rules wants to see every event, or not all of them matter.
    pub(crate) fn is_attentive(&self) -> bool {
        self.survey.is_open() || !self.oracles.are_none() || !self.tracker.profile().needs_fences()
    }

    #[inline(never)]
    fn switch_to(&mut self, key: (ProcessId, ThreadId)) -> ThreadSlot {
        let (tracker, watch) = (&mut self.tracker, &mut self.watch);
        let slot = *self.threads.entry(key).or_insert_with(|| {
            watch.threads.push(ThreadState::new(key.0));
            tracker.add_thread()
        });
        self.current = Some((key, slot));
        slot
    }

    /// Cuts a store into its parts, one for each line.
    fn store(
        &mut self,
        process: ProcessId,
        by: Access,
        site: SiteId,
        addr: Address,
        bytes: &[u8],
        kind: StoreKind,
    ) {
        let (mut addr, mut bytes) = (addr, bytes);
        // Almost always once.
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = self.addresses.resolve(process, addr, len) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let thread = &mut self.watch.threads[by.thread.index()];
            thread.file = Some(range.file);
            let spoken_for = thread.transaction.covers(range);
            for (offset, bytes, before) in brownout_model::line_parts(range.offset, range.len) {
                let part = StorePart {
                    line: self.tracker.line(place(range.file, offset)),
                    start: bytes.first() as u8,
                    len: bytes.0.count_ones() as u8,
                    value: first_bytes(&now[before as usize..]),
                    kind,
                    spoken_for,
                };
                self.store_part(by, site, part);
            }
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    fn flush(&mut self, by: Access, site: SiteId, range: FileRange, kind: FlushKind) {
        self.watch.threads[by.thread.index()].file = Some(range.file);
        let place = place(range.file, range.offset - range.offset % LINE);
        let line = self.tracker.line(place);
        self.flush_line(by, site, (line, place), kind);
    }

    fn sync(&mut self, process: ProcessId, by: Access, site: SiteId, sync: Sync) {
        let whole = |file| {
            vec![FileRange {
                file,
                offset: 0,
                len: u64::MAX,
            }]
        };
        let ranges = match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous: false,
            } => self.addresses.resolve_all(process, addr, len),
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => whole(file),
            // They begin to write back and do not wait for it, or not for all it takes.
            Sync::Msync { .. } | Sync::SyncFileRange { .. } => return,
        };
        self.watch.writing_back = true;
        for range in ranges {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            self.written_back.add(range.file, bytes.clone());
            let thread = &mut self.watch.threads[by.thread.index()];
            thread.transaction.written_back(range);
            thread.accidental.retain(|known| known.file != range.file);
            let space = SpaceId(range.file.0);
            self.tracker.write_back(&mut self.watch, by, space, bytes);
        }
        self.watch.writing_back = false;
        self.watch.threads[by.thread.index()].synced(site, by.time.0);
    }

    /// The kernel wrote to the file. What was stored there is no more, and the rest is the file
    /// system's business; but the lines are worth a flush.
    fn file_written(&mut self, file: FileId, bytes: Range<u64>) {
        self.discard(file, bytes.clone());
        let len = bytes.end - bytes.start;
        for (offset, _, _) in brownout_model::line_parts(bytes.start, len) {
            let line = self.tracker.line(place(file, offset));
            self.tracker.marks(line).set(DIRTY);
        }
    }

    fn discard(&mut self, file: FileId, gone: Range<u64>) {
        let watch = &mut self.watch;
        let space = SpaceId(file.0);
        self.tracker.retain(space, gone.clone(), |line, _, store| {
            let from = gone.start.saturating_sub(line.offset).min(LINE);
            let to = gone.end.saturating_sub(line.offset).min(LINE);
            store.bytes = store.bytes.without(ByteMask::range(from, to - from));
            if store.bytes.is_empty() {
                watch.release(&store.tag);
            }
            !store.bytes.is_empty()
        });
    }

    /// Another program runs in the place of the process with the same pid, if there was one.
    fn replaced_by(&mut self, process: ProcessId, pid: u32, definitions: &Definitions) {
        let others = definitions
            .processes()
            .filter(|other| other.pid == pid && other.id != process && other.end.is_none());
        let others: Vec<ProcessId> = others.map(|other| other.id).collect();
        for other in others {
            self.process_ended(other, true);
        }
    }

    fn process_ended(&mut self, process: ProcessId, completed: bool) {
        if completed {
            self.completed.insert(process);
        }
        let gone = self.addresses.end(process);
        if completed {
            self.abandon(gone);
        }
        let threads = &mut self.threads;
        let mut ended = Vec::new();
        threads.retain(|&(of, _), &mut slot| {
            if of == process {
                ended.push(slot);
            }
            of != process
        });
        for thread in ended {
            self.thread_ended(thread);
        }
        self.current = None;
    }

    fn thread_ended(&mut self, thread: ThreadSlot) {
        let state = &mut self.watch.threads[thread.index()];
        for ordered in state.accidental.drain(..) {
            self.watch.rules.accidental_fence.left(&ordered);
        }
    }
}

#[inline]
pub(crate) fn place(file: FileId, offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(file.0),
        offset,
    }
}

#[inline]
pub(crate) fn flush_kind(kind: brownout_trace::FlushKind) -> FlushKind {
    match kind {
        brownout_trace::FlushKind::Clflush => FlushKind::Immediate,
        brownout_trace::FlushKind::Clflushopt | brownout_trace::FlushKind::Clwb => {
            FlushKind::Deferred
        }
    }
}

/// Up to eight bytes as a little-endian number.
#[inline]
pub(crate) fn first_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(chunk)
        }
    }
}
