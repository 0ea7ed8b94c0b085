//! Bit tests, bit scans, counts and the bit instructions of BMI.

use iced_x86::{Mnemonic, OpKind};

use super::{Modelled, Step, Unmodelled};
use crate::arch::x86_64::flags::{FlagName, FlagSource};
use crate::expression::{BinaryOperation, Expr};

impl Step<'_> {
    pub(super) fn bit(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        match mnemonic {
            M::Bt | M::Bts | M::Btr | M::Btc => self.bit_test(mnemonic),
            M::Bsf | M::Bsr | M::Tzcnt | M::Lzcnt => self.scan(mnemonic),
            M::Popcnt => {
                let a = self.read(1)?;
                let count = self.count_ones(a);
                self.set_flags(FlagSource::Logic { r: a });
                let zero = self.dag.constant(1, 0);
                self.set_flag(FlagName::Sign, zero);
                self.set_flag(FlagName::Parity, zero);
                self.write(0, count)
            }
            M::Blsr | M::Blsi | M::Blsmsk => self.lowest_bit(mnemonic),
            M::Bzhi => self.zero_high_bits(),
            _ => Err(Unmodelled),
        }
    }

    fn bit_test(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        let is_far =
            self.insn.op_kind(0) == OpKind::Memory && self.insn.op_kind(1) == OpKind::Register;
        if is_far {
            // The bit may lie outside of the operand.
            return Err(Unmodelled);
        }
        let (a, index) = (self.read(0)?, self.read(1)?);
        let width = self.dag.width(a);
        let mask = self.dag.constant(width, u128::from(width - 1));
        let index = self.dag.and(index, mask);
        let shifted = self.binary(Op::Lshr, a, index);
        let carry = self.dag.extract(shifted, 0, 1);
        self.set_flag(FlagName::Carry, carry);
        self.undefined(&[FlagName::Overflow, FlagName::Sign, FlagName::Parity]);
        if mnemonic == M::Bt {
            return Ok(());
        }
        let one = self.dag.constant(width, 1);
        let bit = self.binary(Op::Shl, one, index);
        let result = match mnemonic {
            M::Bts => self.dag.or(a, bit),
            M::Btc => self.dag.xor(a, bit),
            _ => {
                let others = self.dag.not(bit);
                self.dag.and(a, others)
            }
        };
        self.write(0, result)
    }

    /// Bit scans: the index of the first set bit, from below or from above.
    fn scan(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let a = self.read(1)?;
        let width = self.dag.width(a);
        let is_zero = self.dag.is_zero(a);
        let from_below = matches!(mnemonic, M::Bsf | M::Tzcnt);
        let counts = matches!(mnemonic, M::Tzcnt | M::Lzcnt);
        let mut result = match counts {
            true => self.dag.constant(width, u128::from(width)),
            // Processors keep the destination; the manual leaves it undefined.
            false => self.read(0)?,
        };
        let bits: Vec<u32> = if from_below {
            (0..width).rev().collect()
        } else {
            (0..width).collect()
        };
        for bit in bits {
            let index = if mnemonic == M::Lzcnt {
                width - 1 - bit
            } else {
                bit
            };
            let is_set = self.dag.extract(a, bit, 1);
            let index = self.dag.constant(width, u128::from(index));
            result = self.dag.select(is_set, index, result);
        }
        if counts {
            self.set_flag(FlagName::Carry, is_zero);
            let result_is_zero = self.dag.is_zero(result);
            self.set_flag(FlagName::Zero, result_is_zero);
        } else {
            self.set_flag(FlagName::Zero, is_zero);
            self.undefined(&[FlagName::Carry]);
        }
        self.undefined(&[FlagName::Overflow, FlagName::Sign, FlagName::Parity]);
        self.write(0, result)
    }

    fn count_ones(&mut self, a: Expr) -> Expr {
        let width = self.dag.width(a);
        let mut count = self.dag.constant(width, 0);
        for bit in 0..width {
            let bit = self.dag.extract(a, bit, 1);
            let bit = self.dag.zero_extend(bit, width);
            count = self.dag.add_of(count, bit);
        }
        count
    }

    fn lowest_bit(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let a = self.read(1)?;
        let one = self.dag.constant(self.dag.width(a), 1);
        let below = self.dag.sub(a, one);
        let is_zero = self.dag.is_zero(a);
        let result = match mnemonic {
            M::Blsr => self.dag.and(a, below),
            M::Blsmsk => self.dag.xor(a, below),
            _ => {
                let negative = self.dag.neg(a);
                self.dag.and(a, negative)
            }
        };
        self.set_flags(FlagSource::Logic { r: result });
        let carry = match mnemonic {
            M::Blsi => self.dag.not(is_zero),
            _ => is_zero,
        };
        self.set_flag(FlagName::Carry, carry);
        self.undefined(&[FlagName::Parity]);
        self.write(0, result)
    }

    fn zero_high_bits(&mut self) -> Modelled {
        use BinaryOperation as Op;
        let (a, index) = (self.read(1)?, self.read(2)?);
        let width = self.dag.width(a);
        let index = self.dag.extract(index, 0, 8);
        let limit = self.dag.constant(8, u128::from(width));
        let keeps_some = self.dag.ult(index, limit);
        let all = self.dag.constant(width, u128::MAX);
        let wide = self.dag.zero_extend(index, width);
        let gone = self.binary(Op::Shl, all, wide);
        let kept = self.dag.not(gone);
        let kept = self.dag.and(a, kept);
        let result = self.dag.select(keeps_some, kept, a);
        self.set_flags(FlagSource::Logic { r: result });
        let carry = self.dag.not(keeps_some);
        self.set_flag(FlagName::Carry, carry);
        self.undefined(&[FlagName::Parity]);
        self.write(0, result)
    }
}
