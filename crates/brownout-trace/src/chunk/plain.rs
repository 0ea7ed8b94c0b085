//! Plain rows, which most are: stores, loads, flushes and fences. They are decoded by the run, as many as a
//! thread has in a row, with all that changes from one to the next at hand.
//!
//! What a visitor takes in parts is never put together. Other events are where they are shown, in each case by itself:
//! copying one from wrapping to wrapping costs more than decoding it, as the processor waits for fields that were
//! written apart to be read as one.

use std::ops::ControlFlow;

use super::address::RecentAddresses;
use super::decode::{ChunkDecoder, ChunkSite};
use super::words::WORD;
use super::{Column, op};
use crate::definitions::Definitions;
use crate::error::Flaw;
use crate::event::{Event, EventKind};
use crate::ids::{Address, EventIndex};
use crate::varint;
use crate::visitor::{At, ThreadRun, Visitor};

/// What is left of the columns that plain rows use, each with [`varint::PADDING`] after its end.
pub(super) struct Rest<'a> {
    addresses: &'a [u8],
    words: &'a mut [u8],
    values: &'a [u8],
    /// All of the column, which plain rows do not use.
    pub(super) fields: &'a [u8],
}

/// How many bytes are left of the same columns, padding included.
#[derive(Clone, Copy)]
pub(super) struct RestLen {
    addresses: usize,
    words: usize,
    values: usize,
}

impl RestLen {
    /// Of columns of which nothing is used yet.
    pub(super) fn new(columns: &[Vec<u8>; Column::COUNT]) -> Self {
        RestLen {
            addresses: columns[Column::Addresses as usize].len(),
            words: columns[Column::Words as usize].len(),
            values: columns[Column::Values as usize].len(),
        }
    }

    /// Whether the columns are used up.
    pub(super) fn is_empty(self) -> bool {
        [self.addresses, self.words, self.values] == [varint::PADDING; 3]
    }
}

impl<'a> Rest<'a> {
    #[inline]
    pub(super) fn new(columns: &'a mut [Vec<u8>; Column::COUNT], len: RestLen) -> Self {
        let [_, _, _, _, addresses, words, values, fields] = columns;
        let used = |column: &[u8], left: usize| column.len().saturating_sub(left);
        let words_used = used(words, len.words);
        Rest {
            addresses: &addresses[used(addresses, len.addresses)..],
            words: &mut words[words_used..],
            values: &values[used(values, len.values)..],
            fields,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> RestLen {
        RestLen {
            addresses: self.addresses.len(),
            words: self.words.len(),
            values: self.values.len(),
        }
    }

    /// What happened at a site whose operation is [plain](op::RARE).
    #[inline]
    pub(super) fn kind(
        &mut self,
        site: &mut ChunkSite,
        recent: &mut RecentAddresses,
    ) -> Result<EventKind<'a>, Flaw> {
        let op = site.op();
        Ok(if op < op::STORE_END {
            let (addr, bytes) = self.access(site, recent)?;
            let (flavor, locked, string) = op::store_parts(op);
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                string,
            }
        } else if let Some((kind, volatile)) = op::flush_parts(op) {
            let addr = self.address(site, recent)?;
            EventKind::Flush {
                addr,
                kind,
                volatile,
            }
        } else if let Some(kind) = op::fence_kind(op) {
            EventKind::Fence { kind }
        } else {
            let (addr, bytes) = self.access(site, recent)?;
            EventKind::Load { addr, bytes }
        })
    }

    /// Where a store or load went, and its bytes.
    #[inline(always)]
    fn access(
        &mut self,
        site: &mut ChunkSite,
        recent: &mut RecentAddresses,
    ) -> Result<(Address, &'a [u8]), Flaw> {
        let addr = self.address(site, recent)?;
        Ok((addr, self.accessed(site)?))
    }

    #[inline(always)]
    fn address(
        &mut self,
        site: &mut ChunkSite,
        recent: &mut RecentAddresses,
    ) -> Result<Address, Flaw> {
        let addr = recent.decode(&mut site.memory.last_addr, || {
            let (token, rest) = varint::split_first(self.addresses).ok_or(Flaw::ColumnLength)?;
            self.addresses = rest;
            Ok(token)
        })?;
        Ok(Address(addr))
    }

    /// The bytes of a store or load.
    #[inline(always)]
    fn accessed(&mut self, site: &mut ChunkSite) -> Result<&'a [u8], Flaw> {
        if site.size() != WORD {
            return self.value(site.size());
        }
        let words = std::mem::take(&mut self.words);
        let (word, rest) = words.split_first_chunk_mut().ok_or(Flaw::ColumnLength)?;
        if rest.len() < varint::PADDING {
            return Err(Flaw::ColumnLength);
        }
        self.words = rest;
        let last = &mut site.memory.last_word;
        *last ^= u64::from_le_bytes(*word);
        *word = last.to_le_bytes();
        Ok(word)
    }

    /// The next bytes of the values.
    #[inline]
    pub(super) fn value(&mut self, len: usize) -> Result<&'a [u8], Flaw> {
        let (value, rest) = self
            .values
            .split_at_checked(len)
            .filter(|(_, rest)| rest.len() >= varint::PADDING)
            .ok_or(Flaw::ColumnLength)?;
        self.values = rest;
        Ok(value)
    }
}

impl ChunkDecoder {
    /// Shows a visitor the events of the current thread up to the first row that is not plain, or until
    /// it breaks. On an error the event that cannot be told is the [next](Self::next_event).
    #[inline(always)]
    pub(crate) fn plain_run<V: Visitor>(
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
        let (mut trail, mut recent) = (thread.trail, thread.recent);
        let first = self.next_event;
        let mut rest = Rest::new(&mut self.columns, self.rest);
        let mut done = 0;
        let mut outcome = Ok(ControlFlow::Continue(()));
        for &row in rows {
            let successor = self.successors.after(trail);
            let number = if row == 0 { *successor } else { row - 1 };
            let Some(site) = self.sites.get_mut(usize::from(number)) else {
                outcome = Err(Flaw::BadReference);
                break;
            };
            if site.op() >= op::RARE {
                break;
            }
            *successor = number;
            trail.push(number);
            let (pc, context) = (site.pc, site.context);
            let at = At {
                index: EventIndex(first + done),
                site: number,
            };
            // Put together in each case by itself, and told right there.
            macro_rules! tell {
                ($kind:expr) => {{
                    let event = Event {
                        index: at.index,
                        process: thread.process,
                        thread: thread.thread,
                        pc,
                        context,
                        kind: $kind,
                    };
                    visitor.event(&event, definitions)
                }};
            }
            const TAKEN: bool = true;
            let op = site.op();
            let shown = if op < op::STORE_END {
                let (flavor, locked, string) = op::store_parts(op);
                rest.access(site, &mut recent).map(|(addr, bytes)| {
                    match !locked && visitor.store(at, addr, bytes, flavor) {
                        TAKEN => ControlFlow::Continue(()),
                        _ => tell!(EventKind::Store {
                            addr,
                            bytes,
                            flavor,
                            locked,
                            string,
                        }),
                    }
                })
            } else if let Some((kind, volatile)) = op::flush_parts(op) {
                rest.address(site, &mut recent).map(|addr| {
                    match !volatile && visitor.flush(at, addr, kind) {
                        TAKEN => ControlFlow::Continue(()),
                        _ => tell!(EventKind::Flush {
                            addr,
                            kind,
                            volatile,
                        }),
                    }
                })
            } else if let Some(kind) = op::fence_kind(op) {
                Ok(match visitor.fence(at, kind) {
                    TAKEN => ControlFlow::Continue(()),
                    _ => tell!(EventKind::Fence { kind }),
                })
            } else {
                let access = rest.access(site, &mut recent);
                access.map(|(addr, bytes)| tell!(EventKind::Load { addr, bytes }))
            };
            match shown {
                Ok(ControlFlow::Continue(())) => done += 1,
                Ok(broken) => {
                    done += 1;
                    outcome = Ok(broken);
                    break;
                }
                Err(flaw) => {
                    outcome = Err(flaw);
                    break;
                }
            }
        }
        (thread.trail, thread.recent) = (trail, recent);
        self.rest = rest.len();
        self.row += done as usize;
        self.next_event += done;
        self.run_left -= done;
        self.events_left -= done as u32;
        outcome
    }
}
