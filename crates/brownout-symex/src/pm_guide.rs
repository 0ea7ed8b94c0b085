//! Where the search looks first: the priority of code by the persistent-memory operations that it can reach (Agamotto, §2.4.3).
//!
//! The control-flow graph has the instructions of all known functions, their branches, the calls between them, and the indirect targets that
//! paths have shown. An instruction that modifies persistent memory has a weight: a flush, a fence, a non-temporal store, a call of a function that does
//! such things, and each store that a recording has shown. The priority of an instruction is its weight and the highest priority of those that can
//! follow; cycles count as one. Beyond the paper, operations that were reached weigh less than others.
//!
//! Can miss: plain stores to persistent memory that no recording has shown, and what only unknown indirect branches lead to.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arch::control_flow;

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
    /// Targets of indirect branches, by their instructions.
    indirect: FxHashMap<u64, Vec<u64>>,
    /// Operations on persistent memory, and whether a path has reached them.
    operations: FxHashMap<u64, bool>,
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
            self.nodes.insert(step.pc, self.steps.len());
            self.steps.push(step);
        }
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

    fn successors(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let step = &self.steps[node];
        let indirect = self.indirect.get(&step.pc).into_iter().flatten().copied();
        let all = step.next.into_iter().chain(step.target).chain(indirect);
        all.filter_map(|pc| self.nodes.get(&pc).copied())
    }

    fn weight(&self, node: usize) -> u64 {
        match self.operations.get(&self.steps[node].pc) {
            None => 0,
            Some(false) => UNREACHED,
            Some(true) => REACHED,
        }
    }

    /// Computes all priorities: strongly connected components (Tarjan) come out with what follows them first.
    fn compute(&mut self) {
        const UNSEEN: usize = usize::MAX;
        let count = self.steps.len();
        let mut priorities = vec![0; count];
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let mut is_open = vec![false; count];
        let (mut next, mut open) = (0, Vec::new());
        for root in 0..count {
            if index[root] != UNSEEN {
                continue;
            }
            // Without recursion: a path through the graph can be as long as the program.
            let mut work: Vec<(usize, Vec<usize>)> = vec![(root, self.successors(root).collect())];
            (index[root], low[root]) = (next, next);
            next += 1;
            open.push(root);
            is_open[root] = true;
            while let Some((node, waiting)) = work.last_mut() {
                let node = *node;
                if let Some(successor) = waiting.pop() {
                    if index[successor] == UNSEEN {
                        (index[successor], low[successor]) = (next, next);
                        next += 1;
                        open.push(successor);
                        is_open[successor] = true;
                        work.push((successor, self.successors(successor).collect()));
                    } else if is_open[successor] {
                        low[node] = low[node].min(index[successor]);
                    }
                    continue;
                }
                work.pop();
                if let Some((parent, _)) = work.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let start = open.iter().rposition(|&it| it == node).unwrap_or(0);
                    let component = open.split_off(start);
                    component.iter().for_each(|&it| is_open[it] = false);
                    let own: u64 = component.iter().map(|&it| self.weight(it)).sum();
                    let behind = { component.iter() }.flat_map(|&it| self.successors(it));
                    // Those of the component itself are still 0.
                    let best = behind.map(|it| priorities[it]).max().unwrap_or(0);
                    for &it in &component {
                        priorities[it] = own + best;
                    }
                }
            }
        }
        self.priorities = priorities;
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
    fn a_call_of_a_known_function_is_an_operation() {
        let mut guide = PmGuide::default();
        // call +0; ret
        guide.add_function(0, &[0xe8, 0, 0, 0, 0, 0xc3], &mut |returns_to| {
            returns_to == 5
        });
        assert_eq!(guide.priority(0), UNREACHED);
    }
}
