//! A pass over a trace: follows threads, locks and stores, and finds the races at the end.
//!
//! The stages of HawkSet (§3.2, Fig. 4) run side by side on one stream of events: the model simulates the worst-case cache,
//! `synchronization` tracks locks and threads, `lines` removes initialisation, `lifetimes` determines effective locksets, and
//! [`pairs`](crate::pairs) is Algorithm 1.

mod calls;
mod effects;

use std::convert::Infallible;
use std::ops::ControlFlow;

use brownout_model::{Access, PmAddress, Profile, SpaceId, StoreKind, Time, Tracker};
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{
    Definitions, Event, EventKind, FileId, RecognisedLocks, StoreFlavor, Visitor,
};

use crate::accesses::Accesses;
use crate::address_cache::AddressCache;
use crate::allocations::{AllocationFunctions, CustomAllocator};
use crate::clocks::Clocks;
use crate::forced::ForcedReads;
use crate::lifetimes::Knowledge;
use crate::lines::Lines;
use crate::lock_words::LockWords;
use crate::locks::Locks;
use crate::observations::Observations;
use crate::outcome::{RaceCounts, RaceOutcome};
use crate::pairs::Pairing;
use crate::publication::Publication;
use crate::sites::{RaceSite, Sites, TargetCode};
use crate::sync_functions::{CustomLock, SyncFunctions};
use crate::synchronization::Synchronization;
use crate::threads::Threads;

/// How races are looked for.
#[derive(Clone, Debug)]
pub struct RaceOptions {
    pub profile: Profile,
    /// Leave out accesses to memory that only one thread can know of (HawkSet §3.1.3).
    pub removes_initialisation: bool,
    /// Functions of the target that work on locks.
    pub locks: Vec<CustomLock>,
    /// Functions of the target that allocate persistent memory.
    pub allocators: Vec<CustomAllocator>,
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
                forced: ForcedReads::default(),
                lock_words: LockWords::default(),
                persisting: RaceSite(0),
                removes_initialisation: options.removes_initialisation,
            },
            synchronization: Synchronization::default(),
            functions: SyncFunctions::new(options.locks),
            allocators: AllocationFunctions::new(options.allocators),
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
        if self.knowledge.forced.has_held_threads() {
            self.look_for_blocked(event, definitions);
        }
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
                // A locked instruction is a fence, a load and a store.
                if locked && fences {
                    self.fence(by, site);
                }
                if locked || flavor == StoreFlavor::Modifying {
                    self.counts.loads += 1;
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
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.replace((by, site), file, offset..end);
            }
            EventKind::FileResize { file, len } => {
                let by = self.access(event);
                let site = self.sites.of(event, definitions);
                self.replace((by, site), file, len..u64::MAX);
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
                    threads.join(by.thread, ended, by.time, clocks);
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
