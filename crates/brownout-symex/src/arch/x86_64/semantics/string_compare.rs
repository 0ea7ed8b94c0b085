//! The string comparisons of SSE4.2, with which C libraries search for one of several characters (`strcspn`, `strspn`, `strpbrk`,
//! `strtok`).
//!
//! The comparison of each element of the first operand with each of the second is an expression of one bit. An immediate says what elements
//! are, and how these bits are aggregated (Intel SDM, volume 2, "Imm8 Control Byte Operation for PCMPESTRI / PCMPESTRM / PCMPISTRI /
//! PCMPISTRM").

use iced_x86::{EncodingKind, Mnemonic};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::FlagName;
use crate::arch::x86_64::machine::VECTOR_BYTES;
use crate::expression::{BinaryOperation, Expr};

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
/// The bytes of an operand.
const SIZE: usize = 16;

/// One operand: its elements, and which of them belong to its string.
struct Text {
    elements: Vec<Expr>,
    is_valid: Vec<Expr>,
}

impl InstructionReplay<'_, '_> {
    pub(super) fn string_comparison(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        let (has_lengths, gives_index) = match mnemonic {
            M::Pcmpistri | M::Vpcmpistri => (false, true),
            M::Pcmpistrm | M::Vpcmpistrm => (false, false),
            M::Pcmpestri | M::Vpcmpestri => (true, true),
            M::Pcmpestrm | M::Vpcmpestrm => (true, false),
            _ => return Err(Unmodelled),
        };
        let control = self.insn.immediate8();
        let element = if control & 1 == 0 { 1 } else { 2 };
        let lengths = has_lengths.then_some((RAX, RDX));
        let first = self.text(0, element, lengths.map(|it| it.0))?;
        let second = self.text(1, element, lengths.map(|it| it.1))?;
        let compared = self.aggregated(&first, &second, control);
        let result = self.with_polarity(compared, &second, control);
        self.set_comparison_flags(&first, &second, &result);
        match gives_index {
            true => {
                let index = self.index_of_set(&result, control & 0x40 != 0);
                self.set_gpr(RCX, index);
            }
            false => self.set_comparison_mask(&result, element, control & 0x40 != 0),
        }
        Ok(())
    }

    /// An operand whose string ends at the first element that is zero, or has the length of a register.
    fn text(
        &mut self,
        operand: u32,
        element: usize,
        length: Option<usize>,
    ) -> Result<Text, Unmodelled> {
        let bytes = self.vector_bytes(operand, SIZE)?;
        let elements: Vec<Expr> = { bytes.chunks(element) }
            .map(|part| self.joined(part))
            .collect();
        let mut is_valid = Vec::with_capacity(elements.len());
        match length {
            Some(register) => {
                let length = self.length(register);
                for index in 0..elements.len() {
                    let index = self.dag.constant(64, index as u128);
                    is_valid.push(self.dag.ult(index, length));
                }
            }
            None => {
                let mut valid = self.dag.constant(1, 1);
                for &element in &elements {
                    let is_end = self.dag.is_zero(element);
                    let goes_on = self.dag.not(is_end);
                    valid = self.dag.and(valid, goes_on);
                    is_valid.push(valid);
                }
            }
        }
        Ok(Text { elements, is_valid })
    }

    /// The absolute value of a length; longer ones than the operand count as its length without that being asked for.
    fn length(&mut self, register: usize) -> Expr {
        let full = self.gpr(register);
        let is_wide = format!("{:?}", self.insn.code()).contains("64");
        let given = match is_wide {
            true => full,
            false => {
                let low = self.dag.extract(full, 0, 32);
                self.dag.sign_extend(low, 64)
            }
        };
        self.absolute(given)
    }

    /// For each element of the second operand, what the comparisons with those of the first come to.
    fn aggregated(&mut self, first: &Text, second: &Text, control: u8) -> Vec<Expr> {
        const EQUAL_ANY: u8 = 0;
        const RANGES: u8 = 1;
        const EQUAL_EACH: u8 = 2;
        let count = second.elements.len();
        let mut result = Vec::with_capacity(count);
        for at in 0..count {
            let bit = match control >> 2 & 3 {
                EQUAL_ANY => self.is_any(first, second, at),
                RANGES => self.is_in_range(first, second, at, control & 2 != 0),
                EQUAL_EACH => self.cell(first, second, (at, at)),
                _ => {
                    let mut all = self.dag.constant(1, 1);
                    for index in 0..count - at {
                        // What is behind the end of the first string matches anything.
                        let is_equal = self.cell(first, second, (index, at + index));
                        let is_behind = self.dag.not(first.is_valid[index]);
                        let matches = self.dag.or(is_equal, is_behind);
                        all = self.dag.and(all, matches);
                    }
                    all
                }
            };
            result.push(bit);
        }
        result
    }

    /// Whether two elements are equal, or both behind the ends of their strings.
    fn cell(&mut self, first: &Text, second: &Text, (a, b): (usize, usize)) -> Expr {
        let (valid_a, valid_b) = (first.is_valid[a], second.is_valid[b]);
        let equal = self.dag.eq(first.elements[a], second.elements[b]);
        let both = self.dag.and(valid_a, valid_b);
        let equal = self.dag.and(both, equal);
        let any = self.dag.or(valid_a, valid_b);
        let neither = self.dag.not(any);
        self.dag.or(equal, neither)
    }

    fn is_any(&mut self, first: &Text, second: &Text, at: usize) -> Expr {
        let mut any = self.dag.constant(1, 0);
        for (&element, &valid) in first.elements.iter().zip(&first.is_valid) {
            let equal = self.dag.eq(element, second.elements[at]);
            let equal = self.dag.and(equal, valid);
            any = self.dag.or(any, equal);
        }
        self.dag.and(any, second.is_valid[at])
    }

    fn is_in_range(&mut self, first: &Text, second: &Text, at: usize, signed: bool) -> Expr {
        let element = second.elements[at];
        let less = match signed {
            true => BinaryOperation::Slt,
            false => BinaryOperation::Ult,
        };
        let mut any = self.dag.constant(1, 0);
        for low in (0..first.elements.len()).step_by(2) {
            let (start, end) = (first.elements[low], first.elements[low + 1]);
            let is_below = self.binary(less, element, start);
            let is_above = self.binary(less, end, element);
            let is_outside = self.dag.or(is_below, is_above);
            let is_inside = self.dag.not(is_outside);
            // The start is valid if the end is.
            let is_inside = self.dag.and(is_inside, first.is_valid[low + 1]);
            any = self.dag.or(any, is_inside);
        }
        self.dag.and(any, second.is_valid[at])
    }

    /// The bits as they are, inverted, or inverted where the second string is.
    fn with_polarity(&mut self, bits: Vec<Expr>, second: &Text, control: u8) -> Vec<Expr> {
        let (is_negative, is_masked) = (control & 0x10 != 0, control & 0x20 != 0);
        if !is_negative {
            return bits;
        }
        let mut result = Vec::with_capacity(bits.len());
        for (bit, &valid) in bits.into_iter().zip(&second.is_valid) {
            result.push(match is_masked {
                true => self.dag.xor(bit, valid),
                false => self.dag.not(bit),
            });
        }
        result
    }

    fn set_comparison_flags(&mut self, first: &Text, second: &Text, result: &[Expr]) {
        let mut none = self.dag.constant(1, 1);
        for &bit in result {
            let clear = self.dag.not(bit);
            none = self.dag.and(none, clear);
        }
        let any = self.dag.not(none);
        let ends = [first, second].map(|text| text.is_valid[text.is_valid.len() - 1]);
        let [first_ends, second_ends] = ends.map(|valid| self.dag.not(valid));
        self.clear_flags();
        self.set_flag(FlagName::Carry, any);
        self.set_flag(FlagName::Zero, second_ends);
        self.set_flag(FlagName::Sign, first_ends);
        self.set_flag(FlagName::Overflow, result[0]);
    }

    /// The index of the first or the last bit that is set; the number of bits if none is.
    fn index_of_set(&mut self, bits: &[Expr], last: bool) -> Expr {
        let mut index = self.dag.constant(64, bits.len() as u128);
        let order: Vec<usize> = match last {
            true => (0..bits.len()).collect(),
            false => (0..bits.len()).rev().collect(),
        };
        for at in order {
            let here = self.dag.constant(64, at as u128);
            index = self.dag.select(bits[at], here, index);
        }
        index
    }

    /// Writes the bits to `xmm0`, as they are or each as an element.
    fn set_comparison_mask(&mut self, bits: &[Expr], element: usize, expanded: bool) {
        let mask = match expanded {
            true => {
                let width = 8 * element as u32;
                let wide: Vec<Expr> = { bits.iter() }
                    .map(|&bit| self.dag.sign_extend(bit, width))
                    .collect();
                self.joined(&wide)
            }
            false => {
                let mask = self.joined(bits);
                self.dag.zero_extend(mask, 8 * SIZE as u32)
            }
        };
        let bytes = self.split(mask);
        let keeps_rest = self.insn.code().encoding() == EncodingKind::Legacy;
        for index in 0..VECTOR_BYTES {
            let byte = bytes.get(index).copied();
            if byte.is_some() || !keeps_rest {
                let byte = byte.filter(|&byte| self.dag.constant_value(byte).is_none());
                self.thread.vectors[0][index] = byte;
            }
        }
    }
}
