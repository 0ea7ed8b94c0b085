//! One instruction of a given kind with operands chosen at random. General-purpose operands are among the registers that a case has,
//! memory is at a given displacement from `r15`.

use iced_x86::{
    Code, EncodingKind, Instruction, OpCodeOperandKind as Kind, OpKind, Register, RoundingControl,
};

use crate::layout::LOW_VECTORS;
use seeded_random::SeededRandom;

/// The general-purpose registers of cases; `rsp`, `r14` and `r15` have other duties.
pub const POOL: [Register; 13] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
];
const HIGH_BYTES: [Register; 4] = [Register::AH, Register::CH, Register::DH, Register::BH];

/// An instruction whose memory operand, if it has one, is at `[r15 + displacement]`. `None` if the choice did not fit together.
pub fn make(random: &mut SeededRandom, code: Code, displacement: u64) -> Option<Instruction> {
    let op_code = code.op_code();
    let mut insn = Instruction::default();
    insn.set_code(code);
    let mut memory = None;
    for operand in 0..op_code.op_count() {
        let kind = op_code.op_kind(operand);
        let may_be_memory = is_register_or_memory(kind) && random.chance(40);
        if kind == Kind::mem || may_be_memory {
            insn.set_op_kind(operand, OpKind::Memory);
            memory = Some(operand);
        } else if let Some(register) = register(random, code, kind) {
            insn.set_op_kind(operand, OpKind::Register);
            insn.set_op_register(operand, register);
        } else {
            set_other(random, &mut insn, operand, kind)?;
        }
    }
    if memory.is_some() {
        insn.set_memory_base(Register::R15);
        insn.set_memory_displacement64(displacement);
        insn.set_memory_displ_size(8);
        insn.set_memory_index_scale(1);
    }
    set_prefixes(random, &mut insn, memory);
    Some(insn)
}

fn is_register_or_memory(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::r8_or_mem
            | Kind::r16_or_mem
            | Kind::r32_or_mem
            | Kind::r64_or_mem
            | Kind::xmm_or_mem
            | Kind::ymm_or_mem
            | Kind::zmm_or_mem
            | Kind::k_or_mem
    )
}

/// A register of the pool, as wide as `size` bytes.
pub fn sized(register: Register, size: usize) -> Register {
    let number = register.number() as u32;
    match size {
        1 if number >= 8 => Register::R8L + (number - 8),
        1 if number >= 4 => Register::SPL + (number - 4),
        1 => Register::AL + number,
        2 => Register::AX + number,
        4 => Register::EAX + number,
        _ => register,
    }
}

fn register(random: &mut SeededRandom, code: Code, kind: Kind) -> Option<Register> {
    let evex = code.op_code().encoding() == EncodingKind::EVEX;
    let vector = |random: &mut SeededRandom, first: Register| {
        let number = match evex && random.chance(25) {
            true => 16 + random.below(4),
            false => random.below(LOW_VECTORS as u64),
        };
        first + number as u32
    };
    Some(match kind {
        Kind::r8_or_mem | Kind::r8_reg | Kind::r8_opcode => {
            if random.chance(20) {
                random.pick(&HIGH_BYTES)
            } else {
                sized(random.pick(&POOL), 1)
            }
        }
        Kind::r16_or_mem | Kind::r16_reg | Kind::r16_rm | Kind::r16_opcode => {
            sized(random.pick(&POOL), 2)
        }
        Kind::r32_or_mem | Kind::r32_reg | Kind::r32_rm | Kind::r32_opcode | Kind::r32_vvvv => {
            sized(random.pick(&POOL), 4)
        }
        Kind::r64_or_mem | Kind::r64_reg | Kind::r64_rm | Kind::r64_opcode | Kind::r64_vvvv => {
            random.pick(&POOL)
        }
        Kind::k_or_mem | Kind::k_reg | Kind::k_rm | Kind::k_vvvv => {
            Register::K0 + random.below(8) as u32
        }
        Kind::xmm_or_mem | Kind::xmm_reg | Kind::xmm_rm | Kind::xmm_vvvv => {
            vector(random, Register::XMM0)
        }
        Kind::ymm_or_mem | Kind::ymm_reg | Kind::ymm_rm | Kind::ymm_vvvv => {
            vector(random, Register::YMM0)
        }
        Kind::zmm_or_mem | Kind::zmm_reg | Kind::zmm_rm | Kind::zmm_vvvv => {
            vector(random, Register::ZMM0)
        }
        Kind::xmm_is4 => Register::XMM0 + random.below(LOW_VECTORS as u64) as u32,
        Kind::ymm_is4 => Register::YMM0 + random.below(LOW_VECTORS as u64) as u32,
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        _ => return None,
    })
}

/// An operand that is neither memory at an address of its own nor a register.
fn set_other(
    random: &mut SeededRandom,
    insn: &mut Instruction,
    operand: u32,
    kind: Kind,
) -> Option<()> {
    let value = random.value();
    match kind {
        Kind::seg_rSI => insn.set_op_kind(operand, OpKind::MemorySegRSI),
        Kind::es_rDI => insn.set_op_kind(operand, OpKind::MemoryESRDI),
        Kind::br16_1 | Kind::br64_1 | Kind::br64_4 => {
            insn.set_op_kind(operand, OpKind::NearBranch64);
        }
        _ => {
            let (kind, value) = match kind {
                Kind::imm8_const_1 => (OpKind::Immediate8, 1),
                // Small immediates are distances and indices.
                Kind::imm8 if random.chance(50) => (OpKind::Immediate8, value & 0x3f),
                Kind::imm8 => (OpKind::Immediate8, value),
                Kind::imm8sex16 => (OpKind::Immediate8to16, value),
                Kind::imm8sex32 => (OpKind::Immediate8to32, value),
                Kind::imm8sex64 => (OpKind::Immediate8to64, value),
                Kind::imm16 => (OpKind::Immediate16, value),
                Kind::imm32 => (OpKind::Immediate32, value),
                Kind::imm32sex64 => (OpKind::Immediate32to64, value),
                Kind::imm64 => (OpKind::Immediate64, value),
                _ => return None,
            };
            insn.set_op_kind(operand, kind);
            match kind {
                OpKind::Immediate8 => insn.set_immediate8(value as u8),
                OpKind::Immediate16 => insn.set_immediate16(value as u16),
                OpKind::Immediate32 => insn.set_immediate32(value as u32),
                OpKind::Immediate64 => insn.set_immediate64(value),
                OpKind::Immediate8to16 => insn.set_immediate8to16(i16::from(value as i8)),
                OpKind::Immediate8to32 => insn.set_immediate8to32(i32::from(value as i8)),
                OpKind::Immediate8to64 => insn.set_immediate8to64(i64::from(value as i8)),
                _ => insn.set_immediate32to64(i64::from(value as i32)),
            }
        }
    }
    Some(())
}

fn set_prefixes(random: &mut SeededRandom, insn: &mut Instruction, memory: Option<u32>) {
    let op_code = insn.code().op_code();
    if op_code.can_use_op_mask_register()
        && (op_code.require_op_mask_register() || random.chance(40))
    {
        insn.set_op_mask(Register::K1 + random.below(7) as u32);
        if op_code.can_use_zeroing_masking() && memory != Some(0) && random.chance(50) {
            insn.set_zeroing_masking(true);
        }
    }
    if memory.is_some() && op_code.can_broadcast() && random.chance(40) {
        insn.set_is_broadcast(true);
    }
    if memory.is_none() && op_code.can_use_rounding_control() && random.chance(30) {
        insn.set_rounding_control(RoundingControl::RoundDown);
    }
    if op_code.can_use_lock_prefix() && memory == Some(0) && random.chance(30) {
        insn.set_has_lock_prefix(true);
    }
    if insn.is_string_instruction() {
        match random.below(3) {
            0 if op_code.can_use_rep_prefix() => insn.set_has_rep_prefix(true),
            1 if op_code.can_use_repne_prefix() => insn.set_has_repne_prefix(true),
            _ => {}
        }
    }
}
