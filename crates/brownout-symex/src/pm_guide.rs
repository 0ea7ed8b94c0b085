//! Where the search looks first: the priority of code by the persistent-memory operations that it can reach (Agamotto, §2.4.3).
//!
//! The control-flow graph has the instructions of all known functions, their branches, the calls between them and between files, and the
//! indirect targets that paths have shown; calls return. An instruction that modifies persistent memory has a weight: what the analysis of
//! a file has found ([`AnalysedFile`]), and each operation that a recording has shown. The priority of an instruction is its weight and the
//! highest priority of those that can follow; cycles count as one. Beyond the paper, operations that were reached weigh less than others.
//!
//! Can miss: stores to persistent memory that neither the analysis nor a recording has shown, and what only unknown indirect branches lead
//! to.

use rustc_hash::{FxHashMap, FxHashSet};

mod condensation;

use crate::arch::control_flow;
use crate::pm_code::AnalysedFile;
use condensation::Condensation;

/// The weight of an operation that no path has reached, and of others.
const UNREACHED: u64 = 16;
const REACHED: u64 = 1;

/// An instruction in the control-flow graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeStep {
    pub pc: u64,
    /// The instruction behind it, if it can be the next one.
    pub next: Option<u64>,
    /// Where a direct branch or call goes.
    pub target: Option<u64>,
    pub is_call: bool,
    pub modifies_pm: bool,
}

/// The control-flow graph with its priorities.
#[derive(Default)]
pub struct PmGuide {
    nodes: FxHashMap<u64, usize>,
    steps: Vec<CodeStep>,
    /// Calls, by where they return to.
    calls: FxHashMap<u64, u64>,
    /// Targets of indirect branches, by their instructions.
    indirect: FxHashMap<u64, Vec<u64>>,
    /// Operations on persistent memory, and whether a path has reached them.
    operations: FxHashMap<u64, bool>,
    /// Instructions that go to a function of another file, by its name.
    links: Vec<(u64, String)>,
    exports: FxHashMap<String, u64>,
    /// Of the graph as it is; `None` if it has changed.
    condensation: Option<Condensation>,
    priorities: Vec<u64>,
    is_current: bool,
}

impl PmGuide {
    /// Adds the code of a function at an address. `modifies_pm` says whether the function that the call before an address calls does.
    pub fn add_function(
        &mut self,
        address: u64,
        code: &[u8],
        modifies_pm: &mut dyn FnMut(u64) -> bool,
    ) {
        for step in control_flow(address, code) {
            if self.nodes.contains_key(&step.pc) {
                continue;
            }
            let calls_pm = step.is_call && step.next.is_some_and(&mut *modifies_pm);
            if step.modifies_pm || calls_pm {
                self.operations.insert(step.pc, false);
            }
            if let Some(returns_to) = step.next.filter(|_| step.is_call) {
                self.calls.insert(returns_to, step.pc);
            }
            self.nodes.insert(step.pc, self.steps.len());
            self.steps.push(step);
        }
        self.graph_changed();
    }

    /// Adds the code of a file, with its operations. `bias` is what its addresses are off by where it is mapped
    /// ([`AnalysedFile::load_bias`]). Calls from one file to another are found by name. `modifies_pm` says whether the function that the
    /// call before an address calls does; the analysis knows that of imported functions.
    pub fn add_code(
        &mut self,
        code: &AnalysedFile,
        bias: u64,
        modifies_pm: &mut dyn FnMut(u64) -> bool,
    ) {
        let found = &code.found;
        for &(start, end) in &found.functions {
            let bytes = code.image.bytes(start, end).unwrap_or_default();
            self.add_function(start.wrapping_add(bias), bytes, modifies_pm);
        }
        for &(pc, _) in &found.operations {
            let pc = pc.wrapping_add(bias);
            if self.nodes.contains_key(&pc) {
                self.operations.entry(pc).or_insert(false);
            }
        }
        let links = found.links.iter();
        self.links
            .extend(links.map(|(pc, name)| (pc.wrapping_add(bias), name.clone())));
        for (name, address) in &found.exports {
            let address = address.wrapping_add(bias);
            self.exports.entry(name.clone()).or_insert(address);
        }
        self.graph_changed();
    }

    fn graph_changed(&mut self) {
        self.condensation = None;
        self.is_current = false;
    }

    /// Whether an instruction is in the graph.
    pub fn contains(&self, pc: u64) -> bool {
        self.nodes.contains_key(&pc)
    }

    /// A recording has shown stores or flushes of persistent memory.
    pub fn add_operations(&mut self, pcs: impl IntoIterator<Item = u64>) {
        for pc in pcs.into_iter().filter(|pc| self.nodes.contains_key(pc)) {
            self.is_current &= self.operations.insert(pc, true) == Some(true);
        }
    }

    /// A recording has shown calls that modify persistent memory, by where they return to.
    pub fn add_calls(&mut self, returns_to: impl IntoIterator<Item = u64>) {
        let returns_to = returns_to.into_iter();
        let calls: Vec<u64> = returns_to
            .filter_map(|at| self.calls.get(&at).copied())
            .collect();
        self.add_operations(calls);
    }

    /// A path has executed instructions, and gone from indirect branches to targets.
    pub fn learn(&mut self, executed: &FxHashSet<u64>, indirect: &FxHashSet<(u64, u64)>) {
        for (pc, reached) in &mut self.operations {
            if !*reached && executed.contains(pc) {
                *reached = true;
                self.is_current = false;
            }
        }
        for &(from, to) in indirect {
            let known = self.indirect.entry(from).or_default();
            if !known.contains(&to) {
                known.push(to);
                self.condensation = None;
                self.is_current = false;
            }
        }
    }

    /// How many operations on persistent memory are known, and how many of them a path has reached.
    pub fn operations(&self) -> (usize, usize) {
        let reached = self.operations.values().filter(|reached| **reached);
        (self.operations.len(), reached.count())
    }

    /// All operations on persistent memory, and whether a path has reached them.
    pub fn all_operations(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.operations.iter().map(|(pc, reached)| (*pc, *reached))
    }

    /// The operations that no path has reached, in the order of their addresses.
    pub fn unreached(&self) -> Vec<u64> {
        let unreached = self.operations.iter().filter(|(_, reached)| !**reached);
        let mut pcs: Vec<u64> = unreached.map(|(pc, _)| *pc).collect();
        pcs.sort_unstable();
        pcs
    }

    /// How much persistent memory the code at an address can reach; 0 if it is not known.
    pub fn priority(&mut self, pc: u64) -> u64 {
        if !self.is_current {
            self.compute();
            self.is_current = true;
        }
        self.nodes.get(&pc).map_or(0, |&node| self.priorities[node])
    }

    fn weight(&self, node: usize) -> u64 {
        match self.operations.get(&self.steps[node].pc) {
            None => 0,
            Some(false) => UNREACHED,
            Some(true) => REACHED,
        }
    }

    /// Computes all priorities, components first that others lead to.
    fn compute(&mut self) {
        let condensation = match self.condensation.take() {
            Some(known) => known,
            None => Condensation::of(self.steps.len(), &self.edges()),
        };
        let weights: Vec<u64> = (0..self.steps.len())
            .map(|node| self.weight(node))
            .collect();
        self.priorities = condensation.heaviest_paths(&weights);
        self.condensation = Some(condensation);
    }

    /// Where each instruction can lead, by numbers of instructions.
    fn edges(&self) -> Vec<(u32, u32)> {
        let mut edges = Vec::with_capacity(self.steps.len() * 5 / 4);
        let mut add = |from: usize, to: Option<&usize>| {
            edges.extend(to.map(|&to| (from as u32, to as u32)));
        };
        for (node, step) in self.steps.iter().enumerate() {
            let targets = step.next.into_iter().chain(step.target);
            targets.for_each(|pc| add(node, self.nodes.get(&pc)));
        }
        let linked = { self.links.iter() }
            .filter_map(|(from, name)| Some((from, std::slice::from_ref(self.exports.get(name)?))));
        let observed = self.indirect.iter().map(|(from, to)| (from, &to[..]));
        for (from, targets) in linked.chain(observed) {
            if let Some(&node) = self.nodes.get(from) {
                targets.iter().for_each(|pc| add(node, self.nodes.get(pc)));
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `test eax, eax; je +2; nop; ret; sfence; ret`: the branch leads to the fence.
    const CODE: [u8; 10] = [0x85, 0xc0, 0x74, 0x02, 0x90, 0xc3, 0x0f, 0xae, 0xf8, 0xc3];

    fn guide() -> PmGuide {
        let mut guide = PmGuide::default();
        guide.add_function(0x1000, &CODE, &mut |_| false);
        guide
    }

    #[test]
    fn code_before_a_fence_has_its_priority() {
        let mut guide = guide();
        let priorities = [0x1000, 0x1002, 0x1004, 0x1006, 0x1009].map(|pc| guide.priority(pc));
        assert_eq!(priorities, [UNREACHED, UNREACHED, 0, UNREACHED, 0]);
        assert_eq!(guide.unreached(), [0x1006]);
    }

    #[test]
    fn an_operation_that_was_reached_weighs_less() {
        let mut guide = guide();
        guide.learn(&FxHashSet::from_iter([0x1006]), &FxHashSet::default());
        assert_eq!(guide.priority(0x1000), REACHED);
        assert_eq!(guide.operations(), (1, 1));
    }

    #[test]
    fn a_loop_counts_once() {
        // sfence; jmp back
        let mut guide = PmGuide::default();
        guide.add_function(0, &[0x0f, 0xae, 0xf8, 0xeb, 0xfb], &mut |_| false);
        assert_eq!(
            (guide.priority(0), guide.priority(3)),
            (UNREACHED, UNREACHED)
        );
    }

    #[test]
    fn a_call_that_a_recording_has_shown_is_an_operation() {
        let mut guide = PmGuide::default();
        // call +0; ret
        guide.add_function(0, &[0xe8, 0, 0, 0, 0, 0xc3], &mut |_| false);
        assert_eq!(guide.priority(0), 0);
        guide.add_calls([5, 77]);
        assert_eq!(guide.priority(0), REACHED);
    }

    #[test]
    fn a_call_of_a_known_function_is_an_operation() {
        let mut guide = PmGuide::default();
        // call +0; ret
        guide.add_function(0, &[0xe8, 0, 0, 0, 0, 0xc3], &mut |returns_to| {
            returns_to == 5
        });
        assert_eq!(guide.priority(0), UNREACHED);
    }
}
