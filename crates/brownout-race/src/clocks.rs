//! Vector clocks: which events of other threads happened before an event (HawkSet §3.1.2, "Inter-Thread Happens-Before Analysis").
//!
//! A component of a clock is the position in the trace up to which the events of a thread are known to have happened before. The
//! paper counts accesses instead. Positions need no counter, and a thread creation, which a trace reports only when the new thread
//! starts, can be placed exactly. The component of a thread itself is never needed: accesses of one thread are no race.
//!
//! Clocks change only where threads synchronise, so that few are shared by many accesses.

use std::sync::Arc;

use brownout_model::{ThreadSlot, Time};
use rustc_hash::FxHashMap;

/// A clock known to [`Clocks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClockId(u32);

impl ClockId {
    /// No event of another thread is known to have happened before.
    pub(crate) const START: ClockId = ClockId(0);
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

    /// The clock `id`, with the events of `thread` before `until`.
    pub(crate) fn with(&mut self, id: ClockId, thread: ThreadSlot, until: Time) -> ClockId {
        let mut clock = self.get(id).to_vec();
        let index = thread.index();
        if clock.len() <= index {
            clock.resize(index + 1, 0);
        }
        clock[index] = until.0.max(clock[index]);
        self.intern(&clock)
    }

    /// Whether the event of `thread` at `time` happened before an event with the clock `id`.
    #[inline]
    pub(crate) fn knows(&self, id: ClockId, thread: ThreadSlot, time: Time) -> bool {
        let until = self.get(id).get(thread.index());
        until.is_some_and(|&until| time.0 < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_model::{
        Access, ByteMask, LineRef, LiveStore, Marks, PersistObserver, Profile, Tracker,
    };

    struct Nobody;

    impl PersistObserver for Nobody {
        type Store = ();
        type Flush = ();
        const HISTORY: bool = false;
        fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<()>, _: Access) {}
        fn overwritten(
            &mut self,
            _: LineRef<'_>,
            _: &LiveStore<()>,
            _: &mut LiveStore<()>,
            _: ByteMask,
        ) {
        }
    }

    fn threads<const N: usize>() -> [ThreadSlot; N] {
        let mut tracker: Tracker<Nobody> = Tracker::new(Profile::ADR);
        std::array::from_fn(|_| tracker.add_thread())
    }

    #[test]
    fn a_clock_knows_what_happened_before_its_components() {
        let [one, two, three] = threads();
        let mut clocks = Clocks::new();
        let created = clocks.with(ClockId::START, one, Time(5));
        assert!(clocks.knows(created, one, Time(4)));
        assert!(!clocks.knows(created, one, Time(5)));
        assert!(!clocks.knows(created, two, Time(0)));
        let other = clocks.with(ClockId::START, three, Time(9));
        let joined = clocks.join(created, other);
        assert!(clocks.knows(joined, one, Time(4)) && clocks.knows(joined, three, Time(8)));
        assert!(!clocks.knows(joined, two, Time(0)));
    }

    #[test]
    fn equal_clocks_are_one() {
        let [one, two] = threads();
        let mut clocks = Clocks::new();
        let first = clocks.with(ClockId::START, one, Time(5));
        let second = clocks.with(first, two, Time(7));
        assert_eq!(clocks.join(second, first), second);
        assert_eq!(clocks.join(first, second), second);
        assert_eq!(clocks.join(ClockId::START, first), first);
        assert_eq!(
            clocks.with(second, one, Time(3)),
            second,
            "nothing is forgotten"
        );
    }
}
