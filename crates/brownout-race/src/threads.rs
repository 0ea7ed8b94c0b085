//! The threads of all processes: their clocks, locks and open calls.

use brownout_model::{ByteMask, ThreadSlot, Time};
use brownout_trace::{CallArguments, FunctionId, ProcessId, ThreadKey, ThreadParent};
use rustc_hash::FxHashMap;

use crate::allocations::Allocations;
use crate::clocks::{ClockId, Clocks};
use crate::lines::LineNumber;
use crate::locks::{HeldLocks, LocksetId};
use crate::observations::{ObservedLoad, Taints};
use crate::sites::RaceSite;
use crate::sync_functions::SyncMeaning;

/// A call of a watched function that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub(crate) function: FunctionId,
    pub(crate) args: CallArguments,
    /// Of a wait for a condition: what the threads knew that have signalled it since.
    pub(crate) received: ClockId,
    /// Of a barrier: its round. Of a wait for a condition: how often the lock was held.
    pub(crate) round: u32,
    /// It works on a lock: what it accesses is no data.
    pub(crate) is_lock: bool,
}

impl OpenCall {
    pub(crate) fn new(function: FunctionId, args: CallArguments, meaning: &SyncMeaning) -> Self {
        OpenCall {
            function,
            args,
            received: ClockId::START,
            round: 0,
            is_lock: matches!(meaning, SyncMeaning::Lock { .. }),
        }
    }
}

/// A load that its thread may still make harmless by persisting what it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingLoad {
    pub(crate) line: LineNumber,
    pub(crate) bytes: ByteMask,
    pub(crate) site: RaceSite,
    pub(crate) clock: ClockId,
    pub(crate) locks: LocksetId,
    pub(crate) time: Time,
    /// Its thread has flushed the line since.
    pub(crate) flushed: bool,
}

/// What is remembered of a thread.
pub(crate) struct ThreadState {
    pub(crate) key: ThreadKey,
    pub(crate) held: HeldLocks,
    pub(crate) clock: ClockId,
    /// The clocks that it has had, with the events from which on it had them.
    history: Vec<(Time, ClockId)>,
    pub(crate) open: Vec<OpenCall>,
    pub(crate) allocations: Allocations,
    /// Loads since its last store to persistent memory.
    pub(crate) pending: Vec<PendingLoad>,
    /// Those of them that have read what a crash could still lose.
    pub(crate) observed: Vec<ObservedLoad>,
    pub(crate) taints: Taints,
    /// It has accessed a mapped file.
    pub(crate) has_accessed: bool,
    ended: bool,
}

impl ThreadState {
    fn new(key: ThreadKey) -> Self {
        ThreadState {
            key,
            held: HeldLocks::default(),
            clock: ClockId::START,
            history: Vec::new(),
            open: Vec::new(),
            allocations: Allocations::default(),
            pending: Vec::new(),
            observed: Vec::new(),
            taints: Taints::default(),
            has_accessed: false,
            ended: false,
        }
    }

    /// Whether it is in a function that works on a lock.
    pub(crate) fn is_in_lock_function(&self) -> bool {
        self.open.iter().any(|call| call.is_lock)
    }

    fn clock_at(&self, time: Time) -> ClockId {
        let before = self.history.partition_point(|&(since, _)| since < time);
        let last = before.checked_sub(1).map(|index| self.history[index].1);
        last.unwrap_or(ClockId::START)
    }
}

/// All threads, by the slots that the tracker has given them.
#[derive(Default)]
pub(crate) struct Threads {
    states: Vec<ThreadState>,
    /// The thread that had an id last.
    slots: FxHashMap<ThreadKey, ThreadSlot>,
    recent: Option<(ThreadKey, ThreadSlot)>,
}

impl std::ops::Index<ThreadSlot> for Threads {
    type Output = ThreadState;

    fn index(&self, thread: ThreadSlot) -> &ThreadState {
        &self.states[thread.index()]
    }
}

impl std::ops::IndexMut<ThreadSlot> for Threads {
    fn index_mut(&mut self, thread: ThreadSlot) -> &mut ThreadState {
        &mut self.states[thread.index()]
    }
}

impl Threads {
    /// The slot of a thread. `add` gives a new thread a slot.
    #[inline]
    pub(crate) fn slot(&mut self, key: ThreadKey, add: impl FnOnce() -> ThreadSlot) -> ThreadSlot {
        match self.recent {
            Some((recent, slot)) if recent == key => slot,
            _ => {
                let known = self.slots.get(&key).copied();
                let slot = known.unwrap_or_else(|| self.insert(key, add()));
                self.recent = Some((key, slot));
                slot
            }
        }
    }

    fn insert(&mut self, key: ThreadKey, slot: ThreadSlot) -> ThreadSlot {
        debug_assert_eq!(slot.index(), self.states.len());
        self.states.push(ThreadState::new(key));
        self.slots.insert(key, slot);
        slot
    }

    /// A thread starts. What its parent did before it created the thread happened before.
    pub(crate) fn start(
        &mut self,
        (key, time): (ThreadKey, Time),
        parent: Option<(ProcessId, ThreadParent)>,
        clocks: &mut Clocks,
        add: impl FnOnce() -> ThreadSlot,
    ) -> ThreadSlot {
        self.recent = None;
        let slot = match self.slots.get(&key) {
            // It may have accessed memory before its start was recorded.
            Some(&slot) if !self[slot].ended => slot,
            _ => self.insert(key, add()),
        };
        if let Some((process, parent)) = parent
            && let Some(&creator) = self.slots.get(&(process, parent.thread))
        {
            let created = Time(parent.created.0);
            let known = self[creator].clock_at(created);
            let known = clocks.with(known, creator, created);
            self.receive(slot, time, known, clocks);
        }
        slot
    }

    /// A thread ends.
    pub(crate) fn end(&mut self, slot: ThreadSlot) {
        self.recent = None;
        self[slot].ended = true;
    }

    /// The threads of a process that have not ended.
    pub(crate) fn running(&self, process: ProcessId) -> Vec<ThreadSlot> {
        let running = self.slots.values().copied();
        let mut running: Vec<ThreadSlot> = running
            .filter(|&slot| self[slot].key.0 == process && !self[slot].ended)
            .collect();
        running.sort_unstable();
        running
    }

    /// All threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ThreadState> {
        self.states.iter()
    }

    /// The thread that had an id last.
    pub(crate) fn last_with(&self, key: ThreadKey) -> Option<ThreadSlot> {
        self.slots.get(&key).copied()
    }

    /// What a thread passes on to others by its event at `time`: everything that it has done and known before.
    pub(crate) fn send(&self, thread: ThreadSlot, time: Time, clocks: &mut Clocks) -> ClockId {
        clocks.with(self[thread].clock, thread, time)
    }

    /// A thread gets to know, by its event at `time`, what another one has passed on.
    pub(crate) fn receive(
        &mut self,
        thread: ThreadSlot,
        time: Time,
        known: ClockId,
        clocks: &mut Clocks,
    ) {
        let state = &mut self[thread];
        let joined = clocks.join(state.clock, known);
        if joined != state.clock {
            state.clock = joined;
            state.history.push((time, joined));
        }
    }
}
