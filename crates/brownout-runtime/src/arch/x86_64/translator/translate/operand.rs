//! Questions about one decoded instruction: its memory operand, its registers, its rewritten form.

use crate::arch::translator::translate::MemoryOperand;
use crate::fatal;
use alloc::vec::Vec;
use iced_x86::{
    Code, Encoder, Instruction, InstructionInfoFactory, InstructionInfoOptions, MemorySize,
    Mnemonic, OpAccess, OpKind, Register,
};

/// Hardware number of a general-purpose register of any width.
pub fn number(register: Register) -> u8 {
    let full = register.full_register();
    debug_assert!(full.is_gpr64());
    (full as u32 - Register::RAX as u32) as u8
}

/// The 64-bit register with a hardware number.
pub fn register(number: u8) -> Register {
    const ALL: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    ALL[usize::from(number & 15)]
}

/// Whether the instruction has an explicit memory operand.
pub fn has_memory(insn: &Instruction) -> bool {
    insn.op_kinds().any(|kind| kind == OpKind::Memory)
}

/// The explicit memory operand without its segment; `None` for RIP-relative and vector-indexed ones.
pub fn memory(insn: &Instruction) -> Option<MemoryOperand> {
    if insn.is_ip_rel_memory_operand() || insn.is_vsib() {
        return None;
    }
    let (base, index) = (insn.memory_base(), insn.memory_index());
    let optional = |r: Register| (r != Register::None).then(|| number(r));
    let narrow = |r: Register| r != Register::None && r.size() == 4;
    Some(MemoryOperand {
        base: optional(base),
        index: optional(index),
        scale: insn.memory_index_scale() as u8,
        displacement: insn.memory_displacement64() as i32,
        narrow: narrow(base)
            || narrow(index)
            // An absolute 32-bit address is zero-extended with the address-size prefix only.
            || (base == Register::None
                && index == Register::None
                && insn.memory_displ_size() == 4),
    })
}

/// Whether an instruction works with the GS register itself: loads it, or has an operand there whose
/// address cannot be computed beforehand.
pub fn needs_real_gs(insn: &Instruction) -> bool {
    let loads = insn.op0_kind() == OpKind::Register
        && insn.op0_register() == Register::GS
        && insn.mnemonic() != Mnemonic::Push
        || insn.mnemonic() == Mnemonic::Lgs;
    let implicit = |kind: OpKind| {
        matches!(
            kind,
            OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemorySegEDI
                | OpKind::MemorySegRDI
        )
    };
    let unusual =
        insn.is_vsib() || insn.mnemonic() == Mnemonic::Xlatb || insn.op_kinds().any(implicit);
    loads || unusual && insn.memory_segment() == Register::GS
}

/// The size in bytes of the memory operand, 0 if the instruction does not say.
pub fn memory_size(insn: &Instruction) -> usize {
    match insn.memory_size() {
        MemorySize::Unknown => 0,
        size => size.size(),
    }
}

/// Analyses instructions; holds the buffers that iced needs.
pub struct Analyst {
    info: InstructionInfoFactory,
    encoder: Encoder,
}

/// What an instruction does to its explicit or implicit memory operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Analyst {
    pub fn new() -> Analyst {
        Analyst {
            info: InstructionInfoFactory::new(),
            encoder: Encoder::new(64),
        }
    }

    pub fn access(&mut self, insn: &Instruction) -> Access {
        let info = self
            .info
            .info_options(insn, InstructionInfoOptions::NO_REGISTER_USAGE);
        let mut access = Access {
            reads: false,
            writes: false,
        };
        for used in info.used_memory() {
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => access.reads = true,
                OpAccess::Write | OpAccess::CondWrite => access.writes = true,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                    access.reads = true;
                    access.writes = true;
                }
                OpAccess::None | OpAccess::NoMemAccess => {}
            }
        }
        access
    }

    /// A register that the instruction neither reads nor writes, encodable together with any of its operands.
    pub fn scratch(&mut self, insn: &Instruction) -> u8 {
        let mut used = 1u32 << 4;
        for register in self
            .info
            .info_options(insn, InstructionInfoOptions::NO_MEMORY_USAGE)
            .used_registers()
        {
            if register.register().is_gpr() {
                used |= 1 << number(register.register());
            }
        }
        // Low numbers first: registers without REX go with ah…bh.
        (0..16u8).find(|n| used >> n & 1 == 0).unwrap_or_else(|| {
            fatal::fault(format_args!(
                "the instruction at {:#x} leaves no register free",
                insn.ip()
            ))
        })
    }

    /// Encodes an instruction for cache address `at`.
    pub fn encode(&mut self, insn: &Instruction, at: u64) -> Vec<u8> {
        match self.encoder.encode(insn, at) {
            Ok(_) => self.encoder.take_buffer(),
            Err(error) => fatal::unsupported(format_args!(
                "instruction {:?} at {:#x} cannot be re-encoded ({error}); please report it",
                insn.code(),
                insn.ip()
            )),
        }
    }
}

impl Default for Analyst {
    fn default() -> Self {
        Analyst::new()
    }
}

/// The instruction with its memory operand replaced by `[scratch]`.
pub fn through_register(insn: &Instruction, scratch: u8) -> Instruction {
    let mut changed = *insn;
    // The forms with an absolute address have no base register; their general forms do.
    let general = match insn.code() {
        Code::Mov_moffs8_AL => Some(Code::Mov_rm8_r8),
        Code::Mov_moffs16_AX => Some(Code::Mov_rm16_r16),
        Code::Mov_moffs32_EAX => Some(Code::Mov_rm32_r32),
        Code::Mov_moffs64_RAX => Some(Code::Mov_rm64_r64),
        Code::Mov_AL_moffs8 => Some(Code::Mov_r8_rm8),
        Code::Mov_AX_moffs16 => Some(Code::Mov_r16_rm16),
        Code::Mov_EAX_moffs32 => Some(Code::Mov_r32_rm32),
        Code::Mov_RAX_moffs64 => Some(Code::Mov_r64_rm64),
        _ => None,
    };
    if let Some(code) = general {
        changed.set_code(code);
    }
    changed.set_memory_base(register(scratch));
    changed.set_memory_index(Register::None);
    changed.set_memory_index_scale(1);
    changed.set_memory_displacement64(0);
    changed.set_memory_displ_size(0);
    changed.set_segment_prefix(Register::None);
    changed
}
