//! Bit tests, bit scans, counts and the bit instructions of BMI.

use iced_x86::{Mnemonic, OpKind};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::{FlagName, FlagSource};
use crate::expression::{BinaryOperation, Expr};
use crate::path::ConcretisationCause;

impl InstructionReplay<'_, '_> {
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
            M::Bextr => self.extract_bits(),
            M::Pext | M::Pdep => self.gather_bits(mnemonic == M::Pext),
            M::Crc32 => self.crc32(),
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
            // What processors do with the destination is not defined; most keep it.
            false if self.dag.value(a) == 0 => return Err(Unmodelled),
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

    /// Bits from an index on, as many as the second byte of the control says.
    fn extract_bits(&mut self) -> Modelled {
        use BinaryOperation as Op;
        let (a, control) = (self.read(1)?, self.read(2)?);
        let width = self.dag.width(a);
        let (start, count) = (
            self.dag.extract(control, 0, 8),
            self.dag.extract(control, 8, 8),
        );
        let start = self.dag.zero_extend(start, width);
        let shifted = self.binary(Op::Lshr, a, start);
        let count = self.dag.zero_extend(count, width);
        let all = self.dag.constant(width, u128::MAX);
        let gone = self.binary(Op::Shl, all, count);
        let kept = self.dag.not(gone);
        let result = self.dag.and(shifted, kept);
        self.set_flags(FlagSource::Logic { r: result });
        self.undefined(&[FlagName::Sign, FlagName::Parity]);
        self.write(0, result)
    }

    /// Collects the bits under a mask, or spreads them; the mask is what it was.
    fn gather_bits(&mut self, collects: bool) -> Modelled {
        let (a, mask) = (self.read(1)?, self.read(2)?);
        self.concretise(mask, ConcretisationCause::Count);
        let mask = self.dag.value(mask);
        let width = self.dag.width(a);
        let zero = self.dag.constant(1, 0);
        let mut bits = vec![zero; width as usize];
        let places = (0..width).filter(|place| mask >> place & 1 != 0);
        for (index, place) in (0..width).zip(places) {
            let (from, to) = if collects {
                (place, index)
            } else {
                (index, place)
            };
            bits[to as usize] = self.dag.extract(a, from, 1);
        }
        let result = self.joined(&bits);
        self.write(0, result)
    }

    /// The remainder of the division by the polynomial of CRC-32C, a bit at a time.
    fn crc32(&mut self) -> Modelled {
        const REVERSED_POLYNOMIAL: u128 = 0x82f6_3b78;
        let start = self.read(0)?;
        let mut crc = self.dag.extract(start, 0, 32);
        let data = match self.insn.op_kind(1) {
            OpKind::Memory => self.load(self.insn.memory_size().size())?,
            _ => self.register(self.insn.op_register(1))?,
        };
        let polynomial = self.dag.constant(32, REVERSED_POLYNOMIAL);
        for byte in self.split(data) {
            let byte = self.dag.zero_extend(byte, 32);
            crc = self.dag.xor(crc, byte);
            for _ in 0..8 {
                let low = self.dag.extract(crc, 0, 1);
                let taken = self.dag.sign_extend(low, 32);
                let taken = self.dag.and(taken, polynomial);
                let rest = self.dag.extract(crc, 1, 31);
                let rest = self.dag.zero_extend(rest, 32);
                crc = self.dag.xor(rest, taken);
            }
        }
        let crc = self.dag.zero_extend(crc, self.width(0));
        self.write(0, crc)
    }
}
