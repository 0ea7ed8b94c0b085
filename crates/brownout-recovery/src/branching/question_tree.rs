//! The questions that runs of a recovery have met, the answers, and how the runs ended: what recovery does, as a function of what it reads
//! (Jaaru, ASPLOS'21, §4).
//!
//! An image whose bytes lead only through known answers to a known end needs no run. A run that does something else than an earlier one
//! after the same answers contradicts the tree: recovery then depends on something else than what it reads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::messages::{BranchOutcome, Question};

/// The number of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeNumber(usize);

#[cfg(test)]
impl NodeNumber {
    pub fn numbered(number: usize) -> Self {
        Self(number)
    }
}

/// The first question.
pub const ROOT: NodeNumber = NodeNumber(0);

/// What recovery does next.
#[derive(Clone, Debug)]
pub enum Next {
    Question(NodeNumber),
    End(Arc<BranchOutcome>),
}

/// A run did something else than an earlier one that had read the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// A question, after all runs that have answered the same questions in the same way.
#[derive(Debug)]
struct Node {
    question: Question,
    after: HashMap<Box<[u8]>, Next>,
}

/// A tree of questions.
#[derive(Debug)]
pub struct QuestionTree {
    nodes: Vec<Node>,
    /// How recovery ends if it asks nothing.
    end: Option<Arc<BranchOutcome>>,
    /// Ends are often alike.
    outcomes: HashSet<Arc<BranchOutcome>>,
    /// The questions that it may have; it does not learn more.
    most: usize,
    /// Answers after which runs that are under way find out what follows.
    pub underway: HashSet<(NodeNumber, Box<[u8]>)>,
}

impl QuestionTree {
    /// An empty tree that holds at most so many questions.
    pub fn with_room_for(most: usize) -> Self {
        Self {
            nodes: Vec::new(),
            end: None,
            outcomes: HashSet::new(),
            most,
            underway: HashSet::new(),
        }
    }

    /// What recovery does first, if that is known.
    pub fn first(&self) -> Option<Next> {
        match &self.end {
            Some(end) => Some(Next::End(Arc::clone(end))),
            None => (!self.nodes.is_empty()).then_some(Next::Question(ROOT)),
        }
    }

    /// A new process asks its first question.
    pub fn begin(&mut self, question: Question) -> Result<(), Contradiction> {
        match self.first() {
            None => {
                self.push(question);
                Ok(())
            }
            Some(Next::Question(root)) if *self.question(root) == question => Ok(()),
            Some(_) => Err(Contradiction),
        }
    }

    /// A new process has ended without a question.
    pub fn begin_with_end(&mut self, outcome: BranchOutcome) -> Result<(), Contradiction> {
        match self.first() {
            None => {
                self.end = Some(Arc::new(outcome));
                Ok(())
            }
            Some(Next::End(known)) if *known == outcome => Ok(()),
            Some(_) => Err(Contradiction),
        }
    }

    pub fn question(&self, node: NodeNumber) -> &Question {
        &self.nodes[node.0].question
    }

    /// What follows an answer, if a run has shown it.
    pub fn after(&self, node: NodeNumber, answer: &[u8]) -> Option<&Next> {
        self.nodes[node.0].after.get(answer)
    }

    /// A run asks a question after an answer. Returns its number; `None` if there is no room for it.
    pub fn ask(
        &mut self,
        before: NodeNumber,
        answer: &[u8],
        question: Question,
    ) -> Result<Option<NodeNumber>, Contradiction> {
        match self.after(before, answer) {
            Some(&Next::Question(node)) if *self.question(node) == question => Ok(Some(node)),
            Some(_) => Err(Contradiction),
            None if self.nodes.len() >= self.most => Ok(None),
            None => {
                let node = self.push(question);
                let after = &mut self.nodes[before.0].after;
                after.insert(answer.into(), Next::Question(node));
                Ok(Some(node))
            }
        }
    }

    /// A run ends after an answer.
    pub fn end(
        &mut self,
        before: NodeNumber,
        answer: &[u8],
        outcome: BranchOutcome,
    ) -> Result<(), Contradiction> {
        match self.after(before, answer) {
            Some(Next::End(known)) if **known == outcome => Ok(()),
            Some(_) => Err(Contradiction),
            None => {
                let outcome = match self.outcomes.get(&outcome) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(outcome),
                };
                self.outcomes.insert(Arc::clone(&outcome));
                let after = &mut self.nodes[before.0].after;
                after.insert(answer.into(), Next::End(outcome));
                Ok(())
            }
        }
    }

    /// The questions that a run meets as far as they are known, with the answers that `answer` gives, and how it ends if that is known.
    pub fn follow<A: AsRef<[u8]>>(
        &self,
        mut answer: impl FnMut(&Question) -> A,
    ) -> (Vec<(NodeNumber, A)>, Option<Arc<BranchOutcome>>) {
        let mut path = Vec::new();
        let mut next = self.first();
        loop {
            match next {
                None => return (path, None),
                Some(Next::End(end)) => return (path, Some(end)),
                Some(Next::Question(node)) => {
                    let bytes = answer(self.question(node));
                    next = self.after(node, bytes.as_ref()).cloned();
                    path.push((node, bytes));
                }
            }
        }
    }

    fn push(&mut self, question: Question) -> NodeNumber {
        self.nodes.push(Node {
            question,
            after: HashMap::new(),
        });
        NodeNumber(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::End;

    fn question(offset: u64) -> Question {
        Question {
            file: 0,
            offset,
            len: 1,
            open: std::iter::once(0..1).collect(),
        }
    }

    fn outcome(status: i32) -> BranchOutcome {
        BranchOutcome {
            end: End::Exited(status),
            stdout: Vec::new(),
            stderr: Vec::new(),
            other_inputs: Vec::new(),
        }
    }

    /// A recovery: where it reads next, or how it ends, given what it has read.
    type Recovery<'r> = &'r dyn Fn(&[u8]) -> Result<u64, i32>;

    /// Runs a recovery on an image and lets the tree learn from it.
    fn learn(tree: &mut QuestionTree, recovery: Recovery<'_>, image: &[u8]) {
        let mut read: Vec<u8> = Vec::new();
        let mut at: Option<NodeNumber> = None;
        loop {
            let next = recovery(&read);
            match (next, at, read.last().copied()) {
                (Ok(offset), None, None) => {
                    tree.begin(question(offset)).unwrap();
                    at = Some(ROOT);
                }
                (Ok(offset), Some(node), Some(last)) => {
                    let asked = tree.ask(node, &[last], question(offset)).unwrap();
                    let Some(asked) = asked else { return };
                    at = Some(asked);
                }
                (Err(status), None, _) => return tree.begin_with_end(outcome(status)).unwrap(),
                (Err(status), Some(node), Some(last)) => {
                    return tree.end(node, &[last], outcome(status)).unwrap();
                }
                _ => unreachable!("a question is answered before the next"),
            }
            let Ok(offset) = next else { return };
            read.push(image[offset as usize]);
        }
    }

    fn known_end(tree: &QuestionTree, image: &[u8]) -> Option<End> {
        let (_, end) = tree.follow(|question| [image[question.offset as usize]]);
        end.map(|outcome| outcome.end)
    }

    /// What a recovery does on an image, without a tree: its reads and its end.
    fn run(recovery: Recovery<'_>, image: &[u8]) -> (Vec<u64>, End) {
        let (mut read, mut offsets) = (Vec::new(), Vec::new());
        loop {
            match recovery(&read) {
                Err(status) => return (offsets, End::Exited(status)),
                Ok(offset) => {
                    read.push(image[offset as usize]);
                    offsets.push(offset);
                }
            }
        }
    }

    /// A recovery that reads at most `depth` bytes, decided by a table of pseudorandom numbers.
    fn random_recovery(seed: u64, depth: usize) -> impl Fn(&[u8]) -> Result<u64, i32> {
        move |read: &[u8]| {
            let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
            for &byte in read {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                state ^= state >> 29;
            }
            state = state.wrapping_mul(0xff51_afd7_ed55_8ccd);
            match read.len() >= depth || (state >> 40).is_multiple_of(5) {
                true => Err((state >> 50) as i32 % 3),
                false => Ok(state >> 33 & 7),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_known_is_what_recovery_does(
            seed in any::<u64>(),
            depth in 0..6usize,
            most in prop_oneof![Just(usize::MAX), 1..20usize],
            images in prop::collection::vec(prop::array::uniform8(0..3u8), 1..40),
        ) {
            let recovery = random_recovery(seed, depth);
            let mut tree = QuestionTree::with_room_for(most);
            let mut behaviours: HashSet<Vec<(u64, u8)>> = HashSet::new();
            for image in &images {
                let (offsets, end) = run(&recovery, image);
                let reads = offsets.iter().map(|&at| (at, image[at as usize])).collect();
                let is_new = behaviours.insert(reads);
                let known = known_end(&tree, image);
                if let Some(known) = known {
                    prop_assert!(!is_new);
                    prop_assert_eq!(known, end);
                } else {
                    // A tree without a limit knows every sequence of reads that was run.
                    prop_assert!(is_new || most != usize::MAX);
                    learn(&mut tree, &recovery, image);
                }
            }
            prop_assert!(tree.nodes.len() <= most.max(1));
        }
    }

    #[test]
    fn a_recovery_that_depends_on_something_else_contradicts_the_tree() {
        let mut tree = QuestionTree::with_room_for(usize::MAX);
        tree.begin(question(0)).unwrap();
        assert_eq!(tree.begin(question(0)), Ok(()));
        assert_eq!(tree.begin(question(1)), Err(Contradiction));
        assert_eq!(tree.begin_with_end(outcome(0)), Err(Contradiction));
        let second = tree.ask(ROOT, &[1], question(8)).unwrap();
        assert_eq!(tree.ask(ROOT, &[1], question(8)), Ok(second));
        assert_eq!(tree.ask(ROOT, &[1], question(9)), Err(Contradiction));
        assert_eq!(tree.end(ROOT, &[1], outcome(0)), Err(Contradiction));
        tree.end(ROOT, &[2], outcome(0)).unwrap();
        assert_eq!(tree.end(ROOT, &[2], outcome(0)), Ok(()));
        assert_eq!(tree.end(ROOT, &[2], outcome(1)), Err(Contradiction));
        assert_eq!(tree.ask(ROOT, &[2], question(8)), Err(Contradiction));
    }
}
