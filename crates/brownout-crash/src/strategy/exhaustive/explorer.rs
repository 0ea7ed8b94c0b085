//! Learns the behaviours of recovery from runs, for all crash times at once (Jaaru §4, BuildMayReadFrom and UpdateRanges).
//!
//! A run shows what recovery reads. For each read, the crash times after which recovery can get there are divided by the bytes
//! that the read can see: a node for each byte string, with the times at which it is possible. Which it is depends on the unit
//! that is read and on what recovery has read of the same unit before, and changes only when the unit changes: the bytes are
//! computed once for each [version](Version) of the unit. A node that no run has reached, and that can be reached, is wanted.

use std::ops::Range;
use std::sync::Arc;

use brownout_model::{LINE, PmAddress, PossibleMemory};
use brownout_recovery::{FirstRead, ReadBytes};
use rustc_hash::FxHashMap;

use super::behaviours::{Behaviours, Next, NodeId, Read, ValueId};
use super::crash_times::{RecordedStores, Start};
use super::time_set::TimeSet;
use super::versions::{Unit, Version, Versions};
use crate::effect::address;

/// If recovery could read something else more often than this after a crash, the states are sampled.
pub const MOST_CHOICES: u32 = 10;
/// But not if a crash can leave only so many states, as a decimal logarithm.
const FEW_STATES_LOG10: f64 = 3.0;

/// All that is known about what recovery does after a crash.
pub struct Explorer {
    pub behaviours: Behaviours,
    pub versions: Versions,
    roots: FxHashMap<Start, NodeId>,
    /// Nodes to which no run has led, when they were added.
    frontier: Vec<NodeId>,
    /// Times at which there are too many combinations to explore all.
    pub sampled: TimeSet,
    /// Runs that have read what no crash can leave.
    pub impossible_reads: u64,
}

impl Explorer {
    pub fn new(stores: Arc<RecordedStores>) -> Self {
        let mut behaviours = Behaviours::default();
        let mut by_start: FxHashMap<&Start, TimeSet> = FxHashMap::default();
        for (number, explored) in (0..).zip(&stores.times) {
            let times = by_start.entry(&explored.start).or_default();
            times.push(number..number + 1);
        }
        let roots: FxHashMap<Start, NodeId> = by_start
            .into_iter()
            .map(|(start, times)| (start.clone(), behaviours.add_root(times)))
            .collect();
        let mut frontier: Vec<NodeId> = roots.values().copied().collect();
        frontier.sort_by_key(|&root| behaviours.times(root).first());
        Self {
            behaviours,
            versions: Versions::new(stores),
            roots,
            frontier,
            sampled: TimeSet::default(),
            impossible_reads: 0,
        }
    }

    /// The nodes that are not known yet and were not returned before.
    pub fn take_frontier(&mut self) -> Vec<NodeId> {
        let mut nodes = std::mem::take(&mut self.frontier);
        nodes.retain(|&node| self.behaviours.next(node) == Next::Unknown);
        nodes
    }

    /// Learns from a run.
    pub fn learn(&mut self, start: &Start, reads: &ReadBytes, passes: bool) -> Learned {
        let mut cursor = self.begin(start);
        for (read, bytes) in reads.iter() {
            self.read(&mut cursor, read, bytes);
        }
        let Cursor { node, path, .. } = cursor;
        let (end, is_new) = self.behaviours.learn(node, Next::End { passes });
        Learned {
            end,
            is_new,
            too_open: if is_new {
                self.sample(end, &path)
            } else {
                Vec::new()
            },
        }
    }

    /// A run that has read nothing.
    pub fn begin(&self, start: &Start) -> Cursor {
        Cursor {
            node: self.roots[start],
            path: Path::default(),
            sizes: start.sizes.clone(),
        }
    }

    /// Learns what a run reads next. Returns whether there will be runs that read something else there.
    pub fn read(&mut self, cursor: &mut Cursor, read: FirstRead, bytes: &[u8]) -> bool {
        let Cursor { node, path, sizes } = cursor;
        let mut others_follow = false;
        for (read, bytes) in within_file(read, bytes, sizes) {
            let (at, is_new) = self.behaviours.learn(*node, Next::Read(read));
            if is_new {
                self.expand(at, read, path);
            }
            let value = self.behaviours.value(bytes);
            *node = match self.behaviours.child(at, value) {
                Some(child) => child,
                None => self.add_unexpected(at, value),
            };
            if self.behaviours.next(*node) == Next::Unknown {
                // This run will show it.
                self.behaviours.await_run(*node);
            }
            others_follow |= self.behaviours.has_unknown_child(at, *node);
            path.push(at, read, value, self);
        }
        others_follow
    }

    /// Notes the times at which recovery could have read something else too often on its way to `end`, and returns them.
    fn sample(&mut self, end: NodeId, path: &Path) -> Vec<u32> {
        let times = Arc::clone(self.behaviours.times(end));
        let choices = path.choices(self, times.hull());
        let has_many_states = |time: u32| {
            let explored = &self.versions.stores.times[time as usize];
            explored.time.states_log10 > FEW_STATES_LOG10
        };
        let is_new = |time: &u32| {
            let choices = choices.get(time).copied().unwrap_or(0);
            choices > MOST_CHOICES && has_many_states(*time) && !self.sampled.contains(*time)
        };
        let found: Vec<u32> = times.iter().filter(is_new).collect();
        self.sampled.unite(&found.iter().copied().collect());
        found
    }

    /// The units in which recovery could have read something else after a crash at `time` on its way to `end`, in order.
    pub fn open_units(&mut self, end: NodeId, time: u32) -> Vec<PmAddress> {
        let mut found = Vec::new();
        for (read, _) in self.behaviours.path(end) {
            let unit = self.versions.unit_of(read);
            let version = self.versions.at(unit, time);
            let holder = version.filter(|version| version.is_open);
            if let Some(file) = holder.and_then(|version| version.holder) {
                let at = address(file, unit.1);
                if !found.contains(&at) {
                    found.push(at);
                }
            }
        }
        found
    }

    /// Whether it is known how recovery ends after a crash at `time` that leaves one state.
    pub fn is_known(&mut self, memory: &PossibleMemory, time: u32) -> bool {
        let start = &self.versions.stores.times[time as usize].start;
        let mut node = self.roots[start];
        while let Next::Read(read) = self.behaviours.next(node) {
            let unit = self.versions.unit_of(read);
            let holder = self
                .versions
                .at(unit, time)
                .and_then(|version| version.holder);
            let bytes = match holder {
                Some(file) => {
                    let at = address(file, read.offset);
                    memory.may_read(at, u64::from(read.len)).certain()
                }
                None => Some(
                    self.versions
                        .stores
                        .unmapped_bytes(read.file, read.offset, read.len),
                ),
            };
            let value = bytes.map(|bytes| self.behaviours.value(&bytes));
            match value.and_then(|value| self.behaviours.child(node, value)) {
                Some(child) => node = child,
                None => return false,
            }
        }
        self.behaviours.next(node).is_known()
    }

    /// Adds a node for each byte string that a read can see.
    fn expand(&mut self, node: NodeId, read: Read, path: &mut Path) {
        let times = Arc::clone(self.behaviours.times(node));
        let unit = self.versions.unit_of(read);
        let versions = self.versions.of(unit);
        let mut found = Found::default();
        let mut choice_times = TimeSet::default();
        let reached = times.first().map_or(0, |first| {
            versions.partition_point(|version| version.times.end <= first)
        });
        for (number, version) in versions.iter().enumerate().skip(reached) {
            let mut parts = times.parts(version.times.clone()).peekable();
            let Some(first) = parts.peek() else {
                continue;
            };
            let values = path.values(self, unit, (number, version), first.start, read);
            for part in parts {
                if values.len() == 1 {
                    found.push(values[0], part);
                    continue;
                }
                choice_times.push(part.clone());
                for &value in &values {
                    found.push(value, part.clone());
                }
            }
        }
        self.behaviours.set_choice_times(node, choice_times);
        for (value, possible) in found.0 {
            // Most reads are certain, at all times: they share the set.
            let possible = match possible == *times {
                true => Arc::clone(&times),
                false => Arc::new(possible),
            };
            let child = self.behaviours.add_child(node, value, possible);
            self.frontier.push(child);
        }
    }

    /// Adds a node for bytes that no crash can leave.
    fn add_unexpected(&mut self, node: NodeId, value: ValueId) -> NodeId {
        self.impossible_reads += 1;
        let times = Arc::new(TimeSet::default());
        self.behaviours.add_child(node, value, times)
    }

    /// What a crash at `time` can have left if recovery gets to a node.
    pub fn memory_at(&mut self, node: NodeId, time: u32) -> PossibleMemory {
        let mut memory = self.versions.memory(time);
        for (read, value) in self.behaviours.path(node) {
            let unit = self.versions.unit_of(read);
            let version = self.versions.at(unit, time);
            if let Some(version) = version.filter(|version| version.is_open) {
                let bytes = self.behaviours.bytes(value);
                narrow(&mut memory, &version, read, bytes);
            }
        }
        memory
    }

    /// The nodes that can be reached and that no run has reached.
    pub fn waiting(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.behaviours.nodes();
        nodes.filter(|&node| {
            !self.behaviours.next(node).is_known() && !self.behaviours.times(node).is_empty()
        })
    }

    /// The times after which not every behaviour is known.
    pub fn unfinished(&self) -> TimeSet {
        let mut unfinished = self.sampled.clone();
        for node in self.waiting() {
            unfinished.unite(self.behaviours.times(node));
        }
        unfinished
    }
}

/// How far a run has got.
pub struct Cursor {
    node: NodeId,
    path: Path,
    /// The size of each PM file that exists.
    sizes: Vec<Option<u64>>,
}

/// What a run has shown.
pub struct Learned {
    /// The node of its end.
    pub end: NodeId,
    /// Whether that was unknown.
    pub is_new: bool,
    /// The times from which it can be reached and whose states have to be sampled, if that was not known.
    pub too_open: Vec<u32>,
}

/// Byte strings that a read can see, and the times at which it can.
#[derive(Default)]
struct Found(Vec<(ValueId, TimeSet)>);

impl Found {
    /// Adds times after all others.
    fn push(&mut self, value: ValueId, times: Range<u32>) {
        let known = self.0.iter().position(|(known, _)| *known == value);
        let at = known.unwrap_or_else(|| {
            self.0.push((value, TimeSet::default()));
            self.0.len() - 1
        });
        self.0[at].1.push(times);
    }
}

/// Keeps the contents in which a read sees these bytes. Returns whether there are any.
pub(super) fn narrow(
    memory: &mut PossibleMemory,
    version: &Version,
    read: Read,
    bytes: &[u8],
) -> bool {
    let Some(holder) = version.holder else {
        return true;
    };
    let classes = memory.may_read(address(holder, read.offset), u64::from(read.len));
    let class = classes.iter().find(|class| class.bytes == bytes);
    match class {
        Some(class) => {
            memory.choose(&class);
            true
        }
        None => false,
    }
}

/// What a run has read up to a node.
#[derive(Default)]
struct Path {
    nodes: Vec<NodeId>,
    by_unit: FxHashMap<Unit, UnitPath>,
}

/// What a run has read of a unit.
#[derive(Default)]
struct UnitPath {
    reads: Vec<(Read, ValueId)>,
    /// For some versions of the unit, by number, the states that show what was read.
    narrowed: Vec<(usize, PossibleMemory)>,
}

impl Path {
    /// The byte strings that a read can see in a version of a unit, at `time`.
    fn values(
        &mut self,
        explorer: &mut Explorer,
        unit: Unit,
        (number, version): (usize, &Version),
        time: u32,
        read: Read,
    ) -> Vec<ValueId> {
        let Explorer {
            behaviours,
            versions,
            ..
        } = explorer;
        let Some(holder) = version.holder else {
            let bytes = versions
                .stores
                .unmapped_bytes(read.file, read.offset, read.len);
            return vec![behaviours.value(&bytes)];
        };
        let of_unit = self.by_unit.entry(unit).or_default();
        let known = of_unit.narrowed.iter();
        let at = known
            .clone()
            .position(|(known, _)| *known == number)
            .unwrap_or_else(|| {
                let mut memory = versions.memory(time);
                if version.is_open {
                    for &(earlier, value) in &of_unit.reads {
                        narrow(&mut memory, version, earlier, behaviours.bytes(value));
                    }
                }
                of_unit.narrowed.push((number, memory));
                of_unit.narrowed.len() - 1
            });
        let memory = &of_unit.narrowed[at].1;
        let classes = memory.may_read(address(holder, read.offset), u64::from(read.len));
        classes
            .iter()
            .map(|class| behaviours.value(&class.bytes))
            .collect()
    }

    /// For times of a range, how often recovery could have read something else after a crash; never if a time is missing.
    fn choices(&self, explorer: &Explorer, within: Range<u32>) -> FxHashMap<u32, u32> {
        let mut choices = FxHashMap::default();
        for &node in &self.nodes {
            let times = explorer.behaviours.choice_times(node).into_iter();
            for time in times
                .flat_map(|times| times.parts(within.clone()))
                .flatten()
            {
                *choices.entry(time).or_default() += 1;
            }
        }
        choices
    }

    /// Adds a read at a node.
    fn push(&mut self, node: NodeId, read: Read, value: ValueId, explorer: &mut Explorer) {
        self.nodes.push(node);
        let unit = explorer.versions.unit_of(read);
        let of_unit = self.by_unit.entry(unit).or_default();
        of_unit.reads.push((read, value));
        if of_unit.narrowed.is_empty() {
            return;
        }
        let versions = explorer.versions.of(unit);
        let bytes = explorer.behaviours.bytes(value);
        of_unit.narrowed.retain_mut(|(number, memory)| {
            let version = &versions[*number];
            !version.is_open || narrow(memory, version, read, bytes)
        });
    }
}

/// The part of a read that is in the file, by lines. Bytes past the end are zero, whatever the target stored there.
fn within_file<'b>(
    read: FirstRead,
    bytes: &'b [u8],
    sizes: &[Option<u64>],
) -> impl Iterator<Item = (Read, &'b [u8])> {
    let size = sizes.get(read.file).copied().flatten().unwrap_or(0);
    let left = size.saturating_sub(read.offset).min(read.len);
    by_line(read, &bytes[..left as usize])
}

/// Splits a read at lines: they persist independently of each other.
fn by_line(read: FirstRead, bytes: &[u8]) -> impl Iterator<Item = (Read, &[u8])> {
    let mut offset = read.offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = (LINE - offset % LINE).min(rest.len() as u64);
        let (part, left) = rest.split_at(len as usize);
        let read = Read {
            file: read.file as u32,
            len: len as u32,
            offset,
        };
        offset += len;
        rest = left;
        (len > 0).then_some((read, part))
    })
}
