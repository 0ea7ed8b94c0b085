//! One step of a walk: from the state in a function to the state in its caller.
//!
//! Saved registers are not read until a rule needs them; most frames need none but the stack pointer.
//! A step also notes what it depended on: the registers it used and the words of memory it read, so
//! that a later walk can check whether it would lead to the same caller.

use crate::arch::instruments::unwind::registers::{
    CALLEE_SAVED, FRAME_POINTER, GPRS, Gpr, GprSet, SIGNAL_ORDER, SIGNAL_REGISTERS, STACK_POINTER,
};
use crate::instruments::unwind::expression::Witness;
use crate::instruments::unwind::rule::{Cfa, Plain, ValueLocation, Wide};
use crate::instruments::unwind::{CodePoint, Memory, Registers};
use alloc::vec::Vec;

/// The index of a register, which the compiler knows to be in range.
fn index(register: Gpr) -> usize {
    usize::from(register) % GPRS
}

pub(crate) const fn bit(register: Gpr) -> GprSet {
    1 << (register as usize % GPRS)
}

/// The registers of one frame, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    at: CodePoint,
    /// The value of a register, or the address of the slot that holds it.
    words: [u64; GPRS],
    /// The registers whose word is a slot. Never contains the stack pointer.
    slots: GprSet,
}

impl State {
    pub fn of(regs: &Registers) -> Self {
        Self {
            at: CodePoint {
                pc: regs.pc,
                exact: true,
            },
            words: regs.gpr,
            slots: 0,
        }
    }

    pub fn at(&self) -> CodePoint {
        self.at
    }

    pub fn pc(&self) -> u64 {
        self.at.pc
    }

    pub fn stack_pointer(&self) -> u64 {
        self.words[usize::from(STACK_POINTER)]
    }

    pub fn value(&self, register: Gpr, mem: &impl Memory) -> Option<u64> {
        let word = self.words[index(register)];
        if self.slots & bit(register) == 0 {
            Some(word)
        } else {
            mem.read_u64(word)
        }
    }

    fn set(&mut self, register: Gpr, value: u64) {
        self.words[index(register)] = value;
        self.slots &= !bit(register);
    }

    fn set_slot(&mut self, register: Gpr, addr: u64) {
        self.words[index(register)] = addr;
        self.slots |= bit(register);
    }

    /// Applies a plain rule. `None`, and no change, if the words it needs cannot be read.
    #[inline]
    pub fn step_plain(
        &mut self,
        rule: &Plain,
        mem: &impl Memory,
        step: &mut UnwindStep,
    ) -> Option<()> {
        let base = self.value(rule.cfa_register, mem)?;
        let cfa = base.wrapping_add_signed(i64::from(rule.cfa_offset));
        let return_address = mem.read_u64(cfa.wrapping_sub(8))?;
        let mut defined = 0;
        // Without branches: which registers a function saves is hard to predict.
        for (&register, &words) in CALLEE_SAVED.iter().zip(&rule.saved) {
            let word = &mut self.words[usize::from(register)];
            let slot = cfa.wrapping_add_signed(i64::from(words) * 8);
            *word = if words == 0 { *word } else { slot };
            defined |= GprSet::from(words != 0) << register;
        }
        self.slots |= defined;
        self.set(STACK_POINTER, cfa);
        self.at = CodePoint {
            pc: return_address,
            exact: false,
        };
        step.effect = Effect::Plain { saved: rule.saved };
        step.used = bit(rule.cfa_register) & !bit(STACK_POINTER);
        step.defined = defined;
        self.leave(step);
        Some(())
    }

    /// Applies a wide rule; what it read is added to `dependencies`.
    pub fn step_wide(
        &mut self,
        rule: &Wide,
        mem: &impl Memory,
        dependencies: &mut Vec<Dependencies>,
        step: &mut UnwindStep,
    ) -> Option<()> {
        let mut deps = Dependencies::default();
        let before = *self;
        let cfa = match &rule.cfa {
            Cfa::Register(register, offset) => {
                deps.register(*register);
                before.value(*register, mem)?.wrapping_add_signed(*offset)
            }
            Cfa::Loaded {
                register,
                offset,
                plus,
            } => {
                deps.register(*register);
                let slot = before.value(*register, mem)?.wrapping_add_signed(*offset);
                deps.word(slot);
                mem.read_u64(slot)?.wrapping_add_signed(*plus)
            }
            Cfa::Computed(expression) => expression.evaluate(&before, None, mem, &mut deps)?,
        };
        let mut after = before;
        after.set(STACK_POINTER, cfa);
        for (number, place) in (0..).zip(&rule.registers) {
            match before.locate(place, number, cfa, mem, &mut deps)? {
                Located::Same => {}
                Located::Value(value) => {
                    after.set(number, value);
                    deps.defined |= bit(number);
                }
                Located::Slot(addr) if number == STACK_POINTER => {
                    after.set(STACK_POINTER, mem.read_u64(addr)?);
                    deps.word(addr);
                }
                Located::Slot(addr) => {
                    after.set_slot(number, addr);
                    deps.restored[usize::from(number)] = addr;
                    deps.defined |= bit(number);
                }
            }
        }
        let pc = match before.locate(&rule.return_address, STACK_POINTER, cfa, mem, &mut deps)? {
            Located::Same => return None,
            Located::Value(value) => value,
            Located::Slot(addr) => {
                deps.word(addr);
                mem.read_u64(addr)?
            }
        };
        after.at = CodePoint {
            pc,
            exact: rule.interrupted,
        };
        *self = after;
        self.leave_wide(deps, dependencies, step)
    }

    /// Passes over the frame that the kernel built for a signal handler; the handler has returned to
    /// the restorer, so that the stack pointer is at the `ucontext`.
    pub fn step_signal(
        &mut self,
        mem: &impl Memory,
        dependencies: &mut Vec<Dependencies>,
        step: &mut UnwindStep,
    ) -> Option<()> {
        let mut deps = Dependencies::default();
        let base = self.stack_pointer().wrapping_add(SIGNAL_REGISTERS);
        let slot = |index: usize| base.wrapping_add(8 * index as u64);
        let pc = mem.read_u64(slot(SIGNAL_ORDER.len()))?;
        let stack_pointer = mem.read_u64(slot(SIGNAL_ORDER.len() - 1))?;
        deps.word(slot(SIGNAL_ORDER.len()));
        deps.word(slot(SIGNAL_ORDER.len() - 1));
        for (index, &register) in (0..).zip(&SIGNAL_ORDER) {
            if register != STACK_POINTER {
                self.set_slot(register, slot(index));
                deps.restored[usize::from(register)] = slot(index);
                deps.defined |= bit(register);
            }
        }
        self.set(STACK_POINTER, stack_pointer);
        self.at = CodePoint { pc, exact: true };
        self.leave_wide(deps, dependencies, step)
    }

    fn locate(
        &self,
        place: &ValueLocation,
        register: Gpr,
        cfa: u64,
        mem: &impl Memory,
        deps: &mut Dependencies,
    ) -> Option<Located> {
        Some(match place {
            ValueLocation::Same => Located::Same,
            ValueLocation::Register(other) if *other == register => Located::Same,
            ValueLocation::Register(other) => {
                deps.register(*other);
                Located::Value(self.value(*other, mem)?)
            }
            ValueLocation::AtCfa(offset) => Located::Slot(cfa.wrapping_add_signed(*offset)),
            ValueLocation::AtRegister(base, offset) => {
                deps.register(*base);
                Located::Slot(self.value(*base, mem)?.wrapping_add_signed(*offset))
            }
            ValueLocation::Cfa(offset) => Located::Value(cfa.wrapping_add_signed(*offset)),
            ValueLocation::AtComputed(expression) => {
                Located::Slot(expression.evaluate(self, Some(cfa), mem, deps)?)
            }
            ValueLocation::Computed(expression) => {
                Located::Value(expression.evaluate(self, Some(cfa), mem, deps)?)
            }
        })
    }

    fn leave_wide(
        &self,
        deps: Dependencies,
        dependencies: &mut Vec<Dependencies>,
        step: &mut UnwindStep,
    ) -> Option<()> {
        if deps.overflow {
            return None;
        }
        step.effect = Effect::Wide {
            index: dependencies.len(),
        };
        step.used = deps.used & !bit(STACK_POINTER);
        step.defined = deps.defined;
        dependencies.push(deps);
        self.leave(step);
        Some(())
    }

    /// Notes in `step` what state it led to.
    #[inline]
    fn leave(&self, step: &mut UnwindStep) {
        step.at = self.at;
        step.cfa = self.stack_pointer();
        step.frame_pointer = self.words[usize::from(FRAME_POINTER)];
        step.frame_pointer_in_slot = self.slots & bit(FRAME_POINTER) != 0;
    }
}

enum Located {
    Same,
    Value(u64),
    Slot(u64),
}

/// A step taken, and the state it led to as far as it matters later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnwindStep {
    pub at: CodePoint,
    pub cfa: u64,
    frame_pointer: u64,
    frame_pointer_in_slot: bool,
    /// Registers, other than the stack pointer, whose values decided where the step led.
    used: GprSet,
    /// Registers that the step gave a new value.
    defined: GprSet,
    effect: Effect,
}

#[derive(Clone, Copy, Debug)]
enum Effect {
    Plain {
        saved: [i16; CALLEE_SAVED.len()],
    },
    /// Described by the entry of this index in the walk's list of [`Dependencies`].
    Wide {
        index: usize,
    },
}

impl UnwindStep {
    /// The step not yet taken.
    pub const BLANK: UnwindStep = UnwindStep {
        at: CodePoint {
            pc: 0,
            exact: false,
        },
        cfa: 0,
        frame_pointer: 0,
        frame_pointer_in_slot: false,
        used: 0,
        defined: 0,
        effect: Effect::Plain {
            saved: [0; CALLEE_SAVED.len()],
        },
    };

    /// The value of the frame pointer after the step.
    pub fn frame_pointer(&self, mem: &impl Memory) -> Option<u64> {
        if self.frame_pointer_in_slot {
            mem.read_u64(self.frame_pointer)
        } else {
            Some(self.frame_pointer)
        }
    }

    /// Which registers must have had their values before the step, given those that matter after it.
    pub fn needs(&self, after: GprSet) -> GprSet {
        self.used | (after & !self.defined)
    }

    /// Calls `each` with the address of every word that the step, and the registers in `after` that
    /// it restored, depended on.
    #[inline]
    pub fn words(&self, after: GprSet, wide: &[Dependencies], mut each: impl FnMut(u64)) {
        match &self.effect {
            Effect::Plain { saved } => {
                each(self.cfa.wrapping_sub(8));
                if after & self.defined == 0 {
                    return;
                }
                for (&register, &words) in CALLEE_SAVED.iter().zip(saved) {
                    if words != 0 && after & bit(register) != 0 {
                        each(self.cfa.wrapping_add_signed(i64::from(words) * 8));
                    }
                }
            }
            Effect::Wide { index } => {
                let Some(deps) = wide.get(*index) else { return };
                deps.words
                    .iter()
                    .take(deps.count)
                    .copied()
                    .for_each(&mut each);
                for (number, &addr) in (0..).zip(&deps.restored) {
                    if addr != 0 && after & bit(number) != 0 {
                        each(addr);
                    }
                }
            }
        }
    }
}

/// Words that one step may read in addition to the registers it restores.
const MAX_WORDS: usize = 16;

/// What a step by a wide rule depended on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dependencies {
    used: GprSet,
    /// Registers that the step gave a new value.
    defined: GprSet,
    /// The slots of those that it restored from memory.
    restored: [u64; GPRS],
    words: [u64; MAX_WORDS],
    count: usize,
    overflow: bool,
}

impl Witness for Dependencies {
    fn register(&mut self, register: Gpr) {
        self.used |= bit(register);
    }

    fn word(&mut self, addr: u64) {
        match self.words.get_mut(self.count) {
            Some(word) => {
                *word = addr;
                self.count += 1;
            }
            None => self.overflow = true,
        }
    }
}
