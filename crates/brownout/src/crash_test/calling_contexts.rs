//! The calling contexts of a run and of its recoveries, and those in which crashes are wanted.

use std::collections::HashSet;
use std::path::Path;

use brownout_crash::{CallingContexts, StackId, Symbols, line_of};
use brownout_recovery::RawFrame;
use brownout_report::{Frame, primary_frame};
use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use globset::{GlobBuilder, GlobMatcher};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::stacks::{self, StackTable, report_frame};

/// Where crashes are wanted: anywhere, or where one of these is on the call stack.
#[derive(Clone, Debug, Default)]
pub struct WantedContexts {
    pub functions: Vec<String>,
    pub files: Vec<GlobMatcher>,
    pub modules: Vec<GlobMatcher>,
}

impl WantedContexts {
    pub fn is_everywhere(&self) -> bool {
        self.functions.is_empty() && self.files.is_empty() && self.modules.is_empty()
    }

    fn takes(&self, frame: &Frame) -> bool {
        let function = frame.function.as_deref().unwrap_or_default();
        let plain = function.split('(').next().unwrap_or_default();
        let named = |name: &String| name == function || name == plain;
        self.functions.iter().any(named)
            || matches_path(&self.files, frame.file.as_deref())
            || matches_path(&self.modules, Some(&frame.module))
    }
}

/// A pattern without a slash matches names, any other matches whole paths.
pub fn path_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let pattern = if pattern.contains('/') {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    let glob = GlobBuilder::new(&pattern).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

fn matches_path(globs: &[GlobMatcher], path: Option<&str>) -> bool {
    path.is_some_and(|path| {
        globs
            .iter()
            .any(|glob| glob.is_match(path) || glob.is_match(format!("/{path}")))
    })
}

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
    wanted: WantedContexts,
    known_wanted: FxHashMap<StackId, bool>,
}

impl CrashSymbols {
    /// For a target that was started in `directory`.
    pub fn new(directory: &Path, wanted: WantedContexts) -> Self {
        Self {
            table: StackTable::new(directory),
            storing: FxHashSet::default(),
            storing_stacks: FxHashSet::default(),
            storing_functions: None,
            wanted,
            known_wanted: FxHashMap::default(),
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

    /// Why some frames are incomplete.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.table.problems()
    }
}

impl CallingContexts for CrashSymbols {
    fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.table.observe(event);
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
        if self.wanted.is_everywhere() {
            return true;
        }
        let Some(stack) = stack else {
            return false;
        };
        if let Some(&known) = self.known_wanted.get(&stack) {
            return known;
        }
        let frames = self.frames(stack);
        let wanted = frames.iter().any(|frame| self.wanted.takes(frame));
        self.known_wanted.insert(stack, wanted);
        wanted
    }
}

impl Symbols for CrashSymbols {
    fn frames(&mut self, stack: StackId) -> Vec<Frame> {
        let frames = self.table.frames(stacks::StackId::new(stack.0));
        frames.iter().map(report_frame).collect()
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
