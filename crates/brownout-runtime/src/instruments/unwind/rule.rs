//! What to do to get from a function's frame to its caller's, for one address of code.

use crate::arch::instruments::unwind::registers::{CALLEE_SAVED, GPRS, Gpr};
use crate::instruments::unwind::expression::Expression;
use alloc::boxed::Box;
use alloc::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum UnwindRule {
    Plain(Plain),
    Wide(Arc<Wide>),
    /// The instructions that end a signal handler; the kernel's frame is on the stack.
    SignalFrame,
    /// This function was not called by another.
    Outermost,
    /// Code about which nothing is known.
    Unknown,
    /// The address is not code: what was taken for a return address is none.
    NotCode,
}

/// The rule of nearly all code: the canonical frame address (CFA, the caller's stack pointer) is a
/// register and an offset, the return address is the word below it, and registers are saved at
/// offsets from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub cfa_register: Gpr,
    /// Whether the rule stems from unwind tables; otherwise what it finds must be checked.
    pub certain: bool,
    pub cfa_offset: i32,
    /// For each of [`CALLEE_SAVED`], where its value in the caller is: words from the CFA, 0 for a
    /// register that the function has not touched.
    pub saved: [i16; CALLEE_SAVED.len()],
}

impl Plain {
    pub fn new(cfa_register: Gpr, cfa_offset: i32, certain: bool) -> Self {
        Self {
            cfa_register,
            certain,
            cfa_offset,
            saved: [0; CALLEE_SAVED.len()],
        }
    }
}

/// Any rule that tables can state.
#[derive(Clone, Debug)]
pub(crate) struct Wide {
    pub cfa: Cfa,
    pub return_address: ValueLocation,
    pub registers: [ValueLocation; GPRS],
    /// Whether the caller was interrupted rather than calling.
    pub interrupted: bool,
    /// As in [`Plain`].
    pub certain: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Cfa {
    Register(Gpr, i64),
    /// A word in memory, at an offset from a register, plus an offset: of functions that realign the
    /// stack and keep the former stack pointer.
    Loaded {
        register: Gpr,
        offset: i64,
        plus: i64,
    },
    Computed(Box<Expression>),
}

/// Where the caller's value of a register is.
#[derive(Clone, Debug)]
pub(crate) enum ValueLocation {
    /// In the register itself.
    Same,
    /// In another one.
    Register(Gpr),
    /// In memory, at an offset from the CFA.
    AtCfa(i64),
    /// It is the CFA plus an offset.
    Cfa(i64),
    /// In memory, at an offset from a register.
    AtRegister(Gpr, i64),
    /// In memory, at the address that the expression gives.
    AtComputed(Box<Expression>),
    /// It is what the expression gives.
    Computed(Box<Expression>),
}

impl Wide {
    /// The same rule in the cheap form, if it fits.
    pub fn to_plain(&self) -> Option<Plain> {
        let Cfa::Register(register, offset) = self.cfa else {
            return None;
        };
        if self.interrupted
            || !self.certain
            || !matches!(self.return_address, ValueLocation::AtCfa(-8))
        {
            return None;
        }
        let mut plain = Plain::new(register, i32::try_from(offset).ok()?, true);
        for (register, place) in self.registers.iter().enumerate() {
            match *place {
                ValueLocation::Same => {}
                ValueLocation::AtCfa(offset) if offset != 0 && offset % 8 == 0 => {
                    let index = CALLEE_SAVED
                        .iter()
                        .position(|&r| usize::from(r) == register)?;
                    *plain.saved.get_mut(index)? = i16::try_from(offset / 8).ok()?;
                }
                _ => return None,
            }
        }
        Some(plain)
    }
}
