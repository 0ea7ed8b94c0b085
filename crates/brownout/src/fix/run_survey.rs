//! What the recorded run shows about the sources: the program's own idioms, and which statements store to several cache lines.

use std::ops::ControlFlow;

use brownout_fix::{CallEffect, Idioms};
use brownout_report::{Frame, primary_frame};
use brownout_trace::{Definitions, Event, EventKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::program_sources::ProgramSources;
use crate::console::Console;
use crate::failure::Failure;
use crate::stacks::{StackId, StackTable};
use crate::trace_file::TraceFile;

/// A source line.
type Line = (String, u32);

/// What one pass over a trace has shown.
#[derive(Default)]
pub struct RunSurvey {
    pub idioms: Idioms,
    /// Lines of statements that store to more than one cache line, or through a library.
    spread: FxHashSet<Line>,
    /// Lines with instructions that store.
    stored: FxHashSet<Line>,
    /// Lines that skip cache lines from one store to the next, more often than not.
    sparse: FxHashSet<Line>,
}

impl RunSurvey {
    /// Whether what the statement at this frame stores is in one cache line, each time.
    pub fn is_in_one_line(&self, frame: &Frame) -> bool {
        let line = frame.file.clone().zip(frame.line);
        line.is_some_and(|line| !self.spread.contains(&line))
    }

    /// Whether the source line has instructions that store.
    pub fn has_stores(&self, file: &str, line: u32) -> bool {
        self.stored.contains(&(file.to_owned(), line))
    }

    /// Whether the statement at this frame, if it is in a loop, stores to neighbouring cache lines.
    pub fn is_dense(&self, frame: &Frame) -> bool {
        let line = frame.file.clone().zip(frame.line);
        line.is_some_and(|line| !self.sparse.contains(&line))
    }

    pub fn of(
        trace: &mut TraceFile,
        sources: &ProgramSources,
        console: &Console,
    ) -> Result<Self, Failure> {
        let mut survey = SurveyPass {
            found: Self::default(),
            stacks: StackTable::new(&trace.header().cwd),
            known: FxHashMap::default(),
            last: FxHashMap::default(),
            steps: FxHashMap::default(),
            sources,
        };
        let mut progress = console.progress("looking at flushes and fences", Some(trace.events()));
        trace.walk(&mut progress, |event, definitions| {
            survey.observe(event, definitions);
            Ok(ControlFlow::Continue(()))
        })?;
        trace.rewind()?;
        survey.found.sparse = survey.sparse_lines();
        Ok(survey.found)
    }
}

struct SurveyPass<'a> {
    found: RunSurvey,
    stacks: StackTable,
    /// The innermost line of the program of each stack, and whether its own instruction caused the event.
    known: FxHashMap<(StackId, CallEffect), Option<(Line, bool)>>,
    /// The last store of each thread: its line in the source, and its cache line.
    last: FxHashMap<(u32, u32), (Line, u64, u64)>,
    /// For each line that stores, the end of its last store, how often it went on near there, and how often elsewhere. A compiler can have
    /// made several instructions of one store, which take turns.
    steps: FxHashMap<Line, (u64, u64, u64)>,
    sources: &'a ProgramSources,
}

impl SurveyPass<'_> {
    fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.stacks.observe(event);
        let effect = match event.kind {
            EventKind::Store { .. } => CallEffect::Store,
            EventKind::Flush { .. } => CallEffect::Flush,
            // Locked instructions are fences by accident.
            EventKind::Fence { kind } if kind != brownout_trace::FenceKind::Locked => {
                CallEffect::Fence
            }
            EventKind::Sync(_) => CallEffect::Sync,
            _ => return,
        };
        let Some(stack) = self.stacks.stack_of(event, definitions) else {
            return;
        };
        let line = match self.known.get(&(stack, effect)) {
            Some(known) => known.clone(),
            None => {
                let line = self.examine(stack, effect);
                self.known.insert((stack, effect), line.clone());
                line
            }
        };
        if let (EventKind::Store { addr, bytes, .. }, Some((line, is_direct))) = (event.kind, line)
        {
            let thread = (event.process.0, event.thread.0);
            let (first, last) = (addr.0 / 64, (addr.0 + bytes.len() as u64 - 1) / 64);
            let continues = self
                .last
                .get(&thread)
                .is_some_and(|(known, cache_line, pc)| {
                    *known == line && *cache_line != first && *pc != event.pc.0
                });
            if first != last || continues || !is_direct {
                self.found.spread.insert(line.clone());
            }
            self.note_step(&line, addr.0, bytes.len() as u64);
            self.found.stored.insert(line.clone());
            self.last.insert(thread, (line, last, event.pc.0));
        }
    }

    fn note_step(&mut self, line: &Line, addr: u64, len: u64) {
        let steps = self.steps.entry(line.clone());
        let (end, near, far) = steps.or_insert((addr, 0, 0));
        match addr.abs_diff(*end) <= 64 {
            true => *near += 1,
            false => *far += 1,
        }
        *end = addr + len;
    }

    fn sparse_lines(&self) -> FxHashSet<Line> {
        let steps = self.steps.iter();
        let sparse = steps.filter(|(_, (_, near, far))| far > near);
        sparse.map(|(line, _)| line.clone()).collect()
    }

    /// Notes the calls in whose course the event happens.
    fn examine(&mut self, stack: StackId, effect: CallEffect) -> Option<(Line, bool)> {
        let frames = self.stacks.report_frames(stack);
        let of_program = |frame: &Frame| !frame.is_library() && frame.line.is_some();
        for frame in frames.iter().filter(|frame| of_program(frame)) {
            let (Some(file), Some(line)) = (&frame.file, frame.line) else {
                continue;
            };
            if let Ok(source) = self.sources.any(file) {
                let idioms = &mut self.found.idioms;
                idioms.observe(&source.tree, line, frame.column, effect);
            }
        }
        let innermost = frames
            .iter()
            .position(of_program)
            .or(primary_frame(&frames))?;
        let frame = &frames[innermost];
        let line = frame.file.clone().zip(frame.line)?;
        Some((line, innermost == 0))
    }
}
