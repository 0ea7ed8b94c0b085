//! A pass over a trace: follows threads, locks and stores, and finds the races at the end.
//!
//! The stages of HawkSet (§3.2, Fig. 4) run side by side on one stream of events: the model simulates the worst-case cache,
//! `synchronization` tracks locks and threads, `lines` removes initialisation, `lifetimes` determines effective locksets, and
//! [`pairs`](crate::pairs) is Algorithm 1.

mod calls;

use std::convert::Infallible;
use std::ops::ControlFlow;

use brownout_model::{
    Access, FlushEffect, LINE, PmAddress, Profile, SpaceId, StoreKind, Time, Tracker, line_parts,
};
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, FileRange, FlushKind, ProcessId,
    RecognisedLocks, StoreFlavor, Sync, Visitor,
};

use rustc_hash::FxHashMap;

use crate::accesses::Accesses;
use crate::address_cache::AddressCache;
use crate::allocations::AllocationFunctions;
use crate::clocks::Clocks;
use crate::lifetimes::{Knowledge, StoreTag};
use crate::lines::Lines;
use crate::locks::Locks;
use crate::observations::{DependentId, Observations, ObservedLoad};
use crate::outcome::{RaceCounts, RaceOutcome};
use crate::pairs::Pairing;
use crate::publication::Publication;
use crate::sites::{AccessOwner, RaceSite, Sites, TargetCode};
use crate::sync_functions::{CustomLock, SyncFunctions};
use crate::synchronization::Synchronization;
use crate::threads::{PendingLoad, Threads};

/// Loads of a thread without a store in between that may still turn out harmless.
const PENDING_LOADS: usize = 4096;
/// How far behind its beginning an object of unknown size is assumed to reach.
const UNKNOWN_OBJECT: u64 = 256;

/// How races are looked for.
#[derive(Clone, Debug)]
pub struct RaceOptions {
    pub profile: Profile,
    /// Leave out accesses to memory that only one thread can know of (HawkSet §3.1.3).
    pub removes_initialisation: bool,
    /// Functions of the target that work on locks.
    pub locks: Vec<CustomLock>,
    /// Which acquires of the trace are those of locks, from an earlier pass.
    pub recognised: RecognisedLocks,
}

/// Looks for races in a trace, event by event.
pub struct RaceDetector<C> {
    tracker: Tracker<Knowledge>,
    knowledge: Knowledge,
    synchronization: Synchronization,
    functions: SyncFunctions,
    allocators: AllocationFunctions,
    publication: Publication,
    recognised: RecognisedLocks,
    sites: Sites<C>,
    addresses: AddressCache,
    survey: Survey,
    counts: RaceCounts,
}

impl<C: TargetCode> RaceDetector<C> {
    pub fn new(options: RaceOptions, code: C) -> Self {
        RaceDetector {
            tracker: Tracker::new(options.profile),
            knowledge: Knowledge {
                threads: Threads::default(),
                clocks: Clocks::new(),
                locks: Locks::new(),
                lines: Lines::default(),
                accesses: Accesses::new(),
                observations: Observations::default(),
                lock_words: FxHashMap::default(),
                persisting: RaceSite(0),
                removes_initialisation: options.removes_initialisation,
            },
            synchronization: Synchronization::default(),
            functions: SyncFunctions::new(options.locks),
            allocators: AllocationFunctions::default(),
            publication: Publication::default(),
            recognised: options.recognised,
            sites: Sites::new(code),
            addresses: AddressCache::default(),
            survey: Survey::default(),
            counts: RaceCounts::default(),
        }
    }

    /// Takes the next event. `definitions` are those after it.
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.survey.observe(event, definitions);
        let fences = self.tracker.profile().needs_fences();
        match event.kind {
            EventKind::Load { addr, bytes } => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.counts.loads += 1;
                self.load(by, site, (event.process, addr), bytes, definitions);
            }
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                ..
            } => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                if locked {
                    // A locked instruction is a fence, a load and a store.
                    if fences {
                        self.fence(by, site);
                    }
                    let len = bytes.len() as u64;
                    self.read(by, site, (event.process, addr), len, None, definitions);
                }
                let kind = match flavor {
                    StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
                    _ => StoreKind::Cached,
                };
                let at = (event.process, addr);
                self.store(by, site, at, bytes, kind, definitions);
            }
            EventKind::KernelWrite { addr, bytes, .. } => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                let at = (event.process, addr);
                self.store(by, site, at, bytes, StoreKind::Cached, definitions);
            }
            EventKind::Flush {
                addr,
                kind,
                volatile: false,
            } if fences => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.flush(by, site, (event.process, addr), kind, definitions);
            }
            EventKind::Fence { .. } if fences => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.fence(by, site);
            }
            EventKind::Flush { .. } | EventKind::Fence { .. } => {}
            _ => self.observe_rare(event, definitions),
        }
    }

    fn observe_rare(&mut self, event: &Event<'_>, definitions: &Definitions) {
        match event.kind {
            EventKind::Call { .. }
            | EventKind::Return { .. }
            | EventKind::LockAcquire { .. }
            | EventKind::LockRelease { .. } => self.synchronize(event, definitions),
            EventKind::Sync(sync) => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.sync((by, site), event.process, sync, definitions);
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let end = offset.saturating_add(bytes.len() as u64);
                self.tracker.discard(SpaceId(file.0), offset..end, |_| {});
            }
            EventKind::FileResize { file, len } => {
                self.tracker.discard(SpaceId(file.0), len..u64::MAX, |_| {});
            }
            EventKind::Map(_) | EventKind::Unmap { .. } | EventKind::Remap { .. } => {
                self.addresses.forget();
            }
            EventKind::Module { .. } => self.sites.module_mapped(event, definitions),
            EventKind::ThreadStart { parent } => {
                let process = definitions.process(event.process);
                let forked_from = process.and_then(|process| process.parent);
                let (threads, key) = (&mut self.knowledge.threads, (event.process, event.thread));
                let parent = parent.map(|parent| {
                    let own = threads.last_with((event.process, parent.thread)).is_some();
                    let of = forked_from.filter(|_| !own).unwrap_or(event.process);
                    (of, parent)
                });
                let (clocks, tracker) = (&mut self.knowledge.clocks, &mut self.tracker);
                let at = (key, Time(event.index.0));
                threads.start(at, parent, clocks, || tracker.add_thread());
            }
            EventKind::ThreadExit => {
                let by = self.access(event);
                self.end_thread(by);
            }
            EventKind::ThreadJoin { joined } => {
                let by = self.access(event);
                let Knowledge {
                    threads, clocks, ..
                } = &mut self.knowledge;
                if let Some(ended) = threads.last_with((event.process, joined)) {
                    let sent = threads.send(ended, by.time, clocks);
                    threads.receive(by.thread, by.time, sent, clocks);
                }
            }
            EventKind::ProcessExit { .. } => {
                let time = Time(event.index.0);
                for thread in self.knowledge.threads.running(event.process) {
                    self.end_thread(Access { thread, time });
                }
                self.addresses.forget();
            }
            EventKind::ProcessStart { .. } => self.addresses.forget(),
            _ => {}
        }
    }

    /// Ends the pass. Where patterns are given, they alone decide which files are persistent memory.
    pub fn finish(
        mut self,
        definitions: &Definitions,
        patterns: Option<&Patterns>,
    ) -> RaceOutcome<C> {
        let selection = self.survey.select(definitions, patterns);
        let threads = self.tracker.threads();
        for thread in threads.collect::<Vec<_>>() {
            self.knowledge.settle_loads(thread);
        }
        for candidate in selection.candidates() {
            self.lose_stores(candidate.file, &selection);
        }
        Pairing::new(self.knowledge, &selection, self.counts)
            .outcome(selection, self.sites.into_code())
    }

    fn lose_stores(&mut self, file: FileId, selection: &Selection) {
        if !selection.is_persistent(file) {
            return;
        }
        let live: Vec<_> = self
            .tracker
            .live_in(SpaceId(file.0), 0..u64::MAX)
            .map(|(address, _, store)| (address, *store))
            .collect();
        for (address, store) in live {
            self.knowledge.lost(address, &store);
        }
    }

    fn access(&mut self, event: &Event<'_>) -> Access {
        let tracker = &mut self.tracker;
        let key = (event.process, event.thread);
        let thread = self.knowledge.threads.slot(key, || tracker.add_thread());
        Access {
            thread,
            time: Time(event.index.0),
        }
    }

    fn load(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        bytes: &[u8],
        definitions: &Definitions,
    ) {
        let value = bytes.first_chunk::<8>().copied().map(u64::from_le_bytes);
        let value = value.filter(|_| bytes.len() == 8);
        let len = bytes.len() as u64;
        self.read(by, site, (process, addr), len, value, definitions);
    }

    /// A thread reads bytes; `value` is what it has read, if that can be a pointer.
    fn read(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        len: u64,
        value: Option<u64>,
        definitions: &Definitions,
    ) {
        let is_data = self.is_data(by, site);
        let Some(range) = self.addresses.resolve(process, addr, len, definitions) else {
            return;
        };
        self.knowledge.threads[by.thread].has_accessed = true;
        let tainted = !self.knowledge.threads[by.thread].taints.is_empty();
        let target = match value {
            Some(value) if tainted => self.target(process, range.file, value, definitions),
            _ => None,
        };
        if let Some(target) = target {
            let thread = &mut self.knowledge.threads[by.thread];
            thread.taints.loaded_pointer(range, target);
        }
        for (offset, bytes, _) in line_parts(range.offset, range.len) {
            let address = pm_address(range.file, offset);
            let line = self.knowledge.lines.number(address);
            let seen = self.knowledge.lines.load(line, by.thread, bytes);
            self.publication.seen(line, seen, &mut self.knowledge.lines);
            if !is_data {
                continue;
            }
            self.observe_unpersisted(by, site, (address, bytes), (process, value), definitions);
            let kept = match self.knowledge.removes_initialisation {
                true => bytes.without(self.knowledge.lines.initialised_by(line, by.thread)),
                false => bytes,
            };
            if !kept.is_empty() {
                let thread = &mut self.knowledge.threads[by.thread];
                thread.pending.push(PendingLoad {
                    line,
                    bytes: kept,
                    site,
                    clock: thread.clock,
                    locks: thread.held.now(),
                    time: by.time,
                    flushed: false,
                });
            }
        }
        if self.knowledge.threads[by.thread].pending.len() > PENDING_LOADS {
            self.knowledge.settle_loads(by.thread);
        }
    }

    /// Notes which stores of other threads a load reads that a crash could lose now.
    fn observe_unpersisted(
        &mut self,
        by: Access,
        site: RaceSite,
        (address, bytes): (PmAddress, brownout_model::ByteMask),
        (process, value): (ProcessId, Option<u64>),
        definitions: &Definitions,
    ) {
        let Some(slot) = self.tracker.known_line(address) else {
            return;
        };
        if self.tracker.live_bytes(slot).and(bytes).is_empty() {
            return;
        }
        let live = self.tracker.live(slot);
        let read: Vec<_> = live
            .filter(|store| store.thread != by.thread && store.tag.is_data)
            .filter(|store| !store.bytes.and(bytes).is_empty())
            .map(|store| (store.time, store.tag.site, store.bytes.and(bytes)))
            .collect();
        if read.is_empty() {
            return;
        }
        let file = FileId(address.space.0);
        let target = value.and_then(|value| self.target(process, file, value, definitions));
        let line = self.knowledge.lines.number(address);
        for (source, store_site, bytes) in read {
            self.knowledge.observations.read(source);
            let thread = &mut self.knowledge.threads[by.thread];
            let load = ObservedLoad {
                pair: (store_site, site),
                line,
                bytes,
                source,
                time: by.time,
                value,
                target,
                flushed: false,
            };
            thread.taints.add(&load);
            thread.observed.push(load);
        }
    }

    /// What a loaded value points to: it is an address in a mapping, or an offset in the file that it was loaded from.
    fn target(
        &mut self,
        process: ProcessId,
        file: FileId,
        value: u64,
        definitions: &Definitions,
    ) -> Option<FileRange> {
        // Small numbers, and the header of a pool, are no objects.
        if value < brownout_model::PAGE || !value.is_multiple_of(8) {
            return None;
        }
        let space = definitions.process(process)?.address_space();
        if let Some(range) = space.resolve(Address(value), UNKNOWN_OBJECT) {
            return Some(range);
        }
        let is_offset = space.mappings().any(|mapping| {
            mapping.file == file
                && (mapping.offset..mapping.offset.saturating_add(mapping.len)).contains(&value)
        });
        is_offset.then_some(FileRange {
            file,
            offset: value,
            len: UNKNOWN_OBJECT,
        })
    }

    /// Whether what an instruction accesses is data of the user.
    fn is_data(&self, by: Access, site: RaceSite) -> bool {
        self.sites.owner(site) == AccessOwner::User
            && !self.knowledge.threads[by.thread].is_in_lock_function()
    }

    fn store(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        bytes: &[u8],
        kind: StoreKind,
        definitions: &Definitions,
    ) {
        let is_data = self.is_data(by, site);
        let is_lock = !is_data && self.sites.owner(site) != AccessOwner::Library;
        // What a thread has read can be the reason for what it stores; the word of a lock is no effect.
        if !is_lock {
            self.knowledge.settle_loads(by.thread);
        }
        let (mut addr, mut bytes) = (addr, bytes);
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = self.addresses.resolve(process, addr, len, definitions) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let Knowledge {
                threads,
                observations,
                lines,
                ..
            } = &mut self.knowledge;
            threads[by.thread].has_accessed = true;
            threads[by.thread].allocations.stored(addr, now);
            let thread = &threads[by.thread];
            let dependent = match is_lock || thread.taints.is_empty() {
                true => DependentId::default(),
                false => observations.stored(&thread.taints, range, now),
            };
            let tag = StoreTag {
                site,
                clock: thread.clock,
                locks: thread.held.now(),
                lock_clock: thread.held.clock(),
                dependent,
                is_data,
            };
            for (offset, part, _) in line_parts(range.offset, range.len) {
                let address = pm_address(range.file, offset);
                let line = lines.number(address);
                let seen = lines.store(line, by.thread, part);
                self.publication.seen(line, seen, lines);
            }
            self.publication.stored(range, now, lines, |value| {
                let space = definitions.process(process)?.address_space();
                let target = space.resolve(Address(value), 1)?;
                Some(pm_address(target.file, target.offset))
            });
            for (offset, part, _) in line_parts(range.offset, range.len) {
                let line = self.tracker.line(pm_address(range.file, offset));
                self.tracker
                    .store(&mut self.knowledge, by, line, part, kind, tag);
            }
            if is_data {
                self.counts.stores += 1;
            }
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    fn flush(
        &mut self,
        by: Access,
        site: RaceSite,
        (process, addr): (ProcessId, Address),
        kind: FlushKind,
        definitions: &Definitions,
    ) {
        let Some(range) = self.addresses.resolve(process, addr, 1, definitions) else {
            return;
        };
        let address = pm_address(range.file, range.offset - range.offset % LINE);
        let Knowledge { threads, lines, .. } = &mut self.knowledge;
        let thread = &mut threads[by.thread];
        if let Some(line) = lines.find(address) {
            for load in thread.pending.iter_mut().filter(|load| load.line == line) {
                load.flushed = true;
            }
            for load in thread.observed.iter_mut().filter(|load| load.line == line) {
                load.flushed = true;
            }
        }
        let effect = match kind {
            FlushKind::Clflush => FlushEffect::Immediate,
            _ => FlushEffect::Deferred,
        };
        self.knowledge.persisting = site;
        if let Some(line) = self.tracker.find_line(address) {
            self.tracker
                .flush(&mut self.knowledge, by, line, effect, ());
        }
        if effect == FlushEffect::Immediate {
            self.forgive(by);
        }
    }

    fn fence(&mut self, by: Access, site: RaceSite) {
        self.knowledge.persisting = site;
        self.tracker.fence(&mut self.knowledge, by);
        self.forgive(by);
    }

    /// What a thread has read and flushed is durable now, before the thread has stored anything: that is no race.
    fn forgive(&mut self, by: Access) {
        let thread = &mut self.knowledge.threads[by.thread];
        thread.pending.retain(|load| !load.flushed);
        for load in thread.observed.extract_if(.., |load| load.flushed) {
            thread.taints.remove(load.time);
        }
    }

    fn sync(
        &mut self,
        (by, site): (Access, RaceSite),
        process: ProcessId,
        sync: Sync,
        definitions: &Definitions,
    ) {
        let ranges = match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous: false,
            } => AddressCache::resolve_all(process, addr, len, definitions),
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
                vec![FileRange {
                    file,
                    offset: 0,
                    len: u64::MAX,
                }]
            }
            // The others do not wait for all that is needed.
            _ => return,
        };
        self.knowledge.persisting = site;
        for range in ranges {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            let space = SpaceId(range.file.0);
            self.tracker
                .write_back(&mut self.knowledge, by, space, bytes);
        }
    }

    fn end_thread(&mut self, by: Access) {
        self.knowledge.settle_loads(by.thread);
        self.knowledge.threads.end(by.thread);
    }
}

impl<C: TargetCode> Visitor for RaceDetector<C> {
    type Break = Infallible;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Infallible> {
        self.observe(event, definitions);
        ControlFlow::Continue(())
    }
}

fn pm_address(file: FileId, offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(file.0),
        offset,
    }
}
