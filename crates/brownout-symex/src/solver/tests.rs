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
    let mut path = PathConstraints::new(dag, vec![other], &|| false);
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
    assert_eq!(solution, Solution::Impossible(Vec::new()));
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
    let path = PathConstraints::new(dag, vec![same[0], zero, same[1], same[2]], &|| false);
    assert_eq!(path.variables.slice(3), [0, 2]);
    assert_eq!(path.variables.slice(2), []);
}

#[test]
fn an_earlier_branch_that_stands_in_the_way_is_left_out() {
    let mut dag = Dag::default();
    let byte = dag.variable(Variable(0), 3);
    let (five, ten, seven) = (dag.constant(8, 5), dag.constant(8, 10), dag.constant(8, 7));
    let (small, digit) = (dag.ult(byte, five), dag.ult(byte, ten));
    let seven = dag.eq(byte, seven);
    let other = dag.not(seven);
    let mut path = PathConstraints::new(dag, vec![digit, small, other], &|| false);
    let solution = solver().negate(&mut path, 2);
    assert_eq!(solution, Solution::Optimistic(vec![(Variable(0), 7)]));
}

/// The constraints `byte < 5` and `byte != 7`; the second cannot be violated while the first holds.
fn contradictory(stop: &dyn Fn() -> bool) -> PathConstraints<'_> {
    let mut dag = Dag::default();
    let byte = dag.variable(Variable(0), 3);
    let (five, seven) = (dag.constant(8, 5), dag.constant(8, 7));
    let small = dag.ult(byte, five);
    let is_seven = dag.eq(byte, seven);
    let other = dag.not(is_seven);
    PathConstraints::new(dag, vec![small, other], stop)
}

#[test]
fn answers_are_remembered_also_for_other_paths() {
    let mut solver = solver();
    let expected = Solution::Optimistic(vec![(Variable(0), 7)]);
    assert_eq!(solver.negate(&mut contradictory(&|| false), 1), expected);
    let first = solver.statistics;
    assert!(first.unsatisfiable > 0 && first.satisfiable > 0);
    assert_eq!(solver.negate(&mut contradictory(&|| false), 1), expected);
    let second = solver.statistics;
    assert_eq!(second.unsatisfiable, first.unsatisfiable);
    assert_eq!(second.satisfiable, first.satisfiable);
    assert_eq!(second.queries, 2 * first.queries);
    assert_eq!(second.remembered - first.remembered, first.queries);
}

#[test]
fn answers_are_forgotten_when_there_are_too_many() {
    let mut solver = solver();
    solver.negate(&mut contradictory(&|| false), 1);
    solver.make_room(MOST_REMEMBERED);
    assert!(solver.models.is_empty() && solver.contradictions.is_empty());
    solver.negate(&mut contradictory(&|| false), 1);
    assert!(!solver.models.is_empty());
}

/// The factors of a product of two large primes: too hard for any time limit here.
fn hard(stop: &dyn Fn() -> bool) -> PathConstraints<'_> {
    let mut dag = Dag::default();
    let (x, y) = (operand(&mut dag, 0, &[0; 8]), operand(&mut dag, 8, &[0; 8]));
    let (x, y) = (dag.zero_extend(x, 128), dag.zero_extend(y, 128));
    let product = dag.binary(Op::Mul, x, y);
    // 2^61 - 1 and 2^64 - 59.
    let prime = dag.constant(128, ((1 << 61) - 1) * 0xffff_ffff_ffff_ffc5);
    let is_it = dag.eq(product, prime);
    let other = dag.not(is_it);
    PathConstraints::new(dag, vec![other], stop)
}

#[test]
fn a_hard_query_ends_in_time_and_at_once_when_it_is_to_stop() {
    let started = Instant::now();
    let mut solver = Solver::new(Duration::from_millis(800));
    let solution = solver.negate(&mut hard(&|| false), 0);
    assert_eq!(solution, Solution::TimedOut);
    assert!(solver.statistics.timed_out > 0);
    assert!(started.elapsed() < Duration::from_secs(20));
    let mut solver = Solver::new(Duration::from_secs(3600));
    assert_eq!(solver.negate(&mut hard(&|| true), 0), Solution::TimedOut);
}

/// An operation on operands that earlier constraints fix has the result that it should have, and no other.
fn check_result(operation: Op, a: &[u8], b: &[u8]) {
    let mut dag = Dag::default();
    let wanted = {
        let (x, y) = (operand(&mut dag, 0, a), operand(&mut dag, 100, b));
        let result = dag.binary(operation, x, y);
        dag.value(result)
    };
    let mut dag = Dag::default();
    let (start_a, start_b) = (vec![0x55; a.len()], vec![0x2a; b.len()]);
    let (x, y) = (
        operand(&mut dag, 0, &start_a),
        operand(&mut dag, 100, &start_b),
    );
    let result = dag.binary(operation, x, y);
    let mut constraints = Vec::new();
    for (first, bytes) in [(0, a), (100, b)] {
        for (index, &byte) in (first..).zip(bytes) {
            let variable = dag.variable(Variable(index), 0);
            let value = dag.constant(8, u128::from(byte));
            constraints.push(dag.eq(variable, value));
        }
    }
    let wanted = dag.constant(dag.width(result), wanted);
    let is_it = dag.eq(result, wanted);
    let other = dag.not(is_it);
    let last = constraints.len();
    constraints.extend([other, is_it]);
    let mut path = PathConstraints::new(dag, constraints, &|| false);
    let mut solver = solver();
    let kept: Vec<usize> = (0..last).collect();
    let has = solver.decide(&mut path, &kept, last);
    let what = format!("{operation:?} of {a:x?} and {b:x?}");
    assert!(matches!(has, Decision::Satisfiable(_)), "{what}");
    let has_another = solver.decide(&mut path, &kept, last + 1);
    assert!(matches!(has_another, Decision::Contradiction(_)), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(14))]

    #[test]
    fn wide_operations_have_their_results(
        operation in prop::sample::select(&OPERATIONS[..]),
        a in any::<[u8; 16]>(),
        b in any::<[u8; 16]>(),
        small in any::<u8>(),
    ) {
        for bytes in [4, 8, 16] {
            if operation == Op::Concat && bytes == 16 {
                continue;
            }
            let mut divisor = vec![0; bytes];
            divisor[0] = small;
            // Distances and divisors are small, too.
            check_result(operation, &a[..bytes], &divisor);
            check_result(operation, &a[..bytes], &b[..bytes]);
        }
    }
}
