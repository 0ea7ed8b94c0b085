//! Bit-vector expressions over the bytes of an input: a DAG in which equal expressions are one node.
//!
//! Each node also has the value that it takes on the input of the recorded run, so that replay can compare every result with what the
//! processor computed. Constructors simplify; what they return always has the width that was asked for.

mod simplify;

use rustc_hash::{FxHashMap, FxHashSet};

/// A node of a [`Dag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr(pub(crate) u32);

/// A byte of an input, by its index among all symbolic bytes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable(pub u32);

/// The most bits of an expression.
pub const WIDEST: u32 = 128;

/// Operations on two operands of one width. Comparisons have a result of one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOperation {
    And,
    Or,
    Xor,
    Add,
    Mul,
    /// Unsigned division; by zero, all bits are set.
    Udiv,
    /// Its remainder; by zero, the dividend.
    Urem,
    /// Shifts by the second operand, unsigned; all bits go if it is at least the width.
    Shl,
    Lshr,
    Ashr,
    Eq,
    Ult,
    Slt,
    /// The first operand is the high part.
    Concat,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Constant(u128),
    Variable(Variable),
    Not(Expr),
    Binary(BinaryOperation, Expr, Expr),
    /// Bits from this one on.
    Extract(Expr, u32),
    ZeroExtend(Expr),
    SignExtend(Expr),
    /// Condition, value if it is 1, value if it is 0.
    Select(Expr, Expr, Expr),
}

#[derive(Clone, Copy)]
struct Entry {
    node: Node,
    width: u32,
    value: u128,
    /// Of the structure: the same in all DAGs whose variables mean the same.
    fingerprint: u64,
}

/// How deep the extraction of bits goes into an expression, and how many parts of it one extraction looks at. Beyond that the bits are
/// those of the expression as it is: for the solver it is the same, as an extraction has no clauses.
const DEEPEST_EXTRACTION: u32 = 32;
const MOST_EXTRACTIONS: u32 = 256;

/// All expressions of one path.
#[derive(Default)]
pub struct Dag {
    entries: Vec<Entry>,
    known: FxHashMap<(Node, u32), Expr>,
    /// What was extracted: without it, an expression whose parts are shared is gone through once for each way to a part.
    extracted: FxHashMap<(Expr, u32, u32), Expr>,
    /// How deep the extraction under way is, and how many parts it may still look at.
    extraction_depth: u32,
    extractions_left: u32,
}

/// Adds a word to a hash that is compared instead of what was hashed.
pub(crate) fn combine_hash(hash: u64, word: u64) -> u64 {
    let mut mixed = hash.rotate_left(25) ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 32
}

/// All bits of a width.
pub fn ones(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}

/// A value of a width as a signed number.
pub fn signed(value: u128, width: u32) -> i128 {
    let unused = 128 - width;
    ((value << unused) as i128) >> unused
}

/// The value of an operation on operands of a width.
fn compute(operation: BinaryOperation, a: u128, b: u128, width: u32) -> u128 {
    use BinaryOperation as Op;
    let bit = u128::from;
    let distance = u32::try_from(b).unwrap_or(u32::MAX);
    let value = match operation {
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Add => a.wrapping_add(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Udiv => a.checked_div(b).unwrap_or(u128::MAX),
        Op::Urem => a.checked_rem(b).unwrap_or(a),
        Op::Shl if distance >= width => 0,
        Op::Shl => a << distance,
        Op::Lshr if distance >= width => 0,
        Op::Lshr => a >> distance,
        Op::Ashr => (signed(a, width) >> distance.min(width - 1)) as u128,
        Op::Eq => bit(a == b),
        Op::Ult => bit(a < b),
        Op::Slt => bit(signed(a, width) < signed(b, width)),
        // The caller knows the width of the low part.
        Op::Concat => unreachable!("computed by `Dag::concat`"),
    };
    value & ones(width)
}

impl Dag {
    pub fn node(&self, of: Expr) -> Node {
        self.entries[of.0 as usize].node
    }

    pub fn width(&self, of: Expr) -> u32 {
        self.entries[of.0 as usize].width
    }

    /// The value on the input of the recorded run.
    pub fn value(&self, of: Expr) -> u128 {
        self.entries[of.0 as usize].value
    }

    /// The same for expressions that are the same function of the same variables.
    pub fn fingerprint(&self, of: Expr) -> u64 {
        self.entries[of.0 as usize].fingerprint
    }

    /// The value, if it is the same on all inputs.
    pub fn constant_value(&self, of: Expr) -> Option<u128> {
        match self.node(of) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn add(&mut self, node: Node, width: u32, value: u128) -> Expr {
        debug_assert!(width > 0 && width <= WIDEST, "a width of {width}");
        if let Some(&known) = self.known.get(&(node, width)) {
            return known;
        }
        let new = Expr(self.entries.len() as u32);
        let value = value & ones(width);
        let fingerprint = self.structure(node, width);
        self.entries.push(Entry {
            node,
            width,
            value,
            fingerprint,
        });
        self.known.insert((node, width), new);
        new
    }

    fn structure(&self, node: Node, width: u32) -> u64 {
        let of = |expr: Expr| self.fingerprint(expr);
        let (tag, words): (u64, [u64; 3]) = match node {
            Node::Constant(value) => (1, [value as u64, (value >> 64) as u64, 0]),
            Node::Variable(variable) => (2, [u64::from(variable.0), 0, 0]),
            Node::Not(a) => (3, [of(a), 0, 0]),
            Node::Binary(operation, a, b) => (16 + operation as u64, [of(a), of(b), 0]),
            Node::Extract(a, low) => (5, [of(a), u64::from(low), 0]),
            Node::ZeroExtend(a) => (6, [of(a), 0, 0]),
            Node::SignExtend(a) => (7, [of(a), 0, 0]),
            Node::Select(c, a, b) => (8, [of(c), of(a), of(b)]),
        };
        let head = combine_hash(tag << 32 | u64::from(width), 0);
        words.into_iter().fold(head, combine_hash)
    }

    pub fn constant(&mut self, width: u32, value: u128) -> Expr {
        let value = value & ones(width);
        self.add(Node::Constant(value), width, value)
    }

    /// A byte of the input, with what it is in the recorded run.
    pub fn variable(&mut self, variable: Variable, value: u8) -> Expr {
        self.add(Node::Variable(variable), 8, u128::from(value))
    }

    /// The expression that is a variable, if there is one.
    pub fn expression_of(&self, variable: Variable) -> Option<Expr> {
        self.known.get(&(Node::Variable(variable), 8)).copied()
    }

    pub fn not(&mut self, a: Expr) -> Expr {
        let width = self.width(a);
        match self.node(a) {
            Node::Constant(value) => self.constant(width, !value),
            Node::Not(inner) => inner,
            _ => {
                let value = !self.value(a);
                self.add(Node::Not(a), width, value)
            }
        }
    }

    pub fn neg(&mut self, a: Expr) -> Expr {
        let width = self.width(a);
        let flipped = self.not(a);
        let one = self.constant(width, 1);
        self.add_of(flipped, one)
    }

    pub fn and(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::And, a, b)
    }

    pub fn or(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::Or, a, b)
    }

    pub fn xor(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::Xor, a, b)
    }

    pub fn add_of(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::Add, a, b)
    }

    pub fn sub(&mut self, a: Expr, b: Expr) -> Expr {
        if a == b {
            return self.constant(self.width(a), 0);
        }
        let negated = self.neg(b);
        self.add_of(a, negated)
    }

    pub fn eq(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::Eq, a, b)
    }

    pub fn ult(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinaryOperation::Ult, a, b)
    }

    /// Whether all bits are zero.
    pub fn is_zero(&mut self, a: Expr) -> Expr {
        let zero = self.constant(self.width(a), 0);
        self.eq(a, zero)
    }

    /// An operation on operands of the same width.
    pub fn binary(&mut self, operation: BinaryOperation, a: Expr, b: Expr) -> Expr {
        use BinaryOperation as Op;
        if operation == Op::Concat {
            return self.concat(a, b);
        }
        debug_assert_eq!(self.width(a), self.width(b), "{operation:?}");
        let operand_width = self.width(a);
        let width = match operation {
            Op::Eq | Op::Ult | Op::Slt => 1,
            _ => operand_width,
        };
        let value = compute(operation, self.value(a), self.value(b), operand_width) & ones(width);
        let commutes = matches!(
            operation,
            Op::And | Op::Or | Op::Xor | Op::Add | Op::Mul | Op::Eq
        );
        // Constants come second, so that there is one form.
        let is_constant = |expr: Expr| matches!(self.node(expr), Node::Constant(_));
        let swap = commutes && (is_constant(a) || !is_constant(b) && b < a);
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let constants = (self.constant_value(a), self.constant_value(b));
        if let (Some(_), Some(_)) = constants {
            return self.constant(width, value);
        }
        if let Some(simple) = self.simplified(operation, (a, b), constants, width) {
            debug_assert_eq!(self.value(simple), value, "{operation:?} simplified");
            return simple;
        }
        self.add(Node::Binary(operation, a, b), width, value)
    }

    /// Bits of an expression, from `low` on.
    pub fn extract(&mut self, a: Expr, low: u32, width: u32) -> Expr {
        let from = self.width(a);
        debug_assert!(low + width <= from, "{low}+{width} of {from}");
        if low == 0 && width == from {
            return a;
        }
        if let Some(&known) = self.extracted.get(&(a, low, width)) {
            return known;
        }
        if self.extraction_depth == 0 {
            self.extractions_left = MOST_EXTRACTIONS;
        }
        if self.extraction_depth == DEEPEST_EXTRACTION || self.extractions_left == 0 {
            return self.plain_extract(a, low, width);
        }
        self.extraction_depth += 1;
        self.extractions_left -= 1;
        let extracted = self.extract_from_parts(a, low, width);
        self.extraction_depth -= 1;
        self.extracted.insert((a, low, width), extracted);
        extracted
    }

    /// Bits of an expression as it is.
    fn plain_extract(&mut self, a: Expr, low: u32, width: u32) -> Expr {
        let value = self.value(a) >> low;
        match self.node(a) {
            Node::Constant(constant) => self.constant(width, constant >> low),
            Node::Extract(inner, start) => {
                self.add(Node::Extract(inner, start + low), width, value)
            }
            _ => self.add(Node::Extract(a, low), width, value),
        }
    }

    /// Bits of an expression, in terms of bits of its parts.
    fn extract_from_parts(&mut self, a: Expr, low: u32, width: u32) -> Expr {
        match self.node(a) {
            Node::Extract(inner, start) => self.extract(inner, start + low, width),
            Node::Binary(BinaryOperation::Concat, high, rest) => {
                let split = self.width(rest);
                if low >= split {
                    self.extract(high, low - split, width)
                } else if low + width <= split {
                    self.extract(rest, low, width)
                } else {
                    let under = self.extract(rest, low, split - low);
                    let over = self.extract(high, 0, low + width - split);
                    self.concat(over, under)
                }
            }
            Node::ZeroExtend(inner) | Node::SignExtend(inner)
                if low + width <= self.width(inner) =>
            {
                self.extract(inner, low, width)
            }
            Node::ZeroExtend(inner) if low >= self.width(inner) => self.constant(width, 0),
            Node::ZeroExtend(inner) => {
                let part = self.extract(inner, low, self.width(inner) - low);
                self.zero_extend(part, width)
            }
            Node::Binary(
                operation @ (BinaryOperation::And | BinaryOperation::Or | BinaryOperation::Xor),
                x,
                y,
            ) => {
                let x = self.extract(x, low, width);
                let y = self.extract(y, low, width);
                self.binary(operation, x, y)
            }
            Node::Binary(operation @ (BinaryOperation::Add | BinaryOperation::Mul), x, y)
                if low == 0 =>
            {
                let x = self.extract(x, 0, width);
                let y = self.extract(y, 0, width);
                self.binary(operation, x, y)
            }
            Node::Not(inner) => {
                let part = self.extract(inner, low, width);
                self.not(part)
            }
            Node::Select(condition, x, y) => {
                let x = self.extract(x, low, width);
                let y = self.extract(y, low, width);
                self.select(condition, x, y)
            }
            _ => self.plain_extract(a, low, width),
        }
    }

    /// `high` above `low`.
    pub fn concat(&mut self, high: Expr, low: Expr) -> Expr {
        let split = self.width(low);
        let width = self.width(high) + split;
        let value = self.value(high) << split | self.value(low);
        match (self.node(high), self.node(low)) {
            (Node::Constant(_), Node::Constant(_)) => return self.constant(width, value),
            (Node::Constant(0), _) => return self.zero_extend(low, width),
            (Node::Extract(x, from), Node::Extract(y, start))
                if x == y && from == start + split =>
            {
                return self.extract(x, start, width);
            }
            (Node::Extract(x, from), _) if from == split && self.extract(x, 0, split) == low => {
                return self.extract(x, 0, width);
            }
            // Adjacent parts meet although others were joined before.
            (Node::Extract(x, from), Node::Binary(BinaryOperation::Concat, middle, rest)) => {
                if let Node::Extract(y, start) = self.node(middle)
                    && x == y
                    && from == start + self.width(middle)
                {
                    let joined = self.width(high) + self.width(middle);
                    let joined = self.extract(x, start, joined);
                    return self.concat(joined, rest);
                }
            }
            _ => {}
        }
        self.add(
            Node::Binary(BinaryOperation::Concat, high, low),
            width,
            value,
        )
    }

    pub fn zero_extend(&mut self, a: Expr, width: u32) -> Expr {
        let from = self.width(a);
        debug_assert!(from <= width);
        match self.node(a) {
            _ if from == width => a,
            Node::Constant(value) => self.constant(width, value),
            Node::ZeroExtend(inner) => self.zero_extend(inner, width),
            _ => {
                let value = self.value(a);
                self.add(Node::ZeroExtend(a), width, value)
            }
        }
    }

    pub fn sign_extend(&mut self, a: Expr, width: u32) -> Expr {
        let from = self.width(a);
        debug_assert!(from <= width);
        let value = signed(self.value(a), from) as u128;
        match self.node(a) {
            _ if from == width => a,
            Node::Constant(_) => self.constant(width, value),
            Node::ZeroExtend(inner) => self.zero_extend(inner, width),
            _ => self.add(Node::SignExtend(a), width, value),
        }
    }

    pub fn select(&mut self, condition: Expr, yes: Expr, no: Expr) -> Expr {
        debug_assert_eq!(self.width(yes), self.width(no));
        let width = self.width(yes);
        match self.node(condition) {
            _ if yes == no => return yes,
            Node::Constant(0) => return no,
            Node::Constant(_) => return yes,
            Node::Not(inner) => return self.select(inner, no, yes),
            _ => {}
        }
        if width == 1 {
            match (self.constant_value(yes), self.constant_value(no)) {
                (Some(1), Some(0)) => return condition,
                (Some(0), Some(1)) => return self.not(condition),
                _ => {}
            }
        }
        let chosen = if self.value(condition) == 0 { no } else { yes };
        let value = self.value(chosen);
        self.add(Node::Select(condition, yes, no), width, value)
    }

    /// The operands of a node.
    pub fn operands(&self, of: Expr) -> impl Iterator<Item = Expr> + use<> {
        let operands = match self.node(of) {
            Node::Constant(_) | Node::Variable(_) => [None; 3],
            Node::Not(a) | Node::Extract(a, _) | Node::ZeroExtend(a) | Node::SignExtend(a) => {
                [Some(a), None, None]
            }
            Node::Binary(_, a, b) => [Some(a), Some(b), None],
            Node::Select(c, a, b) => [Some(c), Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }

    /// The variables that an expression depends on.
    pub fn variables(&self, of: Expr) -> Vec<Variable> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let mut waiting = vec![of];
        while let Some(next) = waiting.pop() {
            if !seen.insert(next) {
                continue;
            }
            if let Node::Variable(variable) = self.node(next) {
                found.push(variable);
            }
            waiting.extend(self.operands(next));
        }
        found.sort_unstable();
        found
    }

    /// All variables that there are, in order.
    pub fn all_variables(&self) -> Vec<Variable> {
        let nodes = self.entries.iter();
        let mut found: Vec<Variable> = nodes
            .filter_map(|entry| match entry.node {
                Node::Variable(variable) => Some(variable),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// The value of an expression if `leaf` has another one. `None` if the expression depends on variables in another way.
    pub fn value_if(&self, of: Expr, leaf: Expr, value: u128) -> Option<u128> {
        let mut known = FxHashMap::default();
        known.insert(leaf, value);
        self.evaluate(of, &mut known)
    }

    /// The value of an expression, given those of some of its parts, to which those of others are added.
    pub fn evaluate(&self, of: Expr, known: &mut FxHashMap<Expr, u128>) -> Option<u128> {
        // Without recursion over the depth of the expression, which a loop of the target can make as large as it likes.
        let mut waiting = vec![of];
        while let Some(&next) = waiting.last() {
            if known.contains_key(&next) {
                waiting.pop();
                continue;
            }
            let before = waiting.len();
            waiting.extend(self.operands(next).filter(|it| !known.contains_key(it)));
            if waiting.len() == before {
                let value = self.apply(next, known)?;
                known.insert(next, value & ones(self.width(next)));
                waiting.pop();
            }
        }
        known.get(&of).copied()
    }

    /// The value of a node whose operands have theirs.
    fn apply(&self, of: Expr, known: &FxHashMap<Expr, u128>) -> Option<u128> {
        Some(match self.node(of) {
            Node::Constant(value) => value,
            Node::Variable(_) => return None,
            Node::Not(a) => !known[&a],
            Node::Binary(BinaryOperation::Concat, high, low) => {
                known[&high] << self.width(low) | known[&low]
            }
            Node::Binary(operation, a, b) => {
                compute(operation, known[&a], known[&b], self.width(a))
            }
            Node::Extract(a, low) => known[&a] >> low,
            Node::ZeroExtend(a) => known[&a],
            Node::SignExtend(a) => signed(known[&a], self.width(a)) as u128,
            Node::Select(c, a, b) => match known[&c] {
                0 => known[&b],
                _ => known[&a],
            },
        })
    }
}

#[cfg(test)]
mod tests;
