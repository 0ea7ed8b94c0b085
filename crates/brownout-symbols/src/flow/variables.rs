//! What the variables of a function say about registers and the frame.

use std::ops::Range;

use super::frames::FrameRange;
use super::function::Analysis;
use super::state::State;
use super::value::{Base, Value};
use crate::arch::GENERAL_REGISTERS;
use crate::types::{DataTypeId, FrameBase, FunctionVariables, Location};

/// A variable in memory while code in a range runs.
pub(super) struct InFrame {
    code: Range<u64>,
    location: Location,
    ty: DataTypeId,
    /// The offset of this part in the variable.
    offset: u64,
}

impl Analysis<'_> {
    /// Sorts the variables by where they are.
    pub(super) fn describe(
        &mut self,
        variables: &FunctionVariables,
        range: &FrameRange,
        start: &mut State,
    ) {
        for variable in &variables.variables {
            for piece in &variable.pieces {
                let ty = variable.ty;
                let mut holds = || {
                    let base = self.types.content(ty, piece.offset as i64, 0)?;
                    Some(Value::of(base))
                };
                let (register, value) = match piece.location {
                    Location::Register(register) => (register, holds()),
                    Location::Value { register, offset } => {
                        (register, holds().map(|value| value.plus(-offset)))
                    }
                    Location::AtEntry(register) => {
                        if let (Some(value), true) = (holds(), is_general(register)) {
                            start.set(register, value);
                        }
                        continue;
                    }
                    location @ (Location::Frame(_)
                    | Location::Memory { .. }
                    | Location::Address(_)) => {
                        self.in_frame.push(InFrame {
                            code: variable.code.clone(),
                            location,
                            ty,
                            offset: piece.offset,
                        });
                        continue;
                    }
                };
                let Some(value) = value.filter(|_| is_general(register)) else {
                    continue;
                };
                let code = variable.code.start.max(range.code.start)
                    ..variable.code.end.min(range.code.end);
                if code.is_empty() {
                    continue;
                }
                for (&at, _) in self.blocks.instructions.range(code) {
                    self.described
                        .entry(at)
                        .or_default()
                        .push((register, value));
                }
            }
        }
    }

    /// What the variable at an offset of the frame holds.
    pub(super) fn frame_content(&mut self, at: u64, state: &State, offset: i64) -> Option<Base> {
        let relative = |register: u16, offset: i64| {
            let register = (is_general(register)).then(|| state.register(register))?;
            register.plus(offset).in_frame()
        };
        let live = self.in_frame.iter().rev().filter(|v| v.code.contains(&at));
        let (ty, within) = live
            .filter_map(|variable| {
                let start = match (variable.location, self.frame_base) {
                    (Location::Frame(start), FrameBase::CallFrame) => start,
                    (Location::Frame(start), FrameBase::Register(base)) => relative(base, start)?,
                    (Location::Memory { register, offset }, _) => relative(register, offset)?,
                    _ => return None,
                };
                let within = u64::try_from(offset.checked_sub(start)?).ok()? + variable.offset;
                (within < self.types.get(variable.ty).size).then_some((variable.ty, within))
            })
            .next()?;
        self.types.content(ty, within as i64, 0)
    }
}

fn is_general(register: u16) -> bool {
    usize::from(register) < GENERAL_REGISTERS
}
