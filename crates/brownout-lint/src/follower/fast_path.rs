//! The short way for what most events are: stores, flushes and fences of a thread outside of transactions, at places
//! that were met before, to a mapping and a line that are known. It does what
//! [`observe`](Lint::observe) would and nothing else; whatever is not so plain is left to that.

use std::convert::Infallible;
use std::ops::ControlFlow;

use brownout_model::{Access, LINE, StoreKind, ThreadSlot, Time};
use brownout_trace::{
    Address, At, Definitions, Event, EventIndex, FenceKind, FlushKind, ProcessId, Run, StoreFlavor,
    Visitor,
};

use crate::attribution::Attribution;
use crate::follower::effects::StorePart;
use crate::follower::{Lint, first_bytes, flush_kind, place};
use crate::site_keys::{Site, SiteId};

/// What is known of the run of events that is being read.
#[derive(Default)]
pub(crate) struct Quick {
    /// The thread, if all that is wanted of its events is their effects.
    thread: Option<ThreadSlot>,
    /// The places of the stretch of events, as far as they were met before.
    places: Vec<SiteId>,
    /// What `places` are of.
    stretch: Option<(EventIndex, ProcessId)>,
    /// The place of an event that was left to the long way, which finds out its number.
    asked: Option<u16>,
}

impl Quick {
    /// What was known of places no longer holds.
    pub(crate) fn forget(&mut self) {
        *self = Quick::default();
    }

    /// The event that was left to the long way is at `site`.
    #[inline]
    pub(crate) fn met(&mut self, site: SiteId) {
        if let Some(number) = self.asked.take() {
            self.places[usize::from(number)] = site;
        }
    }

    /// Who does something, and where.
    #[inline(always)]
    fn actor(&mut self, at: At) -> Option<(Access, SiteId)> {
        let thread = self.thread?;
        let site = *self.places.get(usize::from(at.place))?;
        if site == SiteId::NONE {
            self.asked = Some(at.place);
            return None;
        }
        let time = Time(at.index.0);
        Some((Access { thread, time }, site))
    }
}

impl<A: Attribution> Visitor for Lint<A> {
    type Break = Infallible;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Self::Break> {
        self.observe(event, definitions);
        ControlFlow::Continue(())
    }

    fn run(&mut self, run: &Run<'_>) {
        self.quick.thread = None;
        self.quick.asked = None;
        let Some(thread) = self.known_thread((run.process, run.thread)) else {
            return;
        };
        let state = &self.watch.threads[thread.index()];
        if self.is_attentive() || state.transaction.is_at_work() {
            return;
        }
        let stretch = Some((run.stretch, run.process));
        if self.quick.stretch != stretch {
            let sites = run.places().map(|(pc, context)| Site {
                process: run.process,
                pc,
                context,
            });
            self.quick.places.clear();
            self.quick
                .places
                .extend(sites.map(|site| self.sites.number(site)));
            self.quick.stretch = stretch;
        }
        self.addresses.turn_to(run.process);
        self.quick.thread = Some(thread);
    }

    #[inline(never)]
    fn store(&mut self, at: At, addr: Address, bytes: &[u8], flavor: StoreFlavor) -> bool {
        let len = bytes.len() as u64;
        let Some(range) = self.addresses.resolve_again(addr, len) else {
            return false;
        };
        let start = range.offset % LINE;
        if range.len != len || !(1..=LINE - start).contains(&len) {
            return false;
        }
        let Some((by, site)) = self.quick.actor(at) else {
            return false;
        };
        let Some(line) = self.tracker.find_line(place(range.file, range.offset)) else {
            return false;
        };
        self.watch.threads[by.thread.index()].file = Some(range.file);
        let part = StorePart {
            line,
            start: start as u8,
            len: len as u8,
            value: first_bytes(bytes),
            kind: match flavor {
                StoreFlavor::Temporal => StoreKind::Cached,
                StoreFlavor::NonTemporal | StoreFlavor::Direct => StoreKind::NonTemporal,
            },
            spoken_for: false,
        };
        self.store_part(by, site, part);
        true
    }

    #[inline(never)]
    fn flush(&mut self, at: At, addr: Address, kind: FlushKind) -> bool {
        let Some(range) = self.addresses.resolve_again(addr, 1) else {
            return false;
        };
        let Some((by, site)) = self.quick.actor(at) else {
            return false;
        };
        let place = place(range.file, range.offset - range.offset % LINE);
        let Some(line) = self.tracker.find_line(place) else {
            return false;
        };
        self.watch.threads[by.thread.index()].file = Some(range.file);
        self.flush_line(by, site, (line, place), flush_kind(kind));
        true
    }

    #[inline(never)]
    fn fence(&mut self, at: At, kind: FenceKind) -> bool {
        let Some((by, site)) = self.quick.actor(at) else {
            return false;
        };
        Lint::fence(self, by, site, kind);
        true
    }
}
