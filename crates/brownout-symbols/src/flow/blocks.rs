//! The instructions of a function and their order.
//!
//! Compilers keep data out of the code of functions, so it is decoded from start to end. A block that no jump leads to, after code that
//! does not continue, is taken for a target of the computed jumps of the function.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::arch::{Code, Flow, Instruction, decode};

/// The instructions of a function, by address.
pub(super) struct Blocks {
    pub(super) instructions: BTreeMap<u64, Instruction>,
    /// Instructions where several paths can meet.
    pub(super) starts: BTreeSet<u64>,
    /// Starts that are reached by computed jumps, if there are any.
    pub(super) computed: Vec<u64>,
}

impl Blocks {
    pub(super) fn of(code: &impl Code, range: &Range<u64>) -> Self {
        let mut instructions = BTreeMap::new();
        let mut at = range.start;
        while at < range.end {
            let Some(instruction) = decode(code, at) else {
                break;
            };
            let next = at + instruction.len;
            instructions.insert(at, instruction);
            at = next;
        }
        let mut starts = BTreeSet::from([range.start]);
        let mut after_end = Vec::new();
        for (at, instruction) in &instructions {
            let next = at + instruction.len;
            match instruction.flow {
                Flow::Jump(target) => {
                    starts.insert(target);
                    after_end.push(next);
                }
                Flow::Branch(target) => starts.extend([target, next]),
                Flow::Computed | Flow::End => after_end.push(next),
                Flow::Next | Flow::Call => {}
            }
        }
        starts.retain(|start| instructions.contains_key(start));
        let unreached = |next: &u64| instructions.contains_key(next) && !starts.contains(next);
        let computed: Vec<u64> = after_end.into_iter().filter(unreached).collect();
        starts.extend(&computed);
        Self {
            instructions,
            starts,
            computed,
        }
    }

    /// Where the path goes after the instruction at `at`.
    pub(super) fn next(&self, at: u64, instruction: &Instruction) -> Vec<u64> {
        let after = at + instruction.len;
        let mut next = match instruction.flow {
            Flow::Next | Flow::Call => vec![after],
            Flow::Jump(target) => vec![target],
            Flow::Branch(target) => vec![after, target],
            Flow::Computed => self.computed.clone(),
            Flow::End => Vec::new(),
        };
        next.retain(|at| self.instructions.contains_key(at));
        next
    }
}
