//! From the store that makes a value visible to the instant at which a crash cannot lose it any more, or nobody can read it
//! (HawkSet §3.1.2). The model tells when; here the effective lockset is determined and the store is kept for the pairs.

use brownout_model::{
    Access, ByteMask, LineRef, LiveStore, Marks, PersistObserver, PmAddress, ThreadSlot, Time,
};

use crate::accesses::{Accesses, LoadKind, StoreEnd, StoreExample, StoreLife};
use crate::clocks::{ClockId, Clocks};
use crate::forced::ForcedReads;
use crate::lines::Lines;
use crate::lock_words::LockWords;
use crate::locks::{Locks, LocksetId};
use crate::observations::{DependentId, Observations, Persist};
use crate::sites::RaceSite;
use crate::threads::Threads;

/// What is kept with a store until its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreTag {
    pub(crate) site: RaceSite,
    pub(crate) clock: ClockId,
    /// The locks that its thread held, and its logical clock.
    pub(crate) locks: LocksetId,
    pub(crate) lock_clock: u32,
    /// Bytes that other threads could see before their memory was allocated anew.
    pub(crate) seen: ByteMask,
    /// The load that it depends on, if there is one.
    pub(crate) dependent: DependentId,
    /// It can be part of a race.
    pub(crate) is_data: bool,
}

/// Everything that is known of a run, besides the stores that a crash can lose now.
pub(crate) struct Knowledge {
    pub(crate) threads: Threads,
    pub(crate) clocks: Clocks,
    pub(crate) locks: Locks,
    pub(crate) lines: Lines,
    pub(crate) accesses: Accesses,
    pub(crate) observations: Observations,
    pub(crate) forced: ForcedReads,
    pub(crate) lock_words: LockWords,
    /// The instruction that makes stores durable now.
    pub(crate) persisting: RaceSite,
    /// Accesses to bytes that one thread alone can see are left out.
    pub(crate) removes_initialisation: bool,
}

impl Knowledge {
    /// The time in which a crash can lose some bytes of a store has ended.
    fn end(
        &mut self,
        address: PmAddress,
        store: &LiveStore<StoreTag>,
        bytes: ByteMask,
        (end, by): (StoreEnd, Option<Access>),
    ) {
        let tag = &store.tag;
        if !tag.is_data {
            return;
        }
        let line = self.lines.number(address);
        let kept = match self.removes_initialisation && end != StoreEnd::Never {
            true => bytes.and(self.lines.visible(line).or(tag.seen)),
            false => bytes,
        };
        if kept.is_empty() {
            return;
        }
        if let Some(by) = by.filter(|by| by.thread != store.thread) {
            *self.threads[by.thread].ends.entry(line).or_default() += 1;
        }
        let own = by.filter(|by| by.thread == store.thread);
        let locks = own.map_or(LocksetId::EMPTY, |by| {
            let held = &self.threads[by.thread].held;
            held.since(tag.lock_clock, &mut self.locks)
        });
        let life = StoreLife {
            thread: store.thread,
            site: tag.site,
            clock: tag.clock,
            locks,
            end,
        };
        let example = StoreExample {
            time: store.time,
            locks: tag.locks,
            end_time: by.map_or(Time(u64::MAX), |by| by.time),
            end_locks: by.map_or(LocksetId::EMPTY, |by| self.threads[by.thread].held.now()),
        };
        self.accesses.add_store(line, kept, life, example);
    }

    /// The run has ended, and a crash can still lose the store.
    pub(crate) fn lost(&mut self, address: PmAddress, store: &LiveStore<StoreTag>) {
        self.end(address, store, store.bytes, (StoreEnd::Never, None));
    }

    /// Other bytes are in the place of a store, or none.
    pub(crate) fn replaced(
        &mut self,
        address: PmAddress,
        store: &LiveStore<StoreTag>,
        bytes: ByteMask,
        (by, site): (Access, RaceSite),
    ) {
        let thread = by.thread;
        let end = StoreEnd::Overwritten { by: thread, site };
        self.end(address, store, bytes, (end, Some(by)));
        self.forced.ended(store.time, by.time);
    }

    /// Loads of a thread count for good.
    pub(crate) fn settle_loads(&mut self, thread: ThreadSlot) {
        let state = &mut self.threads[thread];
        for load in state.pending.drain(..) {
            let kind = LoadKind {
                thread,
                site: load.site,
                clock: load.clock,
                locks: load.locks,
                ends: load.ends,
            };
            self.accesses
                .add_load(load.line, load.bytes, kind, load.time);
        }
        for load in state.observed.drain(..) {
            self.observations.add(&load);
        }
    }
}

impl PersistObserver for Knowledge {
    type Store = StoreTag;
    type Flush = ();
    const HISTORY: bool = false;

    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        _: Marks<'_>,
        store: &LiveStore<StoreTag>,
        by: Access,
    ) {
        // On this machine nobody can read it before it is durable.
        if store.time == by.time {
            return;
        }
        let end = StoreEnd::Persisted {
            by: by.thread,
            site: self.persisting,
        };
        self.end(line.address(), store, store.bytes, (end, Some(by)));
        self.forced.guaranteed(store, by);
        let persist = Persist {
            by: by.thread,
            time: by.time,
        };
        self.observations.persisted(store.time, persist);
        let (clocks, threads, clock) = (&self.clocks, &self.threads, store.tag.clock);
        self.observations.dependent_persisted(
            store.tag.dependent,
            (store.time, store.tag.site),
            |persist| match persist.by == store.thread {
                true => persist.time < store.time,
                false => clocks.knows(clock, threads[persist.by].component, persist.time),
            },
        );
    }

    fn overwritten(
        &mut self,
        line: LineRef<'_>,
        older: &LiveStore<StoreTag>,
        newer: &mut LiveStore<StoreTag>,
        bytes: ByteMask,
    ) {
        let by = Access {
            thread: newer.thread,
            time: newer.time,
        };
        let end = StoreEnd::Overwritten {
            by: by.thread,
            site: newer.tag.site,
        };
        self.end(line.address(), older, bytes, (end, Some(by)));
        self.forced.ended(older.time, by.time);
    }
}
