//! String instructions, with and without repetition.
//!
//! The number of repetitions is what it was in the recorded run; each comparison of a repeated one is a constraint of its own.

use iced_x86::Mnemonic;

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::flags::FlagSource;
use crate::expression::Expr;
use crate::path::{ConcretisationCause, ConstraintKind};

const RAX: usize = 0;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
const DIRECTION: u64 = 1 << 10;
/// Repetitions of instructions that are replayed element by element.
const MOST_ELEMENTS: u64 = 1 << 20;

/// What a string instruction does with an element.
enum Work {
    Move,
    Fill,
    Read,
    Compare,
    Scan,
}

impl InstructionReplay<'_, '_> {
    pub(super) fn string(&mut self) -> Modelled {
        use Mnemonic as M;
        let (work, size) = match self.insn.mnemonic() {
            M::Movsb => (Work::Move, 1),
            M::Movsw => (Work::Move, 2),
            M::Movsd => (Work::Move, 4),
            M::Movsq => (Work::Move, 8),
            M::Stosb => (Work::Fill, 1),
            M::Stosw => (Work::Fill, 2),
            M::Stosd => (Work::Fill, 4),
            M::Stosq => (Work::Fill, 8),
            M::Lodsb => (Work::Read, 1),
            M::Lodsw => (Work::Read, 2),
            M::Lodsd => (Work::Read, 4),
            M::Lodsq => (Work::Read, 8),
            M::Cmpsb => (Work::Compare, 1),
            M::Cmpsw => (Work::Compare, 2),
            M::Cmpsd => (Work::Compare, 4),
            M::Cmpsq => (Work::Compare, 8),
            M::Scasb => (Work::Scan, 1),
            M::Scasw => (Work::Scan, 2),
            M::Scasd => (Work::Scan, 4),
            M::Scasq => (Work::Scan, 8),
            _ => return Err(Unmodelled),
        };
        let repeats = self.insn.has_rep_prefix() || self.insn.has_repne_prefix();
        let pointers: &[usize] = match work {
            Work::Move | Work::Compare => &[RSI, RDI],
            Work::Read => &[RSI],
            Work::Fill | Work::Scan => &[RDI],
        };
        for &register in pointers {
            let pointer = self.gpr(register);
            self.concretise(pointer, ConcretisationCause::Address);
        }
        let mut count = 1;
        if repeats {
            let expr = self.gpr(RCX);
            self.concretise(expr, ConcretisationCause::Count);
            count = self.thread.registers[RCX];
        }
        if count > MOST_ELEMENTS {
            return Err(Unmodelled);
        }
        let back = self.thread.registers[16] & DIRECTION != 0;
        let at = |start: u64, index: u64| {
            let distance = index.wrapping_mul(size);
            if back {
                start.wrapping_sub(distance)
            } else {
                start.wrapping_add(distance)
            }
        };
        let (from, to) = (self.thread.registers[RSI], self.thread.registers[RDI]);
        let rax = self.gpr(RAX);
        let value = self.dag.extract(rax, 0, 8 * size as u32);
        for index in 0..count {
            match work {
                Work::Move => {
                    self.move_element(at(from, index), at(to, index), size)?;
                }
                Work::Fill => self.store(at(to, index), value),
                Work::Read => {
                    let value = self.load_at(at(from, index), size as usize)?;
                    let width = 8 * size as u32;
                    let new = match width {
                        64 => value,
                        32 => self.dag.zero_extend(value, 64),
                        _ => {
                            let rest = self.dag.extract(rax, width, 64 - width);
                            self.dag.concat(rest, value)
                        }
                    };
                    self.set_gpr(RAX, new);
                }
                Work::Compare | Work::Scan => {
                    let a = match work {
                        Work::Scan => value,
                        _ => self.load_at(at(from, index), size as usize)?,
                    };
                    let b = self.load_at(at(to, index), size as usize)?;
                    if self.compared(a, b, repeats) {
                        break;
                    }
                }
            }
        }
        pointers
            .iter()
            .for_each(|&register| self.thread.gprs[register] = None);
        if repeats {
            self.thread.gprs[RCX] = None;
        }
        Ok(())
    }

    /// Copies an element. The recording has only the first ones of a long sequence.
    fn move_element(&mut self, from: u64, to: u64, size: u64) -> Modelled {
        let is_recorded = { self.loads.iter() }
            .any(|load| load.at(from).is_some() && load.at(from.wrapping_add(size - 1)).is_some());
        if is_recorded {
            let bytes = self.load_bytes(from, size as usize)?;
            for (offset, byte) in (0..).zip(bytes) {
                self.store_byte(to.wrapping_add(offset), byte);
            }
            return Ok(());
        }
        self.memory.read_sources(from, size, self.sources, self.dag);
        for offset in 0..size {
            let byte = self.memory.get(from.wrapping_add(offset));
            self.memory.set(to.wrapping_add(offset), byte);
        }
        Ok(())
    }

    /// Compares two elements; whether a repetition ends with that.
    fn compared(&mut self, a: Expr, b: Expr, repeats: bool) -> bool {
        let r = self.dag.sub(a, b);
        self.set_flags(FlagSource::Difference { a, b, r });
        if !repeats {
            return false;
        }
        let equal = self.dag.eq(a, b);
        let is_equal = self.dag.value(equal) != 0;
        self.constrain(equal, ConstraintKind::Comparison { equal: is_equal });
        let while_equal = !self.insn.has_repne_prefix();
        is_equal != while_equal
    }
}
