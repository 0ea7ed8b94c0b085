//! Bit-blasting: expressions become literals of a SAT solver, and gates its clauses.
//!
//! Each expression and each gate becomes clauses once. Bits of the input prefer the values that they had in the recorded run, so that a
//! model changes few of them.

use std::time::Instant;

use batsat::{Callbacks, Lit, Solver, SolverInterface as _, SolverOpts, lbool};
use rustc_hash::FxHashMap;

use crate::expression::{BinaryOperation, Dag, Expr, Node, Variable};

/// A circuit does not get more gates.
const MOST_GATES: usize = 1 << 20;
/// After how many expressions it is asked whether to stop.
const BETWEEN_STOPS: usize = 16;

/// Ends a query in time.
struct QueryLimit<'s> {
    end: Option<Instant>,
    stop: &'s dyn Fn() -> bool,
}

impl Callbacks for QueryLimit<'_> {
    fn stop(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end) || (self.stop)()
    }
}

/// What a gate computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Gate {
    And(Lit, Lit),
    Xor(Lit, Lit),
    Mux(Lit, Lit, Lit),
    Majority(Lit, Lit, Lit),
}

/// How a query ended.
pub enum Answer {
    /// What the input is where the model says something about it.
    Satisfiable(Vec<(Variable, u8)>),
    /// The assumptions that contradict each other.
    Unsatisfiable(Vec<Lit>),
    TimedOut,
}

/// Expressions as a circuit, in a solver.
pub struct Circuit<'s> {
    solver: Solver<QueryLimit<'s>>,
    truth: Lit,
    bits: FxHashMap<Expr, Vec<Lit>>,
    gates: FxHashMap<Gate, Lit>,
    variables: Vec<(Variable, Vec<Lit>)>,
    clause: Vec<Lit>,
    most_gates: usize,
}

impl<'s> Circuit<'s> {
    /// An empty circuit, whose queries end when `stop` says so.
    pub fn new(stop: &'s dyn Fn() -> bool) -> Self {
        let limit = QueryLimit { end: None, stop };
        let mut solver = Solver::new(SolverOpts::default(), limit);
        let truth = Lit::new(solver.new_var_default(), true);
        solver.add_clause_reuse(&mut vec![truth]);
        Self {
            solver,
            truth,
            bits: FxHashMap::default(),
            gates: FxHashMap::default(),
            variables: Vec::new(),
            clause: Vec::new(),
            most_gates: MOST_GATES,
        }
    }

    /// The literal of an expression of one bit. `None` if it would take too many gates, or longer than to `end`.
    pub fn condition(&mut self, dag: &Dag, of: Expr, end: Instant) -> Option<Lit> {
        self.solver.cb_mut().end = Some(end);
        self.add_bits(dag, of)?;
        self.bits.get(&of).map(|bits| bits[0])
    }

    /// How many gates there are.
    pub fn size(&self) -> usize {
        self.gates.len()
    }

    /// Looks for an input on which all assumptions hold.
    pub fn solve(&mut self, assumptions: &[Lit], end: Instant) -> Answer {
        self.solver.cb_mut().end = Some(end);
        let result = self.solver.solve_limited(assumptions);
        if result == lbool::TRUE {
            let bit = |lit: Lit| self.solver.value_lit(lit) == lbool::TRUE;
            let byte = |bits: &[Lit]| {
                let set = bits.iter().enumerate().filter(|(_, lit)| bit(**lit));
                set.fold(0, |byte, (index, _)| byte | 1 << index)
            };
            let bytes = self.variables.iter();
            Answer::Satisfiable(
                bytes
                    .map(|(variable, bits)| (*variable, byte(bits)))
                    .collect(),
            )
        } else if result == lbool::FALSE {
            Answer::Unsatisfiable(self.solver.unsat_core().to_vec())
        } else {
            Answer::TimedOut
        }
    }

    /// Makes the bits of an expression.
    fn add_bits(&mut self, dag: &Dag, of: Expr) -> Option<()> {
        // Without recursion over the depth of the expression, which a loop of the target can make as large as it likes.
        let mut waiting = vec![of];
        let mut made = 0;
        while let Some(&next) = waiting.last() {
            if self.bits.contains_key(&next) {
                waiting.pop();
                continue;
            }
            let before = waiting.len();
            waiting.extend(dag.operands(next).filter(|it| !self.bits.contains_key(it)));
            if waiting.len() == before {
                made += 1;
                if self.gates.len() > self.most_gates
                    || made % BETWEEN_STOPS == 0 && self.solver.cb().stop()
                {
                    return None;
                }
                let bits = self.blast(dag, next);
                self.bits.insert(next, bits);
                waiting.pop();
            }
        }
        Some(())
    }

    /// The bits of an expression whose operands have theirs.
    fn blast(&mut self, dag: &Dag, of: Expr) -> Vec<Lit> {
        use BinaryOperation as Op;
        let width = dag.width(of) as usize;
        match dag.node(of) {
            Node::Constant(value) => (0..width)
                .map(|bit| self.constant(value >> bit & 1 != 0))
                .collect(),
            Node::Variable(variable) => {
                let value = dag.value(of);
                let bits: Vec<Lit> = (0..width)
                    .map(|bit| {
                        let preferred = lbool::new(value >> bit & 1 != 0);
                        Lit::new(self.solver.new_var(preferred, true), true)
                    })
                    .collect();
                self.variables.push((variable, bits.clone()));
                bits
            }
            Node::Not(a) => self.bits[&a].iter().map(|&bit| !bit).collect(),
            Node::Extract(a, low) => self.bits[&a][low as usize..][..width].to_vec(),
            Node::ZeroExtend(a) => {
                let mut bits = self.bits[&a].clone();
                bits.resize(width, !self.truth);
                bits
            }
            Node::SignExtend(a) => {
                let mut bits = self.bits[&a].clone();
                let sign = bits[bits.len() - 1];
                bits.resize(width, sign);
                bits
            }
            Node::Select(c, a, b) => {
                let condition = self.bits[&c][0];
                let (a, b) = (self.bits[&a].clone(), self.bits[&b].clone());
                self.mux_all(condition, &a, &b)
            }
            Node::Binary(operation, a, b) => {
                let (a, b) = (self.bits[&a].clone(), self.bits[&b].clone());
                let pairs = || a.iter().copied().zip(b.iter().copied());
                match operation {
                    Op::And => pairs().map(|(x, y)| self.and(x, y)).collect(),
                    Op::Or => pairs().map(|(x, y)| self.or(x, y)).collect(),
                    Op::Xor => pairs().map(|(x, y)| self.xor(x, y)).collect(),
                    Op::Add => self.sum(&a, &b, !self.truth).0,
                    Op::Mul => self.product(&a, &b),
                    Op::Udiv => self.division(&a, &b).0,
                    Op::Urem => self.division(&a, &b).1,
                    Op::Shl => {
                        let reversed: Vec<Lit> = a.iter().rev().copied().collect();
                        let mut bits = self.shifted(&reversed, &b, !self.truth);
                        bits.reverse();
                        bits
                    }
                    Op::Lshr => self.shifted(&a, &b, !self.truth),
                    Op::Ashr => self.shifted(&a, &b, a[a.len() - 1]),
                    Op::Eq => {
                        let same: Vec<Lit> = pairs().map(|(x, y)| !self.xor(x, y)).collect();
                        vec![self.all(&same)]
                    }
                    Op::Ult => vec![self.less(&a, &b)],
                    Op::Slt => {
                        // As unsigned numbers with the signs turned round.
                        let (mut a, mut b) = (a, b);
                        let sign = a.len() - 1;
                        (a[sign], b[sign]) = (!a[sign], !b[sign]);
                        vec![self.less(&a, &b)]
                    }
                    Op::Concat => b.into_iter().chain(a).collect(),
                }
            }
        }
    }

    fn constant(&self, value: bool) -> Lit {
        if value { self.truth } else { !self.truth }
    }

    fn add_clause(&mut self, literals: &[Lit]) {
        self.clause.clear();
        self.clause.extend_from_slice(literals);
        self.solver.add_clause_reuse(&mut self.clause);
    }

    fn gate(&mut self, gate: Gate, clauses: impl FnOnce(&mut Self, Lit)) -> Lit {
        if let Some(&known) = self.gates.get(&gate) {
            return known;
        }
        let out = Lit::new(self.solver.new_var_default(), true);
        clauses(self, out);
        self.gates.insert(gate, out);
        out
    }

    fn and(&mut self, a: Lit, b: Lit) -> Lit {
        let (truth, falsity) = (self.truth, !self.truth);
        if a == falsity || b == falsity || a == !b {
            return falsity;
        }
        if a == truth || a == b {
            return b;
        }
        if b == truth {
            return a;
        }
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        self.gate(Gate::And(a, b), |circuit, out| {
            circuit.add_clause(&[!a, !b, out]);
            circuit.add_clause(&[a, !out]);
            circuit.add_clause(&[b, !out]);
        })
    }

    fn or(&mut self, a: Lit, b: Lit) -> Lit {
        !self.and(!a, !b)
    }

    fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let (truth, falsity) = (self.truth, !self.truth);
        for (x, y) in [(a, b), (b, a)] {
            if x == falsity {
                return y;
            }
            if x == truth {
                return !y;
            }
        }
        if a == b {
            return falsity;
        }
        if a == !b {
            return truth;
        }
        // One gate for all signs.
        let flips = a.sign() != b.sign();
        let (x, y) = (Lit::new(a.var(), true), Lit::new(b.var(), true));
        let (x, y) = if x < y { (x, y) } else { (y, x) };
        let out = self.gate(Gate::Xor(x, y), |circuit, out| {
            circuit.add_clause(&[!x, !y, !out]);
            circuit.add_clause(&[x, y, !out]);
            circuit.add_clause(&[x, !y, out]);
            circuit.add_clause(&[!x, y, out]);
        });
        if flips { !out } else { out }
    }

    fn mux(&mut self, c: Lit, a: Lit, b: Lit) -> Lit {
        let (truth, falsity) = (self.truth, !self.truth);
        if c == truth || a == b {
            return a;
        }
        if c == falsity {
            return b;
        }
        if a == truth || a == c {
            return self.or(c, b);
        }
        if a == falsity || a == !c {
            return self.and(!c, b);
        }
        if b == truth {
            return self.or(!c, a);
        }
        if b == falsity {
            return self.and(c, a);
        }
        self.gate(Gate::Mux(c, a, b), |circuit, out| {
            circuit.add_clause(&[!c, !a, out]);
            circuit.add_clause(&[!c, a, !out]);
            circuit.add_clause(&[c, !b, out]);
            circuit.add_clause(&[c, b, !out]);
            circuit.add_clause(&[!a, !b, out]);
            circuit.add_clause(&[a, b, !out]);
        })
    }

    fn mux_all(&mut self, condition: Lit, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        let pairs = a.iter().zip(b);
        pairs.map(|(&x, &y)| self.mux(condition, x, y)).collect()
    }

    fn majority(&mut self, a: Lit, b: Lit, c: Lit) -> Lit {
        let (truth, falsity) = (self.truth, !self.truth);
        for (x, y, z) in [(a, b, c), (b, a, c), (c, a, b)] {
            if x == truth {
                return self.or(y, z);
            }
            if x == falsity {
                return self.and(y, z);
            }
        }
        if a == b || a == c {
            return a;
        }
        if b == c {
            return b;
        }
        let mut sorted = [a, b, c];
        sorted.sort();
        let [a, b, c] = sorted;
        self.gate(Gate::Majority(a, b, c), |circuit, out| {
            for (x, y) in [(a, b), (a, c), (b, c)] {
                circuit.add_clause(&[!x, !y, out]);
                circuit.add_clause(&[x, y, !out]);
            }
        })
    }

    fn all(&mut self, literals: &[Lit]) -> Lit {
        literals
            .iter()
            .fold(self.truth, |all, &lit| self.and(all, lit))
    }

    fn any(&mut self, literals: &[Lit]) -> Lit {
        let none = literals
            .iter()
            .fold(self.truth, |none, &lit| self.and(none, !lit));
        !none
    }

    /// The sum with a carry, and the carry out.
    fn sum(&mut self, a: &[Lit], b: &[Lit], carry: Lit) -> (Vec<Lit>, Lit) {
        let mut carry = carry;
        let mut bits = Vec::with_capacity(a.len());
        for (&x, &y) in a.iter().zip(b) {
            let half = self.xor(x, y);
            bits.push(self.xor(half, carry));
            carry = self.majority(x, y, carry);
        }
        (bits, carry)
    }

    fn negated(bits: &[Lit]) -> Vec<Lit> {
        bits.iter().map(|&bit| !bit).collect()
    }

    /// `a < b`, unsigned: there is no carry out of `a - b`.
    fn less(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let not_b = Self::negated(b);
        let mut carry = self.truth;
        for (&x, &y) in a.iter().zip(&not_b) {
            carry = self.majority(x, y, carry);
        }
        !carry
    }

    fn product(&mut self, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        let width = a.len();
        // The operand with more known bits decides which rows there are.
        let known = |bits: &[Lit]| {
            let constant = |bit: &&Lit| bit.var() == self.truth.var();
            bits.iter().filter(constant).count()
        };
        let (rows, columns) = if known(a) > known(b) { (a, b) } else { (b, a) };
        let mut total = vec![!self.truth; width];
        for (shift, &row) in rows.iter().enumerate() {
            if row == !self.truth {
                continue;
            }
            let term: Vec<Lit> = columns[..width - shift]
                .iter()
                .map(|&bit| self.and(bit, row))
                .collect();
            let (upper, _) = self.sum(&total[shift..], &term, !self.truth);
            total[shift..].copy_from_slice(&upper);
        }
        total
    }

    /// Quotient and remainder, by long division. A division by zero has the results that it should have.
    fn division(&mut self, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
        let width = a.len();
        let falsity = !self.truth;
        let mut divisor = b.to_vec();
        divisor.push(falsity);
        let not_divisor = Self::negated(&divisor);
        let mut rest = vec![falsity; width];
        let mut quotient = vec![falsity; width];
        for bit in (0..width).rev() {
            rest.insert(0, a[bit]);
            let (difference, fits) = self.sum(&rest, &not_divisor, self.truth);
            quotient[bit] = fits;
            rest = self.mux_all(fits, &difference, &rest);
            rest.truncate(width);
        }
        (quotient, rest)
    }

    /// A shift to the right by `distance`; `fill` comes in from the left.
    fn shifted(&mut self, a: &[Lit], distance: &[Lit], fill: Lit) -> Vec<Lit> {
        let width = a.len();
        let mut bits = a.to_vec();
        let mut beyond = Vec::new();
        for (stage, &by) in distance.iter().enumerate() {
            let step = 1usize.checked_shl(stage as u32).unwrap_or(usize::MAX);
            if step >= width {
                beyond.push(by);
                continue;
            }
            let moved: Vec<Lit> = (0..width)
                .map(|bit| bits.get(bit + step).copied().unwrap_or(fill))
                .collect();
            bits = self.mux_all(by, &moved, &bits);
        }
        let all_gone = self.any(&beyond);
        let nothing = vec![fill; width];
        self.mux_all(all_gone, &nothing, &bits)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn expressions_with_too_many_gates_have_no_literal() {
        let mut dag = Dag::default();
        let mut bytes = (0..8).map(|index| dag.variable(Variable(index), 3));
        let first = bytes.next().unwrap();
        let word = bytes.collect::<Vec<_>>().into_iter();
        let word = word.fold(first, |low, high| dag.concat(high, low));
        let mut value = word;
        for step in 0..40 {
            let product = dag.binary(BinaryOperation::Mul, value, word);
            let constant = dag.constant(64, step);
            value = dag.xor(product, constant);
        }
        let zero = dag.is_zero(value);
        let mut circuit = Circuit::new(&|| false);
        circuit.most_gates = 20_000;
        let end = Instant::now() + Duration::from_secs(3600);
        assert!(circuit.condition(&dag, zero, end).is_none());
        assert!(circuit.size() < 60_000);
        // What is small has one, and nothing has when it is to stop.
        let small = dag.extract(word, 0, 1);
        let mut circuit = Circuit::new(&|| false);
        assert!(circuit.condition(&dag, small, end).is_some());
        let mut circuit = Circuit::new(&|| true);
        assert!(circuit.condition(&dag, zero, end).is_none());
    }
}
