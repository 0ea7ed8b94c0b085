//! Whether two things happened in one call of a function of the target.

use crate::code_location::FrameLocation;
use crate::{Frame, Stack, primary_frame};

/// Whether the primary frame of one stack is that of a call in which both happened.
pub(super) fn is_one_call(one: &Stack, other: &Stack) -> bool {
    let (Some(one), Some(other)) = (from_primary(one), from_primary(other)) else {
        return false;
    };
    let (outer, inner) = match one.len() <= other.len() {
        true => (one, other),
        false => (other, one),
    };
    let (called, callers) = inner.split_at(inner.len() - outer.len() + 1);
    let Some((function, own_callers)) = outer.split_first() else {
        return false;
    };
    let is_same_function = called.last().is_some_and(|frame| {
        frame.function.is_some()
            && frame.function == function.function
            && frame.module == function.module
            && frame.file == function.file
    });
    let own_callers = own_callers.iter().map(FrameLocation::of);
    is_same_function && callers.iter().map(FrameLocation::of).eq(own_callers)
}

/// Whether the primary frames of both stacks are those of one call.
pub(super) fn is_same_call(one: &Stack, other: &Stack) -> bool {
    let depth = |stack| from_primary(stack).map(<[Frame]>::len);
    depth(one) == depth(other) && is_one_call(one, other)
}

/// The primary frame and its callers.
fn from_primary(stack: &Stack) -> Option<&[Frame]> {
    let primary = primary_frame(&stack.frames)?;
    stack.frames.get(primary..)
}
