//! What a path requires of its input: constraints, in the order in which the target met them.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::expression::{Dag, Expr};

/// Why a value that depends on the input was taken for what it was in the recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcretisationCause {
    /// The instruction is not modelled.
    Instruction,
    /// It is a part of an address.
    Address,
    /// It is an argument of a system call.
    SystemCall,
    /// It is the number of repetitions of a string instruction, or the distance of a shift that is modelled for known distances only.
    Count,
}

/// What kind of constraint it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A conditional branch; `other` is where it did not go.
    Branch {
        taken: bool,
        other: u64,
    },
    /// An indirect jump or call, which went there.
    Target {
        to: u64,
    },
    /// A comparison inside a string instruction.
    Comparison {
        equal: bool,
    },
    /// A division that did not fault.
    NoFault,
    Concretised(ConcretisationCause),
}

/// A constraint that the recorded input meets.
#[derive(Clone, Copy, Debug)]
pub struct Constraint {
    /// An expression of one bit that is 1.
    pub holds: Expr,
    pub pc: u64,
    /// The last instruction before it that belongs to the program itself.
    pub caller: u64,
    pub kind: ConstraintKind,
}

impl Constraint {
    /// Whether it makes sense to look for an input that violates it.
    pub fn is_choice(&self) -> bool {
        !matches!(self.kind, ConstraintKind::Concretised(_))
    }
}

/// Something that replay computed in another way than the processor did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplayMismatch {
    /// The instruction after which it showed.
    pub pc: u64,
    pub what: String,
}

/// A memory operand whose address is one of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableLoad {
    /// What is loaded.
    pub entry: Expr,
    pub address: Expr,
    /// Whether the instruction has taken the entry. If not, the address is what it was.
    pub is_used: bool,
}

/// The constraints of a path while it is replayed, and what could not be modelled.
#[derive(Debug, Default)]
pub struct PathBuilder {
    pub constraints: Vec<Constraint>,
    /// How often each cause concretised something.
    pub concretised: BTreeMap<String, u64>,
    pub mismatches: Vec<ReplayMismatch>,
    /// Symbolic bytes that something else than the target has overwritten.
    pub overwritten: u64,
    /// Symbolic bytes that the target has written to a file, a pipe or a socket, but for standard output and standard error.
    pub sent: u64,
    /// Instructions with symbolic operands.
    pub symbolic_steps: u64,
    pub steps: u64,
    /// What the current instruction loads, if its address is one of a table.
    pub(crate) table: Option<TableLoad>,
    /// The last instruction that belongs to the program itself.
    pub(crate) caller: u64,
}

/// Mismatches that are kept: one is enough to know.
const MOST_MISMATCHES: usize = 16;

impl PathBuilder {
    /// Counts a cause of concretisation, by its name.
    pub(crate) fn count(&mut self, cause: String) {
        *self.concretised.entry(cause).or_default() += 1;
    }

    pub(crate) fn add(&mut self, holds: Expr, pc: u64, kind: ConstraintKind) {
        // The same condition again, as loops produce it, adds nothing.
        let last = self.constraints.iter().rev().take(64);
        if { last }.any(|known| known.holds == holds && known.pc == pc) {
            return;
        }
        let caller = self.caller;
        self.constraints.push(Constraint {
            holds,
            pc,
            caller,
            kind,
        });
    }

    pub(crate) fn mismatch(&mut self, pc: u64, what: &str) {
        if self.mismatches.len() < MOST_MISMATCHES {
            self.mismatches.push(ReplayMismatch {
                pc,
                what: what.to_owned(),
            });
        }
    }
}

/// What the caller of a replay knows of the target.
#[derive(Clone, Copy)]
pub struct ReplayQuestions<'a> {
    /// Which bytes of the sources are symbolic, by the number of the source and the offset.
    pub is_symbolic: &'a dyn Fn(u32, u64) -> bool,
    /// Which code belongs to the program itself.
    pub is_own: &'a dyn Fn(u64) -> bool,
    /// Whether to stop here. The path is then cut off.
    pub stop: &'a dyn Fn() -> bool,
}

/// A path as it was replayed.
pub struct ReplayedPath {
    pub dag: Dag,
    pub constraints: Vec<Constraint>,
    pub concretised: BTreeMap<String, u64>,
    pub mismatches: Vec<ReplayMismatch>,
    pub overwritten: u64,
    pub sent: u64,
    pub steps: u64,
    pub symbolic_steps: u64,
    /// Addresses of all instructions that were executed.
    pub executed: FxHashSet<u64>,
    /// Indirect branches with where they went.
    pub indirect: FxHashSet<(u64, u64)>,
    /// The bytes of memory that depend on the input at the end of the path.
    pub memory: FxHashMap<u64, Expr>,
    /// Whether the rest of the path was left out, because it has too many expressions or replay was to stop.
    pub is_cut_off: bool,
}
