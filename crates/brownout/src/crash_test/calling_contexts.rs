//! The calling contexts of a run and of its recoveries, and those in which crashes are wanted.

use std::collections::HashSet;
use std::path::Path;

use brownout_crash::{CallingContexts, StackId, Symbols, line_of};
use brownout_recovery::RawFrame;
use brownout_report::{Frame, primary_frame};
use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code_identity::CodeIdentity;
use super::point_filters::PointFilters;
use crate::failure::Failure;
use crate::stacks::{self, StackTable, report_frame};

/// A function and its source file.
type Function = (Option<String>, Option<String>);

fn function(frame: &Frame) -> Function {
    (frame.function.clone(), frame.file.clone())
}

/// Numbers calling contexts, and finds their frames.
pub struct CrashSymbols {
    table: StackTable,
    /// Contexts of stores.
    storing: FxHashSet<(ProcessId, AppPc, ContextId)>,
    storing_stacks: FxHashSet<stacks::StackId>,
    /// The functions that store; computed from the above when first needed.
    storing_functions: Option<HashSet<Function>>,
    filters: PointFilters,
    known_wanted: FxHashMap<StackId, bool>,
    code: CodeIdentity,
}

impl CrashSymbols {
    /// For a target that was started in `directory`.
    pub fn new(directory: &Path, filters: PointFilters) -> Self {
        Self {
            table: StackTable::new(directory),
            storing: FxHashSet::default(),
            storing_stacks: FxHashSet::default(),
            storing_functions: None,
            filters,
            known_wanted: FxHashMap::default(),
            code: CodeIdentity::default(),
        }
    }

    fn storing_functions(&mut self) -> &HashSet<Function> {
        let Self {
            table,
            storing_stacks,
            storing_functions,
            ..
        } = self;
        storing_functions.get_or_insert_with(|| {
            let stacks = storing_stacks.iter();
            let frames = stacks.map(|&stack| table.primary_frame(stack));
            frames
                .map(|telling| function(&report_frame(&telling.frame)))
                .collect()
        })
    }

    /// Fails if filters were given that no failure point matches.
    pub fn check_filters(&mut self) -> Result<(), Failure> {
        // Without failure points there is nothing to match.
        if self.known_wanted.is_empty() {
            return Ok(());
        }
        let stacks: Vec<StackId> = self.known_wanted.keys().copied().collect();
        let frames: Vec<Frame> = stacks
            .into_iter()
            .flat_map(|stack| self.frames(stack))
            .collect();
        self.filters.check(&frames)
    }

    /// Why some frames are incomplete.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.table.problems()
    }
}

impl CallingContexts for CrashSymbols {
    fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.table.observe(event);
        if let EventKind::ProcessExit { .. } = event.kind {
            self.table.note_recursion(event.process, definitions);
        }
        if let EventKind::Store { .. } = event.kind {
            let context = (event.process, event.pc, event.context);
            if self.storing.insert(context) {
                let stack = self.table.stack_of(event, definitions);
                self.storing_stacks.extend(stack);
                self.storing_functions = None;
            }
        }
    }

    fn stack(&mut self, event: &Event<'_>, definitions: &Definitions) -> Option<StackId> {
        let stack = self.table.stack_of(event, definitions)?;
        Some(StackId(stack.index()))
    }

    fn wanted(&mut self, stack: Option<StackId>) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let Some(stack) = stack else {
            return false;
        };
        if let Some(&known) = self.known_wanted.get(&stack) {
            return known;
        }
        let frames = self.frames(stack);
        let wanted = self.filters.take(&frames);
        self.known_wanted.insert(stack, wanted);
        wanted
    }
}

impl Symbols for CrashSymbols {
    fn frames(&mut self, stack: StackId) -> Vec<Frame> {
        self.table.report_frames(stacks::StackId::new(stack.0))
    }

    /// A function that flushes or fences but never stores acts for its caller, as `persist` does.
    fn line(&mut self, frames: &[Frame]) -> String {
        let storing = self.storing_functions();
        let first = primary_frame(frames).unwrap_or(0);
        let inner = frames.iter().skip(first);
        let on_behalf = inner.take_while(|frame| !storing.contains(&function(frame)));
        match first + on_behalf.count() {
            none if none >= frames.len() => line_of(frames),
            at => line_of(&frames[at..]),
        }
    }

    fn code(&mut self, stack: StackId) -> String {
        let frames = self.frames(stack);
        self.code.of(&frames)
    }

    fn recovery_frames(&mut self, frames: &[RawFrame]) -> Vec<Frame> {
        let mut out = Vec::new();
        for frame in frames {
            let known = self.table.frames_in(
                frame.module.as_deref(),
                &frame.build_id,
                frame.offset,
                frame.is_return,
            );
            out.extend(known.iter().map(report_frame));
        }
        out
    }
}
