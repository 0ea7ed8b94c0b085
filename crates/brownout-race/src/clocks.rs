//! Vector clocks: which events of other threads happened before an event (HawkSet §3.1.2, "Inter-Thread Happens-Before Analysis").
//!
//! A component of a clock is the position in the trace up to which the events of a thread are known to have happened before. The
//! paper counts accesses instead. Positions need no counter, and a thread creation, which a trace reports only when the new thread
//! starts, can be placed exactly. The component of a thread itself is never needed: accesses of one thread are no race.
//!
//! Clocks change only where threads synchronise, so that few are shared by many accesses. A thread that starts when another one is known to
//! have ended takes over its component: the events of both are in order, and positions distinguish them. So clocks are as long as there are
//! threads at a time.
//!
//! Clocks grow with the number of threads in a program that never joins them but waits for them in another known way.

use std::sync::Arc;

use brownout_model::Time;
use rustc_hash::FxHashMap;

/// A clock known to [`Clocks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClockId(u32);

impl ClockId {
    /// No event of another thread is known to have happened before.
    pub(crate) const START: ClockId = ClockId(0);
}

/// The component of a clock that belongs to a thread, and to those that it has taken over from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Component(pub(crate) u32);

impl Component {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// All clocks of a run, each once.
pub(crate) struct Clocks {
    clocks: Vec<Arc<[u64]>>,
    ids: FxHashMap<Arc<[u64]>, ClockId>,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        let mut clocks = Clocks {
            clocks: Vec::new(),
            ids: FxHashMap::default(),
        };
        clocks.intern(&[]);
        clocks
    }

    fn intern(&mut self, clock: &[u64]) -> ClockId {
        if let Some(&id) = self.ids.get(clock) {
            return id;
        }
        let id = ClockId(self.clocks.len() as u32);
        let clock: Arc<[u64]> = clock.into();
        self.clocks.push(Arc::clone(&clock));
        self.ids.insert(clock, id);
        id
    }

    /// The components of all clocks together.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.clocks.iter().map(|clock| clock.len()).sum()
    }

    fn get(&self, id: ClockId) -> &[u64] {
        &self.clocks[id.0 as usize]
    }

    /// What is known by either clock.
    pub(crate) fn join(&mut self, one: ClockId, other: ClockId) -> ClockId {
        if one == other || other == ClockId::START {
            return one;
        }
        let (one, other) = (self.get(one), self.get(other));
        let (long, short) = match one.len() >= other.len() {
            true => (one, other),
            false => (other, one),
        };
        let mut joined = long.to_vec();
        for (known, &until) in joined.iter_mut().zip(short) {
            *known = until.max(*known);
        }
        self.intern(&joined)
    }

    /// The clock `id`, with the events of a thread before `until`.
    pub(crate) fn with(&mut self, id: ClockId, thread: Component, until: Time) -> ClockId {
        let mut clock = self.get(id).to_vec();
        let index = thread.index();
        if clock.len() <= index {
            clock.resize(index + 1, 0);
        }
        clock[index] = until.0.max(clock[index]);
        self.intern(&clock)
    }

    /// Before which position the events of a thread are known by a clock.
    pub(crate) fn until(&self, id: ClockId, thread: Component) -> Time {
        let until = self.get(id).get(thread.index());
        Time(until.copied().unwrap_or_default())
    }

    /// Whether the event of a thread at `time` happened before an event with the clock `id`.
    #[inline]
    pub(crate) fn knows(&self, id: ClockId, thread: Component, time: Time) -> bool {
        let until = self.get(id).get(thread.index());
        until.is_some_and(|&until| time.0 < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Component = Component(0);
    const TWO: Component = Component(1);
    const THREE: Component = Component(2);

    #[test]
    fn a_clock_knows_what_happened_before_its_components() {
        let mut clocks = Clocks::new();
        let created = clocks.with(ClockId::START, ONE, Time(5));
        assert!(clocks.knows(created, ONE, Time(4)));
        assert!(!clocks.knows(created, ONE, Time(5)));
        assert!(!clocks.knows(created, TWO, Time(0)));
        let other = clocks.with(ClockId::START, THREE, Time(9));
        let joined = clocks.join(created, other);
        assert!(clocks.knows(joined, ONE, Time(4)) && clocks.knows(joined, THREE, Time(8)));
        assert!(!clocks.knows(joined, TWO, Time(0)));
    }

    #[test]
    fn equal_clocks_are_one() {
        let mut clocks = Clocks::new();
        let first = clocks.with(ClockId::START, ONE, Time(5));
        let second = clocks.with(first, TWO, Time(7));
        assert_eq!(clocks.join(second, first), second);
        assert_eq!(clocks.join(first, second), second);
        assert_eq!(clocks.join(ClockId::START, first), first);
        assert_eq!(
            clocks.with(second, ONE, Time(3)),
            second,
            "nothing is forgotten"
        );
    }
}
