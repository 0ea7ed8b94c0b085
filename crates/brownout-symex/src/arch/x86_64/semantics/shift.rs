//! Shifts and rotations.

use iced_x86::Mnemonic;

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::{FlagName, parity, top};
use crate::expression::{BinaryOperation, Expr};
use crate::path::ConcretisationCause;

impl InstructionReplay<'_, '_> {
    pub(super) fn shift(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        match mnemonic {
            M::Shl | M::Sal | M::Shr | M::Sar => self.plain_shift(mnemonic),
            M::Rol | M::Ror => self.rotation(mnemonic == M::Rol),
            M::Rcl | M::Rcr => self.rotation_through_carry(mnemonic == M::Rcl),
            M::Shld | M::Shrd => self.double_shift(mnemonic == M::Shld),
            M::Shlx | M::Shrx | M::Sarx => {
                let (a, distance) = (self.read(1)?, self.read(2)?);
                let width = self.dag.width(a);
                let mask = self.dag.constant(width, u128::from(width - 1));
                let distance = self.dag.and(distance, mask);
                let operation = match mnemonic {
                    M::Shlx => Op::Shl,
                    M::Shrx => Op::Lshr,
                    _ => Op::Ashr,
                };
                let result = self.binary(operation, a, distance);
                self.write(0, result)
            }
            M::Rorx => {
                let a = self.read(1)?;
                let width = self.dag.width(a);
                let distance = self.insn.immediate(2) as u32 % width;
                let result = self.rotated_left(a, (width - distance) % width);
                self.write(0, result)
            }
            _ => Err(Unmodelled),
        }
    }

    /// The distance of a shift: what the processor uses of it, as an expression of `width`.
    fn distance(&mut self, operand: u32, width: u32) -> Result<Expr, Unmodelled> {
        let given = match self.insn.try_immediate(operand) {
            Ok(immediate) => self.dag.constant(8, u128::from(immediate)),
            Err(_) => self.read(operand)?,
        };
        let used = if width == 64 { 63 } else { 31 };
        let given = self.dag.extract(given, 0, 8);
        let used = self.dag.constant(8, used);
        let distance = self.dag.and(given, used);
        Ok(match width {
            8 => distance,
            _ => self.dag.zero_extend(distance, width),
        })
    }

    fn plain_shift(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        let a = self.read(0)?;
        let width = self.dag.width(a);
        let distance = self.distance(1, width)?;
        // Flags depend on whether the distance is zero.
        if self.dag.constant_value(distance) == Some(0) {
            return self.write(0, a);
        }
        let operation = match mnemonic {
            M::Shr => Op::Lshr,
            M::Sar => Op::Ashr,
            _ => Op::Shl,
        };
        let result = self.binary(operation, a, distance);
        match self.dag.constant_value(distance) {
            Some(by) => self.set_shift_flags(mnemonic, (a, result), by as u32),
            None => self.symbolic_distance_flags(mnemonic, (a, result), distance),
        }
        self.write(0, result)
    }

    /// A distance, which is what it was if it depends on the input.
    fn fixed(&mut self, distance: Expr) -> u32 {
        self.concretise(distance, ConcretisationCause::Count);
        self.dag.value(distance) as u32
    }

    fn set_result_flags(&mut self, result: Expr) {
        let zero = self.dag.is_zero(result);
        let sign = top(self.dag, result);
        let even = parity(self.dag, result);
        self.set_flag(FlagName::Zero, zero);
        self.set_flag(FlagName::Sign, sign);
        self.set_flag(FlagName::Parity, even);
    }

    /// The bit that a shift by a known distance moves out last.
    fn last_out(&mut self, mnemonic: Mnemonic, a: Expr, by: u32) -> Option<Expr> {
        use Mnemonic as M;
        let width = self.dag.width(a);
        match mnemonic {
            M::Shr | M::Sar if by <= width => Some(self.dag.extract(a, by - 1, 1)),
            M::Sar => Some(top(self.dag, a)),
            M::Shr => Some(self.dag.constant(1, 0)),
            _ if by <= width => Some(self.dag.extract(a, width - by, 1)),
            _ => None,
        }
    }

    fn set_shift_flags(&mut self, mnemonic: Mnemonic, (a, result): (Expr, Expr), by: u32) {
        use Mnemonic as M;
        self.set_result_flags(result);
        match self.last_out(mnemonic, a, by) {
            Some(carry) if by < self.dag.width(a) || mnemonic == M::Sar => {
                self.set_flag(FlagName::Carry, carry);
            }
            // What is left of the carry by a longer shift is undefined.
            _ => self.undefined(&[FlagName::Carry]),
        }
        if by != 1 {
            return self.undefined(&[FlagName::Overflow]);
        }
        let overflow = self.overflow_of_one_place(mnemonic, (a, result));
        self.set_flag(FlagName::Overflow, overflow);
    }

    /// The overflow flag after a shift by one.
    fn overflow_of_one_place(&mut self, mnemonic: Mnemonic, (a, result): (Expr, Expr)) -> Expr {
        use Mnemonic as M;
        match mnemonic {
            M::Shr => top(self.dag, a),
            M::Sar => self.dag.constant(1, 0),
            _ => {
                let (before, after) = (top(self.dag, a), top(self.dag, result));
                self.dag.xor(before, after)
            }
        }
    }

    /// Sets the overflow flag after a shift or rotation by a symbolic distance: it stays if the distance is zero, and is defined if it is
    /// one. `of_one` is what it then is.
    fn symbolic_overflow(&mut self, distance: Expr, of_one: Expr) {
        if self.dag.value(distance) > 1 {
            return self.undefined(&[FlagName::Overflow]);
        }
        let stays = self.dag.is_zero(distance);
        let old = self.flag(FlagName::Overflow);
        let overflow = self.dag.select(stays, old, of_one);
        self.set_flag(FlagName::Overflow, overflow);
    }

    /// If the distance is symbolic, flags are those of the result where it is not zero, and the old ones where it is.
    fn symbolic_distance_flags(
        &mut self,
        mnemonic: Mnemonic,
        (a, result): (Expr, Expr),
        distance: Expr,
    ) {
        use BinaryOperation as Op;
        use Mnemonic as M;
        let width = self.dag.width(a);
        let names = [
            FlagName::Zero,
            FlagName::Sign,
            FlagName::Parity,
            FlagName::Carry,
        ];
        let old = names.map(|name| self.flag(name));
        let stays = self.dag.is_zero(distance);
        // One more place at the end that bits move out to.
        let carry = match mnemonic {
            M::Shr | M::Sar => {
                let one = self.dag.constant(width, 1);
                let before = self.dag.sub(distance, one);
                let operation = if mnemonic == M::Sar {
                    Op::Ashr
                } else {
                    Op::Lshr
                };
                let shifted = self.binary(operation, a, before);
                self.dag.extract(shifted, 0, 1)
            }
            _ => {
                let wide = self.dag.zero_extend(a, width + 1);
                let distance = self.dag.zero_extend(distance, width + 1);
                let shifted = self.binary(Op::Shl, wide, distance);
                self.dag.extract(shifted, width, 1)
            }
        };
        let new = [
            self.dag.is_zero(result),
            top(self.dag, result),
            parity(self.dag, result),
            carry,
        ];
        for ((name, old), new) in names.into_iter().zip(old).zip(new) {
            let value = self.dag.select(stays, old, new);
            self.set_flag(name, value);
        }
        let is_beyond = self.dag.value(distance) >= u128::from(width);
        if is_beyond && mnemonic != M::Sar {
            self.undefined(&[FlagName::Carry]);
        }
        let overflow = self.overflow_of_one_place(mnemonic, (a, result));
        self.symbolic_overflow(distance, overflow);
    }

    fn rotated_left(&mut self, a: Expr, by: u32) -> Expr {
        let width = self.dag.width(a);
        if by == 0 {
            return a;
        }
        let (high, low) = (
            self.dag.extract(a, 0, width - by),
            self.dag.extract(a, width - by, by),
        );
        self.dag.concat(high, low)
    }

    fn rotation(&mut self, left: bool) -> Modelled {
        let a = self.read(0)?;
        let width = self.dag.width(a);
        let distance = self.distance(1, width)?;
        let Some(by) = self.dag.constant_value(distance) else {
            return self.symbolic_rotation(a, distance, left);
        };
        let is_zero = by == 0;
        let by = by as u32;
        let result = match left {
            true => self.rotated_left(a, by % width),
            false => self.rotated_left(a, (width - by % width) % width),
        };
        if !is_zero {
            let sign = top(self.dag, result);
            let low = self.dag.extract(result, 0, 1);
            let carry = if left { low } else { sign };
            self.set_flag(FlagName::Carry, carry);
            let other = match left {
                true => low,
                false => self.dag.extract(result, width - 2, 1),
            };
            if by == 1 {
                let overflow = self.dag.xor(sign, other);
                self.set_flag(FlagName::Overflow, overflow);
            } else {
                self.undefined(&[FlagName::Overflow]);
            }
        }
        self.write(0, result)
    }

    fn symbolic_rotation(&mut self, a: Expr, distance: Expr, left: bool) -> Modelled {
        use BinaryOperation as Op;
        let width = self.dag.width(a);
        let mask = self.dag.constant(width, u128::from(width - 1));
        let by = self.dag.and(distance, mask);
        let back = self.dag.neg(by);
        let back = self.dag.and(back, mask);
        let (up, down) = if left { (by, back) } else { (back, by) };
        let (high, low) = (self.binary(Op::Shl, a, up), self.binary(Op::Lshr, a, down));
        let result = self.dag.or(high, low);
        let stays = self.dag.is_zero(distance);
        let old = self.flag(FlagName::Carry);
        let new = match left {
            true => self.dag.extract(result, 0, 1),
            false => top(self.dag, result),
        };
        let carry = self.dag.select(stays, old, new);
        self.set_flag(FlagName::Carry, carry);
        let sign = top(self.dag, result);
        let other = match left {
            true => new,
            false => self.dag.extract(result, width - 2, 1),
        };
        let overflow = self.dag.xor(sign, other);
        self.symbolic_overflow(distance, overflow);
        self.write(0, result)
    }

    /// A rotation of the operand with the carry above it.
    fn rotation_through_carry(&mut self, left: bool) -> Modelled {
        let a = self.read(0)?;
        let width = self.dag.width(a);
        let distance = self.distance(1, width)?;
        let by = self.fixed(distance);
        if by == 0 {
            return self.write(0, a);
        }
        let carry = self.flag(FlagName::Carry);
        let all = self.dag.concat(carry, a);
        let by_left = match left {
            true => by % (width + 1),
            false => (width + 1 - by % (width + 1)) % (width + 1),
        };
        let all = self.rotated_left(all, by_left);
        let result = self.dag.extract(all, 0, width);
        let carry = self.dag.extract(all, width, 1);
        self.set_flag(FlagName::Carry, carry);
        if by == 1 {
            let sign = top(self.dag, result);
            let other = match left {
                true => carry,
                false => self.dag.extract(result, width - 2, 1),
            };
            let overflow = self.dag.xor(sign, other);
            self.set_flag(FlagName::Overflow, overflow);
        } else {
            self.undefined(&[FlagName::Overflow]);
        }
        self.write(0, result)
    }

    fn double_shift(&mut self, left: bool) -> Modelled {
        let (a, b) = (self.read(0)?, self.read(1)?);
        let width = self.dag.width(a);
        let distance = self.distance(2, width)?;
        let by = self.fixed(distance);
        if by == 0 {
            return self.write(0, a);
        }
        if by >= width {
            return Err(Unmodelled);
        }
        let (result, carry) = match left {
            true => {
                let both = self.dag.concat(a, b);
                let carry = self.dag.extract(a, width - by, 1);
                (self.dag.extract(both, width - by, width), carry)
            }
            false => {
                let both = self.dag.concat(b, a);
                let carry = self.dag.extract(a, by - 1, 1);
                (self.dag.extract(both, by, width), carry)
            }
        };
        self.set_result_flags(result);
        self.set_flag(FlagName::Carry, carry);
        match by {
            1 => {
                let (before, after) = (top(self.dag, a), top(self.dag, result));
                let overflow = self.dag.xor(before, after);
                self.set_flag(FlagName::Overflow, overflow);
            }
            _ => self.undefined(&[FlagName::Overflow]),
        }
        self.write(0, result)
    }
}
