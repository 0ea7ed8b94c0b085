//! The tree of calling contexts: each node is a return address below the context of its caller.
//!
//! Recursion is folded: no return address is in a chain twice. A call from a return address that the chain of its caller
//! already contains leads back to that caller's context, so that what lies between the two calls is left out. Each folded
//! chain is therefore a possible one, and the number of contexts does not depend on the depth of recursion. A walk of a tree that
//! calls itself in two places would otherwise make two to the power of its depth.

use alloc::vec::Vec;
use brownout_ring::FOLDED_RECURSION;
use core::hash::{BuildHasher, Hasher};
use hashbrown::HashTable;

/// A calling context, by its number in the process; numbers are given in order of appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextNumber(pub u32);

impl ContextNumber {
    /// The context of a function without a caller.
    pub const ROOT: ContextNumber = ContextNumber(0);
}

/// Stands in the place of a return address for callers further out that were not looked at.
pub const OMITTED: u64 = 0;

struct Node {
    caller: ContextNumber,
    return_address: u64,
}

/// A call that leads back to a context further out.
struct FoldedEdge {
    caller: ContextNumber,
    return_address: u64,
    context: ContextNumber,
}

/// A node that was just added to the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    pub number: ContextNumber,
    pub caller: ContextNumber,
    /// [`FOLDED_RECURSION`] if this is no context of its own.
    pub return_address: u64,
}

/// All calling contexts of a process. A context once made keeps its number.
pub struct ContextTree {
    /// Node `n` is context `n + 1`.
    nodes: Vec<Node>,
    by_edge: HashTable<ContextNumber>,
    folded: HashTable<FoldedEdge>,
}

impl Default for ContextTree {
    fn default() -> Self {
        Self::new()
    }
}

impl ContextTree {
    pub const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            by_edge: HashTable::new(),
            folded: HashTable::new(),
        }
    }

    /// The context of a function called from `return_address` in a function of context `caller`, and
    /// the node that was added, if one was.
    pub fn callee(
        &mut self,
        caller: ContextNumber,
        return_address: u64,
    ) -> (ContextNumber, Option<NewNode>) {
        let hash = edge_hash(caller, return_address);
        if let Some(known) = self.child(hash, caller, return_address) {
            return (known, None);
        }
        let same =
            |edge: &FoldedEdge| edge.caller == caller && edge.return_address == return_address;
        if let Some(edge) = self.folded.find(hash, same) {
            return (edge.context, None);
        }
        let Some(context) = self.calling_from(return_address, caller) else {
            let node = self.add(hash, caller, return_address);
            return (node.map_or(caller, |node| node.number), node);
        };
        let edge = FoldedEdge {
            caller,
            return_address,
            context,
        };
        self.folded.insert_unique(hash, edge, |edge| {
            edge_hash(edge.caller, edge.return_address)
        });
        (context, self.mark_recursion(context))
    }

    /// Adds the node that says that recursion back to `context` is folded, unless there is one.
    fn mark_recursion(&mut self, context: ContextNumber) -> Option<NewNode> {
        let hash = edge_hash(context, FOLDED_RECURSION);
        match self.child(hash, context, FOLDED_RECURSION) {
            Some(_) => None,
            None => self.add(hash, context, FOLDED_RECURSION),
        }
    }

    fn child(&self, hash: u64, caller: ContextNumber, address: u64) -> Option<ContextNumber> {
        let same = |id: &ContextNumber| {
            node(&self.nodes, *id)
                .is_some_and(|n| n.caller == caller && n.return_address == address)
        };
        self.by_edge.find(hash, same).copied()
    }

    /// The context among `context` and its callers whose own return address this is.
    fn calling_from(&self, return_address: u64, context: ContextNumber) -> Option<ContextNumber> {
        let mut at = context;
        loop {
            let node = node(&self.nodes, at)?;
            if node.return_address == return_address {
                return Some(at);
            }
            at = node.caller;
        }
    }

    /// `None` if there are too many already.
    fn add(&mut self, hash: u64, caller: ContextNumber, return_address: u64) -> Option<NewNode> {
        let number = ContextNumber(u32::try_from(self.nodes.len() + 1).ok()?);
        self.nodes.push(Node {
            caller,
            return_address,
        });
        let nodes = &self.nodes;
        self.by_edge.insert_unique(hash, number, |id| {
            node(nodes, *id).map_or(0, |n| edge_hash(n.caller, n.return_address))
        });
        Some(NewNode {
            number,
            caller,
            return_address,
        })
    }

    /// The return addresses of a context, the innermost first. One less than each lies within the
    /// instruction that was calling, or that a signal interrupted.
    #[cfg(test)]
    pub fn return_addresses(&self, context: ContextNumber) -> impl Iterator<Item = u64> + '_ {
        let mut at = context;
        core::iter::from_fn(move || {
            let node = node(&self.nodes, at)?;
            at = node.caller;
            Some(node.return_address)
        })
    }

    /// Nodes made so far, without the root.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

fn node(nodes: &[Node], id: ContextNumber) -> Option<&Node> {
    nodes.get((id.0 as usize).wrapping_sub(1))
}

/// A well-spread hash of a tree edge.
pub(crate) fn edge_hash(caller: ContextNumber, return_address: u64) -> u64 {
    spread(return_address ^ u64::from(caller.0).rotate_left(40))
}

/// Spreads the few bits in which addresses differ over the whole word.
pub(crate) fn spread(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// Hashes a single word by [`spread`].
#[derive(Clone, Copy)]
pub(crate) struct Mix(u64);

impl Mix {
    pub const START: Mix = Mix(0);
}

impl BuildHasher for Mix {
    type Hasher = Mix;
    fn build_hasher(&self) -> Mix {
        Mix::START
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = spread(self.0.rotate_left(5) ^ word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callee(tree: &mut ContextTree, caller: ContextNumber, address: u64) -> ContextNumber {
        tree.callee(caller, address).0
    }

    #[test]
    fn one_number_per_chain() {
        let mut tree = ContextTree::new();
        let (main, new) = tree.callee(ContextNumber::ROOT, 0x1000);
        assert_eq!(new.map(|node| node.number), Some(main));
        let left = callee(&mut tree, main, 0x2000);
        let right = callee(&mut tree, main, 0x3000);
        assert_ne!(left, right);
        assert_eq!(tree.callee(main, 0x2000), (left, None));
        assert_eq!(
            tree.return_addresses(right).collect::<Vec<_>>(),
            [0x3000, 0x1000]
        );
        assert_eq!(tree.return_addresses(ContextNumber::ROOT).count(), 0);
    }

    #[test]
    fn holds_many() {
        let mut tree = ContextTree::new();
        let mut caller = ContextNumber::ROOT;
        for depth in 0..10_000 {
            caller = callee(&mut tree, caller, 0x40_0000 + depth);
        }
        assert_eq!(tree.len(), 10_000);
        assert_eq!(tree.return_addresses(caller).count(), 10_000);
    }

    #[test]
    fn the_number_of_contexts_does_not_depend_on_the_depth_of_recursion() {
        const LEFT: u64 = 0x2000;
        const RIGHT: u64 = 0x3000;
        let mut tree = ContextTree::new();
        let main = callee(&mut tree, ContextNumber::ROOT, 0x1000);
        for path in 0..1_u32 << 12 {
            let mut context = main;
            for level in 0..12 {
                let address = if path >> level & 1 == 0 { LEFT } else { RIGHT };
                context = callee(&mut tree, context, address);
            }
            let chain: Vec<u64> = tree.return_addresses(context).collect();
            assert!(chain.len() <= 3, "{chain:x?}");
        }
        // Below `main`: left, right, left in right and right in left, each with its mark.
        assert!(tree.len() <= 1 + 2 * 4, "{} nodes", tree.len());
    }

    #[test]
    fn a_folded_context_is_marked_once() {
        let mut tree = ContextTree::new();
        let walk = callee(&mut tree, ContextNumber::ROOT, 0x1000);
        let (again, mark) = tree.callee(walk, 0x1000);
        assert_eq!(again, walk);
        let mark = mark.expect("the first time is noted");
        assert_eq!((mark.caller, mark.return_address), (walk, FOLDED_RECURSION));
        assert_eq!(tree.callee(walk, 0x1000), (walk, None));
        let visit = callee(&mut tree, walk, 0x5000);
        assert_eq!(tree.callee(visit, 0x1000), (walk, None));
        let chain: Vec<u64> = tree.return_addresses(visit).collect();
        assert_eq!(chain, [0x5000, 0x1000], "the mark is no frame");
    }
}
