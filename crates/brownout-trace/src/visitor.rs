//! Whoever is shown the events of a trace, as fast as they can be decoded.
//!
//! Most events are stores, flushes and fences that come in runs of one thread, from places that were met before. A
//! [`Visitor`] may take these in parts, without an [`Event`] being put together, and know their places by short
//! numbers. It need not: what it does not take in parts comes as an event.

use std::ops::ControlFlow;

use crate::definitions::Definitions;
use crate::event::{Event, FenceKind, FlushKind, StoreFlavor};
use crate::ids::{Address, AppPc, ContextId, EventIndex, ProcessId, ThreadId};

/// Events of one thread that follow each other.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub process: ProcessId,
    pub thread: ThreadId,
    /// The first of them.
    pub next: EventIndex,
    /// Where the numbers of places were given that hold in this run: in each stretch of events anew.
    pub stretch: EventIndex,
    pub(crate) sites: &'a [crate::chunk::Site],
}

impl Run<'_> {
    /// Instruction and context of each place, by number.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (AppPc, ContextId)> {
        self.sites.iter().map(|site| (site.pc, site.context))
    }
}

/// When and where something happens.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub index: EventIndex,
    /// The number of the place.
    pub place: u16,
}

/// Is shown all events, in order.
pub trait Visitor {
    /// What it breaks with.
    type Break;

    /// An event, with what is known when it happens, itself included.
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<Self::Break>;

    /// What is told in parts from now on, until the next call of this, belongs to `run`.
    #[inline]
    fn run(&mut self, run: &Run<'_>) {
        let _ = run;
    }

    /// A store by an instruction that is not locked. Whether it was taken; otherwise it comes as an event.
    #[inline]
    fn store(&mut self, at: At, addr: Address, bytes: &[u8], flavor: StoreFlavor) -> bool {
        let _ = (at, addr, bytes, flavor);
        false
    }

    /// A flush of an address in a candidate mapping. Whether it was taken.
    #[inline]
    fn flush(&mut self, at: At, addr: Address, kind: FlushKind) -> bool {
        let _ = (at, addr, kind);
        false
    }

    /// A fence. Whether it was taken.
    #[inline]
    fn fence(&mut self, at: At, kind: FenceKind) -> bool {
        let _ = (at, kind);
        false
    }
}

/// A function that is shown events.
pub(crate) struct Whole<F>(pub(crate) F);

impl<B, F: FnMut(&Event<'_>, &Definitions) -> ControlFlow<B>> Visitor for Whole<F> {
    type Break = B;

    #[inline]
    fn event(&mut self, event: &Event<'_>, definitions: &Definitions) -> ControlFlow<B> {
        (self.0)(event, definitions)
    }
}
