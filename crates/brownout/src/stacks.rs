//! Calling contexts of events, interned and symbolised.
//!
//! An event names its stack by process, instruction and context number. That triple means the same
//! only as long as the process keeps its modules, so a stack is turned into places in module files at
//! the event itself, and into source lines when somebody wants to see it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_symbols::{BuildId, FileOffset, ModuleId, Probe, SourceFrame, Symbolizer};
use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::FxHashMap;

use crate::failure::sentence;

/// A stack known to a [`StackTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(usize);

impl StackId {
    /// Of a stack that was given this number before.
    pub fn new(index: usize) -> Self {
        Self(index)
    }

    /// Stacks are numbered from 0 on, without gaps.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One level of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    InModule(ModuleId, Probe),
    /// Code outside every module: generated at run time, or the trace does not tell.
    Nowhere(AppPc),
}

/// A frame as findings have it.
pub fn report_frame(frame: &SourceFrame) -> brownout_report::Frame {
    brownout_report::Frame {
        function: frame.function.clone(),
        file: frame
            .file
            .as_ref()
            .map(|file| file.to_string_lossy().into_owned()),
        line: frame.line,
        column: frame.column,
        module: frame.module.to_string_lossy().into_owned(),
        offset: frame.offset,
        inlined: frame.inlined,
    }
}

/// What a single line can say of a stack.
pub struct PrimaryFrame {
    pub frame: SourceFrame,
    /// The innermost function, where it is another: library code or a library without debug information
    /// that was called from `frame`.
    pub through: Option<String>,
}

impl PrimaryFrame {
    fn new(frame: SourceFrame, innermost: Option<SourceFrame>) -> Self {
        let through = innermost
            .filter(|innermost| *innermost != frame)
            .and_then(|innermost| innermost.function);
        Self { frame, through }
    }
}

/// Code that is in no file has a name in brackets.
fn is_relative_file(path: &Path) -> bool {
    path.is_relative() && !path.as_os_str().as_encoded_bytes().starts_with(b"[")
}

fn unknown(pc: AppPc) -> SourceFrame {
    SourceFrame::bare(Path::new("[unknown]"), pc.0)
}

/// All stacks seen so far.
pub struct StackTable {
    /// Where the program was started, which is where relative paths of modules begin.
    directory: PathBuf,
    symbolizer: Symbolizer,
    stacks: Vec<Arc<[Place]>>,
    ids: HashMap<Arc<[Place]>, StackId>,
    /// Short cut from an event to its stack.
    by_event: FxHashMap<(ProcessId, AppPc, ContextId), StackId>,
    telling: FxHashMap<StackId, Arc<PrimaryFrame>>,
}

impl StackTable {
    /// For a program that was started in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            symbolizer: Symbolizer::new(),
            stacks: Vec::new(),
            ids: HashMap::new(),
            by_event: FxHashMap::default(),
            telling: FxHashMap::default(),
        }
    }

    /// Must be told of every event: new code makes old addresses mean something else.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>) {
        if let EventKind::Module { .. } | EventKind::ProcessStart { .. } = event.kind {
            self.by_event
                .retain(|&(process, ..), _| process != event.process);
        }
    }

    /// The stack of an event; `None` if it came from no instruction.
    pub fn stack_of(&mut self, event: &Event<'_>, definitions: &Definitions) -> Option<StackId> {
        if event.pc.0 == 0 {
            return None;
        }
        let key = (event.process, event.pc, event.context);
        if let Some(&id) = self.by_event.get(&key) {
            return Some(id);
        }
        let id = self.intern(event, definitions);
        self.by_event.insert(key, id);
        Some(id)
    }

    /// The same for a caller that remembers by itself which events it has asked about.
    pub fn intern(&mut self, event: &Event<'_>, definitions: &Definitions) -> StackId {
        let process = event.process;
        let mut places = vec![self.place(definitions, process, event.pc, Probe::Instruction)];
        for caller in definitions.context_frames(process, event.context) {
            places.push(self.place(definitions, process, caller, Probe::ReturnAddress));
        }
        let places: Arc<[Place]> = places.into();
        *self.ids.entry(places).or_insert_with_key(|places| {
            self.stacks.push(Arc::clone(places));
            StackId(self.stacks.len() - 1)
        })
    }

    fn place(
        &mut self,
        definitions: &Definitions,
        process: ProcessId,
        pc: AppPc,
        probe: impl FnOnce(FileOffset) -> Probe,
    ) -> Place {
        let Some(module) = definitions.module_at(process, pc) else {
            return Place::Nowhere(pc);
        };
        let within = pc.0 - module.addr.0;
        let offset = module.file_offset.saturating_add(within);
        let build_id = BuildId::new(&module.build_id);
        let id = if is_relative_file(&module.path) {
            let path = self.directory.join(&module.path);
            let path: PathBuf = path.components().collect();
            self.symbolizer.add_module(&path, build_id.as_ref())
        } else {
            self.symbolizer.add_module(&module.path, build_id.as_ref())
        };
        Place::InModule(id, probe(FileOffset(offset)))
    }

    /// The frames of a stack, innermost first, inlined calls included.
    pub fn frames(&mut self, stack: StackId) -> Vec<SourceFrame> {
        let places = Arc::clone(&self.stacks[stack.0]);
        let mut frames = Vec::new();
        for &place in &places[..] {
            frames.append(&mut self.frames_of(place));
        }
        frames
    }

    /// The frames of a stack, and of each function that was called by name from another module that name: where
    /// a function ends with a jump into another, only the caller knows it.
    pub fn called_frames(&mut self, stack: StackId) -> Vec<(SourceFrame, Option<String>)> {
        let places = Arc::clone(&self.stacks[stack.0]);
        let mut frames: Vec<(SourceFrame, Option<String>)> = Vec::new();
        for (depth, &place) in places.iter().enumerate() {
            let inner = self.frames_of(place).into_iter().map(|frame| (frame, None));
            frames.extend(inner);
            let Some(&Place::InModule(module, Probe::ReturnAddress(offset))) =
                places.get(depth + 1)
            else {
                continue;
            };
            if let Some((_, called)) = frames.last_mut() {
                *called = self.symbolizer.callee(module, offset);
            }
        }
        frames
    }

    /// The frame that tells a reader most.
    pub fn primary_frame(&mut self, stack: StackId) -> Arc<PrimaryFrame> {
        if let Some(known) = self.telling.get(&stack) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.find_primary_frame(stack));
        self.telling.insert(stack, Arc::clone(&found));
        found
    }

    fn find_primary_frame(&mut self, stack: StackId) -> PrimaryFrame {
        let frames = self.frames(stack);
        let known: Vec<_> = frames.iter().map(report_frame).collect();
        let telling = brownout_report::primary_frame(&known).unwrap_or(0);
        let frame = frames.get(telling).cloned();
        let frame = frame.unwrap_or_else(|| unknown(AppPc(0)));
        PrimaryFrame::new(frame, frames.into_iter().next())
    }

    fn frames_of(&mut self, place: Place) -> Vec<SourceFrame> {
        match place {
            Place::InModule(module, probe) => self.symbolizer.frames(module, probe).to_vec(),
            Place::Nowhere(pc) => vec![unknown(pc)],
        }
    }

    /// The frames of code at `offset` in a file that some other process runs; an address where there is no file.
    pub fn frames_in(
        &mut self,
        module: Option<&Path>,
        build_id: &[u8],
        offset: u64,
        is_return: bool,
    ) -> Vec<SourceFrame> {
        let Some(module) = module else {
            return vec![unknown(AppPc(offset))];
        };
        let build_id = BuildId::new(build_id);
        let module = self.symbolizer.add_module(module, build_id.as_ref());
        let offset = FileOffset(offset);
        let probe = if is_return {
            Probe::ReturnAddress(offset)
        } else {
            Probe::Instruction(offset)
        };
        self.frames_of(Place::InModule(module, probe))
    }

    /// Why some frames have less in them than they could.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.symbolizer
            .problems()
            .iter()
            .map(|problem| sentence(problem))
    }
}
