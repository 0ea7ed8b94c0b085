//! Runs a program through the tracker and collects crash states and persist intervals.

use std::collections::{BTreeMap, BTreeSet};

use brownout_model::{
    Access, ByteMask, FlushEffect, LINE, LineRef, LiveStore, Marks, PersistInterval,
    PersistObserver, PmAddress, Profile, SpaceId, StoreKind, Tearing, ThreadSlot, Time, Tracker,
    line_parts,
};

use crate::program::{Offset, Op, Step};

pub const SPACE: SpaceId = SpaceId(0);

/// The values of all bytes that are not zero.
pub type Memory = BTreeMap<Offset, u8>;

/// The values of the bytes of a part of a store.
pub type Values = [u8; LINE as usize];

/// An observer that keeps the settled bytes and the time when each store became guaranteed.
#[derive(Default)]
pub struct Base {
    pub memory: Memory,
    pub guaranteed: BTreeMap<(Time, PmAddress), Time>,
}

impl PersistObserver for Base {
    type Store = Values;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        _: Marks<'_>,
        store: &LiveStore<Values>,
        by: Access,
    ) {
        let before = self
            .guaranteed
            .insert((store.time, line.address()), by.time);
        assert_eq!(before, None, "a store is guaranteed once");
    }

    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<Values>) {
        apply(&mut self.memory, line.address(), store.bytes, &store.tag);
    }
}

/// Runs a program through the tracker.
pub struct Follower {
    pub tracker: Tracker<Base>,
    pub base: Base,
    threads: Vec<ThreadSlot>,
    time: Time,
    pub issued: Vec<PersistInterval>,
    lines: Vec<PmAddress>,
}

impl Follower {
    pub fn new(profile: Profile, threads: usize) -> Self {
        let mut tracker = Tracker::new(profile);
        let threads = (0..threads).map(|_| tracker.add_thread()).collect();
        Follower {
            tracker,
            base: Base::default(),
            threads,
            time: Time(0),
            issued: Vec::new(),
            lines: Vec::new(),
        }
    }

    pub fn step(&mut self, (thread, op): &Step) {
        self.time.0 += 1;
        let by = Access {
            thread: self.threads[*thread],
            time: self.time,
        };
        let address = |offset| PmAddress {
            space: SPACE,
            offset,
        };
        match op {
            Op::Store(offset, bytes) => self.store(by, *offset, bytes, StoreKind::Cached),
            Op::NonTemporal(offset, bytes) => {
                self.store(by, *offset, bytes, StoreKind::NonTemporal);
            }
            Op::Locked(offset, bytes) => {
                self.tracker.fence(&mut self.base, by);
                self.store(by, *offset, bytes, StoreKind::Cached);
            }
            Op::Clflush(offset) | Op::Clwb(offset) => {
                let kind = match op {
                    Op::Clflush(_) => FlushEffect::Immediate,
                    _ => FlushEffect::Deferred,
                };
                let line = self.tracker.line(address(*offset));
                self.tracker.flush(&mut self.base, by, line, kind, ());
            }
            Op::Fence => self.tracker.fence(&mut self.base, by),
            Op::Sync(offset) => {
                let range = *offset..offset + 1;
                self.tracker.write_back(&mut self.base, by, SPACE, range);
            }
            Op::Read(..) => {}
        }
    }

    fn store(&mut self, by: Access, offset: Offset, bytes: &[u8], kind: StoreKind) {
        for (start, mask, before) in line_parts(offset, bytes.len() as u64) {
            let mut values = [0; LINE as usize];
            for (at, &byte) in (mask.first() as usize..LINE as usize).zip(&bytes[before as usize..])
            {
                values[at] = byte;
            }
            let address = PmAddress {
                space: SPACE,
                offset: start,
            };
            let line = self.tracker.line(address);
            let unit = self.tracker.profile().unit;
            self.issued.push(PersistInterval {
                unit: PmAddress {
                    space: SPACE,
                    offset: start - start % unit,
                },
                kind,
                issued: by.time,
                guaranteed: None,
            });
            self.lines.push(address);
            self.tracker
                .store(&mut self.base, by, line, mask, kind, values);
        }
    }

    /// The states that a crash at this time can leave.
    pub fn crash(&self, tearing: Tearing) -> BTreeSet<Memory> {
        let states = self.tracker.crash_states(tearing);
        let mut found = BTreeSet::new();
        let mut count = 0;
        for state in states.iter() {
            count += 1;
            let mut memory = self.base.memory.clone();
            for (unit, state) in states.units().iter().zip(&state) {
                for piece in &state.pieces {
                    let part = &unit.parts()[piece.part];
                    apply(&mut memory, part.line, piece.bytes, &part.tag);
                }
            }
            memory.retain(|_, value| *value != 0);
            found.insert(memory);
        }
        assert_eq!(states.count(), Some(count));
        found
    }

    /// The persist intervals of the parts of all stores.
    pub fn intervals(&self) -> Vec<PersistInterval> {
        let stores = self.issued.iter().zip(&self.lines);
        stores
            .map(|(store, line)| PersistInterval {
                guaranteed: self.base.guaranteed.get(&(store.issued, *line)).copied(),
                ..*store
            })
            .collect()
    }
}

fn apply(memory: &mut Memory, line: PmAddress, bytes: ByteMask, values: &Values) {
    for (start, len) in bytes.runs() {
        for at in start..start + len {
            memory.insert(line.offset + at, values[at as usize]);
        }
    }
}

/// The states that a crash can leave before the first and after each step of a program.
pub fn crashes(
    profile: Profile,
    tearing: Tearing,
    threads: usize,
    steps: &[Step],
) -> Vec<BTreeSet<Memory>> {
    let mut follower = Follower::new(profile, threads);
    let mut found = vec![follower.crash(tearing)];
    for step in steps {
        follower.step(step);
        found.push(follower.crash(tearing));
    }
    found
}
