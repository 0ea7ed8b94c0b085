//! Which acquires of a trace are those of locks.
//!
//! A lock that has no function of its own is recognised by its atomic instruction, and so is, at first, an atomic instruction
//! that only publishes a value. The difference shows later: the holder of a lock restores or advances its word. A recorder that
//! waited for that could not write events in order, so an acquire is recorded when it happens and confirmed by its release.
//! An analysis that needs to know in advance reads the trace twice and builds [`RecognisedLocks`] the first time.
//!
//! What it can miss: a lock that is still held at the end of its thread or of the recording.

use std::collections::HashMap;

use crate::event::{Event, EventKind};
use crate::ids::{Address, EventIndex, ProcessId, ThreadId};

/// Whether other threads can hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// One holder at a time.
    Exclusive,
    /// A reader of a lock for readers and writers.
    Shared,
}

/// What the release of a lock says about its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecognisedLock {
    /// How the lock was held.
    pub mode: LockMode,
    /// It was acquired and released by exchanges of the whole word. If only one thread does that, the word may be a flag.
    pub exchanged: bool,
}

/// The acquires that a release has confirmed.
#[derive(Clone, Debug, Default)]
pub struct RecognisedLocks {
    locks: HashMap<EventIndex, RecognisedLock>,
    /// Acquires without a release, the last one last.
    open: HashMap<(ProcessId, ThreadId, Address), Vec<EventIndex>>,
}

impl RecognisedLocks {
    /// Takes an event into account. Events must come in the order of the trace; those that are no operations on recognised
    /// locks and no ends of threads or processes can be left out.
    pub fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::LockAcquire { word, .. } => {
                let key = (event.process, event.thread, word);
                self.open.entry(key).or_default().push(event.index);
            }
            EventKind::LockRelease {
                word,
                shared,
                exchanged,
            } => {
                let key = (event.process, event.thread, word);
                let Some(acquires) = self.open.get_mut(&key) else {
                    return;
                };
                let acquire = acquires.pop();
                if acquires.is_empty() {
                    self.open.remove(&key);
                }
                let mode = if shared {
                    LockMode::Shared
                } else {
                    LockMode::Exclusive
                };
                let use_of_word = RecognisedLock { mode, exchanged };
                self.locks
                    .extend(acquire.map(|acquire| (acquire, use_of_word)));
            }
            EventKind::ThreadExit => self.open.retain(|&(process, thread, _), _| {
                (process, thread) != (event.process, event.thread)
            }),
            EventKind::ProcessExit { .. } => {
                self.open
                    .retain(|&(process, ..), _| process != event.process);
            }
            _ => {}
        }
    }

    /// How the lock of a [`LockAcquire`](EventKind::LockAcquire) is held; `None` if it was never released and is no lock.
    pub fn mode(&self, acquire: EventIndex) -> Option<LockMode> {
        self.lock(acquire).map(|lock| lock.mode)
    }

    /// The lock of a [`LockAcquire`](EventKind::LockAcquire); `None` if it was never released and is no lock.
    pub fn lock(&self, acquire: EventIndex) -> Option<RecognisedLock> {
        self.locks.get(&acquire).copied()
    }

    /// The number of acquires that are those of locks.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether no acquire is that of a lock.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AppPc, ContextId};

    const A: Address = Address(0x1000);
    const B: Address = Address(0x2000);

    fn acquire(word: Address) -> EventKind<'static> {
        EventKind::LockAcquire {
            word,
            size: 4,
            shared: false,
        }
    }

    fn release(word: Address) -> EventKind<'static> {
        EventKind::LockRelease {
            word,
            shared: false,
            exchanged: false,
        }
    }

    /// The events of threads, in order.
    fn locks(events: &[(u32, EventKind<'static>)]) -> RecognisedLocks {
        let mut locks = RecognisedLocks::default();
        for (index, &(thread, kind)) in events.iter().enumerate() {
            locks.event(&Event {
                index: EventIndex(index as u64),
                process: ProcessId(0),
                thread: ThreadId(thread),
                pc: AppPc(0),
                context: ContextId::ROOT,
                kind,
            });
        }
        locks
    }

    fn modes(locks: &RecognisedLocks, acquires: &[u64]) -> Vec<Option<LockMode>> {
        let mode = |&index| locks.mode(EventIndex(index));
        acquires.iter().map(mode).collect()
    }

    #[test]
    fn an_acquire_is_a_lock_once_its_thread_releases_the_word() {
        let locks = locks(&[
            (1, acquire(A)),
            (1, acquire(B)),
            (2, acquire(B)),
            (1, release(A)),
            (2, release(B)),
        ]);
        let exclusive = Some(LockMode::Exclusive);
        assert_eq!(modes(&locks, &[0, 1, 2]), [exclusive, None, exclusive]);
        assert_eq!(locks.len(), 2);
    }

    #[test]
    fn the_release_says_whether_the_lock_was_shared() {
        let shared = EventKind::LockRelease {
            word: A,
            shared: true,
            exchanged: false,
        };
        let locks = locks(&[
            (1, acquire(A)),
            (1, acquire(A)),
            (1, shared),
            (1, release(A)),
        ]);
        let expected = [Some(LockMode::Exclusive), Some(LockMode::Shared)];
        assert_eq!(modes(&locks, &[0, 1]), expected);
    }

    #[test]
    fn a_thread_with_the_id_of_one_that_ended_releases_nothing_of_it() {
        let locks = locks(&[(1, acquire(A)), (1, EventKind::ThreadExit), (1, release(A))]);
        assert!(locks.is_empty());
    }
}
