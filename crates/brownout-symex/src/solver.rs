//! Answers whether a branch of a path can go the other way, and with which input.
//!
//! A query is the negation of one constraint together with the earlier constraints that share variables with it, directly or through
//! others (slicing). Answers are remembered across paths: models as they are, contradictions as sets of constraints, which answer each
//! query that contains one. If a branch contradicts earlier ones, these are left out one by one, as few as possible, or at last all
//! (optimistic solving, QSYM): the input then leaves the path earlier, which the next recording shows.
//!
//! All queries for one branch share one time limit.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

mod variable_sets;

use variable_sets::VariableSets;

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
    /// No input takes the branch on this path: it contradicts these earlier constraints, or itself if there are none.
    Impossible(Vec<usize>),
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
    /// How many bytes and constraints the answers have together.
    remembered_size: usize,
    /// When the queries for the present branch end.
    end: Option<Instant>,
    pub statistics: SolverStatistics,
}

/// Queries for one branch, at most.
const MOST_RELAXATIONS: u32 = 64;
/// Contradictions that are remembered for one goal.
const MOST_CONTRADICTIONS: usize = 64;
/// Answers are forgotten when they have this many bytes and constraints together.
const MOST_REMEMBERED: usize = 4 << 20;
/// The clauses of a path are dropped when they have this many gates.
const LARGE_CIRCUIT: usize = 1 << 19;

/// The constraints of one path, ready for queries.
pub struct PathConstraints<'s> {
    dag: Dag,
    /// What holds on the path, each an expression of one bit.
    constraints: Vec<Expr>,
    variables: VariableSets,
    circuit: Circuit<'s>,
    stop: &'s dyn Fn() -> bool,
}

impl<'s> PathConstraints<'s> {
    /// Queries end early once `stop` says so.
    pub fn new(dag: Dag, constraints: Vec<Expr>, stop: &'s dyn Fn() -> bool) -> Self {
        let variables = VariableSets::new(&dag, &constraints);
        Self {
            dag,
            constraints,
            variables,
            circuit: Circuit::new(stop),
            stop,
        }
    }

    /// The same for constraints that are the same function of the same variables.
    fn fingerprint(&self, index: usize) -> u64 {
        self.dag.fingerprint(self.constraints[index])
    }

    /// Asks the solver whether constraint `index` can be violated while those in `kept` hold. What the literals stand for comes with the
    /// answer.
    fn query(&mut self, kept: &[usize], index: usize, end: Instant) -> (Answer, LiteralMeaning) {
        if self.circuit.size() > LARGE_CIRCUIT {
            self.circuit = Circuit::new(self.stop);
        }
        let mut meaning = FxHashMap::default();
        let goal = self.constraints[index];
        let Some(goal) = self.circuit.condition(&self.dag, goal, end) else {
            return (Answer::TimedOut, meaning);
        };
        let mut assumptions = vec![!goal];
        for &at in kept {
            let holds = self.constraints[at];
            let Some(literal) = self.circuit.condition(&self.dag, holds, end) else {
                return (Answer::TimedOut, meaning);
            };
            meaning.entry(literal).or_insert(at);
            assumptions.push(literal);
        }
        (self.circuit.solve(&assumptions, end), meaning)
    }
}

/// Constraints by their literals.
type LiteralMeaning = FxHashMap<batsat::Lit, usize>;

impl Solver {
    /// A solver whose queries end after a time.
    pub fn new(time_limit: Duration) -> Self {
        Self {
            time_limit,
            ..Self::default()
        }
    }

    /// Looks for an input that violates constraint `index` of a path and keeps those before it, or as many of them as possible.
    pub fn negate(&mut self, path: &mut PathConstraints<'_>, index: usize) -> Solution {
        // The rest of the time is for the branch by itself.
        self.end = Some(Instant::now() + self.time_limit * 3 / 4);
        let mut kept = path.variables.slice(index);
        let mut left = MOST_RELAXATIONS;
        let mut first_core = None;
        loop {
            left = left.saturating_sub(1);
            match self.decide(path, &kept, index) {
                Decision::Satisfiable(model) if first_core.is_none() => {
                    return Solution::Exact(model);
                }
                Decision::Satisfiable(model) => return Solution::Optimistic(model),
                Decision::TimedOut => {
                    let failed = first_core.map_or(Solution::TimedOut, Solution::Impossible);
                    return self.alone(path, index, failed);
                }
                Decision::Contradiction(core) => {
                    let core = self.minimal(path, core, index, &mut left);
                    let freed = self.least_needed(path, &core, &kept, &mut left);
                    let core = first_core.get_or_insert(core);
                    let Some(freed) = freed.filter(|_| left > 0) else {
                        let failed = Solution::Impossible(core.clone());
                        return self.alone(path, index, failed);
                    };
                    kept.retain(|&at| at != freed);
                }
            }
        }
    }

    /// The first constraint of a contradiction that can be violated by itself, so that everything else on the path stays; the last one if
    /// there is none.
    fn least_needed(
        &mut self,
        path: &mut PathConstraints<'_>,
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
    fn alone(
        &mut self,
        path: &mut PathConstraints<'_>,
        index: usize,
        failed: Solution,
    ) -> Solution {
        self.end = { self.end }.map(|end| end + self.time_limit / 4);
        match self.decide(path, &[], index) {
            Decision::Satisfiable(model) => Solution::Optimistic(model),
            Decision::Contradiction(_) => Solution::Impossible(Vec::new()),
            Decision::TimedOut => failed,
        }
    }

    /// The part of a contradiction without which there is none, as far as `left` queries can show that.
    fn minimal(
        &mut self,
        path: &mut PathConstraints<'_>,
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
    fn decide(&mut self, path: &mut PathConstraints<'_>, kept: &[usize], index: usize) -> Decision {
        self.statistics.queries += 1;
        let goal = path.fingerprint(index);
        let all: FxHashSet<u64> = kept.iter().map(|&at| path.fingerprint(at)).collect();
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
            let core = kept
                .iter()
                .filter(|&&at| core.contains(&path.fingerprint(at)));
            return Decision::Contradiction(core.copied().collect());
        }
        let started = Instant::now();
        let end = self.end.unwrap_or(started + self.time_limit);
        let (answer, meaning) = path.query(kept, index, end);
        self.statistics.time += started.elapsed();
        match answer {
            Answer::Satisfiable(bytes) => {
                self.statistics.satisfiable += 1;
                let relevant: FxHashSet<Variable> = (kept.iter().chain([&index]))
                    .flat_map(|&at| path.variables.of(at).iter().copied())
                    .collect();
                let bytes = bytes.into_iter();
                let model: Model = bytes.filter(|(it, _)| relevant.contains(it)).collect();
                self.make_room(model.len());
                self.models.insert(key, model.clone());
                Decision::Satisfiable(model)
            }
            Answer::Unsatisfiable(core) => {
                self.statistics.unsatisfiable += 1;
                let find = |lit: &batsat::Lit| meaning.get(lit).or_else(|| meaning.get(&!*lit));
                let mut core: Vec<usize> = core.iter().filter_map(find).copied().collect();
                core.sort_unstable();
                core.dedup();
                self.make_room(core.len());
                let known = self.contradictions.entry(goal).or_default();
                if known.len() < MOST_CONTRADICTIONS {
                    known.push(core.iter().map(|&at| path.fingerprint(at)).collect());
                }
                Decision::Contradiction(core)
            }
            Answer::TimedOut => {
                self.statistics.timed_out += 1;
                Decision::TimedOut
            }
        }
    }

    /// Forgets all answers if there are too many with one more.
    fn make_room(&mut self, size: usize) {
        self.remembered_size += size + 1;
        if self.remembered_size > MOST_REMEMBERED {
            self.models.clear();
            self.contradictions.clear();
            self.remembered_size = size + 1;
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
