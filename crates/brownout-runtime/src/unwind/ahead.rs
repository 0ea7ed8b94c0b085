//! Unwinding without tables by reading the code ahead: a function that will return has to take its
//! frame down first, and how it does so tells where the return address is.
//!
//! From the running instruction the code is followed to a `ret`, adding up what is done to the stack
//! pointer and noting which registers are popped from where. Calls are taken to return and to leave
//! the stack as it was. Of the paths that branches open, the first that gets to a `ret` counts. What
//! comes out is checked by whoever applies it: the word found must follow a call.

use crate::unwind::Memory;
use crate::unwind::rule::{CALLEE_SAVED, Gpr, Plain, RBP, RSP, Rule};
use alloc::vec::Vec;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// Instructions looked at before giving up.
const MAX_INSTRUCTIONS: usize = 2000;
/// Branches not yet followed that are kept in mind.
const MAX_BRANCHES: usize = 64;
/// Bytes of code asked for at once; an instruction has 15 at most.
const WINDOW: usize = 128;

/// The rule for the function that runs at `pc`: plain but uncertain, the outermost if it cannot
/// return, or unknown.
pub(super) fn rule(pc: u64, mem: &impl Memory) -> Rule {
    let mut reader = Reader {
        visited: Vec::new(),
        branches: Vec::new(),
        budget: MAX_INSTRUCTIONS,
    };
    reader.branches.push((pc, Frame::START));
    let (mut halts, mut lost, mut tail_call) = (false, false, None);
    while let Some((pc, frame)) = reader.branches.pop() {
        match reader.follow(pc, frame, mem) {
            Path::Returns(plain) => return Rule::Plain(plain),
            Path::JumpsAway(plain) => tail_call = tail_call.or(Some(plain)),
            Path::Halts => halts = true,
            Path::Merges => {}
            Path::Lost => lost = true,
        }
    }
    match tail_call {
        Some(plain) => Rule::Plain(plain),
        None if halts && !lost => Rule::Outermost,
        None => Rule::Unknown,
    }
}

/// A value in terms of the registers at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Relative {
    base: Gpr,
    offset: i64,
}

/// What is known at some place of a path.
#[derive(Clone, Copy)]
struct Frame {
    rsp: Relative,
    rbp: Option<Relative>,
    /// Where each of [`CALLEE_SAVED`] was popped from.
    popped: [Option<Relative>; 6],
}

impl Frame {
    const START: Frame = Frame {
        rsp: Relative {
            base: RSP,
            offset: 0,
        },
        rbp: Some(Relative {
            base: RBP,
            offset: 0,
        }),
        popped: [None; 6],
    };

    /// The rule, if the return address is on top of the stack now.
    fn at_return(&self) -> Option<Plain> {
        let cfa = Relative {
            base: self.rsp.base,
            offset: self.rsp.offset.checked_add(8)?,
        };
        let mut plain = Plain::new(cfa.base, i32::try_from(cfa.offset).ok()?, false);
        for (words, popped) in plain.saved.iter_mut().zip(&self.popped) {
            // A slot below the stack pointer is not filled yet: the register still has its value.
            if let Some(slot) = popped
                && slot.base == cfa.base
                && !(slot.base == RSP && slot.offset < 0)
                && (slot.offset - cfa.offset) % 8 == 0
            {
                *words = i16::try_from((slot.offset - cfa.offset) / 8).ok()?;
            }
        }
        Some(plain)
    }

    /// Follows one instruction that is no jump; `None` if the stack pointer is lost.
    fn execute(&mut self, instruction: &Instruction) -> Option<()> {
        let target = instruction.op0_register();
        match instruction.mnemonic() {
            Mnemonic::Leave => {
                self.rsp = self.rbp?;
                self.pop(Register::RBP)
            }
            Mnemonic::Pop if target.is_gpr64() => self.pop(target),
            Mnemonic::Mov
                if (target, instruction.op1_register()) == (Register::RSP, Register::RBP) =>
            {
                self.rsp = self.rbp?;
                Some(())
            }
            Mnemonic::Mov
                if (target, instruction.op1_register()) == (Register::RBP, Register::RSP) =>
            {
                self.rbp = Some(self.rsp);
                Some(())
            }
            Mnemonic::Lea if target == Register::RSP => {
                self.rsp = self.address(instruction)?;
                Some(())
            }
            Mnemonic::Lea if target == Register::RBP => {
                self.rbp = self.address(instruction);
                Some(())
            }
            Mnemonic::Add | Mnemonic::Sub if target == Register::RSP => {
                let amount = immediate(instruction)?;
                let amount = if instruction.mnemonic() == Mnemonic::Sub {
                    amount.checked_neg()?
                } else {
                    amount
                };
                self.rsp.offset = self.rsp.offset.checked_add(amount)?;
                Some(())
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push => self.moved(instruction),
            _ if target == Register::RSP || target == Register::ESP => None,
            _ => {
                if target == Register::RBP || target == Register::EBP {
                    self.rbp = None;
                }
                self.moved(instruction)
            }
        }
    }

    /// Accounts for an instruction that moves the stack pointer by a fixed amount, if at all.
    fn moved(&mut self, instruction: &Instruction) -> Option<()> {
        let amount = i64::from(instruction.stack_pointer_increment());
        self.rsp.offset = self.rsp.offset.checked_add(amount)?;
        Some(())
    }

    fn pop(&mut self, target: Register) -> Option<()> {
        if target == Register::RSP {
            return None;
        }
        let number = target.number() as Gpr;
        if let Some(index) = CALLEE_SAVED.iter().position(|&r| r == number) {
            self.popped[index] = Some(self.rsp);
        }
        if number == RBP {
            self.rbp = None;
        }
        self.rsp.offset = self.rsp.offset.checked_add(8)?;
        Some(())
    }

    /// The memory operand's address, if it is rsp or rbp and an offset.
    fn address(&self, instruction: &Instruction) -> Option<Relative> {
        let base = match instruction.memory_base() {
            Register::RSP => self.rsp,
            Register::RBP => self.rbp?,
            _ => return None,
        };
        if instruction.memory_index() != Register::None {
            return None;
        }
        let displacement = instruction.memory_displacement64().cast_signed();
        Some(Relative {
            base: base.base,
            offset: base.offset.checked_add(displacement)?,
        })
    }
}

fn immediate(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            Some(instruction.immediate(1).cast_signed())
        }
        _ => None,
    }
}

enum Path {
    Returns(Plain),
    /// Ends in a jump to an address that is not known yet: to another function, which will return in
    /// its place, or else to some place in this one.
    JumpsAway(Plain),
    /// Ends in an instruction that programs cannot get past.
    Halts,
    /// Goes on where another path has been.
    Merges,
    Lost,
}

struct Reader {
    /// Where a path has been after a jump, so that loops end.
    visited: Vec<u64>,
    branches: Vec<(u64, Frame)>,
    budget: usize,
}

impl Reader {
    fn follow(&mut self, start: u64, mut frame: Frame, mem: &impl Memory) -> Path {
        let mut pc = start;
        let mut window: &[u8] = &[];
        let mut window_start = pc;
        loop {
            if self.budget == 0 {
                return Path::Lost;
            }
            self.budget -= 1;
            let consumed = usize::try_from(pc.wrapping_sub(window_start)).unwrap_or(usize::MAX);
            let mut rest = window.get(consumed..).unwrap_or(&[]);
            if rest.len() < 15 {
                rest = code_at(pc, mem);
                (window, window_start) = (rest, pc);
            }
            let instruction = Decoder::with_ip(64, rest, pc, DecoderOptions::NONE).decode();
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    if instruction.code() == Code::Hlt {
                        return Path::Halts;
                    }
                    let calls = instruction.flow_control() != FlowControl::Next;
                    if !calls && frame.execute(&instruction).is_none() {
                        return Path::Lost;
                    }
                    pc = instruction.next_ip();
                }
                FlowControl::Return => {
                    return frame.at_return().map_or(Path::Lost, Path::Returns);
                }
                FlowControl::ConditionalBranch => {
                    if self.arrive(instruction.near_branch_target())
                        && self.branches.len() < MAX_BRANCHES
                    {
                        self.branches
                            .push((instruction.near_branch_target(), frame));
                    }
                    pc = instruction.next_ip();
                    if !self.arrive(pc) {
                        return Path::Merges;
                    }
                }
                FlowControl::UnconditionalBranch => {
                    pc = instruction.near_branch_target();
                    if !self.arrive(pc) {
                        return Path::Merges;
                    }
                }
                FlowControl::IndirectBranch => {
                    return frame.at_return().map_or(Path::Lost, Path::JumpsAway);
                }
                _ => return Path::Lost,
            }
        }
    }

    /// Notes a place; false if it was noted before, and so whatever lies beyond is or will be known.
    fn arrive(&mut self, pc: u64) -> bool {
        let new = !self.visited.contains(&pc);
        if new {
            self.visited.push(pc);
        }
        new
    }
}

/// As many bytes of code at `pc`, up to a window, as there are.
fn code_at(pc: u64, mem: &impl Memory) -> &[u8] {
    let mut len = WINDOW;
    while len > 0 {
        if let Some(bytes) = mem.slice(pc, len) {
            return bytes;
        }
        len /= 2;
    }
    &[]
}
