//! Maps and sets whose keys are addresses or small numbers.
//!
//! The hash is one multiplication, because the runtime looks up addresses all the time. It does not resist keys that are chosen
//! to collide; they would only cost speed.

use core::hash::BuildHasherDefault;
use hashbrown::{HashMap, HashSet};

pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;
pub type FastSet<K> = HashSet<K, BuildHasherDefault<AddressHasher>>;

/// Multiplicative hashing for addresses and small numbers.
#[derive(Default)]
pub struct AddressHasher(u64);

impl core::hash::Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
}
