//! The accesses of a run that can be part of a race, as few as tell all races.
//!
//! Accesses to the same bytes of a line by the same thread at the same site, with the same clock and locks, differ only in their
//! position. Two positions decide whether a pair of accesses is ordered: that of the load, if it comes before the store, and that at
//! which the store became durable, if it comes before the load. In both cases the last of several accesses is in a race if any of
//! them is, so that the last position suffices. The exception is a store that the loading thread has made durable or overwritten
//! itself: an earlier load of the thread can be in a race although the last one is not. So loads of a line are also distinguished by how
//! often their thread has ended stores of others there ([`LoadKind::ends`]): all of one kind come before such an end, or all after it.

use brownout_model::{ByteMask, ThreadSlot, Time};
use rustc_hash::FxHashMap;

use crate::clocks::ClockId;
use crate::lines::LineNumber;
use crate::locks::LocksetId;
use crate::sites::RaceSite;

/// What loads have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LoadKind {
    pub(crate) thread: ThreadSlot,
    pub(crate) site: RaceSite,
    pub(crate) clock: ClockId,
    pub(crate) locks: LocksetId,
    /// How often its thread had ended the time in which stores of others to the line could be lost.
    pub(crate) ends: u32,
}

/// What ended the time in which a crash could lose a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StoreEnd {
    /// A fence, flush or sync made it durable.
    Persisted { by: ThreadSlot, site: RaceSite },
    /// Another store took its place.
    Overwritten { by: ThreadSlot, site: RaceSite },
    /// Nothing did.
    Never,
}

impl StoreEnd {
    /// The thread that ended it.
    pub(crate) fn by(self) -> Option<ThreadSlot> {
        match self {
            StoreEnd::Persisted { by, .. } | StoreEnd::Overwritten { by, .. } => Some(by),
            StoreEnd::Never => None,
        }
    }
}

/// What stores have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreLife {
    pub(crate) thread: ThreadSlot,
    pub(crate) site: RaceSite,
    pub(crate) clock: ClockId,
    /// The effective lockset.
    pub(crate) locks: LocksetId,
    pub(crate) end: StoreEnd,
}

/// The first of several stores with the same [`StoreLife`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreExample {
    pub(crate) time: Time,
    pub(crate) locks: LocksetId,
    pub(crate) end_time: Time,
    pub(crate) end_locks: LocksetId,
}

/// A value that many accesses share, by number.
struct Shared<K, E> {
    values: Vec<(K, E)>,
    numbers: FxHashMap<K, u32>,
}

impl<K: Copy + Eq + std::hash::Hash, E> Shared<K, E> {
    fn new() -> Self {
        Shared {
            values: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    fn number(&mut self, key: K, example: impl FnOnce() -> E) -> u32 {
        let values = &mut self.values;
        *self.numbers.entry(key).or_insert_with(|| {
            values.push((key, example()));
            values.len() as u32 - 1
        })
    }
}

/// Bytes of a line, and the number of what accesses to them have in common.
type AccessKey = (LineNumber, ByteMask, u32);

/// Accesses to some bytes of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessGroup {
    pub(crate) line: LineNumber,
    pub(crate) bytes: ByteMask,
    /// The number of what they have in common.
    pub(crate) number: u32,
    /// The first one.
    pub(crate) first: Time,
    /// Of loads the last one; of stores the last end.
    pub(crate) last: Time,
}

/// All accesses of a run.
pub(crate) struct Accesses {
    load_kinds: Shared<LoadKind, ()>,
    store_lives: Shared<StoreLife, StoreExample>,
    loads: FxHashMap<AccessKey, Positions>,
    stores: FxHashMap<AccessKey, Positions>,
}

/// Where accesses are that have everything else in common.
#[derive(Clone, Copy)]
struct Positions {
    first: Time,
    last: Time,
}

impl Positions {
    fn new(first: Time, last: Time) -> Self {
        Positions { first, last }
    }

    fn include(&mut self, other: Positions) {
        self.first = other.first.min(self.first);
        self.last = other.last.max(self.last);
    }
}

impl Accesses {
    pub(crate) fn new() -> Self {
        Accesses {
            load_kinds: Shared::new(),
            store_lives: Shared::new(),
            loads: FxHashMap::default(),
            stores: FxHashMap::default(),
        }
    }

    pub(crate) fn add_load(&mut self, line: LineNumber, bytes: ByteMask, kind: LoadKind, at: Time) {
        let number = self.load_kinds.number(kind, || ());
        let at = Positions::new(at, at);
        let known = self.loads.entry((line, bytes, number));
        known.or_insert(at).include(at);
    }

    pub(crate) fn add_store(
        &mut self,
        line: LineNumber,
        bytes: ByteMask,
        life: StoreLife,
        example: StoreExample,
    ) {
        let number = self.store_lives.number(life, || example);
        let at = Positions::new(example.time, example.end_time);
        let known = self.stores.entry((line, bytes, number));
        known.or_insert(at).include(at);
    }

    pub(crate) fn load_kind(&self, number: u32) -> LoadKind {
        self.load_kinds.values[number as usize].0
    }

    pub(crate) fn store_life(&self, number: u32) -> (StoreLife, StoreExample) {
        self.store_lives.values[number as usize]
    }

    /// The stores and the loads, each by line.
    pub(crate) fn take_groups(&mut self) -> (Vec<AccessGroup>, Vec<AccessGroup>) {
        let stores = groups(std::mem::take(&mut self.stores));
        (stores, groups(std::mem::take(&mut self.loads)))
    }
}

fn groups(accesses: FxHashMap<AccessKey, Positions>) -> Vec<AccessGroup> {
    let groups = accesses.into_iter();
    let groups = groups.map(|((line, bytes, number), at)| AccessGroup {
        line,
        bytes,
        number,
        first: at.first,
        last: at.last,
    });
    let mut groups: Vec<AccessGroup> = groups.collect();
    // The order does not depend on that of the table.
    groups.sort_unstable_by_key(|group| (group.line, group.number, group.bytes));
    groups
}
