//! The forms of locked instructions, as their log entries name them.

use crate::arch::translator::translate::{has_memory, memory_size};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What a locked instruction does with its operand.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    CompareExchange = 1,
    Exchange = 2,
    /// Sets a bit that was clear; the operand is the bit itself.
    SetBit = 3,
    /// The same, and the operand is the number of the bit, which may be in another word.
    SetNumberedBit = 4,
    Add = 5,
    Subtract = 6,
    And = 7,
    Or = 8,
    Xor = 9,
    /// Clears the bit with the number in the operand, which may be in another word.
    ClearNumberedBit = 10,
}

const ACTIONS: [Action; 10] = [
    Action::CompareExchange,
    Action::Exchange,
    Action::SetBit,
    Action::SetNumberedBit,
    Action::Add,
    Action::Subtract,
    Action::And,
    Action::Or,
    Action::Xor,
    Action::ClearNumberedBit,
];

/// Where the operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Value(u64),
    Register(Register),
}

/// A locked instruction whose effect on its word is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicForm {
    pub action: Action,
    /// Bytes of the word.
    pub size: u8,
    pub operand: Operand,
    /// The instruction overwrites its operand with the word before.
    pub fetches: bool,
}

impl AtomicForm {
    /// The form of an instruction; `None` if it is not locked or cannot be part of a lock.
    pub fn of(insn: &Instruction) -> Option<AtomicForm> {
        let locked = insn.has_lock_prefix() || insn.mnemonic() == Mnemonic::Xchg;
        if !locked || !has_memory(insn) {
            return None;
        }
        let size = memory_size(insn) as u8;
        if !matches!(size, 1 | 2 | 4 | 8) {
            return None;
        }
        let bits = 8 * u64::from(size);
        let operand = source(insn)?;
        let numbered = |action, value: fn(u64) -> u64| match operand {
            Operand::Register(_) => (action, operand),
            Operand::Value(number) => (
                if action == Action::SetNumberedBit {
                    Action::SetBit
                } else {
                    Action::And
                },
                Operand::Value(value(number % bits)),
            ),
        };
        let (action, operand) = match insn.mnemonic() {
            Mnemonic::Cmpxchg => (Action::CompareExchange, operand),
            Mnemonic::Xchg => (Action::Exchange, operand),
            Mnemonic::Xadd | Mnemonic::Add => (Action::Add, operand),
            Mnemonic::Sub => (Action::Subtract, operand),
            Mnemonic::Inc => (Action::Add, Operand::Value(1)),
            Mnemonic::Dec => (Action::Subtract, Operand::Value(1)),
            Mnemonic::And => (Action::And, operand),
            Mnemonic::Or => (Action::Or, operand),
            Mnemonic::Xor => (Action::Xor, operand),
            Mnemonic::Bts => numbered(Action::SetNumberedBit, |number| 1 << number),
            Mnemonic::Btr => numbered(Action::ClearNumberedBit, |number| !(1 << number)),
            _ => return None,
        };
        let fetches = matches!(insn.mnemonic(), Mnemonic::Xchg | Mnemonic::Xadd);
        Some(AtomicForm {
            action,
            size,
            operand,
            fetches,
        })
    }

    /// The number of the form in the log.
    pub fn number(&self) -> u32 {
        self.action as u32 | u32::from(self.size) << 8
    }

    /// Action and size of a form with a number.
    pub fn parts(number: u64) -> Option<(Action, u8)> {
        let action = ACTIONS.get((number as u8).checked_sub(1)? as usize)?;
        Some((*action, (number >> 8) as u8))
    }
}

/// The operand that is not the word. The upper halves of registers of two bytes are not supported.
fn source(insn: &Instruction) -> Option<Operand> {
    // The operands of `xchg` can be in either order.
    let index = if insn.op0_kind() == OpKind::Memory {
        1
    } else {
        0
    };
    if insn.op_count() < 2 {
        return Some(Operand::Value(1));
    }
    if insn.op_kind(index) == OpKind::Register {
        let register = insn.op_register(index);
        let high = [Register::AH, Register::BH, Register::CH, Register::DH];
        return (!high.contains(&register)).then_some(Operand::Register(register));
    }
    Some(Operand::Value(insn.immediate(index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(bytes: &[u8]) -> Option<(Action, u8, Operand)> {
        let insn = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        AtomicForm::of(&insn).map(|form| {
            assert_eq!(
                AtomicForm::parts(form.number().into()),
                Some((form.action, form.size))
            );
            (form.action, form.size, form.operand)
        })
    }

    #[test]
    fn locked_instructions_have_forms() {
        let value = Operand::Value;
        let register = Operand::Register;
        let cases: [(&[u8], _); 11] = [
            (
                &[0xf0, 0x0f, 0xb1, 0x0f],
                (Action::CompareExchange, 4, register(Register::ECX)),
            ),
            (&[0x86, 0x07], (Action::Exchange, 1, register(Register::AL))),
            (
                &[0x48, 0x87, 0x07],
                (Action::Exchange, 8, register(Register::RAX)),
            ),
            (
                &[0xf0, 0x0f, 0xba, 0x2f, 0x05],
                (Action::SetBit, 4, value(32)),
            ),
            (&[0xf0, 0x0f, 0xba, 0x37, 0x00], (Action::And, 4, value(!1))),
            (
                &[0xf0, 0x0f, 0xab, 0x07],
                (Action::SetNumberedBit, 4, register(Register::EAX)),
            ),
            (
                &[0xf0, 0x0f, 0xc1, 0x07],
                (Action::Add, 4, register(Register::EAX)),
            ),
            (&[0xf0, 0xff, 0x0f], (Action::Subtract, 4, value(1))),
            (&[0xf0, 0x83, 0x07, 0xff], (Action::Add, 4, value(u64::MAX))),
            (&[0xf0, 0x48, 0x83, 0x27, 0xfe], (Action::And, 8, value(!1))),
            (
                &[0xf0, 0x66, 0x09, 0x07],
                (Action::Or, 2, register(Register::AX)),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(of(bytes), Some(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn what_cannot_be_part_of_a_lock_has_no_form() {
        assert_eq!(of(&[0x01, 0x07]), None, "add [rdi], eax without lock");
        assert_eq!(of(&[0x87, 0xc1]), None, "xchg ecx, eax");
        assert_eq!(of(&[0x86, 0x27]), None, "xchg [rdi], ah");
        assert_eq!(
            of(&[0xf0, 0x48, 0x0f, 0xc7, 0x0f]),
            None,
            "lock cmpxchg16b [rdi]"
        );
    }
}
