//! The fast path for what most events are: stores, flushes and fences of a thread, at sites that have a key, to a mapping
//! and a line that are known. It has the same effect as
//! [`observe`](Follower::observe). Events that do not qualify are left to that.

use brownout_model::{Access, LINE, ThreadSlot, Time};
use brownout_trace::{
    Address, EventIndex, EventPosition, FenceKind, FlushKind, ProcessId, StoreFlavor, ThreadRun,
};

use crate::attribution::Attribution;
use crate::follower::effects::{StoreAttributes, StorePart, first_bytes};
use crate::follower::{Follower, flush_effect, pm_address};
use crate::site_keys::{ActingSite, SiteInContext, SiteKey};

/// What is known of the run of events that is being read.
#[derive(Default)]
pub(crate) struct FastPath {
    /// The thread, if its events qualify.
    thread: Option<ThreadSlot>,
    /// The sites in the current stretch of events, as far as they have keys.
    sites: Vec<ActingSite>,
    /// The stretch of events that `sites` belongs to.
    stretch: Option<(EventIndex, ProcessId)>,
    /// The index of a site whose key `observe` finds.
    unknown: Option<u16>,
}

impl FastPath {
    /// Keys of sites are no longer valid.
    pub(crate) fn forget(&mut self) {
        *self = FastPath::default();
    }

    /// The event that did not qualify has this site.
    #[inline]
    pub(crate) fn learn(&mut self, site: ActingSite) {
        if let Some(index) = self.unknown.take() {
            self.sites[usize::from(index)] = site;
        }
    }

    /// The thread and site of an event, if it qualifies.
    #[inline(always)]
    fn actor(&mut self, at: EventPosition) -> Option<(Access, ActingSite)> {
        let thread = self.thread?;
        let site = *self.sites.get(usize::from(at.site))?;
        if site.key == SiteKey::NONE {
            self.unknown = Some(at.site);
            return None;
        }
        let time = Time(at.index.0);
        Some((Access { thread, time }, site))
    }
}

impl<A: Attribution> Follower<A> {
    /// A run of events of one thread begins. They do not qualify if something else needs `every_event`, or if
    /// the profile ignores flushes and fences.
    pub(crate) fn begin_run(&mut self, run: &ThreadRun<'_>, every_event: bool) {
        self.fast_path.thread = None;
        self.fast_path.unknown = None;
        let Some(thread) = self.known_thread((run.process, run.thread)) else {
            return;
        };
        if every_event || !self.oracles.are_none() || !self.tracker.profile().needs_fences() {
            return;
        }
        let stretch = Some((run.stretch, run.process));
        if self.fast_path.stretch != stretch {
            let sites = run.sites().map(|(pc, context)| SiteInContext {
                process: run.process,
                pc,
                context,
            });
            let known = &self.guarantees.sites;
            let sites = sites.map(|site| known.acting(self.site_keys.find(known, site)));
            self.fast_path.sites.clear();
            self.fast_path.sites.extend(sites);
            self.fast_path.stretch = stretch;
        }
        self.addresses.switch_to(run.process);
        self.fast_path.thread = Some(thread);
    }

    /// Whether the store qualified and took effect.
    #[inline(always)]
    pub(crate) fn store_fast(
        &mut self,
        at: EventPosition,
        addr: Address,
        bytes: &[u8],
        flavor: StoreFlavor,
    ) -> bool {
        let len = bytes.len() as u64;
        let Some(range) = self.addresses.resolve_again(addr, len) else {
            return false;
        };
        let start = range.offset % LINE;
        if range.len != len || !(1..=LINE - start).contains(&len) {
            return false;
        }
        let Some((by, site)) = self.fast_path.actor(at) else {
            return false;
        };
        let Some(line) = self.tracker.find_line(pm_address(range.file, range.offset)) else {
            return false;
        };
        self.store_counts.count(range.file);
        let thread = &mut self.guarantees.threads[by.thread.index()];
        thread.file = Some(range.file);
        let since_fence = thread.since_fence(by.time.0);
        let attributes = StoreAttributes::of_instruction(flavor, false);
        let exempt = thread.transaction.is_in_user_code() && {
            let process = self.addresses.current();
            self.store_in_transaction((by, site), process, range, bytes, attributes)
        };
        let part = StorePart {
            line,
            start: start as u8,
            len: len as u8,
            value: first_bytes(bytes),
            kind: attributes.kind,
            exempt,
            since_fence,
            marks: self.pair_marks(by, bytes),
        };
        self.store_part(by, site, part);
        true
    }

    /// Whether the flush qualified and took effect.
    #[inline(always)]
    pub(crate) fn flush_fast(&mut self, at: EventPosition, addr: Address, kind: FlushKind) -> bool {
        let Some(range) = self.addresses.resolve_again(addr, 1) else {
            return false;
        };
        let Some((by, site)) = self.fast_path.actor(at) else {
            return false;
        };
        let address = pm_address(range.file, range.offset - range.offset % LINE);
        let Some(line) = self.tracker.find_line(address) else {
            return false;
        };
        self.flush_line(by, site, (line, address), flush_effect(kind));
        true
    }

    /// Whether the fence qualified and took effect.
    #[inline(always)]
    pub(crate) fn fence_fast(&mut self, at: EventPosition, kind: FenceKind) -> bool {
        let Some((by, site)) = self.fast_path.actor(at) else {
            return false;
        };
        self.fence(by, site, kind);
        true
    }
}
