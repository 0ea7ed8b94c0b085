//! The processes of one host that wait at questions.

use std::collections::{BTreeMap, HashMap};

use super::question_tree::{NodeNumber, ROOT};

/// Processes of one host that may wait at the same time. Each takes some memory, and the kernel has a limit.
const MOST_WAITING: usize = 256;

/// Processes by the question at which they wait.
#[derive(Debug)]
pub struct WaitingProcesses {
    /// The process that waits at a question, and when it was last used.
    by_node: HashMap<NodeNumber, (u32, u64)>,
    /// Questions at which processes wait, except the first question, by when they were last used.
    by_use: BTreeMap<u64, NodeNumber>,
    clock: u64,
    /// How many may wait.
    most: usize,
}

impl Default for WaitingProcesses {
    fn default() -> Self {
        Self {
            by_node: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            most: MOST_WAITING,
        }
    }
}

impl WaitingProcesses {
    /// The last of some questions at which a process waits: its position, and the process.
    pub fn last(
        &self,
        nodes: impl DoubleEndedIterator<Item = NodeNumber> + ExactSizeIterator,
    ) -> Option<(usize, u32)> {
        let mut numbered = nodes.enumerate().rev();
        numbered.find_map(|(at, node)| Some((at, self.by_node.get(&node)?.0)))
    }

    /// A process waits at a question, and was used now.
    pub fn keep(&mut self, node: NodeNumber, branch: u32) {
        self.forget(node);
        self.clock += 1;
        self.by_node.insert(node, (branch, self.clock));
        if node != ROOT {
            self.by_use.insert(self.clock, node);
        }
    }

    /// No process waits at a question any more.
    pub fn forget(&mut self, node: NodeNumber) {
        if let Some((_, used)) = self.by_node.remove(&node) {
            self.by_use.remove(&used);
        }
    }

    /// So many hosts share the processes that may wait.
    pub fn share_room(&mut self, hosts: usize) {
        self.most = MOST_WAITING / hosts;
    }

    /// If too many processes wait, the one that was not used for the longest time. It no longer counts as waiting.
    pub fn take_surplus(&mut self) -> Option<u32> {
        if self.by_use.len() < self.most {
            return None;
        }
        let (_, node) = self.by_use.pop_first()?;
        let (branch, _) = self.by_node.remove(&node)?;
        Some(branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_starts_from_the_last_process_on_its_way() {
        let mut waiting = WaitingProcesses::default();
        let [one, two] = [1, 2].map(NodeNumber::numbered);
        waiting.keep(ROOT, 7);
        let way = || [ROOT, one, two].into_iter();
        assert_eq!(waiting.last(way()), Some((0, 7)));
        waiting.keep(one, 8);
        assert_eq!(waiting.last(way()), Some((1, 8)));
        waiting.forget(one);
        assert_eq!(waiting.last(way()), Some((0, 7)));
    }

    #[test]
    fn the_process_that_was_not_used_for_the_longest_time_is_surplus() {
        let mut waiting = WaitingProcesses::default();
        waiting.keep(ROOT, 1000);
        let node = |number: u32| NodeNumber::numbered(1 + number as usize);
        for number in 0..MOST_WAITING as u32 {
            assert_eq!(waiting.take_surplus(), None);
            waiting.keep(node(number), number);
        }
        waiting.keep(node(0), 0);
        assert_eq!(waiting.take_surplus(), Some(1));
        assert_eq!(waiting.take_surplus(), None);
        assert_eq!(waiting.last([node(1)].into_iter()), None);
        assert_eq!(waiting.last([node(0)].into_iter()), Some((0, 0)));
        waiting.share_room(4);
        assert_eq!(waiting.take_surplus(), Some(2));
    }
}
