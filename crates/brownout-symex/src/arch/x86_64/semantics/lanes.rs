//! Vector instructions that work on lanes of 16 bytes: packing, horizontal sums, shuffles and blends by an immediate, and scalar moves.

use iced_x86::{Mnemonic, OpKind};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::expression::Expr;

impl InstructionReplay<'_, '_> {
    pub(super) fn lanes(&mut self, mnemonic: Mnemonic) -> Modelled {
        use Mnemonic as M;
        match mnemonic {
            M::Packsswb | M::Vpacksswb => self.pack(2, true),
            M::Packuswb | M::Vpackuswb => self.pack(2, false),
            M::Packssdw | M::Vpackssdw => self.pack(4, true),
            M::Packusdw | M::Vpackusdw => self.pack(4, false),
            M::Phaddw | M::Vphaddw => self.horizontal(2, |step, a, b| step.dag.add_of(a, b)),
            M::Phaddd | M::Vphaddd => self.horizontal(4, |step, a, b| step.dag.add_of(a, b)),
            M::Phsubw | M::Vphsubw => self.horizontal(2, |step, a, b| step.dag.sub(a, b)),
            M::Phsubd | M::Vphsubd => self.horizontal(4, |step, a, b| step.dag.sub(a, b)),
            M::Unpcklps | M::Vunpcklps => self.unpack(4, false),
            M::Unpckhps | M::Vunpckhps => self.unpack(4, true),
            M::Unpcklpd | M::Vunpcklpd => self.unpack(8, false),
            M::Unpckhpd | M::Vunpckhpd => self.unpack(8, true),
            M::Pshuflw | M::Vpshuflw => self.shuffle_half(0),
            M::Pshufhw | M::Vpshufhw => self.shuffle_half(8),
            M::Shufps | M::Vshufps => self.shuffle_two(),
            M::Pblendw | M::Vpblendw => self.blend(2),
            M::Blendps | M::Vblendps | M::Vpblendd => self.blend(4),
            M::Blendpd | M::Vblendpd => self.blend(8),
            M::Pblendvb | M::Vpblendvb => self.blend_by_signs(),
            M::Movddup | M::Vmovddup => self.duplicate(8, 0),
            M::Movsldup | M::Vmovsldup => self.duplicate(4, 0),
            M::Movshdup | M::Vmovshdup => self.duplicate(4, 4),
            M::Movss | M::Vmovss => self.scalar(4),
            M::Movsd | M::Vmovsd => self.scalar(8),
            M::Movlhps | M::Vmovlhps => self.join_halves(true),
            M::Movhlps | M::Vmovhlps => self.join_halves(false),
            M::Movmskps | M::Vmovmskps => self.move_signs(4),
            M::Movmskpd | M::Vmovmskpd => self.move_signs(8),
            _ => Err(Unmodelled),
        }
    }

    /// Signed elements become narrower ones; what does not fit becomes the end of the range.
    fn pack(&mut self, element: usize, signed: bool) -> Modelled {
        let (a, b) = self.sources()?;
        let mut result = Vec::with_capacity(a.len());
        for (x, y) in a.chunks(16).zip(b.chunks(16)) {
            for part in x.chunks(element).chain(y.chunks(element)) {
                let value = self.joined(part);
                let value = self.clamped(value, 4 * element as u32, signed);
                result.extend(self.split(value));
            }
        }
        self.set_vector(0, &result)
    }

    /// Neighbours of the first operand, then those of the second.
    fn horizontal(
        &mut self,
        element: usize,
        work: impl Fn(&mut Self, Expr, Expr) -> Expr,
    ) -> Modelled {
        let (a, b) = self.sources()?;
        let mut result = Vec::with_capacity(a.len());
        for (x, y) in a.chunks(16).zip(b.chunks(16)) {
            for pair in x.chunks(2 * element).chain(y.chunks(2 * element)) {
                let (first, second) = pair.split_at(element);
                let (first, second) = (self.joined(first), self.joined(second));
                let value = work(self, first, second);
                result.extend(self.split(value));
            }
        }
        self.set_vector(0, &result)
    }

    /// Permutes the words of one half of each lane.
    fn shuffle_half(&mut self, half: usize) -> Modelled {
        let size = self.vector_size(0);
        let order = self.insn.immediate8();
        let bytes = self.vector_bytes(1, size)?;
        let mut result = bytes.clone();
        for lane in (0..size).step_by(16) {
            for word in 0..4 {
                let from = lane + half + 2 * usize::from(order >> (2 * word) & 3);
                let to = lane + half + 2 * word;
                result[to..to + 2].copy_from_slice(&bytes[from..from + 2]);
            }
        }
        self.set_vector(0, &result)
    }

    /// Two elements of the first operand, then two of the second.
    fn shuffle_two(&mut self) -> Modelled {
        let (a, b) = self.sources()?;
        let order = self.insn.immediate8();
        let mut result = Vec::with_capacity(a.len());
        for (x, y) in a.chunks(16).zip(b.chunks(16)) {
            for word in 0..4 {
                let from = 4 * usize::from(order >> (2 * word) & 3);
                let source = if word < 2 { x } else { y };
                result.extend_from_slice(&source[from..from + 4]);
            }
        }
        self.set_vector(0, &result)
    }

    fn blend(&mut self, element: usize) -> Modelled {
        let (a, b) = self.sources()?;
        let choice = self.insn.immediate8();
        // Words repeat the choice for each lane.
        let period = if element == 2 { 8 } else { 16 };
        let takes_second = |index: usize| choice >> (index / element % period) & 1 != 0;
        let pairs = a.into_iter().zip(b).enumerate();
        let chosen = pairs.map(|(index, (x, y))| if takes_second(index) { y } else { x });
        let result: Vec<Expr> = chosen.collect();
        self.set_vector(0, &result)
    }

    /// Bytes of the second operand where the highest bit of the control is set.
    fn blend_by_signs(&mut self) -> Modelled {
        let size = self.vector_size(0);
        let is_legacy = self.insn.op_count() < 4;
        let (first, second) = if is_legacy { (0, 1) } else { (1, 2) };
        let (a, b) = (
            self.vector_bytes(first, size)?,
            self.vector_bytes(second, size)?,
        );
        let control = match is_legacy {
            true => self.register_bytes(iced_x86::Register::XMM0, size)?,
            false => self.vector_bytes(3, size)?,
        };
        let mut result = Vec::with_capacity(size);
        for ((x, y), control) in a.into_iter().zip(b).zip(control) {
            let sign = self.dag.extract(control, 7, 1);
            result.push(self.dag.select(sign, y, x));
        }
        self.set_vector(0, &result)
    }

    /// Each pair of elements becomes twice its lower one, or its upper one.
    fn duplicate(&mut self, element: usize, from: usize) -> Modelled {
        let size = self.vector_size(0);
        let read = match (element, size) {
            // From memory, it reads half a lane.
            (8, 16) => 8,
            _ => size,
        };
        let bytes = self.vector_bytes(1, read)?;
        let chosen = |index: usize| {
            let pair = index / (2 * element) * 2 * element;
            bytes[pair + from + index % element]
        };
        let result: Vec<Expr> = (0..size).map(chosen).collect();
        self.set_vector(0, &result)
    }

    /// Moves of the lowest element: a load clears the rest, a move between registers keeps it.
    fn scalar(&mut self, element: usize) -> Modelled {
        if self.insn.op_mask() != iced_x86::Register::None {
            return Err(Unmodelled);
        }
        let last = self.insn.op_count() - 1;
        if self.insn.op_kind(0) == OpKind::Memory {
            let bytes = self.vector_bytes(last, element)?;
            return self.set_vector(0, &bytes);
        }
        let mut bytes = self.vector_bytes(last, element)?;
        if self.insn.op_kind(last) == OpKind::Memory {
            let zero = self.dag.constant(8, 0);
            bytes.resize(16, zero);
        } else {
            let old = self.vector_bytes(last - 1, 16)?;
            bytes.extend_from_slice(&old[element..]);
        }
        self.set_vector(0, &bytes)
    }

    /// The lower halves of both operands, or the upper ones, the second operand's first.
    fn join_halves(&mut self, lower: bool) -> Modelled {
        let (a, b) = self.sources()?;
        let result: Vec<Expr> = match lower {
            true => a[..8].iter().chain(&b[..8]).copied().collect(),
            false => b[8..].iter().chain(&a[8..]).copied().collect(),
        };
        self.set_vector(0, &result)
    }

    /// The highest bits of the elements as a number.
    fn move_signs(&mut self, element: usize) -> Modelled {
        let size = self.vector_size(1);
        let bytes = self.vector_bytes(1, size)?;
        let mut bits = Vec::new();
        for part in bytes.chunks(element) {
            bits.push(self.dag.extract(part[element - 1], 7, 1));
        }
        let mask = self.joined(&bits);
        let mask = self.dag.zero_extend(mask, 64);
        self.set_register(self.insn.op_register(0).full_register(), mask)
    }
}
