//! Uses behaviours that explorations of other recordings have shown: recovery does the same after it has read the same bytes, whichever
//! recording a crash image is of. Where the crashes of this recording can lead along remembered reads, no run is needed; where
//! they leave the remembered paths, recovery is run.

use std::sync::Arc;

use brownout_recovery::ByteRanges;
use rustc_hash::FxHashMap;

use super::behaviours::{Next, NodeId, Read, ValueId};
use super::differing_reads::observed_parts;
use super::explorer::Explorer;
use super::path::{Path, Undo};
use crate::explored_behaviours::ExploredRun;
use crate::recovery_start::Start;

/// A tree over what remembered runs have read.
#[derive(Default)]
pub struct Recollection {
    roots: FxHashMap<Start, usize>,
    nodes: Vec<KnownNode>,
}

#[derive(Default)]
struct KnownNode {
    next: KnownNext,
    /// By the bytes that are read.
    after: FxHashMap<Box<[u8]>, usize>,
}

/// What remembered runs do next.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum KnownNext {
    #[default]
    Unknown,
    /// They do not all do the same: nothing is known.
    Contradicted,
    Read(Read),
    Passes,
}

/// What was remembered.
#[derive(Default)]
pub struct Recalled {
    /// Ends that need no run.
    pub ends: u64,
    /// Those of them that can be reached in situations whose states have to be sampled, with these situations.
    pub too_open: Vec<(NodeId, u32)>,
}

impl Recollection {
    pub fn of<'r>(
        runs: impl IntoIterator<Item = &'r ExploredRun>,
        observed: &Arc<[ByteRanges]>,
    ) -> Self {
        let mut known = Self::default();
        for run in runs {
            known.add(run, observed);
        }
        known
    }

    fn add(&mut self, run: &ExploredRun, observed: &Arc<[ByteRanges]>) {
        let mut at = match self.roots.get(&run.start) {
            Some(&root) => root,
            None => {
                let root = self.add_node();
                self.roots.insert(run.start.clone(), root);
                root
            }
        };
        for (read, bytes) in run.reads.iter() {
            for (read, bytes) in observed_parts(read, bytes, observed, &run.start.sizes) {
                self.learn(at, KnownNext::Read(read));
                at = match self.nodes[at].after.get(bytes) {
                    Some(&next) => next,
                    None => {
                        let next = self.add_node();
                        self.nodes[at].after.insert(bytes.into(), next);
                        next
                    }
                };
            }
        }
        self.learn(at, KnownNext::Passes);
    }

    fn add_node(&mut self) -> usize {
        self.nodes.push(KnownNode::default());
        self.nodes.len() - 1
    }

    fn learn(&mut self, at: usize, next: KnownNext) {
        let known = &mut self.nodes[at].next;
        *known = match *known {
            KnownNext::Unknown => next,
            known if known == next => next,
            _ => KnownNext::Contradicted,
        };
    }
}

enum RecallStep {
    Enter(NodeId, usize),
    Read(NodeId, Read, ValueId),
    Leave,
}

impl Explorer {
    /// Lets all crashes of the target go along remembered reads. To be called before anything is learned from runs.
    pub fn recall(&mut self, known: &Recollection) -> Recalled {
        let mut recalled = Recalled::default();
        for (start, &at) in &known.roots {
            if let Some(root) = self.take_root(start) {
                self.recall_from(root, (known, at), &mut recalled);
            }
        }
        recalled
    }

    fn recall_from(
        &mut self,
        root: NodeId,
        (known, at): (&Recollection, usize),
        recalled: &mut Recalled,
    ) {
        let mut path = Path::default();
        let mut undo: Vec<Undo> = Vec::new();
        let mut steps = vec![RecallStep::Enter(root, at)];
        while let Some(step) = steps.pop() {
            let (node, at) = match step {
                RecallStep::Enter(node, at) => (node, at),
                RecallStep::Read(node, read, value) => {
                    let read = (read, value);
                    undo.push(path.push_undoable(node, read, &self.behaviours, &self.versions));
                    continue;
                }
                RecallStep::Leave => {
                    if let Some(last) = undo.pop() {
                        path.undo(last);
                    }
                    continue;
                }
            };
            match known.nodes[at].next {
                KnownNext::Unknown | KnownNext::Contradicted => self.frontier.push(node),
                KnownNext::Passes => {
                    self.behaviours.learn(node, Next::End { passes: true });
                    recalled.ends += 1;
                    let too_open = self.sample(node, &path).into_iter();
                    recalled.too_open.extend(too_open.map(|time| (node, time)));
                }
                KnownNext::Read(read) => {
                    self.behaviours.learn(node, Next::Read(read));
                    let times = Arc::clone(self.behaviours.times(node));
                    for (value, times) in self.distribute(node, read, &times, &mut path) {
                        match known.nodes[at].after.get(self.behaviours.bytes(value)) {
                            None => self.add_reachable(node, value, times),
                            Some(&next) => {
                                let child = self.behaviours.add_child(node, value, times);
                                steps.extend([
                                    RecallStep::Leave,
                                    RecallStep::Enter(child, next),
                                    RecallStep::Read(node, read, value),
                                ]);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use brownout_recovery::FirstRead;

    use super::*;

    fn run(reads: &[(u64, u8)]) -> ExploredRun {
        let read = |&(offset, byte): &(u64, u8)| {
            let read = FirstRead {
                file: 0,
                offset,
                len: 1,
            };
            (read, vec![byte])
        };
        ExploredRun {
            start: Start {
                operation: None,
                sizes: vec![Some(4096)],
            },
            reads: reads.iter().map(read).collect(),
        }
    }

    fn known(runs: &[ExploredRun]) -> Recollection {
        let mut observed = ByteRanges::exact();
        observed.insert(0..4096);
        Recollection::of(runs, &[observed].into())
    }

    #[test]
    fn runs_that_begin_alike_share_nodes() {
        let known = known(&[
            run(&[(0, 1), (8, 1)]),
            run(&[(0, 1), (8, 2)]),
            run(&[(0, 2)]),
        ]);
        assert_eq!((known.roots.len(), known.nodes.len()), (1, 5));
        let ends = known.nodes.iter();
        let ends = ends.filter(|node| node.next == KnownNext::Passes);
        assert_eq!(ends.count(), 3);
    }

    #[test]
    fn of_runs_that_contradict_each_other_nothing_is_known() {
        let known = known(&[run(&[(0, 1), (8, 1)]), run(&[(0, 1), (16, 1)])]);
        let contradicted = known.nodes.iter();
        let contradicted = contradicted.filter(|node| node.next == KnownNext::Contradicted);
        assert_eq!(contradicted.count(), 1);
    }
}
