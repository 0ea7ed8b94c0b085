//! DWARF expressions as unwind tables use them: a stack machine over registers and memory.

use crate::arch::instruments::unwind::registers::Gpr;
use crate::arch::instruments::unwind::registers::{RETURN_ADDRESS, gpr_of_dwarf};
use crate::instruments::unwind::Memory;
use crate::instruments::unwind::step::State;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gimli::{EndianSlice, LittleEndian, Operation};

/// Operations carried out before an expression is taken for an endless loop.
const MAX_OPERATIONS: usize = 256;
/// Values on the machine's stack.
const MAX_DEPTH: usize = 32;
/// Longer ones are refused; those in use have some ten bytes.
pub(crate) const MAX_BYTES: usize = 1024;

const ENCODING: gimli::Encoding = gimli::Encoding {
    address_size: 8,
    format: gimli::Format::Dwarf32,
    version: 4,
};

/// An expression's bytes, copied so that they outlive the tables they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression(pub Box<[u8]>);

/// What an evaluation read.
pub(crate) trait Witness {
    fn register(&mut self, register: u8);
    fn word(&mut self, addr: u64);
}

struct Machine {
    values: [u64; MAX_DEPTH],
    depth: usize,
}

impl Machine {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.depth)? = value;
        self.depth += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_sub(1)?;
        self.values.get(self.depth).copied()
    }

    /// The value `index` places below the top.
    fn pick(&self, index: usize) -> Option<u64> {
        self.values.get(self.depth.checked_sub(index + 1)?).copied()
    }

    fn binary(&mut self, operation: impl FnOnce(u64, u64) -> Option<u64>) -> Option<()> {
        let right = self.pop()?;
        let left = self.pop()?;
        self.push(operation(left, right)?)
    }

    fn compare(&mut self, holds: impl FnOnce(&i64, &i64) -> bool) -> Option<()> {
        self.binary(|left, right| Some(u64::from(holds(&left.cast_signed(), &right.cast_signed()))))
    }
}

impl Expression {
    /// The value of the expression in `state`; `initial` is pushed first where the rule says so.
    /// `None` for expressions that are wrong, too long, or meant for debuggers.
    pub fn evaluate(
        &self,
        state: &State,
        initial: Option<u64>,
        mem: &impl Memory,
        witness: &mut impl Witness,
    ) -> Option<u64> {
        let mut machine = Machine {
            values: [0; MAX_DEPTH],
            depth: 0,
        };
        if let Some(initial) = initial {
            machine.push(initial)?;
        }
        let mut rest = EndianSlice::new(&self.0, LittleEndian);
        for _ in 0..MAX_OPERATIONS {
            if rest.is_empty() {
                return machine.pop();
            }
            let operation = Operation::parse(&mut rest, ENCODING).ok()?;
            match operation {
                Operation::Bra { target } => {
                    if machine.pop()? != 0 {
                        rest = self.branch(rest.len(), target)?;
                    }
                }
                Operation::Skip { target } => rest = self.branch(rest.len(), target)?,
                Operation::RegisterOffset {
                    register, offset, ..
                } => {
                    let base = if register == RETURN_ADDRESS {
                        state.pc()
                    } else {
                        let gpr = gpr_of_dwarf(register)?;
                        witness.register(gpr);
                        state.value(gpr, mem)?
                    };
                    machine.push(base.wrapping_add_signed(offset))?;
                }
                Operation::Deref {
                    size, space: false, ..
                } => {
                    let addr = machine.pop()?;
                    let word = mem.read_u64(addr)?;
                    witness.word(addr);
                    machine.push(match size {
                        8 => word,
                        4 => word & 0xffff_ffff,
                        2 => word & 0xffff,
                        1 => word & 0xff,
                        _ => return None,
                    })?;
                }
                other => machine.calculate(&other)?,
            }
        }
        None
    }

    /// The register and the offset, if the expression is no more than that.
    pub fn as_register(&self) -> Option<(Gpr, i64)> {
        match *self.operations()? {
            [
                Operation::RegisterOffset {
                    register, offset, ..
                },
            ] => Some((gpr_of_dwarf(register)?, offset)),
            _ => None,
        }
    }

    /// A register and an offset, the word found there, and what is added to it, if the expression is
    /// no more than that.
    pub fn as_loaded(&self) -> Option<(Gpr, i64, i64)> {
        let operations = self.operations()?;
        let (load, plus) = match *operations {
            [ref load @ .., Operation::PlusConstant { value }] => (load, value.cast_signed()),
            ref load => (load, 0),
        };
        match *load {
            [
                Operation::RegisterOffset {
                    register, offset, ..
                },
                Operation::Deref {
                    size: 8,
                    space: false,
                    ..
                },
            ] => Some((gpr_of_dwarf(register)?, offset, plus)),
            _ => None,
        }
    }

    /// The operations of a short expression.
    fn operations(&self) -> Option<Vec<Operation<EndianSlice<'_, LittleEndian>>>> {
        const SHORT: usize = 3;
        let mut rest = EndianSlice::new(&self.0, LittleEndian);
        let mut operations = Vec::new();
        while !rest.is_empty() && operations.len() <= SHORT {
            operations.push(Operation::parse(&mut rest, ENCODING).ok()?);
        }
        Some(operations)
    }

    /// The bytes that follow a jump made with `remaining` bytes left.
    fn branch(&self, remaining: usize, target: i16) -> Option<EndianSlice<'_, LittleEndian>> {
        let here = self.0.len().checked_sub(remaining)?;
        let there = here.checked_add_signed(isize::from(target))?;
        Some(EndianSlice::new(self.0.get(there..)?, LittleEndian))
    }
}

impl Machine {
    /// Operations that concern nothing but the stack of values.
    fn calculate(&mut self, operation: &Operation<EndianSlice<'_, LittleEndian>>) -> Option<()> {
        match *operation {
            Operation::Nop => Some(()),
            Operation::UnsignedConstant { value } | Operation::Address { address: value } => {
                self.push(value)
            }
            Operation::SignedConstant { value } => self.push(value.cast_unsigned()),
            Operation::Drop => self.pop().map(|_| ()),
            Operation::Pick { index } => {
                let value = self.pick(usize::from(index))?;
                self.push(value)
            }
            Operation::Swap => {
                let (top, second) = (self.pop()?, self.pop()?);
                self.push(top)?;
                self.push(second)
            }
            Operation::Rot => {
                let (top, second, third) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(top)?;
                self.push(third)?;
                self.push(second)
            }
            Operation::PlusConstant { value } => {
                let sum = self.pop()?.wrapping_add(value);
                self.push(sum)
            }
            Operation::Abs => {
                let magnitude = self.pop()?.cast_signed().unsigned_abs();
                self.push(magnitude)
            }
            Operation::Neg => {
                let negated = self.pop()?.wrapping_neg();
                self.push(negated)
            }
            Operation::Not => {
                let inverted = !self.pop()?;
                self.push(inverted)
            }
            Operation::And => self.binary(|a, b| Some(a & b)),
            Operation::Or => self.binary(|a, b| Some(a | b)),
            Operation::Xor => self.binary(|a, b| Some(a ^ b)),
            Operation::Plus => self.binary(|a, b| Some(a.wrapping_add(b))),
            Operation::Minus => self.binary(|a, b| Some(a.wrapping_sub(b))),
            Operation::Mul => self.binary(|a, b| Some(a.wrapping_mul(b))),
            Operation::Div => self.binary(|a, b| {
                a.cast_signed()
                    .checked_div(b.cast_signed())
                    .map(i64::cast_unsigned)
            }),
            Operation::Mod => self.binary(u64::checked_rem),
            Operation::Shl => self.binary(|a, b| Some(shift(b).map_or(0, |n| a << n))),
            Operation::Shr => self.binary(|a, b| Some(shift(b).map_or(0, |n| a >> n))),
            Operation::Shra => self
                .binary(|a, b| Some((a.cast_signed() >> shift(b).unwrap_or(63)).cast_unsigned())),
            Operation::Eq => self.compare(i64::eq),
            Operation::Ne => self.compare(i64::ne),
            Operation::Lt => self.compare(i64::lt),
            Operation::Le => self.compare(i64::le),
            Operation::Gt => self.compare(i64::gt),
            Operation::Ge => self.compare(i64::ge),
            _ => None,
        }
    }
}

/// A shift count below the width of a word.
fn shift(count: u64) -> Option<u32> {
    u32::try_from(count).ok().filter(|&n| n < 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::unwind::Registers;

    struct NoMemory;

    impl Memory for NoMemory {
        fn read_u64(&self, _: u64) -> Option<u64> {
            None
        }
        fn slice(&self, _: u64, _: usize) -> Option<&[u8]> {
            None
        }
    }

    #[derive(Default)]
    struct Seen(Vec<u8>);

    impl Witness for Seen {
        fn register(&mut self, register: u8) {
            self.0.push(register);
        }
        fn word(&mut self, _: u64) {}
    }

    fn evaluate(bytes: &[u8]) -> Option<u64> {
        let mut regs = Registers {
            pc: 0x1234,
            gpr: [0; crate::arch::instruments::unwind::registers::GPRS],
        };
        regs.gpr[4] = 0x7000;
        let state = State::of(&regs);
        Expression(bytes.into()).evaluate(&state, None, &NoMemory, &mut Seen::default())
    }

    #[test]
    fn arithmetic() {
        // breg7 (the stack pointer) + 8
        assert_eq!(evaluate(&[0x77, 8]), Some(0x7008));
        // lit7 lit3 minus, lit2 mul, lit1 shl
        assert_eq!(
            evaluate(&[0x37, 0x33, 0x1c, 0x32, 0x1e, 0x31, 0x24]),
            Some(16)
        );
        // lit1 lit2 lit3 rot: 3 goes below, 2 is on top
        assert_eq!(evaluate(&[0x31, 0x32, 0x33, 0x17]), Some(2));
        // lit0 not, lit4 shra: still all ones
        assert_eq!(evaluate(&[0x30, 0x20, 0x34, 0x26]), Some(u64::MAX));
        // const1s -1, lit0 lt: signed
        assert_eq!(evaluate(&[0x09, 0xff, 0x30, 0x2d]), Some(1));
    }

    #[test]
    fn branches() {
        // lit1 bra +1; [lit9]; lit5
        assert_eq!(evaluate(&[0x31, 0x28, 1, 0, 0x39, 0x35]), Some(5));
        // skip -3: without end
        assert_eq!(evaluate(&[0x2f, 0xfd, 0xff]), None);
        // skip out of the expression
        assert_eq!(evaluate(&[0x2f, 0x40, 0]), None);
    }

    #[test]
    fn nonsense_has_no_value() {
        assert_eq!(evaluate(&[]), None, "nothing");
        assert_eq!(evaluate(&[0x22]), None, "plus of nothing");
        assert_eq!(evaluate(&[0x31, 0x30, 0x1b]), None, "division by zero");
        assert_eq!(evaluate(&[0x31; 40]), None, "too much on the stack");
        assert_eq!(evaluate(&[0x77, 0, 0x06]), None, "memory that is not there");
        assert_eq!(evaluate(&[0xff]), None, "no operation");
    }

    #[test]
    fn short_forms_are_seen() {
        let expression = |bytes: &[u8]| Expression(bytes.into());
        assert_eq!(expression(&[0x76, 0x70]).as_register(), Some((5, -16)));
        assert_eq!(
            expression(&[0x76, 0x78, 0x06]).as_loaded(),
            Some((5, -8, 0))
        );
        assert_eq!(
            expression(&[0x77, 0x10, 0x06, 0x23, 8]).as_loaded(),
            Some((4, 16, 8))
        );
        assert_eq!(expression(&[0x77, 0x10, 0x06, 0x06]).as_loaded(), None);
    }
}
