//! Adds situations after the tree of behaviours has grown: crashes inside recoveries are known only once recovery has run. New
//! situations go down the tree from its root, along the bytes that recovery can read in them. Where nothing new can be read,
//! recovery needs no run.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::behaviours::{Next, NodeId, Read, ValueId};
use super::crash_times::Start;
use super::explorer::Explorer;
use super::path::{Path, Undo};
use super::situations::{Interrupted, ReadPath};
use super::time_set::TimeSet;
use crate::recovery_run::{InnerCrashes, RecoveryRun};

/// What a run of recovery did.
pub struct ActedRun {
    pub recovery: RecoveryRun,
    pub inner: InnerCrashes,
}

/// What recovery does between a node and its next read.
pub struct NodeActions {
    /// Of all actions since recovery has started.
    digest: u64,
    run: Arc<ActedRun>,
    /// The crashes that are possible before the next read, by number.
    crashes: Vec<usize>,
    /// What was read, if there are such crashes.
    path: Arc<ReadPath>,
}

enum AdmissionStep {
    Enter(NodeId, Arc<TimeSet>),
    Read(NodeId, Read, ValueId),
    Leave,
}

impl Explorer {
    /// Learns at which times a run can be interrupted. `nodes` are the nodes of the run: after no first read, after one, and so on.
    pub(super) fn learn_actions(&mut self, start: &Start, nodes: &[NodeId], run: &Arc<ActedRun>) {
        let nothing = Arc::default();
        let mut crashes: Vec<usize> = Vec::new();
        for (reads, &node) in nodes.iter().enumerate() {
            let of_these = run.inner.crashes.iter().enumerate();
            crashes.extend(
                of_these
                    .filter(|(_, crash)| crash.reads == reads)
                    .map(|(number, _)| number),
            );
            if nodes.get(reads + 1) == Some(&node) {
                // What was read is past the end of the file.
                continue;
            }
            let crashes = std::mem::take(&mut crashes);
            let digest = run.inner.digests[reads];
            if let Some(known) = self.actions.get(&node) {
                self.other_actions += u64::from(known.digest != digest);
                continue;
            }
            let path = match crashes.is_empty() {
                true => Arc::clone(&nothing),
                false => Arc::new(self.read_path(node)),
            };
            let actions = NodeActions {
                digest,
                run: Arc::clone(run),
                crashes,
                path,
            };
            self.actions.insert(node, actions);
            let times = Arc::clone(self.behaviours.times(node));
            self.interrupt(start, node, &times);
        }
    }

    fn read_path(&self, node: NodeId) -> ReadPath {
        let mut path = ReadPath::default();
        for (read, value) in self.behaviours.path(node) {
            let unit = self.versions.unit_of(read);
            path.entry(unit).or_default().push((read, value));
        }
        path
    }

    /// Adds the situations after crashes of recoveries that are at a node, for those that started in these situations.
    fn interrupt(&mut self, start: &Start, node: NodeId, started_in: &TimeSet) {
        let Some(known) = self.actions.get(&node) else {
            return;
        };
        if known.crashes.is_empty() {
            return;
        }
        let situations = &self.versions.situations;
        // The histories of recoveries are in the spaces of the files that have the paths.
        let mut alike: BTreeMap<(usize, Vec<u32>), TimeSet> = BTreeMap::new();
        for range in started_in.ranges() {
            for situation in range {
                let depth = situations.depth(situation);
                if depth >= self.depth || self.sampled.contains(situation) {
                    continue;
                }
                let target = situations.target_crash(situation);
                let files = 0..target.holders.len();
                let spaces = files.map(|number| target.holder(number).0).collect();
                let times = alike.entry((depth, spaces)).or_default();
                times.push(situation..situation + 1);
            }
        }
        for ((depth, spaces), started_in) in alike {
            let known = &self.actions[&node];
            let target = &self.versions.situations.stores.history;
            let (profile, tearing) = (*target.profile(), target.tearing());
            let space = |number: usize| brownout_model::SpaceId(spaces[number]);
            let Ok(history) = known.run.recovery.history(profile, tearing, space) else {
                // It was read once.
                self.other_actions += 1;
                return;
            };
            let history = Arc::new(history);
            let written: Arc<[_]> = known.run.inner.written.clone().into();
            for &number in &known.crashes {
                let crash = known.run.inner.crashes[number].clone();
                let first = self.versions.situations.end();
                let interrupted = Interrupted {
                    numbers: first..first + started_in.count() as u32,
                    started_in: started_in.clone(),
                    depth: depth + 1,
                    path: Arc::clone(&known.path),
                    recovery: known.run.recovery.clone(),
                    history: Arc::clone(&history),
                    written: Arc::clone(&written),
                    start: Start {
                        sizes: crash.sizes.clone(),
                        ..start.clone()
                    },
                    crash,
                };
                self.versions.situations.add(interrupted);
            }
        }
    }

    /// Lets the situations that were added go down the tree, until none is added any more.
    pub(super) fn admit(&mut self) {
        while self.admitted < self.versions.situations.end() {
            let new = self.admitted..self.versions.situations.end();
            self.admitted = new.end;
            let mut by_start: FxHashMap<&Start, TimeSet> = FxHashMap::default();
            let known = self.versions.situations.interrupted();
            let first = known.partition_point(|known| known.numbers.start < new.start);
            for interrupted in &known[first..] {
                let times = by_start.entry(&interrupted.start).or_default();
                times.push(interrupted.numbers.clone());
            }
            let mut by_start: Vec<(Start, TimeSet)> = by_start
                .into_iter()
                .map(|(start, times)| (start.clone(), times))
                .collect();
            by_start.sort_by_key(|(_, times)| times.first());
            for (start, times) in by_start {
                let root = self.root(&start);
                self.admit_at(&start, root, times);
            }
        }
    }

    fn admit_at(&mut self, start: &Start, root: NodeId, times: TimeSet) {
        let mut path = Path::default();
        let mut undo: Vec<Undo> = Vec::new();
        let mut steps = vec![AdmissionStep::Enter(root, Arc::new(times))];
        while let Some(step) = steps.pop() {
            match step {
                AdmissionStep::Read(node, read, value) => undo.push(path.push_undoable(
                    node,
                    (read, value),
                    &self.behaviours,
                    &self.versions,
                )),
                AdmissionStep::Leave => {
                    if let Some(last) = undo.pop() {
                        path.undo(last);
                    }
                }
                AdmissionStep::Enter(node, times) => {
                    self.arrive(start, node, &times);
                    if let Some(twin) = self.behaviours.twin(node) {
                        steps.push(AdmissionStep::Enter(twin, Arc::clone(&times)));
                    }
                    let Next::Read(read) = self.behaviours.next(node) else {
                        continue;
                    };
                    for (value, times) in self.distribute(node, read, &times, &mut path) {
                        match self.behaviours.child(node, value) {
                            None => self.add_reachable(node, value, times),
                            Some(child) => steps.extend([
                                AdmissionStep::Leave,
                                AdmissionStep::Enter(child, times),
                                AdmissionStep::Read(node, read, value),
                            ]),
                        }
                    }
                }
            }
        }
    }

    /// Recoveries that start in new situations get to a node.
    fn arrive(&mut self, start: &Start, node: NodeId, times: &TimeSet) {
        self.behaviours.add_times(node, times);
        match self.behaviours.next(node) {
            Next::Unknown => self.frontier.push(node),
            Next::End { passes: false } => self.failing_ends.push(node),
            Next::Awaited | Next::Read(_) | Next::End { passes: true } => {}
        }
        self.interrupt(start, node, times);
    }
}
