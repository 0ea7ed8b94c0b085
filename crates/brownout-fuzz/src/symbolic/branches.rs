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
    /// Inputs were solved, and went elsewhere.
    Diverged,
    /// It was not tried yet, or what was solved was not replayed yet.
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
    /// How many solved inputs wait to be replayed.
    awaited: FxHashMap<u64, u32>,
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

    /// An input was solved for a choice, and waits to be replayed.
    pub fn await_solved(&mut self, pc: u64) {
        *self.awaited.entry(pc).or_default() += 1;
    }

    /// An input that was solved for a choice was replayed, and its path learned.
    pub fn replayed(&mut self, pc: u64) {
        if let Some(waiting) = self.awaited.get_mut(&pc) {
            *waiting = waiting.saturating_sub(1);
        }
        // Only a branch that still goes one way has a cause.
        let known = self.causes.entry(pc).or_insert(UnsolvedCause::Diverged);
        *known = UnsolvedCause::Diverged.max(*known);
    }

    /// Why a branch goes one way only.
    fn cause(&self, pc: u64) -> UnsolvedCause {
        let is_awaited = self.awaited.get(&pc).is_some_and(|waiting| *waiting > 0);
        let cause = self.causes.get(&pc).copied();
        cause
            .filter(|_| !is_awaited)
            .unwrap_or(UnsolvedCause::Waiting)
    }

    pub fn counts(&self) -> UnsolvedCounts {
        let mut counts = UnsolvedCounts::default();
        for &(pc, taken) in &self.ways {
            if self.ways.contains(&(pc, !taken)) {
                counts.both += usize::from(taken);
                continue;
            }
            match self.cause(pc) {
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
        let mut unsolved: Vec<_> = one_way.map(|&(pc, _)| (pc, self.cause(pc))).collect();
        unsolved.sort_unstable();
        unsolved
    }
}

#[cfg(test)]
mod tests {
    use brownout_symex::Dag;

    use super::*;

    fn branch(pc: u64, taken: bool) -> Constraint {
        Constraint {
            holds: Dag::default().constant(1, 1),
            pc,
            caller: pc,
            kind: ConstraintKind::Branch { taken, other: 0 },
        }
    }

    #[test]
    fn a_branch_that_went_both_ways_is_solved_whatever_was_noted() {
        let mut branches = Branches::default();
        branches.learn(&[branch(1, true), branch(2, true), branch(3, false)]);
        branches.note(&branch(1, true), UnsolvedCause::TimedOut);
        branches.note(&branch(2, true), UnsolvedCause::Impossible);
        branches.learn(&[branch(1, false)]);
        let counts = branches.counts();
        assert_eq!((counts.both, counts.impossible, counts.waiting), (1, 1, 1));
        let unsolved = [(2, UnsolvedCause::Impossible), (3, UnsolvedCause::Waiting)];
        assert_eq!(branches.unsolved(), unsolved);
    }

    #[test]
    fn a_branch_diverged_once_its_solved_inputs_were_replayed() {
        let mut branches = Branches::default();
        branches.learn(&[branch(1, true)]);
        branches.await_solved(1);
        assert_eq!(branches.unsolved(), [(1, UnsolvedCause::Waiting)]);
        branches.replayed(1);
        assert_eq!(branches.unsolved(), [(1, UnsolvedCause::Diverged)]);
    }
}
