//! Answers whether a branch of a path can go the other way, and with which input.
//!
//! A query is the negation of one constraint together with the earlier constraints that share variables with it, directly or through
//! others (slicing). Answers are remembered across paths: models as they are, contradictions as sets of constraints, which answer each
//! query that contains one. If a branch contradicts earlier ones, these are left out one by one, as few as possible, or at last all
//! (optimistic solving, QSYM): the input then leaves the path earlier, which the next recording shows.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::circuit::{Answer, Circuit};
use crate::expression::{Dag, Expr, Variable, combine_hash};

/// Bytes of a solved input that differ from the input of the path.
pub type Model = Vec<(Variable, u8)>;

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Solution {
    /// The path is the same up to the branch, as far as is known.
    Exact(Model),
    /// Earlier constraints were left out.
    Optimistic(Model),
    /// No input takes the branch on this path.
    Impossible,
    TimedOut,
}

/// What the solver has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolverStatistics {
    pub queries: u64,
    /// Queries whose answer was remembered.
    pub remembered: u64,
    pub satisfiable: u64,
    pub unsatisfiable: u64,
    pub timed_out: u64,
    pub time: Duration,
}

/// Answers that hold for all paths.
#[derive(Default)]
pub struct Solver {
    time_limit: Duration,
    models: FxHashMap<u64, Model>,
    contradictions: FxHashMap<u64, Vec<FxHashSet<u64>>>,
    pub statistics: SolverStatistics,
}

/// Queries for one branch, at most.
const MOST_RELAXATIONS: u32 = 64;
/// Contradictions that are remembered for one goal.
const MOST_CONTRADICTIONS: usize = 64;
/// Clauses are dropped when a path has this many expressions in the solver.
const LARGE_CIRCUIT: usize = 400_000;

/// The constraints of one path, ready for queries.
pub struct PathConstraints {
    dag: Dag,
    /// What holds on the path, each an expression of one bit.
    constraints: Vec<Expr>,
    variables: Vec<Vec<Variable>>,
    circuit: Circuit,
    blasted: usize,
}

impl PathConstraints {
    pub fn new(dag: Dag, constraints: Vec<Expr>) -> Self {
        let variables = constraints.iter().map(|&it| dag.variables(it)).collect();
        Self {
            dag,
            constraints,
            variables,
            circuit: Circuit::default(),
            blasted: 0,
        }
    }

    /// The constraints before `index` that have to do with it.
    fn slice(&self, index: usize) -> Vec<usize> {
        let mut known: FxHashSet<Variable> = self.variables[index].iter().copied().collect();
        let mut waiting: Vec<usize> = (0..index).collect();
        let mut slice = Vec::new();
        loop {
            let before = slice.len();
            waiting.retain(|&earlier| {
                let shares = self.variables[earlier].iter().any(|it| known.contains(it));
                if shares {
                    known.extend(&self.variables[earlier]);
                    slice.push(earlier);
                }
                !shares
            });
            if slice.len() == before {
                slice.sort_unstable();
                return slice;
            }
        }
    }
}

impl Solver {
    /// A solver whose queries end after a time.
    pub fn new(time_limit: Duration) -> Self {
        Self {
            time_limit,
            ..Self::default()
        }
    }

    /// Looks for an input that violates constraint `index` of a path and keeps those before it, or as many of them as possible.
    pub fn negate(&mut self, path: &mut PathConstraints, index: usize) -> Solution {
        let mut kept = path.slice(index);
        let mut left = MOST_RELAXATIONS;
        let mut is_exact = true;
        loop {
            left = left.saturating_sub(1);
            match self.decide(path, &kept, index) {
                Decision::Satisfiable(model) if is_exact => return Solution::Exact(model),
                Decision::Satisfiable(model) => return Solution::Optimistic(model),
                Decision::TimedOut if !is_exact => return Solution::Impossible,
                Decision::TimedOut => return self.alone(path, index, Solution::TimedOut),
                Decision::Contradiction(core) => {
                    let core = self.minimal(path, core, index, &mut left);
                    let freed = self.least_needed(path, &core, &kept, &mut left);
                    let Some(freed) = freed.filter(|_| left > 0) else {
                        return self.alone(path, index, Solution::Impossible);
                    };
                    kept.retain(|&at| at != freed);
                    is_exact = false;
                }
            }
        }
    }

    /// The first constraint of a contradiction that can be violated by itself, so that everything else on the path stays; the last one if
    /// there is none.
    fn least_needed(
        &mut self,
        path: &mut PathConstraints,
        core: &[usize],
        kept: &[usize],
        left: &mut u32,
    ) -> Option<usize> {
        for &at in core {
            *left = left.saturating_sub(1);
            let others: Vec<usize> = kept.iter().copied().filter(|&other| other != at).collect();
            if let Decision::Satisfiable(_) = self.decide(path, &others, at) {
                return Some(at);
            }
        }
        core.last().copied()
    }

    /// The answer to the negated constraint by itself, or else `failed`.
    fn alone(&mut self, path: &mut PathConstraints, index: usize, failed: Solution) -> Solution {
        match self.decide(path, &[], index) {
            Decision::Satisfiable(model) => Solution::Optimistic(model),
            _ => failed,
        }
    }

    /// The part of a contradiction without which there is none, as far as `left` queries can show that.
    fn minimal(
        &mut self,
        path: &mut PathConstraints,
        core: Vec<usize>,
        index: usize,
        left: &mut u32,
    ) -> Vec<usize> {
        let mut core = core;
        let mut at = 0;
        while at < core.len() && core.len() > 1 && *left > 0 {
            *left -= 1;
            let mut without = core.clone();
            without.remove(at);
            match self.decide(path, &without, index) {
                Decision::Contradiction(smaller) => core = smaller,
                _ => at += 1,
            }
        }
        core
    }

    /// Decides whether constraint `index` can be violated while those in `kept` hold.
    fn decide(&mut self, path: &mut PathConstraints, kept: &[usize], index: usize) -> Decision {
        self.statistics.queries += 1;
        let goal = path.dag.fingerprint(path.constraints[index]);
        let of = |at: usize| path.dag.fingerprint(path.constraints[at]);
        let all: FxHashSet<u64> = kept.iter().map(|&at| of(at)).collect();
        let key = { all.iter() }.fold(combine_hash(goal, 1), |key, &one| {
            key.wrapping_add(combine_hash(one, 2))
        });
        if let Some(model) = self.models.get(&key) {
            self.statistics.remembered += 1;
            return Decision::Satisfiable(model.clone());
        }
        let mut known = self.contradictions.get(&goal).into_iter().flatten();
        if let Some(core) = known.find(|core| core.is_subset(&all)) {
            self.statistics.remembered += 1;
            let core = kept.iter().filter(|&&at| core.contains(&of(at)));
            return Decision::Contradiction(core.copied().collect());
        }
        if path.blasted > LARGE_CIRCUIT {
            path.circuit = Circuit::default();
            path.blasted = 0;
        }
        let started = Instant::now();
        let before = path.circuit.size();
        let mut assumptions = vec![!path.circuit.condition(&path.dag, path.constraints[index])];
        let mut meaning = FxHashMap::default();
        for &at in kept {
            let literal = path.circuit.condition(&path.dag, path.constraints[at]);
            meaning.entry(literal).or_insert(at);
            assumptions.push(literal);
        }
        path.blasted += path.circuit.size() - before;
        let answer = path.circuit.solve(&assumptions, started + self.time_limit);
        self.statistics.time += started.elapsed();
        match answer {
            Answer::Satisfiable(bytes) => {
                self.statistics.satisfiable += 1;
                let relevant: FxHashSet<Variable> = (kept.iter().chain([&index]))
                    .flat_map(|&at| path.variables[at].iter().copied())
                    .collect();
                let bytes = bytes.into_iter();
                let model: Model = bytes.filter(|(it, _)| relevant.contains(it)).collect();
                self.models.insert(key, model.clone());
                Decision::Satisfiable(model)
            }
            Answer::Unsatisfiable(core) => {
                self.statistics.unsatisfiable += 1;
                let find = |lit: &batsat::Lit| meaning.get(lit).or_else(|| meaning.get(&!*lit));
                let mut core: Vec<usize> = core.iter().filter_map(find).copied().collect();
                core.sort_unstable();
                core.dedup();
                let known = self.contradictions.entry(goal).or_default();
                if known.len() < MOST_CONTRADICTIONS {
                    known.push(core.iter().map(|&at| of(at)).collect());
                }
                Decision::Contradiction(core)
            }
            Answer::TimedOut => {
                self.statistics.timed_out += 1;
                Decision::TimedOut
            }
        }
    }
}

/// The answer to one query.
enum Decision {
    Satisfiable(Model),
    /// The constraints that cannot hold.
    Contradiction(Vec<usize>),
    TimedOut,
}

#[cfg(test)]
mod tests;
