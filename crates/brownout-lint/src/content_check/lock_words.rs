//! Which lost stores belong to a lock: a word that a locked instruction takes, and that the same thread puts back.
//!
//! A lock in persistent memory needs no flush. Whatever a program flushes, a crash while the lock is held can leave it held, so
//! recovery has to cope with that, and then it copes with a release that is lost. Whether it does, crash testing shows.
//!
//! A word is taken for a lock if, after its initialisation, locked instructions and plain stores to it alternate: one thread
//! changes it by a locked instruction, and then stores the same value again that it had before, without one. A counter does not
//! return to its value, and the flag of a log is set by a plain store. A lock that was released before may be held at the end: a table that
//! was replaced is left locked. A flag that is set and cleared by `xchg`, as the
//! sequentially consistent stores of C and C++ are, is not released by a plain store, and is no lock either.
//!
//! Can miss: locks that are released by a locked instruction, and locks that several readers take, which look like a flag that is set and
//! cleared by `xchg`; version numbers that are locks; locks that are taken once and never released.

use brownout_model::{ByteMask, PmAddress};
use brownout_trace::{ProcessId, ThreadId};
use rustc_hash::FxHashMap;

use super::{Line, positions};

/// Follows the words of lost stores.
#[derive(Debug, Default)]
pub(super) struct LockWords {
    by_line: FxHashMap<PmAddress, Vec<Word>>,
    /// How many may still be locks.
    open: usize,
}

#[derive(Debug)]
struct Word {
    bytes: ByteMask,
    state: WordState,
}

#[derive(Debug)]
enum WordState {
    /// No locked instruction has changed it so far.
    New,
    Held {
        by: (ProcessId, ThreadId),
        /// The content of its line before.
        before: Line,
        /// Whether it was taken and put back before.
        again: bool,
    },
    /// It was taken and put back.
    Free,
    NoLock,
}

/// A store to a line, with what the line held before and holds after it.
pub(super) struct WordStore<'a> {
    pub(super) bytes: ByteMask,
    pub(super) by: (ProcessId, ThreadId),
    pub(super) locked: bool,
    pub(super) before: &'a Line,
    pub(super) after: &'a Line,
}

impl LockWords {
    /// For the words that lost stores write.
    pub(super) fn new(stores: impl Iterator<Item = (PmAddress, ByteMask)>) -> Self {
        let mut words = Self::default();
        for (line, bytes) in stores {
            let in_line = words.by_line.entry(line).or_default();
            if in_line.iter().all(|word| word.bytes != bytes) {
                let state = WordState::New;
                in_line.push(Word { bytes, state });
                words.open += 1;
            }
        }
        words
    }

    /// Whether a word may still turn out to be a lock.
    pub(super) fn any_open(&self) -> bool {
        self.open > 0
    }

    /// Whether there are words in a line.
    pub(super) fn has(&self, line: PmAddress) -> bool {
        self.by_line.contains_key(&line)
    }

    /// A store to a line was made.
    pub(super) fn store(&mut self, line: PmAddress, store: &WordStore<'_>) {
        for word in self.by_line.get_mut(&line).into_iter().flatten() {
            self.open -= usize::from(word.take(store));
        }
    }

    /// Bytes of a line were written, and not by a store of the target.
    pub(super) fn written(&mut self, line: PmAddress, bytes: ByteMask) {
        for word in self.by_line.get_mut(&line).into_iter().flatten() {
            let is_used = matches!(word.state, WordState::Held { .. } | WordState::Free);
            if is_used && !word.bytes.and(bytes).is_empty() {
                word.state = WordState::NoLock;
                self.open -= 1;
            }
        }
    }

    /// Whether these bytes of a line are a lock.
    pub(super) fn contain(&self, line: PmAddress, bytes: ByteMask) -> bool {
        let mut words = self.by_line.get(&line).into_iter().flatten();
        words.any(|word| word.bytes == bytes && word.state.is_lock())
    }
}

impl WordState {
    fn is_lock(&self) -> bool {
        matches!(self, Self::Free | Self::Held { again: true, .. })
    }
}

impl Word {
    /// Returns whether the store shows that the word is no lock.
    fn take(&mut self, store: &WordStore<'_>) -> bool {
        let changes = |word: &Self| {
            let mut at = positions(word.bytes);
            at.any(|at| store.before[at] != store.after[at])
        };
        // A thread that waits for a lock stores the value that is there.
        if self.bytes.and(store.bytes).is_empty() || !changes(self) {
            return false;
        }
        let is_whole = store.bytes == self.bytes;
        let next = match &self.state {
            WordState::NoLock => return false,
            WordState::New if !store.locked => return false,
            WordState::New | WordState::Free if store.locked && is_whole => WordState::Held {
                by: store.by,
                before: *store.before,
                again: self.state.is_lock(),
            },
            WordState::Held { by, before, .. } if !store.locked && is_whole && *by == store.by => {
                let is_back = positions(self.bytes).all(|at| before[at] == store.after[at]);
                match is_back {
                    true => WordState::Free,
                    false => WordState::NoLock,
                }
            }
            _ => WordState::NoLock,
        };
        self.state = next;
        matches!(self.state, WordState::NoLock)
    }
}

#[cfg(test)]
mod tests {
    use brownout_model::{LINE, SpaceId};

    use super::*;

    const LINE_ZERO: PmAddress = PmAddress {
        space: SpaceId(0),
        offset: 0,
    };
    const ONE: (ProcessId, ThreadId) = (ProcessId(1), ThreadId(1));
    const TWO: (ProcessId, ThreadId) = (ProcessId(1), ThreadId(2));

    /// Whether a byte is a lock that is stored to by these threads, with or without a locked instruction.
    fn is_lock(stores: &[((ProcessId, ThreadId), bool, u8)]) -> bool {
        let bytes = ByteMask::range(8, 1);
        let mut words = LockWords::new([(LINE_ZERO, bytes)].into_iter());
        let mut before = [0; LINE as usize];
        for &(by, locked, value) in stores {
            let mut after = before;
            after[8] = value;
            let store = WordStore {
                bytes,
                by,
                locked,
                before: &before,
                after: &after,
            };
            words.store(LINE_ZERO, &store);
            before = after;
        }
        words.contain(LINE_ZERO, bytes)
    }

    #[test]
    fn a_word_that_is_taken_and_put_back_is_a_lock() {
        assert!(is_lock(&[(ONE, true, 1), (ONE, false, 0)]));
        let turns = [
            (ONE, true, 1),
            (ONE, false, 0),
            (TWO, true, 2),
            (TWO, false, 0),
        ];
        assert!(is_lock(&turns));
    }

    #[test]
    fn a_lock_may_be_held_at_the_end() {
        let abandoned = [(ONE, true, 1), (ONE, false, 0), (TWO, true, 2)];
        assert!(is_lock(&abandoned));
        // But then nobody else changes it.
        let taken_over = [&abandoned[..], &[(ONE, true, 3)]].concat();
        assert!(!is_lock(&taken_over));
        let counted_on = [&abandoned[..], &[(TWO, false, 3)]].concat();
        assert!(!is_lock(&counted_on));
    }

    #[test]
    fn it_may_be_initialised_and_waited_for() {
        let waited_for = [
            (ONE, false, 7),
            (ONE, false, 3),
            (ONE, true, 4),
            (TWO, true, 4),
            (ONE, false, 3),
        ];
        assert!(is_lock(&waited_for));
    }

    #[test]
    fn other_words_are_no_locks() {
        let held = [(ONE, true, 1)];
        let counter = [(ONE, true, 1), (ONE, true, 2)];
        let flag = [(ONE, false, 1), (ONE, false, 0)];
        let exchanged = [(ONE, true, 1), (ONE, true, 0)];
        let cleared_by_other = [(ONE, true, 1), (TWO, false, 0)];
        let moves_on = [(ONE, true, 1), (ONE, false, 2)];
        let written_later = [(ONE, true, 1), (ONE, false, 0), (ONE, false, 5)];
        assert!(!is_lock(&held));
        assert!(!is_lock(&counter));
        assert!(!is_lock(&flag));
        assert!(!is_lock(&exchanged));
        assert!(!is_lock(&cleared_by_other));
        assert!(!is_lock(&moves_on));
        assert!(!is_lock(&written_later));
    }
}
