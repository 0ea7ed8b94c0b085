//! The table of candidates: where they are, what they map, and where their aliases are.
//!
//! Only the holder of a [`crate::translator::map_lock::MapLock`] changes it; all threads read it.

use super::stripes::Stripe;
use crate::instruments::pm::{refresh_all, shared_files};
use crate::lock::Lock;
use crate::sys::linux;
use crate::translator::syscall;
use crate::{memory, wire};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use brownout_ring::FileAt;
use core::sync::atomic::{AtomicBool, Ordering};

const PROT_READ: u64 = linux::PROT_READ as u64;
const PROT_WRITE: u64 = linux::PROT_WRITE as u64;
/// Bytes that an access may begin before a candidate and still end in it.
const REACH: u64 = crate::arch::instruments::pm::form::AREA as u64;

/// One candidate mapping.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub start: u64,
    pub end: u64,
    /// Distance from the target's address to the alias.
    pub delta: u64,
    pub file: FileAt,
    /// Rights that the target has asked for.
    pub prot: u64,
}

impl Candidate {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    pub fn alias(&self) -> u64 {
        self.start.wrapping_add(self.delta)
    }

    /// Distance from an address to the number by which its stripe is chosen. The number depends on the position in
    /// the file, so that all mappings of a page share a stripe.
    pub fn stripe_delta(&self) -> u64 {
        let file = self.file.ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) & !(memory::PAGE - 1);
        (self.file.offset.wrapping_add(file)).wrapping_sub(self.start)
    }

    /// The lock for the page of an address in the mapping.
    pub fn stripe(&self, address: u64) -> Stripe {
        Stripe::of(address.wrapping_add(self.stripe_delta()))
    }

    /// The part between two addresses, which must not be outside.
    pub fn part(&self, from: u64, to: u64) -> Candidate {
        let mut file = self.file;
        file.offset += from - self.start;
        Candidate {
            start: from,
            end: to,
            file,
            ..*self
        }
    }

    /// Whether this kind of access is observed.
    pub fn observes(&self, write: bool) -> bool {
        if write {
            self.prot & PROT_WRITE != 0
        } else {
            wire::wants_loads() && self.prot & PROT_READ != 0
        }
    }
}

static MAPPINGS: Lock<BTreeMap<u64, Candidate>> = Lock::new(BTreeMap::new());
/// Files that this process or its parents have ever mapped as candidates.
static FILES: Lock<BTreeSet<(u64, u64)>> = Lock::new(BTreeSet::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there has been a candidate in this process.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Whether a file has been a candidate, here or in another process of the recording.
pub fn is_known_file(dev: u64, ino: u64) -> bool {
    FILES.lock().contains(&(dev, ino)) || shared_files::contains(dev, ino)
}

pub fn quiesced<R>(work: impl FnOnce() -> R) -> R {
    let guards = (MAPPINGS.lock(), FILES.lock());
    let result = work();
    drop(guards);
    result
}

/// The mapping around an address.
pub fn find(addr: u64) -> Option<Candidate> {
    let mappings = MAPPINGS.lock();
    let (_, mapping) = mappings.range(..=addr).next_back()?;
    (addr < mapping.end).then_some(*mapping)
}

/// The range around an address in which no access touches a candidate, even with its last byte.
pub fn gap(addr: u64) -> (u64, u64) {
    let mappings = MAPPINGS.lock();
    let start = mappings
        .range(..=addr)
        .next_back()
        .map_or(0, |(_, mapping)| mapping.end);
    let end = mappings
        .range(addr..)
        .next()
        .map_or(u64::MAX, |(&start, _)| start.saturating_sub(REACH));
    (start, end)
}

/// Mappings that overlap a range.
pub fn overlapping(start: u64, end: u64) -> Vec<Candidate> {
    let mappings = MAPPINGS.lock();
    let mut found: Vec<Candidate> = mappings
        .range(..end)
        .rev()
        .take_while(|(_, mapping)| mapping.end > start)
        .map(|(_, m)| *m)
        .collect();
    found.reverse();
    found
}

/// Whether a range touches an alias.
pub fn has_alias_in(start: u64, end: u64) -> bool {
    any()
        && MAPPINGS
            .lock()
            .values()
            .any(|m| m.alias() < end && m.alias() + m.len() > start)
}

/// Mappings of a file.
pub fn of_file(dev: u64, ino: u64) -> Vec<Candidate> {
    MAPPINGS
        .lock()
        .values()
        .filter(|m| m.file.dev == dev && m.file.ino == ino)
        .copied()
        .collect()
}

/// Start and length of the smallest range that holds all candidates and accesses that end in them.
pub fn hull() -> (u64, u64) {
    let mappings = MAPPINGS.lock();
    match (mappings.first_key_value(), mappings.last_key_value()) {
        (Some((&start, _)), Some((_, last))) => {
            let start = start.saturating_sub(REACH);
            (start, last.end - start)
        }
        _ => (0, 0),
    }
}

/// Puts a mapping where there is none.
pub fn insert(mapping: Candidate) {
    MAPPINGS.lock().insert(mapping.start, mapping);
    let file = (mapping.file.dev, mapping.file.ino);
    if FILES.lock().insert(file) {
        if shared_files::contains(file.0, file.1) {
            wire::note_shared();
        }
        shared_files::add(file.0, file.1);
    }
    if !ANY.swap(true, Ordering::Relaxed) {
        syscall::attend_all();
    }
}

/// Removes a range from the table, and puts what `and_put` returns for each part in its place.
pub fn take(
    start: u64,
    end: u64,
    and_put: impl Fn(&Candidate) -> Option<Candidate>,
) -> Vec<Candidate> {
    let mut mappings = MAPPINGS.lock();
    let hit: Vec<Candidate> = mappings
        .range(..end)
        .rev()
        .take_while(|(_, mapping)| mapping.end > start)
        .map(|(_, m)| *m)
        .collect();
    let mut parts = Vec::with_capacity(hit.len());
    for mapping in hit.iter().rev() {
        let part = mapping.part(mapping.start.max(start), mapping.end.min(end));
        mappings.remove(&mapping.start);
        let before = mapping.part(mapping.start, part.start);
        let after = mapping.part(part.end, mapping.end);
        let kept = [before, after].into_iter().filter(|kept| kept.len() > 0);
        for mapping in kept.chain(and_put(&part)) {
            mappings.insert(mapping.start, mapping);
        }
        parts.push(part);
    }
    parts
}

/// Makes all threads forget what they remember of the table.
pub fn changed() {
    let (start, len) = hull();
    refresh_all(start, len);
}
