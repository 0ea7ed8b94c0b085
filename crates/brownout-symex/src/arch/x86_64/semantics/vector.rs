//! Integer vector instructions, byte by byte: those that the string functions of C libraries use, in their SSE, AVX and EVEX forms.
//!
//! There are no summaries of library functions by name: keywords are found through `strcmp` and decimal numbers through `atoi` with what
//! glibc uses on CPUs with AVX-512, with AVX2 and with SSE2 alone.

use iced_x86::{Mnemonic, OpKind, Register};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::FlagName;
use crate::arch::x86_64::machine::VECTOR_BYTES;
use crate::expression::{BinaryOperation, Expr};
use crate::path::ConcretisationCause;

impl InstructionReplay<'_, '_> {
    pub(super) fn vector(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        if is_half(mnemonic) {
            return self.half(mnemonic);
        }
        match mnemonic {
            _ if is_plain_move(mnemonic) => self.vector_move(),
            M::Movd | M::Movq | M::Vmovd | M::Vmovq => self.scalar_move(),
            M::Pmovmskb | M::Vpmovmskb => self.move_mask(),
            M::Ptest | M::Vptest => self.vector_test(),
            M::Vpternlogd | M::Vpternlogq => self.ternary_logic(),
            _ => {
                let tried = self.element_arithmetic(mnemonic);
                let tried = tried.or_else(|_| self.unary_arithmetic(mnemonic));
                let tried = tried.or_else(|_| self.lanes(mnemonic));
                tried.or_else(|_| self.permutation(mnemonic))
            }
        }
    }

    /// Instructions that move bytes and do not change them.
    fn permutation(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        match mnemonic {
            M::Punpcklbw | M::Vpunpcklbw => self.unpack(1, false),
            M::Punpcklwd | M::Vpunpcklwd => self.unpack(2, false),
            M::Punpckldq | M::Vpunpckldq => self.unpack(4, false),
            M::Punpcklqdq | M::Vpunpcklqdq => self.unpack(8, false),
            M::Punpckhbw | M::Vpunpckhbw => self.unpack(1, true),
            M::Punpckhwd | M::Vpunpckhwd => self.unpack(2, true),
            M::Punpckhdq | M::Vpunpckhdq => self.unpack(4, true),
            M::Punpckhqdq | M::Vpunpckhqdq => self.unpack(8, true),
            M::Pshufd | M::Vpshufd => self.shuffle_words(),
            M::Pshufb | M::Vpshufb => self.shuffle_bytes(),
            M::Palignr | M::Vpalignr => self.align(),
            M::Pslldq | M::Vpslldq => self.shift_bytes(true),
            M::Psrldq | M::Vpsrldq => self.shift_bytes(false),
            M::Psllw | M::Vpsllw => self.shift_elements(2, BinaryOperation::Shl),
            M::Pslld | M::Vpslld => self.shift_elements(4, BinaryOperation::Shl),
            M::Psllq | M::Vpsllq => self.shift_elements(8, BinaryOperation::Shl),
            M::Psrlw | M::Vpsrlw => self.shift_elements(2, BinaryOperation::Lshr),
            M::Psrld | M::Vpsrld => self.shift_elements(4, BinaryOperation::Lshr),
            M::Psrlq | M::Vpsrlq => self.shift_elements(8, BinaryOperation::Lshr),
            M::Psraw | M::Vpsraw => self.shift_elements(2, BinaryOperation::Ashr),
            M::Psrad | M::Vpsrad => self.shift_elements(4, BinaryOperation::Ashr),
            M::Vpsraq => self.shift_elements(8, BinaryOperation::Ashr),
            M::Vbroadcastss => self.broadcast(4),
            M::Vbroadcastsd => self.broadcast(8),
            M::Vbroadcasti128 | M::Vbroadcastf128 => self.broadcast(16),
            M::Vpermq | M::Vpermpd if self.insn.op_count() == 3 => self.permute_quarters(),
            M::Vpbroadcastb => self.broadcast(1),
            M::Vpbroadcastw => self.broadcast(2),
            M::Vpbroadcastd => self.broadcast(4),
            M::Vpbroadcastq => self.broadcast(8),
            M::Vextracti128 | M::Vextractf128 | M::Vextracti32x4 | M::Vextracti64x2 => {
                self.extract_lanes(16)
            }
            M::Vextracti32x8 | M::Vextracti64x4 => self.extract_lanes(32),
            M::Vinserti128 | M::Vinsertf128 | M::Vinserti32x4 | M::Vinserti64x2 => {
                self.insert_lanes(16)
            }
            M::Vinserti32x8 | M::Vinserti64x4 => self.insert_lanes(32),
            M::Pextrb | M::Vpextrb => self.extract_element(1),
            M::Pextrw | M::Vpextrw => self.extract_element(2),
            M::Pextrd | M::Vpextrd => self.extract_element(4),
            M::Pextrq | M::Vpextrq => self.extract_element(8),
            M::Pinsrb | M::Vpinsrb => self.insert_element(1),
            M::Pinsrw | M::Vpinsrw => self.insert_element(2),
            M::Pinsrd | M::Vpinsrd => self.insert_element(4),
            M::Pinsrq | M::Vpinsrq => self.insert_element(8),
            _ => Err(Unmodelled),
        }
    }

    /// The number of bytes of the vector that an operand is.
    pub(super) fn vector_size(&self, operand: u32) -> usize {
        match self.insn.op_kind(operand) {
            OpKind::Register => self.insn.op_register(operand).size(),
            _ => self.insn.memory_size().size(),
        }
    }

    pub(super) fn vector_bytes(
        &mut self,
        operand: u32,
        size: usize,
    ) -> Result<Vec<Expr>, Unmodelled> {
        match self.insn.op_kind(operand) {
            OpKind::Memory => {
                if self.insn.is_broadcast() {
                    let element = self.insn.memory_size().element_size();
                    let bytes = self.loaded_bytes(element)?;
                    return Ok(bytes.into_iter().cycle().take(size).collect());
                }
                self.loaded_bytes(size)
            }
            OpKind::Register => self.register_bytes(self.insn.op_register(operand), size),
            _ => Err(Unmodelled),
        }
    }

    pub(super) fn register_bytes(
        &mut self,
        register: Register,
        size: usize,
    ) -> Result<Vec<Expr>, Unmodelled> {
        if !register.is_vector_register() {
            return Err(Unmodelled);
        }
        let number = register.number();
        let recorded = self
            .vectors
            .iter()
            .find(|(known, _)| usize::from(*known) == number);
        let recorded = recorded.map(|(_, bytes)| *bytes).unwrap_or_default();
        (0..size)
            .map(|index| {
                let value = recorded.get(index).copied();
                match (self.thread.vectors[number][index], value) {
                    (Some(byte), Some(value)) if self.dag.value(byte) != u128::from(value) => {
                        self.path.mismatch(self.insn.ip(), "a vector register");
                        self.thread.vectors[number][index] = None;
                        Ok(self.dag.constant(8, u128::from(value)))
                    }
                    (Some(byte), _) => Ok(byte),
                    (None, Some(value)) => Ok(self.dag.constant(8, u128::from(value))),
                    (None, None) => Err(Unmodelled),
                }
            })
            .collect()
    }

    /// Writes the low bytes of a vector register, or memory. VEX and EVEX forms clear the rest of the register.
    pub(super) fn set_vector(&mut self, operand: u32, bytes: &[Expr]) -> Modelled {
        if self.insn.op_mask() != Register::None {
            return self.set_masked(operand, bytes);
        }
        self.set_bytes(operand, bytes)
    }

    /// Elements that a write mask leaves out stay, or become zero.
    fn set_masked(&mut self, operand: u32, bytes: &[Expr]) -> Modelled {
        let element = self.masked_element();
        if element == 0 || !bytes.len().is_multiple_of(element) {
            return Err(Unmodelled);
        }
        let mask = self.mask_register(self.insn.op_mask())?;
        if self.insn.op_kind(operand) == OpKind::Memory {
            // Which bytes are written is what it was.
            self.concretise(mask, ConcretisationCause::Address);
            let mask = self.dag.value(mask);
            let addr = self.address();
            for (index, &byte) in bytes.iter().enumerate() {
                if mask >> (index / element) & 1 != 0 {
                    self.store_byte(addr.wrapping_add(index as u64), byte);
                }
            }
            return Ok(());
        }
        let old = match self.insn.zeroing_masking() {
            true => vec![self.dag.constant(8, 0); bytes.len()],
            false => self.register_bytes(self.insn.op_register(operand), bytes.len())?,
        };
        let mut merged = Vec::with_capacity(bytes.len());
        for (index, (&new, old)) in bytes.iter().zip(old).enumerate() {
            let bit = self.dag.extract(mask, (index / element) as u32, 1);
            merged.push(self.dag.select(bit, new, old));
        }
        self.set_bytes(operand, &merged)
    }

    /// The bytes of the elements that a write mask chooses between: those of the memory operand, unless the result has others.
    fn masked_element(&self) -> usize {
        use Mnemonic as M;
        match self.insn.mnemonic() {
            M::Vpacksswb | M::Vpackuswb => 1,
            M::Vpackssdw | M::Vpackusdw | M::Vpmovzxbw | M::Vpmovsxbw => 2,
            M::Vpmaddwd | M::Vpmovzxbd | M::Vpmovsxbd | M::Vpmovzxwd | M::Vpmovsxwd => 4,
            M::Vpmuludq | M::Vpmuldq | M::Vpmovzxbq | M::Vpmovsxbq => 8,
            M::Vpmovzxwq | M::Vpmovsxwq | M::Vpmovzxdq | M::Vpmovsxdq => 8,
            _ => self.insn.code().op_code().memory_size().element_size(),
        }
    }

    fn set_bytes(&mut self, operand: u32, bytes: &[Expr]) -> Modelled {
        match self.insn.op_kind(operand) {
            OpKind::Memory => {
                let addr = self.address();
                for (index, &byte) in bytes.iter().enumerate() {
                    self.store_byte(addr.wrapping_add(index as u64), byte);
                }
                Ok(())
            }
            OpKind::Register if self.insn.op_register(operand).is_vector_register() => {
                let number = self.insn.op_register(operand).number();
                for index in 0..VECTOR_BYTES {
                    let Some(&byte) = bytes.get(index) else {
                        if self.clears_rest() {
                            self.thread.vectors[number][index] = None;
                        }
                        continue;
                    };
                    let is_constant = self.dag.constant_value(byte).is_some();
                    self.thread.vectors[number][index] = (!is_constant).then_some(byte);
                }
                Ok(())
            }
            _ => Err(Unmodelled),
        }
    }

    /// Clears the first sixteen vector registers, or what they have above 16 bytes.
    pub(super) fn clear_vectors(&mut self, all: bool) {
        let from = if all { 0 } else { 16 };
        for vector in &mut self.thread.vectors[..16] {
            vector[from..].fill(None);
        }
    }

    fn clears_rest(&self) -> bool {
        use iced_x86::EncodingKind;
        self.insn.code().encoding() != EncodingKind::Legacy
    }

    /// The two sources of an instruction without an immediate.
    pub(super) fn sources(&mut self) -> Result<(Vec<Expr>, Vec<Expr>), Unmodelled> {
        let size = self.vector_size(0);
        let last = self.insn.op_count() - 1;
        let has_immediate = matches!(self.insn.op_kind(last), OpKind::Immediate8);
        let second = if has_immediate { last - 1 } else { last };
        let first = second.checked_sub(1).ok_or(Unmodelled)?;
        Ok((
            self.vector_bytes(first, size)?,
            self.vector_bytes(second, size)?,
        ))
    }

    /// Bytes as one expression.
    pub(super) fn joined(&mut self, bytes: &[Expr]) -> Expr {
        let mut value = bytes[0];
        for &byte in &bytes[1..] {
            value = self.dag.concat(byte, value);
        }
        value
    }

    pub(super) fn split(&mut self, value: Expr) -> Vec<Expr> {
        let bytes = self.dag.width(value) / 8;
        (0..bytes)
            .map(|index| self.dag.extract(value, 8 * index, 8))
            .collect()
    }

    pub(super) fn element_wise(
        &mut self,
        element: usize,
        work: impl Fn(&mut Self, Expr, Expr) -> Expr,
    ) -> Modelled {
        // EVEX comparisons write a mask.
        if self.insn.op_register(0).is_k() {
            return Err(Unmodelled);
        }
        let (a, b) = self.sources()?;
        let mut result = Vec::with_capacity(a.len());
        for (x, y) in a.chunks(element).zip(b.chunks(element)) {
            let (x, y) = (self.joined(x), self.joined(y));
            let value = work(self, x, y);
            result.extend(self.split(value));
        }
        self.set_vector(0, &result)
    }

    fn vector_move(&mut self) -> Modelled {
        let size = match self.insn.op_kind(0) {
            OpKind::Register => self.vector_size(0),
            _ => self.insn.op_register(1).size(),
        };
        let bytes = self.vector_bytes(1, size)?;
        self.set_vector(0, &bytes)
    }

    /// `movd` and `movq` between general-purpose registers, memory and vectors.
    fn scalar_move(&mut self) -> Modelled {
        let is_vector = |step: &Self, operand| {
            step.insn.op_kind(operand) == OpKind::Register
                && step.insn.op_register(operand).is_vector_register()
        };
        let size = match (is_vector(self, 0), is_vector(self, 1)) {
            (true, true) => 8,
            (true, false) => self.vector_size(1),
            _ => self.vector_size(0),
        };
        if self.insn.op_register(0).is_mm() || self.insn.op_register(1).is_mm() {
            return Err(Unmodelled);
        }
        let mut bytes = match self.insn.op_kind(1) {
            OpKind::Register if !is_vector(self, 1) => {
                let value = self.register(self.insn.op_register(1))?;
                self.split(value)
            }
            _ => self.vector_bytes(1, size)?,
        };
        if is_vector(self, 0) {
            let zero = self.dag.constant(8, 0);
            bytes.resize(16, zero);
            return self.set_vector(0, &bytes);
        }
        let value = self.joined(&bytes[..size]);
        self.write(0, value)
    }

    /// Moves of one half of a vector.
    fn half(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        if !is_half(mnemonic) {
            return Err(Unmodelled);
        }
        let high = matches!(mnemonic, M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd);
        let part = if high { 8..16 } else { 0..8 };
        if self.insn.op_kind(0) == OpKind::Memory {
            let bytes = self.vector_bytes(1, 16)?;
            return self.set_vector(0, &bytes[part]);
        }
        let (old, new) = match self.insn.op_count() {
            2 => (0, 1),
            _ => (1, 2),
        };
        if self.insn.op_kind(new) != OpKind::Memory {
            return Err(Unmodelled);
        }
        let mut bytes = self.vector_bytes(old, 16)?;
        let new = self.vector_bytes(new, 8)?;
        bytes[part].copy_from_slice(&new);
        self.set_vector(0, &bytes)
    }

    fn move_mask(&mut self) -> Modelled {
        let size = self.vector_size(1);
        let bytes = self.vector_bytes(1, size)?;
        let mut mask = self.dag.extract(bytes[0], 7, 1);
        for &byte in &bytes[1..] {
            let bit = self.dag.extract(byte, 7, 1);
            mask = self.dag.concat(bit, mask);
        }
        let mask = self.dag.zero_extend(mask, 64);
        let register = self.insn.op_register(0).full_register();
        self.set_register(register, mask)
    }

    fn vector_test(&mut self) -> Modelled {
        let size = self.vector_size(0);
        let (a, b) = (self.vector_bytes(0, size)?, self.vector_bytes(1, size)?);
        let mut none = self.dag.constant(1, 1);
        let mut contained = none;
        for (x, y) in a.into_iter().zip(b) {
            let both = self.dag.and(x, y);
            let both = self.dag.is_zero(both);
            none = self.dag.and(none, both);
            let outside = self.dag.not(x);
            let outside = self.dag.and(outside, y);
            let outside = self.dag.is_zero(outside);
            contained = self.dag.and(contained, outside);
        }
        self.clear_flags();
        self.set_flag(FlagName::Zero, none);
        self.set_flag(FlagName::Carry, contained);
        Ok(())
    }

    /// Any function of three bits: the immediate is its truth table.
    fn ternary_logic(&mut self) -> Modelled {
        let size = self.vector_size(0);
        let table = self.insn.immediate8();
        let a = self.vector_bytes(0, size)?;
        let (b, c) = (self.vector_bytes(1, size)?, self.vector_bytes(2, size)?);
        let mut result = Vec::with_capacity(size);
        for ((x, y), z) in a.into_iter().zip(b).zip(c) {
            let mut value = self.dag.constant(8, 0);
            for row in (0..8).filter(|row| table >> row & 1 != 0) {
                let mut term = self.dag.constant(8, 0xff);
                for (input, bit) in [(x, 2), (y, 1), (z, 0)] {
                    let input = match row >> bit & 1 {
                        0 => self.dag.not(input),
                        _ => input,
                    };
                    term = self.dag.and(term, input);
                }
                value = self.dag.or(value, term);
            }
            result.push(value);
        }
        self.set_vector(0, &result)
    }

    pub(super) fn unpack(&mut self, element: usize, high: bool) -> Modelled {
        let (a, b) = self.sources()?;
        let mut result = Vec::with_capacity(a.len());
        for (x, y) in a.chunks(16).zip(b.chunks(16)) {
            let part = if high { 8..16 } else { 0..8 };
            let pairs = x[part.clone()].chunks(element).zip(y[part].chunks(element));
            pairs.for_each(|(x, y)| {
                result.extend_from_slice(x);
                result.extend_from_slice(y);
            });
        }
        self.set_vector(0, &result)
    }

    fn shuffle_words(&mut self) -> Modelled {
        let size = self.vector_size(0);
        let order = self.insn.immediate8();
        let bytes = self.vector_bytes(1, size)?;
        let mut result = Vec::with_capacity(size);
        for lane in bytes.chunks(16) {
            for word in 0..4 {
                let from = 4 * usize::from(order >> (2 * word) & 3);
                result.extend_from_slice(&lane[from..from + 4]);
            }
        }
        self.set_vector(0, &result)
    }

    fn shuffle_bytes(&mut self) -> Modelled {
        let (a, order) = self.sources()?;
        let zero = self.dag.constant(8, 0);
        let mut result = Vec::with_capacity(a.len());
        for (index, &from) in order.iter().enumerate() {
            let from = self.dag.constant_value(from).ok_or(Unmodelled)? as usize;
            let lane = index & !15;
            result.push(if from & 0x80 != 0 {
                zero
            } else {
                a[lane + (from & 15)]
            });
        }
        self.set_vector(0, &result)
    }

    fn align(&mut self) -> Modelled {
        let (a, b) = self.sources()?;
        let by = usize::from(self.insn.immediate8());
        let zero = self.dag.constant(8, 0);
        let mut result = Vec::with_capacity(a.len());
        for (high, low) in a.chunks(16).zip(b.chunks(16)) {
            let both: Vec<Expr> = low.iter().chain(high).copied().collect();
            result.extend((by..by + 16).map(|at| both.get(at).copied().unwrap_or(zero)));
        }
        self.set_vector(0, &result)
    }

    fn shift_bytes(&mut self, left: bool) -> Modelled {
        let size = self.vector_size(0);
        let by = usize::from(self.insn.immediate8()).min(16);
        let bytes = self.vector_bytes(self.insn.op_count() - 2, size)?;
        let zero = self.dag.constant(8, 0);
        let mut result = Vec::with_capacity(size);
        for lane in bytes.chunks(16) {
            result.extend((0..16).map(|at| match left {
                true if at < by => zero,
                true => lane[at - by],
                false => lane.get(at + by).copied().unwrap_or(zero),
            }));
        }
        self.set_vector(0, &result)
    }

    /// Shifts of elements by an immediate.
    fn shift_elements(&mut self, element: usize, operation: BinaryOperation) -> Modelled {
        let last = self.insn.op_count() - 1;
        if self.insn.op_kind(last) != OpKind::Immediate8 {
            return Err(Unmodelled);
        }
        let size = self.vector_size(0);
        let by = self.insn.immediate8();
        let bytes = self.vector_bytes(last - 1, size)?;
        let mut result = Vec::with_capacity(size);
        let width = 8 * element as u32;
        // An arithmetic shift goes no further than the sign, others leave nothing.
        let by = match operation {
            BinaryOperation::Ashr => u32::from(by).min(width - 1),
            _ => u32::from(by),
        };
        for part in bytes.chunks(element) {
            let value = self.joined(part);
            let value = match by < width {
                true => {
                    let by = self.dag.constant(width, u128::from(by));
                    self.binary(operation, value, by)
                }
                false => self.dag.constant(width, 0),
            };
            result.extend(self.split(value));
        }
        self.set_vector(0, &result)
    }

    fn broadcast(&mut self, element: usize) -> Modelled {
        let size = self.vector_size(0);
        let bytes = match self.insn.op_kind(1) {
            OpKind::Register if self.insn.op_register(1).is_gpr() => {
                let value = self.register(self.insn.op_register(1))?;
                self.split(value)
            }
            _ => self.vector_bytes(1, element)?,
        };
        let result: Vec<Expr> = (0..size).map(|index| bytes[index % element]).collect();
        self.set_vector(0, &result)
    }

    /// Permutes 8-byte elements of each 32 bytes.
    fn permute_quarters(&mut self) -> Modelled {
        if self.insn.op_kind(2) != OpKind::Immediate8 {
            return Err(Unmodelled);
        }
        let size = self.vector_size(0);
        let order = self.insn.immediate8();
        let bytes = self.vector_bytes(1, size)?;
        let mut result = Vec::with_capacity(size);
        for half in bytes.chunks(32) {
            for element in 0..4 {
                let from = 8 * usize::from(order >> (2 * element) & 3);
                result.extend_from_slice(&half[from..from + 8]);
            }
        }
        self.set_vector(0, &result)
    }

    fn extract_lanes(&mut self, lane: usize) -> Modelled {
        let size = self.vector_size(1);
        let from = lane * usize::from(self.insn.immediate8()) % size;
        let bytes = self.vector_bytes(1, size)?;
        self.set_vector(0, &bytes[from..from + lane])
    }

    fn insert_lanes(&mut self, lane: usize) -> Modelled {
        let size = self.vector_size(0);
        let at = lane * usize::from(self.insn.immediate8()) % size;
        let mut bytes = self.vector_bytes(1, size)?;
        let new = self.vector_bytes(2, lane)?;
        bytes[at..at + lane].copy_from_slice(&new);
        self.set_vector(0, &bytes)
    }

    fn extract_element(&mut self, element: usize) -> Modelled {
        let from = element * usize::from(self.insn.immediate8()) % 16;
        if self.insn.op_register(1).is_mm() {
            return Err(Unmodelled);
        }
        let bytes = self.vector_bytes(1, 16)?;
        let value = self.joined(&bytes[from..from + element]);
        if self.insn.op_kind(0) == OpKind::Memory {
            return self.write(0, value);
        }
        let value = self.dag.zero_extend(value, 64);
        self.set_register(self.insn.op_register(0).full_register(), value)
    }

    fn insert_element(&mut self, element: usize) -> Modelled {
        let at = element * usize::from(self.insn.immediate8()) % 16;
        let (old, new) = match self.insn.op_count() {
            3 => (0, 1),
            _ => (1, 2),
        };
        if self.insn.op_register(0).is_mm() {
            return Err(Unmodelled);
        }
        let mut bytes = self.vector_bytes(old, 16)?;
        let value = match self.insn.op_kind(new) {
            OpKind::Register => self.register(self.insn.op_register(new))?,
            _ => self.load(element)?,
        };
        let value = self.dag.extract(value, 0, 8 * element as u32);
        let value = self.split(value);
        bytes[at..at + element].copy_from_slice(&value);
        self.set_vector(0, &bytes)
    }
}

fn is_half(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movhps
            | M::Movhpd
            | M::Movlps
            | M::Movlpd
            | M::Vmovhps
            | M::Vmovhpd
            | M::Vmovlps
            | M::Vmovlpd
    )
}

fn is_plain_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movdqa
            | M::Movdqu
            | M::Movaps
            | M::Movups
            | M::Movapd
            | M::Movupd
            | M::Lddqu
            | M::Movntdq
            | M::Movntps
            | M::Movntdqa
            | M::Vmovdqa
            | M::Vmovdqu
            | M::Vmovaps
            | M::Vmovups
            | M::Vmovapd
            | M::Vmovupd
            | M::Vlddqu
            | M::Vmovntdq
            | M::Vmovntps
            | M::Vmovntdqa
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
    )
}
