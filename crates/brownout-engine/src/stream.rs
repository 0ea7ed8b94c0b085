//! The records of one thread: a private copy of the bytes that it published, split into records and checked.
//!
//! A stream outlives its slot: once the last bytes of a closed slot are copied, the slot is freed, while the records wait
//! here for their turn in the global order.

use crate::slot_owner::SlotOwner;
use crate::sys::ring_map::RingMap;
use crate::wire::{BadCounters, SlotIndex, Wire};
use brownout_ring::{BORROWED, MAX_RECORD, RING_BYTES, Record};
use std::io;
use std::mem::offset_of;

/// Bytes of a record before its payload.
pub(crate) const HEAD_BYTES: usize = size_of::<Record>();

/// The ring of a thread that has published more is mapped: reading it with system calls takes longer. Many threads publish little and end.
const MAPPED_FROM: u64 = 64 << 10;

/// Why the rest of a stream cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    #[error("its byte counters are impossible (published {head}, consumed {tail})")]
    Counters { head: u64, tail: u64 },
    #[error("a record claims a length of {len} bytes")]
    Length { len: u32 },
    #[error("the data ends in the middle of a record")]
    Cut,
    #[error("record {seq} comes after record {previous}")]
    Order { previous: u64, seq: u64 },
    #[error("record {seq} has a number that was never drawn; only {drawn} numbers were")]
    Undrawn { seq: u64, drawn: u64 },
    #[error("there is no record of kind {kind}")]
    Kind { kind: u16 },
    #[error("a record of kind {kind} has flags {flags:#x}")]
    Flags { kind: u16, flags: u16 },
    #[error("a record of kind {kind} has a payload of {size} bytes")]
    Payload { kind: u16, size: u64 },
    #[error("a record has content of a file (device {dev}, inode {ino}) that was never mapped")]
    File { dev: u64, ino: u64 },
    #[error("a record has a call of function {number}, which is not watched")]
    Function { number: u64 },
}

impl From<BadCounters> for Corruption {
    fn from(bad: BadCounters) -> Corruption {
        Corruption::Counters {
            head: bad.head,
            tail: bad.tail,
        }
    }
}

/// Where a record belongs in the order of all records. One that borrows its number comes before the one that has drawn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(u64);

impl Number {
    /// Not higher than any number, and not drawn.
    const LOWEST: Number = Number(0);

    fn of(seq: u64) -> Number {
        Number((seq & !BORROWED) << 1 | u64::from(seq & BORROWED == 0))
    }

    pub(crate) fn seq(self) -> u64 {
        self.0 >> 1
    }

    pub(crate) fn is_drawn(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The state of the first record of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontRecord {
    /// A complete record with this number.
    Record(Number),
    /// There is no complete record; more bytes have to be copied first.
    Empty,
}

/// The records of one slot's owner, in the order in which it published them.
pub(crate) struct Stream {
    pub(crate) owner: SlotOwner,
    /// The ring of the slot, once it pays to map it.
    ring: Option<RingMap>,
    /// A reusable buffer. The bytes that are not consumed are between `start` and `end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes copied out of the ring since the slot was claimed.
    taken: u64,
    /// Up to here records were published before all rings were last read. Records behind may follow on borrowed numbers in other
    /// rings that have not been copied.
    confirmed: u64,
    /// Where in `buffer` that is, if it is copied.
    confirmed_end: usize,
    /// Not everything that was published then has been copied.
    has_more: bool,
    /// The number of the last record; [`Number::LOWEST`] if there was none.
    last: Number,
}

impl Stream {
    pub(crate) fn new(owner: SlotOwner) -> Stream {
        Stream {
            owner,
            ring: None,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            taken: 0,
            confirmed: 0,
            confirmed_end: 0,
            has_more: false,
            last: Number::LOWEST,
        }
    }

    /// Total bytes copied out of the ring.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes copied and not yet consumed.
    pub(crate) fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// Notes how much is published. Call this for all streams before any of them is refilled.
    pub(crate) fn confirm(&mut self, published: u64) {
        self.confirmed = self.taken + published;
        self.confirmed_end = self.end;
    }

    /// Whether records were published that are not copied yet and may come before those of other streams.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Copies what the slot has published, until `limit` bytes are buffered. Returns the number of bytes copied.
    pub(crate) fn refill(
        &mut self,
        wire: &Wire,
        slot: SlotIndex,
        limit: usize,
    ) -> io::Result<Result<u64, Corruption>> {
        let published = match wire.published(slot, self.taken) {
            Ok(published) => published,
            Err(bad) => return Ok(Err(bad.into())),
        };
        let count = published.min(limit.saturating_sub(self.buffered()) as u64);
        self.has_more = self.confirmed > self.taken + count;
        if count == 0 {
            return Ok(Ok(0));
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let end = self.end + count as usize;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        if self.ring.is_none() && self.taken + count > MAPPED_FROM {
            self.ring = Some(wire.map_ring(slot)?);
        }
        let buffer = &mut self.buffer[self.end..end];
        wire.take(slot, self.ring.as_ref(), self.taken, buffer)?;
        self.end = end;
        self.taken += count;
        let unconfirmed = self.taken.saturating_sub(self.confirmed);
        self.confirmed_end = end - unconfirmed.min(count) as usize;
        Ok(Ok(count))
    }

    /// Discards what the slot has published, so that a producer that is no longer trusted does not block.
    pub(crate) fn discard(&mut self, wire: &Wire, slot: SlotIndex) {
        self.buffer = Vec::new();
        (self.start, self.end, self.confirmed_end) = (0, 0, 0);
        let head = wire
            .slot(slot)
            .head
            .load(std::sync::atomic::Ordering::Acquire);
        if head != self.taken {
            self.taken = head;
            wire.release(slot, head);
        }
    }

    /// Examines the front record and checks that its head is plausible. Records that are not confirmed wait.
    #[inline(always)]
    pub(crate) fn front(&self) -> Result<FrontRecord, Corruption> {
        Ok(match self.complete()? {
            Some((number, len)) if !number.is_drawn() || self.start + len <= self.confirmed_end => {
                FrontRecord::Record(number)
            }
            _ => FrontRecord::Empty,
        })
    }

    /// Whether there is a complete record that [`Stream::front`] does not show yet.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.front() == Ok(FrontRecord::Empty) && matches!(self.complete(), Ok(Some(_)))
    }

    /// The number of the front record and its length, if it is complete.
    #[inline(always)]
    fn complete(&self) -> Result<Option<(Number, usize)>, Corruption> {
        let bytes = &self.buffer[self.start..self.end];
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let len = u32::from_ne_bytes(field(head, offset_of!(Record, len)));
        if !len.is_multiple_of(8) || !(HEAD_BYTES..=MAX_RECORD).contains(&(len as usize)) {
            return Err(Corruption::Length { len });
        }
        let number = Number::of(u64::from_ne_bytes(field(head, offset_of!(Record, seq))));
        if self.last > number || self.last == number && number.is_drawn() {
            return Err(Corruption::Order {
                previous: self.last.seq(),
                seq: number.seq(),
            });
        }
        Ok((bytes.len() >= len as usize).then_some((number, len as usize)))
    }

    /// Consumes the front record, which [`Stream::front`] has seen.
    // Inlined because moving a head right after its fields were written one by one stalls the processor.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> (Record, &[u8]) {
        let bytes = &self.buffer[self.start..self.end];
        let head = bytes
            .first_chunk()
            .map(parse_head)
            .expect("front() saw a whole record");
        let len = head.len as usize;
        let payload = &bytes[HEAD_BYTES..len];
        self.start += len;
        self.last = Number::of(head.seq);
        (head, payload)
    }

    /// Whether an incomplete record is left over.
    pub(crate) fn is_cut(&self) -> bool {
        self.buffered() > 0 && self.complete() == Ok(None)
    }
}

/// A refill always makes room for the longest record.
const _: () = assert!(MAX_RECORD <= RING_BYTES);

#[inline(always)]
fn parse_head(bytes: &[u8; HEAD_BYTES]) -> Record {
    Record {
        len: u32::from_ne_bytes(field(bytes, offset_of!(Record, len))),
        kind: u16::from_ne_bytes(field(bytes, offset_of!(Record, kind))),
        flags: u16::from_ne_bytes(field(bytes, offset_of!(Record, flags))),
        seq: u64::from_ne_bytes(field(bytes, offset_of!(Record, seq))),
        pc: u64::from_ne_bytes(field(bytes, offset_of!(Record, pc))),
        context: u32::from_ne_bytes(field(bytes, offset_of!(Record, context))),
        size: u32::from_ne_bytes(field(bytes, offset_of!(Record, size))),
        addr: u64::from_ne_bytes(field(bytes, offset_of!(Record, addr))),
    }
}

/// The `N` bytes at `offset` of a record's head.
#[inline(always)]
fn field<const N: usize>(head: &[u8; HEAD_BYTES], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&head[offset..offset + N]);
    bytes
}
