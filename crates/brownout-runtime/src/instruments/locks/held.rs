//! Which of the words that a thread has changed atomically are locks that it holds.
//!
//! An atomic instruction that only sets bits may have acquired a lock, and one that only counts upwards may have entered a lock
//! for readers. Whether it has shows when the thread undoes it:
//!
//! 1. The bits are clear again: by a plain store, by arithmetic, or by an exchange that restores the word. The other bits may
//!    have changed if there was one lock bit only: versions advance, and a word can hold several locks.
//! 2. What was added is subtracted by the same thread: the lock was shared, or it is a count that protects nothing, which does
//!    no harm because nobody holds it exclusively.
//!
//! Plain stores are not observed. A word is compared with what its acquire wrote when that matters, and with what other
//! threads found when they changed it since ([`Surroundings::change_by_others`]): a lock that another thread has acquired was
//! released before.
//!
//! What it can miss: locks whose word is zero while they are held, queue and ticket locks, words that cross eight bytes, and all but the
//! latest [`MAX_HELD`] of a thread. What it can take for a lock: a value that one thread publishes and withdraws again by a plain
//! store or a subtraction, and an index whose lowest bit is set and cleared by the comparisons of one thread without any
//! other change in between.

use super::operation::{AtomicOperation, Change, mask};
use super::owners::ChangeByOthers;

/// Words that a thread is remembered to have acquired.
pub const MAX_HELD: usize = 16;

/// A lock was acquired or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    Acquire {
        word: u64,
        size: u8,
        shared: bool,
        pc: u64,
    },
    Release {
        word: u64,
        shared: bool,
        /// Exchanges have acquired and released it.
        exchanged: bool,
        pc: u64,
    },
}

/// What the thread does not know by itself.
pub trait Surroundings {
    /// Where in memory a word can be read.
    fn place(&mut self, word: u64) -> u64;
    /// The eight bytes at an address, if they can be read.
    fn load(&mut self, aligned: u64) -> Option<u64>;
    /// The latest exchange at a word, if another thread made it.
    fn change_by_others(&mut self, word: u64) -> Option<ChangeByOthers>;
    /// The word holds values that are published, and is no lock.
    fn set_published(&mut self, word: u64);
    fn is_published(&mut self, word: u64) -> bool;
    /// Whether acquires of the instruction at `pc` are worth an event: some were locks, or there were few.
    fn is_worthwhile(&mut self, pc: u64) -> bool;
    /// What was reported to be held is no longer known.
    fn forgotten(&mut self);
    fn event(&mut self, event: LockEvent);
}

/// A word that the thread has changed and may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    word: u64,
    size: u8,
    pc: u64,
    /// Where the word can be read.
    place: u64,
    /// The word before its acquire, and as it is now.
    old: u64,
    current: u64,
    /// The bits that are set while it is held; 0 if the instruction only counted.
    bits: u64,
    /// What the acquire has added.
    amount: u64,
    /// How often a count was entered.
    depth: u32,
    /// An exchange has acquired it.
    exchanged: bool,
    reported: bool,
    /// A change by another thread while the word was held.
    seen: Option<ChangeByOthers>,
}

/// How a word was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Store,
    Arithmetic,
    Exchange,
    CompareExchange,
}

impl Held {
    fn is_counted(&self) -> bool {
        self.bits == 0
    }

    /// The eight aligned bytes around the word, and the bits of it there that are set while it is held.
    pub fn compared_bits(&self) -> Option<(u64, u64)> {
        (!self.is_counted()).then(|| (self.place & !7, self.bits << (8 * (self.place & 7))))
    }

    pub fn word(&self) -> u64 {
        self.word
    }

    /// Whether the word is in a state in which the bits and the latest exchange do not decide.
    pub fn is_contended(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether what was done to the word is what is done to a lock.
    fn is_lock(&self, value: u64, how: How) -> bool {
        let restored = value == self.old;
        let one_bit = self.bits.is_power_of_two();
        // Pointers and offsets of published objects have their bits elsewhere.
        let bit = self.bits.trailing_zeros();
        let is_flag = one_bit && (bit < 4 || bit >= 8 * u32::from(self.size) - 3 || bit >= 48);
        let cleared = value == self.current & !self.bits;
        match how {
            How::Store | How::Arithmetic => restored || one_bit,
            How::Exchange => restored && (is_flag || self.size <= 4),
            How::CompareExchange => is_flag && (restored || cleared),
        }
    }
}

/// The words that a thread may hold, in the order of their acquires.
#[derive(Clone, Copy, Debug)]
pub struct HeldLocks {
    held: [Held; MAX_HELD],
    len: usize,
}

impl HeldLocks {
    pub const fn new() -> HeldLocks {
        let none = Held {
            word: 0,
            size: 0,
            pc: 0,
            place: 0,
            old: 0,
            current: 0,
            bits: 0,
            amount: 0,
            depth: 0,
            exchanged: false,
            reported: false,
            seen: None,
        };
        HeldLocks {
            held: [none; MAX_HELD],
            len: 0,
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> + ExactSizeIterator {
        self.held[..self.len].iter()
    }

    /// The thread has made an operation.
    pub fn operation(&mut self, op: &AtomicOperation, around: &mut impl Surroundings) {
        if op.changes_nothing() || (op.word & 7) + u64::from(op.size) > 8 {
            return;
        }
        let known = self.iter().rposition(|held| held.word == op.word);
        if let Some(index) = known
            && self.again(index, op, around)
        {
            return;
        }
        self.acquire(op, around);
    }

    /// An operation on a word that the thread may hold. False if the word had been released before.
    fn again(
        &mut self,
        index: usize,
        op: &AtomicOperation,
        around: &mut impl Surroundings,
    ) -> bool {
        let held = self.held[index];
        let undone = held.amount.wrapping_neg() & op.mask();
        let counts = held.amount != 0 && op.amount().is_some();
        if held.is_counted() {
            if counts && op.amount() == Some(held.amount) {
                self.held[index].depth += 1;
            } else if counts && op.amount() == Some(undone) {
                self.held[index].depth -= 1;
                if self.held[index].depth == 0 {
                    self.release(index, true, around);
                }
            } else if matches!(op.change, Change::Exchange { new, .. } if new == held.old) {
                // What looked like another reader was a mark of a thread that waited.
                self.release(index, false, around);
            }
            return true;
        }
        if let Some(set) = op.set_before(held.bits)
            && set != held.bits
        {
            let before = match op.change {
                Change::CompareExchange { old, .. } | Change::Exchange { old, .. } => old,
                _ => held.current & !held.bits,
            };
            self.let_go(index, before, How::Store, around);
            return false;
        }
        let before = match op.change {
            Change::CompareExchange { old, .. } | Change::Exchange { old, .. } => old,
            _ => held.current,
        };
        let after = op.after(before);
        let how = match op.change {
            Change::CompareExchange { .. } => How::CompareExchange,
            Change::Exchange { .. } => How::Exchange,
            _ => How::Arithmetic,
        };
        if how == How::Arithmetic
            && counts
            && op.amount() == Some(undone)
            && held.amount.is_power_of_two()
        {
            self.release(index, true, around);
        } else if after & held.bits == held.bits {
            self.held[index].current = after;
        } else {
            self.let_go(index, after, how, around);
        }
        true
    }

    /// An operation on a word that the thread does not hold.
    fn acquire(&mut self, op: &AtomicOperation, around: &mut impl Surroundings) {
        let (old, new, counted) = match op.change {
            Change::CompareExchange { old, new } => {
                let (sets, clears) = (new & !old != 0, old & !new != 0);
                let amount = new.wrapping_sub(old);
                let is_step = amount.is_power_of_two() || amount.wrapping_neg().is_power_of_two();
                if sets && clears && !is_step {
                    around.set_published(op.word);
                }
                if sets && !clears {
                    (old, new, false)
                } else if new > old && amount.is_power_of_two() {
                    (old, new, true)
                } else {
                    return;
                }
            }
            // All of the word is replaced: it holds nothing but the lock, which is free at zero.
            Change::Exchange { old: 0, new } => (0, new, false),
            Change::SetBit(bits) => (0, bits, false),
            Change::Add(amount) if amount & op.mask() <= op.mask() / 2 => (0, amount, true),
            _ => return,
        };
        let bits = if counted { 0 } else { new & !old };
        let amount = match op.change {
            Change::CompareExchange { .. } | Change::Add(_) => new.wrapping_sub(old) & op.mask(),
            _ => 0,
        };
        if self.len == MAX_HELD {
            // Counts that are never undone are the most frequent.
            let index = self.iter().position(Held::is_counted).unwrap_or(0);
            self.forget(index, around);
        }
        self.held[self.len] = Held {
            word: op.word,
            size: op.size,
            pc: op.pc,
            place: around.place(op.word),
            old,
            current: new,
            bits,
            amount,
            depth: 1,
            exchanged: matches!(op.change, Change::Exchange { .. }),
            reported: false,
            seen: None,
        };
        self.len += 1;
    }

    /// Finds out which words were released by plain stores.
    pub fn check(&mut self, around: &mut impl Surroundings) {
        let mut index = 0;
        while index < self.len {
            if self.is_still_held(index, around) {
                index += 1;
            }
        }
    }

    /// Whether a word is still held; if not, it is removed.
    fn is_still_held(&mut self, index: usize, around: &mut impl Surroundings) -> bool {
        let held = self.held[index];
        let Some((aligned, _)) = held.compared_bits() else {
            return true;
        };
        let Some(eight) = around.load(aligned) else {
            self.forget(index, around);
            return false;
        };
        let value = eight >> (8 * (held.place & 7)) & mask(held.size);
        let change = around.change_by_others(held.word);
        if let Some(other) = change.filter(|_| held.seen != change) {
            if other.old & held.bits != held.bits {
                self.let_go(index, other.old, How::Store, around);
                return false;
            }
            let amount = other.new.wrapping_sub(other.old) & mask(held.size);
            if other.compared && held.amount != 0 && amount == held.amount {
                // The word counts readers.
                self.held[index].bits = 0;
                return true;
            }
            let mark = other.new & !held.old;
            if other.new & held.bits != held.bits && value == other.new && mark != 0 {
                // A thread that waits has left a mark in place of the bits.
                let held = &mut self.held[index];
                (held.seen, held.bits, held.current) = (change, mark, other.new);
                return true;
            }
        }
        if value & held.bits == held.bits {
            return true;
        }
        self.let_go(index, value, How::Store, around);
        false
    }

    /// Reports what is held.
    pub fn report(&mut self, around: &mut impl Surroundings) {
        for held in &mut self.held[..self.len] {
            if held.reported || around.is_published(held.word) || !around.is_worthwhile(held.pc) {
                continue;
            }
            held.reported = true;
            around.event(LockEvent::Acquire {
                word: held.word,
                size: held.size,
                shared: held.is_counted(),
                pc: held.pc,
            });
        }
    }

    /// The process was forked: the words that `is_own` are held by this process, too, which has reported nothing.
    pub fn forked(&mut self, mut is_own: impl FnMut(u64) -> bool) {
        let mut kept = 0;
        for index in 0..self.len {
            let mut held = self.held[index];
            if is_own(held.word) {
                held.reported = false;
                self.held[kept] = held;
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// A word is no longer held: it was a lock if `value` and `how` it came there are those of one.
    fn let_go(&mut self, index: usize, value: u64, how: How, around: &mut impl Surroundings) {
        let held = self.held[index];
        if held.is_lock(value, how) && !around.is_published(held.word) {
            self.released(
                index,
                (false, held.exchanged && how == How::Exchange),
                around,
            );
        } else {
            self.forget(index, around);
        }
    }

    /// Nothing more will be reported of a word.
    fn forget(&mut self, index: usize, around: &mut impl Surroundings) {
        if self.held[index].reported {
            around.forgotten();
        }
        self.remove(index);
    }

    fn release(&mut self, index: usize, shared: bool, around: &mut impl Surroundings) {
        self.released(index, (shared, false), around);
    }

    fn released(
        &mut self,
        index: usize,
        (shared, exchanged): (bool, bool),
        around: &mut impl Surroundings,
    ) {
        let held = self.held[index];
        self.remove(index);
        if held.reported {
            around.event(LockEvent::Release {
                word: held.word,
                shared,
                exchanged,
                pc: held.pc,
            });
        }
    }

    fn remove(&mut self, index: usize) {
        self.held.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }
}

impl Default for HeldLocks {
    fn default() -> Self {
        HeldLocks::new()
    }
}

#[cfg(test)]
mod tests;
