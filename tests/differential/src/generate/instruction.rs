//! One instruction of a given kind with operands chosen at random.

use iced_x86::{
    Code, EncodingKind, Instruction, OpCodeOperandKind as Kind, OpKind, Register, RoundingControl,
};

use super::draft::Draft;
use super::special;

/// Appends an instruction of this kind, with what it needs in registers and memory. False if the choice
/// of operands did not fit together.
pub fn append(draft: &mut Draft, code: Code) -> bool {
    let op_code = code.op_code();
    let mut insn = Instruction::default();
    insn.set_code(code);
    let mut memory = None;
    for operand in 0..op_code.op_count() {
        match set_operand(draft, &mut insn, operand, op_code.op_kind(operand)) {
            Some(Chosen::Memory) => memory = Some(operand),
            Some(Chosen::Other) => {}
            None => return false,
        }
    }
    set_prefixes(draft, &mut insn, memory);
    let mut address = None;
    if let Some(operand) = memory {
        let kind = op_code.op_kind(operand);
        let wanted = special::address(draft, &insn);
        let placed = match kind {
            Kind::mem_offs => set_absolute(draft, &mut insn, wanted),
            _ => match vector_index(kind) {
                Some(index) => set_vector_indexed(draft, &mut insn, wanted, index),
                None => draft.operand(&mut insn, wanted),
            },
        };
        if !placed {
            return false;
        }
        address = Some(wanted);
    }
    special::prepare(draft, &insn, address) && draft.append(&insn)
}

/// Whether a form of the instruction touches memory.
pub fn may_use_memory(code: Code) -> bool {
    let op_code = code.op_code();
    op_code.op_kinds().iter().any(|kind| {
        is_memory(*kind)
            || is_register_or_memory(*kind)
            || matches!(
                kind,
                Kind::seg_rSI | Kind::es_rDI | Kind::seg_rDI | Kind::seg_rBX_al
            )
    }) || op_code.is_stack_instruction()
}

enum Chosen {
    Memory,
    Other,
}

fn is_memory(kind: Kind) -> bool {
    matches!(kind, Kind::mem | Kind::mem_offs) || vector_index(kind).is_some()
}

fn is_register_or_memory(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::r8_or_mem
            | Kind::r16_or_mem
            | Kind::r32_or_mem
            | Kind::r64_or_mem
            | Kind::mm_or_mem
            | Kind::xmm_or_mem
            | Kind::ymm_or_mem
            | Kind::zmm_or_mem
            | Kind::k_or_mem
    )
}

/// First register of the class of a vector-indexed operand's index, and the size of its elements.
pub fn vector_index(kind: Kind) -> Option<(Register, usize)> {
    Some(match kind {
        Kind::mem_vsib32x => (Register::XMM0, 4),
        Kind::mem_vsib64x => (Register::XMM0, 8),
        Kind::mem_vsib32y => (Register::YMM0, 4),
        Kind::mem_vsib64y => (Register::YMM0, 8),
        Kind::mem_vsib32z => (Register::ZMM0, 4),
        Kind::mem_vsib64z => (Register::ZMM0, 8),
        _ => return None,
    })
}

fn set_operand(
    draft: &mut Draft,
    insn: &mut Instruction,
    operand: u32,
    kind: Kind,
) -> Option<Chosen> {
    if is_memory(kind) || is_register_or_memory(kind) && draft.random.chance(80) {
        insn.set_op_kind(operand, OpKind::Memory);
        return Some(Chosen::Memory);
    }
    if let Some(register) = register(draft, insn, operand, kind) {
        insn.set_op_kind(operand, OpKind::Register);
        insn.set_op_register(operand, register);
        return Some(Chosen::Other);
    }
    let narrow = draft.region == crate::layout::Region::Low && draft.random.chance(10);
    let second = (0..operand).any(|earlier| {
        matches!(
            insn.op_kind(earlier),
            OpKind::Immediate8 | OpKind::Immediate16
        )
    });
    let immediate = match kind {
        Kind::seg_rSI => implicit(narrow, OpKind::MemorySegRSI, OpKind::MemorySegESI),
        Kind::es_rDI => implicit(narrow, OpKind::MemoryESRDI, OpKind::MemoryESEDI),
        Kind::seg_rDI => OpKind::MemorySegRDI,
        Kind::seg_rBX_al => {
            insn.set_op_kind(operand, OpKind::Memory);
            insn.set_memory_base(Register::RBX);
            insn.set_memory_index(Register::AL);
            insn.set_memory_index_scale(1);
            return Some(Chosen::Other);
        }
        Kind::imm4_m2z | Kind::imm8 | Kind::imm8_const_1 if second => OpKind::Immediate8_2nd,
        Kind::imm4_m2z | Kind::imm8 | Kind::imm8_const_1 => OpKind::Immediate8,
        Kind::imm8sex16 => OpKind::Immediate8to16,
        Kind::imm8sex32 => OpKind::Immediate8to32,
        Kind::imm8sex64 => OpKind::Immediate8to64,
        Kind::imm16 => OpKind::Immediate16,
        Kind::imm32 => OpKind::Immediate32,
        Kind::imm32sex64 => OpKind::Immediate32to64,
        Kind::imm64 => OpKind::Immediate64,
        _ => return None,
    };
    // Both operands of a string instruction use the same address size.
    let earlier = (0..operand)
        .map(|earlier| insn.op_kind(earlier))
        .find(|kind| is_implicit(*kind));
    let kind_of_operand = match (earlier, immediate) {
        (Some(OpKind::MemoryESRDI | OpKind::MemorySegRSI), OpKind::MemorySegESI) => {
            OpKind::MemorySegRSI
        }
        (Some(OpKind::MemoryESRDI | OpKind::MemorySegRSI), OpKind::MemoryESEDI) => {
            OpKind::MemoryESRDI
        }
        (Some(OpKind::MemoryESEDI | OpKind::MemorySegESI), OpKind::MemorySegRSI) => {
            OpKind::MemorySegESI
        }
        (Some(OpKind::MemoryESEDI | OpKind::MemorySegESI), OpKind::MemoryESRDI) => {
            OpKind::MemoryESEDI
        }
        (_, chosen) => chosen,
    };
    insn.set_op_kind(operand, kind_of_operand);
    if !is_implicit(kind_of_operand) {
        let value = match kind {
            Kind::imm8_const_1 => 1,
            Kind::imm4_m2z => draft.random.below(16),
            Kind::imm16 if insn.code() == Code::Enterq_imm16_imm8 => draft.random.below(512),
            Kind::imm8
                if second && insn.code() == Code::Enterq_imm16_imm8 && draft.random.chance(70) =>
            {
                0
            }
            Kind::imm8 if second && insn.code() == Code::Enterq_imm16_imm8 => draft.random.below(4),
            _ => draft.random.value(),
        };
        set_immediate(insn, kind_of_operand, value);
    }
    Some(Chosen::Other)
}

fn implicit(narrow: bool, wide: OpKind, short: OpKind) -> OpKind {
    if narrow { short } else { wide }
}

fn is_implicit(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::MemorySegRSI
            | OpKind::MemorySegESI
            | OpKind::MemoryESRDI
            | OpKind::MemoryESEDI
            | OpKind::MemorySegRDI
    )
}

fn set_immediate(insn: &mut Instruction, kind: OpKind, value: u64) {
    match kind {
        OpKind::Immediate8 => insn.set_immediate8(value as u8),
        OpKind::Immediate8_2nd => insn.set_immediate8_2nd(value as u8),
        OpKind::Immediate16 => insn.set_immediate16(value as u16),
        OpKind::Immediate32 => insn.set_immediate32(value as u32),
        OpKind::Immediate64 => insn.set_immediate64(value),
        OpKind::Immediate8to16 => insn.set_immediate8to16(i16::from(value as i8)),
        OpKind::Immediate8to32 => insn.set_immediate8to32(i32::from(value as i8)),
        OpKind::Immediate8to64 => insn.set_immediate8to64(i64::from(value as i8)),
        _ => insn.set_immediate32to64(i64::from(value as i32)),
    }
}

/// A register for an operand, if it takes one.
fn register(draft: &mut Draft, insn: &Instruction, operand: u32, kind: Kind) -> Option<Register> {
    const BYTES: [Register; 20] = [
        Register::AL,
        Register::CL,
        Register::DL,
        Register::BL,
        Register::AH,
        Register::CH,
        Register::DH,
        Register::BH,
        Register::SPL,
        Register::BPL,
        Register::SIL,
        Register::DIL,
        Register::R8L,
        Register::R9L,
        Register::R10L,
        Register::R11L,
        Register::R12L,
        Register::R13L,
        Register::R14L,
        Register::R15L,
    ];
    let evex = insn.code().encoding() == EncodingKind::EVEX;
    let any =
        |draft: &mut Draft, first: Register, count: u64| first + draft.random.below(count) as u32;
    let vectors = if evex { 32 } else { 16 };
    Some(match kind {
        Kind::r8_or_mem | Kind::r8_reg | Kind::r8_opcode => draft.random.pick(&BYTES),
        Kind::r16_or_mem | Kind::r16_reg | Kind::r16_rm | Kind::r16_opcode => {
            any(draft, Register::AX, 16)
        }
        Kind::r32_or_mem | Kind::r32_reg | Kind::r32_rm | Kind::r32_opcode | Kind::r32_vvvv => {
            any(draft, Register::EAX, 16)
        }
        Kind::r64_or_mem
        | Kind::r64_reg
        | Kind::r64_rm
        | Kind::r64_opcode
        | Kind::r64_vvvv
        | Kind::r64_reg_mem => any(draft, Register::RAX, 16),
        Kind::seg_reg if operand != 0 => any(draft, Register::ES, 6),
        Kind::k_or_mem | Kind::k_reg | Kind::k_rm | Kind::k_vvvv => any(draft, Register::K0, 8),
        Kind::kp1_reg => {
            draft
                .random
                .pick(&[Register::K0, Register::K2, Register::K4, Register::K6])
        }
        Kind::mm_or_mem | Kind::mm_reg | Kind::mm_rm => any(draft, Register::MM0, 8),
        Kind::xmm_or_mem | Kind::xmm_reg | Kind::xmm_rm | Kind::xmm_vvvv => {
            any(draft, Register::XMM0, vectors)
        }
        Kind::ymm_or_mem | Kind::ymm_reg | Kind::ymm_rm | Kind::ymm_vvvv => {
            any(draft, Register::YMM0, vectors)
        }
        Kind::zmm_or_mem | Kind::zmm_reg | Kind::zmm_rm | Kind::zmm_vvvv => {
            any(draft, Register::ZMM0, vectors)
        }
        Kind::xmm_is4 | Kind::xmm_is5 => any(draft, Register::XMM0, 16),
        Kind::ymm_is4 | Kind::ymm_is5 => any(draft, Register::YMM0, 16),
        Kind::fs if operand == 0 && insn.code().mnemonic() == iced_x86::Mnemonic::Push => {
            Register::FS
        }
        Kind::gs if operand == 0 && insn.code().mnemonic() == iced_x86::Mnemonic::Push => {
            Register::GS
        }
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        Kind::st0 => Register::ST0,
        Kind::sti_opcode => any(draft, Register::ST0, 8),
        _ => return None,
    })
}

fn set_prefixes(draft: &mut Draft, insn: &mut Instruction, memory: Option<u32>) {
    let op_code = insn.code().op_code();
    if op_code.can_use_op_mask_register()
        && (op_code.require_op_mask_register() || draft.random.chance(70))
    {
        insn.set_op_mask(Register::K1 + draft.random.below(7) as u32);
        if op_code.can_use_zeroing_masking() && memory != Some(0) && draft.random.chance(40) {
            insn.set_zeroing_masking(true);
        }
    }
    if memory.is_some() {
        if op_code.can_broadcast() && draft.random.chance(40) {
            insn.set_is_broadcast(true);
        }
    } else if op_code.can_use_rounding_control() && draft.random.chance(30) {
        let rounding = [
            RoundingControl::RoundToNearest,
            RoundingControl::RoundDown,
            RoundingControl::RoundUp,
            RoundingControl::RoundTowardZero,
        ];
        insn.set_rounding_control(draft.random.pick(&rounding));
    } else if op_code.can_suppress_all_exceptions() && draft.random.chance(30) {
        insn.set_suppress_all_exceptions(true);
    }
    if op_code.can_use_lock_prefix() && memory == Some(0) && draft.random.chance(60) {
        insn.set_has_lock_prefix(true);
    }
    if insn.is_string_instruction() {
        match draft.random.below(3) {
            0 if op_code.can_use_rep_prefix() => insn.set_has_rep_prefix(true),
            1 if op_code.can_use_repne_prefix() => insn.set_has_repne_prefix(true),
            1 if op_code.can_use_rep_prefix() => insn.set_has_rep_prefix(true),
            _ => {}
        }
    }
    let implicit = (0..op_code.op_count())
        .any(|operand| matches!(op_code.op_kind(operand), Kind::seg_rSI | Kind::seg_rBX_al));
    if implicit && draft.random.chance(10) {
        // GS is not supported here.
        insn.set_segment_prefix(Register::FS);
    }
}

fn set_absolute(draft: &mut Draft, insn: &mut Instruction, address: u64) -> bool {
    let segment = draft.random.pick(&[
        Register::None,
        Register::None,
        Register::None,
        Register::FS,
        Register::GS,
    ]);
    let base = match segment {
        Register::FS => draft.case.fs_base,
        Register::GS => draft.case.gs_base,
        _ => 0,
    };
    insn.set_segment_prefix(segment);
    insn.set_memory_displacement64(address.wrapping_sub(base));
    insn.set_memory_displ_size(8);
    true
}

/// An operand `[base + vector * scale]` whose elements all lie near `address`.
fn set_vector_indexed(
    draft: &mut Draft,
    insn: &mut Instruction,
    address: u64,
    (class, element): (Register, usize),
) -> bool {
    let evex = insn.code().encoding() == EncodingKind::EVEX;
    let number = draft.random.below(if evex { 32 } else { 16 }) as usize;
    let scale = 1u32 << draft.random.below(4);
    let reach = if draft.random.chance(30) {
        4
    } else {
        1500 / i64::from(scale)
    };
    let mut lanes = vec![0; 64];
    for lane in lanes.chunks_mut(element) {
        lane.copy_from_slice(&draft.random.around(reach).to_le_bytes()[..element]);
    }
    draft.set_vector(number, &lanes);
    let base = draft.random.below(16) as usize;
    if !draft.fix(base, address) {
        return false;
    }
    insn.set_memory_base(Register::RAX + base as u32);
    insn.set_memory_index(class + number as u32);
    insn.set_memory_index_scale(scale);
    insn.set_memory_displ_size(0);
    insn.set_memory_displacement64(0);
    true
}
