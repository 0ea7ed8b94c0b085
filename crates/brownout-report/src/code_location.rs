//! Locations in code, to decide whether two things happen at the same one.

use crate::{Frame, Stack};

/// A location in the code of the target or of recovery: a source line or, without line information, an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrameLocation<'a> {
    Line(&'a str, u32),
    Offset(&'a str, u64),
}

impl<'a> FrameLocation<'a> {
    pub(crate) fn of(frame: &'a Frame) -> Self {
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) => FrameLocation::Line(file, line),
            _ => FrameLocation::Offset(&frame.module, frame.offset),
        }
    }

    /// That of the primary frame.
    pub(crate) fn of_stack(stack: &'a Stack) -> Option<Self> {
        stack.primary_frame().map(FrameLocation::of)
    }
}
