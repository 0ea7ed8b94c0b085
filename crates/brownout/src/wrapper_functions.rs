//! The target's own wrappers: functions whose only business is flushing, fencing, copying or syncing for their callers.
//!
//! A flush inside `persist(p, len)` is redundant, or missing, because of the call. The place to look at is the caller, as it
//! is for `pmem_persist`. Which functions are wrappers is derived from all events of a run. A function acts if it is the
//! innermost frame of an event that is neither a library's nor a wrapper's.
//!
//! - A function that only flushes, fences or syncs is a wrapper if it is called from two places or more, or if its name says
//!   what it does.
//! - A function that also copies, by `memcpy` and its relatives or by libpmem, is a wrapper only if its name says so: one that
//!   copies its own data looks the same.
//! - A function that only flushes, fences or syncs for one caller is a wrapper if that caller is one.
//! - A function that stores anything in another way is none, and neither is one that nothing of the target calls.
//!
//! Can miss: copies that the function makes by itself; wrappers with other names that are called from one place.

mod search;
#[cfg(test)]
mod tests;

use brownout_report::{Finding, Frame};
use rustc_hash::FxHashSet;

pub use search::WrapperSearch;

/// A function, by module and name.
type Function = (String, String);

fn function_of(frame: &Frame) -> Function {
    let name = frame.function.clone();
    // Without a name, each instruction is a function of its own.
    let name = name.unwrap_or_else(|| format!("{:#x}", frame.offset));
    (frame.module.clone(), name)
}

/// The wrappers of a target.
#[derive(Clone, Debug, Default)]
pub struct WrapperFunctions {
    functions: FxHashSet<Function>,
}

impl WrapperFunctions {
    /// Adds the wrappers that are marked in the findings of an earlier run.
    pub fn learn(&mut self, findings: &[Finding]) {
        let stacks = findings.iter().flat_map(|finding| &finding.stacks);
        let frames = stacks.flat_map(|stack| &stack.frames);
        let marked = frames.filter(|frame| frame.wrapper).map(function_of);
        self.functions.extend(marked);
    }

    /// Adds the wrappers that another analysis has found.
    pub fn add(&mut self, other: WrapperFunctions) {
        self.functions.extend(other.functions);
    }

    /// Marks the frames of wrappers, so that findings are shown at their callers.
    pub fn mark(&self, findings: &mut [Finding]) {
        let stacks = findings.iter_mut().flat_map(|finding| &mut finding.stacks);
        stacks.for_each(|stack| self.mark_frames(&mut stack.frames));
    }

    /// Marks those of the frames that are of wrappers.
    pub fn mark_frames(&self, frames: &mut [Frame]) {
        if self.functions.is_empty() {
            return;
        }
        for frame in frames {
            frame.wrapper = self.functions.contains(&function_of(frame));
        }
    }
}
