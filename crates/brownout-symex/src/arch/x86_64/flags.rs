//! The arithmetic flags, computed when something reads them.

use crate::expression::{BinaryOperation, Dag, Expr};

/// The flags that are modelled. The auxiliary carry is always what the processor computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagName {
    Carry,
    Parity,
    Zero,
    Sign,
    Overflow,
}

impl FlagName {
    pub const ALL: [FlagName; 5] = [
        FlagName::Carry,
        FlagName::Parity,
        FlagName::Zero,
        FlagName::Sign,
        FlagName::Overflow,
    ];

    /// Its bit of the flags register.
    pub fn bit(self) -> u32 {
        match self {
            FlagName::Carry => 0,
            FlagName::Parity => 2,
            FlagName::Zero => 6,
            FlagName::Sign => 7,
            FlagName::Overflow => 11,
        }
    }
}

/// What set a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagSource {
    /// `a + b` with result `r`, with or without a carry in.
    Sum { a: Expr, b: Expr, r: Expr },
    /// `a - b` with result `r`.
    Difference { a: Expr, b: Expr, r: Expr },
    /// `a - b` with result `r`, with a borrow in.
    Borrowed { a: Expr, b: Expr, r: Expr },
    /// A logical operation with result `r`.
    Logic { r: Expr },
}

/// A flag: what the processor has, or an expression of one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flag {
    #[default]
    Concrete,
    Known(Expr),
    Of(FlagSource),
}

/// The value of a flag.
pub fn flag(dag: &mut Dag, name: FlagName, source: FlagSource) -> Expr {
    use FlagSource as From;
    let (From::Sum { r, .. }
    | From::Difference { r, .. }
    | From::Borrowed { r, .. }
    | From::Logic { r }) = source;
    match (name, source) {
        (FlagName::Zero, From::Difference { a, b, .. }) => dag.eq(a, b),
        (FlagName::Zero, _) => dag.is_zero(r),
        (FlagName::Sign, _) => top(dag, r),
        (FlagName::Parity, _) => parity(dag, r),
        (FlagName::Carry | FlagName::Overflow, From::Logic { .. }) => dag.constant(1, 0),
        (FlagName::Carry, From::Sum { a, b, r }) => {
            let (both, any) = (dag.and(a, b), dag.or(a, b));
            let lost = dag.not(r);
            let lost = dag.and(any, lost);
            let carry = dag.or(both, lost);
            top(dag, carry)
        }
        (FlagName::Carry, From::Difference { a, b, .. }) => dag.ult(a, b),
        (FlagName::Carry, From::Borrowed { a, b, r }) => {
            let not_a = dag.not(a);
            let (both, any) = (dag.and(not_a, b), dag.or(not_a, b));
            let kept = dag.and(any, r);
            let borrow = dag.or(both, kept);
            top(dag, borrow)
        }
        (FlagName::Overflow, From::Sum { a, b, r }) => {
            let (x, y) = (dag.xor(a, r), dag.xor(b, r));
            let overflow = dag.and(x, y);
            top(dag, overflow)
        }
        (FlagName::Overflow, From::Difference { a, b, r } | From::Borrowed { a, b, r }) => {
            let (x, y) = (dag.xor(a, b), dag.xor(a, r));
            let overflow = dag.and(x, y);
            top(dag, overflow)
        }
    }
}

/// The highest bit.
pub fn top(dag: &mut Dag, of: Expr) -> Expr {
    let width = dag.width(of);
    dag.extract(of, width - 1, 1)
}

/// Whether the low byte has an even number of ones.
pub fn parity(dag: &mut Dag, of: Expr) -> Expr {
    let mut odd = dag.extract(of, 0, 1);
    for bit in 1..8 {
        let next = dag.extract(of, bit, 1);
        odd = dag.xor(odd, next);
    }
    dag.not(odd)
}

/// A comparison of the operands of one subtraction, if a condition is one: whether it is negated, and what.
pub fn comparison(dag: &mut Dag, condition: ConditionName, a: Expr, b: Expr) -> Option<Expr> {
    let signed = BinaryOperation::Slt;
    Some(match condition {
        ConditionName::Equal => dag.eq(a, b),
        ConditionName::Below => dag.ult(a, b),
        ConditionName::BelowOrEqual => {
            let above = dag.ult(b, a);
            dag.not(above)
        }
        ConditionName::Less => dag.binary(signed, a, b),
        ConditionName::LessOrEqual => {
            let greater = dag.binary(signed, b, a);
            dag.not(greater)
        }
        _ => return None,
    })
}

/// A condition of a branch, a move or a set, without its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionName {
    Overflow,
    Below,
    Equal,
    BelowOrEqual,
    Sign,
    Parity,
    Less,
    LessOrEqual,
}
