//! Simplifications of operations on two operands, which keep what the solver gets small.

use super::{BinaryOperation, Dag, Expr, Node, ones};

impl Dag {
    /// A simpler expression that is equal to the operation, if one is known. Constants, of which there is at most one, come second where
    /// the operation commutes. `width` is that of the result.
    pub(super) fn simplified(
        &mut self,
        operation: BinaryOperation,
        (a, b): (Expr, Expr),
        constants: (Option<u128>, Option<u128>),
        width: u32,
    ) -> Option<Expr> {
        use BinaryOperation as Op;
        let all = ones(self.width(a));
        Some(match (operation, constants.1) {
            (Op::And | Op::Or, _) if a == b => a,
            (Op::Xor, _) if a == b => self.constant(width, 0),
            (Op::Eq, _) if a == b => self.constant(1, 1),
            (Op::Ult | Op::Slt, _) if a == b => self.constant(1, 0),
            (Op::And | Op::Mul, Some(0)) => b,
            (Op::And, Some(mask)) if mask == all => a,
            (Op::And, Some(mask)) => return self.masked(a, mask),
            (Op::Or | Op::Xor | Op::Add | Op::Shl | Op::Lshr | Op::Ashr, Some(0)) => a,
            (Op::Or, Some(mask)) if mask == all => b,
            (Op::Xor, Some(mask)) if mask == all => self.not(a),
            (Op::Mul, Some(1)) => a,
            (Op::Mul, Some(factor)) if factor.is_power_of_two() => {
                let distance = self.constant(width, u128::from(factor.trailing_zeros()));
                self.binary(Op::Shl, a, distance)
            }
            (Op::Add, Some(constant)) => {
                let Node::Binary(Op::Add, x, y) = self.node(a) else {
                    return None;
                };
                let inner = self.constant_value(y)?;
                let sum = self.constant(width, inner.wrapping_add(constant));
                self.add_of(x, sum)
            }
            (Op::Shl, Some(distance)) if distance < u128::from(width) => {
                let distance = distance as u32;
                let kept = self.extract(a, 0, width - distance);
                let zeros = self.constant(distance, 0);
                self.concat(kept, zeros)
            }
            (Op::Lshr, Some(distance)) if distance < u128::from(width) => {
                let distance = distance as u32;
                let kept = self.extract(a, distance, width - distance);
                self.zero_extend(kept, width)
            }
            (Op::Ashr, Some(distance)) if distance < u128::from(width) => {
                let distance = distance as u32;
                let kept = self.extract(a, distance, width - distance);
                self.sign_extend(kept, width)
            }
            (Op::Shl | Op::Lshr, Some(_)) => self.constant(width, 0),
            (Op::Ult, Some(0)) => self.constant(1, 0),
            (Op::Ult, Some(1)) => self.is_zero(a),
            (Op::Ult, Some(limit)) => {
                let Node::ZeroExtend(inner) = self.node(a) else {
                    return None;
                };
                let narrow = self.width(inner);
                if limit > ones(narrow) {
                    return Some(self.constant(1, 1));
                }
                let limit = self.constant(narrow, limit);
                self.ult(inner, limit)
            }
            (Op::Eq, Some(constant)) => return self.equal_to_constant(a, constant),
            _ => return None,
        })
    }

    /// `a & mask`, if the mask is made of whole parts of `a`.
    fn masked(&mut self, a: Expr, mask: u128) -> Option<Expr> {
        let width = self.width(a);
        // Low bits only: the rest is zero.
        if mask.wrapping_add(1).is_power_of_two() {
            let kept = mask.trailing_ones();
            let low = self.extract(a, 0, kept);
            return Some(self.zero_extend(low, width));
        }
        match self.node(a) {
            Node::ZeroExtend(inner) => {
                let narrow = self.width(inner);
                let mask = self.constant(narrow, mask & ones(narrow));
                let kept = self.and(inner, mask);
                Some(self.zero_extend(kept, width))
            }
            Node::Binary(BinaryOperation::Concat, high, low) => {
                let split = self.width(low);
                let (over, under) = (mask >> split, mask & ones(split));
                let over = self.constant(width - split, over);
                let under = self.constant(split, under);
                let (over, under) = (self.and(high, over), self.and(low, under));
                Some(self.concat(over, under))
            }
            _ => None,
        }
    }

    /// `a == constant`, in terms of what `a` is made of.
    fn equal_to_constant(&mut self, a: Expr, constant: u128) -> Option<Expr> {
        use BinaryOperation as Op;
        let (inner, rest) = self.moved_to_constant(a, constant);
        if inner != a {
            let Some(rest) = rest else {
                return Some(self.constant(1, 0));
            };
            let rest = self.constant(self.width(inner), rest);
            return Some(self.eq(inner, rest));
        }
        let width = self.width(a);
        if width == 1 {
            return Some(match constant {
                0 => self.not(a),
                _ => a,
            });
        }
        match self.node(a) {
            Node::Binary(Op::Concat, high, low) => {
                let split = self.width(low);
                let over = self.constant(width - split, constant >> split);
                let under = self.constant(split, constant);
                let (over, under) = (self.eq(high, over), self.eq(low, under));
                Some(self.and(over, under))
            }
            Node::Binary(Op::Xor, x, y) if constant == 0 => Some(self.eq(x, y)),
            // x - y == 0, in two forms of the difference
            Node::Binary(Op::Add, x, y) if constant == 0 => {
                let (x, y) = match (self.negated(x), self.negated(y)) {
                    (_, Some(y)) => (x, y),
                    (Some(x), None) => (y, x),
                    (None, None) => return None,
                };
                Some(self.eq(x, y))
            }
            Node::Select(condition, x, y) => {
                let wanted = self.constant(width, constant);
                let (x, y) = (self.constant_value(x)?, self.constant_value(y)?);
                Some(match (x == constant, y == constant) {
                    (true, true) => self.constant(1, 1),
                    (true, false) => condition,
                    (false, true) => self.not(condition),
                    (false, false) => {
                        let zero = self.constant(width, !constant);
                        self.eq(wanted, zero)
                    }
                })
            }
            _ => None,
        }
    }

    /// What an expression is computed from without another expression, and what that is where the expression is `constant`; `None` if it
    /// cannot be.
    fn moved_to_constant(&self, a: Expr, constant: u128) -> (Expr, Option<u128>) {
        let (mut a, mut constant) = (a, constant);
        // A loop, as the target can make these chains as long as it likes.
        loop {
            let width = self.width(a);
            (a, constant) = match self.node(a) {
                Node::ZeroExtend(inner) if constant > ones(self.width(inner)) => {
                    return (inner, None);
                }
                Node::ZeroExtend(inner) => (inner, constant),
                Node::Not(inner) if width > 1 => (inner, !constant & ones(width)),
                Node::Binary(BinaryOperation::Add, x, y) => match self.constant_value(y) {
                    Some(addend) => (x, constant.wrapping_sub(addend) & ones(width)),
                    None => return (a, Some(constant)),
                },
                _ => return (a, Some(constant)),
            };
        }
    }

    /// What an expression is the negation of, if it has that form.
    fn negated(&self, of: Expr) -> Option<Expr> {
        let Node::Binary(BinaryOperation::Add, x, y) = self.node(of) else {
            return None;
        };
        match (self.node(x), self.constant_value(y)) {
            (Node::Not(inner), Some(1)) => Some(inner),
            _ => None,
        }
    }
}
