//! Small programs, one for each kind of control flow.
//!
//! The main part starts at the slot's start; a function and a second one lie at fixed distances from it,
//! so that all targets are known beforehand. Every path adds another number to a register.

use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

use super::draft::{Draft, RAX, RCX, RSP};
use crate::case::Case;
use crate::layout::{FUNCTION, Region, SECOND_FUNCTION, SLOT};

/// Appends the way out.
pub fn leave(case: &mut Case, region: Region) {
    let after = region.slot(case.slot) + case.code.len() as u64 + 5;
    case.code.push(0xe9);
    case.code
        .extend_from_slice(&(region.exit().wrapping_sub(after) as u32).to_le_bytes());
}

/// A case of a kind of control flow chosen at random.
pub fn case(draft: Draft, transactions: bool) -> Case {
    let mut flow = Flow {
        start: draft.here(),
        draft,
        transactions,
    };
    let title = loop {
        let made = flow.choose();
        if let Some(title) = made {
            break title;
        }
        flow.draft.case.code.clear();
    };
    let mut case = flow.draft.case;
    case.title = title.to_owned();
    case.lengths.clear();
    assert!(case.code.len() as u64 <= SLOT, "{title} is too long");
    case
}

/// Title of cases that branch to addresses which the CPU refuses.
pub const IMPOSSIBLE_TARGET: &str = "impossible target";

struct Flow<'a> {
    draft: Draft<'a>,
    start: u64,
    /// Whether the CPU has transactions.
    transactions: bool,
}

/// r13 counts which ways were taken.
const MARK: usize = 13;

impl Flow<'_> {
    fn choose(&mut self) -> Option<&'static str> {
        match self.draft.random.below(16) {
            0 | 1 => self.conditional(),
            2 => self.counted(),
            3 => self.call(),
            4 => self.nested(),
            5 => self.through_register(),
            6..=9 => self.through_memory(),
            10 => self.return_to_pushed(),
            11 => self.bad_target(),
            12 => self.transaction(),
            13 => self.system_call(),
            14 => self.own_address(),
            _ => self.jump_into_instruction(),
        }
    }

    fn function(&self) -> u64 {
        self.start + FUNCTION
    }

    fn second(&self) -> u64 {
        self.start + SECOND_FUNCTION
    }

    fn put(&mut self, bytes: &[u8]) {
        self.draft.append_raw(bytes);
    }

    /// `lea r13, [r13 + number]`
    fn mark(&mut self, number: u8) {
        self.put(&[0x4d, 0x8d, 0x6d, number]);
    }

    fn leave(&mut self) {
        leave(&mut self.draft.case, self.draft.region);
    }

    /// Fills up to a fixed offset; what is skipped traps.
    fn pad_to(&mut self, offset: u64) {
        assert!(
            self.draft.case.code.len() as u64 <= offset,
            "the part before {offset} is too long"
        );
        self.draft.case.code.resize(offset as usize, 0xcc);
    }

    /// A branch with a displacement of one or four bytes.
    fn branch(&mut self, short: &[u8], near: &[u8], target: u64) {
        if self.draft.random.chance(50) {
            self.put(short);
            let after = self.draft.here() + 1;
            self.put(&[target.wrapping_sub(after) as u8]);
        } else {
            self.put(near);
            let after = self.draft.here() + 4;
            self.put(&(target.wrapping_sub(after) as u32).to_le_bytes());
        }
    }

    fn near(&mut self, opcode: &[u8], target: u64) {
        self.put(opcode);
        let after = self.draft.here() + 4;
        self.put(&(target.wrapping_sub(after) as u32).to_le_bytes());
    }

    /// The function that only marks and leaves.
    fn landing(&mut self) {
        self.pad_to(FUNCTION);
        self.mark(16);
        self.leave();
    }

    /// The function that marks and returns.
    fn returning(&mut self) {
        self.pad_to(FUNCTION);
        self.mark(16);
        self.ret();
    }

    fn ret(&mut self) {
        match self.draft.random.below(4) {
            0 => {
                let extra = 8 * self.draft.random.below(20) as u8;
                self.put(&[0xc2, extra, 0]);
            }
            1 => self.put(&[0xf3, 0xc3]),
            _ => self.put(&[0xc3]),
        }
    }

    fn conditional(&mut self) -> Option<&'static str> {
        let condition = self.draft.random.below(16) as u8;
        let target = self.function();
        self.branch(&[0x70 | condition], &[0x0f, 0x80 | condition], target);
        self.mark(1);
        if self.draft.random.chance(50) {
            self.branch(&[0xeb], &[0xe9], target);
        } else {
            self.leave();
        }
        self.landing();
        Some("jcc")
    }

    /// `loop`, `loope`, `loopne`, `jrcxz`, with rcx or ecx.
    fn counted(&mut self) -> Option<&'static str> {
        let opcode = self.draft.random.pick(&[0xe0, 0xe1, 0xe2, 0xe3]);
        let narrow = self.draft.random.chance(40);
        let backwards = opcode != 0xe3 && self.draft.random.chance(60);
        // Backwards, zero would mean as often as there are numbers.
        let mut count = self.draft.random.below(5) + u64::from(backwards);
        if narrow {
            count |= self.draft.random.word() << 32;
        } else if !backwards && self.draft.random.chance(30) {
            count = 1 << 32;
        }
        self.draft.prefer(RCX, count);
        self.mark(1);
        if narrow {
            self.put(&[0x67]);
        }
        self.put(&[opcode]);
        let after = self.draft.here() + 1;
        let target = if backwards {
            self.start
        } else {
            self.function()
        };
        self.put(&[target.wrapping_sub(after) as u8]);
        self.mark(2);
        self.leave();
        self.landing();
        Some("loop")
    }

    fn call(&mut self) -> Option<&'static str> {
        let target = self.function();
        self.near(&[0xe8], target);
        self.mark(1);
        self.leave();
        self.returning();
        Some("call")
    }

    fn nested(&mut self) -> Option<&'static str> {
        let (function, second) = (self.function(), self.second());
        self.near(&[0xe8], function);
        self.mark(1);
        self.near(&[0xe8], second);
        self.leave();
        self.pad_to(FUNCTION);
        self.mark(4);
        self.near(&[0xe8], second);
        self.mark(8);
        self.put(&[0xc3]);
        self.pad_to(SECOND_FUNCTION);
        self.mark(16);
        self.put(&[0xc3]);
        Some("nested calls")
    }

    fn through_register(&mut self) -> Option<&'static str> {
        let register = self.draft.random.below(16) as usize;
        let target = self.function();
        if register == MARK || !self.draft.fix(register, target) {
            return None;
        }
        let call = self.draft.random.chance(50);
        if self.draft.random.chance(20) {
            // notrack
            self.put(&[0x3e]);
        }
        if register >= 8 {
            self.put(&[0x41]);
        }
        self.put(&[0xff, if call { 0xd0 } else { 0xe0 } | register as u8 & 7]);
        self.mark(1);
        self.leave();
        if call {
            self.returning()
        } else {
            self.landing()
        }
        Some(if call {
            "call register"
        } else {
            "jump register"
        })
    }

    fn through_memory(&mut self) -> Option<&'static str> {
        let call = self.draft.random.chance(50);
        let mut insn = Instruction::default();
        insn.set_code(if call {
            Code::Call_rm64
        } else {
            Code::Jmp_rm64
        });
        insn.set_op0_kind(OpKind::Memory);
        let target = self.function();
        let at = self.draft.address(8);
        let made = self.draft.attempt(|draft| {
            draft.patch(at, &target.to_le_bytes());
            draft.operand(&mut insn, at) && draft.append(&insn)
        });
        let counts = insn.memory_base() == Register::R13 || insn.memory_index() == Register::R13;
        if !made || counts {
            return None;
        }
        self.mark(1);
        self.leave();
        if call {
            self.returning()
        } else {
            self.landing()
        }
        Some(if call { "call memory" } else { "jump memory" })
    }

    fn return_to_pushed(&mut self) -> Option<&'static str> {
        let target = self.function();
        if self.draft.region == Region::Low && self.draft.random.chance(50) {
            self.put(&[0x68]);
            self.put(&(target as u32).to_le_bytes());
        } else {
            self.draft.fix(RAX, target);
            self.put(&[0x50]);
        }
        self.ret();
        self.landing();
        Some("return to pushed")
    }

    /// Calls, jumps and returns to where there is no code.
    fn bad_target(&mut self) -> Option<&'static str> {
        let arena = self.draft.region.arena();
        let target = self.draft.random.pick(&[
            0,
            8,
            arena + 0x10,
            arena - 16,
            0x7777_1234_5678,
            1 << 47,
            0xffff << 47,
        ]);
        match self.draft.random.below(4) {
            0 => {
                self.draft.fix(RAX, target);
                self.put(&[0xff, 0xd0]);
            }
            1 => {
                self.draft.fix(RAX, target);
                self.put(&[0xff, 0xe0]);
            }
            2 => {
                let stack = self.draft.case.gpr[RSP];
                self.draft.patch(stack, &target.to_le_bytes());
                self.ret();
            }
            _ => {
                // call [rsp]
                let stack = self.draft.case.gpr[RSP];
                self.draft.patch(stack, &target.to_le_bytes());
                self.put(&[0xff, 0x14, 0x24]);
            }
        }
        self.leave();
        Some(if target >> 47 == 0 {
            "bad target"
        } else {
            IMPOSSIBLE_TARGET
        })
    }

    /// A transaction that always ends at its other way; the reason it gives is overwritten.
    fn transaction(&mut self) -> Option<&'static str> {
        if !self.transactions {
            return None;
        }
        let target = self.function();
        self.near(&[0xc7, 0xf8], target);
        // xabort 5
        self.put(&[0xc6, 0xf8, 5]);
        self.mark(1);
        self.leave();
        self.pad_to(FUNCTION);
        // mov eax, 7
        self.put(&[0xb8, 7, 0, 0, 0]);
        self.mark(16);
        self.leave();
        Some("transaction")
    }

    /// System calls that change nothing: none such, and `getuid`.
    fn system_call(&mut self) -> Option<&'static str> {
        let number = self.draft.random.pick(&[
            102,
            1 << 32 | 102,
            0x1_0066,
            0xffff,
            0x1234,
            0xffff_ffff,
            u64::MAX,
            1 << 40 | 0x800,
        ]);
        self.draft.fix(RAX, number);
        self.put(&[0x0f, 0x05]);
        self.mark(1);
        self.leave();
        Some("system call")
    }

    /// `call` to what follows, then `pop`.
    fn own_address(&mut self) -> Option<&'static str> {
        let next = self.draft.here() + 5;
        self.near(&[0xe8], next);
        let register = self.draft.random.pick(&[0u8, 1, 2, 3, 6, 7]);
        self.put(&[0x58 | register]);
        let load = Instruction::with2(
            Code::Lea_r64_m,
            Register::RBX,
            MemoryOperand::with_base_displ_size(Register::RIP, (self.start + 0x40) as i64, 8),
        );
        let made = load.is_ok_and(|load| self.draft.append(&load));
        self.leave();
        made.then_some("own address")
    }

    /// A jump into the bytes of another instruction.
    fn jump_into_instruction(&mut self) -> Option<&'static str> {
        // jcc +1; mov eax, imm32 whose immediate is `lea r13, [r13 + 3]`; what remains of it differs
        let condition = self.draft.random.below(16) as u8;
        self.put(&[0x70 | condition, 1, 0xb8]);
        self.mark(3);
        self.mark(1);
        self.leave();
        Some("jump into an instruction")
    }
}
