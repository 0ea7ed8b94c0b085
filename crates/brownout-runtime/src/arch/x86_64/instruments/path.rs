//! What an instruction of x86-64 reads and writes, and the way from generated code to where it is recorded.

use crate::instruments::path::{PathArea, REGISTERS, VISIT};
use crate::target_memory;
use crate::translator::context::Context;
use alloc::vec::Vec;
use core::arch::x86_64::__cpuid_count;
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};

global_asm!(
    ".text",
    ".globl path_visit",
    "path_visit:",
    "mov dword ptr gs:[{exit}], {visit}",
    "jmp gate_exit",
    exit = const offset_of!(Context, exit),
    visit = const VISIT,
);

unsafe extern "C" {
    fn path_visit();
}

/// Fills the entry point for generated code.
pub fn connect(area: &mut PathArea) {
    area.to_visit = path_visit as *const () as u64;
}

const RCX: usize = 1;
const FLAGS: usize = 16;
const DIRECTION: u64 = 1 << 10;
/// Elements of a repeated string instruction that are recorded at most.
const MOST_ELEMENTS: u64 = 16 << 10;

/// Something that an instruction reads, besides general-purpose registers.
pub enum Read<'a> {
    /// `computed` if the address depends on more than the stack or instruction pointer.
    Memory {
        addr: u64,
        len: u64,
        computed: bool,
    },
    Vector {
        number: u8,
        bytes: &'a [u8],
    },
    Mask {
        number: u8,
        value: u64,
    },
}

/// An instruction as it is recorded.
pub struct RecordedInstruction {
    pub pc: u64,
    code: [u8; 15],
    len: u8,
    memory: Vec<UsedMemory>,
    vectors: Vec<Register>,
    masks: Vec<Register>,
    /// The bytes of an element, if it is a repeated string instruction.
    repeated: Option<u64>,
}

impl RecordedInstruction {
    pub fn of(insn: &Instruction) -> RecordedInstruction {
        let mut code = [0; 15];
        let len = insn.len().min(15);
        target_memory::read_into(insn.ip(), &mut code[..len]);
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(insn);
        let (mut vectors, mut masks) = (Vec::new(), Vec::new());
        for used in info.used_registers() {
            let register = used.register();
            if !reads(used.access()) {
                continue;
            }
            if register.is_vector_register() {
                vectors.push(register);
            } else if register.is_k() {
                masks.push(register);
            }
        }
        RecordedInstruction {
            pc: insn.ip(),
            code,
            len: len as u8,
            memory: info.used_memory().to_vec(),
            vectors,
            masks,
            repeated: (insn.is_string_instruction()
                && (insn.has_rep_prefix() || insn.has_repne_prefix()))
            .then(|| insn.memory_size().size() as u64),
        }
    }

    pub fn code(&self) -> &[u8] {
        &self.code[..usize::from(self.len)]
    }

    /// Where an access to memory is, and how long.
    fn range(&self, used: &UsedMemory, registers: &[u64; REGISTERS]) -> Option<(u64, u64)> {
        let value = |register: Register, _, _| {
            Some(match register {
                Register::FS => registers[17],
                Register::GS => registers[18],
                _ if register.is_gpr64() => registers[register.number()],
                _ if register.is_gpr32() => registers[register.number()] & 0xffff_ffff,
                _ => 0,
            })
        };
        let vsib = used.index().is_vector_register();
        // What a repeated instruction uses has no size: it depends on the count.
        let size = { self.repeated }.unwrap_or(used.memory_size().size() as u64);
        if vsib || size == 0 {
            return None;
        }
        // Elements are found without the displacement of a repetition: the register is where the next one is.
        let addr = used.virtual_address(0, value)?;
        if self.repeated.is_none() {
            return Some((addr, size));
        }
        let count = registers[RCX].min(MOST_ELEMENTS);
        if count == 0 {
            return None;
        }
        let addr = match registers[FLAGS] & DIRECTION {
            0 => addr,
            _ => addr.wrapping_sub((count - 1) * size),
        };
        Some((addr, count * size))
    }

    /// Calls `found` with what the instruction is about to read.
    pub fn reads(
        &self,
        context: &Context,
        registers: &[u64; REGISTERS],
        found: &mut dyn FnMut(Read<'_>),
    ) {
        for used in self.memory.iter().filter(|used| reads(used.access())) {
            if let Some((addr, len)) = self.range(used, registers) {
                let on_stack = used.base() == Register::RSP && used.index() == Register::None;
                let fixed = used.base() == Register::None && used.index() == Register::None;
                let computed = !on_stack && !fixed;
                found(Read::Memory {
                    addr,
                    len,
                    computed,
                });
            }
        }
        for &register in &self.vectors {
            let mut bytes = [0; 64];
            let size = read_vector(context, register, &mut bytes);
            let number = register.number() as u8;
            found(Read::Vector {
                number,
                bytes: &bytes[..size],
            });
        }
        for &register in &self.masks {
            let number = register.number() as u8;
            found(Read::Mask {
                number,
                value: read_mask(number),
            });
        }
    }

    /// Adds where the instruction is about to write.
    pub fn writes(&self, registers: &[u64; REGISTERS], to: &mut Vec<(u64, u64)>) {
        let written = self.memory.iter().filter(|used| writes(used.access()));
        to.extend(written.filter_map(|used| self.range(used, registers)));
    }
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// The registers of the target: the general-purpose ones, the flags, the bases of FS and GS.
pub fn registers(context: &Context) -> [u64; REGISTERS] {
    let fs: u64;
    // SAFETY: the start-up code has checked that the CPU and kernel allow rdfsbase.
    unsafe { asm!("rdfsbase {}", out(reg) fs, options(nomem, nostack, preserves_flags)) };
    let mut all = [0; REGISTERS];
    all[..FLAGS].copy_from_slice(&context.cpu.gpr);
    all[FLAGS..].copy_from_slice(&[context.cpu.flags, fs, context.cpu.target_gs]);
    all
}

/// Generates the reads of registers whose numbers are part of their names.
macro_rules! numbered {
    ($instruction:literal, $name:literal, $number:expr, $to:expr; $($n:literal)+) => {
        match $number {
            // SAFETY: the destination is a buffer of 64 bytes. The CPU has the register, because the target is about to execute an
            // instruction that reads it, and nothing in the runtime changes it before.
            $($n => unsafe {
                asm!(
                    concat!($instruction, " [{}], ", $name, stringify!($n)),
                    in(reg) $to,
                    options(nostack, preserves_flags),
                )
            },)+
            _ => {}
        }
    };
}

/// Reads a vector register of the target; how many bytes it has.
fn read_vector(context: &Context, register: Register, bytes: &mut [u8; 64]) -> usize {
    let (number, size) = (register.number(), register.size().min(64));
    let to = bytes.as_mut_ptr();
    if size > 32 || number >= 16 {
        numbered!("vmovups", "zmm", number, to;
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    } else if size > 16 {
        numbered!("vmovups", "ymm", number, to; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    // The gate has saved the low parts of these, which Rust code may change.
    if let Some([low, high]) = context.cpu.xmm.get(number) {
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..16].copy_from_slice(&high.to_le_bytes());
    }
    size
}

/// Reads a mask register of the target.
fn read_mask(number: u8) -> u64 {
    /// Bit of ebx in leaf 7: AVX512BW, which has masks of 64 bits.
    const AVX512BW: u32 = 1 << 30;
    let mut value = [0u64; 8];
    let to = value.as_mut_ptr();
    if __cpuid_count(7, 0).ebx & AVX512BW != 0 {
        numbered!("kmovq", "k", number, to; 0 1 2 3 4 5 6 7);
    } else {
        numbered!("kmovw", "k", number, to; 0 1 2 3 4 5 6 7);
    }
    value[0]
}
