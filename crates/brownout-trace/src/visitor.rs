//! The fastest way to read a trace: a visitor that is called for each event.
//!
//! Most events are stores, flushes and fences, in runs of one thread, from sites that occurred before. A [`Visitor`] can
//! handle the parts of these events, so that no [`Event`] is built, and look up sites by short numbers. This is optional: an
//! event whose parts it does not handle is passed to it as an [`Event`].

use std::ops::ControlFlow;

use crate::definitions::Definitions;
use crate::event::{Event, FenceKind, FlushKind, StoreFlavor};
use crate::ids::{Address, AppPc, ContextId, EventIndex, ProcessId, ThreadId};

/// Consecutive events of one thread.
#[derive(Clone, Copy)]
pub struct ThreadRun<'a> {
    /// The process of the thread.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// The first event of the run.
    pub next: EventIndex,
    /// Identifies the numbering of sites in this run. Runs with the same value have the same numbering.
    pub stretch: EventIndex,
    pub(crate) sites: &'a [crate::chunk::ChunkSite],
}

impl ThreadRun<'_> {
    /// The instruction and calling context of each site, by number.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = (AppPc, ContextId)> {
        self.sites.iter().map(|site| (site.pc, site.context))
    }
}

/// The position of an event in the order of events and in the code.
#[derive(Clone, Copy, Debug)]
pub struct EventPosition {
    /// The position in the order of all events.
    pub index: EventIndex,
    /// The number of its site in the current [`ThreadRun`].
    pub site: u16,
}

/// Receives all events, in order, from [`TraceReader::visit`](crate::TraceReader::visit).
pub trait Visitor {
    /// The value with which the visitor can end the visit.
    type Break;

    /// Receives an event, and the definitions after it.
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Self::Break>;

    /// The following stores, flushes and fences, until the next call of this method, belong to `run`. So do the calls of watched
    /// functions between them, which are passed as events.
    #[inline]
    fn run(&mut self, run: &ThreadRun<'_>) {
        let _ = run;
    }

    /// Receives a store by an instruction that is not locked. Returns whether the visitor has handled it; if not, it is
    /// passed as an event.
    #[inline]
    fn store(
        &mut self,
        at: EventPosition,
        addr: Address,
        bytes: &[u8],
        flavor: StoreFlavor,
    ) -> bool {
        let _ = (at, addr, bytes, flavor);
        false
    }

    /// Receives a flush of an address in a candidate mapping. Returns whether the visitor has handled it.
    #[inline]
    fn flush(&mut self, at: EventPosition, addr: Address, kind: FlushKind) -> bool {
        let _ = (at, addr, kind);
        false
    }

    /// Receives a fence. Returns whether the visitor has handled it.
    #[inline]
    fn fence(&mut self, at: EventPosition, kind: FenceKind) -> bool {
        let _ = (at, kind);
        false
    }
}

/// A visitor that passes complete events to a function.
pub(crate) struct EveryEvent<F>(pub(crate) F);

impl<B, F: FnMut(&Event<'_>, &Definitions) -> ControlFlow<B>> Visitor for EveryEvent<F> {
    type Break = B;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<B> {
        (self.0)(event, definitions)
    }
}
