//! What persistent memory can hold after one or more crashes: the stack of runs that crashed (Jaaru's `exec`, §4), narrowed
//! by what was read since.
//!
//! Units are independent of each other, as in [`CrashStates`](crate::CrashStates). Only units that a read has narrowed are kept; all others
//! are computed from the histories when they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::crash_time::CrashTime;
use super::known_bytes::{KnownBytes, WORD, Word, WordMask, copy_word};
use super::read_classes::{ReadClass, ReadClasses};
use super::state_set::StateSet;
use super::store_history::StoreHistory;
use super::unit_layer::UnitLayer;
use super::unit_reads::{ReadSource, UnitRead, WordRead, reads, sources};
use crate::address::PmAddress;

/// The content of persistent memory before the first event of the recorded run.
pub trait InitialBytes: Send + Sync {
    /// Reads the bytes from `address` on. Bytes that do not exist are zero.
    fn read(&self, address: PmAddress, bytes: &mut [u8]);
}

impl<F: Fn(PmAddress, &mut [u8]) + Send + Sync> InitialBytes for F {
    fn read(&self, address: PmAddress, bytes: &mut [u8]) {
        self(address, bytes);
    }
}

/// All contents that persistent memory can have after the crash of the target, and of recoveries after it, as far as they
/// agree with what was read.
///
/// The example is that of Jaaru, Figs. 2 and 3: `x` and `y` share a line.
///
/// ```
/// use std::sync::Arc;
///
/// use brownout_model::*;
///
/// let mut run = StoreHistoryBuilder::new(Profile::ADR, Tearing::Whole);
/// let thread = run.add_thread();
/// let [x, y] = [0, 8].map(|offset| PmAddress { space: SpaceId(0), offset });
/// let stores = [(y, 1), (x, 2), (y, 3), (x, 4), (y, 5), (x, 6)];
/// for (time, (address, value)) in (1..).zip(stores) {
///     let by = Access { thread, time: Time(time) };
///     if time == 3 {
///         run.flush(by, x, FlushEffect::Immediate);
///     }
///     run.store(by, address, &[value], StoreKind::Cached);
/// }
///
/// let history = Arc::new(run.finish());
/// let end = *history.crash_times().last().unwrap();
/// let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
/// let mut memory = PossibleMemory::new(Arc::new(zeros), history, end);
/// let values = |memory: &PossibleMemory, address| -> Vec<u8> {
///     memory.may_read(address, 1).iter().map(|class| class.bytes[0]).collect()
/// };
/// assert_eq!(values(&memory, x), [6, 4, 2]);
///
/// // Recovery reads 4 from x: the line was written back before x became 6.
/// let four = memory.may_read(x, 1).iter().find(|class| class.bytes == [4]).unwrap();
/// memory.choose(&four);
/// assert_eq!(values(&memory, y), [5, 3]);
/// ```
#[derive(Clone)]
pub struct PossibleMemory {
    initial: Arc<dyn InitialBytes>,
    /// The runs that crashed, oldest first: the target, then recoveries.
    crashed: Vec<(Arc<StoreHistory>, CrashTime)>,
    /// The units that reads have narrowed.
    narrowed: BTreeMap<PmAddress, Arc<StateSet>>,
}

impl fmt::Debug for PossibleMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.crashed.iter().map(|(_, time)| time.before);
        f.debug_struct("PossibleMemory")
            .field("crashes", &times.collect::<Vec<_>>())
            .field("narrowed", &self.narrowed.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl PossibleMemory {
    /// What a crash of the recorded run at `time`, one of its [crash times](StoreHistory::crash_times), can leave.
    pub fn new(initial: Arc<dyn InitialBytes>, run: Arc<StoreHistory>, time: CrashTime) -> Self {
        PossibleMemory {
            initial,
            crashed: vec![(run, time)],
            narrowed: BTreeMap::new(),
        }
    }

    /// What a crash of a recovery at `time` can leave: its stores that are not guaranteed may be lost and show
    /// older bytes. What it read before the crash, which must be all that this memory was narrowed by, stays true.
    pub fn crash(&self, recovery: &Arc<StoreHistory>, time: CrashTime) -> Self {
        let narrowed = self.narrowed.iter().map(|(&unit, states)| {
            let layer = UnitLayer::new(self.crashed.len(), recovery, unit, time.before);
            let states = layer.map(|layer| Arc::new(states.with_layer(layer)));
            (unit, states.unwrap_or_else(|| self.narrowed[&unit].clone()))
        });
        let crashed = self.crashed.iter().cloned();
        PossibleMemory {
            initial: self.initial.clone(),
            crashed: crashed.chain([(recovery.clone(), time)]).collect(),
            narrowed: narrowed.collect(),
        }
    }

    /// How many runs have crashed: one if only the target has.
    pub fn crashes(&self) -> usize {
        self.crashed.len()
    }

    /// When they crashed: the target, then recoveries.
    pub fn crash_times(&self) -> impl Iterator<Item = CrashTime> {
        self.crashed.iter().map(|&(_, time)| time)
    }

    /// The decimal logarithm of the number of states that an eager enumeration has to try, whatever was read.
    pub fn eager_states_log10(&self) -> f64 {
        self.crashed.iter().map(|(_, time)| time.states_log10).sum()
    }

    /// The decimal logarithm of the number of states of the unit with this byte, whatever was read.
    pub fn unit_states_log10(&self, address: PmAddress) -> f64 {
        let states = self.unnarrowed(self.target().unit_of(address));
        states
            .layers()
            .map(|(.., layer)| layer.states_log10())
            .sum()
    }

    /// Whether the unit with this byte has several possible states.
    pub fn is_open(&self, address: PmAddress) -> bool {
        self.states(self.target().unit_of(address)).is_open()
    }

    /// The distinct bytes that a load can see.
    pub fn may_read(&self, address: PmAddress, len: u64) -> ReadClasses {
        let units = self.units_of(address, len);
        let units = units.map(|unit| {
            let reads = self.unit_reads(&self.states(unit), (unit, None), address, len);
            (unit, reads)
        });
        ReadClasses::new(units.collect())
    }

    /// What the bytes of a load can come from (BuildMayReadFrom). A byte that can come from several sources shows that a
    /// flush or a fence is missing, or that the load is meant to find out whether a store is present.
    pub fn sources(&self, address: PmAddress, len: u64) -> BTreeSet<ReadSource> {
        let units = self.units_of(address, len);
        units
            .flat_map(|unit| sources(&self.states(unit), &self.words(unit, address, len, None)))
            .collect()
    }

    /// Keeps the contents in which a load saw the bytes of `class`.
    pub fn choose(&mut self, class: &ReadClass) {
        for (unit, states) in &class.states {
            self.narrow(*unit, states);
        }
    }

    pub(super) fn narrow(&mut self, unit: PmAddress, states: &Arc<StateSet>) {
        self.narrowed.insert(unit, states.clone());
    }

    /// The content of each unit that a crashed run stored to, in one state that agrees with all that was read: the
    /// one with as much as possible present. With the initial content of all other bytes it is a crash image.
    pub fn completed(&self) -> impl Iterator<Item = (PmAddress, Vec<u8>)> {
        let histories = self.crashed.iter();
        let units: BTreeSet<PmAddress> = histories.flat_map(|(run, _)| run.units()).collect();
        units.into_iter().map(|unit| {
            let bytes = self.completed_bytes(unit, self.profile_unit());
            (unit, bytes)
        })
    }

    fn profile_unit(&self) -> u64 {
        self.target().profile().unit
    }

    pub(super) fn target(&self) -> &Arc<StoreHistory> {
        &self.crashed[0].0
    }

    /// A run that crashed, and when.
    pub(super) fn crashed_run(&self, number: usize) -> (&Arc<StoreHistory>, CrashTime) {
        let (run, time) = &self.crashed[number];
        (run, *time)
    }

    /// The memory before the last crash, with these states of units.
    pub(super) fn without_last(&self, narrowed: BTreeMap<PmAddress, Arc<StateSet>>) -> Self {
        let (_, before) = self.crashed.split_last().expect("the target has crashed");
        PossibleMemory {
            initial: self.initial.clone(),
            crashed: before.to_vec(),
            narrowed,
        }
    }

    pub(super) fn narrowed_units(&self) -> impl Iterator<Item = (PmAddress, &StateSet)> {
        let units = self.narrowed.iter();
        units.map(|(&unit, states)| (unit, &**states))
    }

    /// The units that contain bytes of a load.
    pub(super) fn units_of(
        &self,
        address: PmAddress,
        len: u64,
    ) -> impl Iterator<Item = PmAddress> + use<> {
        let size = self.profile_unit();
        let first = self.target().unit_of(address).offset;
        let end = address.offset.saturating_add(len);
        let starts = (first..end).step_by(size as usize);
        starts.map(move |offset| PmAddress { offset, ..address })
    }

    /// The possible states of a unit, if a read has narrowed them.
    pub(super) fn narrowed(&self, unit: PmAddress) -> Option<&Arc<StateSet>> {
        self.narrowed.get(&unit)
    }

    /// All states that the crashes can have left of a unit.
    pub(super) fn unnarrowed(&self, unit: PmAddress) -> Arc<StateSet> {
        let runs = self.crashed.iter().enumerate();
        let layers =
            runs.filter_map(|(number, (run, time))| UnitLayer::new(number, run, unit, time.before));
        Arc::new(StateSet::new(layers))
    }

    pub(super) fn states(&self, unit: PmAddress) -> Arc<StateSet> {
        let narrowed = self.narrowed(unit).cloned();
        narrowed.unwrap_or_else(|| self.unnarrowed(unit))
    }

    /// The distinct bytes that a load can see in one unit in any of `states`, with the bytes of the unit that recovery itself
    /// wrote.
    pub(super) fn unit_reads(
        &self,
        states: &Arc<StateSet>,
        (unit, own): (PmAddress, Option<&KnownBytes>),
        address: PmAddress,
        len: u64,
    ) -> Vec<UnitRead> {
        reads(states, &self.words(unit, address, len, own))
    }

    /// The words of a unit that contain bytes of a load.
    fn words(
        &self,
        unit: PmAddress,
        address: PmAddress,
        len: u64,
        own: Option<&KnownBytes>,
    ) -> Vec<WordRead> {
        let end = address.offset.saturating_add(len);
        let from = address.offset.max(unit.offset) - unit.offset;
        let to = end.saturating_sub(unit.offset).min(self.profile_unit());
        let mut initial = vec![0; (to - from) as usize];
        let first = PmAddress {
            offset: unit.offset + from,
            ..unit
        };
        self.initial.read(first, &mut initial);
        let (from, to) = (from as usize, to as usize);
        let words = from / WORD..to.div_ceil(WORD);
        words
            .map(|word| {
                let bytes = (word * WORD).max(from)..((word + 1) * WORD).min(to);
                let (mut wanted, mut base): (WordMask, Word) = Default::default();
                for byte in bytes {
                    wanted |= 1 << (byte % WORD);
                    base[byte % WORD] = initial[byte - from];
                }
                let (own, values) = own.map_or((0, &[][..]), |own| own.word(word));
                copy_word(&mut base, values, own);
                WordRead {
                    word,
                    wanted,
                    own,
                    base,
                }
            })
            .collect()
    }
}
