//! Moves, arithmetic, logic, the stack and calls.

use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

use super::{InstructionReplay, Modelled, Unmodelled, gpr_number};
use crate::arch::x86_64::flags::{FlagName, FlagSource, flag, top};
use crate::expression::{BinaryOperation, Expr};
use crate::path::{ConcretisationCause, ConstraintKind};

const RAX: usize = 0;
const RDX: usize = 2;
const RSP: usize = 4;
const RBP: usize = 5;

impl InstructionReplay<'_, '_> {
    pub(super) fn integer(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        match mnemonic {
            M::Mov | M::Movnti => self.copy(),
            M::Movzx => self.extended(false),
            M::Movsx | M::Movsxd => self.extended(true),
            M::Lea => {
                let address = self.address_expression(false);
                let width = self.width(0);
                let address = self.dag.extract(address, 0, width);
                self.write(0, address)
            }
            M::Adcx | M::Adox => self.sum_with_one_flag(mnemonic == M::Adcx),
            M::Add | M::Xadd | M::Adc | M::Sub | M::Sbb | M::Cmp => self.sum(mnemonic),
            M::And | M::Or | M::Xor | M::Test | M::Andn => self.logic(mnemonic),
            M::Not => {
                let a = self.read(0)?;
                let result = self.dag.not(a);
                self.write(0, result)
            }
            M::Neg => {
                let b = self.read(0)?;
                let a = self.dag.constant(self.dag.width(b), 0);
                let r = self.dag.neg(b);
                self.set_flags(FlagSource::Difference { a, b, r });
                self.write(0, r)
            }
            M::Inc | M::Dec => self.increment(mnemonic == M::Inc),
            M::Imul if self.insn.op_count() > 1 => self.signed_product(),
            M::Mul | M::Imul => self.wide_product(mnemonic == M::Imul),
            M::Mulx => self.product_without_flags(),
            M::Div | M::Idiv => self.division(mnemonic == M::Idiv),
            M::Cbw => self.extend_within(Register::AL, Register::AX),
            M::Cwde => self.extend_within(Register::AX, Register::EAX),
            M::Cdqe => self.extend_within(Register::EAX, Register::RAX),
            M::Cwd => self.extend_above(Register::AX, Register::DX),
            M::Cdq => self.extend_above(Register::EAX, Register::EDX),
            M::Cqo => self.extend_above(Register::RAX, Register::RDX),
            M::Xchg => {
                let (a, b) = (self.read(0)?, self.read(1)?);
                self.write(0, b)?;
                self.write(1, a)
            }
            M::Cmpxchg => self.compare_and_exchange(),
            M::Bswap | M::Movbe => {
                let source = if mnemonic == M::Bswap { 0 } else { 1 };
                let value = self.read(source)?;
                let swapped = self.swapped(value);
                self.write(0, swapped)
            }
            M::Push | M::Pop | M::Leave => self.stack(mnemonic),
            M::Clc | M::Stc | M::Cmc => {
                let carry = match mnemonic {
                    M::Clc => self.dag.constant(1, 0),
                    M::Stc => self.dag.constant(1, 1),
                    _ => {
                        let carry = self.flag(FlagName::Carry);
                        self.dag.not(carry)
                    }
                };
                self.set_flag(FlagName::Carry, carry);
                Ok(())
            }
            _ if self.insn.condition_code() != iced_x86::ConditionCode::None => self.conditional(),
            _ => self.transfer(),
        }
    }

    fn copy(&mut self) -> Modelled {
        let value = self.read(1)?;
        self.write(0, value)
    }

    fn extended(&mut self, signed: bool) -> Modelled {
        let value = self.read(1)?;
        let width = self.width(0);
        let value = match signed {
            true => self.dag.sign_extend(value, width),
            false => self.dag.zero_extend(value, width),
        };
        self.write(0, value)
    }

    fn extend_within(&mut self, from: Register, to: Register) -> Modelled {
        let value = self.register(from)?;
        let value = self.dag.sign_extend(value, 8 * to.size() as u32);
        self.set_register(to, value)
    }

    fn extend_above(&mut self, from: Register, to: Register) -> Modelled {
        let value = self.register(from)?;
        let width = self.dag.width(value);
        let wide = self.dag.sign_extend(value, 2 * width);
        let high = self.dag.extract(wide, width, width);
        self.set_register(to, high)
    }

    fn sum(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let (a, b) = (self.read(0)?, self.read(1)?);
        let width = self.dag.width(a);
        let r = match mnemonic {
            M::Add | M::Xadd => self.dag.add_of(a, b),
            M::Adc => {
                let carry = self.flag(FlagName::Carry);
                let carry = self.dag.zero_extend(carry, width);
                let sum = self.dag.add_of(a, b);
                self.dag.add_of(sum, carry)
            }
            M::Sbb => {
                let borrow = self.flag(FlagName::Carry);
                let borrow = self.dag.zero_extend(borrow, width);
                let difference = self.dag.sub(a, b);
                self.dag.sub(difference, borrow)
            }
            _ => self.dag.sub(a, b),
        };
        self.set_flags(match mnemonic {
            M::Add | M::Xadd | M::Adc => FlagSource::Sum { a, b, r },
            M::Sbb => FlagSource::Borrowed { a, b, r },
            _ => FlagSource::Difference { a, b, r },
        });
        if mnemonic == M::Xadd {
            self.write(1, a)?;
        }
        if mnemonic == M::Cmp {
            return Ok(());
        }
        self.write(0, r)
    }

    /// A sum whose carry comes from and goes to one flag, and that leaves the others.
    fn sum_with_one_flag(&mut self, carry: bool) -> Modelled {
        let name = if carry {
            FlagName::Carry
        } else {
            FlagName::Overflow
        };
        let (a, b) = (self.read(0)?, self.read(1)?);
        let width = self.dag.width(a);
        let carried = self.flag(name);
        let carried = self.dag.zero_extend(carried, width);
        let sum = self.dag.add_of(a, b);
        let r = self.dag.add_of(sum, carried);
        let out = flag(self.dag, FlagName::Carry, FlagSource::Sum { a, b, r });
        self.set_flag(name, out);
        self.write(0, r)
    }

    fn logic(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let last = self.insn.op_count() - 1;
        let (mut a, b) = (self.read(last - 1)?, self.read(last)?);
        if mnemonic == M::Andn {
            a = self.dag.not(a);
        }
        let operation = match mnemonic {
            M::Or => BinaryOperation::Or,
            M::Xor => BinaryOperation::Xor,
            _ => BinaryOperation::And,
        };
        let r = self.binary(operation, a, b);
        self.set_flags(FlagSource::Logic { r });
        if mnemonic == M::Test {
            return Ok(());
        }
        self.write(0, r)
    }

    fn increment(&mut self, up: bool) -> Modelled {
        let a = self.read(0)?;
        let one = self.dag.constant(self.dag.width(a), 1);
        let r = if up {
            self.dag.add_of(a, one)
        } else {
            self.dag.sub(a, one)
        };
        let carry = self.thread.flags[FlagName::Carry as usize];
        self.set_flags(match up {
            true => FlagSource::Sum { a, b: one, r },
            false => FlagSource::Difference { a, b: one, r },
        });
        self.thread.flags[FlagName::Carry as usize] = carry;
        self.write(0, r)
    }

    /// A product of twice the width.
    pub(super) fn wide(&mut self, a: Expr, b: Expr, signed: bool) -> Expr {
        let width = 2 * self.dag.width(a);
        let (a, b) = match signed {
            true => (
                self.dag.sign_extend(a, width),
                self.dag.sign_extend(b, width),
            ),
            false => (
                self.dag.zero_extend(a, width),
                self.dag.zero_extend(b, width),
            ),
        };
        self.binary(BinaryOperation::Mul, a, b)
    }

    fn set_product_flags(&mut self, overflow: Expr) {
        self.set_flag(FlagName::Carry, overflow);
        self.set_flag(FlagName::Overflow, overflow);
        self.undefined(&[FlagName::Zero, FlagName::Sign, FlagName::Parity]);
    }

    fn signed_product(&mut self) -> Modelled {
        let last = self.insn.op_count() - 1;
        let (a, b) = (self.read(last - 1)?, self.read(last)?);
        let width = self.dag.width(a);
        let wide = self.wide(a, b, true);
        let result = self.binary(BinaryOperation::Mul, a, b);
        let back = self.dag.sign_extend(result, 2 * width);
        let fits = self.dag.eq(back, wide);
        let overflow = self.dag.not(fits);
        self.set_product_flags(overflow);
        self.write(0, result)
    }

    fn wide_product(&mut self, signed: bool) -> Modelled {
        let b = self.read(0)?;
        let width = self.dag.width(b);
        let full = self.gpr(RAX);
        let a = self.dag.extract(full, 0, width);
        let wide = self.wide(a, b, signed);
        let (low, high) = (
            self.dag.extract(wide, 0, width),
            self.dag.extract(wide, width, width),
        );
        let fits = match signed {
            true => {
                let back = self.dag.sign_extend(low, 2 * width);
                self.dag.eq(back, wide)
            }
            false => self.dag.is_zero(high),
        };
        let overflow = self.dag.not(fits);
        self.set_product_flags(overflow);
        self.set_result_pair(low, high, wide)
    }

    /// Writes rdx:rax, or ax for bytes.
    fn set_result_pair(&mut self, low: Expr, high: Expr, wide: Expr) -> Modelled {
        let (to_low, to_high) = match self.dag.width(low) {
            8 => return self.set_register(Register::AX, wide),
            16 => (Register::AX, Register::DX),
            32 => (Register::EAX, Register::EDX),
            _ => (Register::RAX, Register::RDX),
        };
        self.set_register(to_low, low)?;
        self.set_register(to_high, high)
    }

    fn product_without_flags(&mut self) -> Modelled {
        let b = self.read(2)?;
        let width = self.dag.width(b);
        let full = self.gpr(RDX);
        let a = self.dag.extract(full, 0, width);
        let wide = self.wide(a, b, false);
        let (low, high) = (
            self.dag.extract(wide, 0, width),
            self.dag.extract(wide, width, width),
        );
        self.write(1, low)?;
        self.write(0, high)
    }

    fn division(&mut self, signed: bool) -> Modelled {
        let divisor = self.read(0)?;
        let width = self.dag.width(divisor);
        let rax = self.gpr(RAX);
        let dividend = match width {
            8 => self.dag.extract(rax, 0, 16),
            _ => {
                let rdx = self.gpr(RDX);
                let (high, low) = (
                    self.dag.extract(rdx, 0, width),
                    self.dag.extract(rax, 0, width),
                );
                self.dag.concat(high, low)
            }
        };
        let zero = self.dag.is_zero(divisor);
        self.constrain(zero, ConstraintKind::NoFault);
        let (quotient, rest) = match signed {
            false => self.unsigned_division(dividend, divisor),
            true => self.signed_division(dividend, divisor),
        };
        self.undefined(&FlagName::ALL);
        match width {
            8 => {
                let both = self.dag.concat(rest, quotient);
                self.set_register(Register::AX, both)
            }
            _ => self.set_result_pair(quotient, rest, quotient),
        }
    }

    fn unsigned_division(&mut self, dividend: Expr, divisor: Expr) -> (Expr, Expr) {
        let width = self.dag.width(divisor);
        let high = self.dag.extract(dividend, width, width);
        // With nothing above, half the width suffices.
        let (a, b) = match self.dag.constant_value(high) {
            Some(0) => (self.dag.extract(dividend, 0, width), divisor),
            _ => {
                // The processor faults if the quotient does not fit.
                let fits = self.dag.ult(high, divisor);
                self.constrain(fits, ConstraintKind::NoFault);
                (dividend, self.dag.zero_extend(divisor, 2 * width))
            }
        };
        let quotient = self.binary(BinaryOperation::Udiv, a, b);
        let rest = self.binary(BinaryOperation::Urem, a, b);
        (
            self.dag.extract(quotient, 0, width),
            self.dag.extract(rest, 0, width),
        )
    }

    fn signed_division(&mut self, dividend: Expr, divisor: Expr) -> (Expr, Expr) {
        let width = self.dag.width(divisor);
        let low = self.dag.extract(dividend, 0, width);
        let is_extended = self.dag.sign_extend(low, 2 * width) == dividend;
        let (a, b) = match is_extended {
            true => (low, divisor),
            false => (dividend, self.dag.sign_extend(divisor, 2 * width)),
        };
        let (sign_a, sign_b) = (top(self.dag, a), top(self.dag, b));
        let (size_a, size_b) = (self.absolute(a), self.absolute(b));
        let quotient = self.binary(BinaryOperation::Udiv, size_a, size_b);
        let rest = self.binary(BinaryOperation::Urem, size_a, size_b);
        let differ = self.dag.xor(sign_a, sign_b);
        let negative = self.dag.neg(quotient);
        let quotient = self.dag.select(differ, negative, quotient);
        // The processor faults if the quotient does not fit.
        let fits = match is_extended {
            true => {
                let least = self.dag.constant(width, 1 << (width - 1));
                let minus_one = self.dag.constant(width, u128::MAX);
                let (a_is_least, b_is_minus_one) =
                    (self.dag.eq(a, least), self.dag.eq(b, minus_one));
                let overflows = self.dag.and(a_is_least, b_is_minus_one);
                self.dag.not(overflows)
            }
            false => {
                let low = self.dag.extract(quotient, 0, width);
                let back = self.dag.sign_extend(low, 2 * width);
                self.dag.eq(back, quotient)
            }
        };
        self.constrain(fits, ConstraintKind::NoFault);
        let negative = self.dag.neg(rest);
        let rest = self.dag.select(sign_a, negative, rest);
        (
            self.dag.extract(quotient, 0, width),
            self.dag.extract(rest, 0, width),
        )
    }

    pub(super) fn absolute(&mut self, a: Expr) -> Expr {
        let sign = top(self.dag, a);
        let negative = self.dag.neg(a);
        self.dag.select(sign, negative, a)
    }

    fn compare_and_exchange(&mut self) -> Modelled {
        let (a, new) = (self.read(0)?, self.read(1)?);
        let width = self.dag.width(a);
        let rax = self.gpr(RAX);
        let expected = self.dag.extract(rax, 0, width);
        let r = self.dag.sub(expected, a);
        self.set_flags(FlagSource::Difference {
            a: expected,
            b: a,
            r,
        });
        let same = self.dag.eq(expected, a);
        // Whichever register is not written keeps its upper half, too.
        let before = match self.insn.op_kind(0) {
            OpKind::Register => Some(self.gpr(gpr_number(self.insn.op_register(0)))),
            _ => None,
        };
        let stored = self.dag.select(same, new, a);
        self.write(0, stored)?;
        if let Some(before) = before {
            let number = gpr_number(self.insn.op_register(0));
            let after = self.gpr(number);
            let kept = self.dag.select(same, after, before);
            self.set_gpr(number, kept);
        }
        let accumulator = match width {
            8 => Register::AL,
            16 => Register::AX,
            32 => Register::EAX,
            _ => Register::RAX,
        };
        let before = self.gpr(RAX);
        self.set_register(accumulator, a)?;
        let after = self.gpr(RAX);
        let kept = self.dag.select(same, before, after);
        self.set_gpr(RAX, kept);
        Ok(())
    }

    /// The bytes in the opposite order.
    fn swapped(&mut self, value: Expr) -> Expr {
        let bytes = self.dag.width(value) / 8;
        let mut swapped = self.dag.extract(value, 0, 8);
        for index in 1..bytes {
            let byte = self.dag.extract(value, 8 * index, 8);
            swapped = self.dag.concat(swapped, byte);
        }
        swapped
    }

    fn stack(&mut self, mnemonic: Mnemonic) -> Modelled {
        let rsp = self.thread.registers[RSP];
        match mnemonic {
            Mnemonic::Push => {
                let size = u64::from(self.insn.stack_pointer_increment().unsigned_abs());
                let mut value = self.read(0)?;
                let width = 8 * size as u32;
                if self.dag.width(value) < width {
                    value = self.dag.sign_extend(value, width);
                }
                let value = self.dag.extract(value, 0, width);
                self.store(rsp.wrapping_sub(size), value);
                Ok(())
            }
            Mnemonic::Pop => {
                let size = self.insn.stack_pointer_increment() as usize;
                let value = self.load_at(rsp, size)?;
                self.write(0, value)
            }
            _ => {
                let frame = self.gpr(RBP);
                self.concretise(frame, ConcretisationCause::Address);
                let rbp = self.thread.registers[RBP];
                let value = self.load_at(rbp, 8)?;
                self.set_gpr(RBP, value);
                Ok(())
            }
        }
    }

    fn conditional(&mut self) -> Modelled {
        let condition = self.condition(self.insn.condition_code());
        match self.insn.op_count() {
            // setcc
            1 => {
                let value = self.dag.zero_extend(condition, 8);
                self.write(0, value)
            }
            2 => {
                let (old, new) = (self.read(0)?, self.read(1)?);
                let value = self.dag.select(condition, new, old);
                self.write(0, value)
            }
            _ => Err(Unmodelled),
        }
    }

    /// Jumps, calls and returns whose target depends on the input.
    fn transfer(&mut self) -> Modelled {
        let flow = self.insn.flow_control();
        let target = match flow {
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.read(0)?,
            FlowControl::Return => {
                let rsp = self.thread.registers[RSP];
                self.load_at(rsp, 8)?
            }
            FlowControl::Call | FlowControl::UnconditionalBranch => {
                debug_assert!(self.insn.op_kind(0) != OpKind::Register);
                self.dag.constant(64, 0)
            }
            _ => return Err(Unmodelled),
        };
        if matches!(flow, FlowControl::IndirectCall | FlowControl::Call) {
            let rsp = self.thread.registers[RSP];
            self.memory.clear(rsp.wrapping_sub(8), 8);
        }
        let to = self.dag.value(target);
        let constant = self.dag.constant(self.dag.width(target), to);
        let same = self.dag.eq(target, constant);
        self.constrain(same, ConstraintKind::Target { to: to as u64 });
        Ok(())
    }
}
