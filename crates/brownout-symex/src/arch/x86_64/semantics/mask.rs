//! Mask registers of AVX-512: comparisons that write them, and moves and logic between them.

use iced_x86::{Mnemonic, OpKind, Register};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::FlagName;
use crate::expression::{BinaryOperation, Expr};

impl InstructionReplay<'_, '_> {
    pub(super) fn mask(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        const EQUAL: u8 = 0;
        const GREATER: u8 = 6;
        match mnemonic {
            M::Vpcmpeqb => self.compare(1, EQUAL, false),
            M::Vpcmpeqw => self.compare(2, EQUAL, false),
            M::Vpcmpeqd => self.compare(4, EQUAL, false),
            M::Vpcmpeqq => self.compare(8, EQUAL, false),
            M::Vpcmpub => self.compare(1, self.insn.immediate8(), false),
            M::Vpcmpuw => self.compare(2, self.insn.immediate8(), false),
            M::Vpcmpud => self.compare(4, self.insn.immediate8(), false),
            M::Vpcmpb => self.compare(1, self.insn.immediate8(), true),
            M::Vpcmpw => self.compare(2, self.insn.immediate8(), true),
            M::Vpcmpd => self.compare(4, self.insn.immediate8(), true),
            M::Vpcmpq => self.compare(8, self.insn.immediate8(), true),
            M::Vpcmpuq => self.compare(8, self.insn.immediate8(), false),
            M::Vpcmpgtb => self.compare(1, GREATER, true),
            M::Vpcmpgtw => self.compare(2, GREATER, true),
            M::Vpcmpgtd => self.compare(4, GREATER, true),
            M::Vpcmpgtq => self.compare(8, GREATER, true),
            M::Vptestnmb => self.test(1, true),
            M::Vptestnmw => self.test(2, true),
            M::Vptestnmd => self.test(4, true),
            M::Vptestmb => self.test(1, false),
            M::Vptestmw => self.test(2, false),
            M::Vptestmd => self.test(4, false),
            M::Vptestnmq => self.test(8, true),
            M::Vptestmq => self.test(8, false),
            M::Vpmovb2m => self.signs(1),
            M::Vpmovw2m => self.signs(2),
            M::Vpmovd2m => self.signs(4),
            M::Vpmovq2m => self.signs(8),
            M::Kmovb => self.move_bits(8),
            M::Kmovw => self.move_bits(16),
            M::Kmovd => self.move_bits(32),
            M::Kmovq => self.move_bits(64),
            M::Korb | M::Korw | M::Kord | M::Korq => {
                self.mask_logic(|step, a, b| step.binary(Op::Or, a, b))
            }
            M::Kandb | M::Kandw | M::Kandd | M::Kandq => {
                self.mask_logic(|step, a, b| step.binary(Op::And, a, b))
            }
            M::Kxorb | M::Kxorw | M::Kxord | M::Kxorq => {
                self.mask_logic(|step, a, b| step.binary(Op::Xor, a, b))
            }
            M::Kandnb | M::Kandnw | M::Kandnd | M::Kandnq => self.mask_logic(|step, a, b| {
                let a = step.dag.not(a);
                step.binary(Op::And, a, b)
            }),
            M::Kxnorb | M::Kxnorw | M::Kxnord | M::Kxnorq => self.mask_logic(|step, a, b| {
                let differ = step.binary(Op::Xor, a, b);
                step.dag.not(differ)
            }),
            M::Kaddb | M::Kaddw | M::Kaddd | M::Kaddq => {
                self.mask_logic(|step, a, b| step.dag.add_of(a, b))
            }
            M::Knotb | M::Knotw | M::Knotd | M::Knotq => {
                let a = self.mask_register(self.insn.op_register(1))?;
                let a = self.dag.not(a);
                let value = self.dag.extract(a, 0, self.mask_width());
                self.set_mask_register(self.insn.op_register(0), value)
            }
            M::Kshiftlb | M::Kshiftlw | M::Kshiftld | M::Kshiftlq => self.shift_mask(Op::Shl),
            M::Kshiftrb | M::Kshiftrw | M::Kshiftrd | M::Kshiftrq => self.shift_mask(Op::Lshr),
            M::Ktestb | M::Ktestw | M::Ktestd | M::Ktestq => self.mask_test(),
            M::Kortestb => self.or_test(8),
            M::Kortestw => self.or_test(16),
            M::Kortestd => self.or_test(32),
            M::Kortestq => self.or_test(64),
            M::Kunpckbw => self.unpack_masks(8),
            M::Kunpckwd => self.unpack_masks(16),
            M::Kunpckdq => self.unpack_masks(32),
            _ => Err(Unmodelled),
        }
    }

    /// All 64 bits of a mask register.
    pub(super) fn mask_register(&mut self, register: Register) -> Result<Expr, Unmodelled> {
        if !register.is_k() {
            return Err(Unmodelled);
        }
        let number = register.number();
        let recorded = { self.masks.iter() }.find(|(known, _)| usize::from(*known) == number);
        let Some(&(_, recorded)) = recorded else {
            return Err(Unmodelled);
        };
        match self.thread.masks[number] {
            Some(expr) if self.dag.value(expr) == u128::from(recorded) => Ok(expr),
            Some(_) => {
                self.path.mismatch(self.insn.ip(), "a mask register");
                self.thread.masks[number] = None;
                Ok(self.dag.constant(64, u128::from(recorded)))
            }
            None => Ok(self.dag.constant(64, u128::from(recorded))),
        }
    }

    fn set_mask_register(&mut self, register: Register, value: Expr) -> Modelled {
        if !register.is_k() {
            return Err(Unmodelled);
        }
        let value = self.dag.zero_extend(value, 64);
        let is_constant = self.dag.constant_value(value).is_some();
        self.thread.masks[register.number()] = (!is_constant).then_some(value);
        Ok(())
    }

    /// Bits, lowest first, as an expression; bits that a write mask leaves out are 0.
    fn set_mask_bits(&mut self, bits: &[Expr]) -> Modelled {
        let mut value = bits[0];
        for &bit in &bits[1..] {
            value = self.dag.concat(bit, value);
        }
        if self.insn.op_mask() != Register::None {
            let mask = self.mask_register(self.insn.op_mask())?;
            let mask = self.dag.extract(mask, 0, bits.len() as u32);
            value = self.dag.and(value, mask);
        }
        self.set_mask_register(self.insn.op_register(0), value)
    }

    /// The two vectors that a comparison compares, by elements.
    fn compared_elements(&mut self, element: usize) -> Result<Vec<(Expr, Expr)>, Unmodelled> {
        if !self.insn.op_register(0).is_k() {
            return Err(Unmodelled);
        }
        let size = self.insn.op_register(1).size();
        let (a, b) = (self.vector_bytes(1, size)?, self.vector_bytes(2, size)?);
        let pairs = a.chunks(element).zip(b.chunks(element));
        Ok(pairs
            .map(|(x, y)| (self.joined(x), self.joined(y)))
            .collect())
    }

    fn compare(&mut self, element: usize, predicate: u8, signed: bool) -> Modelled {
        let mut bits = Vec::new();
        for (x, y) in self.compared_elements(element)? {
            let less = |step: &mut Self, a, b| match signed {
                true => step.binary(BinaryOperation::Slt, a, b),
                false => step.dag.ult(a, b),
            };
            let holds = match predicate & 3 {
                0 => self.dag.eq(x, y),
                1 => less(self, x, y),
                2 => {
                    let greater = less(self, y, x);
                    self.dag.not(greater)
                }
                _ => self.dag.constant(1, 0),
            };
            bits.push(if predicate & 4 != 0 {
                self.dag.not(holds)
            } else {
                holds
            });
        }
        self.set_mask_bits(&bits)
    }

    fn test(&mut self, element: usize, negated: bool) -> Modelled {
        let mut bits = Vec::new();
        for (x, y) in self.compared_elements(element)? {
            let both = self.dag.and(x, y);
            let none = self.dag.is_zero(both);
            bits.push(if negated { none } else { self.dag.not(none) });
        }
        self.set_mask_bits(&bits)
    }

    /// The highest bit of each element.
    fn signs(&mut self, element: usize) -> Modelled {
        let size = self.insn.op_register(1).size();
        let bytes = self.vector_bytes(1, size)?;
        let mut bits = Vec::new();
        for part in bytes.chunks(element) {
            bits.push(self.dag.extract(part[element - 1], 7, 1));
        }
        self.set_mask_bits(&bits)
    }

    fn move_bits(&mut self, width: u32) -> Modelled {
        let source = match self.insn.op_kind(1) {
            OpKind::Memory => self.load(width as usize / 8)?,
            _ if self.insn.op_register(1).is_k() => self.mask_register(self.insn.op_register(1))?,
            _ => self.register(self.insn.op_register(1))?,
        };
        let value = self.dag.extract(source, 0, width);
        match self.insn.op_kind(0) {
            OpKind::Memory => self.write(0, value),
            _ if self.insn.op_register(0).is_k() => {
                self.set_mask_register(self.insn.op_register(0), value)
            }
            _ => {
                let value = self.dag.zero_extend(value, 64);
                self.set_register(self.insn.op_register(0).full_register(), value)
            }
        }
    }

    /// The number of bits that an instruction uses of mask registers, by the last letter of its name.
    fn mask_width(&self) -> u32 {
        let name = format!("{:?}", self.insn.mnemonic());
        match name.as_bytes().last() {
            Some(b'b') => 8,
            Some(b'w') => 16,
            Some(b'd') => 32,
            _ => 64,
        }
    }

    fn shift_mask(&mut self, operation: BinaryOperation) -> Modelled {
        let width = self.mask_width();
        let a = self.mask_register(self.insn.op_register(1))?;
        let a = self.dag.extract(a, 0, width);
        let by = self.dag.constant(width, u128::from(self.insn.immediate8()));
        // What the width cannot hold would be a smaller distance.
        let shifted = match u32::from(self.insn.immediate8()) >= width {
            true => self.dag.constant(width, 0),
            false => self.binary(operation, a, by),
        };
        self.set_mask_register(self.insn.op_register(0), shifted)
    }

    fn mask_test(&mut self) -> Modelled {
        let width = self.mask_width();
        let a = self.mask_register(self.insn.op_register(0))?;
        let b = self.mask_register(self.insn.op_register(1))?;
        let (a, b) = (self.dag.extract(a, 0, width), self.dag.extract(b, 0, width));
        let both = self.dag.and(a, b);
        let none = self.dag.is_zero(both);
        let not_a = self.dag.not(a);
        let outside = self.dag.and(not_a, b);
        let contained = self.dag.is_zero(outside);
        self.clear_flags();
        self.set_flag(FlagName::Zero, none);
        self.set_flag(FlagName::Carry, contained);
        Ok(())
    }

    fn mask_logic(&mut self, work: impl Fn(&mut Self, Expr, Expr) -> Expr) -> Modelled {
        let a = self.mask_register(self.insn.op_register(1))?;
        let b = self.mask_register(self.insn.op_register(2))?;
        let value = work(self, a, b);
        let value = self.dag.extract(value, 0, self.mask_width());
        self.set_mask_register(self.insn.op_register(0), value)
    }

    fn or_test(&mut self, width: u32) -> Modelled {
        let a = self.mask_register(self.insn.op_register(0))?;
        let b = self.mask_register(self.insn.op_register(1))?;
        let any = self.dag.or(a, b);
        let any = self.dag.extract(any, 0, width);
        let none = self.dag.is_zero(any);
        let all = self.dag.constant(width, u128::MAX);
        let all = self.dag.eq(any, all);
        self.clear_flags();
        self.set_flag(FlagName::Zero, none);
        self.set_flag(FlagName::Carry, all);
        Ok(())
    }

    fn unpack_masks(&mut self, width: u32) -> Modelled {
        let a = self.mask_register(self.insn.op_register(1))?;
        let b = self.mask_register(self.insn.op_register(2))?;
        let (high, low) = (self.dag.extract(a, 0, width), self.dag.extract(b, 0, width));
        let value = self.dag.concat(high, low);
        self.set_mask_register(self.insn.op_register(0), value)
    }
}
