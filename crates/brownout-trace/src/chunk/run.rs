//! Passes runs of rows to a visitor: consecutive events of one thread, with the changing state in local variables.
//!
//! If a visitor handles the parts of an event, no [`Event`] is built. Otherwise it is built directly at the call of the
//! visitor, separately for each kind. Copying an event through several wrappers would cost more than decoding it, because
//! the processor stalls when fields that were written separately are read as one.

use std::ops::ControlFlow;

use super::address::RecentAddresses;
use super::decode::{ChunkDecoder, ChunkSite};
use super::plain::RemainingColumns;
use super::{op, rare};
use crate::definitions::Definitions;
use crate::error::Flaw;
use crate::event::{Event, EventKind};
use crate::fields::FieldReader;
use crate::ids::{AppPc, ContextId, EventIndex, ProcessId, ThreadId};
use crate::visitor::{EventPosition, ThreadRun, Visitor};

/// Passes rows of one thread to a visitor.
struct RowPasser<'a, V> {
    visitor: &'a mut V,
    definitions: &'a Definitions,
    process: ProcessId,
    thread: ThreadId,
    recent: RecentAddresses,
    rest: RemainingColumns<'a>,
}

/// What became of a row.
enum Passed<B> {
    /// The visitor has its event, and wants the next one.
    Continue,
    /// The visitor has its event, and wants no more.
    Break(B),
    /// It is neither plain nor a [call](op::is_call); nothing has changed.
    Rare,
}

impl<B> From<ControlFlow<B>> for Passed<B> {
    #[inline(always)]
    fn from(flow: ControlFlow<B>) -> Self {
        match flow {
            ControlFlow::Continue(()) => Passed::Continue,
            ControlFlow::Break(value) => Passed::Break(value),
        }
    }
}

impl<V: Visitor> RowPasser<'_, V> {
    /// Passes the next row.
    #[inline(always)]
    fn pass(&mut self, site: &mut ChunkSite, at: EventPosition) -> Result<Passed<V::Break>, Flaw> {
        let op = site.op();
        Ok(if op < op::STORE_END {
            let (flavor, locked, string) = op::store_parts(op);
            let (addr, bytes) = self.rest.access(site, &mut self.recent)?;
            if !locked && self.visitor.store(at, addr, bytes, flavor) {
                return Ok(Passed::Continue);
            }
            let kind = EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                string,
            };
            self.event(site, at, kind)
        } else if let Some((kind, volatile)) = op::flush_parts(op) {
            let addr = self.rest.address(site, &mut self.recent)?;
            if !volatile && self.visitor.flush(at, addr, kind) {
                return Ok(Passed::Continue);
            }
            let kind = EventKind::Flush {
                addr,
                kind,
                volatile,
            };
            self.event(site, at, kind)
        } else if let Some(kind) = op::fence_kind(op) {
            if self.visitor.fence(at, kind) {
                return Ok(Passed::Continue);
            }
            self.event(site, at, EventKind::Fence { kind })
        } else if op < op::RARE {
            let (addr, bytes) = self.rest.access(site, &mut self.recent)?;
            self.event(site, at, EventKind::Load { addr, bytes })
        } else if op::is_call(op) {
            let head = self.head(site, at);
            let fields = self.rest.fields;
            let (passed, rest) = pass_call(self.visitor, self.definitions, head, (op, fields))?;
            self.rest.fields = rest;
            passed
        } else {
            Passed::Rare
        })
    }

    #[inline(always)]
    fn event(
        &mut self,
        site: &ChunkSite,
        at: EventPosition,
        kind: EventKind<'_>,
    ) -> Passed<V::Break> {
        let head = self.head(site, at);
        head.pass(self.visitor, self.definitions, kind)
    }

    #[inline(always)]
    fn head(&self, site: &ChunkSite, at: EventPosition) -> EventHead {
        EventHead {
            index: at.index,
            process: self.process,
            thread: self.thread,
            pc: site.pc,
            context: site.context,
        }
    }
}

/// An event without its kind.
#[derive(Clone, Copy)]
struct EventHead {
    index: EventIndex,
    process: ProcessId,
    thread: ThreadId,
    pc: AppPc,
    context: ContextId,
}

impl EventHead {
    /// Passes the event to a visitor.
    #[inline(always)]
    fn pass<V: Visitor>(
        self,
        visitor: &mut V,
        definitions: &Definitions,
        kind: EventKind<'_>,
    ) -> Passed<V::Break> {
        let event = Event {
            index: self.index,
            process: self.process,
            thread: self.thread,
            pc: self.pc,
            context: self.context,
            kind,
        };
        visitor.event(&event, definitions).into()
    }
}

/// Passes the call, or the end of a call, of a watched function, and returns the fields behind it.
///
/// Not inlined, and without access to the other columns: their positions would have to be in memory for every row.
#[inline(never)]
fn pass_call<'a, V: Visitor>(
    visitor: &mut V,
    definitions: &Definitions,
    head: EventHead,
    (op, fields): (u8, &'a [u8]),
) -> Result<(Passed<V::Break>, &'a [u8]), Flaw> {
    let mut fields = FieldReader::new(fields, 0);
    let function = rare::take_function(&mut fields)?;
    let passed = if op == op::CALL {
        let args = rare::take_call_arguments(&mut fields)?;
        head.pass(visitor, definitions, EventKind::Call { function, args })
    } else {
        let value = rare::take_returned(op, &mut fields)?;
        head.pass(visitor, definitions, EventKind::Return { function, value })
    };
    Ok((passed, fields.rest()))
}

impl ChunkDecoder {
    /// Passes the events of the current thread to a visitor, up to the first row that is neither plain nor a call, or until it
    /// breaks. On an error, [`next_event`](Self::next_event) is the event that cannot be decoded.
    #[inline(always)]
    pub(crate) fn pass_run<V: Visitor>(
        &mut self,
        visitor: &mut V,
        definitions: &Definitions,
    ) -> Result<ControlFlow<V::Break>, Flaw> {
        let left = self.run_left.min(u64::from(self.events_left)) as usize;
        let rows = &self.rows[self.row..];
        let rows = &rows[..left.min(rows.len())];
        let Some(thread) = self.threads.get_mut(self.run_thread) else {
            return Ok(ControlFlow::Continue(()));
        };
        if !rows.is_empty() {
            visitor.run(&ThreadRun {
                process: thread.process,
                thread: thread.thread,
                next: EventIndex(self.next_event),
                stretch: EventIndex(self.first_event),
                sites: &self.sites,
            });
        }
        let mut last_sites = thread.last_sites;
        let mut passer = RowPasser {
            visitor,
            definitions,
            process: thread.process,
            thread: thread.thread,
            recent: thread.recent,
            rest: RemainingColumns::new(&mut self.columns, self.rest),
        };
        let mut done = 0;
        let mut outcome = Ok(ControlFlow::Continue(()));
        for &row in rows {
            let predicted = self.predictor.after(last_sites);
            let number = if row == 0 { *predicted } else { row - 1 };
            let Some(site) = self.sites.get_mut(usize::from(number)) else {
                outcome = Err(Flaw::BadReference);
                break;
            };
            if site.op() >= op::DEFINITIONS {
                break;
            }
            // The same for a rare row, which is decoded elsewhere.
            *predicted = number;
            let at = EventPosition {
                index: EventIndex(self.next_event + done),
                site: number,
            };
            match passer.pass(site, at) {
                Ok(Passed::Continue) => {}
                Ok(Passed::Break(value)) => {
                    outcome = Ok(ControlFlow::Break(value));
                }
                Ok(Passed::Rare) => break,
                Err(flaw) => {
                    outcome = Err(flaw);
                    break;
                }
            }
            last_sites.push(number);
            done += 1;
            if !matches!(outcome, Ok(ControlFlow::Continue(()))) {
                break;
            }
        }
        (thread.last_sites, thread.recent) = (last_sites, passer.recent);
        self.rest = passer.rest.len();
        self.row += done as usize;
        self.next_event += done;
        self.run_left -= done;
        self.events_left -= done as u32;
        outcome
    }
}
