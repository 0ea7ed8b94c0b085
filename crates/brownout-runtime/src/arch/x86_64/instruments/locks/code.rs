//! The code around a locked instruction that leaves in the log of its thread what it did.
//!
//! Before it, the address of the word and an operand that will be overwritten are kept. Behind it, what was there before and the
//! operand go to the assembly in [`super::note`]. Registers and flags stay as they are throughout.

use super::form::{Action, AtomicForm, Operand};
use crate::arch::translator::translate::{Emission, number};
use crate::instruments::locks::operation::mask;
use crate::instruments::locks::{AtomicOperation, Change, LoggedInstruction};
use crate::slot;
use iced_x86::{Instruction, Register};

const RAX: u8 = 0;
const RCX: u8 = 1;

/// Whether a logged instruction sets a bit whose word generated code does not know.
pub fn sets_numbered_bit(logged: &LoggedInstruction) -> bool {
    AtomicForm::parts(logged.form).is_some_and(|(action, _)| action == Action::SetNumberedBit)
}

/// Whether what an instruction does is logged.
pub fn is_logged(insn: &Instruction) -> bool {
    AtomicForm::of(insn).is_some()
}

/// Emits what is needed before an instruction.
pub fn before(insn: &Instruction, out: &mut Emission<'_>) {
    let Some(form) = AtomicForm::of(insn) else {
        return;
    };
    out.out.gs_store(slot!(cpu.spill_rcx), RCX);
    out.effective_address(insn, RCX);
    out.out.gs_store(slot!(areas.locks.word), RCX);
    out.out.gs_load(RCX, slot!(cpu.spill_rcx));
    if let (true, Operand::Register(register)) = (form.fetches, form.operand) {
        out.out
            .gs_store(slot!(areas.locks.operand), number(register));
    }
}

/// Emits what is needed behind an instruction.
pub fn after(insn: &Instruction, out: &mut Emission<'_>) {
    let Some(form) = AtomicForm::of(insn) else {
        return;
    };
    // An instruction that did nothing is not logged: jne, or jc
    let failed = match form.action {
        Action::CompareExchange => Some(0x75),
        Action::SetBit | Action::SetNumberedBit => Some(0x72),
        _ => None,
    };
    let hop = failed.map(|jump| {
        out.out.put(&[jump, 0]);
        out.out.here() - 1
    });
    out.out.gs_store(slot!(cpu.spill_rax), RAX);
    out.out.gs_store(slot!(cpu.spill_rcx), RCX);
    // The second value first: the operand may be rax.
    match form.operand {
        Operand::Register(register) if form.fetches => {
            out.extend_slot(RCX, slot!(areas.locks.operand), form.size);
            let from = number_of(register, out);
            out.extend_register(RAX, from, form.size);
        }
        Operand::Register(register) => {
            out.extend_register(RCX, number(register), form.size);
            out.extend_register(RAX, RAX, form.size);
        }
        // Nothing is known of the other bits: they pass for set before and after.
        Operand::Value(bit) if form.action == Action::SetBit => {
            out.out.mov_imm(RCX, mask(form.size));
            out.out.mov_imm(RAX, mask(form.size) & !bit);
        }
        Operand::Value(value) => {
            out.out.mov_imm(RCX, value & mask(form.size));
            out.out.mov_imm(RAX, 0);
        }
    }
    out.out.gs_store_imm(slot!(areas.locks.pc), insn.ip());
    let entry = match form.action {
        Action::CompareExchange | Action::Exchange | Action::SetBit => {
            slot!(areas.locks.to_exchanged)
        }
        _ => slot!(areas.locks.to_changed),
    };
    out.visit(form.number(), entry);
    if let Some(hop) = hop {
        out.out.land_short(hop);
    }
}

/// The register that holds the operand now: rcx has just been overwritten and is read from its slot.
fn number_of(register: Register, out: &mut Emission<'_>) -> u8 {
    let register = number(register);
    if register == RCX {
        out.out.gs_load(RAX, slot!(cpu.spill_rcx));
        RAX
    } else {
        register
    }
}

impl Emission<'_> {
    /// `to` becomes the lowest `size` bytes of a register, and zeros.
    fn extend_register(&mut self, to: u8, from: u8, size: u8) {
        let high = (to >> 3) << 2 | from >> 3;
        let registers = 0xc0 | (to & 7) << 3 | from & 7;
        match size {
            // movzx
            1 => self.out.put(&[0x40 | high, 0x0f, 0xb6, registers]),
            2 => self.out.put(&[0x40 | high, 0x0f, 0xb7, registers]),
            // mov
            4 => self.out.put(&[0x40 | high, 0x8b, registers]),
            _ => self.out.put(&[0x48 | high, 0x8b, registers]),
        }
    }

    /// `to`, one of the first eight registers, becomes the lowest `size` bytes of a slot, and zeros.
    fn extend_slot(&mut self, to: u8, slot: i32, size: u8) {
        match size {
            1 => self.out.put(&[0x65, 0x0f, 0xb6]),
            2 => self.out.put(&[0x65, 0x0f, 0xb7]),
            4 => self.out.put(&[0x65, 0x8b]),
            _ => self.out.put(&[0x65, 0x48, 0x8b]),
        }
        self.out.put(&[0x04 | to << 3, 0x25]);
        self.out.put_u32(slot as u32);
    }
}

/// What a logged instruction did; `None` if the entry is none.
pub fn operation(logged: &LoggedInstruction) -> Option<AtomicOperation> {
    let (action, size) = AtomicForm::parts(logged.form)?;
    let (old, value) = (logged.first, logged.second);
    let bits = 8 * i64::from(size);
    // A numbered bit is counted from the lowest one of the word at the address of the operand, in both directions.
    let number = match size {
        2 => i64::from(value as i16),
        4 => i64::from(value as i32),
        _ => value as i64,
    };
    let distance = number.div_euclid(bits) * i64::from(size);
    let bit = 1 << number.rem_euclid(bits);
    let (distance, change) = match action {
        Action::CompareExchange => (0, Change::CompareExchange { old, new: value }),
        Action::Exchange => (0, Change::Exchange { old, new: value }),
        Action::SetBit => (0, Change::SetBit(value & !old)),
        Action::SetNumberedBit => (distance, Change::SetBit(bit)),
        Action::ClearNumberedBit => (distance, Change::And(mask(size) & !bit)),
        Action::Add => (0, Change::Add(value)),
        Action::Subtract => (0, Change::Add(value.wrapping_neg() & mask(size))),
        Action::And => (0, Change::And(value)),
        Action::Or => (0, Change::Or(value)),
        Action::Xor => (0, Change::Xor(value)),
    };
    Some(AtomicOperation {
        word: logged.word.wrapping_add_signed(distance),
        size,
        pc: logged.pc,
        change,
    })
}
