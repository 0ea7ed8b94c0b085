//! The follower: follows a trace with the model and shows the [rules](crate::rules) what happens.
//!
//! `msync` and `fsync` make stores durable under every profile: a program that relies on them alone is judged by
//! them, also under `adr`, where they are flush and fence of their pages in one call. Under `msync`, flush
//! and fence instructions do nothing for durability and are ignored.
//!
//! - `accidental_fences`, `accidental_orders`: what locked instructions on other memory order, and what relies on that.
//! - `effects`: what stores, flushes and fences do; `fast_path` does the same for the events that are most frequent.
//! - `exits`: what is judged when a thread or the process ends, or a file is unmapped.
//! - `failed_syncs`: calls that should have made data durable and failed.
//! - `files`: what system calls on files, unmapping and the ends of processes do.
//! - `guarantees`: what the model reports back: stores that become guaranteed or are overwritten.
//! - `pointers`, `targets`: guaranteed pointers, and whether what they point to is guaranteed, too.
//! - `transaction_calls`: what calls of watched functions, and stores in transactions, do.
//! - `thread`, `line_marks`, `store_marks`, `overwrites`, `unfenced_flushes`, `address_spaces`: what is remembered of threads, lines,
//!   stores, flushes and mappings.

mod accidental_fences;
pub(crate) mod accidental_orders;
pub(crate) mod address_spaces;
mod effects;
mod exits;
pub(crate) mod failed_syncs;
mod fast_path;
mod files;
pub(crate) mod guarantees;
pub(crate) mod line_marks;
pub(crate) mod offsets;
pub(crate) mod overwrites;
mod pointers;
pub(crate) mod store_marks;
mod targets;
pub(crate) mod thread;
mod transaction_calls;
pub(crate) mod unfenced_flushes;

use brownout_model::{
    Access, FlushEffect, PmAddress, Profile, SpaceId, ThreadSlot, Time, Tracker, Wait,
};
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, FlushKind, ProcessEnd, ProcessId,
    ProcessOrigin, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::Attribution;
use crate::follower::address_spaces::AddressSpaces;
use crate::follower::effects::StoreAttributes;
use crate::follower::failed_syncs::FailedSyncs;
use crate::follower::fast_path::FastPath;
use crate::follower::files::{StoreCounts, WrittenBack};
use crate::follower::guarantees::Guarantees;
use crate::follower::thread::ThreadState;
use crate::oracle::{Consultation, Oracles};
use crate::site_keys::{SiteKey, SiteKeys};
use crate::transactions::{Functions, Objects, Reservations};

/// Follows a trace, event by event.
pub(crate) struct Follower<A> {
    pub(crate) tracker: Tracker<Guarantees>,
    /// The rules, and what is remembered for them.
    pub(crate) guarantees: Guarantees,
    pub(crate) written_back: WrittenBack,
    /// What `msync` with `MS_ASYNC` was called for, which guarantees nothing.
    pub(crate) not_waited_for: WrittenBack,
    pub(crate) failed_syncs: FailedSyncs,
    /// An instruction has flushed a line of a file, or stored to it past the cache; large copies of the C library do that, too, and do
    /// not count.
    pub(crate) persists_by_instruction: bool,
    pub(crate) store_counts: StoreCounts,
    /// Files that the kernel has written to.
    pub(crate) written_files: FxHashSet<FileId>,
    /// Processes that ended by themselves.
    pub(crate) completed: FxHashSet<ProcessId>,
    pub(crate) site_keys: SiteKeys<A>,
    pub(crate) oracles: Oracles,
    addresses: AddressSpaces,
    functions: Functions,
    reservations: Reservations,
    objects: Objects,
    fast_path: FastPath,
    threads: FxHashMap<(ProcessId, ThreadId), ThreadSlot>,
    current: Option<((ProcessId, ThreadId), ThreadSlot)>,
}

impl<A: Attribution> Follower<A> {
    pub(crate) fn new(profile: Profile, attribution: A) -> Self {
        Follower {
            tracker: Tracker::new(profile),
            guarantees: Guarantees::new(),
            written_back: WrittenBack::default(),
            not_waited_for: WrittenBack::default(),
            failed_syncs: FailedSyncs::default(),
            persists_by_instruction: false,
            store_counts: StoreCounts::default(),
            written_files: FxHashSet::default(),
            completed: FxHashSet::default(),
            site_keys: SiteKeys::new(attribution),
            oracles: Oracles::default(),
            addresses: AddressSpaces::default(),
            functions: Functions::default(),
            reservations: Reservations::default(),
            objects: Objects::default(),
            fast_path: FastPath::default(),
            threads: FxHashMap::default(),
            current: None,
        }
    }

    /// Takes the next event. `definitions` are those after it.
    #[inline]
    pub(crate) fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let fences = self.tracker.profile().needs_fences();
        match event.kind {
            EventKind::Store { .. } | EventKind::KernelWrite { .. } => {}
            EventKind::Flush { .. } | EventKind::Fence { .. } if fences => {}
            EventKind::Load { .. } | EventKind::Flush { .. } | EventKind::Fence { .. } => return,
            _ => return self.observe_rare(event, definitions),
        }
        let site = self.site(event, definitions);
        if !self.oracles.are_none() {
            self.consult(event, definitions, site);
        }
        let site = self.guarantees.sites.acting(site);
        self.fast_path.learn(site);
        let by = self.access(event);
        match event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                ..
            } => {
                if locked && fences {
                    // A locked instruction is a fence first.
                    self.real_fence(by, site.key);
                }
                let attributes = StoreAttributes::of_instruction(flavor, locked);
                self.store(by, site, (event.process, addr), bytes, attributes);
            }
            EventKind::Flush {
                addr,
                kind,
                volatile,
            } => {
                let kind = flush_effect(kind);
                let range = self.addresses.resolve(event.process, addr, 1);
                match range.filter(|_| !volatile) {
                    Some(range) => self.flush(by, site, range, kind),
                    None => self.flush_volatile(by, site.key, kind),
                }
            }
            EventKind::Fence { kind } => self.fence(by, site, kind),
            EventKind::KernelWrite { addr, bytes, .. } => {
                let by_kernel = StoreAttributes::BY_KERNEL;
                self.store(by, site, (event.process, addr), bytes, by_kernel);
            }
            _ => {}
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
                let site = self.site(event, definitions);
                let by = self.access(event);
                self.sync(process, by, site, sync);
            }
            EventKind::Map(mapping) => {
                if self.tracker.profile().cached != Wait::Nothing {
                    self.guarantees
                        .pointers
                        .mapped(mapping.addr, mapping.len, mapping.offset);
                }
                let gone = self.addresses.map(process, mapping);
                self.abandon(process, gone);
            }
            EventKind::Unmap { addr, len } => {
                let gone = self.addresses.unmap(process, addr, len);
                self.abandon(process, gone);
            }
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                let old = old.0..old.0.saturating_add(old_len);
                let new = new.0..new.0.saturating_add(new_len);
                if self.guarantees.pointers.are_followed() {
                    self.guarantees
                        .pointers
                        .mapped(Address(new.start), new_len, 0);
                }
                let gone = self.addresses.remap(process, old, new);
                self.abandon(process, gone);
            }
            EventKind::Module { .. } => {
                self.site_keys.module_mapped(event, definitions);
                self.fast_path.forget();
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
            EventKind::Note { text } => self.noted(event, definitions, text),
            EventKind::ThreadExit => {
                if let Some(thread) = self.threads.remove(&(process, event.thread)) {
                    self.judge_unfenced(thread, None);
                    self.thread_ended(thread, true);
                }
                self.current = None;
            }
            EventKind::ProcessExit { end } => {
                self.process_ended(process, matches!(end, ProcessEnd::Exited { .. }));
            }
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn site(&mut self, event: &Event<'_>, definitions: &Definitions) -> SiteKey {
        self.site_keys
            .of(&mut self.guarantees.sites, event, definitions)
    }

    /// The thread that does something, and when.
    #[inline]
    fn access(&mut self, event: &Event<'_>) -> Access {
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

    /// The slot of a thread, if it has one already.
    fn known_thread(&self, key: (ProcessId, ThreadId)) -> Option<ThreadSlot> {
        match self.current {
            Some((current, slot)) if current == key => Some(slot),
            _ => self.threads.get(&key).copied(),
        }
    }

    #[inline(never)]
    fn switch_to(&mut self, key: (ProcessId, ThreadId)) -> ThreadSlot {
        let (tracker, guarantees) = (&mut self.tracker, &mut self.guarantees);
        let slot = *self.threads.entry(key).or_insert_with(|| {
            guarantees.threads.push(ThreadState::new(key.0));
            tracker.add_thread()
        });
        self.current = Some((key, slot));
        slot
    }

    /// Shows the oracles an event before it takes effect.
    #[cold]
    fn consult(&mut self, event: &Event<'_>, definitions: &Definitions, site: SiteKey) {
        let (oracles, keys) = (&mut self.oracles, &mut self.site_keys);
        oracles.learn_stack(site, || keys.stack(site));
        let consultation = Consultation {
            tracker: &self.tracker,
            addresses: &mut self.addresses,
            event,
            definitions,
            site,
        };
        self.oracles.consult(consultation);
    }
}

#[inline]
pub(crate) fn pm_address(file: FileId, offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(file.0),
        offset,
    }
}

#[inline]
fn flush_effect(kind: FlushKind) -> FlushEffect {
    match kind {
        FlushKind::Clflush => FlushEffect::Immediate,
        _ => FlushEffect::Deferred,
    }
}
