//! Locks, and the sets of them that threads hold (HawkSet §3.1.2, Fig. 2).
//!
//! The paper gives each acquisition a timestamp by a logical clock of the thread, and keeps it in the set. Here a store remembers
//! the clock alone: a lock that its thread holds later, and has held since before that clock, was held in between. So sets without
//! timestamps suffice, and equal ones are shared.

use brownout_model::ThreadSlot;
use brownout_trace::{Address, FileId, LockMode, ProcessId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A lock, by where it is. A lock in a mapped file is the same one in all mappings of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockName {
    /// In a file.
    InFile { file: FileId, offset: u64 },
    /// In other memory of a process.
    InMemory { process: ProcessId, addr: Address },
}

/// What a thread does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOperation {
    Acquire { lock: LockName, mode: LockMode },
    Release { lock: LockName },
}

/// How it is known that something is a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockSource {
    /// A known function works on it.
    Function,
    /// A semaphore that threads wait for and post themselves.
    Semaphore,
    /// Its word is taken by an atomic instruction and put back.
    Recognised,
}

/// A lock known to [`Locks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId(u32);

/// A set of locks known to [`Locks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocksetId(u32);

impl LocksetId {
    /// No lock.
    pub(crate) const EMPTY: LocksetId = LocksetId(0);
}

type Lockset = Box<[(LockId, LockMode)]>;

/// All locks and sets of locks of a run, each once.
pub(crate) struct Locks {
    names: Vec<(LockName, LockSource)>,
    ids: FxHashMap<LockName, LockId>,
    sets: Vec<Lockset>,
    set_ids: FxHashMap<Lockset, LocksetId>,
    /// What turned out not to exclude other threads, such as a semaphore that one thread posts and another one waits for.
    refuted: FxHashSet<LockId>,
    /// The threads that hold locks exclusively.
    holders: FxHashMap<LockId, ThreadSlot>,
}

/// Why two accesses cannot be concurrent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// They can.
    None,
    /// Only locks that were recognised by their instructions say so.
    RecognisedOnly(LockId),
    Known,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Locks {
            names: Vec::new(),
            ids: FxHashMap::default(),
            sets: vec![Box::default()],
            set_ids: FxHashMap::from_iter([(Box::default(), LocksetId::EMPTY)]),
            refuted: FxHashSet::default(),
            holders: FxHashMap::default(),
        }
    }

    pub(crate) fn lock(&mut self, name: LockName, source: LockSource) -> LockId {
        let names = &mut self.names;
        let id = *self.ids.entry(name).or_insert_with(|| {
            names.push((name, source));
            LockId(names.len() as u32 - 1)
        });
        if source != LockSource::Recognised {
            self.names[id.0 as usize].1 = source;
        }
        id
    }

    /// The lock with this name, if it was ever acquired.
    pub(crate) fn find(&self, name: LockName) -> Option<LockId> {
        self.ids.get(&name).copied()
    }

    pub(crate) fn name(&self, lock: LockId) -> LockName {
        self.names[lock.0 as usize].0
    }

    /// Whether it is known only by its instructions.
    pub(crate) fn is_recognised(&self, lock: LockId) -> bool {
        self.source(lock) == LockSource::Recognised
    }

    fn source(&self, lock: LockId) -> LockSource {
        self.names[lock.0 as usize].1
    }

    /// It does not exclude other threads, and never did.
    pub(crate) fn refute(&mut self, lock: LockId) {
        self.refuted.insert(lock);
    }

    pub(crate) fn is_refuted(&self, lock: LockId) -> bool {
        self.refuted.contains(&lock)
    }

    /// The thread that holds a lock exclusively.
    pub(crate) fn holder(&self, lock: LockId) -> Option<ThreadSlot> {
        self.holders.get(&lock).copied()
    }

    pub(crate) fn set_holder(&mut self, lock: LockId, holder: Option<ThreadSlot>) {
        match holder {
            Some(thread) => self.holders.insert(lock, thread),
            None => self.holders.remove(&lock),
        };
    }

    fn set(&mut self, mut locks: Vec<(LockId, LockMode)>) -> LocksetId {
        if locks.is_empty() {
            return LocksetId::EMPTY;
        }
        locks.sort_unstable();
        let locks = locks.into_boxed_slice();
        if let Some(&id) = self.set_ids.get(&locks) {
            return id;
        }
        let id = LocksetId(self.sets.len() as u32);
        self.sets.push(locks.clone());
        self.set_ids.insert(locks, id);
        id
    }

    /// The locks of a set that exclude other threads, with how they are held and known.
    pub(crate) fn members(
        &self,
        set: LocksetId,
    ) -> impl Iterator<Item = (LockName, LockMode, LockSource)> {
        let members = self.sets[set.0 as usize].iter();
        let locks = members.filter(|(lock, _)| !self.refuted.contains(lock));
        locks.map(|&(lock, mode)| (self.name(lock), mode, self.source(lock)))
    }

    /// What keeps an access with the locks `one` and another with the locks `other` apart: a lock in both sets, unless both hold it
    /// shared.
    pub(crate) fn protection(&self, one: LocksetId, other: LocksetId) -> Protection {
        let (mut one, mut other) = (
            &self.sets[one.0 as usize][..],
            &self.sets[other.0 as usize][..],
        );
        let mut found = Protection::None;
        while let (
            &[(lock, mode), ref rest @ ..],
            &[(other_lock, other_mode), ref other_rest @ ..],
        ) = (one, other)
        {
            if lock == other_lock {
                let is_shared = mode == LockMode::Shared && other_mode == LockMode::Shared;
                if !is_shared && !self.refuted.contains(&lock) {
                    if self.source(lock) != LockSource::Recognised {
                        return Protection::Known;
                    }
                    found = Protection::RecognisedOnly(lock);
                }
                (one, other) = (rest, other_rest);
            } else if lock < other_lock {
                one = rest;
            } else {
                other = other_rest;
            }
        }
        found
    }
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    lock: LockId,
    mode: LockMode,
    /// How often the thread has to release it.
    depth: u32,
    /// The logical clock of the thread when it was acquired.
    since: u32,
}

/// The locks that a thread holds, and its logical clock.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    held: Vec<Held>,
    /// Advances whenever the set changes.
    clock: u32,
    set: LocksetId,
}

impl HeldLocks {
    /// The logical clock, to be kept with a store.
    #[inline]
    pub(crate) fn clock(&self) -> u32 {
        self.clock
    }

    /// The locks held now.
    #[inline]
    pub(crate) fn now(&self) -> LocksetId {
        self.set
    }

    /// The locks held now and without interruption since the logical clock was `clock`: the effective lockset of a store that
    /// was made then, if it persists now.
    pub(crate) fn since(&self, clock: u32, locks: &mut Locks) -> LocksetId {
        if clock == self.clock {
            return self.set;
        }
        let held = self.held.iter().filter(|held| held.since <= clock);
        locks.set(held.map(|held| (held.lock, held.mode)).collect())
    }

    pub(crate) fn holds(&self, lock: LockId) -> bool {
        self.held.iter().any(|held| held.lock == lock)
    }

    /// Acquires a lock. A thread that acquires it again holds it as it did first.
    pub(crate) fn acquire(&mut self, lock: LockId, mode: LockMode, locks: &mut Locks) {
        if let Some(held) = self.held.iter_mut().find(|held| held.lock == lock) {
            held.depth += 1;
            return;
        }
        self.clock += 1;
        self.held.push(Held {
            lock,
            mode,
            depth: 1,
            since: self.clock,
        });
        self.update(locks);
    }

    /// Releases a lock once. Returns whether it is released altogether.
    pub(crate) fn release(&mut self, lock: LockId, locks: &mut Locks) -> bool {
        let Some(index) = self.held.iter().position(|held| held.lock == lock) else {
            return false;
        };
        self.held[index].depth -= 1;
        if self.held[index].depth > 0 {
            return false;
        }
        self.drop_at(index, locks);
        true
    }

    /// The lock is not held any more, however often it was acquired. Returns how often that was.
    pub(crate) fn lose(&mut self, lock: LockId, locks: &mut Locks) -> u32 {
        let Some(index) = self.held.iter().position(|held| held.lock == lock) else {
            return 0;
        };
        let depth = self.held[index].depth;
        self.drop_at(index, locks);
        depth
    }

    fn drop_at(&mut self, index: usize, locks: &mut Locks) {
        self.held.remove(index);
        self.clock += 1;
        self.update(locks);
    }

    fn update(&mut self, locks: &mut Locks) {
        let held = self.held.iter().map(|held| (held.lock, held.mode));
        self.set = locks.set(held.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(locks: &mut Locks, addr: u64) -> LockId {
        let name = LockName::InMemory {
            process: ProcessId(1),
            addr: Address(addr),
        };
        locks.lock(name, LockSource::Function)
    }

    fn is_protected(locks: &Locks, one: LocksetId, other: LocksetId) -> bool {
        locks.protection(one, other) == Protection::Known
    }

    #[test]
    fn a_lock_released_in_between_is_not_in_the_effective_lockset() {
        // HawkSet, Fig. 2d.
        let (mut locks, mut held) = (Locks::new(), HeldLocks::default());
        let (a, b) = (lock(&mut locks, 1), lock(&mut locks, 2));
        held.acquire(b, LockMode::Exclusive, &mut locks);
        held.acquire(a, LockMode::Exclusive, &mut locks);
        let (store, both) = (held.clock(), held.now());
        assert_eq!(held.since(store, &mut locks), both);
        held.release(a, &mut locks);
        held.acquire(a, LockMode::Exclusive, &mut locks);
        assert_eq!(held.now(), both);
        let effective = held.since(store, &mut locks);
        let only_b = locks.set(vec![(b, LockMode::Exclusive)]);
        assert_eq!(effective, only_b);
        held.release(b, &mut locks);
        assert_eq!(held.since(store, &mut locks), LocksetId::EMPTY);
    }

    #[test]
    fn a_recursive_lock_is_held_until_it_is_released_as_often() {
        let (mut locks, mut held) = (Locks::new(), HeldLocks::default());
        let a = lock(&mut locks, 1);
        held.acquire(a, LockMode::Exclusive, &mut locks);
        let store = held.clock();
        held.acquire(a, LockMode::Exclusive, &mut locks);
        assert!(!held.release(a, &mut locks));
        assert_eq!(held.since(store, &mut locks), held.now());
        assert!(held.release(a, &mut locks));
        assert_eq!(held.now(), LocksetId::EMPTY);
        assert!(!held.release(a, &mut locks));
    }

    #[test]
    fn readers_do_not_exclude_each_other() {
        let mut locks = Locks::new();
        let a = lock(&mut locks, 1);
        let reading = locks.set(vec![(a, LockMode::Shared)]);
        let writing = locks.set(vec![(a, LockMode::Exclusive)]);
        assert!(!is_protected(&locks, reading, reading));
        assert!(is_protected(&locks, reading, writing));
        assert!(is_protected(&locks, writing, writing));
        locks.refute(a);
        assert!(!is_protected(&locks, writing, writing));
    }

    #[test]
    fn a_recognised_lock_protects_and_is_distinguished() {
        let mut locks = Locks::new();
        let a = lock(&mut locks, 1);
        let word = LockName::InFile {
            file: FileId(0),
            offset: 0x40,
        };
        let word = locks.lock(word, LockSource::Recognised);
        let one = locks.set(vec![(a, LockMode::Shared), (word, LockMode::Exclusive)]);
        let found = locks.protection(one, one);
        assert_eq!(found, Protection::RecognisedOnly(word));
        let two = locks.set(vec![(a, LockMode::Exclusive), (word, LockMode::Exclusive)]);
        assert_eq!(locks.protection(one, two), Protection::Known);
    }
}
