//! Symbolic replay of recorded paths, a solver for their branches, and the priority of code by the persistent memory that it reaches
//! (Agamotto, chapter 2 of Neal's dissertation).
//!
//! The target runs concretely, and its path from the first symbolic byte on is recorded (`brownout_ring::path`). Here the path is replayed
//! as expressions over the bytes of the input ([`replay`]): each conditional branch that depends on them is a constraint, and the
//! [`Solver`] looks for an input that takes it the other way. [`AnalysedFile`] and [`PmGuide`] say which code leads to persistent memory.
//! The crate runs no programs; the only files that it reads are those whose code is analysed, and what earlier analyses have found.

mod arch;
mod circuit;
mod expression;
mod path;
mod pm_code;
mod pm_guide;
mod recording;
mod solver;
mod variables;

pub use arch::replay;
pub use expression::{BinaryOperation, Dag, Expr, Node, Variable};
pub use path::{
    ConcretisationCause, Constraint, ConstraintKind, ReplayMismatch, ReplayQuestions, ReplayedPath,
};
pub use pm_code::{AnalysedFile, AnalysisError, PmOperationKind};
pub use pm_guide::PmGuide;
pub use recording::Damaged;
pub use solver::{Model, PathConstraints, Solution, Solver, SolverStatistics};
pub use variables::VariableTable;
