//! What is known of words and instructions in the whole process: which words hold published values, and which instructions
//! acquire something that is never released.
//!
//! Both are small tables without collision handling. A word that another one has displaced is taken for a lock again until it is seen
//! to be none; two instructions with one entry are both worth events if one of them is.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const ENTRIES: usize = 1024;
/// Acquires of an instruction that are reported though none has been released.
const TRIALS: u32 = 64;
/// In an entry of [`INSTRUCTIONS`]: something was released.
const RELEASED: u32 = 1 << 31;

// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static PUBLISHED: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];
// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static INSTRUCTIONS: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

fn index(address: u64) -> usize {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % ENTRIES
}

pub fn set_published(word: u64) {
    PUBLISHED[index(word)].store(word, Ordering::Relaxed);
}

pub fn is_published(word: u64) -> bool {
    PUBLISHED[index(word)].load(Ordering::Relaxed) == word
}

/// Whether another acquire of an instruction is reported.
pub fn is_worthwhile(pc: u64) -> bool {
    let known = INSTRUCTIONS[index(pc)].load(Ordering::Relaxed);
    known & RELEASED != 0 || known < TRIALS
}

/// An acquire of an instruction was reported.
pub fn acquired(pc: u64) {
    let entry = &INSTRUCTIONS[index(pc)];
    if entry.load(Ordering::Relaxed) & RELEASED == 0 {
        entry.fetch_add(1, Ordering::Relaxed);
    }
}

/// What an instruction has acquired was released.
pub fn released(pc: u64) {
    let entry = &INSTRUCTIONS[index(pc)];
    if entry.load(Ordering::Relaxed) & RELEASED == 0 {
        entry.store(RELEASED, Ordering::Relaxed);
    }
}
