//! The sites of the chunk being written, numbered in the order of their first use, and the prediction of the next site,
//! which writer and reader share.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::fields::FieldWriter;

/// What is the same for all events of a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey {
    pub(crate) pc: u64,
    pub(crate) context: u32,
    pub(crate) size: u32,
    pub(crate) op: u8,
}

struct EncodedSite {
    key: SiteKey,
    memory: SiteHistory,
}

/// The last address and value of a site, to which the next event is stored relative.
#[derive(Clone, Copy, Default)]
pub(crate) struct SiteHistory {
    pub(crate) last_addr: u64,
    pub(crate) last_word: u64,
}

/// The last two sites of a thread, the older one in the upper half; 0 at first. It is one word, because loading two halves
/// that were stored separately would stall on every event.
#[derive(Clone, Copy, Default)]
pub(crate) struct LastSites(u32);

impl LastSites {
    #[inline]
    pub(crate) fn push(&mut self, site: u16) {
        self.0 = self.0 << 16 | u32::from(site);
    }
}

const PREDICTIONS: usize = 4096;

/// Predicts the next site: the one that last followed the same pair of sites. Pairs share entries, so some predictions are
/// wrong, which costs space but is harmless otherwise.
pub(crate) struct SitePredictor(Box<[u16; PREDICTIONS]>);

impl Default for SitePredictor {
    fn default() -> Self {
        SitePredictor(Box::new([0; PREDICTIONS]))
    }
}

impl SitePredictor {
    #[inline]
    pub(crate) fn after(&mut self, last_sites: LastSites) -> &mut u16 {
        let (older, newer) = (last_sites.0 >> 16, last_sites.0 & 0xffff);
        &mut self.0[(older * 61 + newer) as usize % PREDICTIONS]
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// Assigns numbers to sites.
#[derive(Default)]
pub(crate) struct SiteTable {
    sites: Vec<EncodedSite>,
    numbers: HashMap<SiteKey, u16, BuildHasherDefault<MixHasher>>,
}

impl SiteTable {
    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    pub(crate) fn clear(&mut self) {
        self.sites.clear();
        self.numbers.clear();
    }

    pub(crate) fn memory(&mut self, site: u16) -> &mut SiteHistory {
        &mut self.sites[usize::from(site)].memory
    }

    /// Whether `site` exists and has the key `key`.
    #[inline]
    pub(crate) fn is(&self, site: u16, key: &SiteKey) -> bool {
        self.sites
            .get(usize::from(site))
            .is_some_and(|site| site.key == *key)
    }

    pub(crate) fn number(&mut self, key: &SiteKey) -> u16 {
        let sites = &mut self.sites;
        *self.numbers.entry(*key).or_insert_with(|| {
            // There are at most as many sites as rows, so the number fits in 16 bits.
            let number = sites.len() as u16;
            sites.push(EncodedSite {
                key: *key,
                memory: SiteHistory::default(),
            });
            number
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put(self.sites.len() as u64);
        let (mut pc, mut context) = (0u64, 0u32);
        for EncodedSite { key, .. } in &self.sites {
            out.put_signed(key.pc.wrapping_sub(pc) as i64);
            out.put_signed(i64::from(key.context) - i64::from(context));
            out.push(key.op);
            out.put(u64::from(key.size));
            (pc, context) = (key.pc, key.context);
        }
    }
}

/// A hasher for short keys of integers: one multiplication per integer. Keys come from the target, so a target that forces
/// collisions slows down only its own recording.
#[derive(Default)]
pub(crate) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
