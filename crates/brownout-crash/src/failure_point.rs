//! Failure points: the instants at which a loss of power is tried (Mumak §4.1).
//!
//! A failure point is a flush, fence or locked instruction (with [`Granularity::Store`] also a store), a write-back, an unmapping, a
//! rename, a change of the size of a file, a write by the kernel or the exit of a process, if something was stored to persistent memory, or
//! a persistent file got another name, since the last failure point. The crash is *before* the event. The calling context of an exit is
//! that of the last store before it: what is wrong is what that store leaves.
//!
//! Failure points with the same calling context are one leaf of the failure-point tree; only some occurrences of each leaf
//! are tried. Deviation from Mumak, which tries the first occurrence: any number of occurrences, spread over the run, can
//! be tried, because the target is not run again.
//!
//! Can miss: bugs that only show at occurrences that were not chosen.

use brownout_names::FunctionPattern;
use brownout_trace::selection::Selection;
use brownout_trace::{
    AppPc, ContextId, Definitions, Event, EventIndex, EventKind, FenceKind, ProcessId, RENAME_NOTE,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::even_sample::EvenSample;
use crate::function_set::FunctionSet;
use crate::operation::{Operation, Operations};
use crate::pool_creation::PoolCreations;

/// The kind of event that a failure point precedes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    Store,
    Flush,
    Fence,
    Locked,
    WriteBack,
    KernelWrite,
    Resize,
    Rename,
    Unmap,
    Exit,
}

impl PointKind {
    /// The name in output for programs; completes "before a …".
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Flush => "flush",
            Self::Fence => "fence",
            Self::Locked => "locked-instruction",
            Self::WriteBack => "write-back",
            Self::KernelWrite => "kernel-write",
            Self::Resize => "resize",
            Self::Rename => "rename",
            Self::Unmap => "unmap",
            Self::Exit => "exit",
        }
    }

    /// With an article, in a sentence about another location.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Store => "a store",
            Self::Flush => "a flush",
            Self::Fence => "a fence",
            Self::Locked => "a locked instruction",
            Self::WriteBack => "a write-back",
            Self::KernelWrite => "a write by the kernel",
            Self::Resize => "a change of a file's size",
            Self::Rename => "a rename",
            Self::Unmap => "an unmapping",
            Self::Exit => "the exit of the process",
        }
    }

    /// Completes "power is lost before …".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Store => "this store",
            Self::Flush => "this flush",
            Self::Fence => "this fence",
            Self::Locked => "this locked instruction",
            Self::WriteBack => "this write-back",
            Self::KernelWrite => "this write by the kernel",
            Self::Resize => "this change of the file's size",
            Self::Rename => "this rename",
            Self::Unmap => "this unmapping",
            Self::Exit => "the exit of the process",
        }
    }
}

/// Which events are failure points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// Flushes, fences and locked instructions.
    #[default]
    Flush,
    /// Stores too.
    Store,
}

/// The number of a calling context, assigned by [`CallingContexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub usize);

/// Identifies calling contexts.
pub trait CallingContexts {
    /// Takes every event of the trace: an address means something else after other code was mapped there.
    fn observe(&mut self, event: &Event<'_>, definitions: &Definitions);

    /// The calling context of an event; `None` for an event that no instruction caused.
    fn stack(&mut self, event: &Event<'_>, definitions: &Definitions) -> Option<StackId>;

    /// Whether crashes in a calling context are wanted.
    fn wanted(&mut self, stack: Option<StackId>) -> bool;
}

/// One occurrence of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The crash is before this event.
    pub event: EventIndex,
    pub operation: Operation,
}

/// All failure points of one kind with the same calling context.
#[derive(Debug)]
pub struct Leaf {
    pub kind: PointKind,
    pub stack: Option<StackId>,
    pub count: u64,
    sample: EvenSample<Occurrence>,
}

impl Leaf {
    /// The occurrences to try: the first; if more are wanted, the last and some in between.
    pub fn chosen(&self) -> Vec<Occurrence> {
        self.sample.chosen()
    }
}

/// A failure point: one occurrence of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePoint {
    pub kind: PointKind,
    pub stack: Option<StackId>,
    pub occurrence: Occurrence,
}

/// Which failure points are wanted.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub granularity: Granularity,
    /// Occurrences to try of each leaf, at least one.
    pub occurrences: usize,
    /// No failure point before this function has returned for the first time.
    pub after: Option<FunctionPattern>,
    /// Failure points inside the creation of a pool, too.
    pub from_start: bool,
    /// The functions that perform one operation of the workload each.
    pub operations: Vec<FunctionPattern>,
}

/// The functions whose calls crash testing needs in the trace.
pub fn watched_functions(scope: &Scope) -> impl Iterator<Item = &FunctionPattern> {
    scope.operations.iter().chain(&scope.after)
}

/// Finds failure points. Takes every event, in order.
#[derive(Debug)]
pub struct FailurePoints {
    scope: Scope,
    leaves: Vec<Leaf>,
    by_context: FxHashMap<(PointKind, Option<StackId>), usize>,
    operations: Operations,
    after: FunctionSet,
    creations: PoolCreations,
    /// Whether `after` has returned, or there is none.
    begun: bool,
    /// Failure points before that.
    too_early: u64,
    /// Failure points after that, whether wanted or not.
    reached: u64,
    /// Whether something was stored since the last failure point, or a persistent file got another name.
    changed: bool,
    /// Whether that was so before the last event, and the event is no failure point.
    was_between: bool,
    names: NameChanges,
    /// The last event that changed a persistent file: process, instruction and calling context.
    last_change: Option<(ProcessId, AppPc, ContextId)>,
}

impl FailurePoints {
    pub fn new(scope: Scope) -> Self {
        Self {
            operations: Operations::new(&scope.operations),
            after: FunctionSet::new(scope.after.as_slice()),
            creations: PoolCreations::default(),
            begun: scope.after.is_none(),
            scope,
            leaves: Vec::new(),
            by_context: FxHashMap::default(),
            too_early: 0,
            reached: 0,
            changed: false,
            was_between: false,
            names: NameChanges::default(),
            last_change: None,
        }
    }

    /// Takes the next event. Returns the failure point that precedes it, if there is one and it is wanted.
    #[inline]
    pub fn observe(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        selection: &Selection,
        contexts: &mut (impl CallingContexts + ?Sized),
    ) -> Option<FailurePoint> {
        self.changed |= self.names.observe(definitions, selection);
        let kind = if self.changed {
            self.kind(event, definitions, selection)
        } else {
            None
        };
        self.was_between = self.changed && kind.is_none();
        let reached = kind.and_then(|kind| self.reach(kind, event, definitions, contexts));
        match event.kind {
            EventKind::Call { .. } | EventKind::Return { .. } => self.follow(event, definitions),
            _ if changes(event, definitions, selection) => {
                self.changed = true;
                self.last_change = Some((event.process, event.pc, event.context));
            }
            _ => {}
        }
        reached
    }

    /// Whether a crash before this event, which was [observed](Self::observe) last, is wanted although no failure point precedes it: it is
    /// none, and something was stored between it and the last one.
    pub(crate) fn is_between(
        &self,
        event: &Event<'_>,
        definitions: &Definitions,
        contexts: &mut (impl CallingContexts + ?Sized),
    ) -> bool {
        let is_left_out = !self.scope.from_start && self.creations.is_inside(event);
        if !self.was_between || !self.begun || is_left_out {
            return false;
        }
        let stack = contexts.stack(event, definitions);
        contexts.wanted(stack)
    }

    /// Whether something was stored since the last failure point, and crashes are wanted there.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.changed && self.begun
    }

    /// Which failure points are wanted.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// How far the workload is after the last event.
    pub fn operation(&self) -> Operation {
        self.operations.now()
    }

    /// Whether the function named as [`Scope::after`], if any, has returned.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// Whether the function named as [`Scope::after`] was called but has not returned.
    pub fn waits_for_return(&self) -> bool {
        !self.begun && self.after.missing().next().is_none()
    }

    /// Whether no failure point was reached after the function named as [`Scope::after`] had returned.
    pub fn is_empty_from_there(&self) -> bool {
        self.begun && self.reached == 0
    }

    /// How often a failure point was reached before the function named as [`Scope::after`] returned.
    pub fn too_early(&self) -> u64 {
        self.too_early
    }

    /// The pools that were created, and the failure points inside their creation, which are left out.
    pub fn creations(&self) -> &PoolCreations {
        &self.creations
    }

    /// Those of [`Scope::operations`] that no call in the run matches.
    pub fn missing_operations(&self) -> impl Iterator<Item = &FunctionPattern> {
        self.operations.missing()
    }

    fn kind(
        &self,
        event: &Event<'_>,
        definitions: &Definitions,
        selection: &Selection,
    ) -> Option<PointKind> {
        match event.kind {
            EventKind::Flush { .. } => Some(PointKind::Flush),
            EventKind::Fence {
                kind: FenceKind::Locked,
            } => Some(PointKind::Locked),
            EventKind::Fence { .. } => Some(PointKind::Fence),
            EventKind::Store { locked: true, .. } => Some(PointKind::Locked),
            EventKind::Store { .. } => {
                let each = self.scope.granularity == Granularity::Store;
                (each && changes(event, definitions, selection)).then_some(PointKind::Store)
            }
            EventKind::Sync(_) => Some(PointKind::WriteBack),
            EventKind::KernelWrite { .. } | EventKind::FileWrite { .. } => {
                changes(event, definitions, selection).then_some(PointKind::KernelWrite)
            }
            EventKind::FileResize { .. } => {
                changes(event, definitions, selection).then_some(PointKind::Resize)
            }
            EventKind::Note { text } => text.starts_with(RENAME_NOTE).then_some(PointKind::Rename),
            EventKind::Unmap { .. } => Some(PointKind::Unmap),
            EventKind::ProcessExit { .. } => Some(PointKind::Exit),
            _ => None,
        }
    }

    fn reach(
        &mut self,
        kind: PointKind,
        event: &Event<'_>,
        definitions: &Definitions,
        contexts: &mut (impl CallingContexts + ?Sized),
    ) -> Option<FailurePoint> {
        self.changed = false;
        if !self.begun {
            self.too_early += 1;
            return None;
        }
        self.reached += 1;
        let stack = contexts.stack(event, definitions);
        if !contexts.wanted(stack) {
            return None;
        }
        let stack = match kind {
            PointKind::Exit => self.stack_of_last_change(event, definitions, contexts),
            _ => stack,
        };
        if !self.scope.from_start && self.creations.leave_out(event, definitions, (kind, stack)) {
            return None;
        }
        let leaf = *self.by_context.entry((kind, stack)).or_insert_with(|| {
            self.leaves.push(Leaf {
                kind,
                stack,
                count: 0,
                sample: EvenSample::new(self.scope.occurrences.max(1)),
            });
            self.leaves.len() - 1
        });
        let leaf = &mut self.leaves[leaf];
        leaf.count += 1;
        let occurrence = Occurrence {
            event: event.index,
            operation: self.operations.now(),
        };
        leaf.sample.offer(occurrence);
        Some(FailurePoint {
            kind,
            stack,
            occurrence,
        })
    }

    /// Where the process was when it changed a persistent file last: no instruction of its own ends it.
    pub(crate) fn stack_of_last_change(
        &self,
        event: &Event<'_>,
        definitions: &Definitions,
        contexts: &mut (impl CallingContexts + ?Sized),
    ) -> Option<StackId> {
        let (process, pc, context) = self.last_change?;
        let change = Event {
            pc,
            context,
            ..*event
        };
        // The code of another process may be gone.
        let is_own = process == event.process;
        is_own.then(|| contexts.stack(&change, definitions))?
    }

    #[cold]
    fn follow(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.operations.observe(event, definitions);
        self.creations.observe(event, definitions);
        if self.begun {
            return;
        }
        match event.kind {
            EventKind::Call { function, .. } => {
                self.after.contains(function, definitions);
            }
            EventKind::Return { function, .. } => {
                self.begun = self.after.contains(function, definitions);
            }
            _ => {}
        }
    }
}

/// Notices that persistent files get other names, which is no event of its own.
#[derive(Debug, Default)]
pub(crate) struct NameChanges(usize);

impl NameChanges {
    /// Whether a persistent file has another name than before the last event.
    #[inline]
    pub(crate) fn observe(&mut self, definitions: &Definitions, selection: &Selection) -> bool {
        let changes = definitions.path_changes();
        if changes.len() == self.0 {
            return false;
        }
        let mut new = changes[self.0..].iter();
        self.0 = changes.len();
        new.any(|&file| selection.is_persistent(file))
    }
}

/// Whether an event changes a persistent file.
pub(crate) fn changes(event: &Event<'_>, definitions: &Definitions, selection: &Selection) -> bool {
    match event.kind {
        EventKind::Store { addr, .. } | EventKind::KernelWrite { addr, .. } => definitions
            .process(event.process)
            .and_then(|process| process.address_space().resolve(addr, 1))
            .is_some_and(|range| selection.is_persistent(range.file)),
        EventKind::FileWrite { file, .. } | EventKind::FileResize { file, .. } => {
            selection.is_persistent(file)
        }
        _ => false,
    }
}
