//! What a run has read on its way to a node, and which bytes it can read next.

use std::ops::Range;

use brownout_model::PossibleMemory;
use rustc_hash::FxHashMap;

use super::behaviours::{Behaviours, Next, NodeId, Read, ValueId};
use super::situations::narrow;
use super::versions::{Unit, Versions};
use crate::effect::address;

/// What a run has read up to a node.
#[derive(Default)]
pub struct Path {
    nodes: Vec<NodeId>,
    by_unit: FxHashMap<Unit, UnitPath>,
}

/// What a run has read of a unit.
#[derive(Clone, Default)]
struct UnitPath {
    reads: Vec<(Read, ValueId)>,
    /// For some versions of the unit, by number, the states that show what was read.
    narrowed: Vec<(usize, PossibleMemory)>,
}

/// Branches at reads that need no run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedBranches {
    /// Stores that show the same bytes as others.
    pub equal_bytes: u64,
    /// Bytes that earlier reads of the same unit exclude.
    pub refinement: u64,
}

/// What was known of a unit before a read.
pub struct Undo(Unit, UnitPath);

impl Path {
    /// The byte strings that a read can see in a version of a unit that has several states.
    pub fn values(
        &mut self,
        behaviours: &mut Behaviours,
        versions: &Versions,
        number: usize,
        read: Read,
        saved: &mut SavedBranches,
    ) -> Vec<ValueId> {
        let unit = versions.unit_of(read);
        let version = versions.version(unit, number);
        let of_unit = self.by_unit.entry(unit).or_default();
        let known = of_unit.narrowed.iter();
        let at = known
            .clone()
            .position(|(known, _)| *known == number)
            .unwrap_or_else(|| {
                let situations = &versions.situations;
                let mut memory = situations.memory(version.example, Some(unit), behaviours);
                for &(earlier, value) in &of_unit.reads {
                    let at = address(version.holder, earlier.offset);
                    narrow(&mut memory, at, behaviours.bytes(value));
                }
                of_unit.narrowed.push((number, memory));
                of_unit.narrowed.len() - 1
            });
        let memory = &of_unit.narrowed[at].1;
        let at = address(version.holder, read.offset);
        let len = u64::from(read.len);
        let classes = memory.may_read(at, len);
        let values: Vec<ValueId> = classes
            .iter()
            .map(|class| behaviours.value(&class.bytes))
            .collect();
        let stores = memory.sources(at, len).len();
        saved.equal_bytes += stores.saturating_sub(values.len()) as u64;
        if !of_unit.reads.is_empty() {
            let all = (versions.situations).memory(version.example, Some(unit), behaviours);
            let possible = all.may_read(at, len).iter().count();
            saved.refinement += possible.saturating_sub(values.len()) as u64;
        }
        values
    }

    /// For situations of a range, how often recovery could have read something else; never if one is missing.
    pub fn choices(&self, behaviours: &Behaviours, within: Range<u32>) -> FxHashMap<u32, u32> {
        let mut choices = FxHashMap::default();
        for &node in &self.nodes {
            let times = behaviours.choice_times(node).into_iter();
            for time in times
                .flat_map(|times| times.parts(within.clone()))
                .flatten()
            {
                *choices.entry(time).or_default() += 1;
            }
        }
        choices
    }

    /// For each unit, how often recovery could have read something else of it in one situation.
    pub fn choices_by_unit(
        &self,
        behaviours: &Behaviours,
        versions: &Versions,
        situation: u32,
    ) -> FxHashMap<Unit, u32> {
        let mut choices = FxHashMap::default();
        for &node in &self.nodes {
            let times = behaviours.choice_times(node);
            let is_choice = times.is_some_and(|times| times.contains(situation));
            if let (true, Next::Read(read)) = (is_choice, behaviours.next(node)) {
                *choices.entry(versions.unit_of(read)).or_default() += 1;
            }
        }
        choices
    }

    /// Adds a read at a node.
    pub fn push(
        &mut self,
        node: NodeId,
        (read, value): (Read, ValueId),
        behaviours: &Behaviours,
        versions: &Versions,
    ) {
        self.nodes.push(node);
        let unit = versions.unit_of(read);
        let of_unit = self.by_unit.entry(unit).or_default();
        of_unit.reads.push((read, value));
        let bytes = behaviours.bytes(value);
        of_unit.narrowed.retain_mut(|(number, memory)| {
            let version = versions.version(unit, *number);
            narrow(memory, address(version.holder, read.offset), bytes)
        });
    }

    /// Adds a read at a node, and returns what [takes it back](Self::undo).
    pub fn push_undoable(
        &mut self,
        node: NodeId,
        (read, value): (Read, ValueId),
        behaviours: &Behaviours,
        versions: &Versions,
    ) -> Undo {
        let unit = versions.unit_of(read);
        let before = self.by_unit.get(&unit).cloned().unwrap_or_default();
        self.push(node, (read, value), behaviours, versions);
        Undo(unit, before)
    }

    /// Takes back the last read.
    pub fn undo(&mut self, Undo(unit, before): Undo) {
        self.nodes.pop();
        self.by_unit.insert(unit, before);
    }
}
