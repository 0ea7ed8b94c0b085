//! Decodes plain rows: stores, loads, flushes and fences. Most rows are plain.

use super::address::RecentAddresses;
use super::decode::ChunkSite;
use super::words::WORD;
use super::{Column, op};
use crate::error::Flaw;
use crate::event::EventKind;
use crate::fields::FieldReader;
use crate::ids::Address;
use crate::varint;

/// The unread parts of the columns that rows of all kinds use, each with [`varint::PADDING`] after its end.
pub(super) struct RemainingColumns<'a> {
    addresses: &'a [u8],
    words: &'a mut [u8],
    values: &'a [u8],
    pub(super) fields: &'a [u8],
}

/// The number of unread bytes in these columns, including the padding.
#[derive(Clone, Copy)]
pub(super) struct RemainingBytes {
    addresses: usize,
    words: usize,
    values: usize,
    fields: usize,
}

impl RemainingBytes {
    /// For columns that are still completely unread.
    pub(super) fn new(columns: &[Vec<u8>; Column::COUNT]) -> Self {
        RemainingBytes {
            addresses: columns[Column::Addresses as usize].len(),
            words: columns[Column::Words as usize].len(),
            values: columns[Column::Values as usize].len(),
            fields: columns[Column::Fields as usize].len(),
        }
    }

    /// Whether the columns are read completely.
    pub(super) fn is_empty(self) -> bool {
        [self.addresses, self.words, self.values, self.fields] == [varint::PADDING; 4]
    }

    /// A reader of the fields has read some.
    pub(super) fn read_fields(&mut self, fields: &FieldReader<'_>) {
        self.fields = fields.rest().len();
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
            fields: &fields[used(fields, len.fields)..],
        }
    }

    #[inline]
    pub(super) fn len(&self) -> RemainingBytes {
        RemainingBytes {
            addresses: self.addresses.len(),
            words: self.words.len(),
            values: self.values.len(),
            fields: self.fields.len(),
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
    pub(super) fn access(
        &mut self,
        site: &mut ChunkSite,
        recent: &mut RecentAddresses,
    ) -> Result<(Address, &'a [u8]), Flaw> {
        let addr = self.address(site, recent)?;
        Ok((addr, self.accessed(site)?))
    }

    #[inline(always)]
    pub(super) fn address(
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
