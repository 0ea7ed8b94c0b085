//! The deadline of a repair: the instruction before which what was stored has to be durable (`I` of Hippocrates, §3.4.2.4).
//!
//! It is the failure point at which crash testing has confirmed the finding, or else the earliest of: the next fence of the thread, the
//! instant at which a later store of it is guaranteed (a `clflush`, a sync), the release of a lock, an unmapping. If none of them comes,
//! it is the end of the thread. A repair is made in the function of the deadline or in one that this function has called, never above: a
//! flush at the end of `main` would silence lint and repair nothing.
//!
//! Of several executions of a store, the one with the innermost deadline counts. The function of the deadline is the innermost one that
//! the stacks of the store and of the deadline have in common; two calls of it by one call site are not distinguished, which can only
//! make the deadline stricter. Can miss: releases of locks that are known only by their atomic instructions; failure points in other
//! threads.

use std::ops::ControlFlow;

use brownout_libraries::{LockFunction, Purpose, function};
use brownout_report::{Frame, Stack};
use brownout_trace::{Definitions, Event, EventKind, FenceKind, FlushKind, FunctionId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::console::Console;
use crate::failure::Failure;
use crate::stacks::{StackId, StackTable};
use crate::trace_file::TraceFile;

/// A stack by its instructions.
type StackKey = Vec<(String, u64)>;

/// Until when something has to be durable, as seen from the stack of its store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    /// The outermost frame of the stack in which a repair is in time, counted from the innermost; `None` if all are.
    pub level: Option<usize>,
    /// Where the function of that frame gets to the deadline.
    pub at: Vec<Frame>,
}

impl Deadline {
    /// Whether a repair in this frame of the stack can be in time.
    pub fn permits(&self, frame: usize) -> bool {
        self.level.is_none_or(|level| frame <= level)
    }

    /// What a repair in this frame must come before.
    pub fn within(&self, frame: usize) -> &[Frame] {
        match self.level == Some(frame) {
            true => &self.at,
            false => &[],
        }
    }

    /// Takes another execution into account.
    fn tighten(&mut self, level: usize, at: Frame) {
        if self.level.is_none_or(|known| level < known) {
            self.level = Some(level);
            self.at.clear();
        }
        if self.level == Some(level) && !self.at.contains(&at) {
            self.at.push(at);
        }
    }
}

/// A store or flush whose deadline is asked for.
pub struct DeadlineRequest<'a> {
    pub stack: &'a Stack,
    /// A locked instruction counts as a fence: the finding is about one.
    pub locked: bool,
}

/// The deadlines of stores and flushes of a trace.
#[derive(Default)]
pub struct Deadlines {
    by_stack: FxHashMap<StackKey, Deadline>,
}

impl Deadlines {
    /// The deadline of a stack. One that was not asked for is repaired where it is.
    pub fn of_stack(&self, stack: &Stack) -> Deadline {
        let known = self.by_stack.get(&key(&stack.frames)).cloned();
        known.unwrap_or(Deadline {
            level: Some(0),
            at: Vec::new(),
        })
    }

    /// Reads a trace. `failure_points` are the events before which a crash has confirmed a finding.
    pub fn of(
        trace: &mut TraceFile,
        requests: &[DeadlineRequest<'_>],
        failure_points: &[u64],
        console: &Console,
    ) -> Result<Self, Failure> {
        let mut pass = DeadlinePass {
            stacks: StackTable::new(&trace.header().cwd),
            wanted: requests
                .iter()
                .map(|request| (key(&request.stack.frames), request.locked))
                .collect(),
            failure_points: failure_points.iter().copied().collect(),
            requested: FxHashMap::default(),
            open: FxHashMap::default(),
            judged: FxHashSet::default(),
            releases: FxHashMap::default(),
            found: Self::default(),
        };
        if requests.is_empty() {
            return Ok(pass.found);
        }
        let mut progress = console.progress("looking for deadlines", Some(trace.events()));
        trace.walk(&mut progress, |event, definitions| {
            pass.observe(event, definitions);
            Ok(ControlFlow::Continue(()))
        })?;
        drop(progress);
        trace.rewind()?;
        Ok(pass.found)
    }
}

/// What is requested for a stack of the trace.
#[derive(Clone, Copy)]
struct Requested {
    locked: bool,
}

/// One pass over a trace.
struct DeadlinePass {
    stacks: StackTable,
    wanted: FxHashMap<StackKey, bool>,
    failure_points: FxHashSet<u64>,
    requested: FxHashMap<StackId, Option<Requested>>,
    /// For each thread, what has not reached its deadline.
    open: FxHashMap<(u32, u32), Vec<(StackId, Requested)>>,
    /// Pairs of a store and its deadline that are known.
    judged: FxHashSet<(StackId, StackId)>,
    /// Whether watched functions release locks.
    releases: FxHashMap<FunctionId, bool>,
    found: Deadlines,
}

impl DeadlinePass {
    fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.stacks.observe(event);
        let thread = (event.process.0, event.thread.0);
        if let EventKind::ThreadExit = event.kind {
            self.open.remove(&thread);
            return;
        }
        let is_failure_point = self.failure_points.contains(&event.index.0);
        let reaches = self.reaches(event, definitions);
        if is_failure_point || reaches != Reaches::Nothing {
            self.reach(event, definitions, reaches, is_failure_point);
        }
        if let EventKind::Store { .. } | EventKind::Flush { .. } = event.kind {
            self.begin(event, definitions);
        }
    }

    /// Notes a store or flush, if it is asked for.
    fn begin(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let Some(stack) = self.stacks.stack_of(event, definitions) else {
            return;
        };
        let known = self.requested.get(&stack).copied();
        let requested = known.unwrap_or_else(|| {
            let key = key(&self.stacks.report_frames(stack));
            let locked = self.wanted.get(&key).copied();
            if locked.is_some() {
                self.found.by_stack.entry(key).or_default();
            }
            let requested = locked.map(|locked| Requested { locked });
            self.requested.insert(stack, requested);
            requested
        });
        let Some(requested) = requested else { return };
        let open = self
            .open
            .entry((event.process.0, event.thread.0))
            .or_default();
        if !open.iter().any(|(known, _)| *known == stack) {
            open.push((stack, requested));
        }
    }

    fn reaches(&mut self, event: &Event<'_>, definitions: &Definitions) -> Reaches {
        match event.kind {
            EventKind::Fence {
                kind: FenceKind::Locked,
            } => Reaches::OrderedByAccident,
            EventKind::Fence { .. } | EventKind::Sync(_) | EventKind::Unmap { .. } => Reaches::All,
            EventKind::Flush {
                kind: FlushKind::Clflush,
                ..
            } => Reaches::All,
            EventKind::Call { function, .. } => {
                let known = self.releases.entry(function);
                match *known.or_insert_with(|| is_release(function, definitions)) {
                    true => Reaches::All,
                    false => Reaches::Nothing,
                }
            }
            _ => Reaches::Nothing,
        }
    }

    /// The thread has got to a deadline of what is open.
    fn reach(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        reaches: Reaches,
        is_failure_point: bool,
    ) {
        let thread = (event.process.0, event.thread.0);
        let Some(open) = self.open.get_mut(&thread).filter(|open| !open.is_empty()) else {
            return;
        };
        let is_over =
            |requested: &Requested| is_failure_point || reaches == Reaches::All || requested.locked;
        let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(open)
            .into_iter()
            .partition(|(_, requested)| is_over(requested));
        *open = rest;
        let Some(deadline) = self.stacks.stack_of(event, definitions) else {
            return;
        };
        for (store, _) in over {
            if !self.judged.insert((store, deadline)) {
                continue;
            }
            let store = self.stacks.report_frames(store);
            let frames = self.stacks.report_frames(deadline);
            if let Some((level, at)) = meeting(&store, &frames) {
                let known = self.found.by_stack.entry(key(&store)).or_default();
                known.tighten(level, at);
            }
        }
    }
}

/// What an event is a deadline of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reaches {
    Nothing,
    /// Everything that its thread has stored or flushed before.
    All,
    /// Only what a locked instruction must not order by accident.
    OrderedByAccident,
}

fn is_release(called: FunctionId, definitions: &Definitions) -> bool {
    let mut names = definitions.functions();
    let name = names.find(|(id, _)| *id == called).map(|(_, name)| name);
    let known = name.and_then(function);
    known.is_some_and(|known| {
        matches!(
            known.purpose,
            Purpose::Lock {
                function: LockFunction::Release | LockFunction::Wait,
                ..
            }
        )
    })
}

fn key(frames: &[Frame]) -> StackKey {
    let frames = frames.iter();
    frames
        .map(|frame| (frame.module.clone(), frame.offset))
        .collect()
}

/// The frame of a store's stack whose function also gets to the deadline, and where it does. `None` if the stacks have no function in
/// common: the deadline is outside of all that led to the store.
fn meeting(store: &[Frame], deadline: &[Frame]) -> Option<(usize, Frame)> {
    let pairs = store.iter().rev().zip(deadline.iter().rev());
    let common = pairs.take_while(|(one, other)| one == other).count();
    let own = store.len().checked_sub(common + 1);
    let Some(own) = own else {
        // What the statement calls gets there.
        return store.first().map(|frame| (0, frame.clone()));
    };
    let other = deadline.len().checked_sub(common + 1);
    let other = other.and_then(|index| deadline.get(index));
    let is_same = |frame: &&Frame| {
        frame.function.is_some()
            && frame.function == store[own].function
            && frame.module == store[own].module
    };
    match other.filter(is_same) {
        Some(at) => Some((own, at.clone())),
        // One call leads to both.
        None => store.get(own + 1).map(|caller| (own + 1, caller.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.into()),
            line: Some(line),
            module: "/program".into(),
            offset: u64::from(line),
            ..Frame::default()
        }
    }

    fn level(store: &[Frame], deadline: &[Frame]) -> Option<usize> {
        meeting(store, deadline).map(|(level, _)| level)
    }

    /// `main` calls `modify` at line 20, which calls `update` at line 6, which stores at line 2.
    fn store() -> [Frame; 3] {
        [frame("update", 2), frame("modify", 6), frame("main", 20)]
    }

    #[test]
    fn a_fence_after_the_call_permits_all_call_sites_up_to_its_function() {
        let fence = [frame("main", 21)];
        assert_eq!(level(&store(), &fence), Some(2));
        let helper = [frame("persist", 40), frame("main", 21)];
        assert_eq!(level(&store(), &helper), Some(2));
    }

    #[test]
    fn nothing_above_the_function_of_the_deadline_is_in_time() {
        let inside = [frame("modify", 7), frame("main", 20)];
        assert_eq!(level(&store(), &inside), Some(1));
        let beside = [frame("update", 3), frame("modify", 6), frame("main", 20)];
        assert_eq!(level(&store(), &beside), Some(0));
        let deadline = Deadline {
            level: Some(1),
            at: Vec::new(),
        };
        assert!(deadline.permits(1) && !deadline.permits(2));
    }

    #[test]
    fn the_end_of_the_thread_permits_everything() {
        assert!(Deadline::default().permits(7));
        assert_eq!(level(&store(), &[frame("exit", 1)]), None);
    }

    #[test]
    fn the_innermost_deadline_of_several_executions_counts() {
        let mut deadline = Deadline::default();
        deadline.tighten(2, frame("main", 21));
        deadline.tighten(1, frame("modify", 7));
        deadline.tighten(2, frame("main", 30));
        deadline.tighten(1, frame("modify", 9));
        assert_eq!(deadline.level, Some(1));
        assert_eq!(deadline.at, [frame("modify", 7), frame("modify", 9)]);
        assert_eq!(deadline.within(1).len(), 2);
        assert!(deadline.within(0).is_empty());
    }
}
