//! Decodes plain rows: stores, loads, flushes and fences. Most rows are plain. They are decoded in runs of consecutive
//! events of one thread, with the changing state in local variables.
//!
//! If a visitor handles the parts of an event, no [`Event`] is built. Otherwise it is built directly at the call of the
//! visitor, separately for each kind. Copying an event through several wrappers would cost more than decoding it, because
//! the processor stalls when fields that were written separately are read as one.

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
use crate::visitor::{EventPosition, ThreadRun, Visitor};

/// The unread parts of the columns that plain rows use, each with [`varint::PADDING`] after its end.
pub(super) struct RemainingColumns<'a> {
    addresses: &'a [u8],
    words: &'a mut [u8],
    values: &'a [u8],
    /// The whole column, which plain rows do not use.
    pub(super) fields: &'a [u8],
}

/// The number of unread bytes in these columns, including the padding.
#[derive(Clone, Copy)]
pub(super) struct RemainingBytes {
    addresses: usize,
    words: usize,
    values: usize,
}

impl RemainingBytes {
    /// For columns that are still completely unread.
    pub(super) fn new(columns: &[Vec<u8>; Column::COUNT]) -> Self {
        RemainingBytes {
            addresses: columns[Column::Addresses as usize].len(),
            words: columns[Column::Words as usize].len(),
            values: columns[Column::Values as usize].len(),
        }
    }

    /// Whether the columns are read completely.
    pub(super) fn is_empty(self) -> bool {
        [self.addresses, self.words, self.values] == [varint::PADDING; 3]
    }
}

impl<'a> RemainingColumns<'a> {
    #[inline]
    pub(super) fn new(columns: &'a mut [Vec<u8>; Column::COUNT], len: RemainingBytes) -> Self {
        let [_, _, _, _, addresses, words, values, fields] = columns;
        let used = |column: &[u8], left: usize| column.len().saturating_sub(left);
        let words_used = used(words, len.words);
        RemainingColumns {
            addresses: &addresses[used(addresses, len.addresses)..],
            words: &mut words[words_used..],
            values: &values[used(values, len.values)..],
            fields,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> RemainingBytes {
        RemainingBytes {
            addresses: self.addresses.len(),
            words: self.words.len(),
            values: self.values.len(),
        }
    }

    /// Decodes the event kind at a site whose operation is [plain](op::RARE).
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

    /// The address and the bytes of a store or load.
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
    /// Passes the events of the current thread to a visitor, up to the first row that is not plain or until it breaks. On an
    /// error, [`next_event`](Self::next_event) is the event that cannot be decoded.
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
        let (mut last_sites, mut recent) = (thread.last_sites, thread.recent);
        let first = self.next_event;
        let mut rest = RemainingColumns::new(&mut self.columns, self.rest);
        let mut done = 0;
        let mut outcome = Ok(ControlFlow::Continue(()));
        for &row in rows {
            let predicted = self.predictor.after(last_sites);
            let number = if row == 0 { *predicted } else { row - 1 };
            let Some(site) = self.sites.get_mut(usize::from(number)) else {
                outcome = Err(Flaw::BadReference);
                break;
            };
            if site.op() >= op::RARE {
                break;
            }
            *predicted = number;
            last_sites.push(number);
            let (pc, context) = (site.pc, site.context);
            let at = EventPosition {
                index: EventIndex(first + done),
                site: number,
            };
            // Builds the event and passes it on, separately for each kind (see the module documentation).
            macro_rules! pass_event {
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
            const HANDLED: bool = true;
            let op = site.op();
            let passed = if op < op::STORE_END {
                let (flavor, locked, string) = op::store_parts(op);
                rest.access(site, &mut recent).map(|(addr, bytes)| {
                    match !locked && visitor.store(at, addr, bytes, flavor) {
                        HANDLED => ControlFlow::Continue(()),
                        _ => pass_event!(EventKind::Store {
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
                        HANDLED => ControlFlow::Continue(()),
                        _ => pass_event!(EventKind::Flush {
                            addr,
                            kind,
                            volatile,
                        }),
                    }
                })
            } else if let Some(kind) = op::fence_kind(op) {
                Ok(match visitor.fence(at, kind) {
                    HANDLED => ControlFlow::Continue(()),
                    _ => pass_event!(EventKind::Fence { kind }),
                })
            } else {
                let access = rest.access(site, &mut recent);
                access.map(|(addr, bytes)| pass_event!(EventKind::Load { addr, bytes }))
            };
            match passed {
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
        (thread.last_sites, thread.recent) = (last_sites, recent);
        self.rest = rest.len();
        self.row += done as usize;
        self.next_event += done;
        self.run_left -= done;
        self.events_left -= done as u32;
        outcome
    }
}
