//! Which branches on the input went both ways, and why others did not.

use brownout_symex::{Constraint, ConstraintKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Why no input was found that takes a branch the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsolvedCause {
    /// No input takes it on the paths that were tried.
    Impossible,
    /// The paths depend on values that replay has made concrete.
    Concretised,
    /// The solver ran out of time.
    TimedOut,
    /// An input was solved, and went elsewhere.
    Diverged,
    /// It was not tried yet.
    Waiting,
}

/// How many branches are unsolved, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsolvedCounts {
    /// Branches that went both ways.
    pub both: usize,
    pub impossible: usize,
    pub concretised: usize,
    pub timed_out: usize,
    pub diverged: usize,
    pub waiting: usize,
}

impl UnsolvedCounts {
    pub fn unsolved(&self) -> usize {
        self.impossible + self.concretised + self.timed_out + self.diverged + self.waiting
    }
}

/// Conditional branches, by their instructions.
#[derive(Debug, Default)]
pub struct Branches {
    ways: FxHashSet<(u64, bool)>,
    /// The cause that is closest to a solution.
    causes: FxHashMap<u64, UnsolvedCause>,
}

impl Branches {
    /// A path has these constraints.
    pub fn learn(&mut self, constraints: &[Constraint]) {
        for constraint in constraints {
            if let ConstraintKind::Branch { taken, .. } = constraint.kind {
                self.ways.insert((constraint.pc, taken));
            }
        }
    }

    /// The branch of a constraint could not be taken the other way.
    pub fn note(&mut self, constraint: &Constraint, cause: UnsolvedCause) {
        if let ConstraintKind::Branch { .. } = constraint.kind {
            let known = self.causes.entry(constraint.pc).or_insert(cause);
            *known = cause.max(*known);
        }
    }

    pub fn counts(&self) -> UnsolvedCounts {
        let mut counts = UnsolvedCounts::default();
        for &(pc, taken) in &self.ways {
            if self.ways.contains(&(pc, !taken)) {
                counts.both += usize::from(taken);
                continue;
            }
            let cause = self.causes.get(&pc).copied();
            match cause.unwrap_or(UnsolvedCause::Waiting) {
                UnsolvedCause::Impossible => counts.impossible += 1,
                UnsolvedCause::Concretised => counts.concretised += 1,
                UnsolvedCause::TimedOut => counts.timed_out += 1,
                UnsolvedCause::Diverged => counts.diverged += 1,
                UnsolvedCause::Waiting => counts.waiting += 1,
            }
        }
        counts
    }

    /// Branches that went one way only, with the cause.
    pub fn unsolved(&self) -> Vec<(u64, UnsolvedCause)> {
        let one_way = self.ways.iter();
        let one_way = one_way.filter(|&&(pc, taken)| !self.ways.contains(&(pc, !taken)));
        let mut unsolved: Vec<_> = one_way
            .map(|&(pc, _)| {
                let cause = self.causes.get(&pc).copied();
                (pc, cause.unwrap_or(UnsolvedCause::Waiting))
            })
            .collect();
        unsolved.sort_unstable();
        unsolved
    }
}
