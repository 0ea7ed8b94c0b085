//! Which lost stores belong to a lock: a word that a locked instruction takes, and that the same thread puts back.
//!
//! A lock in persistent memory needs no flush. Whatever a program flushes, a crash while the lock is held can leave it held, so
//! recovery has to cope with that, and then it copes with a release that is lost. Whether it does, crash testing shows.
//!
//! A word is taken for a lock if, after its initialisation, locked instructions and plain stores to it alternate: one thread
//! changes it by a locked instruction, and then stores the same value again that it had before, without one. A counter does not
//! return to its value, and the flag of a log is set by a plain store. A lock that was released before may be held at the end, and so
//! may a lock that was never released if the same code, called in the same way, has taken other locks: a table that was replaced is
//! left locked. A flag that is set and cleared by `xchg`, as the sequentially consistent stores of C and C++ are, is not released by
//! a plain store, and is no lock either.
//!
//! Locks that do not return to their value are [version locks](super::version_locks).
//!
//! Can miss: locks that a locked instruction sets back, and locks that several readers take, which look like a flag that is set and
//! cleared by `xchg`.

use brownout_model::{ByteMask, PmAddress};
use brownout_trace::{ProcessId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::version_locks::{CodeSite, LockingInstructions, VersionWord, WordChange};
use super::{Line, positions};

/// Follows the words of lost stores.
#[derive(Debug, Default)]
pub(super) struct LockWords {
    by_line: FxHashMap<PmAddress, Vec<Word>>,
    /// How many may still be locks.
    open: usize,
}

/// Words that are locks, with the time since when they are.
#[derive(Debug, Default)]
pub(super) struct KnownLocks {
    since: FxHashMap<(PmAddress, ByteMask), u64>,
}

#[derive(Debug)]
struct Word {
    bytes: ByteMask,
    state: WordState,
    version: VersionWord,
    /// The code that has taken it, unless it is a version lock.
    taken_by: FxHashSet<CodeSite>,
}

#[derive(Debug)]
enum WordState {
    /// No locked instruction has changed it so far.
    New,
    Held {
        by: (ProcessId, ThreadId),
        /// When it was taken.
        time: u64,
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
    pub(super) time: u64,
    pub(super) site: CodeSite,
    pub(super) thread: ThreadId,
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
                in_line.push(Word {
                    bytes,
                    state: WordState::New,
                    version: VersionWord::default(),
                    taken_by: FxHashSet::default(),
                });
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
            let was_open = word.is_open();
            word.take(store);
            self.open -= usize::from(was_open && !word.is_open());
        }
    }

    /// Bytes of a line were written, and not by a store of the target.
    pub(super) fn written(&mut self, line: PmAddress, bytes: ByteMask) {
        for word in self.by_line.get_mut(&line).into_iter().flatten() {
            if word.bytes.and(bytes).is_empty() {
                continue;
            }
            let was_open = word.is_open();
            if matches!(word.state, WordState::Held { .. } | WordState::Free) {
                word.state = WordState::NoLock;
            }
            word.version.written();
            self.open -= usize::from(was_open && !word.is_open());
        }
    }

    /// The words that are locks. To be called when the stores of the whole trace were seen.
    pub(super) fn known(&self) -> KnownLocks {
        let words = || {
            let lines = self.by_line.iter();
            lines.flat_map(|(&line, words)| words.iter().map(move |word| (line, word)))
        };
        let versions: LockingInstructions =
            words().flat_map(|(_, word)| word.version.shown()).collect();
        let mut since: FxHashMap<(PmAddress, ByteMask), u64> = FxHashMap::default();
        let mut takers: FxHashSet<CodeSite> = FxHashSet::default();
        for (line, word) in words() {
            if word.state.is_lock() {
                // Its initialisation is part of it, because it never has another value.
                since.insert((line, word.bytes), 0);
                takers.extend(&word.taken_by);
            } else if let Some(time) = word.version.lock_since(&versions) {
                since.insert((line, word.bytes), time);
                takers.extend(word.version.takers());
            }
        }
        for (line, word) in words() {
            if let WordState::Held { time, .. } = word.state
                && !word.taken_by.is_disjoint(&takers)
            {
                since.entry((line, word.bytes)).or_insert(time);
            }
        }
        KnownLocks { since }
    }
}

impl KnownLocks {
    /// Whether a store to these bytes of a line takes or releases a lock.
    pub(super) fn contain(&self, line: PmAddress, bytes: ByteMask, time: u64) -> bool {
        let since = self.since.get(&(line, bytes));
        since.is_some_and(|&since| since <= time)
    }
}

impl WordState {
    fn is_lock(&self) -> bool {
        matches!(self, Self::Free | Self::Held { again: true, .. })
    }
}

impl Word {
    fn is_open(&self) -> bool {
        !(matches!(self.state, WordState::NoLock) && self.version.is_ruled_out())
    }

    fn take(&mut self, store: &WordStore<'_>) {
        let changes = |word: &Self| {
            let mut at = positions(word.bytes);
            at.any(|at| store.before[at] != store.after[at])
        };
        // A thread that waits for a lock stores the value that is there.
        if self.bytes.and(store.bytes).is_empty() || !changes(self) {
            return;
        }
        let is_whole = store.bytes == self.bytes;
        self.follow_version(store, is_whole);
        let by = (store.site.0, store.thread);
        let next = match &self.state {
            WordState::NoLock => return,
            WordState::New if !store.locked => return,
            WordState::New | WordState::Free if store.locked && is_whole => WordState::Held {
                by,
                time: store.time,
                before: *store.before,
                again: self.state.is_lock(),
            },
            WordState::Held {
                by: holder, before, ..
            } if !store.locked && is_whole && *holder == by => {
                let is_back = positions(self.bytes).all(|at| before[at] == store.after[at]);
                match is_back {
                    true => WordState::Free,
                    false => WordState::NoLock,
                }
            }
            _ => WordState::NoLock,
        };
        if matches!(next, WordState::Held { .. }) {
            self.taken_by.insert(store.site);
        }
        self.state = next;
    }

    fn follow_version(&mut self, store: &WordStore<'_>, is_whole: bool) {
        let before = value(store.before, self.bytes);
        let after = value(store.after, self.bytes);
        let (true, Some(before), Some(after)) = (is_whole, before, after) else {
            self.version.written();
            return;
        };
        self.version.change(&WordChange {
            time: store.time,
            site: store.site,
            thread: store.thread,
            locked: store.locked,
            before,
            after,
        });
    }
}

/// The number in these bytes of a line; `None` if there are more than those of a machine word.
fn value(line: &Line, bytes: ByteMask) -> Option<u64> {
    let mut number = [0; 8];
    for (index, at) in positions(bytes).enumerate() {
        *number.get_mut(index)? = line[at];
    }
    Some(u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use brownout_model::{LINE, SpaceId};
    use brownout_trace::{AppPc, ContextId};

    use super::*;

    const LINE_ZERO: PmAddress = PmAddress {
        space: SpaceId(0),
        offset: 0,
    };
    const ONE: u32 = 1;
    const TWO: u32 = 2;

    /// Stores of a thread to a byte, with or without a locked instruction.
    type ByteStores = [(u32, bool, u8)];

    /// Whether a byte is a lock that is stored to by these threads.
    fn is_lock(stores: &ByteStores) -> bool {
        are_locks(&[stores]) == [true]
    }

    /// Which bytes are locks. The stores to all of them are made by the same two instructions.
    fn are_locks(bytes: &[&ByteStores]) -> Vec<bool> {
        let word = |index: usize| ByteMask::range(8 + index as u64, 1);
        let masks = (0..bytes.len()).map(|index| (LINE_ZERO, word(index)));
        let mut words = LockWords::new(masks);
        let mut before = [0; LINE as usize];
        let mut time = 0;
        for (index, stores) in bytes.iter().enumerate() {
            for &(thread, locked, value) in *stores {
                let mut after = before;
                after[8 + index] = value;
                let store = WordStore {
                    bytes: word(index),
                    time,
                    site: (ProcessId(1), AppPc(u64::from(locked)), ContextId::ROOT),
                    thread: ThreadId(thread),
                    locked,
                    before: &before,
                    after: &after,
                };
                words.store(LINE_ZERO, &store);
                before = after;
                time += 1;
            }
        }
        let known = words.known();
        let is_known = |index| known.contain(LINE_ZERO, word(index), time);
        (0..bytes.len()).map(is_known).collect()
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
    fn code_that_takes_locks_takes_one_that_is_never_released() {
        let lock = [(ONE, true, 1), (ONE, false, 0)];
        let abandoned = [(ONE, true, 1)];
        assert_eq!(are_locks(&[&lock, &abandoned]), [true, true]);
        let counter = [(ONE, true, 1), (ONE, true, 2)];
        let set = [(ONE, false, 1)];
        assert_eq!(are_locks(&[&lock, &counter, &set]), [true, false, false]);
        assert_eq!(are_locks(&[&counter, &abandoned]), [false, false]);
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
