//! A stand-in for a thread of a target, for tests: it claims a slot, draws numbers and publishes records.

use crate::slot_owner::SlotOwner;
use crate::sys::memory::futex_wait_low_word;
use crate::wire::{SlotIndex, Wire};
use crate::wire_processes::WireProcesses;
use brownout_ring::{
    Intent, RING_BYTES, Record, SLOTS, evidence, intent_offset, kind, ring_offset, slot,
};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};
use std::time::Duration;

/// Bytes of a record before its payload.
pub(crate) const HEAD: usize = size_of::<Record>();

/// Builds the bytes of a record with the given payload.
pub(crate) fn record(head: Record, payload: &[u8]) -> Vec<u8> {
    let len = (HEAD + payload.len()).next_multiple_of(8);
    let mut bytes = vec![0; len];
    let mut put =
        |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(offset_of!(Record, len), &(len as u32).to_ne_bytes());
    put(offset_of!(Record, kind), &head.kind.to_ne_bytes());
    put(offset_of!(Record, flags), &head.flags.to_ne_bytes());
    put(offset_of!(Record, seq), &head.seq.to_ne_bytes());
    put(offset_of!(Record, pc), &head.pc.to_ne_bytes());
    put(offset_of!(Record, context), &head.context.to_ne_bytes());
    put(offset_of!(Record, size), &head.size.to_ne_bytes());
    put(offset_of!(Record, addr), &head.addr.to_ne_bytes());
    put(HEAD, payload);
    bytes
}

/// The bytes of an intent to store to `addr`.
pub(crate) fn intent(at: u64, addr: u64, evidence: u32, bytes: &[u8]) -> Vec<u8> {
    let mut intent = vec![0; size_of::<Intent>()];
    let mut put =
        |offset: usize, value: &[u8]| intent[offset..offset + value.len()].copy_from_slice(value);
    put(offset_of!(Intent, at), &at.to_ne_bytes());
    put(offset_of!(Intent, addr), &addr.to_ne_bytes());
    put(
        offset_of!(Intent, size),
        &(bytes.len() as u32).to_ne_bytes(),
    );
    put(offset_of!(Intent, kind), &kind::STORE.to_ne_bytes());
    put(offset_of!(Intent, evidence), &evidence.to_ne_bytes());
    intent.extend_from_slice(bytes);
    intent
}

/// The head of a record of `kind` about `addr` with `size` bytes of payload.
pub(crate) fn head(kind: u16, seq: u64, addr: u64, size: usize) -> Record {
    Record {
        len: 0,
        kind,
        flags: 0,
        seq,
        pc: 0x40_1000,
        context: 0,
        size: size as u32,
        addr,
    }
}

/// The kernel's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("/proc is mounted");
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

pub(crate) struct FakeProducer<'a> {
    wire: &'a Wire,
    pub(crate) slot: SlotIndex,
    head: u64,
}

impl<'a> FakeProducer<'a> {
    /// Claims the first free slot for the calling thread.
    pub(crate) fn claim(wire: &'a Wire, process: u32) -> FakeProducer<'a> {
        Self::claim_for(wire, process, std::process::id(), thread_id())
    }

    pub(crate) fn claim_for(wire: &'a Wire, process: u32, pid: u32, tid: u32) -> FakeProducer<'a> {
        let index = (0..SLOTS)
            .find(|&index| {
                let state = &wire.slot(SlotIndex(index)).state;
                state
                    .compare_exchange(slot::FREE, slot::CLAIMED, AcqRel, Relaxed)
                    .is_ok()
            })
            .expect("a free slot");
        wire.use_slots(index as u32 + 1);
        let slot = wire.slot(SlotIndex(index));
        slot.process.store(process, Relaxed);
        slot.pid.store(pid, Relaxed);
        slot.tid.store(tid, Relaxed);
        slot.state.store(slot::LIVE, Release);
        FakeProducer {
            wire,
            slot: SlotIndex(index),
            head: 0,
        }
    }

    pub(crate) fn draw(&self) -> u64 {
        self.wire.draw()
    }

    /// Draws a number and publishes a store of that number to the address of that number.
    pub(crate) fn store_own_number(&mut self) {
        let seq = self.draw();
        self.publish(&record(head(kind::STORE, seq, seq, 8), &seq.to_ne_bytes()));
    }

    /// Publishes bytes. Waits until there is room for them.
    pub(crate) fn publish(&mut self, bytes: &[u8]) {
        let slot = self.wire.slot(self.slot);
        loop {
            let tail = slot.tail.load(SeqCst);
            if self.head + bytes.len() as u64 - tail <= RING_BYTES as u64 {
                break;
            }
            slot.waiting.store(1, SeqCst);
            self.wire.ring_doorbell();
            futex_wait_low_word(&slot.tail, tail, Duration::from_secs(10));
            slot.waiting.store(0, SeqCst);
        }
        let start = self.head as usize % RING_BYTES;
        let (first, rest) = bytes.split_at(bytes.len().min(RING_BYTES - start));
        let ring = ring_offset(self.slot.0);
        self.wire
            .file()
            .write_all_at(first, (ring + start) as u64)
            .unwrap();
        self.wire.file().write_all_at(rest, ring as u64).unwrap();
        self.head += bytes.len() as u64;
        slot.head.store(self.head, Release);
    }

    /// Announces a store to `addr` that will overwrite `bytes`.
    pub(crate) fn intend(&self, addr: u64, bytes: &[u8]) {
        let bytes = intent(self.head, addr, evidence::BEFORE, bytes);
        let offset = intent_offset(self.slot.0) as u64;
        self.wire.file().write_all_at(&bytes, offset).unwrap();
    }

    pub(crate) fn close(self) {
        self.wire.slot(self.slot).state.store(slot::CLOSED, Release);
    }
}

/// The processes that have `wire` open, as this process does.
pub(crate) fn wire_processes(wire: &Wire) -> WireProcesses {
    WireProcesses::of(wire.file(), wire.file().as_raw_fd()).unwrap()
}

/// An owner as read from a slot that it has closed.
pub(crate) fn owner(process: u32, pid: u32, tid: u32) -> SlotOwner {
    let wire = Wire::create(0).unwrap();
    let producer = FakeProducer::claim_for(&wire, process, pid, tid);
    let slot = producer.slot;
    producer.close();
    SlotOwner::of(wire.slot(slot), &wire_processes(&wire))
}

/// Processor time that the calling thread has used. Unlike wall time, it does not depend on the load of the machine.
pub(crate) fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedstat.split(' ').next().unwrap().parse().unwrap())
}
