//! Unwinding without tables by reading the code ahead: a function that will return has to take its
//! frame down first, and how it does so shows where the return address is.
//!
//! From the running instruction the code is followed to a `ret`, adding up what is done to the stack
//! pointer and noting which registers are loaded from where. Calls are taken to return and to leave
//! the stack as it was. Of the paths that branches open, the first that reaches a `ret` counts. The
//! result is checked when it is applied: the word found must follow a call.

use crate::arch::instruments::unwind::registers::{
    CALLEE_SAVED, FRAME_POINTER, Gpr, STACK_POINTER,
};
use crate::instruments::unwind::Memory;
use crate::instruments::unwind::rule::{Cfa, Plain, UnwindRule, ValueLocation, Wide};
use alloc::sync::Arc;
use alloc::vec::Vec;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// Instructions looked at before giving up.
const MAX_INSTRUCTIONS: usize = 2000;
/// Branches not yet followed that are remembered.
const MAX_BRANCHES: usize = 64;
/// Bytes of code asked for at once; an instruction has 15 at most.
const WINDOW: usize = 128;

/// The rule for the function that runs at `pc`: plain but uncertain, the outermost if it cannot
/// return, or unknown.
pub(crate) fn rule(pc: u64, mem: &impl Memory) -> UnwindRule {
    let mut reader = Reader {
        running: pc,
        visited: Vec::new(),
        branches: Vec::from([(pc, PathRegisters::at_start())]),
        budget: MAX_INSTRUCTIONS,
    };
    let (mut halts, mut lost, mut tail_call) = (false, false, None);
    while let Some((pc, frame)) = reader.branches.pop() {
        match reader.follow(pc, frame, mem) {
            Path::Returns(rule) => return rule,
            Path::JumpsAway(rule) => tail_call = tail_call.or(Some(rule)),
            Path::Halts => halts = true,
            Path::Merges => {}
            Path::Lost => lost = true,
        }
    }
    match tail_call {
        Some(rule) => rule,
        None if halts && !lost => UnwindRule::Outermost,
        None => UnwindRule::Unknown,
    }
}

/// An address in terms of rsp or rbp at the start.
#[derive(Clone, Copy)]
struct Relative {
    base: Gpr,
    offset: i64,
}

/// What is known of a register's value.
#[derive(Clone, Copy)]
enum Value {
    Relative(Relative),
    /// The word at an address, plus an offset.
    Loaded {
        slot: Relative,
        plus: i64,
    },
    /// Nothing; for a callee-saved register also: not touched.
    Unknown,
}

impl Value {
    fn plus(self, amount: i64) -> Option<Value> {
        match self {
            Value::Relative(Relative { base, offset }) => Some(Value::Relative(Relative {
                base,
                offset: offset.checked_add(amount)?,
            })),
            Value::Loaded { slot, plus } => Some(Value::Loaded {
                slot,
                plus: plus.checked_add(amount)?,
            }),
            Value::Unknown => None,
        }
    }
}

/// The registers at some point of a path.
#[derive(Clone, Copy)]
struct PathRegisters {
    values: [Value; 16],
}

impl PathRegisters {
    fn at_start() -> Self {
        let mut values = [Value::Unknown; 16];
        for base in [STACK_POINTER, FRAME_POINTER] {
            values[usize::from(base)] = Value::Relative(Relative { base, offset: 0 });
        }
        Self { values }
    }

    fn value(&self, register: Gpr) -> Value {
        self.values[usize::from(register & 15)]
    }

    fn set(&mut self, register: Gpr, value: Value) {
        self.values[usize::from(register & 15)] = value;
    }

    /// The rule, if the return address is on top of the stack now.
    fn at_return(&self) -> Option<UnwindRule> {
        match self.value(STACK_POINTER).plus(8)? {
            Value::Relative(cfa) => self.plain(cfa).map(UnwindRule::Plain),
            Value::Loaded { slot, plus } => {
                let cfa = Cfa::Loaded {
                    register: slot.base,
                    offset: slot.offset,
                    plus,
                };
                let mut registers = [const { ValueLocation::Same }; 16];
                for register in CALLEE_SAVED {
                    if let Some(slot) = self.saved_at(register) {
                        registers[usize::from(register)] =
                            ValueLocation::AtRegister(slot.base, slot.offset);
                    }
                }
                let return_address = ValueLocation::AtCfa(-8);
                let wide = Wide {
                    cfa,
                    return_address,
                    registers,
                    interrupted: false,
                    certain: false,
                };
                Some(UnwindRule::Wide(Arc::new(wide)))
            }
            Value::Unknown => None,
        }
    }

    fn plain(&self, cfa: Relative) -> Option<Plain> {
        let mut plain = Plain::new(cfa.base, i32::try_from(cfa.offset).ok()?, false);
        for (words, register) in plain.saved.iter_mut().zip(CALLEE_SAVED) {
            if let Some(slot) = self.saved_at(register)
                && slot.base == cfa.base
                && (slot.offset - cfa.offset) % 8 == 0
            {
                *words = i16::try_from((slot.offset - cfa.offset) / 8).ok()?;
            }
        }
        Some(plain)
    }

    /// Where a register comes from that has been given its caller's value again.
    fn saved_at(&self, register: Gpr) -> Option<Relative> {
        match self.value(register) {
            // A slot below the stack pointer is not filled yet: the register still has its value.
            Value::Loaded { slot, plus: 0 } if slot.base != STACK_POINTER || slot.offset >= 0 => {
                Some(slot)
            }
            _ => None,
        }
    }

    /// Follows one instruction that is no jump; `None` if the stack pointer is lost.
    fn execute(&mut self, instruction: &Instruction) -> Option<()> {
        let target = instruction.op0_register();
        let whole = target.is_gpr64().then(|| target.number() as Gpr);
        match (instruction.mnemonic(), whole) {
            (Mnemonic::Leave, _) => {
                self.set(STACK_POINTER, self.value(FRAME_POINTER));
                self.pop(FRAME_POINTER)
            }
            (Mnemonic::Pop, Some(register)) => self.pop(register),
            (Mnemonic::Mov, Some(register)) if instruction.op1_register().is_gpr64() => self
                .assign(
                    register,
                    self.value(instruction.op1_register().number() as Gpr),
                ),
            (Mnemonic::Mov, Some(register)) if instruction.op1_kind() == OpKind::Memory => {
                let loaded = match self.address(instruction) {
                    Value::Relative(slot) => Value::Loaded { slot, plus: 0 },
                    _ => Value::Unknown,
                };
                self.assign(register, loaded)
            }
            (Mnemonic::Lea, Some(register)) => self.assign(register, self.address(instruction)),
            (Mnemonic::Add, Some(STACK_POINTER)) => self.move_stack(immediate(instruction)?),
            (Mnemonic::Sub, Some(STACK_POINTER)) => {
                self.move_stack(immediate(instruction)?.checked_neg()?)
            }
            (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push, _) => {
                self.move_stack(i64::from(instruction.stack_pointer_increment()))
            }
            _ => {
                if target.is_gpr() {
                    self.assign(target.full_register().number() as Gpr, Value::Unknown)?;
                }
                self.move_stack(i64::from(instruction.stack_pointer_increment()))
            }
        }
    }

    /// A call keeps the stack and the callee-saved registers.
    fn call(&mut self) {
        for register in 0..16 {
            if register != STACK_POINTER && !CALLEE_SAVED.contains(&register) {
                self.set(register, Value::Unknown);
            }
        }
    }

    fn assign(&mut self, register: Gpr, value: Value) -> Option<()> {
        self.set(register, value);
        (register != STACK_POINTER || !matches!(value, Value::Unknown)).then_some(())
    }

    fn move_stack(&mut self, amount: i64) -> Option<()> {
        let moved = self.value(STACK_POINTER).plus(amount)?;
        self.assign(STACK_POINTER, moved)
    }

    fn pop(&mut self, register: Gpr) -> Option<()> {
        let loaded = match self.value(STACK_POINTER) {
            Value::Relative(slot) => Value::Loaded { slot, plus: 0 },
            _ => Value::Unknown,
        };
        self.move_stack(8)?;
        self.assign(register, loaded)
    }

    /// The memory operand's address, if it is a known register and an offset.
    fn address(&self, instruction: &Instruction) -> Value {
        let base = instruction.memory_base();
        if !base.is_gpr64() || instruction.memory_index() != Register::None {
            return Value::Unknown;
        }
        let displacement = instruction.memory_displacement64().cast_signed();
        self.value(base.number() as Gpr)
            .plus(displacement)
            .unwrap_or(Value::Unknown)
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
    Returns(UnwindRule),
    /// Ends in a jump to an address that is not known yet: to another function, which will return in
    /// its place, or else to some place in this one.
    JumpsAway(UnwindRule),
    /// Ends in an instruction after which no target continues.
    Halts,
    /// Goes on where another path has been.
    Merges,
    Lost,
}

struct Reader {
    running: u64,
    /// Where a path has been after a jump, so that loops end.
    visited: Vec<u64>,
    branches: Vec<(u64, PathRegisters)>,
    budget: usize,
}

impl Reader {
    fn follow(&mut self, start: u64, mut frame: PathRegisters, mem: &impl Memory) -> Path {
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
            let flow = instruction.flow_control();
            match flow {
                // Only the running instruction is known to be executed; elsewhere a breakpoint follows a call
                // that does not return.
                FlowControl::Interrupt if pc != self.running => return Path::Lost,
                FlowControl::Next
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::Interrupt => {
                    if instruction.code() == Code::Hlt {
                        return Path::Halts;
                    }
                    if flow != FlowControl::Next {
                        frame.call();
                    } else if frame.execute(&instruction).is_none() {
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

    /// Notes an address. False if it was noted before: then everything behind it is known or will be.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::instruments::unwind::registers::SAVED_FRAME_POINTER;

    const CODE: u64 = 0x1000;

    struct Bytes<'a>(&'a [u8]);

    impl Memory for Bytes<'_> {
        fn read_u64(&self, _: u64) -> Option<u64> {
            None
        }
        fn slice(&self, addr: u64, len: usize) -> Option<&[u8]> {
            let at = usize::try_from(addr.checked_sub(CODE)?).ok()?;
            self.0.get(at..at.checked_add(len)?)
        }
    }

    fn read(code: &[u8]) -> UnwindRule {
        rule(CODE, &Bytes(code))
    }

    fn plain(code: &[u8]) -> Plain {
        match read(code) {
            UnwindRule::Plain(plain) => plain,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_is_what_is_taken_down() {
        // add $0x18, %rsp; pop %rbx; pop %rbp; ret
        let found = plain(&[0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3]);
        assert_eq!(
            (found.cfa_register, found.cfa_offset),
            (STACK_POINTER, 0x18 + 8 + 8 + 8)
        );
        assert_eq!(found.saved[..2], [-3, -2], "rbx and rbp");
        assert!(!found.certain);
    }

    #[test]
    fn a_frame_pointer_is_a_frame() {
        // call .+0; mov -8(%rbp), %rbx; leave; ret
        let found = plain(&[0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xc3]);
        assert_eq!((found.cfa_register, found.cfa_offset), (FRAME_POINTER, 16));
        assert_eq!(found.saved[..2], [-3, -2], "rbx and rbp");
    }

    #[test]
    fn what_is_pushed_and_popped_ahead_is_not_saved_yet() {
        // push %rbp; pop %rbp; ret
        let found = plain(&[0x55, 0x5d, 0xc3]);
        assert_eq!((found.cfa_register, found.cfa_offset), (STACK_POINTER, 8));
        assert_eq!(found.saved[SAVED_FRAME_POINTER], 0);
    }

    #[test]
    fn dead_ends_are_left_for_other_branches() {
        // jne 1f; ud2; 1: pop %rbx; ret
        let found = plain(&[0x75, 2, 0x0f, 0x0b, 0x5b, 0xc3]);
        assert_eq!(found.cfa_offset, 16);
    }

    #[test]
    fn who_cannot_return_was_not_called() {
        // mov %eax, %edi; mov $60, %eax; syscall; hlt
        let exit = [0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05, 0xf4];
        assert!(matches!(read(&exit), UnwindRule::Outermost));
    }

    #[test]
    fn who_does_not_return_may_have_been() {
        assert!(matches!(read(&[0xeb, 0xfe]), UnwindRule::Unknown), "jmp .");
        assert!(matches!(read(&[0x0f, 0x0b]), UnwindRule::Unknown), "ud2");
        assert!(matches!(read(&[]), UnwindRule::Unknown), "no code at all");
        assert!(
            matches!(read(&[0x48, 0x89, 0xc4, 0xc3]), UnwindRule::Unknown),
            "mov %rax, %rsp"
        );
    }
}
