//! Calling contexts of events, interned and symbolised.
//!
//! An event names its stack by process, instruction and context number. That triple keeps its meaning only
//! while the process keeps its modules. A stack is therefore translated to offsets in module files at
//! the event itself, and to source lines when it is shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_symbols::{BuildId, FileOffset, ModuleId, Probe, SourceFrame, Symbolizer};
use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, Process, ProcessId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::failure::sentence;

/// A stack known to a [`StackTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId(usize);

impl StackId {
    /// The stack with this index, which must exist.
    pub fn new(index: usize) -> Self {
        Self(index)
    }

    /// Stacks are numbered from 0, without gaps.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One level of a stack, before it is symbolised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CodeAddress {
    InModule(ModuleId, Probe),
    /// Code outside every known module, such as generated code.
    Unknown(AppPc),
}

/// One level of a stack, symbolised: the function that runs there, and those inlined into it.
pub struct StackLevel {
    frames: Arc<[SourceFrame]>,
    /// The function that the caller has called by name. It differs from the last frame if it ended with a jump into that.
    called: Option<Arc<str>>,
}

impl StackLevel {
    /// The frames, innermost first, each with the name by which it was called, if that is known.
    pub fn frames(&self) -> impl Iterator<Item = (&SourceFrame, Option<&str>)> {
        let last = self.frames.len() - 1;
        let frames = self.frames.iter().enumerate();
        frames.map(move |(index, frame)| (frame, self.called.as_deref().filter(|_| index == last)))
    }
}

/// The frame in the form that findings use.
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
        recursive: false,
        wrapper: false,
    }
}

/// A stack in a single line.
pub struct PrimaryFrame {
    pub frame: SourceFrame,
    /// The innermost function, if it is another one: library code that `frame` called.
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

/// Code that is not in a file has a name in brackets.
fn is_relative_file(path: &Path) -> bool {
    path.is_relative() && !path.as_os_str().as_encoded_bytes().starts_with(b"[")
}

fn unknown(pc: AppPc) -> SourceFrame {
    SourceFrame::bare(Path::new("[unknown]"), pc.0)
}

/// All stacks seen so far.
pub struct StackTable {
    /// The directory the target was started in: paths of modules may be relative to it.
    directory: PathBuf,
    symbolizer: Symbolizer,
    stacks: Vec<Arc<[CodeAddress]>>,
    ids: FxHashMap<Arc<[CodeAddress]>, StackId>,
    /// Cache from an event to its stack.
    by_event: FxHashMap<(ProcessId, AppPc, ContextId), StackId>,
    primary: FxHashMap<StackId, Arc<PrimaryFrame>>,
    /// Calling contexts into which recursive calls are folded.
    recursive: FxHashSet<Arc<[CodeAddress]>>,
}

impl StackTable {
    /// For a target that was started in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            symbolizer: Symbolizer::new(),
            stacks: Vec::new(),
            ids: FxHashMap::default(),
            by_event: FxHashMap::default(),
            primary: FxHashMap::default(),
            recursive: FxHashSet::default(),
        }
    }

    /// Must see every event: newly mapped code changes the meaning of addresses.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>) {
        if let EventKind::Module { .. } | EventKind::ProcessStart { .. } = event.kind {
            self.by_event
                .retain(|&(process, ..), _| process != event.process);
        }
    }

    /// The stack of an event; `None` if no instruction caused it.
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

    /// The same for a caller that has its own cache.
    pub fn intern(&mut self, event: &Event<'_>, definitions: &Definitions) -> StackId {
        let process = event.process;
        let mut addresses = vec![self.address(definitions, process, event.pc, Probe::Instruction)];
        self.add_callers(definitions, process, event.context, &mut addresses);
        let addresses: Arc<[CodeAddress]> = addresses.into();
        *self.ids.entry(addresses).or_insert_with_key(|addresses| {
            self.stacks.push(Arc::clone(addresses));
            StackId(self.stacks.len() - 1)
        })
    }

    fn add_callers(
        &mut self,
        definitions: &Definitions,
        process: ProcessId,
        context: ContextId,
        addresses: &mut Vec<CodeAddress>,
    ) {
        for caller in definitions.context_frames(process, context) {
            addresses.push(self.address(definitions, process, caller, Probe::ReturnAddress));
        }
    }

    /// Notes into which calling contexts of a process recursive calls are folded. To be called at the end of the process: a
    /// context may be in use before the first call is folded into it.
    pub fn note_recursion(&mut self, process: ProcessId, definitions: &Definitions) {
        let known = definitions.process(process);
        for context in known.into_iter().flat_map(Process::recursive_contexts) {
            let mut addresses = Vec::new();
            self.add_callers(definitions, process, context, &mut addresses);
            self.recursive.insert(addresses.into());
        }
    }

    fn address(
        &mut self,
        definitions: &Definitions,
        process: ProcessId,
        pc: AppPc,
        probe: impl FnOnce(FileOffset) -> Probe,
    ) -> CodeAddress {
        let Some(module) = definitions.module_at(process, pc) else {
            return CodeAddress::Unknown(pc);
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
        CodeAddress::InModule(id, probe(FileOffset(offset)))
    }

    /// The frames of a stack, innermost first, inlined calls included.
    pub fn frames(&mut self, stack: StackId) -> Vec<SourceFrame> {
        let addresses = Arc::clone(&self.stacks[stack.0]);
        let mut frames = Vec::new();
        for &address in &addresses[..] {
            frames.extend_from_slice(&self.frames_of(address));
        }
        frames
    }

    /// The frames of a stack in the form that findings use.
    pub fn report_frames(&mut self, stack: StackId) -> Vec<brownout_report::Frame> {
        let addresses = Arc::clone(&self.stacks[stack.0]);
        let mut frames: Vec<brownout_report::Frame> = Vec::new();
        for (depth, &address) in addresses.iter().enumerate() {
            frames.extend(self.frames_of(address).iter().map(report_frame));
            if let Some(caller) = frames.last_mut() {
                caller.recursive = self.recursive.contains(&addresses[depth..]);
            }
        }
        frames
    }

    /// The frames of a stack, innermost first, for each level.
    pub fn levels(&mut self, stack: StackId) -> Vec<StackLevel> {
        let addresses = Arc::clone(&self.stacks[stack.0]);
        let levels = addresses.iter().enumerate().map(|(depth, &address)| {
            let called = match addresses.get(depth + 1) {
                Some(&CodeAddress::InModule(module, Probe::ReturnAddress(offset))) => {
                    self.symbolizer.callee(module, offset)
                }
                _ => None,
            };
            StackLevel {
                frames: self.frames_of(address),
                called,
            }
        });
        levels.collect()
    }

    /// The frame to show if there is room for only one.
    pub fn primary_frame(&mut self, stack: StackId) -> Arc<PrimaryFrame> {
        if let Some(known) = self.primary.get(&stack) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.find_primary_frame(stack));
        self.primary.insert(stack, Arc::clone(&found));
        found
    }

    fn find_primary_frame(&mut self, stack: StackId) -> PrimaryFrame {
        let frames = self.frames(stack);
        let known: Vec<_> = frames.iter().map(report_frame).collect();
        let primary = brownout_report::primary_frame(&known).unwrap_or(0);
        let frame = frames.get(primary).cloned();
        let frame = frame.unwrap_or_else(|| unknown(AppPc(0)));
        PrimaryFrame::new(frame, frames.into_iter().next())
    }

    fn frames_of(&mut self, address: CodeAddress) -> Arc<[SourceFrame]> {
        match address {
            CodeAddress::InModule(module, probe) => self.symbolizer.frames(module, probe),
            CodeAddress::Unknown(pc) => [unknown(pc)].into(),
        }
    }

    /// The frames of code at `offset` in a module file of any process; without a file, `offset` is an address.
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
        let address = CodeAddress::InModule(module, probe);
        self.frames_of(address).to_vec()
    }

    /// Why some frames are incomplete.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.symbolizer
            .problems()
            .iter()
            .map(|problem| sentence(problem))
    }
}
