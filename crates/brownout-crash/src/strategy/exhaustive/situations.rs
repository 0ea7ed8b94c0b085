//! The situations that recovery starts in: after a crash of the target at one of its crash times, or after a crash inside an
//! earlier recovery (Jaaru's stack of executions, §4).
//!
//! Situations are numbered. First come the crash times of the target. A recovery that has read certain bytes does the same
//! after all crashes that show it these bytes. So it is interrupted in the same way after all of them: they are one
//! [`Interrupted`] with as many numbers as there are such crashes.

use std::ops::Range;
use std::sync::Arc;

use brownout_model::{CrashTime, PossibleMemory, StoreHistory};
use brownout_recovery::ByteRanges;
use rustc_hash::FxHashMap;

use super::behaviours::{Behaviours, Read, ValueId};
use super::crash_times::{Context, ExploredTime, RecordedStores, Start};
use super::time_set::TimeSet;
use super::versions::Unit;
use crate::effect::address;
use crate::recovery_run::{InnerCrash, RecoveryRun};

/// All situations that are known.
pub struct Situations {
    pub stores: Arc<RecordedStores>,
    /// The bytes of each persistent file that differ between situations: those that the target has written, and those that interrupted
    /// recoveries have.
    pub differing: Arc<[ByteRanges]>,
    interrupted: Vec<Interrupted>,
}

/// What an interrupted recovery has read, by unit, in order.
pub type ReadPath = FxHashMap<Unit, Vec<(Read, ValueId)>>;

/// A recovery that is interrupted at one of its actions, after each of the crashes that lead it there.
pub struct Interrupted {
    /// The situations afterwards.
    pub numbers: Range<u32>,
    /// Those in which the interrupted recovery has started, in the same order.
    pub started_in: TimeSet,
    /// How many runs have crashed, the target included.
    pub depth: usize,
    pub path: Arc<ReadPath>,
    pub recovery: RecoveryRun,
    /// All stores of the recovery, in the spaces of the files that have the paths in these situations.
    pub history: Arc<StoreHistory>,
    /// The bytes of each persistent file that the recovery changes.
    pub written: Arc<[ByteRanges]>,
    pub crash: InnerCrash,
    /// How the next recovery starts.
    pub start: Start,
}

impl Interrupted {
    /// The situations in which the interrupted recovery has started, for a range of its numbers: with the first number of each.
    pub fn origins(&self, numbers: Range<u32>) -> Vec<(u32, Range<u32>)> {
        let first = self.numbers.start;
        let mut next = numbers.start;
        let origins = self
            .started_in
            .numbered(numbers.start - first, numbers.end - first);
        origins
            .map(|origin| {
                let at = next;
                next += origin.end - origin.start;
                (at, origin)
            })
            .collect()
    }

    /// Whether what a unit can hold differs from what it could hold when the interrupted recovery started.
    pub fn affects(&self, unit: Unit, unit_size: u64) -> bool {
        let is_written = |written: &ByteRanges| written.overlaps(unit.1..unit.1 + unit_size);
        self.path.contains_key(&unit) || self.written.get(unit.0 as usize).is_some_and(is_written)
    }
}

impl Situations {
    pub fn new(stores: Arc<RecordedStores>) -> Self {
        Self {
            differing: Arc::clone(&stores.differing),
            stores,
            interrupted: Vec::new(),
        }
    }

    /// Forgets all crashes inside recoveries.
    pub fn clear(&mut self) {
        self.interrupted.clear();
    }

    /// How many crash times of the target there are: their numbers come first.
    pub fn of_target(&self) -> u32 {
        self.stores.times.len() as u32
    }

    /// The first number that is free.
    pub fn end(&self) -> u32 {
        let last = self.interrupted.last();
        last.map_or_else(|| self.of_target(), |last| last.numbers.end)
    }

    /// The crashes inside recoveries.
    pub fn interrupted(&self) -> &[Interrupted] {
        &self.interrupted
    }

    pub fn add(&mut self, interrupted: Interrupted) {
        self.interrupted.push(interrupted);
    }

    /// The crash inside a recovery that leads to a situation; `None` if the target alone has crashed.
    pub fn interruption(&self, situation: u32) -> Option<&Interrupted> {
        let next = self
            .interrupted
            .partition_point(|known| known.numbers.start <= situation);
        self.interrupted.get(next.checked_sub(1)?)
    }

    /// The situation in which the recovery has started that was interrupted last.
    pub fn before(&self, situation: u32) -> Option<u32> {
        let interrupted = self.interruption(situation)?;
        let origins = interrupted.origins(situation..situation + 1);
        origins.first().map(|(_, origin)| origin.start)
    }

    /// The crash of the target.
    pub fn target_crash(&self, mut situation: u32) -> &ExploredTime {
        while let Some(before) = self.before(situation) {
            situation = before;
        }
        &self.stores.times[situation as usize]
    }

    /// The failure point of the target at which power is lost.
    pub fn context(&self, situation: u32) -> Context {
        self.target_crash(situation).context()
    }

    /// The crashes inside recoveries that lead to a situation, in order.
    pub fn interruptions(&self, mut situation: u32) -> Vec<&Interrupted> {
        let mut found = Vec::new();
        while let (Some(known), Some(before)) =
            (self.interruption(situation), self.before(situation))
        {
            found.push(known);
            situation = before;
        }
        found.reverse();
        found
    }

    /// How many runs have crashed, the target included.
    pub fn depth(&self, situation: u32) -> usize {
        self.interruption(situation).map_or(1, |known| known.depth)
    }

    /// How recovery starts.
    pub fn start(&self, situation: u32) -> &Start {
        match self.interruption(situation) {
            Some(interrupted) => &interrupted.start,
            None => &self.stores.times[situation as usize].start,
        }
    }

    /// The decimal logarithm of the number of states that the crashes can have left.
    pub fn states_log10(&self, situation: u32) -> f64 {
        let inside = self.interruptions(situation).into_iter();
        let inside: f64 = inside.map(|known| known.crash.time.states_log10).sum();
        self.target_crash(situation).time.states_log10 + inside
    }

    /// The decimal logarithm of the number of states of all situations, each of which an eager enumeration has to try.
    pub fn eager_states_log10(&self) -> f64 {
        let of_target = self.stores.states_log10();
        let inside = self
            .interrupted
            .iter()
            .flat_map(|known| known.numbers.clone());
        let mut logs: Vec<f64> = inside.map(|number| self.states_log10(number)).collect();
        logs.push(of_target);
        sum_log10(logs)
    }

    /// All memory that the crashes can have left, as far as it agrees with what the interrupted recoveries have read; if one `unit`
    /// is given, what they have read of that one.
    pub fn memory(
        &self,
        situation: u32,
        unit: Option<Unit>,
        behaviours: &Behaviours,
    ) -> PossibleMemory {
        let target = self.target_crash(situation);
        let mut memory = self.after_target(target.time);
        let narrow_by = |memory: &mut PossibleMemory, reads: &[(Read, ValueId)]| {
            for &(read, value) in reads {
                let at = address(target.holder(read.file as usize), read.offset);
                narrow(memory, at, behaviours.bytes(value));
            }
        };
        for known in self.interruptions(situation) {
            match unit {
                Some(unit) => {
                    let reads = known.path.get(&unit).map_or(&[][..], |reads| reads);
                    narrow_by(&mut memory, reads);
                }
                None => known
                    .path
                    .values()
                    .for_each(|reads| narrow_by(&mut memory, reads)),
            }
            memory = memory.crash(&known.history, known.crash.time);
        }
        memory
    }

    /// All memory that a crash of the target can leave.
    fn after_target(&self, time: CrashTime) -> PossibleMemory {
        let stores = &self.stores;
        PossibleMemory::new(
            Arc::clone(&stores.initial),
            Arc::clone(&stores.history),
            time,
        )
    }
}

/// The decimal logarithm of the sum of numbers of which these are the decimal logarithms. There must be at least one.
pub fn sum_log10(logs: Vec<f64>) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| 10_f64.powf(log - largest)).sum();
    largest + sum.log10()
}

/// Keeps the contents in which these bytes are at an address. Returns whether there are any.
pub fn narrow(memory: &mut PossibleMemory, at: brownout_model::PmAddress, bytes: &[u8]) -> bool {
    let classes = memory.may_read(at, bytes.len() as u64);
    let class = classes.iter().find(|class| class.bytes == bytes);
    match class {
        Some(class) => {
            memory.choose(&class);
            true
        }
        None => false,
    }
}
