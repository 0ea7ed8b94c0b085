//! What some instructions need before they can run: a division that does not fault, pointers and counts of string instructions, bit
//! indices inside of the operand.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::assembly::memory;
use crate::instruction::{POOL, sized};
use crate::layout::{CASE, MEMORY, MEMORY_BYTES};
use seeded_random::SeededRandom;

/// Instructions around the one that is tested.
#[derive(Default)]
pub struct Preparation {
    pub before: Vec<Instruction>,
    pub after: Vec<Instruction>,
}

impl Preparation {
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// The width of an operand in bits.
pub fn width(insn: &Instruction, operand: u32) -> usize {
    if operand >= insn.op_count() {
        return 0;
    }
    match insn.op_kind(operand) {
        OpKind::Register => 8 * insn.op_register(operand).size(),
        OpKind::Memory => 8 * insn.memory_size().size(),
        _ => 64,
    }
}

/// What an instruction needs. `None` if it cannot be tested with these operands.
pub fn of(random: &mut SeededRandom, insn: &mut Instruction, number: usize) -> Option<Preparation> {
    use Mnemonic as M;
    let mut needs = Preparation::default();
    match insn.mnemonic() {
        _ if insn.is_string_instruction() => string(random, insn, number, &mut needs)?,
        M::Div | M::Idiv => division(random, insn, &mut needs)?,
        M::Lea => {
            // Any registers, any displacement.
            insn.set_memory_base(random.pick(&POOL));
            insn.set_memory_index(random.pick(&POOL));
            if random.chance(15) {
                insn.set_memory_base(sized(insn.memory_base(), 4));
                insn.set_memory_index(sized(insn.memory_index(), 4));
            }
            insn.set_memory_index_scale(1 << random.below(4));
            insn.set_memory_displacement64(random.value() as i32 as u64);
            insn.set_memory_displ_size(8);
            if insn.memory_base().size() == 4 {
                insn.set_memory_displ_size(4);
                insn.set_memory_displacement64(insn.memory_displacement64() & 0xffff_ffff);
            }
        }
        M::Bt | M::Bts | M::Btr | M::Btc
            if insn.op_kind(0) == OpKind::Memory && insn.op_kind(1) == OpKind::Register =>
        {
            let index = insn.op_register(1).full_register();
            let last = width(insn, 0) as i32 - 1;
            needs
                .before
                .push(with_immediate(Code::And_rm64_imm8, index, last)?);
        }
        M::Bsf | M::Bsr if insn.op_kind(1) == OpKind::Memory => return None,
        M::Bsf | M::Bsr => {
            // Without a bit that is set, the result is undefined.
            let source = insn.op_register(1).full_register();
            needs.before.push(with_immediate(
                Code::Or_rm64_imm8,
                source,
                1 << random.below(7),
            )?);
        }
        M::Shld | M::Shrd if width(insn, 0) == 16 => {
            if insn.op_kind(2) == OpKind::Register {
                let count = with_immediate(Code::And_rm32_imm8, Register::ECX, 15)?;
                needs.before.push(count);
            } else {
                insn.set_immediate8(insn.immediate8() & 15);
            }
        }
        M::Push if insn.op_count() == 1 => {
            let to = random.pick(&POOL);
            let popped = match insn.stack_pointer_increment() {
                -8 => Instruction::with1(Code::Pop_r64, to),
                _ => Instruction::with1(Code::Pop_r16, sized(to, 2)),
            };
            needs.after.push(popped.ok()?);
        }
        M::Pop => {
            let from = random.pick(&POOL);
            let pushed = match insn.stack_pointer_increment() {
                8 => Instruction::with1(Code::Push_r64, from),
                _ => Instruction::with1(Code::Push_r16, sized(from, 2)),
            };
            needs.before.push(pushed.ok()?);
        }
        M::Leave if insn.code() == Code::Leaveq => {
            let pushed = Instruction::with1(Code::Push_r64, random.pick(&POOL));
            let framed = Instruction::with2(Code::Mov_r64_rm64, Register::RBP, Register::RSP);
            needs.before.extend([pushed.ok()?, framed.ok()?]);
        }
        M::Leave => return None,
        _ => {}
    }
    Some(needs)
}

/// Lets the address of a memory operand depend on the input: a small index is added, so that it is one of a table.
pub fn add_index(
    random: &mut SeededRandom,
    insn: &mut Instruction,
    needs: &mut Preparation,
) -> Option<()> {
    const LARGEST: i32 = 7;
    let is_placed = insn.memory_base() == Register::R15 && insn.memory_index() == Register::None;
    let is_far = matches!(
        insn.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if is_placed && !is_far && insn.memory_size().size() < 16 {
        let index = random.pick(&POOL);
        let small = with_immediate(Code::And_rm64_imm8, index, LARGEST)?;
        needs.before.push(small);
        insn.set_memory_index(index);
    }
    Some(())
}

fn with_immediate(code: Code, register: Register, value: i32) -> Option<Instruction> {
    Instruction::with2(code, register, value).ok()
}

/// The quotient fits, because the dividend is less than four times what the low part can be, and the divisor at least 16; or the
/// dividend is the low part with its sign.
fn division(random: &mut SeededRandom, insn: &Instruction, needs: &mut Preparation) -> Option<()> {
    let width = width(insn, 0);
    let operand = (insn.op_kind(0) == OpKind::Register).then(|| insn.op_register(0));
    if operand.is_some_and(|it| matches!(it.full_register(), Register::RAX | Register::RDX)) {
        return None;
    }
    let (and, or) = match width {
        8 => (Code::And_rm8_imm8, Code::Or_rm8_imm8),
        16 => (Code::And_rm16_imm8, Code::Or_rm16_imm8),
        32 => (Code::And_rm32_imm8, Code::Or_rm32_imm8),
        _ => (Code::And_rm64_imm8, Code::Or_rm64_imm8),
    };
    let mut change = |code: Code, value: i32| {
        let changed = match operand {
            Some(register) => Instruction::with2(code, register, value),
            None => {
                let displacement = insn.memory_displacement64() as usize;
                Instruction::with2(code, memory(Register::R15, displacement), value)
            }
        };
        changed.ok().map(|it| needs.before.push(it))
    };
    if insn.mnemonic() == Mnemonic::Idiv {
        change(and, 0x7f)?;
    }
    change(or, 0x10)?;
    let signed = insn.mnemonic() == Mnemonic::Idiv && random.chance(50);
    let high = match (width, signed) {
        (8, true) => Ok(Instruction::with(Code::Cbw)),
        (16, true) => Ok(Instruction::with(Code::Cwd)),
        (32, true) => Ok(Instruction::with(Code::Cdq)),
        (_, true) => Ok(Instruction::with(Code::Cqo)),
        (8, _) => Instruction::with2(Code::And_rm16_imm16, Register::AX, 0x3ff),
        (16, _) => Instruction::with2(Code::And_rm16_imm8, Register::DX, 3),
        (32, _) => Instruction::with2(Code::And_rm32_imm8, Register::EDX, 3),
        _ if random.chance(30) => {
            Instruction::with2(Code::Xor_r64_rm64, Register::RDX, Register::RDX)
        }
        _ => Instruction::with2(Code::And_rm64_imm8, Register::RDX, 3),
    };
    needs.before.push(high.ok()?);
    Some(())
}

/// Pointers into the memory of the case, and a count that is the same on all inputs.
fn string(
    random: &mut SeededRandom,
    insn: &Instruction,
    number: usize,
    needs: &mut Preparation,
) -> Option<()> {
    let half = MEMORY_BYTES / 2;
    let back = random.chance(25);
    let start = if back { half - 8 } else { 0 };
    for (register, at) in [(Register::RSI, 0), (Register::RDI, half)] {
        let from = memory(Register::R15, number * CASE + MEMORY + at + start);
        let pointer = Instruction::with2(Code::Lea_r64_m, register, from);
        needs.before.push(pointer.ok()?);
    }
    if insn.has_rep_prefix() || insn.has_repne_prefix() {
        let count = random.below(half as u64 / 8 + 1) as u32;
        let counted = Instruction::with2(Code::Mov_r32_imm32, Register::ECX, count);
        needs.before.push(counted.ok()?);
    }
    if back {
        needs.before.push(Instruction::with(Code::Std));
        needs.after.push(Instruction::with(Code::Cld));
    }
    Some(())
}
