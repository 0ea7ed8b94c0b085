//! The latest exchange at each word, by which a thread learns that another one has acquired what it held.
//!
//! A sparse table, indexed by the low bits of the word's address. Generated code writes it after each exchange that changes
//! something, without a lock: an entry may be that of another word with the same low bits, and then nothing is known.
//!
//! What it can miss: the time between an exchange and its entry here, in which the word's last holder still counts as one.

use crate::memory;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bits of an address that choose the entry.
const INDEX_BITS: u32 = 16;
/// The bytes of an entry, known to assembly.
pub const ENTRY_BYTES: u64 = 64;

/// An exchange: known by offset to assembly.
#[repr(C, align(64))]
pub struct Exchanged {
    pub word: AtomicU64,
    pub old: AtomicU64,
    pub new: AtomicU64,
    /// The address of the context of the thread that made it.
    pub thread: AtomicU64,
    /// 0 if it was made because a comparison succeeded.
    pub exchanged: AtomicU64,
}

/// An exchange that another thread has made: the word before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeByOthers {
    pub old: u64,
    pub new: u64,
    /// It was made because a comparison succeeded.
    pub compared: bool,
}

const _: () = assert!(size_of::<Exchanged>() as u64 == ENTRY_BYTES);

static TABLE: AtomicU64 = AtomicU64::new(0);

/// Maps the table.
pub fn create() {
    TABLE.store(memory::map(ENTRY_BYTES << INDEX_BITS), Ordering::Relaxed);
}

/// Address of the table, for contexts.
pub fn table() -> u64 {
    TABLE.load(Ordering::Relaxed)
}

/// The entry that a word has or would have.
pub fn entry(word: u64) -> &'static Exchanged {
    let table = table();
    assert!(table != 0, "the table of exchanges is not there yet");
    let index = word & ((1 << INDEX_BITS) - 1);
    // SAFETY: the index is below the number of entries, and the table is never unmapped. Zeros are a valid entry.
    unsafe { &*((table + index * ENTRY_BYTES) as *const Exchanged) }
}

impl Exchanged {
    /// The exchange, if it was made at `word` and not by `thread`.
    pub fn by_others(&self, word: u64, thread: u64) -> Option<ChangeByOthers> {
        let values = || {
            (
                self.word.load(Ordering::Acquire),
                self.thread.load(Ordering::Relaxed),
                self.old.load(Ordering::Relaxed),
                self.new.load(Ordering::Relaxed),
                self.exchanged.load(Ordering::Relaxed) == 0,
            )
        };
        let read = values();
        // Another thread may be in the middle of writing it.
        let (at, by, old, new, compared) = if values() == read { read } else { values() };
        (at == word && by != thread).then_some(ChangeByOthers { old, new, compared })
    }

    /// Whether `thread` has made the latest exchange at `word`.
    pub fn is_by(&self, word: u64, thread: u64) -> bool {
        self.word.load(Ordering::Relaxed) == word && self.thread.load(Ordering::Relaxed) == thread
    }

    /// Notes an exchange that generated code has not noted.
    pub fn note(&self, word: u64, (old, new): (u64, u64), thread: u64) {
        self.exchanged.store(1, Ordering::Relaxed);
        self.old.store(old, Ordering::Relaxed);
        self.new.store(new, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.word.store(word, Ordering::Release);
    }
}
