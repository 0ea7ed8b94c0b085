//! The behaviours of recovery: a tree over what it reads.
//!
//! Recovery is a function of what it reads. A node stands for all runs that have read the same bytes so far; it says what they
//! read next, or how they end. It also has the [situations](super::situations) in which recovery can get there. So each behaviour is in the
//! tree once, for all crashes that lead to it: the work grows with the number of different behaviours, not with that of
//! crashes.

use std::num::NonZeroU32;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::time_set::TimeSet;

/// Bytes that recovery reads at once, in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// Number of the persistent file.
    pub file: u32,
    pub len: u32,
    pub offset: u64,
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(NonZeroU32);

/// A byte string that recovery has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueId(u32);

/// What recovery does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Unknown,
    /// It is not known, but a run that will show it was proposed.
    Awaited,
    Read(Read),
    /// It reads nothing more, and passes or not.
    End {
        passes: bool,
    },
}

impl Next {
    /// Whether a run has shown it.
    pub fn is_known(self) -> bool {
        matches!(self, Self::Read(_) | Self::End { .. })
    }
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    /// What recovery has read at the parent.
    value: ValueId,
    next: Next,
    /// Where the same reads also lead to: only if recovery depends on something else, too.
    twin: Option<NodeId>,
    /// The first node after this one.
    child: Option<NodeId>,
    /// The next node with the same parent.
    sibling: Option<NodeId>,
    times: Arc<TimeSet>,
    /// Those of the times at which what recovery reads next can differ.
    choice_times: Option<Box<TimeSet>>,
}

/// The tree.
#[derive(Debug, Default)]
pub struct Behaviours {
    nodes: Vec<Node>,
    values: Vec<Arc<[u8]>>,
    by_value: FxHashMap<Arc<[u8]>, ValueId>,
    /// Runs that did not do what earlier runs did after reading the same bytes.
    contradictions: u64,
}

impl Behaviours {
    /// Adds the node of recoveries that have read nothing.
    pub fn add_root(&mut self, times: TimeSet) -> NodeId {
        let value = self.value(&[]);
        self.add(None, value, Arc::new(times))
    }

    /// Names a byte string.
    pub fn value(&mut self, bytes: &[u8]) -> ValueId {
        if let Some(&known) = self.by_value.get(bytes) {
            return known;
        }
        let new = ValueId(self.values.len() as u32);
        let bytes: Arc<[u8]> = bytes.into();
        self.values.push(Arc::clone(&bytes));
        self.by_value.insert(bytes, new);
        new
    }

    pub fn bytes(&self, value: ValueId) -> &[u8] {
        &self.values[value.0 as usize]
    }

    /// Notes what recoveries do after `node`. Returns the node that says so, and whether it is new.
    pub fn learn(&mut self, node: NodeId, next: Next) -> (NodeId, bool) {
        if !self.next(node).is_known() {
            self.node_mut(node).next = next;
            return (node, true);
        }
        let mut last = node;
        loop {
            if self.next(last) == next {
                return (last, false);
            }
            match self.node(last).twin {
                Some(twin) => last = twin,
                None => break,
            }
        }
        self.contradictions += 1;
        let Node {
            parent,
            value,
            ref times,
            ..
        } = *self.node(node);
        let twin = self.add(parent, value, Arc::clone(times));
        self.node_mut(twin).next = next;
        self.node_mut(last).twin = Some(twin);
        (twin, true)
    }

    /// Where the same reads also lead to, if recovery depends on something else, too.
    pub fn twin(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).twin
    }

    /// Adds situations in which recovery can get to `node`.
    pub fn add_times(&mut self, node: NodeId, times: &TimeSet) {
        Arc::make_mut(&mut self.node_mut(node).times).unite(times);
    }

    /// Adds situations in which what recovery reads after `node` can differ.
    pub fn add_choice_times(&mut self, node: NodeId, times: &TimeSet) {
        if !times.is_empty() {
            let known = self.node_mut(node).choice_times.get_or_insert_default();
            known.unite(times);
        }
    }

    /// Forgets what was proposed: no run will show what recoveries do after `node`.
    pub fn forget_run(&mut self, node: NodeId) {
        if self.next(node) == Next::Awaited {
            self.node_mut(node).next = Next::Unknown;
        }
    }

    /// Adds what follows when recoveries read `value` at `parent`.
    pub fn add_child(&mut self, parent: NodeId, value: ValueId, times: Arc<TimeSet>) -> NodeId {
        let child = self.add(Some(parent), value, times);
        let first = self.node_mut(parent).child.replace(child);
        self.node_mut(child).sibling = first;
        child
    }

    /// The node after those that read `value` at `parent`.
    pub fn child(&self, parent: NodeId, value: ValueId) -> Option<NodeId> {
        let mut next = self.node(parent).child;
        while let Some(child) = next {
            let known = self.node(child);
            if known.value == value {
                return Some(child);
            }
            next = known.sibling;
        }
        None
    }

    /// Whether something else than `but` follows `parent`, and no run has shown what.
    pub fn has_unknown_child(&self, parent: NodeId, but: NodeId) -> bool {
        let children =
            std::iter::successors(self.node(parent).child, |&child| self.node(child).sibling);
        let mut others = children.filter(|&child| child != but);
        others.any(|child| !self.next(child).is_known())
    }

    pub fn next(&self, node: NodeId) -> Next {
        self.node(node).next
    }

    /// Notes that a run was proposed that will show what recoveries do after `node`.
    pub fn await_run(&mut self, node: NodeId) {
        self.node_mut(node).next = Next::Awaited;
    }

    /// The crash times after which recovery can get to `node`.
    pub fn times(&self, node: NodeId) -> &Arc<TimeSet> {
        &self.node(node).times
    }

    /// The times at which what recovery reads after `node` can differ.
    pub fn choice_times(&self, node: NodeId) -> Option<&TimeSet> {
        self.node(node).choice_times.as_deref()
    }

    /// What recoveries have read that get to `node`, in order.
    pub fn path(&self, mut node: NodeId) -> Vec<(Read, ValueId)> {
        let mut path = Vec::new();
        while let Some(parent) = self.node(node).parent {
            if let Next::Read(read) = self.next(parent) {
                path.push((read, self.node(node).value));
            }
            node = parent;
        }
        path.reverse();
        path
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.nodes.len() as u32).filter_map(|number| NonZeroU32::new(number).map(NodeId))
    }

    /// How many runs did not do what earlier runs did after reading the same bytes: recovery depends on something else.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    fn add(&mut self, parent: Option<NodeId>, value: ValueId, times: Arc<TimeSet>) -> NodeId {
        self.nodes.push(Node {
            parent,
            value,
            next: Next::Unknown,
            twin: None,
            child: None,
            sibling: None,
            times,
            choice_times: None,
        });
        let number = NonZeroU32::new(self.nodes.len() as u32);
        NodeId(number.expect("there are fewer than 2^32 nodes, at least one"))
    }

    fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0.get() as usize - 1]
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0.get() as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Next = Next::Read(Read {
        file: 0,
        offset: 0,
        len: 1,
    });
    const SECOND: Next = Next::Read(Read {
        file: 0,
        offset: 8,
        len: 1,
    });
    const PASSES: Next = Next::End { passes: true };

    fn tree() -> (Behaviours, NodeId) {
        let mut tree = Behaviours::default();
        let root = tree.add_root((0..3).collect());
        (tree, root)
    }

    #[test]
    fn equal_reads_lead_to_one_node() {
        let (mut tree, root) = tree();
        assert_eq!(tree.next(root), Next::Unknown);
        assert_eq!(tree.learn(root, FIRST), (root, true));
        let values = [1, 2].map(|byte| tree.value(&[byte]));
        let times = Arc::clone(tree.times(root));
        let [one, two] = values.map(|value| tree.add_child(root, value, Arc::clone(&times)));
        tree.learn(one, PASSES);
        assert_eq!(tree.value(&[1]), values[0]);
        assert_eq!(
            values.map(|value| tree.child(root, value)),
            [Some(one), Some(two)]
        );
        assert_eq!(tree.learn(root, FIRST), (root, false));
        assert_eq!(
            [one, two].map(|node| tree.next(node).is_known()),
            [true, false]
        );
        let Next::Read(read) = FIRST else {
            unreachable!()
        };
        assert_eq!(tree.path(two), [(read, values[1])]);
        assert_eq!(tree.contradictions(), 0);
    }

    #[test]
    fn a_recovery_that_depends_on_something_else_is_detected() {
        let (mut tree, root) = tree();
        tree.learn(root, FIRST);
        let (twin, is_new) = tree.learn(root, SECOND);
        assert!(is_new && twin != root);
        assert_eq!(tree.learn(root, SECOND), (twin, false));
        assert_eq!(tree.learn(root, FIRST), (root, false));
        assert_eq!(tree.contradictions(), 1);
        assert!(tree.learn(root, PASSES).1);
        assert_eq!(tree.contradictions(), 2);
        assert_eq!(tree.nodes().count(), 3);
    }
}
