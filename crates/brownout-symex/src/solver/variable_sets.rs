//! The variables of the constraints of a path, and which constraints share some.
//!
//! Equal sets are one, and the set of an expression is found once: loops make constraints that consist of nearly the same expressions.
//! Beyond a limit, sets are taken for all variables of the path, which makes queries larger and no less exact.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::expression::{Dag, Expr, Node, Variable};

/// The members of all sets together, at most.
const MOST_MEMBERS: usize = 16 << 20;

/// The number of a set.
type SetId = u32;

/// The sets of the constraints of a path.
#[derive(Default)]
pub struct VariableSets {
    sets: Vec<Rc<[Variable]>>,
    /// Of each constraint.
    of: Vec<SetId>,
    /// The constraints with each set.
    constraints: FxHashMap<SetId, Vec<usize>>,
    /// The sets of constraints that have a variable.
    with: FxHashMap<Variable, Vec<SetId>>,
}

impl VariableSets {
    pub fn new(dag: &Dag, constraints: &[Expr]) -> Self {
        let mut found = SetBuilder::new(dag, MOST_MEMBERS);
        let of: Vec<SetId> = { constraints.iter() }
            .map(|&constraint| found.set_of(constraint))
            .collect();
        let mut sets = Self {
            sets: found.sets,
            of,
            ..Self::default()
        };
        for (index, &set) in sets.of.iter().enumerate() {
            let same = sets.constraints.entry(set).or_default();
            if same.is_empty() {
                for &variable in sets.sets[set as usize].iter() {
                    sets.with.entry(variable).or_default().push(set);
                }
            }
            same.push(index);
        }
        sets
    }

    /// The variables of a constraint, and perhaps others.
    pub fn of(&self, constraint: usize) -> &[Variable] {
        &self.sets[self.of[constraint] as usize]
    }

    /// The constraints before `index` that have to do with it: they share variables with it, directly or through others.
    pub fn slice(&self, index: usize) -> Vec<usize> {
        let mut slice = Vec::new();
        let mut seen_sets = vec![false; self.sets.len()];
        let mut seen_variables = rustc_hash::FxHashSet::default();
        let mut waiting = vec![self.of[index]];
        seen_sets[self.of[index] as usize] = true;
        while let Some(set) = waiting.pop() {
            let same = self.constraints.get(&set).into_iter().flatten().copied();
            let before = slice.len();
            slice.extend(same.take_while(|&at| at < index));
            // What only later constraints have leads no further.
            if slice.len() == before && set != self.of[index] {
                continue;
            }
            for variable in self.sets[set as usize].iter() {
                if !seen_variables.insert(*variable) {
                    continue;
                }
                for &other in self.with.get(variable).into_iter().flatten() {
                    if !std::mem::replace(&mut seen_sets[other as usize], true) {
                        waiting.push(other);
                    }
                }
            }
        }
        slice.sort_unstable();
        slice
    }
}

/// Finds the variables of expressions.
struct SetBuilder<'a> {
    dag: &'a Dag,
    sets: Vec<Rc<[Variable]>>,
    known: FxHashMap<Rc<[Variable]>, SetId>,
    of: FxHashMap<Expr, SetId>,
    unions: FxHashMap<(SetId, SetId), SetId>,
    /// How many members there can still be.
    left: usize,
    /// The set of all variables, once there are too many members.
    all: Option<SetId>,
}

impl<'a> SetBuilder<'a> {
    fn new(dag: &'a Dag, most: usize) -> Self {
        let mut builder = Self {
            dag,
            sets: Vec::new(),
            known: FxHashMap::default(),
            of: FxHashMap::default(),
            unions: FxHashMap::default(),
            left: most,
            all: None,
        };
        builder.set(Vec::new());
        builder
    }

    fn set(&mut self, members: Vec<Variable>) -> SetId {
        let members: Rc<[Variable]> = members.into();
        if let Some(&known) = self.known.get(&members) {
            return known;
        }
        self.left = self.left.saturating_sub(members.len());
        let new = self.sets.len() as SetId;
        self.sets.push(members.clone());
        self.known.insert(members, new);
        new
    }

    fn set_of(&mut self, of: Expr) -> SetId {
        let mut waiting = vec![of];
        while let Some(&next) = waiting.last() {
            if self.of.contains_key(&next) {
                waiting.pop();
                continue;
            }
            let before = waiting.len();
            let operands = self.dag.operands(next);
            waiting.extend(operands.filter(|it| !self.of.contains_key(it)));
            if waiting.len() == before {
                let set = self.set_of_node(next);
                self.of.insert(next, set);
                waiting.pop();
            }
        }
        self.of[&of]
    }

    /// The set of a node whose operands have theirs.
    fn set_of_node(&mut self, of: Expr) -> SetId {
        if let Node::Variable(variable) = self.dag.node(of) {
            return self.set(vec![variable]);
        }
        let operands: Vec<SetId> = self.dag.operands(of).map(|it| self.of[&it]).collect();
        operands.into_iter().fold(0, |a, b| self.union(a, b))
    }

    fn union(&mut self, a: SetId, b: SetId) -> SetId {
        let (a, b) = (a.min(b), a.max(b));
        if a == b || a == 0 {
            return b;
        }
        if let Some(&known) = self.unions.get(&(a, b)) {
            return known;
        }
        if self.left == 0 {
            return match self.all {
                Some(all) => all,
                None => {
                    let all = self.set(self.dag.all_variables());
                    *self.all.insert(all)
                }
            };
        }
        let mut members: Vec<Variable> = self.sets[a as usize].to_vec();
        members.extend_from_slice(&self.sets[b as usize]);
        members.sort_unstable();
        members.dedup();
        let union = self.set(members);
        self.unions.insert((a, b), union);
        union
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_the_expressions_and_beyond_the_limit_all_variables() {
        let mut dag = Dag::default();
        let bytes: Vec<Expr> = (0..40).map(|it| dag.variable(Variable(it), 1)).collect();
        let mut sum = bytes[0];
        let mut sums = Vec::new();
        for &byte in &bytes {
            sum = dag.xor(sum, byte);
            sum = dag.add_of(sum, byte);
            sums.push(dag.is_zero(sum));
        }
        let mut exact = SetBuilder::new(&dag, MOST_MEMBERS);
        let mut limited = SetBuilder::new(&dag, 50);
        for &it in &sums {
            let (a, b) = (exact.set_of(it), limited.set_of(it));
            assert_eq!(exact.sets[a as usize][..], dag.variables(it));
            let wide = &limited.sets[b as usize];
            assert!(dag.variables(it).iter().all(|one| wide.contains(one)));
        }
        let last = limited.set_of(sums[39]);
        assert_eq!(limited.sets[last as usize].len(), 40);
        assert!(limited.sets.len() < exact.sets.len());
    }
}
