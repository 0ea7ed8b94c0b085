//! The tree of calling contexts: each node is a return address below the context of its caller.

use alloc::vec::Vec;
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

/// All calling contexts of a process. A context once made keeps its number.
pub struct ContextTree {
    /// Node `n` is context `n + 1`.
    nodes: Vec<Node>,
    by_edge: HashTable<ContextNumber>,
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
        }
    }

    /// The context of a function called from `return_address` in a function of context `caller`, and
    /// whether it is new.
    pub fn callee(&mut self, caller: ContextNumber, return_address: u64) -> (ContextNumber, bool) {
        let hash = edge_hash(caller, return_address);
        let nodes = &self.nodes;
        let same = |id: &ContextNumber| {
            node(nodes, *id)
                .is_some_and(|n| n.caller == caller && n.return_address == return_address)
        };
        if let Some(&id) = self.by_edge.find(hash, same) {
            return (id, false);
        }
        let Ok(number) = u32::try_from(self.nodes.len() + 1) else {
            return (caller, false);
        };
        self.nodes.push(Node {
            caller,
            return_address,
        });
        let nodes = &self.nodes;
        self.by_edge
            .insert_unique(hash, ContextNumber(number), |id| {
                node(nodes, *id).map_or(0, |n| edge_hash(n.caller, n.return_address))
            });
        (ContextNumber(number), true)
    }

    /// The return addresses of a context, the innermost first. One less than each lies within the
    /// instruction that was calling, or that a signal interrupted.
    pub fn return_addresses(&self, context: ContextNumber) -> impl Iterator<Item = u64> + '_ {
        let mut at = context;
        core::iter::from_fn(move || {
            let node = node(&self.nodes, at)?;
            at = node.caller;
            Some(node.return_address)
        })
    }

    /// Contexts made so far, without the root.
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

    #[test]
    fn one_number_per_chain() {
        let mut tree = ContextTree::new();
        let (main, new) = tree.callee(ContextNumber::ROOT, 0x1000);
        assert!(new);
        let (left, _) = tree.callee(main, 0x2000);
        let (right, _) = tree.callee(main, 0x3000);
        assert_ne!(left, right);
        assert_eq!(tree.callee(main, 0x2000), (left, false));
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
            caller = tree.callee(caller, 0x40_0000 + depth % 7).0;
        }
        assert_eq!(tree.len(), 10_000);
        assert_eq!(tree.return_addresses(caller).count(), 10_000);
    }
}
