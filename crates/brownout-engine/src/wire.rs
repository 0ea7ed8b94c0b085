//! The recorder's end of the wire: creates it, copies published bytes out of the rings, and frees slots.
//!
//! The bytes of rings are copied before they are looked at. The target's processes can change them at any time, and a private copy
//! cannot change while it is checked. A producer can also continue as soon as its bytes are copied.

use crate::last_store::{HEAD_BYTES, LastStore};
use crate::schedule::ThreadSchedule;
use crate::sys::memory::{self, MemfdUse, Table};
use crate::sys::process::with_file_size_limit_raised;
use crate::sys::ring_map::RingMap;
use brownout_ring::{
    Control, MAGIC, MAX_INTENT, RING_BYTES, SLOTS, Slot, VERSION, WATCH_BYTES, WATCH_TABLE,
    WIRE_BYTES, explore, intent_offset, recording, ring_offset, slot,
};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::{Duration, SystemTime};

/// The index of a slot in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotIndex(pub(crate) usize);

/// The state of a slot, as far as the recorder distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// It has no owner, or is being claimed.
    Vacant,
    Live,
    Closed,
}

/// Impossible byte counters: the producer's memory was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadCounters {
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

/// A wire that the recorder owns.
pub(crate) struct Wire {
    file: File,
    table: Table,
}

impl Wire {
    /// Creates a wire with all slots free. `options` are [`brownout_ring::option`] bits.
    pub(crate) fn create(options: u32) -> io::Result<Wire> {
        let file = memory::create_memfd(c"brownout-wire", MemfdUse::Data)?;
        // The caller's file size limit is meant for files on disk; the wire is sparse memory.
        with_file_size_limit_raised(|| file.set_len(WIRE_BYTES as u64))?;
        memory::seal_size(&file)?;
        // The plain fields are written through the file, because only atomics are accessed through the mapping.
        let fields: [(usize, &[u8]); 4] = [
            (offset_of!(Control, magic), &MAGIC.to_ne_bytes()),
            (offset_of!(Control, version), &VERSION.to_ne_bytes()),
            (offset_of!(Control, options), &options.to_ne_bytes()),
            (
                offset_of!(Control, recorder_pid),
                &std::process::id().to_ne_bytes(),
            ),
        ];
        for (offset, bytes) in fields {
            file.write_all_at(bytes, offset as u64)?;
        }
        let table = Table::map(&file)?;
        Ok(Wire { file, table })
    }

    /// Writes the schedule of the target's threads. Call this before the target starts.
    pub(crate) fn put_schedule(&self, schedule: ThreadSchedule) -> io::Result<()> {
        // The kernel's times of files lag behind its clock.
        const LAG: Duration = Duration::from_millis(10);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started = now.unwrap_or_default().saturating_sub(LAG);
        let fields = [
            (offset_of!(Control, started), started.as_nanos() as u64),
            (offset_of!(Control, seed), schedule.seed),
            (offset_of!(Control, length), schedule.length),
        ];
        for (offset, value) in fields {
            self.file
                .write_all_at(&value.to_ne_bytes(), offset as u64)?;
        }
        Ok(())
    }

    /// Steps that threads have made under a schedule.
    pub(crate) fn steps(&self) -> u64 {
        self.table.control().steps.load(Relaxed)
    }

    /// How many threads a process had that was ended because of a deadlock; `None` if there was none.
    pub(crate) fn deadlocked(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.table.control().deadlocked.load(Relaxed))
    }

    /// Writes the table of watched functions for the target. Call this before the target starts.
    pub(crate) fn put_watch_table(&self, table: &[u8]) -> io::Result<()> {
        debug_assert!(table.len() <= WATCH_BYTES);
        with_file_size_limit_raised(|| self.file.write_all_at(table, WATCH_TABLE as u64))
    }

    /// Writes the table of open bytes for an exploration. Call this before the target starts.
    pub(crate) fn put_open_table(&self, table: &[u8]) -> io::Result<()> {
        with_file_size_limit_raised(|| self.file.write_all_at(table, explore::TABLE as u64))
    }

    /// How many slots were ever in use.
    pub(crate) fn slots_used(&self) -> usize {
        (self.table.control().slots_used.load(SeqCst) as usize).min(SLOTS)
    }

    /// The memfd that the target inherits.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn slot(&self, index: SlotIndex) -> &Slot {
        &self.table.slots()[index.0]
    }

    pub(crate) fn state(&self, index: SlotIndex) -> SlotState {
        match self.slot(index).state.load(Acquire) {
            slot::LIVE => SlotState::Live,
            slot::CLOSED => SlotState::Closed,
            _ => SlotState::Vacant,
        }
    }

    /// All slots that are live or closed.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        (0..self.slots_used())
            .map(SlotIndex)
            .filter(|&index| self.state(index) != SlotState::Vacant)
    }

    /// Whether any recorded process has ever started another.
    pub(crate) fn has_children(&self) -> bool {
        self.table.control().children.load(SeqCst) != 0
    }

    /// Whether a process is being forked, or has been and has not published its first record.
    pub(crate) fn has_births(&self) -> bool {
        self.table.control().births.load(SeqCst) != 0
    }

    /// The [`brownout_ring::input`] bits that processes have set.
    pub(crate) fn inputs(&self) -> u32 {
        self.table.control().inputs.load(Relaxed)
    }

    /// How many sequence numbers have been drawn.
    pub(crate) fn drawn(&self) -> u64 {
        self.table.control().next_seq.0.load(SeqCst)
    }

    /// Marks the slots below `count` as used, as producers do.
    #[cfg(test)]
    pub(crate) fn use_slots(&self, count: u32) {
        self.table.control().slots_used.fetch_max(count, SeqCst);
    }

    /// Draws the next sequence number, as producers do.
    #[cfg(test)]
    pub(crate) fn draw(&self) -> u64 {
        self.table.control().next_seq.0.fetch_add(1, SeqCst)
    }

    /// Draws the number of the first record of a child, as producers do before they fork.
    #[cfg(test)]
    pub(crate) fn draw_birth(&self) -> u64 {
        self.table.control().births.fetch_add(1, SeqCst);
        self.draw()
    }

    /// The child has published its first record.
    #[cfg(test)]
    pub(crate) fn end_birth(&self) {
        self.table.control().births.fetch_sub(1, SeqCst);
    }

    /// Bytes that were published and not yet copied, given that `taken` bytes of this slot were copied.
    pub(crate) fn published(&self, index: SlotIndex, taken: u64) -> Result<u64, BadCounters> {
        let head = self.slot(index).head.load(Acquire);
        match head.checked_sub(taken) {
            Some(available) if available <= RING_BYTES as u64 => Ok(available),
            _ => Err(BadCounters { head, tail: taken }),
        }
    }

    /// Maps the ring of a slot.
    pub(crate) fn map_ring(&self, index: SlotIndex) -> io::Result<RingMap> {
        RingMap::map(&self.file, ring_offset(index.0))
    }

    /// Fills `buffer` with published bytes, starting at position `from` of the slot's stream, and frees their room in the
    /// ring. They are read from `ring` if that is given.
    pub(crate) fn take(
        &self,
        index: SlotIndex,
        ring: Option<&RingMap>,
        from: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let start = (from % RING_BYTES as u64) as usize;
        let count = buffer.len();
        let (before_wrap, after_wrap) = buffer.split_at_mut(count.min(RING_BYTES - start));
        for (part, start) in [(before_wrap, start), (after_wrap, 0)] {
            match ring {
                Some(ring) => ring.copy_to(part, start),
                None => {
                    let offset = ring_offset(index.0) + start;
                    self.file.read_exact_at(part, offset as u64)?;
                }
            }
        }
        self.release(index, from + count as u64);
        Ok(())
    }

    /// The store that the owner of a slot had announced after publishing `head` bytes. The owner has ended.
    pub(crate) fn last_store(&self, index: SlotIndex, head: u64) -> io::Result<Option<LastStore>> {
        let mut bytes = [0; HEAD_BYTES + MAX_INTENT];
        let offset = intent_offset(index.0) as u64;
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(LastStore::of(&bytes, head))
    }

    /// Signals to the producer that everything up to `tail` is consumed.
    pub(crate) fn release(&self, index: SlotIndex, tail: u64) {
        let slot = self.slot(index);
        // Sequentially consistent on both sides: either we see that the producer is waiting, or the producer sees the new
        // tail before it sleeps.
        slot.tail.store(tail, SeqCst);
        if slot.waiting.load(SeqCst) != 0 {
            memory::futex_wake_low_word(&slot.tail);
        }
    }

    /// Frees a slot whose owner has ended. `used` bytes of its stream were copied.
    pub(crate) fn free(&self, index: SlotIndex, used: u64) -> io::Result<()> {
        // Memory can be freed only in whole pages.
        let bytes = used.min(RING_BYTES as u64).next_multiple_of(4096);
        if bytes > 0 {
            memory::punch_hole(&self.file, ring_offset(index.0) as u64, bytes)?;
        }
        let slot = self.slot(index);
        for word in [
            &slot.process,
            &slot.pid,
            &slot.tid,
            &slot.waiting,
            &slot.forking,
        ] {
            word.store(0, Relaxed);
        }
        slot.head.store(0, Relaxed);
        slot.tail.store(0, Relaxed);
        slot.state.store(slot::FREE, Release);
        Ok(())
    }

    /// Makes producers discard their records from now on, and wakes those that wait for room.
    pub(crate) fn turn_off(&self) {
        self.table.control().recording.store(recording::OFF, SeqCst);
        for index in self.occupied() {
            memory::futex_wake_low_word(&self.slot(index).tail);
        }
    }

    /// The current value of the doorbell. Read it before looking for work, and pass it to [`Wire::sleep`] afterwards.
    pub(crate) fn doorbell(&self) -> u32 {
        self.table.control().doorbell.load(SeqCst)
    }

    /// Sleeps until the doorbell differs from `seen` or `timeout` has passed.
    pub(crate) fn sleep(&self, seen: u32, timeout: Duration) {
        memory::futex_wait(&self.table.control().doorbell, seen, timeout);
    }

    /// Ends the recorder's current or next sleep.
    pub(crate) fn ring_doorbell(&self) {
        let doorbell = &self.table.control().doorbell;
        doorbell.fetch_add(1, SeqCst);
        memory::futex_wake(doorbell);
    }
}
