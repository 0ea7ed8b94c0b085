//! Merges the records of all threads into one order, given by their sequence numbers.
//!
//! The numbers that were drawn have no gaps, so the record with the next number comes next. If no stream has it at its front, a thread has
//! drawn it and not yet published it, and the merger waits. [`crate::drain`] decides how long.
//!
//! Records that borrow a number come before the one that draws it ([`brownout_ring::BORROWED`]). Nothing shows that one is missing.
//! Therefore a record that has drawn its number is merged only if all rings were read after it was published: what was published before it
//! is then here. A record that borrows its number and is published late comes late; nothing that was published later depends on it.

use crate::last_store::{LastStore, PendingStore};
use crate::slot_owner::SlotOwner;
use crate::stream::{Corruption, FrontRecord, Number, Stream};
use crate::wire::{SlotIndex, SlotState, Wire};
use crate::wire_processes::WireProcesses;
use brownout_ring::{Record, SLOTS};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::time::{Duration, Instant};

/// Receives merged records.
pub(crate) trait Sink {
    /// A failure after which the sink accepts nothing more.
    type Error: From<io::Error>;

    /// Receives the next record of the global order.
    fn record(
        &mut self,
        owner: &SlotOwner,
        head: &Record,
        payload: &[u8],
    ) -> Result<(), SinkError<Self::Error>>;

    /// Receives the last store of `owner`, which has ended. Returns whether the store was executed.
    fn last_store(&mut self, owner: &SlotOwner, store: &LastStore) -> Result<bool, Self::Error>;

    /// Receives a note about the records of `owner`.
    fn note(&mut self, owner: &SlotOwner, text: &str) -> Result<(), Self::Error>;

    /// Saves what was received so far, so that it survives the end of this process.
    fn save(&mut self) -> Result<(), Self::Error>;

    /// How much was received so far.
    fn progress(&self) -> SinkProgress;
}

/// How much a sink has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SinkProgress {
    pub(crate) events: u64,
    /// Bytes of the trace written.
    pub(crate) bytes: u64,
}

/// Why a sink did not accept a record.
#[derive(Debug)]
pub(crate) enum SinkError<E> {
    /// The record is impossible; its stream can no longer be trusted.
    Corrupt(Corruption),
    /// The sink failed.
    Failed(E),
}

/// What the merge does with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// Its front record is queued.
    Queued,
    /// All its complete records are merged.
    Empty,
    /// It was corrupt; everything else it publishes is discarded.
    Discarding,
}

/// A stream, and its slot while the owner can still publish.
pub(crate) struct Channel {
    pub(crate) stream: Stream,
    pub(crate) slot: Option<SlotIndex>,
    pub(crate) state: ChannelState,
    /// The owner has ended without closing its slot.
    pub(crate) abandoned: bool,
    noted_late: bool,
}

impl Channel {
    /// Whether its front record waits for the next pull.
    fn is_unconfirmed(&self) -> bool {
        self.state == ChannelState::Empty && self.stream.is_unconfirmed()
    }
}

/// The merge of all streams of a wire.
pub(crate) struct Merger {
    channels: Vec<Option<Channel>>,
    /// Index in `channels` of the stream that each slot feeds.
    by_slot: Box<[Option<u32>; SLOTS]>,
    /// The front records of all queued channels: number, index in `channels`.
    fronts: BinaryHeap<Reverse<(Number, u32)>>,
    next_seq: u64,
    merged: u64,
    losses: Losses,
    last_stores: Vec<PendingStore>,
}

/// What the note says between a damaged record and what is wrong with it.
pub(crate) const LATER_RECORDS_LOST: &str = ", and its later records are lost: ";

/// The records of killed threads that were lost or reconstructed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Sequence numbers that were drawn and never published.
    pub(crate) numbers: u64,
    /// Last stores that were reconstructed from the content of the files.
    pub(crate) found: u64,
}

impl Merger {
    pub(crate) fn new() -> Merger {
        Merger {
            channels: Vec::new(),
            by_slot: Box::new([None; SLOTS]),
            fronts: BinaryHeap::new(),
            next_seq: 0,
            merged: 0,
            losses: Losses::default(),
            last_stores: Vec::new(),
        }
    }

    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    pub(crate) fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.channels.iter_mut().flatten()
    }

    /// Whether any stream can still grow.
    pub(crate) fn has_slots(&self) -> bool {
        self.channels
            .iter()
            .flatten()
            .any(|channel| channel.slot.is_some())
    }

    /// Whether a process that has the wire open has no slot: it was just forked, or is about to end.
    pub(crate) fn has_newborn(&self, wire_processes: &WireProcesses) -> bool {
        let owners = self.channels.iter().flatten();
        let known: Vec<u32> = owners
            .filter(|channel| channel.slot.is_some())
            .filter_map(|channel| channel.stream.owner.outer_pid())
            .collect();
        wire_processes.exist_besides(&known)
    }

    /// Whether records are waiting for one with a lower number that has not been copied.
    pub(crate) fn is_stuck(&self) -> bool {
        let mut channels = self.channels.iter().flatten();
        !self.fronts.is_empty() && !channels.any(Channel::is_unconfirmed)
    }

    /// The number of the next record.
    pub(crate) fn awaited(&self) -> u64 {
        self.next_seq
    }

    /// Bytes copied and not yet merged, over all streams.
    pub(crate) fn buffered(&self) -> usize {
        self.channels
            .iter()
            .flatten()
            .map(|channel| channel.stream.buffered())
            .sum()
    }

    /// Adds a channel for each slot that was claimed since the last call.
    pub(crate) fn discover(&mut self, wire: &Wire, wire_processes: &WireProcesses) {
        for slot in wire.occupied() {
            if self.by_slot[slot.0].is_some() {
                continue;
            }
            let channel = Channel {
                stream: Stream::new(SlotOwner::of(wire.slot(slot), wire_processes)),
                slot: Some(slot),
                state: ChannelState::Empty,
                abandoned: false,
                noted_late: false,
            };
            let index = match self.channels.iter().position(Option::is_none) {
                Some(vacant) => {
                    self.channels[vacant] = Some(channel);
                    vacant
                }
                None => {
                    self.channels.push(Some(channel));
                    self.channels.len() - 1
                }
            };
            self.by_slot[slot.0] = Some(index as u32);
        }
    }

    /// Copies what was published, up to `limit` bytes per stream, and frees the slots whose owners have ended. Returns the
    /// number of bytes copied.
    pub(crate) fn pull<S: Sink>(
        &mut self,
        wire: &Wire,
        limit: usize,
        sink: &mut S,
    ) -> Result<u64, S::Error> {
        let mut copied = 0;
        for channel in self.channels.iter_mut().flatten() {
            let published = channel
                .slot
                .map_or(Ok(0), |slot| wire.published(slot, channel.stream.taken()));
            // Impossible counters are found again when the ring is read.
            channel.stream.confirm(published.unwrap_or(0));
        }
        for index in 0..self.channels.len() {
            let Some(channel) = &mut self.channels[index] else {
                continue;
            };
            if let Some(slot) = channel.slot {
                // Checked before the ring is read: a closed slot never receives more than it holds now.
                let over = channel.abandoned || wire.state(slot) != SlotState::Live;
                if channel.state == ChannelState::Discarding {
                    channel.stream.discard(wire, slot);
                } else {
                    match channel.stream.refill(wire, slot, limit)? {
                        Ok(count) => copied += count,
                        Err(corruption) => {
                            Self::drop_stream(channel, corruption, sink)?;
                            self.fronts
                                .retain(|&Reverse((_, queued))| queued as usize != index);
                        }
                    }
                }
                if over && self.release_if_drained(index, slot, wire)? {
                    self.by_slot[slot.0] = None;
                }
            }
            self.queue_front(index, sink)?;
            self.remove_if_done(index, sink)?;
        }
        Ok(copied)
    }

    fn release_if_drained(
        &mut self,
        index: usize,
        slot: SlotIndex,
        wire: &Wire,
    ) -> io::Result<bool> {
        let Some(channel) = &mut self.channels[index] else {
            return Ok(false);
        };
        let taken = channel.stream.taken();
        let drained = match channel.state {
            ChannelState::Discarding => true,
            _ => wire.published(slot, taken) == Ok(0),
        };
        if drained {
            if channel.state != ChannelState::Discarding
                && let Some(store) = wire.last_store(slot, taken)?
            {
                self.last_stores.push(PendingStore {
                    owner: channel.stream.owner,
                    store,
                    drawn: wire.drawn(),
                    since: Instant::now(),
                });
            }
            wire.free(slot, taken)?;
            channel.slot = None;
        }
        Ok(drained)
    }

    /// Queues the front record of an empty channel that has a new one.
    fn queue_front<S: Sink>(&mut self, index: usize, sink: &mut S) -> Result<(), S::Error> {
        let Some(channel) = &mut self.channels[index] else {
            return Ok(());
        };
        if channel.state == ChannelState::Empty {
            match channel.stream.front() {
                Ok(FrontRecord::Record(number)) => {
                    channel.state = ChannelState::Queued;
                    self.fronts.push(Reverse((number, index as u32)));
                }
                Ok(FrontRecord::Empty) => {}
                Err(corruption) => Self::drop_stream(channel, corruption, sink)?,
            }
        }
        Ok(())
    }

    fn remove_if_done<S: Sink>(&mut self, index: usize, sink: &mut S) -> Result<(), S::Error> {
        let Some(channel) = &mut self.channels[index] else {
            return Ok(());
        };
        if channel.slot.is_none() && channel.state != ChannelState::Queued {
            if channel.state == ChannelState::Empty && channel.stream.is_cut() {
                Self::drop_stream(channel, Corruption::Cut, sink)?;
            } else if channel.is_unconfirmed() {
                return Ok(());
            }
            self.channels[index] = None;
        }
        Ok(())
    }

    /// Passes records to `sink` as long as the next number is available. Returns how many were passed.
    pub(crate) fn merge<S: Sink>(&mut self, sink: &mut S) -> Result<u64, S::Error> {
        let before = self.merged;
        while let Some(Reverse((number, index))) = self.fronts.pop() {
            let seq = number.seq();
            if seq > self.next_seq {
                self.fronts.push(Reverse((number, index)));
                break;
            }
            let channel = self.channels[index as usize]
                .as_mut()
                .expect("queued channels exist");
            if number.is_drawn() && seq < self.next_seq && !channel.noted_late {
                channel.noted_late = true;
                let owner = channel.stream.owner;
                let text = format!(
                    "thread {} of process {} published record {seq} after that number had been skipped; \
                     from here on, the order of its events among those of other threads is approximate",
                    owner.tid, owner.pid
                );
                sink.note(&owner, &text)?;
            }
            let other = self.fronts.peek().map(|&Reverse((number, _))| number);
            let mut next_seq = self.next_seq.max(seq + u64::from(number.is_drawn()));
            let owner = channel.stream.owner;
            // A thread often has several records in a row. Only the one after the last of them is queued.
            let outcome = loop {
                let (head, payload) = channel.stream.next();
                match sink.record(&owner, &head, payload) {
                    Ok(()) => self.merged += 1,
                    Err(SinkError::Corrupt(corruption)) => break Err(corruption),
                    Err(SinkError::Failed(error)) => return Err(error),
                }
                match channel.stream.front() {
                    Ok(FrontRecord::Record(number))
                        if number.seq() <= next_seq
                            && other.is_none_or(|other| number <= other) =>
                    {
                        next_seq = next_seq.max(number.seq() + u64::from(number.is_drawn()));
                    }
                    other => break other,
                }
            };
            self.next_seq = next_seq;
            match outcome {
                Ok(FrontRecord::Record(number)) => self.fronts.push(Reverse((number, index))),
                Ok(FrontRecord::Empty) => {
                    channel.state = ChannelState::Empty;
                    if channel.stream.has_more() {
                        // What comes next may come before the records of others.
                        break;
                    }
                }
                Err(corruption) => Self::drop_stream(channel, corruption, sink)?,
            }
        }
        Ok(self.merged - before)
    }

    /// Passes the last stores of threads that have ended to `sink`: each one when all numbers drawn before it are merged, or
    /// when it has waited for `patience` and there is nothing to merge.
    pub(crate) fn finish_threads<S: Sink>(
        &mut self,
        patience: Duration,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let (next, idle) = (self.next_seq, self.fronts.is_empty());
        let is_due = |pending: &mut PendingStore| {
            next >= pending.drawn || idle && pending.since.elapsed() >= patience
        };
        for PendingStore { owner, store, .. } in self.last_stores.extract_if(.., is_due) {
            self.losses.found += u64::from(sink.last_store(&owner, &store)?);
        }
        Ok(())
    }

    /// Skips the numbers from the awaited one up to the first available one. The caller knows that no thread can still
    /// publish a number below `drawn`.
    pub(crate) fn skip_gap<S: Sink>(&mut self, drawn: u64, sink: &mut S) -> Result<(), S::Error> {
        let Some(top) = self.fronts.peek_mut() else {
            return Ok(());
        };
        let Reverse((number, index)) = *top;
        let seq = number.seq();
        if seq < drawn || seq == drawn && !number.is_drawn() {
            self.losses.numbers += seq.saturating_sub(self.next_seq);
            self.next_seq = self.next_seq.max(seq);
            return Ok(());
        }
        PeekMut::pop(top);
        let channel = self.channels[index as usize]
            .as_mut()
            .expect("queued channels exist");
        Self::drop_stream(channel, Corruption::Undrawn { seq, drawn }, sink)
    }

    fn drop_stream<S: Sink>(
        channel: &mut Channel,
        corruption: Corruption,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        channel.state = ChannelState::Discarding;
        let owner = channel.stream.owner;
        let text = format!(
            "a record of thread {} of process {} is damaged{LATER_RECORDS_LOST}{corruption}",
            owner.tid, owner.pid
        );
        sink.note(&owner, &text)
    }
}
