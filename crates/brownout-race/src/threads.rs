//! The threads of all processes: their clocks, locks and open calls.

use brownout_model::{ByteMask, ThreadSlot, Time};
use brownout_trace::{CallArguments, FunctionId, ProcessId, ThreadKey, ThreadParent};
use rustc_hash::FxHashMap;

use crate::allocations::Allocations;
use crate::clocks::{ClockId, Clocks, Component};
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
    /// How often its thread had ended stores of others to the line.
    pub(crate) ends: u32,
    pub(crate) time: Time,
    /// Its thread has flushed the line since.
    pub(crate) flushed: bool,
}

/// What is remembered of a thread.
pub(crate) struct ThreadState {
    pub(crate) key: ThreadKey,
    pub(crate) held: HeldLocks,
    pub(crate) clock: ClockId,
    /// Where its own events are in the clocks of others.
    pub(crate) component: Component,
    /// The clocks that it has had, with the events from which on it had them.
    history: Vec<(Time, ClockId)>,
    pub(crate) open: Vec<OpenCall>,
    pub(crate) allocations: Allocations,
    /// Loads since its last store to persistent memory.
    pub(crate) pending: Vec<PendingLoad>,
    /// Those of them that have read what a crash could still lose.
    pub(crate) observed: Vec<ObservedLoad>,
    pub(crate) taints: Taints,
    /// How often it has made stores of others to a line durable, or overwritten them.
    pub(crate) ends: FxHashMap<LineNumber, u32>,
    /// It has accessed a mapped file.
    pub(crate) has_accessed: bool,
    ended: bool,
    joined: bool,
}

impl ThreadState {
    fn new(key: ThreadKey, component: Component) -> Self {
        ThreadState {
            key,
            held: HeldLocks::default(),
            clock: ClockId::START,
            component,
            history: Vec::new(),
            open: Vec::new(),
            allocations: Allocations::default(),
            pending: Vec::new(),
            observed: Vec::new(),
            taints: Taints::default(),
            ends: FxHashMap::default(),
            has_accessed: false,
            ended: false,
            joined: false,
        }
    }

    /// Whether it is in a function that works on a lock.
    pub(crate) fn is_in_lock_function(&self) -> bool {
        self.open.iter().any(|call| call.is_lock)
    }

    /// How often it has ended stores of others to a line.
    #[inline]
    pub(crate) fn ends_in(&self, line: LineNumber) -> u32 {
        match self.ends.is_empty() {
            true => 0,
            false => self.ends.get(&line).copied().unwrap_or_default(),
        }
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
    /// How many components clocks have.
    components: u32,
    /// Components of threads that were joined, and when.
    left: Vec<(Component, Time)>,
}

/// Of the components that were left last, how many are considered for a new thread.
const LEFT_CONSIDERED: usize = 64;

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
                let slot = known.unwrap_or_else(|| {
                    let component = self.new_component();
                    self.insert(key, add(), component)
                });
                self.recent = Some((key, slot));
                slot
            }
        }
    }

    fn new_component(&mut self) -> Component {
        self.components += 1;
        Component(self.components - 1)
    }

    /// The component of a thread that starts with the clock `known`: that of a thread that it knows to have ended, if there is one.
    fn component(&mut self, known: ClockId, clocks: &Clocks) -> Component {
        let skipped = self.left.len().saturating_sub(LEFT_CONSIDERED);
        let mut last = self.left.iter().enumerate().skip(skipped).rev();
        let usable = last.find(|(_, left)| clocks.until(known, left.0) >= left.1);
        match usable.map(|(index, _)| index) {
            Some(index) => self.left.swap_remove(index).0,
            None => self.new_component(),
        }
    }

    fn insert(&mut self, key: ThreadKey, slot: ThreadSlot, component: Component) -> ThreadSlot {
        debug_assert_eq!(slot.index(), self.states.len());
        self.states.push(ThreadState::new(key, component));
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
        let creator = parent.and_then(|(process, parent)| {
            let creator = *self.slots.get(&(process, parent.thread))?;
            Some((creator, Time(parent.created.0)))
        });
        let known = creator.map_or(ClockId::START, |(creator, created)| {
            let creator = &self[creator];
            clocks.with(creator.clock_at(created), creator.component, created)
        });
        let slot = match self.slots.get(&key) {
            // It may have accessed memory before its start was recorded.
            Some(&slot) if !self[slot].ended => slot,
            _ => {
                let component = self.component(known, clocks);
                self.insert(key, add(), component)
            }
        };
        self.receive(slot, time, known, clocks);
        slot
    }

    /// A thread has waited for the end of another one, by its event at `time`.
    pub(crate) fn join(
        &mut self,
        thread: ThreadSlot,
        ended: ThreadSlot,
        time: Time,
        clocks: &mut Clocks,
    ) {
        let sent = self.send(ended, time, clocks);
        self.receive(thread, time, sent, clocks);
        if self[ended].ended && !std::mem::replace(&mut self[ended].joined, true) {
            self.left.push((self[ended].component, time));
        }
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
        clocks.with(self[thread].clock, self[thread].component, time)
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

#[cfg(test)]
mod tests {
    use brownout_model::{Profile, Tracker};
    use brownout_trace::{EventIndex, ThreadId};

    use super::*;
    use crate::lifetimes::Knowledge;

    const PROCESS: ProcessId = ProcessId(1);
    const MAIN: ThreadId = ThreadId(0);

    struct Family {
        threads: Threads,
        clocks: Clocks,
        tracker: Tracker<Knowledge>,
        time: u64,
    }

    impl Family {
        fn new() -> Self {
            let mut family = Family {
                threads: Threads::default(),
                clocks: Clocks::new(),
                tracker: Tracker::new(Profile::ADR),
                time: 0,
            };
            family.start(MAIN, None);
            family
        }

        fn now(&mut self) -> Time {
            self.time += 1;
            Time(self.time)
        }

        fn start(&mut self, thread: ThreadId, parent: Option<ThreadId>) -> ThreadSlot {
            let created = EventIndex(self.now().0);
            let parent = parent.map(|thread| (PROCESS, ThreadParent { thread, created }));
            let at = ((PROCESS, thread), self.now());
            let tracker = &mut self.tracker;
            let add = || tracker.add_thread();
            self.threads.start(at, parent, &mut self.clocks, add)
        }

        fn join(&mut self, by: ThreadId, ended: ThreadId) {
            let slot = |thread| self.threads.last_with((PROCESS, thread));
            let (by, ended) = (slot(by).unwrap(), slot(ended).unwrap());
            self.threads.end(ended);
            let now = self.now();
            self.threads.join(by, ended, now, &mut self.clocks);
        }
    }

    #[test]
    fn ten_thousand_threads_that_were_joined_take_memory_for_each_once() {
        let mut family = Family::new();
        for pair in 0..5000 {
            let both = [1, 2].map(|one| ThreadId(2 * pair + one));
            for thread in both {
                family.start(thread, Some(MAIN));
            }
            for thread in both {
                family.join(MAIN, thread);
            }
        }
        assert_eq!(family.threads.states.len(), 10_001);
        assert_eq!(family.threads.components, 3);
        let size = family.clocks.size();
        assert!(size < 20 * 10_000, "{size}");
    }

    #[test]
    fn a_component_is_taken_over_only_by_who_knows_that_its_thread_has_ended() {
        let [one, two, three, four] = [1, 2, 3, 4].map(ThreadId);
        let mut family = Family::new();
        let joined = family.start(one, Some(MAIN));
        family.start(two, Some(MAIN));
        family.join(two, one);
        let unaware = family.start(three, Some(MAIN));
        let aware = family.start(four, Some(two));
        let component = |slot| family.threads[slot].component;
        assert_ne!(component(unaware), component(joined));
        assert_eq!(component(aware), component(joined));
        // What others know of the thread that has ended says nothing of its successor.
        let two = family.threads.last_with((PROCESS, two)).unwrap();
        let (clock, now) = (family.threads[two].clock, Time(family.time));
        assert!(!family.clocks.knows(clock, component(aware), now));
    }
}
