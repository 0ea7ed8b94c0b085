//! A case in the making: registers get values as operands need them.

use iced_x86::{
    Decoder, DecoderOptions, Encoder, Instruction, InstructionInfoFactory, MemorySize, OpAccess,
    Register,
};

use crate::case::Case;
use crate::layout::{FILE_AT, FILE_BYTES, PAGE, Region};
use crate::state::{self, Areas};
use seeded_random::SeededRandom;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

/// Room that an operand of unknown size gets.
const UNKNOWN_SIZE: u64 = 64;

pub struct Draft<'a> {
    pub random: &'a mut SeededRandom,
    pub areas: &'a Areas,
    pub region: Region,
    pub case: Case,
    /// Registers whose values addresses depend on.
    fixed: u32,
    /// Registers that an instruction so far has written.
    written: u32,
    info: InstructionInfoFactory,
}

impl<'a> Draft<'a> {
    pub fn new(
        random: &'a mut SeededRandom,
        areas: &'a Areas,
        region: Region,
        slot: usize,
    ) -> Draft<'a> {
        let gpr = std::array::from_fn(|_| random.value());
        let flags = state::random_flags(random);
        let image = state::random_image(random, areas);
        let case = Case {
            title: String::new(),
            slot,
            code: Vec::new(),
            lengths: Vec::new(),
            gpr,
            flags,
            fs_base: region.arena() + 0x7f8,
            gs_base: region.arena() + 0x2a00,
            image,
            patches: Vec::new(),
        };
        let mut draft = Draft {
            random,
            areas,
            region,
            case,
            fixed: 0,
            written: 0,
            info: InstructionInfoFactory::new(),
        };
        // A stack in ordinary or in persistent memory, with room on both sides.
        let page = if draft.random.chance(60) {
            3 * PAGE
        } else {
            PAGE
        };
        let stack = region.arena() + page + 0x400 + 8 * draft.random.below(0x100);
        draft.fix(RSP, stack);
        draft
    }

    /// Does what `attempt` does, or nothing if it fails.
    pub fn attempt(&mut self, attempt: impl FnOnce(&mut Draft<'a>) -> bool) -> bool {
        let (case, fixed, written) = (self.case.clone(), self.fixed, self.written);
        let done = attempt(self);
        if !done {
            (self.case, self.fixed, self.written) = (case, fixed, written);
        }
        done
    }

    /// Address of the next instruction.
    pub fn here(&self) -> u64 {
        self.region.slot(self.case.slot) + self.case.code.len() as u64
    }

    pub fn is_free(&self, register: usize) -> bool {
        (self.fixed | self.written) >> register & 1 == 0
    }

    /// Gives a register a value that must stay. False if it has one already.
    pub fn fix(&mut self, register: usize, value: u64) -> bool {
        if !self.is_free(register) {
            return false;
        }
        self.case.gpr[register] = value;
        self.fixed |= 1 << register;
        true
    }

    /// Gives a register a value, unless addresses depend on the one it has.
    pub fn prefer(&mut self, register: usize, value: u64) {
        if self.is_free(register) {
            self.case.gpr[register] = value;
        }
    }

    /// Lets the arena hold `bytes` at `address`, as far as it is in the arena.
    pub fn patch(&mut self, address: u64, bytes: &[u8]) {
        let range = self.region.arena_range();
        if range.contains(&address) && range.contains(&(address + bytes.len() as u64 - 1)) {
            self.case
                .patches
                .push(((address - range.start) as usize, bytes.to_vec()));
        }
    }

    /// Appends an instruction; false if it cannot be encoded as meant.
    pub fn append(&mut self, insn: &Instruction) -> bool {
        let at = self.here();
        let mut encoder = Encoder::new(64);
        if encoder.encode(insn, at).is_err() {
            return false;
        }
        let bytes = encoder.take_buffer();
        let decoded = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        if decoded.code() != insn.code() || decoded.len() != bytes.len() {
            return false;
        }
        for used in self.info.info(&decoded).used_registers() {
            let writes = !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead
            );
            if writes && used.register().is_gpr() {
                self.written |= 1 << used.register().full_register().number();
            }
        }
        self.case.code.extend_from_slice(&bytes);
        self.case.lengths.push(bytes.len() as u8);
        true
    }

    /// Appends bytes that branch.
    pub fn append_raw(&mut self, bytes: &[u8]) {
        self.case.code.extend_from_slice(bytes);
    }

    /// An address for an access of `size` bytes: mostly aligned and in the file, at times across an edge.
    pub fn address(&mut self, size: u64) -> u64 {
        let arena = self.region.arena();
        let file = arena + FILE_AT as u64;
        let len = FILE_BYTES as u64;
        if size < PAGE / 2 && self.random.chance(12) {
            // Across an edge of the file, between its pages, or of what is mapped.
            let edge = arena + PAGE * self.random.pick(&[1, 1, 2, 2, 3, 3, 0, 4]);
            return edge - self.random.below(size.max(2)).min(size);
        }
        let room = len.saturating_sub(size).max(64);
        let at = file + self.random.below(room);
        let at = if self.random.chance(15) {
            arena + 3 * PAGE + self.random.below(PAGE - size.min(PAGE - 1))
        } else {
            at
        };
        match self.random.below(10) {
            0..=5 => at & !63,
            6..=7 => at & !7,
            _ => at,
        }
    }

    pub fn sized_address(&mut self, insn: &Instruction) -> u64 {
        let size = match insn.memory_size() {
            MemorySize::Unknown => UNKNOWN_SIZE,
            size => size.size() as u64,
        };
        self.address(size)
    }

    /// Gives the instruction a memory operand that leads to `address`, in a form chosen at random.
    pub fn operand(&mut self, insn: &mut Instruction, address: u64) -> bool {
        let mut linear = address;
        let segment = match self.random.below(20) {
            0 => Register::FS,
            1 => Register::GS,
            _ => Register::None,
        };
        match segment {
            Register::FS => linear = linear.wrapping_sub(self.case.fs_base),
            Register::GS => linear = linear.wrapping_sub(self.case.gs_base),
            _ => {}
        }
        insn.set_segment_prefix(segment);
        insn.set_memory_index_scale(1);
        insn.set_memory_displ_size(0);
        insn.set_memory_displacement64(0);
        insn.set_memory_base(Register::None);
        insn.set_memory_index(Register::None);
        let narrow = linear < 1 << 31 && self.random.chance(12);
        match self.random.below(10) {
            0 if segment == Register::None => {
                insn.set_memory_base(if narrow { Register::EIP } else { Register::RIP });
                insn.set_memory_displacement64(linear);
                insn.set_memory_displ_size(8);
                true
            }
            1 if linear < 1 << 31 => {
                insn.set_memory_displacement64(linear);
                insn.set_memory_displ_size(if narrow { 4 } else { 8 });
                true
            }
            2 => self.with_index(insn, linear, None, narrow),
            3 | 4 => {
                let base = self.random.below(16) as usize;
                self.with_index(insn, linear, Some(base), narrow)
            }
            _ => {
                let base = self.random.below(16) as usize;
                self.with_base(insn, linear, base, narrow)
            }
        }
    }

    fn with_base(
        &mut self,
        insn: &mut Instruction,
        linear: u64,
        base: usize,
        narrow: bool,
    ) -> bool {
        let displacement = if self.random.chance(40) {
            0
        } else {
            self.displacement()
        };
        let Some(displacement) = self.solve(base, linear, displacement, 0, narrow) else {
            return false;
        };
        insn.set_memory_base(address_register(base, narrow));
        insn.set_memory_displacement64(displacement as u64);
        insn.set_memory_displ_size(if displacement == 0 { 0 } else { 1 });
        true
    }

    fn with_index(
        &mut self,
        insn: &mut Instruction,
        linear: u64,
        base: Option<usize>,
        narrow: bool,
    ) -> bool {
        let index = self.random.below(16) as usize;
        if index == RSP || Some(index) == base {
            return false;
        }
        let scale = 1u64 << self.random.below(4);
        if self.is_free(index) {
            let mut value = self.random.around(1000) as u64;
            if narrow {
                value = value & 0xffff_ffff | self.random.word() << 32;
            }
            self.fix(index, value);
        }
        if self.written >> index & 1 != 0 {
            return false;
        }
        let offset = self.case.gpr[index].wrapping_mul(scale);
        let displacement = match base {
            Some(base) => {
                let wanted = self.displacement();
                self.solve(base, linear, wanted, offset, narrow)
            }
            None => Some(linear.wrapping_sub(offset) as i64).map(|value| {
                if narrow {
                    i64::from(value as i32)
                } else {
                    value
                }
            }),
        };
        let Some(displacement) = displacement.filter(|value| i32::try_from(*value).is_ok()) else {
            return false;
        };
        if let Some(base) = base {
            insn.set_memory_base(address_register(base, narrow));
        }
        insn.set_memory_index(address_register(index, narrow));
        insn.set_memory_index_scale(scale as u32);
        insn.set_memory_displacement64(displacement as u64);
        insn.set_memory_displ_size(if displacement == 0 && base.is_some() {
            0
        } else {
            8
        });
        true
    }

    /// The displacement with which `base` and an index worth `offset` lead to `linear`.
    fn solve(
        &mut self,
        base: usize,
        linear: u64,
        wanted: i64,
        offset: u64,
        narrow: bool,
    ) -> Option<i64> {
        if self.written >> base & 1 != 0 {
            return None;
        }
        if self.is_free(base) {
            let mut value = linear.wrapping_sub(offset).wrapping_sub(wanted as u64);
            if narrow {
                value = value & 0xffff_ffff | self.random.word() << 32;
            }
            self.fix(base, value);
            return Some(wanted);
        }
        let rest = linear
            .wrapping_sub(offset)
            .wrapping_sub(self.case.gpr[base]);
        let rest = if narrow {
            i64::from(rest as i32)
        } else {
            rest as i64
        };
        i32::try_from(rest).is_ok().then_some(rest)
    }

    fn displacement(&mut self) -> i64 {
        if self.random.chance(50) {
            self.random.around(120)
        } else {
            self.random.around(1 << 20)
        }
    }

    /// Gives a vector register its value in the case's image.
    pub fn set_vector(&mut self, register: usize, bytes: &[u8]) {
        for (piece, at) in self.areas.vector(register).into_iter().enumerate() {
            if let Some(part) = bytes.get(16 * piece..16 * (piece + 1)) {
                self.case.image[at..at + 16].copy_from_slice(part);
            }
        }
    }

    /// The value of a register as the case starts, if no instruction so far wrote it.
    pub fn known(&self, register: usize) -> Option<u64> {
        (self.written >> register & 1 == 0).then(|| self.case.gpr[register])
    }
}

fn address_register(number: usize, narrow: bool) -> Register {
    if narrow {
        Register::EAX + number as u32
    } else {
        Register::RAX + number as u32
    }
}
