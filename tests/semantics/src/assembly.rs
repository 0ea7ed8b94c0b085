//! Machine code at the address at which the host maps it.

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

use crate::layout::{CODE, INPUT, OUTPUT};

pub struct Assembly {
    encoder: Encoder,
    pub code: Vec<u8>,
}

const SAVED: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

impl Assembly {
    /// Begins the function that the host calls: `r14` points to the input, `r15` to the output.
    pub fn new() -> Self {
        let mut assembly = Assembly {
            encoder: Encoder::new(64),
            code: Vec::new(),
        };
        for register in SAVED {
            assembly.add(Instruction::with1(Code::Push_r64, register));
        }
        for (register, address) in [(Register::R14, INPUT), (Register::R15, OUTPUT)] {
            assembly.add(Instruction::with2(Code::Mov_r64_imm64, register, address));
        }
        assembly
    }

    /// Ends the function.
    pub fn finish(mut self, has_avx: bool) -> Vec<u8> {
        if has_avx {
            self.add(Ok(Instruction::with(Code::VEX_Vzeroupper)));
        }
        for register in SAVED.into_iter().rev() {
            self.add(Instruction::with1(Code::Pop_r64, register));
        }
        self.add(Ok(Instruction::with(Code::Retnq)));
        self.code
    }

    /// The address of the next instruction.
    pub fn at(&self) -> u64 {
        CODE + self.code.len() as u64
    }

    /// Appends an instruction that is known to be one.
    pub fn add(&mut self, insn: Result<Instruction, iced_x86::IcedError>) {
        let insn = insn.expect("the operands fit the instruction");
        assert!(self.append(&insn), "{insn} cannot be encoded");
    }

    /// Appends an instruction; false if it cannot be encoded.
    pub fn append(&mut self, insn: &Instruction) -> bool {
        let at = self.at();
        let encoded = self.encoder.encode(insn, at);
        let bytes = self.encoder.take_buffer();
        if encoded.is_ok() {
            self.code.extend(bytes);
        }
        encoded.is_ok()
    }

    /// Appends a load of a register from memory.
    pub fn load(&mut self, code: Code, register: Register, memory: MemoryOperand) {
        self.add(Instruction::with2(code, register, memory));
    }

    /// Appends a store of a register to memory.
    pub fn store(&mut self, code: Code, memory: MemoryOperand, register: Register) {
        self.add(Instruction::with2(code, memory, register));
    }
}

/// Memory at a displacement from a register.
pub fn memory(base: Register, displacement: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, displacement as i64)
}
