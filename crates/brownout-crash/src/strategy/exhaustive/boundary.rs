//! The two states at the ends of what a crash can leave: the one with every store, and the one without any that it can lose.
//!
//! They are tried at every crash time before any other state, because they show most bugs: an update in several steps in the first,
//! a missing flush in the second. All crash times go down the tree of behaviours together, along what recovery reads in these states,
//! as far as it is known: recovery runs once for all crash times that show it the same bytes.

use std::ops::Range;
use std::sync::Arc;

use brownout_model::{PossibleMemory, Time};
use rustc_hash::FxHashMap;

use super::behaviours::{Next, NodeId, Read, ValueId};
use super::explorer::{Explorer, Found};
use super::time_set::TimeSet;
use super::versions::Unit;
use crate::effect::address;

/// No store was issued before it.
const OLDEST: Time = Time(0);

/// A state at an end of what a crash can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundaryState {
    /// Every store is present.
    Newest,
    /// Of the stores that the crash can lose, none is.
    Oldest,
}

/// Follows recoveries after a crash at each time of the target, on one boundary state of each.
pub struct BoundaryWalk {
    boundary: BoundaryState,
    /// Where it is not known how recovery goes on, and after which crashes.
    heads: Vec<(NodeId, TimeSet)>,
    /// Crashes after which it stays unknown.
    given_up: TimeSet,
    /// What reads see in a version of a unit, by unit, version, offset and length.
    values: FxHashMap<(Unit, usize, u64, u32), ValueId>,
}

impl BoundaryWalk {
    pub fn new(boundary: BoundaryState, explorer: &Explorer) -> Self {
        let of_target = 0..explorer.situations().of_target();
        let roots = explorer.roots().map(|root| {
            let times = explorer.behaviours.times(root);
            (root, within(times, of_target.clone()))
        });
        Self {
            boundary,
            heads: roots.collect(),
            given_up: TimeSet::default(),
            values: FxHashMap::default(),
        }
    }

    pub fn boundary(&self) -> BoundaryState {
        self.boundary
    }

    /// Where it is not known how recovery goes on, and after which crashes; the earliest first.
    pub fn heads(&self) -> &[(NodeId, TimeSet)] {
        &self.heads
    }

    /// Gives up where no run can be wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(NodeId, &TimeSet) -> bool) {
        self.heads.retain(|(node, times)| {
            let is_wanted = is_wanted(*node, times);
            if !is_wanted {
                self.given_up.unite(times);
            }
            is_wanted
        });
    }

    /// At how many crash times it is not known how recovery ends.
    pub fn unknown(&self) -> u64 {
        let heads = self.heads.iter().map(|(_, times)| times.count());
        self.given_up.count() + heads.sum::<u64>()
    }

    /// Goes on along what runs have shown since.
    pub fn advance(&mut self, explorer: &mut Explorer) {
        let mut steps = std::mem::take(&mut self.heads);
        while let Some((node, times)) = steps.pop() {
            match explorer.behaviours.next(node) {
                Next::Unknown | Next::Awaited => self.heads.push((node, times)),
                Next::End { .. } => {}
                Next::Read(read) => {
                    for (value, times) in self.divide(explorer, read, &times) {
                        let child = explorer.behaviours.child(node, value);
                        steps.extend(child.map(|child| (child, times)));
                    }
                }
            }
        }
        self.heads.sort_by_key(|(_, times)| times.first());
    }

    /// Divides crash times by the bytes that a read sees.
    fn divide(
        &mut self,
        explorer: &mut Explorer,
        read: Read,
        times: &TimeSet,
    ) -> Vec<(ValueId, TimeSet)> {
        let unit = explorer.versions.unit_of(read);
        let mut found = Found::default();
        for range in times.ranges() {
            for (version, part) in explorer.versions.parts(unit, range, &explorer.behaviours) {
                let key = (unit, version, read.offset, read.len);
                let value = self.values.entry(key).or_insert_with(|| {
                    let bytes = bytes_at(self.boundary, explorer, version, read);
                    explorer.behaviours.value(&bytes)
                });
                found.push(*value, part);
            }
        }
        found.into_vec()
    }
}

/// What a read sees in a version of its unit.
fn bytes_at(boundary: BoundaryState, explorer: &Explorer, version: usize, read: Read) -> Vec<u8> {
    let unit = explorer.versions.unit_of(read);
    let version = explorer.versions.version(unit, version);
    let behaviours = &explorer.behaviours;
    let mut memory = explorer
        .situations()
        .memory(version.example, Some(unit), behaviours);
    if boundary == BoundaryState::Oldest {
        memory.keep_issued_before(address(version.holder, unit.1), OLDEST);
    }
    memory.completed_bytes(address(version.holder, read.offset), u64::from(read.len))
}

fn within(times: &Arc<TimeSet>, range: Range<u32>) -> TimeSet {
    let mut found = TimeSet::default();
    times.parts(range).for_each(|part| found.push(part));
    found
}

impl Explorer {
    /// A boundary state of a crash of the target. Units that no recovery has read are left as they were last.
    pub fn boundary_memory(&mut self, boundary: BoundaryState, time: u32) -> PossibleMemory {
        let mut memory = self.situations().memory(time, None, &self.behaviours);
        if boundary == BoundaryState::Oldest {
            for unit in self.versions.known_units() {
                let version = self.versions.at(unit, time, &self.behaviours);
                if version.is_open {
                    memory.keep_issued_before(address(version.holder, unit.1), OLDEST);
                }
            }
        }
        memory
    }
}
