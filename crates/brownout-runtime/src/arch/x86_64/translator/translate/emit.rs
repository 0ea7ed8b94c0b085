//! Writing machine code: the few instruction forms that the translator needs, by their bytes.
//!
//! Registers are given by hardware number (rax 0 … r15 15). No form here touches the flags except
//! where its name says so.

use core::ops::Range;

/// A memory operand of the target, as `lea` needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    pub base: Option<u8>,
    pub index: Option<u8>,
    pub scale: u8,
    pub displacement: i32,
    /// Address size 32: the sum is cut to 32 bits.
    pub narrow: bool,
}

/// Appends code to a stretch of the cache.
pub struct Emitter {
    at: u64,
    end: u64,
}

impl Emitter {
    pub fn new(at: u64, end: u64) -> Emitter {
        Emitter { at, end }
    }

    /// Address of the next byte.
    pub fn here(&self) -> u64 {
        self.at
    }

    pub fn put(&mut self, bytes: &[u8]) {
        assert!(
            self.at + bytes.len() as u64 <= self.end,
            "code cache overrun"
        );
        // SAFETY: the range was checked to lie in the cache's free part, which only the holder of the
        // translator's lock writes (cache invariant 2).
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at as *mut u8, bytes.len()) };
        self.at += bytes.len() as u64;
    }

    pub fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Overwrites a displacement emitted earlier so that it leads to `to`.
    pub fn fix_displacement(&mut self, at: u64, to: u64) {
        let bytes = (to.wrapping_sub(at + 4) as u32).to_le_bytes();
        self.overwrite(at..at + 4, &bytes);
    }

    /// Overwrites an 8-bit displacement emitted earlier so that it leads here.
    pub fn land_short(&mut self, at: u64) {
        let distance = self.at - (at + 1);
        assert!(distance < 128, "short branch out of reach");
        self.overwrite(at..at + 1, &[distance as u8]);
    }

    fn overwrite(&mut self, range: Range<u64>, bytes: &[u8]) {
        assert!(range.end <= self.at);
        // SAFETY: the range was emitted by this emitter and is not yet reachable by other threads.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), range.start as *mut u8, bytes.len())
        };
    }

    pub fn pad_to(&mut self, address: u64) {
        while self.at < address {
            self.put(&[0x90]);
        }
    }

    /// Pads so that a 4-byte displacement after `opcode_len` more bytes does not cross a cache line.
    pub fn align_displacement(&mut self, opcode_len: u64) {
        while (self.at + opcode_len) % 64 > 60 {
            self.put(&[0x90]);
        }
    }

    fn gs_operand(&mut self, opcode: u8, reg: u8, offset: i32) {
        self.put(&[
            0x65,
            0x48 | (reg >> 3) << 2,
            opcode,
            0x04 | (reg & 7) << 3,
            0x25,
        ]);
        self.put_u32(offset as u32);
    }

    /// `mov gs:[offset], reg`
    pub fn gs_store(&mut self, offset: i32, reg: u8) {
        self.gs_operand(0x89, reg, offset);
    }

    /// `mov reg, gs:[offset]`
    pub fn gs_load(&mut self, reg: u8, offset: i32) {
        self.gs_operand(0x8b, reg, offset);
    }

    /// `mov qword ptr gs:[offset], value`
    pub fn gs_store_imm(&mut self, offset: i32, value: u64) {
        if value as i32 as i64 as u64 == value {
            self.gs_operand(0xc7, 0, offset);
            self.put_u32(value as u32);
        } else {
            self.gs_store_imm32(offset, value as u32);
            self.gs_store_imm32(offset + 4, (value >> 32) as u32);
        }
    }

    /// `mov dword ptr gs:[offset], value`
    pub fn gs_store_imm32(&mut self, offset: i32, value: u32) {
        self.put(&[0x65, 0xc7, 0x04, 0x25]);
        self.put_u32(offset as u32);
        self.put_u32(value);
    }

    /// `jmp gs:[offset]`
    pub fn jmp_gs(&mut self, offset: i32) {
        self.put(&[0x65, 0xff, 0x24, 0x25]);
        self.put_u32(offset as u32);
    }

    /// `jmp to`
    pub fn jmp(&mut self, to: u64) {
        self.put(&[0xe9]);
        let displacement = to.wrapping_sub(self.at + 4) as u32;
        self.put_u32(displacement);
    }

    /// `lea rsp, [rsp + 8]`
    pub fn drop_stack_word(&mut self) {
        self.put(&[0x48, 0x8d, 0x64, 0x24, 0x08]);
    }

    /// What a call entry begins with: the return address for the CPU's predictor leaves the stack.
    pub fn call_prologue(&mut self) {
        self.drop_stack_word();
    }

    /// What a jump entry begins with: the register that holds branch targets comes from its spill slot.
    pub fn jump_prologue(&mut self) {
        const RCX: u8 = 1;
        self.gs_load(RCX, crate::slot!(cpu.spill_rcx));
    }

    /// `mov reg, value`
    pub fn mov_imm(&mut self, reg: u8, value: u64) {
        if value >> 32 == 0 {
            if reg >= 8 {
                self.put(&[0x41]);
            }
            self.put(&[0xb8 | reg & 7]);
            self.put_u32(value as u32);
        } else {
            self.put(&[0x48 | reg >> 3, 0xb8 | reg & 7]);
            self.put(&value.to_le_bytes());
        }
    }

    /// Pushes a constant.
    pub fn push_imm(&mut self, value: u64) {
        self.put(&[0x68]);
        self.put_u32(value as u32);
        if value as i32 as i64 as u64 != value {
            // mov dword ptr [rsp + 4], high
            self.put(&[0xc7, 0x44, 0x24, 0x04]);
            self.put_u32((value >> 32) as u32);
        }
    }

    /// `lea reg, [operand]`
    pub fn lea(&mut self, reg: u8, operand: &MemoryOperand) {
        let MemoryOperand {
            base,
            index,
            scale,
            displacement,
            narrow,
        } = *operand;
        if narrow {
            self.put(&[0x67]);
        }
        let extend = |r: Option<u8>| r.map_or(0, |r| r >> 3);
        self.put(&[
            0x48 | (reg >> 3) << 2 | extend(index) << 1 | extend(base),
            0x8d,
        ]);
        let sib = (scale.max(1).trailing_zeros() as u8) << 6 | index.map_or(4, |r| r & 7) << 3;
        match base {
            Some(base) => self.put(&[0x84 | (reg & 7) << 3, sib | base & 7]),
            None => self.put(&[0x04 | (reg & 7) << 3, sib | 5]),
        }
        self.put_u32(displacement as u32);
    }

    /// `lahf; seto al`: the arithmetic flags into rax.
    pub fn save_flags(&mut self) {
        self.put(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// Undoes [`Emitter::save_flags`] with the saved value in rax.
    pub fn restore_flags(&mut self) {
        self.put(&[0x04, 0x7f, 0x9e]);
    }
}
