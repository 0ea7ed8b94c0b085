//! Every operation is solved for operands that give a result: what the solver finds must give it, too.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::expression::BinaryOperation as Op;

const OPERATIONS: [Op; 14] = [
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Add,
    Op::Mul,
    Op::Udiv,
    Op::Urem,
    Op::Shl,
    Op::Lshr,
    Op::Ashr,
    Op::Eq,
    Op::Ult,
    Op::Slt,
    Op::Concat,
];

fn solver() -> Solver {
    Solver::new(Duration::from_secs(20))
}

/// An expression of whole bytes, each a variable.
fn operand(dag: &mut Dag, first: u32, bytes: &[u8]) -> Expr {
    let variables = (first..).zip(bytes);
    let parts: Vec<Expr> = variables
        .map(|(index, &byte)| dag.variable(Variable(index), byte))
        .collect();
    parts
        .into_iter()
        .reduce(|low, high| dag.concat(high, low))
        .unwrap()
}

/// The bytes of an input on which an expression has a value, if there is one.
fn solve(dag: Dag, of: Expr, value: u128) -> (Dag, Solution) {
    let mut dag = dag;
    let wanted = dag.constant(dag.width(of), value);
    let is_it = dag.eq(of, wanted);
    let other = dag.not(is_it);
    let mut path = PathConstraints::new(dag, vec![other]);
    let solution = solver().negate(&mut path, 0);
    (path.dag, solution)
}

fn value_on(dag: &Dag, of: Expr, model: &Model) -> Option<u128> {
    let mut known = FxHashMap::default();
    for (variable, byte) in model {
        known.extend(
            dag.expression_of(*variable)
                .map(|it| (it, u128::from(*byte))),
        );
    }
    dag.evaluate(of, &mut known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_solution_has_the_result_that_was_asked_for(
        operation in prop::sample::select(&OPERATIONS[..]),
        start in any::<[u8; 4]>(),
        a in any::<[u8; 2]>(),
        b in any::<[u8; 2]>(),
    ) {
        let mut other = Dag::default();
        let (x, y) = (operand(&mut other, 0, &a), operand(&mut other, 2, &b));
        let wanted = other.binary(operation, x, y);
        let wanted = other.value(wanted);
        let mut dag = Dag::default();
        let (x, y) = (operand(&mut dag, 0, &start[..2]), operand(&mut dag, 2, &start[2..]));
        let result = dag.binary(operation, x, y);
        if dag.value(result) != wanted {
            let (dag, solution) = solve(dag, result, wanted);
            let Solution::Exact(model) = solution else {
                panic!("{operation:?} of {a:?} and {b:?}: {solution:?}");
            };
            prop_assert_eq!(value_on(&dag, result, &model), Some(wanted), "{:?}", operation);
        }
    }
}

#[test]
fn what_has_no_solution_is_impossible() {
    let mut dag = Dag::default();
    let byte = dag.variable(Variable(0), 3);
    let (one, limit) = (dag.constant(8, 1), dag.constant(8, 7));
    let odd = dag.or(byte, one);
    let masked = dag.and(odd, limit);
    let (_, solution) = solve(dag, masked, 6);
    assert_eq!(solution, Solution::Impossible);
}

#[test]
fn bytes_that_do_not_matter_keep_their_values() {
    let mut dag = Dag::default();
    let word = operand(&mut dag, 0, &[0x11, 0x22, 0x33, 0x44]);
    let low = dag.extract(word, 0, 16);
    let (_, solution) = solve(dag, low, 0xbeef);
    let Solution::Exact(mut model) = solution else {
        panic!("{solution:?}");
    };
    model.sort_unstable();
    assert_eq!(model, [(Variable(0), 0xef), (Variable(1), 0xbe)]);
}

#[test]
fn only_constraints_with_shared_variables_are_kept() {
    let mut dag = Dag::default();
    let bytes: Vec<Expr> = (0..4).map(|it| dag.variable(Variable(it), 1)).collect();
    let pairs = [(0, 1), (2, 3), (1, 2)];
    let same = pairs.map(|(a, b)| dag.eq(bytes[a], bytes[b]));
    let alone = dag.variable(Variable(9), 0);
    let zero = dag.is_zero(alone);
    let path = PathConstraints::new(dag, vec![same[0], zero, same[1], same[2]]);
    assert_eq!(path.slice(3), [0, 2]);
    assert_eq!(path.slice(2), []);
}

#[test]
fn an_earlier_branch_that_stands_in_the_way_is_left_out() {
    let mut dag = Dag::default();
    let byte = dag.variable(Variable(0), 3);
    let (five, ten, seven) = (dag.constant(8, 5), dag.constant(8, 10), dag.constant(8, 7));
    let (small, digit) = (dag.ult(byte, five), dag.ult(byte, ten));
    let seven = dag.eq(byte, seven);
    let other = dag.not(seven);
    let mut path = PathConstraints::new(dag, vec![digit, small, other]);
    let solution = solver().negate(&mut path, 2);
    assert_eq!(solution, Solution::Optimistic(vec![(Variable(0), 7)]));
}

#[test]
fn a_contradiction_is_remembered() {
    let mut dag = Dag::default();
    let byte = dag.variable(Variable(0), 3);
    let five = dag.constant(8, 5);
    let small = dag.ult(byte, five);
    let smaller = dag.ult(byte, five);
    assert_eq!(small, smaller, "equal expressions are one");
    let mut solver = solver();
    let mut path = PathConstraints::new(dag, vec![small]);
    assert!(matches!(solver.negate(&mut path, 0), Solution::Exact(_)));
    assert!(matches!(solver.negate(&mut path, 0), Solution::Exact(_)));
    assert_eq!(solver.statistics.remembered, 1);
}
