//! Which words are version locks: a bit says that the lock is held, and the bits above it count how often it was released.
//!
//! Such a lock is taken by a locked instruction that sets the bit, and released by one, or by a plain store, that clears it and
//! leaves a greater number: the version locks of optimistic lock coupling, and sequence locks. The value never returns, so what
//! is seen of one release could be a counter. A word is taken for a lock if the instructions that take it and those that release it
//! alternate and are different ones, and
//!
//! - it was released three times, or
//! - it was released, and the instructions that took it have taken, by the same bit, a word that was released three times.
//!
//! What was stored before a word was first taken is its initialisation, and is no part of the lock: other bits of the word can be data.
//!
//! Can miss: version locks that are released at most twice in the whole run, and those that locked instructions both take and release by
//! adding one, which look like counters. Takes for a lock: a counter that two instructions increment by the same greater power of two,
//! strictly by turns.

use brownout_trace::{AppPc, ContextId, ProcessId, ThreadId};
use rustc_hash::FxHashSet;

/// How often a word has to be released before the instructions that take it are known to take locks.
const TELLING_RELEASES: u32 = 3;

/// An instruction of a process, and how it was called.
pub(super) type CodeSite = (ProcessId, AppPc, ContextId);

type Instruction = (ProcessId, AppPc);

/// The instructions that are known to take version locks, with the bit that they set.
pub(super) type LockingInstructions = FxHashSet<(Instruction, u64)>;

/// A store that has changed a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordChange {
    pub(super) time: u64,
    pub(super) site: CodeSite,
    pub(super) thread: ThreadId,
    pub(super) locked: bool,
    pub(super) before: u64,
    pub(super) after: u64,
}

/// Follows a word that may be a version lock.
#[derive(Debug, Default)]
pub(super) struct VersionWord {
    state: VersionState,
    /// When it was first taken.
    since: u64,
    releases: u32,
    /// The code that has taken it, with the bit that it has set.
    taken_by: FxHashSet<(CodeSite, u64)>,
    released_by: FxHashSet<Instruction>,
}

#[derive(Clone, Copy, Debug, Default)]
enum VersionState {
    #[default]
    Free,
    Held {
        by: (ProcessId, ThreadId),
        bit: u64,
        /// The value before it was taken.
        before: u64,
    },
    NoLock,
}

impl VersionWord {
    /// A store has changed the word.
    pub(super) fn change(&mut self, change: &WordChange) {
        match self.state {
            VersionState::NoLock => {}
            VersionState::Held { by, bit, before } if change.releases(by, bit, before) => {
                self.state = VersionState::Free;
                self.releases += 1;
                self.released_by.insert(change.instruction());
            }
            VersionState::Free | VersionState::Held { .. } if self.releases == 0 => {
                self.taken_by.clear();
                self.take(change);
            }
            VersionState::Free => self.take(change),
            VersionState::Held { .. } => self.state = VersionState::NoLock,
        }
    }

    /// The word is not held. Anything else than taking it is initialisation, or shows that it is no lock.
    fn take(&mut self, change: &WordChange) {
        self.state = match change.taken_bit() {
            Some(bit) => {
                if self.releases == 0 {
                    self.since = change.time;
                }
                self.taken_by.insert((change.site, bit));
                VersionState::Held {
                    by: change.thread(),
                    bit,
                    before: change.before,
                }
            }
            None if self.releases == 0 => VersionState::Free,
            None => VersionState::NoLock,
        };
    }

    /// Something else than a store has changed the word.
    pub(super) fn written(&mut self) {
        match self.releases {
            0 => self.state = VersionState::Free,
            _ => self.state = VersionState::NoLock,
        }
    }

    /// Whether it can no longer turn out to be a lock.
    pub(super) fn is_ruled_out(&self) -> bool {
        matches!(self.state, VersionState::NoLock)
    }

    /// The instructions that this word shows to take locks.
    pub(super) fn shown(&self) -> impl Iterator<Item = (Instruction, u64)> {
        let is_shown = self.is_candidate() && self.releases >= TELLING_RELEASES;
        let taken_by = self.taken_by.iter().filter(move |_| is_shown);
        taken_by.map(|&(site, bit)| (instruction(site), bit))
    }

    /// The code that has taken it.
    pub(super) fn takers(&self) -> impl Iterator<Item = CodeSite> {
        self.taken_by.iter().map(|&(site, _)| site)
    }

    /// Since when the word is a lock; `None` if it is none.
    pub(super) fn lock_since(&self, known: &LockingInstructions) -> Option<u64> {
        let is_known = |&(site, bit): &(CodeSite, u64)| known.contains(&(instruction(site), bit));
        let is_lock = self.is_candidate() && self.taken_by.iter().all(is_known);
        is_lock.then_some(self.since)
    }

    fn is_candidate(&self) -> bool {
        let mut takers = self.takers();
        let has_released = |site| self.released_by.contains(&instruction(site));
        !self.is_ruled_out() && self.releases > 0 && !takers.any(has_released)
    }
}

impl WordChange {
    fn instruction(&self) -> Instruction {
        instruction(self.site)
    }

    fn thread(&self) -> (ProcessId, ThreadId) {
        (self.site.0, self.thread)
    }

    /// The bit that it sets if it takes a lock.
    fn taken_bit(&self) -> Option<u64> {
        let set = self.before ^ self.after;
        (self.locked && set.is_power_of_two() && self.after & set != 0).then_some(set)
    }

    fn releases(&self, by: (ProcessId, ThreadId), bit: u64, before: u64) -> bool {
        // So does a counter in a loop of which a compiler has made two copies.
        let counts_on = self.locked && bit == 1 && self.after == self.before.wrapping_add(1);
        self.thread() == by && self.after & bit == 0 && self.after > before && !counts_on
    }
}

fn instruction((process, pc, _): CodeSite) -> Instruction {
    (process, pc)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKE: u64 = 1;
    const TAKE_RARELY: u64 = 2;
    const RELEASE: u64 = 3;
    const INITIALISE: u64 = 4;

    /// A word that is 0 at first and changed by these instructions to these values.
    fn word(changes: &[(u64, u64)]) -> VersionWord {
        by_threads(
            &changes
                .iter()
                .map(|&(pc, to)| (1, pc, to))
                .collect::<Vec<_>>(),
        )
    }

    fn by_threads(changes: &[(u32, u64, u64)]) -> VersionWord {
        let mut word = VersionWord::default();
        let mut before = 0;
        for (time, &(thread, pc, after)) in changes.iter().enumerate() {
            word.change(&WordChange {
                time: time as u64,
                site: (ProcessId(1), AppPc(pc), ContextId::ROOT),
                thread: ThreadId(thread),
                locked: true,
                before,
                after,
            });
            before = after;
        }
        word
    }

    fn known(word: &VersionWord) -> LockingInstructions {
        word.shown().collect()
    }

    fn is_lock(word: &VersionWord) -> bool {
        word.lock_since(&known(word)).is_some()
    }

    const THREE_TIMES: [(u64, u64); 6] = [
        (TAKE, 2),
        (RELEASE, 4),
        (TAKE, 6),
        (RELEASE, 8),
        (TAKE, 10),
        (RELEASE, 12),
    ];

    #[test]
    fn a_word_that_is_released_three_times_is_a_lock() {
        assert!(is_lock(&word(&THREE_TIMES)));
        assert!(!is_lock(&word(&THREE_TIMES[..4])));
        assert!(is_lock(&word(&[&THREE_TIMES[..], &[(TAKE, 14)]].concat())));
    }

    #[test]
    fn its_instructions_show_other_words_to_be_locks() {
        let known = known(&word(&THREE_TIMES));
        let obsolete = [(TAKE, 2), (RELEASE, 5)];
        assert!(word(&obsolete).lock_since(&known).is_some());
        let by_another = [(TAKE_RARELY, 2), (RELEASE, 4)];
        assert!(word(&by_another).lock_since(&known).is_none());
        let another_bit = [(TAKE, 4), (RELEASE, 8)];
        assert!(word(&another_bit).lock_since(&known).is_none());
        let never_released = [(TAKE, 2)];
        assert!(word(&never_released).lock_since(&known).is_none());
    }

    #[test]
    fn it_is_a_lock_from_when_it_is_first_taken() {
        let initialised: Vec<(u64, u64)> = [(INITIALISE, 1 << 40), (INITIALISE, 3 << 40)]
            .into_iter()
            .chain(THREE_TIMES.map(|(pc, to)| (pc, to + (3 << 40))))
            .collect();
        let word = word(&initialised);
        assert_eq!(word.lock_since(&known(&word)), Some(2));
    }

    #[test]
    fn a_counter_is_no_lock() {
        let counted: Vec<(u64, u64)> = (1..9).map(|to| (TAKE, to)).collect();
        assert!(!is_lock(&word(&counted)));
        let known = known(&word(&THREE_TIMES));
        let by_twos: Vec<(u64, u64)> = (1..9).map(|to| (TAKE, 2 * to)).collect();
        assert!(word(&by_twos).lock_since(&known).is_none());
        let up_and_down = [(TAKE, 1), (RELEASE, 0)].repeat(4);
        assert!(!is_lock(&word(&up_and_down)));
    }

    #[test]
    fn a_word_that_is_used_otherwise_is_no_lock() {
        let overwritten = [&THREE_TIMES[..], &[(INITIALISE, 40)]].concat();
        assert!(!is_lock(&word(&overwritten)));
        let released_by_another = THREE_TIMES.map(|(pc, to)| (pc as u32, pc, to));
        assert!(!is_lock(&by_threads(&released_by_another)));
        let mut written = word(&THREE_TIMES);
        written.written();
        assert!(!is_lock(&written));
    }
}
