//! The questions that runs of a recovery have met, and the processes that wait at them.

use std::collections::{BTreeMap, HashMap};

use super::messages::Question;

/// Processes that may wait at the same time. Each takes some memory, and the kernel has a limit.
const MOST_WAITING: usize = 256;

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeNumber(usize);

const ROOT: NodeNumber = NodeNumber(0);

/// A question, after all runs that have answered the same questions in the same way.
#[derive(Debug)]
struct Node {
    question: Question,
    /// The process that waits at it, and when it was last used.
    waiting: Option<(u32, u64)>,
    after: HashMap<Vec<u8>, NodeNumber>,
}

/// A tree of questions.
#[derive(Debug, Default)]
pub struct WaitingTree {
    nodes: Vec<Node>,
    /// Nodes at which processes wait, except the root, by when they were last used.
    by_use: BTreeMap<u64, NodeNumber>,
    clock: u64,
    /// Whether a run has answered the question of the root.
    pub was_used: bool,
}

impl WaitingTree {
    pub fn add_root(&mut self, question: Question, branch: u32) {
        self.nodes.push(Node {
            question,
            waiting: Some((branch, 0)),
            after: HashMap::new(),
        });
    }

    pub fn root(&self) -> Option<NodeNumber> {
        (!self.nodes.is_empty()).then_some(ROOT)
    }

    pub fn is_root(&self, node: NodeNumber) -> bool {
        node == ROOT
    }

    pub fn question(&self, node: NodeNumber) -> &Question {
        &self.nodes[node.0].question
    }

    /// The question after an answer, if a run has come to one.
    pub fn after(&self, node: NodeNumber, answer: &[u8]) -> Option<NodeNumber> {
        self.nodes[node.0].after.get(answer).copied()
    }

    pub fn add(&mut self, before: NodeNumber, answer: Vec<u8>, question: Question) -> NodeNumber {
        let node = NodeNumber(self.nodes.len());
        self.nodes.push(Node {
            question,
            waiting: None,
            after: HashMap::new(),
        });
        self.nodes[before.0].after.insert(answer, node);
        node
    }

    /// The last of some nodes at which a process waits: its position, and the process.
    pub fn last_waiting(
        &self,
        nodes: impl DoubleEndedIterator<Item = NodeNumber> + ExactSizeIterator,
    ) -> Option<(usize, u32)> {
        let mut numbered = nodes.enumerate().rev();
        numbered.find_map(|(at, node)| Some((at, self.nodes[node.0].waiting?.0)))
    }

    /// A process waits at a node, and was used now.
    pub fn keep(&mut self, node: NodeNumber, branch: u32) {
        self.forget(node);
        self.clock += 1;
        self.nodes[node.0].waiting = Some((branch, self.clock));
        if node != ROOT {
            self.by_use.insert(self.clock, node);
        }
    }

    /// No process waits at a node any more.
    pub fn forget(&mut self, node: NodeNumber) {
        if let Some((_, used)) = self.nodes[node.0].waiting.take() {
            self.by_use.remove(&used);
        }
    }

    /// If too many processes wait, the one that was not used for the longest time. It no longer counts as waiting.
    pub fn take_surplus(&mut self) -> Option<u32> {
        if self.by_use.len() < MOST_WAITING {
            return None;
        }
        let (_, node) = self.by_use.pop_first()?;
        let (branch, _) = self.nodes[node.0].waiting.take()?;
        Some(branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(offset: u64) -> Question {
        Question {
            file: 0,
            offset,
            len: 1,
            open: std::iter::once(0..1).collect(),
        }
    }

    #[test]
    fn a_run_starts_from_the_last_process_on_its_way() {
        let mut tree = WaitingTree::default();
        tree.add_root(question(0), 7);
        let one = tree.add(ROOT, vec![1], question(8));
        let two = tree.add(one, vec![1], question(16));
        assert_eq!(tree.after(ROOT, &[1]), Some(one));
        assert_eq!(tree.after(ROOT, &[2]), None);
        let way = || [ROOT, one, two].into_iter();
        assert_eq!(tree.last_waiting(way()), Some((0, 7)));
        tree.keep(one, 8);
        assert_eq!(tree.last_waiting(way()), Some((1, 8)));
        tree.forget(one);
        assert_eq!(tree.last_waiting(way()), Some((0, 7)));
    }

    #[test]
    fn the_process_that_was_not_used_for_the_longest_time_is_surplus() {
        let mut tree = WaitingTree::default();
        tree.add_root(question(0), 1000);
        let nodes: Vec<NodeNumber> = (0..MOST_WAITING as u32)
            .map(|number| {
                assert_eq!(tree.take_surplus(), None);
                let node = tree.add(ROOT, vec![number as u8, 0], question(8));
                tree.keep(node, number);
                node
            })
            .collect();
        tree.keep(nodes[0], 0);
        assert_eq!(tree.take_surplus(), Some(1));
        assert_eq!(tree.take_surplus(), None);
        assert_eq!(tree.last_waiting([nodes[1]].into_iter()), None);
        assert_eq!(tree.last_waiting([nodes[0]].into_iter()), Some((0, 0)));
    }
}
