//! Where the value of a variable is: location expressions, as far as they are constant offsets to registers, the frame or an address.

use gimli::{Dwarf, Expression, Operation, Reader as _, Unit};

use crate::dwarf::DebugReader;

/// Where a part of a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a register, by its number in DWARF.
    Register(u16),
    /// In memory, at an offset from the frame base.
    Frame(i64),
    /// In memory, at an offset from a register.
    Memory { register: u16, offset: i64 },
    /// In memory, at an address of the module.
    Address(u64),
    /// It is the value of a register plus a constant.
    Value { register: u16, offset: i64 },
    /// It is the value that a register had when the function was entered.
    AtEntry(u16),
}

/// A part of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The offset of the part in the variable.
    pub(crate) offset: u64,
    pub(crate) location: Location,
}

/// What `Location::Frame` is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrameBase {
    /// The stack pointer before the call.
    #[default]
    CallFrame,
    /// A register.
    Register(u16),
}

/// The frame base of a function.
pub(super) fn frame_base(
    unit: &Unit<DebugReader>,
    expression: Expression<DebugReader>,
) -> gimli::Result<FrameBase> {
    let mut operations = expression.operations(unit.encoding());
    Ok(match operations.next()? {
        Some(Operation::Register { register }) => FrameBase::Register(register.0),
        _ => FrameBase::CallFrame,
    })
}

/// The parts of a variable with locations that can be expressed.
pub(super) fn pieces(
    dwarf: &Dwarf<DebugReader>,
    unit: &Unit<DebugReader>,
    expression: Expression<DebugReader>,
) -> gimli::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut offset = 0;
    let mut piece: Vec<Operation<DebugReader>> = Vec::new();
    let mut operations = expression.operations(unit.encoding());
    let mut add = |offset, piece: &[Operation<DebugReader>]| -> gimli::Result<()> {
        let location = location(dwarf, unit, piece)?;
        pieces.extend(location.map(|location| Piece { offset, location }));
        Ok(())
    };
    while let Some(operation) = operations.next()? {
        if let Operation::Piece { size_in_bits, .. } = operation {
            add(offset, &piece)?;
            piece.clear();
            offset += size_in_bits / 8;
        } else {
            piece.push(operation);
        }
    }
    add(offset, &piece)?;
    Ok(pieces)
}

fn location(
    dwarf: &Dwarf<DebugReader>,
    unit: &Unit<DebugReader>,
    operations: &[Operation<DebugReader>],
) -> gimli::Result<Option<Location>> {
    Ok(Some(match operations {
        [Operation::Register { register }] => Location::Register(register.0),
        [Operation::FrameOffset { offset }] => Location::Frame(*offset),
        [
            Operation::RegisterOffset {
                register, offset, ..
            },
        ] => Location::Memory {
            register: register.0,
            offset: *offset,
        },
        [Operation::Address { address }] => Location::Address(*address),
        [Operation::AddressIndex { index }] => Location::Address(dwarf.address(unit, *index)?),
        [
            Operation::RegisterOffset {
                register, offset, ..
            },
            Operation::StackValue,
        ] => Location::Value {
            register: register.0,
            offset: *offset,
        },
        [Operation::EntryValue { expression }, Operation::StackValue] => {
            let inner = Expression(expression.clone());
            match inner.operations(unit.encoding()).next()? {
                Some(Operation::Register { register }) => Location::AtEntry(register.0),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}

/// Whether an expression has no operations: the variable has no value there.
pub(super) fn is_empty(expression: &Expression<DebugReader>) -> bool {
    expression.0.is_empty()
}
