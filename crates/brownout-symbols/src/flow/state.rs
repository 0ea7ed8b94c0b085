//! What registers and the stack hold before an instruction.

use std::collections::BTreeMap;

use super::frames::FrameRange;
use super::value::{Base, Value};
use crate::arch::{REGISTERS, Sum};

/// What registers and the stack hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) registers: [Value; REGISTERS],
    /// Words that the function has stored, by their offset from the call frame.
    slots: BTreeMap<i64, Value>,
}

const WORD: i64 = 8;

impl State {
    /// Before the first instruction.
    pub(super) fn at_start(range: &FrameRange) -> Self {
        let at = range.code.start;
        let mut registers = [Value::constant(0); REGISTERS];
        for (register, value) in (0..).zip(&mut registers) {
            *value = Value::of(Base::unknown(at, register));
        }
        let (register, distance) = range.call_frame;
        if let Some(value) = registers.get_mut(usize::from(register)) {
            *value = Value::of(Base::Frame).plus(-distance);
        }
        Self {
            registers,
            slots: BTreeMap::new(),
        }
    }

    pub(super) fn sum(&self, sum: Sum) -> Value {
        let zero = Value::constant(0);
        let base = sum.base.map_or(zero, |register| self.register(register));
        let index = sum.index.map_or(zero, |(register, factor)| {
            self.register(register).times(i64::from(factor))
        });
        base.add(index).plus(sum.constant)
    }

    pub(super) fn register(&self, register: u16) -> Value {
        self.registers[usize::from(register)]
    }

    pub(super) fn set(&mut self, register: u16, value: Value) {
        self.registers[usize::from(register)] = value;
    }

    pub(super) fn slot(&self, offset: i64) -> Option<Value> {
        self.slots.get(&offset).copied()
    }

    /// Replaces a value wherever it is.
    pub(super) fn replace(&mut self, old: Value, new: Value) {
        let everywhere = self.registers.iter_mut().chain(self.slots.values_mut());
        for value in everywhere.filter(|value| **value == old) {
            *value = new;
        }
    }

    /// A store to the frame by the instruction at `at`; `None` stands for bytes that are no register.
    pub(super) fn store(&mut self, at: u64, offset: i64, size: u64, value: Option<Value>) {
        let end = offset.saturating_add_unsigned(size);
        let first = offset.saturating_sub(WORD - 1);
        for (&changed, value) in self.slots.range_mut(first..end) {
            *value = Value::of(Base::unknown(at, slot_number(changed)));
        }
        if let Some(value) = value
            && size == WORD as u64
        {
            self.slots.insert(offset, value);
        }
    }

    /// Adds what another path brings. Returns whether that changed anything. A word that one path has not stored is not used after
    /// both meet, or that path does not really lead there: it continues after a call that does not return.
    pub(super) fn join(&mut self, other: &Self, at: u64) -> bool {
        let before = self.clone();
        for (register, (own, other)) in (0..).zip(self.registers.iter_mut().zip(&other.registers)) {
            *own = own.join(*other, at, register);
        }
        for (&offset, other) in &other.slots {
            let own = self.slots.entry(offset).or_insert(*other);
            *own = own.join(*other, at, slot_number(offset));
        }
        *self != before
    }
}

/// Slots have numbers of their own, behind those of registers.
fn slot_number(offset: i64) -> u16 {
    REGISTERS as u16 + (offset.unsigned_abs() / WORD as u64) as u16
}
