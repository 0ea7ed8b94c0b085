//! Learns the behaviours of recovery from runs, for all crashes at once (Jaaru §4, BuildMayReadFrom and UpdateRanges).
//!
//! A run shows what recovery reads. For each read, the [situations](super::situations) in which recovery can get there are divided by
//! the bytes that the read can see: a node for each byte string, with the situations in which it is possible. Which it is depends on the
//! unit that is read and on what recovery has read of the same unit before, and changes only when the unit changes: the bytes are computed
//! once for each [version](super::versions::Version) of the unit. A node that no run has reached, and that can be reached, is wanted.

use std::ops::Range;
use std::sync::Arc;

use brownout_model::{PmAddress, PossibleMemory};
use brownout_recovery::{FirstRead, ReadBytes};
use rustc_hash::FxHashMap;

use super::admission::{ActedRun, NodeActions};
use super::behaviours::{Behaviours, Next, NodeId, Read, ValueId};
use super::crash_times::{RecordedStores, Start};
use super::differing_reads::observed_parts;
use super::path::{Path, SavedBranches};
use super::situations::{Situations, narrow};
use super::time_set::TimeSet;
use super::versions::{Unit, Versions};
use crate::effect::address;

/// If recovery could read something else more often than this after a crash, the states are sampled.
pub const MOST_CHOICES: u32 = 10;
/// But not if a crash can leave only so many states, as a decimal logarithm.
const FEW_STATES_LOG10: f64 = 3.0;

/// All that is known about what recovery does after a crash.
pub struct Explorer {
    pub behaviours: Behaviours,
    pub versions: Versions,
    /// How many runs may crash, the target included.
    pub(super) depth: usize,
    roots: FxHashMap<Start, NodeId>,
    /// What reads see in versions of units that have one state, by unit, version, offset and length.
    certain: FxHashMap<(Unit, usize, u64, u32), ValueId>,
    /// Nodes to which no run has led, when they were added.
    pub(super) frontier: Vec<NodeId>,
    /// Situations in which there are too many combinations to explore all.
    pub sampled: TimeSet,
    /// What recovery does at the nodes that runs have reached, if it may crash.
    pub(super) actions: FxHashMap<NodeId, NodeActions>,
    /// Situations below this number are in the tree.
    pub(super) admitted: u32,
    /// Ends at which recovery fails that can be reached in new situations.
    pub(super) failing_ends: Vec<NodeId>,
    /// Runs that did something else than earlier runs after reading the same bytes.
    pub(super) other_actions: u64,
    pub saved: SavedBranches,
}

impl Explorer {
    pub fn new(stores: Arc<RecordedStores>, depth: usize) -> Self {
        let mut explorer = Self {
            behaviours: Behaviours::default(),
            versions: Versions::new(stores),
            depth,
            roots: FxHashMap::default(),
            certain: FxHashMap::default(),
            frontier: Vec::new(),
            sampled: TimeSet::default(),
            actions: FxHashMap::default(),
            admitted: 0,
            failing_ends: Vec::new(),
            other_actions: 0,
            saved: SavedBranches::default(),
        };
        explorer.plant();
        explorer
    }

    /// Forgets all that runs have shown.
    pub fn restart(&mut self) {
        self.versions.clear();
        self.behaviours = Behaviours::default();
        self.roots.clear();
        self.certain.clear();
        self.frontier.clear();
        self.sampled = TimeSet::default();
        self.actions.clear();
        self.failing_ends.clear();
        self.saved = SavedBranches::default();
        self.plant();
    }

    /// Begins with the crashes of the target.
    fn plant(&mut self) {
        let mut by_start: FxHashMap<&Start, TimeSet> = FxHashMap::default();
        let stores = &self.versions.situations.stores;
        for (number, explored) in (0..).zip(&stores.times) {
            let times = by_start.entry(&explored.start).or_default();
            times.push(number..number + 1);
        }
        for (start, times) in by_start {
            let root = self.behaviours.add_root(times);
            self.roots.insert(start.clone(), root);
        }
        self.frontier = self.roots().collect();
        self.admitted = self.versions.situations.end();
    }

    /// The node of recoveries that have started so and have read nothing.
    pub(super) fn root(&mut self, start: &Start) -> NodeId {
        if let Some(&root) = self.roots.get(start) {
            return root;
        }
        let root = self.behaviours.add_root(TimeSet::default());
        self.roots.insert(start.clone(), root);
        root
    }

    /// The nodes of recoveries that have read nothing, in the order of the first crash that leads there.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> {
        let mut roots: Vec<NodeId> = self.roots.values().copied().collect();
        roots.sort_by_key(|&root| self.behaviours.times(root).first());
        roots.into_iter()
    }

    /// The root of crashes of the target after which recovery starts so, and that no run is wanted for any more; `None` if there are none.
    pub(super) fn take_root(&mut self, start: &Start) -> Option<NodeId> {
        let &root = self.roots.get(start)?;
        self.frontier.retain(|&node| node != root);
        Some(root)
    }

    /// The nodes that are not known yet and were not returned before.
    pub fn take_frontier(&mut self) -> Vec<NodeId> {
        let mut nodes = std::mem::take(&mut self.frontier);
        nodes.retain(|&node| self.behaviours.next(node) == Next::Unknown);
        nodes
    }

    /// Lets nodes be taken again.
    pub fn put_back(&mut self, nodes: Vec<NodeId>) {
        self.frontier.extend(nodes);
    }

    /// The ends at which recovery fails that can be reached in new situations.
    pub fn take_failing_ends(&mut self) -> Vec<NodeId> {
        let mut ends = std::mem::take(&mut self.failing_ends);
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// How many runs did something else than earlier runs after reading the same bytes.
    pub fn other_actions(&self) -> u64 {
        self.other_actions
    }

    /// Whether the bytes that a run has read are those of all situations, or are observed.
    pub fn is_explained(&self, reads: &ReadBytes) -> bool {
        let situations = &self.versions.situations;
        let Some(any) = situations.stores.times.first() else {
            return true;
        };
        let memory = situations.memory(0, None, &self.behaviours);
        let is_certain = |read: FirstRead, bytes: &[u8]| {
            let range = read.offset..read.offset + read.len;
            let differing = situations.differing.get(read.file);
            let others = differing.map_or_else(Vec::new, |known| known.missing(range));
            others.into_iter().all(|part| {
                let at = address(any.holder(read.file), part.start);
                let seen = (part.start - read.offset) as usize..(part.end - read.offset) as usize;
                memory.completed_bytes(at, part.end - part.start) == bytes[seen]
            })
        };
        let mut reads = reads.iter();
        reads.all(|(read, bytes)| is_certain(read, bytes))
    }

    /// Learns from a run, and from what it did if that is known.
    pub fn learn(
        &mut self,
        start: &Start,
        reads: &ReadBytes,
        passes: bool,
        acted: Option<&Arc<ActedRun>>,
    ) -> Learned {
        let mut cursor = self.begin(start);
        let mut nodes = vec![cursor.node];
        for (read, bytes) in reads.iter() {
            self.read(&mut cursor, read, bytes);
            nodes.push(cursor.node);
        }
        let Cursor { node, path, .. } = cursor;
        let (end, is_new) = self.behaviours.learn(node, Next::End { passes });
        let too_open = match is_new {
            true => self.sample(end, &path),
            false => Vec::new(),
        };
        if let Some(acted) = acted {
            self.learn_actions(start, &nodes, acted);
            self.admit();
        }
        Learned {
            end,
            is_new,
            too_open,
        }
    }

    /// A run that has read nothing.
    pub fn begin(&mut self, start: &Start) -> Cursor {
        Cursor {
            node: self.root(start),
            path: Path::default(),
            sizes: start.sizes.clone(),
        }
    }

    /// Learns what a run reads next. Returns whether there will be runs that read something else there.
    pub fn read(&mut self, cursor: &mut Cursor, read: FirstRead, bytes: &[u8]) -> bool {
        let Cursor { node, path, sizes } = cursor;
        let mut others_follow = false;
        let observed = Arc::clone(&self.situations().differing);
        for (read, bytes) in observed_parts(read, bytes, &observed, sizes) {
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
            path.push(at, (read, value), &self.behaviours, &self.versions);
        }
        others_follow
    }

    pub fn situations(&self) -> &Situations {
        &self.versions.situations
    }

    /// Notes the times at which recovery could have read something else too often on its way to `end`, and returns them.
    pub(super) fn sample(&mut self, end: NodeId, path: &Path) -> Vec<u32> {
        let times = Arc::clone(self.behaviours.times(end));
        let choices = path.choices(&self.behaviours, times.hull());
        let situations = &self.versions.situations;
        let has_many_states = |time: u32| situations.states_log10(time) > FEW_STATES_LOG10;
        let is_new = |time: &u32| {
            let choices = choices.get(time).copied().unwrap_or(0);
            choices > MOST_CHOICES && has_many_states(*time) && !self.sampled.contains(*time)
        };
        let mut found: Vec<u32> = times.iter().filter(is_new).collect();
        found.retain(|&time| self.open_places(path, time) > f64::from(MOST_CHOICES));
        self.sampled.unite(&found.iter().copied().collect());
        found
    }

    /// In how many places recovery could have read something else in a situation. Reads of one unit count at most as the logarithm of its
    /// states: a line that is read byte by byte shows no more than one that is read at once.
    fn open_places(&mut self, path: &Path, time: u32) -> f64 {
        let choices = path.choices_by_unit(&self.behaviours, &self.versions, time);
        let places = choices.into_iter().map(|(unit, reads)| {
            let holder = self.versions.at(unit, time, &self.behaviours).holder;
            let situations = &self.versions.situations;
            let memory = situations.memory(time, Some(unit), &self.behaviours);
            let states_log2 = memory.unit_states_log10(address(holder, unit.1)) / 2_f64.log10();
            states_log2.min(f64::from(reads))
        });
        places.sum()
    }

    /// The units in which recovery could have read something else after a crash at `time` on its way to `end`, in order.
    pub fn open_units(&mut self, end: NodeId, time: u32) -> Vec<PmAddress> {
        let mut found = Vec::new();
        for (read, _) in self.behaviours.path(end) {
            let unit = self.versions.unit_of(read);
            let version = self.versions.at(unit, time, &self.behaviours);
            let at = address(version.holder, unit.1);
            if version.is_open && !found.contains(&at) {
                found.push(at);
            }
        }
        found
    }

    /// Whether it is known how recovery ends in a situation in which memory is in one state.
    pub fn is_known(&mut self, memory: &PossibleMemory, time: u32) -> bool {
        self.end_of(memory, time).is_some()
    }

    /// How recovery ends in a situation in which memory is in one state, or the newest one if there are several; `None` if that is
    /// not known.
    pub fn end_of(&mut self, memory: &PossibleMemory, time: u32) -> Option<NodeId> {
        let situations = &self.versions.situations;
        let mut node = *self.roots.get(situations.start(time))?;
        let target = situations.target_crash(time);
        while let Next::Read(read) = self.behaviours.next(node) {
            let at = address(target.holder(read.file as usize), read.offset);
            let bytes = memory.completed_bytes(at, u64::from(read.len));
            let value = self.behaviours.value(&bytes);
            node = self.behaviours.child(node, value)?;
        }
        Some(node).filter(|&node| self.behaviours.next(node).is_known())
    }

    /// Whether a recovery that is interrupted on the way to this memory would have failed otherwise, as far as is known. Then the
    /// failure is that of the earlier crash.
    pub fn fails_anyway(&mut self, mut situation: u32, memory: &PossibleMemory) -> bool {
        let mut memory = memory.clone();
        while let Some(before) = self.situations().before(situation) {
            memory = memory.before_last_crash();
            let end = self.end_of(&memory, before);
            let next = end.map(|end| self.behaviours.next(end));
            if next == Some(Next::End { passes: false }) {
                return true;
            }
            situation = before;
        }
        false
    }

    /// Adds a node for each byte string that a read can see.
    fn expand(&mut self, node: NodeId, read: Read, path: &mut Path) {
        let times = Arc::clone(self.behaviours.times(node));
        for (value, possible) in self.distribute(node, read, &times, path) {
            self.add_reachable(node, value, possible);
        }
    }

    /// For each byte string that a read can see in some of these situations, the situations.
    pub(super) fn distribute(
        &mut self,
        node: NodeId,
        read: Read,
        times: &Arc<TimeSet>,
        path: &mut Path,
    ) -> Vec<(ValueId, Arc<TimeSet>)> {
        let unit = self.versions.unit_of(read);
        let mut found = Found::default();
        let mut choice_times = TimeSet::default();
        let mut known: FxHashMap<usize, Arc<[ValueId]>> = FxHashMap::default();
        for range in times.ranges() {
            for (version, part) in self.versions.parts(unit, range, &self.behaviours) {
                let values = known.entry(version).or_insert_with(|| {
                    match self.versions.version(unit, version).is_open {
                        true => path.values(
                            &mut self.behaviours,
                            &self.versions,
                            version,
                            read,
                            &mut self.saved,
                        ),
                        false => {
                            let key = (unit, version, read.offset, read.len);
                            let certain = self.certain.entry(key).or_insert_with(|| {
                                certain_value(&mut self.behaviours, &self.versions, version, read)
                            });
                            vec![*certain]
                        }
                    }
                    .into()
                });
                if values.len() > 1 {
                    choice_times.push(part.clone());
                }
                for &value in values.iter() {
                    found.push(value, part.clone());
                }
            }
        }
        self.behaviours.add_choice_times(node, &choice_times);
        // Most reads are certain, in all situations: they share the set.
        let shared = |possible: TimeSet| match possible == **times {
            true => Arc::clone(times),
            false => Arc::new(possible),
        };
        let found = found.into_vec().into_iter();
        found
            .map(|(value, possible)| (value, shared(possible)))
            .collect()
    }

    /// Adds a node that no run has reached.
    pub(super) fn add_reachable(&mut self, node: NodeId, value: ValueId, times: Arc<TimeSet>) {
        let child = self.behaviours.add_child(node, value, times);
        self.frontier.push(child);
    }

    /// Adds a node for bytes that no crash can leave, as far as is known now.
    fn add_unexpected(&mut self, node: NodeId, value: ValueId) -> NodeId {
        let times = Arc::new(TimeSet::default());
        self.behaviours.add_child(node, value, times)
    }

    /// Whether a run has read what no crash can leave.
    pub fn has_impossible_reads(&self) -> bool {
        let mut nodes = self.behaviours.nodes();
        nodes.any(|node| self.behaviours.times(node).is_empty())
    }

    /// What the crashes of a situation can have left if recovery gets to a node.
    pub fn memory_at(&mut self, node: NodeId, time: u32) -> PossibleMemory {
        let mut memory = self
            .versions
            .situations
            .memory(time, None, &self.behaviours);
        for (read, value) in self.behaviours.path(node) {
            let unit = self.versions.unit_of(read);
            let version = self.versions.at(unit, time, &self.behaviours);
            if version.is_open {
                let at = address(version.holder, read.offset);
                narrow(&mut memory, at, self.behaviours.bytes(value));
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

    /// The situations in which not every behaviour is known.
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
    /// The size of each persistent file that exists.
    sizes: Vec<Option<u64>>,
}

/// What a run has shown.
pub struct Learned {
    /// The node of its end.
    pub end: NodeId,
    /// Whether that was unknown.
    pub is_new: bool,
    /// The situations from which it can be reached and whose states have to be sampled, if that was not known.
    pub too_open: Vec<u32>,
}

/// Byte strings that a read can see, and the situations in which it can.
#[derive(Default)]
pub struct Found(Vec<(ValueId, TimeSet)>);

impl Found {
    /// Adds times after all others.
    pub fn push(&mut self, value: ValueId, times: Range<u32>) {
        let known = self.0.iter().position(|(known, _)| *known == value);
        let at = known.unwrap_or_else(|| {
            self.0.push((value, TimeSet::default()));
            self.0.len() - 1
        });
        self.0[at].1.push(times);
    }

    pub fn into_vec(self) -> Vec<(ValueId, TimeSet)> {
        self.0
    }
}

/// What a read sees in a version of a unit that has one state.
fn certain_value(
    behaviours: &mut Behaviours,
    versions: &Versions,
    version: usize,
    read: Read,
) -> ValueId {
    let unit = versions.unit_of(read);
    let version = versions.version(unit, version);
    let situations = &versions.situations;
    let memory = situations.memory(version.example, Some(unit), behaviours);
    let at = address(version.holder, read.offset);
    behaviours.value(&memory.completed_bytes(at, u64::from(read.len)))
}
