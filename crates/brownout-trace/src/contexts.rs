//! The calling contexts of one process: a tree of return addresses, shared with forked children.
//!
//! A forked child inherits all contexts of its parent. Afterwards both may define different contexts with the same numbers.
//! Therefore a fork freezes the existing contexts into a layer that both processes share. Layers of similar size are merged,
//! which keeps the number of layers logarithmic in the number of forks.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::chunk::MixHasher;
use crate::ids::{AppPc, ContextId};

/// Stands in the place of a return address: the definition is no context of its own. It says that the contexts of recursive
/// calls that lead back to its parent are one.
pub const FOLDED_RECURSION: AppPc = AppPc(1);

#[derive(Clone, Copy, Debug)]
struct ContextNode {
    parent: ContextId,
    return_address: AppPc,
    /// Number of frames from here to the root. It bounds every walk, even in a damaged trace with cycles.
    depth: u32,
}

type Layer = HashMap<ContextId, ContextNode, BuildHasherDefault<MixHasher>>;

/// The context tree of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts {
    /// Oldest first; later layers hide earlier ones.
    frozen: Vec<Arc<Layer>>,
    own: Layer,
    /// Contexts with folded recursion.
    recursive: Arc<BTreeSet<ContextId>>,
}

impl Contexts {
    pub(crate) fn define(&mut self, id: ContextId, parent: ContextId, return_address: AppPc) {
        if return_address == FOLDED_RECURSION {
            Arc::make_mut(&mut self.recursive).insert(parent);
            return;
        }
        let depth = self
            .node(parent)
            .map_or(0, |node| node.depth)
            .saturating_add(1);
        self.own.insert(
            id,
            ContextNode {
                parent,
                return_address,
                depth,
            },
        );
    }

    /// Forks the tree for a new child process.
    pub(crate) fn fork(&mut self) -> Contexts {
        if !self.own.is_empty() {
            let mut newest = std::mem::take(&mut self.own);
            while let Some(last) = self.frozen.pop_if(|last| last.len() <= 2 * newest.len()) {
                for (&id, &node) in last.iter() {
                    newest.entry(id).or_insert(node);
                }
            }
            self.frozen.push(Arc::new(newest));
        }
        Contexts {
            frozen: self.frozen.clone(),
            own: Layer::default(),
            recursive: Arc::clone(&self.recursive),
        }
    }

    /// The contexts with folded recursion.
    pub(crate) fn recursive(&self) -> impl Iterator<Item = ContextId> {
        self.recursive.iter().copied()
    }

    /// Return addresses from `id` to the root, innermost first.
    pub(crate) fn frames(&self, id: ContextId) -> ContextFrames<'_> {
        let left = self.node(id).map_or(0, |node| node.depth);
        ContextFrames {
            contexts: Some(self),
            next: id,
            left,
        }
    }

    /// The context that a context returns to, and where.
    pub(crate) fn caller(&self, id: ContextId) -> Option<(ContextId, AppPc)> {
        let node = self.node(id)?;
        Some((node.parent, node.return_address))
    }

    fn node(&self, id: ContextId) -> Option<ContextNode> {
        if id == ContextId::ROOT {
            return None;
        }
        let older = || self.frozen.iter().rev().find_map(|layer| layer.get(&id));
        self.own.get(&id).or_else(older).copied()
    }
}

/// The return addresses of a calling context, innermost first. It ends early if the trace does not define a caller.
#[derive(Clone, Debug)]
pub struct ContextFrames<'a> {
    contexts: Option<&'a Contexts>,
    next: ContextId,
    left: u32,
}

impl ContextFrames<'_> {
    /// For a process that is not known.
    pub(crate) fn none() -> Self {
        ContextFrames {
            contexts: None,
            next: ContextId::ROOT,
            left: 0,
        }
    }
}

impl Iterator for ContextFrames<'_> {
    type Item = AppPc;

    fn next(&mut self) -> Option<AppPc> {
        self.left = self.left.checked_sub(1)?;
        let node = self.contexts?.node(self.next)?;
        self.next = node.parent;
        Some(node.return_address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(contexts: &Contexts, id: u32) -> Vec<u64> {
        contexts.frames(ContextId(id)).map(|pc| pc.0).collect()
    }

    #[test]
    fn frames_are_listed_innermost_first() {
        let mut contexts = Contexts::default();
        contexts.define(ContextId(1), ContextId::ROOT, AppPc(0x10));
        contexts.define(ContextId(2), ContextId(1), AppPc(0x20));
        assert_eq!(frames(&contexts, 2), [0x20, 0x10]);
        assert_eq!(frames(&contexts, 0), [0; 0]);
        assert_eq!(frames(&contexts, 9), [0; 0]);
    }

    #[test]
    fn after_a_fork_both_processes_define_their_own_contexts() {
        let mut parent = Contexts::default();
        parent.define(ContextId(1), ContextId::ROOT, AppPc(0x10));
        let mut child = parent.fork();
        parent.define(ContextId(2), ContextId(1), AppPc(0xa0));
        child.define(ContextId(2), ContextId(1), AppPc(0xb0));
        assert_eq!(frames(&parent, 2), [0xa0, 0x10]);
        assert_eq!(frames(&child, 2), [0xb0, 0x10]);
    }

    #[test]
    fn folded_recursion_is_known_and_no_frame() {
        let mut parent = Contexts::default();
        parent.define(ContextId(1), ContextId::ROOT, AppPc(0x10));
        parent.define(ContextId(2), ContextId(1), FOLDED_RECURSION);
        let mut child = parent.fork();
        child.define(ContextId(3), ContextId(1), AppPc(0x20));
        child.define(ContextId(4), ContextId(3), FOLDED_RECURSION);
        let recursive = |contexts: &Contexts| contexts.recursive().collect::<Vec<_>>();
        assert_eq!(recursive(&parent), [ContextId(1)]);
        assert_eq!(recursive(&child), [ContextId(1), ContextId(3)]);
        assert_eq!(frames(&child, 3), [0x20, 0x10]);
    }

    #[test]
    fn many_forks_leave_few_layers() {
        let mut parent = Contexts::default();
        for id in 1..=1000 {
            parent.define(
                ContextId(id),
                ContextId(id - 1),
                AppPc(0x10 + u64::from(id)),
            );
            parent.fork();
        }
        assert!(parent.frozen.len() <= 10, "{} layers", parent.frozen.len());
        assert_eq!(frames(&parent, 1000).len(), 1000);
    }

    #[test]
    fn a_cycle_in_a_damaged_trace_ends() {
        let mut contexts = Contexts::default();
        contexts.define(ContextId(1), ContextId::ROOT, AppPc(0x10));
        contexts.define(ContextId(2), ContextId(1), AppPc(0x20));
        contexts.define(ContextId(1), ContextId(2), AppPc(0x30));
        assert_eq!(frames(&contexts, 1), [0x30, 0x20, 0x30]);
    }
}
