//! The last store of a killed thread, which the thread may have executed without recording it.
//!
//! A thread announces each store before it executes it ([`brownout_ring::Intent`]). If the thread has ended and published
//! nothing after the intent, the content of the file shows whether the store was executed. If so, it becomes an event
//! like any other, except that its calling context is unknown.
//!
//! Can miss: a store that does not change the bytes, and stores to files that can no longer be read at the path they were
//! mapped from. Can report falsely: if another process stores to the same bytes before the end of the killed thread is
//! noticed, that value may be attributed to the killed thread as well. Replaying the trace gives the same bytes in either
//! case.

use crate::slot_owner::SlotOwner;
use brownout_ring::{Intent, MAX_INTENT, Record, evidence, kind};
use std::mem::offset_of;
use std::ops::Range;
use std::time::Instant;

/// Bytes of an intent before its evidence.
pub(crate) const HEAD_BYTES: usize = size_of::<Intent>();

/// What the content of the file is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreEvidence {
    Before,
    BeforeParts,
    Value,
}

/// A store that its thread had announced and not published.
#[derive(Clone, Debug)]
pub(crate) struct LastStore {
    /// The record that the store would have, without its payload.
    pub(crate) head: Record,
    evidence: StoreEvidence,
    bytes: Vec<u8>,
}

/// A last store whose turn in the order of events has not come yet.
pub(crate) struct PendingStore {
    pub(crate) owner: SlotOwner,
    pub(crate) store: LastStore,
    /// Numbers below this one were drawn before the end of the thread was detected, perhaps for stores to the same bytes.
    /// Their records come first.
    pub(crate) drawn: u64,
    pub(crate) since: Instant,
}

impl LastStore {
    /// Reads the intent of a thread that has published `head` bytes. Returns `None` if no intent is open. The bytes are not
    /// trusted.
    pub(crate) fn of(bytes: &[u8], head: u64) -> Option<LastStore> {
        let (intent, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let u64_at = |at| u64::from_ne_bytes(field(intent, at));
        let u16_at = |at| u16::from_ne_bytes(field(intent, at));
        let u32_at = |at| u32::from_ne_bytes(field(intent, at));
        if u64_at(offset_of!(Intent, at)) != head {
            return None;
        }
        let size = u32_at(offset_of!(Intent, size));
        let kind = u16_at(offset_of!(Intent, kind));
        if !matches!(kind, kind::STORE | kind::KERNEL_WRITE) || size as usize > MAX_INTENT {
            return None;
        }
        let evidence = match u32_at(offset_of!(Intent, evidence)) {
            evidence::BEFORE => StoreEvidence::Before,
            evidence::BEFORE_PARTS => StoreEvidence::BeforeParts,
            evidence::VALUE => StoreEvidence::Value,
            _ => return None,
        };
        Some(LastStore {
            head: Record {
                len: 0,
                kind,
                flags: u16_at(offset_of!(Intent, flags)),
                seq: 0,
                pc: u64_at(offset_of!(Intent, pc)),
                context: 0,
                size,
                addr: u64_at(offset_of!(Intent, addr)),
            },
            evidence,
            bytes: rest.get(..size as usize)?.to_vec(),
        })
    }

    /// The parts of the store that were executed, given what the file holds now.
    pub(crate) fn made(&self, now: &[u8]) -> Vec<Range<usize>> {
        let whole = || std::iter::once(0..now.len()).collect();
        match self.evidence {
            StoreEvidence::Before if now != self.bytes => whole(),
            StoreEvidence::Value if now == self.bytes => whole(),
            StoreEvidence::Before | StoreEvidence::Value => Vec::new(),
            StoreEvidence::BeforeParts => {
                let mut parts: Vec<Range<usize>> = Vec::new();
                for (at, (now, before)) in now.iter().zip(&self.bytes).enumerate() {
                    if now == before {
                        continue;
                    }
                    match parts.last_mut().filter(|part| part.end == at) {
                        Some(part) => part.end += 1,
                        None => parts.push(at..at + 1),
                    }
                }
                parts
            }
        }
    }
}

/// The `N` bytes at `offset` of an intent's head.
fn field<const N: usize>(head: &[u8; HEAD_BYTES], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&head[offset..offset + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_producer::intent;

    /// The starts and ends of what was stored.
    fn made(store: &LastStore, now: &[u8]) -> Vec<(usize, usize)> {
        let parts = store.made(now).into_iter();
        parts.map(|part| (part.start, part.end)).collect()
    }

    fn last(evidence: u32, bytes: &[u8]) -> LastStore {
        LastStore::of(&intent(80, 0x7000, evidence, bytes), 80).expect("it is open")
    }

    #[test]
    fn a_store_was_made_if_memory_has_changed() {
        let store = last(evidence::BEFORE, &[1, 2, 3, 4]);
        assert_eq!((store.head.addr, store.head.size), (0x7000, 4));
        assert_eq!(made(&store, &[1, 2, 3, 5]), [(0, 4)]);
        assert_eq!(made(&store, &[1, 2, 3, 4]), []);
    }

    #[test]
    fn only_the_changed_parts_of_a_partial_store_were_made() {
        let store = last(evidence::BEFORE_PARTS, &[0; 6]);
        assert_eq!(made(&store, &[9, 9, 0, 0, 0, 9]), [(0, 2), (5, 6)]);
        assert_eq!(made(&store, &[0; 6]), []);
    }

    #[test]
    fn a_value_was_stored_if_memory_holds_it() {
        let store = last(evidence::VALUE, &[7; 16]);
        assert_eq!(made(&store, &[7; 16]), [(0, 16)]);
        assert_eq!(made(&store, &[0; 16]), []);
    }

    #[test]
    fn an_intent_is_void_once_a_record_is_published_after_it() {
        let bytes = intent(80, 0x7000, evidence::BEFORE, &[1; 8]);
        assert!(LastStore::of(&bytes, 128).is_none());
        assert!(
            LastStore::of(&intent(Intent::VOID, 0x7000, evidence::BEFORE, &[1; 8]), 80).is_none()
        );
    }

    #[test]
    fn malformed_intents_are_ignored() {
        let good = intent(80, 0x7000, evidence::BEFORE, &[1; 8]);
        for len in 0..good.len() {
            assert!(LastStore::of(&good[..len], 80).is_none(), "{len}");
        }
        assert!(LastStore::of(&intent(80, 0x7000, evidence::NONE, &[1; 8]), 80).is_none());
        assert!(LastStore::of(&intent(80, 0x7000, 77, &[1; 8]), 80).is_none());
        let long = intent(80, 0x7000, evidence::BEFORE, &[1; MAX_INTENT + 1]);
        assert!(LastStore::of(&long, 80).is_none());
    }
}
