//! DWARF expressions as unwind tables use them: a stack machine over registers and memory.

use crate::unwind::Memory;
use crate::unwind::cfi::gpr_of_dwarf;
use crate::unwind::step::State;
use alloc::boxed::Box;
use gimli::{EndianSlice, LittleEndian, Operation};

/// Operations carried out before an expression is taken for an endless loop.
const MAX_OPERATIONS: usize = 256;
/// Values on the machine's stack.
const MAX_DEPTH: usize = 32;
/// Longer ones are refused; those in use have some ten bytes.
pub(super) const MAX_BYTES: usize = 1024;

const ENCODING: gimli::Encoding = gimli::Encoding {
    address_size: 8,
    format: gimli::Format::Dwarf32,
    version: 4,
};

/// An expression's bytes, copied so that they outlive the tables they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression(pub Box<[u8]>);

/// What an evaluation looked at, beside its result.
pub(super) trait Witness {
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
                    let base = if register == gimli::X86_64::RA {
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
