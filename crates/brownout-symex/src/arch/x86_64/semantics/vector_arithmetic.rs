//! Arithmetic on the elements of vectors: what compilers and string functions do to bytes, words and their sums.

use iced_x86::Mnemonic;

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::expression::{BinaryOperation, Expr, ones};

impl InstructionReplay<'_, '_> {
    /// Instructions that compute each element of the result from the same element of both operands.
    pub(super) fn element_arithmetic(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        let plain =
            |operation| move |step: &mut Self, a: Expr, b: Expr| step.binary(operation, a, b);
        match mnemonic {
            M::Pand | M::Andps | M::Andpd | M::Vpand | M::Vandps | M::Vandpd => {
                self.element_wise(1, plain(Op::And))
            }
            M::Vpandd | M::Vpandq => self.element_wise(1, plain(Op::And)),
            M::Por | M::Orps | M::Orpd | M::Vpor | M::Vorps | M::Vorpd => {
                self.element_wise(1, plain(Op::Or))
            }
            M::Vpord | M::Vporq => self.element_wise(1, plain(Op::Or)),
            M::Pxor | M::Xorps | M::Xorpd | M::Vpxor | M::Vxorps | M::Vxorpd => {
                self.element_wise(1, plain(Op::Xor))
            }
            M::Vpxord | M::Vpxorq => self.element_wise(1, plain(Op::Xor)),
            M::Pandn | M::Andnps | M::Andnpd | M::Vpandn | M::Vandnps | M::Vandnpd => {
                self.element_wise(1, Self::and_not)
            }
            M::Vpandnd | M::Vpandnq => self.element_wise(1, Self::and_not),
            M::Pcmpeqb | M::Vpcmpeqb => self.element_wise(1, Self::equal_mask),
            M::Pcmpeqw | M::Vpcmpeqw => self.element_wise(2, Self::equal_mask),
            M::Pcmpeqd | M::Vpcmpeqd => self.element_wise(4, Self::equal_mask),
            M::Pcmpeqq | M::Vpcmpeqq => self.element_wise(8, Self::equal_mask),
            M::Pcmpgtb | M::Vpcmpgtb => self.element_wise(1, Self::greater_mask),
            M::Pcmpgtw | M::Vpcmpgtw => self.element_wise(2, Self::greater_mask),
            M::Pcmpgtd | M::Vpcmpgtd => self.element_wise(4, Self::greater_mask),
            M::Pcmpgtq | M::Vpcmpgtq => self.element_wise(8, Self::greater_mask),
            M::Paddb | M::Vpaddb => self.element_wise(1, plain(Op::Add)),
            M::Paddw | M::Vpaddw => self.element_wise(2, plain(Op::Add)),
            M::Paddd | M::Vpaddd => self.element_wise(4, plain(Op::Add)),
            M::Paddq | M::Vpaddq => self.element_wise(8, plain(Op::Add)),
            M::Psubb | M::Vpsubb => self.element_wise(1, |step, a, b| step.dag.sub(a, b)),
            M::Psubw | M::Vpsubw => self.element_wise(2, |step, a, b| step.dag.sub(a, b)),
            M::Psubd | M::Vpsubd => self.element_wise(4, |step, a, b| step.dag.sub(a, b)),
            M::Psubq | M::Vpsubq => self.element_wise(8, |step, a, b| step.dag.sub(a, b)),
            M::Pmullw | M::Vpmullw => self.element_wise(2, plain(Op::Mul)),
            M::Pmulld | M::Vpmulld => self.element_wise(4, plain(Op::Mul)),
            M::Vpmullq => self.element_wise(8, plain(Op::Mul)),
            M::Pmulhw | M::Vpmulhw => self.element_wise(2, |step, a, b| step.high(a, b, true)),
            M::Pmulhuw | M::Vpmulhuw => self.element_wise(2, |step, a, b| step.high(a, b, false)),
            M::Pmuludq | M::Vpmuludq => self.element_wise(8, |step, a, b| step.low(a, b, false)),
            M::Pmuldq | M::Vpmuldq => self.element_wise(8, |step, a, b| step.low(a, b, true)),
            M::Pmaddwd | M::Vpmaddwd => self.element_wise(4, Self::product_sum),
            M::Psadbw | M::Vpsadbw => self.element_wise(8, Self::sum_of_differences),
            M::Pavgb | M::Vpavgb => self.element_wise(1, Self::average),
            M::Pavgw | M::Vpavgw => self.element_wise(2, Self::average),
            _ => self.extremes(mnemonic),
        }
    }

    fn extremes(&mut self, mnemonic: Mnemonic) -> Modelled {
        use BinaryOperation as Op;
        use Mnemonic as M;
        let (element, less, takes_less) = match mnemonic {
            M::Pminub | M::Vpminub => (1, Op::Ult, true),
            M::Pminuw | M::Vpminuw => (2, Op::Ult, true),
            M::Pminud | M::Vpminud => (4, Op::Ult, true),
            M::Vpminuq => (8, Op::Ult, true),
            M::Pmaxub | M::Vpmaxub => (1, Op::Ult, false),
            M::Pmaxuw | M::Vpmaxuw => (2, Op::Ult, false),
            M::Pmaxud | M::Vpmaxud => (4, Op::Ult, false),
            M::Vpmaxuq => (8, Op::Ult, false),
            M::Pminsb | M::Vpminsb => (1, Op::Slt, true),
            M::Pminsw | M::Vpminsw => (2, Op::Slt, true),
            M::Pminsd | M::Vpminsd => (4, Op::Slt, true),
            M::Vpminsq => (8, Op::Slt, true),
            M::Pmaxsb | M::Vpmaxsb => (1, Op::Slt, false),
            M::Pmaxsw | M::Vpmaxsw => (2, Op::Slt, false),
            M::Pmaxsd | M::Vpmaxsd => (4, Op::Slt, false),
            M::Vpmaxsq => (8, Op::Slt, false),
            _ => return self.saturated(mnemonic),
        };
        self.element_wise(element, move |step, a, b| {
            let is_less = step.binary(less, a, b);
            match takes_less {
                true => step.dag.select(is_less, a, b),
                false => step.dag.select(is_less, b, a),
            }
        })
    }

    /// Sums and differences that stop at the ends of the range.
    fn saturated(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let (element, adds, signed) = match mnemonic {
            M::Paddusb | M::Vpaddusb => (1, true, false),
            M::Paddusw | M::Vpaddusw => (2, true, false),
            M::Psubusb | M::Vpsubusb => (1, false, false),
            M::Psubusw | M::Vpsubusw => (2, false, false),
            M::Paddsb | M::Vpaddsb => (1, true, true),
            M::Paddsw | M::Vpaddsw => (2, true, true),
            M::Psubsb | M::Vpsubsb => (1, false, true),
            M::Psubsw | M::Vpsubsw => (2, false, true),
            _ => return Err(Unmodelled),
        };
        self.element_wise(element, move |step, a, b| {
            let width = step.dag.width(a);
            let wide = |step: &mut Self, of| match signed {
                true => step.dag.sign_extend(of, 2 * width),
                false => step.dag.zero_extend(of, 2 * width),
            };
            let (a, b) = (wide(step, a), wide(step, b));
            let exact = match adds {
                true => step.dag.add_of(a, b),
                false => step.dag.sub(a, b),
            };
            step.clamped(exact, width, signed)
        })
    }

    /// A signed number in the range of a narrower one.
    pub(super) fn clamped(&mut self, of: Expr, width: u32, signed: bool) -> Expr {
        let wide = self.dag.width(of);
        let (lowest, highest) = match signed {
            true => (!ones(width - 1), ones(width - 1)),
            false => (0, ones(width)),
        };
        let (lowest, highest) = (
            self.dag.constant(wide, lowest),
            self.dag.constant(wide, highest),
        );
        let below = self.binary(BinaryOperation::Slt, of, lowest);
        let above = self.binary(BinaryOperation::Slt, highest, of);
        let clamped = self.dag.select(above, highest, of);
        let clamped = self.dag.select(below, lowest, clamped);
        self.dag.extract(clamped, 0, width)
    }

    fn and_not(&mut self, a: Expr, b: Expr) -> Expr {
        let a = self.dag.not(a);
        self.dag.and(a, b)
    }

    fn equal_mask(&mut self, a: Expr, b: Expr) -> Expr {
        let width = self.dag.width(a);
        let equal = self.dag.eq(a, b);
        self.dag.sign_extend(equal, width)
    }

    fn greater_mask(&mut self, a: Expr, b: Expr) -> Expr {
        let width = self.dag.width(a);
        let greater = self.binary(BinaryOperation::Slt, b, a);
        self.dag.sign_extend(greater, width)
    }

    /// The upper half of a product.
    fn high(&mut self, a: Expr, b: Expr, signed: bool) -> Expr {
        let width = self.dag.width(a);
        let wide = self.wide(a, b, signed);
        self.dag.extract(wide, width, width)
    }

    /// The product of the lower halves.
    fn low(&mut self, a: Expr, b: Expr, signed: bool) -> Expr {
        let half = self.dag.width(a) / 2;
        let (a, b) = (self.dag.extract(a, 0, half), self.dag.extract(b, 0, half));
        self.wide(a, b, signed)
    }

    /// The sum of two products.
    fn product_sum(&mut self, a: Expr, b: Expr) -> Expr {
        let half = self.dag.width(a) / 2;
        let mut products = [a; 2];
        for (index, product) in (0..).zip(&mut products) {
            let x = self.dag.extract(a, half * index, half);
            let y = self.dag.extract(b, half * index, half);
            *product = self.wide(x, y, true);
        }
        self.dag.add_of(products[0], products[1])
    }

    fn sum_of_differences(&mut self, a: Expr, b: Expr) -> Expr {
        let mut sum = self.dag.constant(64, 0);
        for (x, y) in self.split(a).into_iter().zip(self.split(b)) {
            let (more, less) = (self.dag.sub(x, y), self.dag.sub(y, x));
            let is_less = self.dag.ult(x, y);
            let difference = self.dag.select(is_less, less, more);
            let difference = self.dag.zero_extend(difference, 64);
            sum = self.dag.add_of(sum, difference);
        }
        sum
    }

    /// The average, rounded up.
    fn average(&mut self, a: Expr, b: Expr) -> Expr {
        let width = self.dag.width(a);
        let (a, b) = (
            self.dag.zero_extend(a, width + 1),
            self.dag.zero_extend(b, width + 1),
        );
        let one = self.dag.constant(width + 1, 1);
        let sum = self.dag.add_of(a, b);
        let sum = self.dag.add_of(sum, one);
        self.dag.extract(sum, 1, width)
    }

    /// Instructions that compute each element of the result from one element.
    pub(super) fn unary_arithmetic(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let element = match mnemonic {
            M::Pabsb | M::Vpabsb => 1,
            M::Pabsw | M::Vpabsw => 2,
            M::Pabsd | M::Vpabsd => 4,
            M::Vpabsq => 8,
            _ => return self.widening(mnemonic),
        };
        let size = self.vector_size(0);
        let bytes = self.vector_bytes(1, size)?;
        let mut result = Vec::with_capacity(size);
        for part in bytes.chunks(element) {
            let value = self.joined(part);
            let value = self.absolute(value);
            result.extend(self.split(value));
        }
        self.set_vector(0, &result)
    }

    /// Elements become wider ones.
    fn widening(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let (from, to, signed) = match mnemonic {
            M::Pmovzxbw | M::Vpmovzxbw => (1, 2, false),
            M::Pmovzxbd | M::Vpmovzxbd => (1, 4, false),
            M::Pmovzxbq | M::Vpmovzxbq => (1, 8, false),
            M::Pmovzxwd | M::Vpmovzxwd => (2, 4, false),
            M::Pmovzxwq | M::Vpmovzxwq => (2, 8, false),
            M::Pmovzxdq | M::Vpmovzxdq => (4, 8, false),
            M::Pmovsxbw | M::Vpmovsxbw => (1, 2, true),
            M::Pmovsxbd | M::Vpmovsxbd => (1, 4, true),
            M::Pmovsxbq | M::Vpmovsxbq => (1, 8, true),
            M::Pmovsxwd | M::Vpmovsxwd => (2, 4, true),
            M::Pmovsxwq | M::Vpmovsxwq => (2, 8, true),
            M::Pmovsxdq | M::Vpmovsxdq => (4, 8, true),
            _ => return Err(Unmodelled),
        };
        let size = self.vector_size(0);
        let bytes = self.vector_bytes(1, size * from / to)?;
        let mut result = Vec::with_capacity(size);
        for part in bytes.chunks(from) {
            let value = self.joined(part);
            let value = match signed {
                true => self.dag.sign_extend(value, 8 * to as u32),
                false => self.dag.zero_extend(value, 8 * to as u32),
            };
            result.extend(self.split(value));
        }
        self.set_vector(0, &result)
    }
}
