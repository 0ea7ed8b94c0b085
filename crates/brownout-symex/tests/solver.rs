//! The solver against brute force and against z3: random constraints over few bytes.
//!
//! Constraints are trees with an evaluation of their own, so that the simplifications of `Dag` are checked, too.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use brownout_symex::{
    BinaryOperation as Op, Dag, Expr, Node, PathConstraints, Solution, Solver, Variable,
};
use proptest::prelude::*;

/// An expression of 8, 16 or 1 bits.
#[derive(Clone, Debug)]
enum Tree {
    Byte(u32),
    Constant(u32, u64),
    Not(Box<Tree>),
    Binary(Op, Box<Tree>, Box<Tree>),
    Extract(Box<Tree>, u32, u32),
    Extend(Box<Tree>, u32, bool),
    Select(Box<Tree>, Box<Tree>, Box<Tree>),
}

fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

fn signed(value: u64, width: u32) -> i64 {
    (value << (64 - width)) as i64 >> (64 - width)
}

impl Tree {
    fn width(&self) -> u32 {
        match self {
            Tree::Byte(_) => 8,
            Tree::Constant(width, _) | Tree::Extract(_, _, width) | Tree::Extend(_, width, _) => {
                *width
            }
            Tree::Not(a) => a.width(),
            Tree::Binary(Op::Eq | Op::Ult | Op::Slt, ..) => 1,
            Tree::Binary(Op::Concat, a, b) => a.width() + b.width(),
            Tree::Binary(_, a, _) | Tree::Select(_, a, _) => a.width(),
        }
    }

    /// The value on an input.
    fn value(&self, bytes: &[u8]) -> u64 {
        let width = self.width();
        let value = match self {
            Tree::Byte(index) => u64::from(bytes[*index as usize]),
            Tree::Constant(_, value) => *value,
            Tree::Not(a) => !a.value(bytes),
            Tree::Extract(a, low, _) => a.value(bytes) >> low,
            Tree::Extend(a, _, false) => a.value(bytes),
            Tree::Extend(a, _, true) => signed(a.value(bytes), a.width()) as u64,
            Tree::Select(c, a, b) => match c.value(bytes) {
                0 => b.value(bytes),
                _ => a.value(bytes),
            },
            Tree::Binary(operation, a, b) => {
                let (x, y, of) = (a.value(bytes), b.value(bytes), a.width());
                let beyond = y >= u64::from(of);
                match operation {
                    Op::And => x & y,
                    Op::Or => x | y,
                    Op::Xor => x ^ y,
                    Op::Add => x.wrapping_add(y),
                    Op::Mul => x.wrapping_mul(y),
                    Op::Udiv => x.checked_div(y).unwrap_or(u64::MAX),
                    Op::Urem => x.checked_rem(y).unwrap_or(x),
                    Op::Shl if beyond => 0,
                    Op::Shl => x << y,
                    Op::Lshr if beyond => 0,
                    Op::Lshr => x >> y,
                    Op::Ashr => (signed(x, of) >> y.min(u64::from(of) - 1)) as u64,
                    Op::Eq => u64::from(x == y),
                    Op::Ult => u64::from(x < y),
                    Op::Slt => u64::from(signed(x, of) < signed(y, of)),
                    Op::Concat => x << b.width() | y,
                }
            }
        };
        value & mask(width)
    }

    fn expression(&self, dag: &mut Dag, input: &[u8]) -> Expr {
        match self {
            Tree::Byte(index) => dag.variable(Variable(*index), input[*index as usize]),
            Tree::Constant(width, value) => dag.constant(*width, u128::from(*value)),
            Tree::Not(a) => {
                let a = a.expression(dag, input);
                dag.not(a)
            }
            Tree::Binary(operation, a, b) => {
                let (a, b) = (a.expression(dag, input), b.expression(dag, input));
                dag.binary(*operation, a, b)
            }
            Tree::Extract(a, low, width) => {
                let a = a.expression(dag, input);
                dag.extract(a, *low, *width)
            }
            Tree::Extend(a, width, signed) => {
                let a = a.expression(dag, input);
                match signed {
                    true => dag.sign_extend(a, *width),
                    false => dag.zero_extend(a, *width),
                }
            }
            Tree::Select(c, a, b) => {
                let c = c.expression(dag, input);
                let (a, b) = (a.expression(dag, input), b.expression(dag, input));
                dag.select(c, a, b)
            }
        }
    }
}

const ARITHMETIC: [Op; 10] = [
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
];
const BYTES: usize = 2;

/// Trees of a width.
fn tree(width: u32, depth: u32) -> BoxedStrategy<Tree> {
    let edges = prop_oneof![
        Just(0u64),
        Just(1),
        Just(mask(width)),
        Just(1 << (width - 1)),
        any::<u64>()
    ];
    let constant = edges.prop_map(move |value| Tree::Constant(width, value & mask(width)));
    let byte = (0..BYTES as u32).prop_map(Tree::Byte);
    let leaf = match width {
        8 => prop_oneof![1 => constant, 3 => byte].boxed(),
        16 => {
            let wide = (byte, any::<bool>());
            let wide = wide.prop_map(|(byte, signed)| Tree::Extend(Box::new(byte), 16, signed));
            prop_oneof![1 => constant, 3 => wide].boxed()
        }
        _ => constant.boxed(),
    };
    let boxed = |width| tree(width, depth.saturating_sub(1)).prop_map(Box::new);
    if depth == 0 && width > 1 {
        return leaf;
    }
    if width == 1 {
        let operations = prop::sample::select(vec![Op::Eq, Op::Ult, Op::Slt]);
        let compared = prop_oneof![Just(8u32), Just(16)].prop_flat_map(move |of| {
            let operations = operations.clone();
            (
                operations,
                tree(of, depth.max(1) - 1),
                tree(of, depth.max(1) - 1),
            )
        });
        return compared
            .prop_map(|(operation, a, b)| Tree::Binary(operation, Box::new(a), Box::new(b)))
            .boxed();
    }
    let binary = (
        prop::sample::select(&ARITHMETIC[..]),
        boxed(width),
        boxed(width),
    )
        .prop_map(|(operation, a, b)| Tree::Binary(operation, a, b));
    let not = boxed(width).prop_map(Tree::Not);
    let select = (boxed(1), boxed(width), boxed(width)).prop_map(|(c, a, b)| Tree::Select(c, a, b));
    let other = match width {
        8 => (boxed(16), 0u32..=8)
            .prop_map(|(a, low)| Tree::Extract(a, low, 8))
            .boxed(),
        _ => (boxed(8), boxed(8))
            .prop_map(|(a, b)| Tree::Binary(Op::Concat, a, b))
            .boxed(),
    };
    prop_oneof![1 => leaf, 5 => binary, 1 => not, 1 => select, 2 => other].boxed()
}

/// The constraints as a text for z3: those before the last hold, the last is violated.
fn smt_text(dag: &Dag, kept: &[Expr], violated: Expr) -> String {
    let mut text = String::from("(set-logic QF_BV)\n");
    for index in 0..BYTES {
        let _ = writeln!(text, "(declare-const b{index} (_ BitVec 8))");
    }
    for &holds in kept {
        let _ = writeln!(text, "(assert (= {} #b1))", term(dag, holds));
    }
    let _ = writeln!(
        text,
        "(assert (= {} #b0))\n(check-sat)",
        term(dag, violated)
    );
    text
}

fn term(dag: &Dag, of: Expr) -> String {
    let width = dag.width(of);
    let wider = |a: Expr| width - dag.width(a);
    match dag.node(of) {
        Node::Constant(value) => format!("(_ bv{value} {width})"),
        Node::Variable(variable) => format!("b{}", variable.0),
        Node::Not(a) => format!("(bvnot {})", term(dag, a)),
        Node::Extract(a, low) => {
            format!("((_ extract {} {low}) {})", low + width - 1, term(dag, a))
        }
        Node::ZeroExtend(a) => format!("((_ zero_extend {}) {})", wider(a), term(dag, a)),
        Node::SignExtend(a) => format!("((_ sign_extend {}) {})", wider(a), term(dag, a)),
        Node::Select(c, a, b) => {
            format!(
                "(ite (= {} #b1) {} {})",
                term(dag, c),
                term(dag, a),
                term(dag, b)
            )
        }
        Node::Binary(operation, a, b) => {
            let (a, b) = (term(dag, a), term(dag, b));
            let name = match operation {
                Op::And => "bvand",
                Op::Or => "bvor",
                Op::Xor => "bvxor",
                Op::Add => "bvadd",
                Op::Mul => "bvmul",
                Op::Udiv => "bvudiv",
                Op::Urem => "bvurem",
                Op::Shl => "bvshl",
                Op::Lshr => "bvlshr",
                Op::Ashr => "bvashr",
                Op::Concat => "concat",
                Op::Eq => return format!("(ite (= {a} {b}) #b1 #b0)"),
                Op::Ult => return format!("(ite (bvult {a} {b}) #b1 #b0)"),
                Op::Slt => return format!("(ite (bvslt {a} {b}) #b1 #b0)"),
            };
            format!("({name} {a} {b})")
        }
    }
}

/// One run of z3 on many texts; whether each is satisfiable. `None` if it is not installed.
fn z3(texts: &[String]) -> Option<Vec<bool>> {
    let mut z3 = Command::new("z3")
        .arg("-in")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let all = texts.join("(reset)\n");
    let mut input = z3.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = z3.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| match line {
        "sat" => true,
        "unsat" => false,
        other => panic!("z3: {other}"),
    });
    Some(answers.collect())
}

/// A set of constraints, turned so that the recorded input meets them, and what brute force says.
struct Case {
    dag: Dag,
    holds: Vec<Expr>,
    trees: Vec<Tree>,
    input: [u8; BYTES],
    /// Whether the last one can be violated while the others hold, and by itself.
    is_possible: bool,
    is_possible_alone: bool,
}

impl Case {
    fn new(trees: Vec<Tree>, input: [u8; BYTES]) -> Self {
        let trees: Vec<Tree> = { trees.into_iter() }
            .map(|tree| match tree.value(&input) {
                0 => Tree::Not(Box::new(tree)),
                _ => tree,
            })
            .collect();
        let mut dag = Dag::default();
        let holds: Vec<Expr> = trees
            .iter()
            .map(|tree| tree.expression(&mut dag, &input))
            .collect();
        assert!(
            holds.iter().all(|&it| dag.value(it) == 1),
            "simplification changes the value"
        );
        let (last, earlier) = trees.split_last().unwrap();
        let (mut is_possible, mut is_possible_alone) = (false, false);
        for number in 0..1u32 << (8 * BYTES) {
            let bytes = number.to_le_bytes();
            if last.value(&bytes) == 0 {
                is_possible_alone = true;
                if earlier.iter().all(|it| it.value(&bytes) == 1) {
                    is_possible = true;
                    break;
                }
            }
        }
        Self {
            dag,
            holds,
            trees,
            input,
            is_possible,
            is_possible_alone,
        }
    }

    /// Compares the solver's answer with that of brute force.
    fn check(self) {
        let (index, input) = (self.holds.len() - 1, self.input);
        let mut path = PathConstraints::new(self.dag, self.holds, &|| false);
        let solution = Solver::new(Duration::from_secs(60)).negate(&mut path, index);
        let (last, earlier) = self.trees.split_last().unwrap();
        let on = |model: &[(Variable, u8)]| {
            let mut bytes = input;
            model
                .iter()
                .for_each(|(variable, byte)| bytes[variable.0 as usize] = *byte);
            bytes
        };
        match &solution {
            Solution::Exact(model) => {
                assert!(self.is_possible, "{solution:?} of {:?}", self.trees);
                assert_eq!(last.value(&on(model)), 0, "{:?}", self.trees);
                assert!(
                    earlier.iter().all(|it| it.value(&on(model)) == 1),
                    "{:?}",
                    self.trees
                );
            }
            Solution::Optimistic(model) => {
                assert!(!self.is_possible, "{solution:?} of {:?}", self.trees);
                assert_eq!(last.value(&on(model)), 0, "{:?}", self.trees);
            }
            Solution::Impossible(_) => assert!(!self.is_possible_alone, "{:?}", self.trees),
            Solution::TimedOut => panic!("no answer to {:?}", self.trees),
        }
    }
}

/// Random constraints, the same in every run.
fn cases(count: usize) -> Vec<Case> {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let trees = (
        prop::collection::vec(tree(1, 3), 1..4),
        any::<[u8; BYTES]>(),
    );
    (0..count)
        .map(|_| {
            let (trees, input) = trees.new_tree(&mut runner).unwrap().current();
            Case::new(trees, input)
        })
        .collect()
}

#[test]
fn answers_are_those_of_brute_force() {
    let cases = cases(150);
    let possible = cases.iter().filter(|case| case.is_possible).count();
    assert!((20..140).contains(&possible), "{possible} can be solved");
    cases.into_iter().for_each(Case::check);
}

#[test]
fn z3_gives_the_same_answers_as_brute_force() {
    let cases = cases(150);
    let text = |case: &Case| {
        let (last, earlier) = case.holds.split_last().unwrap();
        smt_text(&case.dag, earlier, *last)
    };
    let Some(answers) = z3(&cases.iter().map(text).collect::<Vec<_>>()) else {
        eprintln!("not compared: z3 is not installed (`cargo xtask setup` installs it)");
        return;
    };
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(answers) {
        assert_eq!(case.is_possible, answer, "{:?}", case.trees);
    }
}
