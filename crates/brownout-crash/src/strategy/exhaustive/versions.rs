//! The versions of a unit: at crash times that are next to each other, most units have the same possible states.

use std::ops::Range;
use std::sync::Arc;

use brownout_model::PossibleMemory;
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use super::behaviours::Read;
use super::crash_times::RecordedStores;
use crate::effect::address;

/// Crash times at which a unit has the same possible states.
#[derive(Clone, Debug)]
pub struct Version {
    pub times: Range<u32>,
    /// The file that has the path; `None` if it is not mapped yet, so that its content is certain.
    pub holder: Option<FileId>,
    /// Whether there are several states.
    pub is_open: bool,
}

/// A unit of the persistency model: the number of the PM file, and the offset.
pub type Unit = (u32, u64);

/// The versions of all units that recovery has read.
pub struct Versions {
    pub stores: Arc<RecordedStores>,
    by_unit: FxHashMap<Unit, Arc<[Version]>>,
    /// For each PM file, the files that had its path.
    holders: Vec<Vec<(Range<u32>, Option<FileId>)>>,
    unit_size: u64,
}

impl Versions {
    pub fn new(stores: Arc<RecordedStores>) -> Self {
        let files = stores.differing.len();
        let holders = (0..files).map(|file| {
            let mut ranges: Vec<(Range<u32>, Option<FileId>)> = Vec::new();
            for (number, explored) in (0..).zip(&stores.times) {
                let holder = explored.holders[file];
                match ranges.last_mut().filter(|(_, last)| *last == holder) {
                    Some((range, _)) => range.end = number + 1,
                    None => ranges.push((number..number + 1, holder)),
                }
            }
            ranges
        });
        Self {
            holders: holders.collect(),
            by_unit: FxHashMap::default(),
            unit_size: stores.history.profile().unit,
            stores,
        }
    }

    /// The unit in which a read is.
    pub fn unit_of(&self, read: Read) -> Unit {
        (read.file, read.offset - read.offset % self.unit_size)
    }

    /// All memory that a crash at a time can leave.
    pub fn memory(&self, time: u32) -> PossibleMemory {
        PossibleMemory::new(
            Arc::clone(&self.stores.initial),
            Arc::clone(&self.stores.history),
            self.stores.times[time as usize].time,
        )
    }

    /// The versions of a unit, in order.
    pub fn of(&mut self, unit: Unit) -> Arc<[Version]> {
        if let Some(known) = self.by_unit.get(&unit) {
            return Arc::clone(known);
        }
        let mut versions = Vec::new();
        for (range, holder) in &self.holders[unit.0 as usize] {
            let mut bounds = vec![range.start];
            if let Some(file) = *holder {
                let times = &self.stores.times;
                let changes = self.stores.history.changes(address(file, unit.1));
                // A change at a time shows in crashes that are later.
                let bound = |change| times.partition_point(|known| known.time.before <= change);
                let changed = changes.into_iter().map(|change| bound(change) as u32);
                bounds.extend(changed.filter(|bound| range.contains(bound)));
                bounds.dedup();
            }
            let ends = bounds.iter().skip(1).copied().chain([range.end]);
            for (start, end) in bounds.iter().copied().zip(ends) {
                let is_open = |file| self.memory(start).is_open(address(file, unit.1));
                versions.push(Version {
                    times: start..end,
                    holder: *holder,
                    is_open: holder.is_some_and(is_open),
                });
            }
        }
        let versions: Arc<[Version]> = versions.into();
        self.by_unit.insert(unit, Arc::clone(&versions));
        versions
    }

    /// The version of a unit at a time.
    pub fn at(&mut self, unit: Unit, time: u32) -> Option<Version> {
        let versions = self.of(unit);
        let next = versions.partition_point(|version| version.times.start <= time);
        versions.get(next.checked_sub(1)?).cloned()
    }
}
