//! The versions of a unit: in situations that are next to each other, most units have the same possible states. And if a recovery
//! is interrupted that has neither read nor written a unit, the unit is as it was when the recovery started.

use std::ops::Range;
use std::sync::Arc;

use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use super::behaviours::{Behaviours, Read};
use super::crash_times::RecordedStores;
use super::situations::Situations;
use crate::effect::address;

/// Situations in which a unit has the same possible states.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// One of the situations.
    pub example: u32,
    /// The file that has the path.
    pub holder: FileId,
    /// Whether there are several states.
    pub is_open: bool,
}

/// A unit of the persistency model: the number of the persistent file, and the offset.
pub type Unit = (u32, u64);

/// The versions of one unit.
#[derive(Default)]
struct UnitVersions {
    all: Vec<Version>,
    /// Those after crashes of the target, in the order of time.
    of_target: Vec<(Range<u32>, usize)>,
    /// Those after crashes inside recoveries, by the number of the interruption and the version when the recovery started.
    inside: FxHashMap<(usize, usize), usize>,
}

/// The versions of all units that recovery has read.
pub struct Versions {
    pub situations: Situations,
    by_unit: FxHashMap<Unit, UnitVersions>,
    /// For each persistent file, the files that had its path.
    holders: Vec<Vec<(Range<u32>, FileId)>>,
    unit_size: u64,
}

impl Versions {
    pub fn new(stores: Arc<RecordedStores>) -> Self {
        let files = stores.differing.len();
        let holders = (0..files).map(|file| {
            let mut ranges: Vec<(Range<u32>, FileId)> = Vec::new();
            for (number, explored) in (0..).zip(&stores.times) {
                let holder = explored.holder(file);
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
            situations: Situations::new(stores),
        }
    }

    /// Forgets all crashes inside recoveries.
    pub fn clear(&mut self) {
        self.situations.clear();
        self.by_unit.clear();
    }

    /// The unit in which a read is.
    pub fn unit_of(&self, read: Read) -> Unit {
        (read.file, read.offset - read.offset % self.unit_size)
    }

    pub fn unit_size(&self) -> u64 {
        self.unit_size
    }

    /// The units that recovery has read, in order.
    pub fn known_units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = self.by_unit.keys().copied().collect();
        units.sort_unstable();
        units
    }

    /// A version of a unit, by its number.
    pub fn version(&self, unit: Unit, number: usize) -> Version {
        self.by_unit[&unit].all[number]
    }

    /// The versions of a unit after crashes of the target, in the order of time.
    pub fn of_target(&mut self, unit: Unit, behaviours: &Behaviours) -> Vec<(Range<u32>, Version)> {
        let times = 0..self.situations.of_target();
        let parts = self.parts(unit, times, behaviours).into_iter();
        parts
            .map(|(number, times)| (times, self.version(unit, number)))
            .collect()
    }

    /// The version of a unit in a situation.
    pub fn at(&mut self, unit: Unit, situation: u32, behaviours: &Behaviours) -> Version {
        let parts = self.parts(unit, situation..situation + 1, behaviours);
        self.version(unit, parts[0].0)
    }

    /// The numbers of the versions of a unit in a range of situations, in order.
    pub fn parts(
        &mut self,
        unit: Unit,
        within: Range<u32>,
        behaviours: &Behaviours,
    ) -> Vec<(usize, Range<u32>)> {
        self.find_target_versions(unit, behaviours);
        let mut parts = Vec::new();
        let known = &self.by_unit[&unit].of_target;
        let first = known.partition_point(|(times, _)| times.end <= within.start);
        for (times, number) in &known[first..] {
            let part = times.start.max(within.start)..times.end.min(within.end);
            if part.is_empty() {
                break;
            }
            parts.push((*number, part));
        }
        let interrupted = self.situations.interrupted();
        let first = interrupted.partition_point(|known| known.numbers.end <= within.start);
        let last = interrupted.partition_point(|known| known.numbers.start < within.end);
        for interruption in first..last {
            self.add_inside(unit, interruption, &within, &mut parts, behaviours);
        }
        parts
    }

    /// Adds the versions of a unit after crashes inside a recovery.
    fn add_inside(
        &mut self,
        unit: Unit,
        interruption: usize,
        within: &Range<u32>,
        parts: &mut Vec<(usize, Range<u32>)>,
        behaviours: &Behaviours,
    ) {
        let known = &self.situations.interrupted()[interruption];
        let affects = known.affects(unit, self.unit_size);
        let numbers = known.numbers.start.max(within.start)..known.numbers.end.min(within.end);
        for (at, origin) in known.origins(numbers) {
            for (before, part) in self.parts(unit, origin.clone(), behaviours) {
                let start = at + (part.start - origin.start);
                let numbers = start..start + (part.end - part.start);
                let version = match affects {
                    true => self.inside(unit, (interruption, before), start, behaviours),
                    false => before,
                };
                match parts.last_mut() {
                    Some((last, range)) if *last == version && range.end == numbers.start => {
                        range.end = numbers.end;
                    }
                    _ => parts.push((version, numbers)),
                }
            }
        }
    }

    /// The version after a crash inside a recovery that started with version `before`.
    fn inside(
        &mut self,
        unit: Unit,
        (interruption, before): (usize, usize),
        example: u32,
        behaviours: &Behaviours,
    ) -> usize {
        let known = &self.by_unit[&unit];
        if let Some(&known) = known.inside.get(&(interruption, before)) {
            return known;
        }
        let holder = known.all[before].holder;
        let memory = self.situations.memory(example, Some(unit), behaviours);
        let version = Version {
            example,
            holder,
            is_open: memory.is_open(address(holder, unit.1)),
        };
        let versions = self.by_unit.entry(unit).or_default();
        versions.all.push(version);
        let number = versions.all.len() - 1;
        versions.inside.insert((interruption, before), number);
        number
    }

    /// Finds the versions after crashes of the target.
    fn find_target_versions(&mut self, unit: Unit, behaviours: &Behaviours) {
        if self.by_unit.contains_key(&unit) {
            return;
        }
        let mut versions = UnitVersions::default();
        for (range, holder) in &self.holders[unit.0 as usize] {
            let stores = &self.situations.stores;
            let changes = stores.history.changes(address(*holder, unit.1));
            // A change at a time shows in crashes that are later.
            let bound = |change| {
                let times = &stores.times;
                times.partition_point(|known| known.time.before <= change) as u32
            };
            let mut bounds = vec![range.start];
            let changed = changes.into_iter().map(bound);
            bounds.extend(changed.filter(|bound| range.contains(bound)));
            bounds.dedup();
            let ends = bounds.iter().skip(1).copied().chain([range.end]);
            for (start, end) in bounds.iter().copied().zip(ends) {
                let memory = self.situations.memory(start, Some(unit), behaviours);
                versions.of_target.push((start..end, versions.all.len()));
                versions.all.push(Version {
                    example: start,
                    holder: *holder,
                    is_open: memory.is_open(address(*holder, unit.1)),
                });
            }
        }
        self.by_unit.insert(unit, versions);
    }
}
