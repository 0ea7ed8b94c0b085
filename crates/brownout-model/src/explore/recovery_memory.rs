//! Persistent memory as one run of recovery sees it: what it wrote itself, over what the crashes can have left.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::crash_time::CrashTime;
use super::history_builder::StoreHistoryBuilder;
use super::possible_memory::PossibleMemory;
use super::read_classes::{ReadClass, ReadClasses};
use super::state_set::StateSet;
use super::store_history::StoreHistory;
use super::unit_reads::UnitRead;
use crate::address::{PmAddress, SpaceId, ThreadSlot, Time};
use crate::observer::{Access, FlushEffect, StoreKind};

/// What a run has done to and seen of persistent memory up to some time, as a digest. Two runs with the same digest have
/// the same stores and have read the same bytes.
pub(super) type PathDigest = [u64; 2];

/// A crash inside of recovery.
#[derive(Clone)]
pub(super) struct CrashInside {
    pub(super) time: CrashTime,
    /// What the earlier crashes can have left, narrowed by what recovery had read by then.
    pub(super) memory: PossibleMemory,
    pub(super) path: PathDigest,
}

/// The memory of one run of recovery. The caller reports what the run does, in the order of effect, and gives it the bytes that
/// [`load`](Self::load) returns. [`Exploration`](super::Exploration) starts runs and has an example.
///
/// Of the possible bytes, `load` returns those of the newest stores and keeps the others for later runs. A caller that can
/// copy a running recovery asks [`may_read`](Self::may_read) instead, and [chooses](Self::choose) for each copy.
#[derive(Clone)]
pub struct RecoveryMemory {
    possible: PossibleMemory,
    /// The units read that nothing has narrowed yet.
    fresh: FxHashMap<PmAddress, Arc<StateSet>>,
    /// The path of the runs that crashed before.
    start: PathDigest,
    own: StoreHistoryBuilder,
    clock: Time,
    digests: [DefaultHasher; 2],
    /// What to start other runs with.
    pub(super) untried: Vec<PossibleMemory>,
    /// Crashes before the run narrows what may be lost.
    crashes: Vec<CrashInside>,
}

impl RecoveryMemory {
    /// A run of recovery that starts now.
    pub fn new(possible: PossibleMemory) -> Self {
        Self::on_path(possible, PathDigest::default())
    }

    pub(super) fn on_path(possible: PossibleMemory, path: PathDigest) -> Self {
        let run = possible.target();
        let own = StoreHistoryBuilder::of_recovery(run.profile, run.tearing);
        // Two digests of 64 bits, so that no two paths of a long exploration share both.
        let digests = [0_u8, 1].map(|number| {
            let mut hasher = DefaultHasher::new();
            (number, path).hash(&mut hasher);
            hasher
        });
        RecoveryMemory {
            possible,
            fresh: FxHashMap::default(),
            start: path,
            own,
            clock: Time(0),
            digests,
            untried: Vec::new(),
            crashes: Vec::new(),
        }
    }

    /// How many runs crashed before this one: one if only the target did.
    pub fn crashes_before(&self) -> usize {
        self.possible.crashes()
    }

    /// What the earlier crashes can have left, as far as it agrees with what this run has read.
    pub fn possible(&self) -> &PossibleMemory {
        &self.possible
    }

    pub(super) fn start(&self) -> PathDigest {
        self.start
    }

    /// Adds a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.own.add_thread()
    }

    /// The bytes of a load. If several are possible, these are narrowed to one; the others are left for later runs.
    pub fn load(&mut self, address: PmAddress, len: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len as usize);
        for unit in self.possible.units_of(address, len) {
            let reads = self.unit_reads(unit, address, len);
            let (first, others) = reads.split_first().expect("a load sees some bytes");
            // One unit after the other: what later units can show is asked again in those runs.
            self.untried.extend(others.iter().map(|other| {
                let mut possible = self.possible.clone();
                possible.narrow(unit, &other.states);
                possible
            }));
            if !others.is_empty() {
                self.possible.narrow(unit, &first.states);
            }
            bytes.extend_from_slice(&first.bytes);
        }
        self.note_load(address, &bytes);
        bytes
    }

    /// The distinct bytes that a load can see; bytes that this run wrote are its own.
    pub fn may_read(&mut self, address: PmAddress, len: u64) -> ReadClasses {
        let units = self.possible.units_of(address, len);
        let reads = units.map(|unit| (unit, self.unit_reads(unit, address, len)));
        ReadClasses::new(reads.collect())
    }

    fn unit_reads(&mut self, unit: PmAddress, address: PmAddress, len: u64) -> Vec<UnitRead> {
        let possible = &self.possible;
        let fresh = &mut self.fresh;
        let states = possible.narrowed(unit).unwrap_or_else(|| {
            let states = fresh.entry(unit);
            states.or_insert_with(|| possible.unnarrowed(unit))
        });
        let own = self.own.newest(unit);
        possible.unit_reads(states, (unit, own.as_ref()), address, len)
    }

    /// The load at `address` returned the bytes of `class`.
    pub fn choose(&mut self, address: PmAddress, class: &ReadClass) {
        self.possible.choose(class);
        self.note_load(address, &class.bytes);
    }

    /// Processes a store.
    pub fn store(&mut self, thread: ThreadSlot, address: PmAddress, bytes: &[u8], kind: StoreKind) {
        self.act(&(0_u8, thread, address, bytes, kind), |own, time| {
            own.store(Access { thread, time }, address, bytes, kind);
        });
    }

    /// Processes a flush of the line that contains `address`.
    pub fn flush(&mut self, thread: ThreadSlot, address: PmAddress, effect: FlushEffect) {
        self.act(&(1_u8, thread, address, effect), |own, time| {
            own.flush(Access { thread, time }, address, effect);
        });
    }

    /// Processes a fence; a locked instruction is a fence, a load and a store.
    pub fn fence(&mut self, thread: ThreadSlot) {
        self.act(&(2_u8, thread), |own, time| {
            own.fence(Access { thread, time });
        });
    }

    /// Processes a write-back of the pages that contain bytes of `range` (`msync`, `fsync`).
    pub fn write_back(&mut self, thread: ThreadSlot, space: SpaceId, range: Range<u64>) {
        self.act(&(3_u8, thread, space, &range), |own, time| {
            own.write_back(Access { thread, time }, space, range.clone());
        });
    }

    /// Processes a write to the file that bypasses the mapping.
    pub fn replace(&mut self, address: PmAddress, bytes: &[u8]) {
        self.act(&(4_u8, address, bytes), |own, time| {
            own.replace(time, address, bytes);
        });
    }

    /// Processes the removal of the bytes of `range` from the file.
    pub fn remove(&mut self, space: SpaceId, range: Range<u64>) {
        self.act(&(5_u8, space, &range), |own, time| {
            own.remove(time, space, range.clone());
        });
    }

    fn act(&mut self, what: &impl Hash, effect: impl Fn(&mut StoreHistoryBuilder, Time)) {
        self.clock.0 += 1;
        effect(&mut self.own, self.clock);
        if let Some(&time) = self.own.crash_times().get(self.crashes.len()) {
            self.crash_inside(time);
        }
        self.note(what);
    }

    fn crash_inside(&mut self, time: CrashTime) {
        self.crashes.push(CrashInside {
            time,
            memory: self.possible.clone(),
            path: self.digests.each_ref().map(Hasher::finish),
        });
    }

    fn note_load(&mut self, address: PmAddress, bytes: &[u8]) {
        self.note(&(6_u8, address, bytes));
    }

    fn note(&mut self, what: &impl Hash) {
        self.digests.iter_mut().for_each(|digest| what.hash(digest));
    }

    /// The history of the run, and the crashes inside of it.
    pub(super) fn finish(mut self) -> (StoreHistory, Vec<CrashInside>) {
        let stored_since = self.own.changed();
        let path = self.digests.each_ref().map(Hasher::finish);
        let history = self.own.finish();
        if stored_since && let Some(&time) = history.crash_times().last() {
            self.crashes.push(CrashInside {
                time,
                memory: self.possible,
                path,
            });
        }
        (history, self.crashes)
    }
}
