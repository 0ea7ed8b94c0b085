//! The fastest way to read a trace: a visitor that is called for each event.
//!
//! Most events are stores, flushes and fences, which come in runs of one thread, from sites that were seen before. A
//! [`Visitor`] can take these in parts, without an [`Event`] being built, and look its sites up by short numbers. It
//! need not: an event that it does not take in parts is given to it as a whole.

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
    /// Identifies the numbering of sites that holds in this run: two runs with the same value share it.
    pub stretch: EventIndex,
    pub(crate) sites: &'a [crate::chunk::ChunkSite],
}

impl ThreadRun<'_> {
    /// The instruction and calling context of each site, by number.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = (AppPc, ContextId)> {
        self.sites.iter().map(|site| (site.pc, site.context))
    }
}

/// The position of an event in the order and in the code.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The position in the order of all events.
    pub index: EventIndex,
    /// The number of its site in the current [`ThreadRun`].
    pub site: u16,
}

/// Is given all events, in order, by [`TraceReader::visit`](crate::TraceReader::visit).
pub trait Visitor {
    /// The value with which it can end the visit.
    type Break;

    /// An event, with the definitions that hold after it.
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Self::Break>;

    /// The stores, flushes and fences that follow, until the next call of this, belong to `run`.
    #[inline]
    fn run(&mut self, run: &ThreadRun<'_>) {
        let _ = run;
    }

    /// A store by an instruction that is not locked. Returns whether the visitor takes it like this; if not, it is given
    /// as an event.
    #[inline]
    fn store(&mut self, at: At, addr: Address, bytes: &[u8], flavor: StoreFlavor) -> bool {
        let _ = (at, addr, bytes, flavor);
        false
    }

    /// A flush of an address in a candidate mapping. Returns whether the visitor takes it like this.
    #[inline]
    fn flush(&mut self, at: At, addr: Address, kind: FlushKind) -> bool {
        let _ = (at, addr, kind);
        false
    }

    /// A fence. Returns whether the visitor takes it like this.
    #[inline]
    fn fence(&mut self, at: At, kind: FenceKind) -> bool {
        let _ = (at, kind);
        false
    }
}

/// A function that is given whole events.
pub(crate) struct WholeEvent<F>(pub(crate) F);

impl<B, F: FnMut(&Event<'_>, &Definitions) -> ControlFlow<B>> Visitor for WholeEvent<F> {
    type Break = B;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<B> {
        (self.0)(event, definitions)
    }
}
