//! Counts the transitions between operations on persistent memory, and the parts of the code that were executed (PMFuzz §3.3, §4.2).
//!
//! An operation is a load, store, flush or fence, a sync, or a call of a watched function. Its identity is its instruction and, if that is
//! in a library, the innermost call from outside of libraries; otherwise all calls of `memcpy` would be one operation. A transition leads
//! from an operation to the next one of the same thread. Unlike PMFuzz, which adds identities up in a map of 64 KiB, transitions are
//! distinguished exactly.
//!
//! Can miss: operations on files that the target maps but that are not persistent count, too, because that is known only at the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use brownout_engine::{Coverage, EventDestination, LiveEvents};
use brownout_libraries::is_library_module;
use brownout_trace::selection::{Patterns, Survey};
use brownout_trace::{
    AppPc, ContextId, Definitions, Event, EventKind, FileId, FileIdentity, FunctionId, Process,
    ProcessId, ThreadId, WriteError,
};
use xxhash_rust::xxh3::Xxh3Default;

use super::host::EventCounts;

/// Bytes of code that count as one part.
const PART: u64 = 16;

/// Counts events as they arrive.
pub struct CountedEvents {
    live: LiveEvents<fn(&Event<'_>, &Definitions)>,
    survey: Survey,
    /// The identities of operations, by what is cheap to look up.
    identities: HashMap<(ProcessId, AppPc, ContextId, u32), u64>,
    last: HashMap<(ProcessId, ThreadId), u64>,
    transitions: HashMap<u64, u32>,
    users: HashSet<(ProcessId, ThreadId)>,
}

impl Default for CountedEvents {
    fn default() -> Self {
        Self {
            live: LiveEvents::discard(),
            survey: Survey::default(),
            identities: HashMap::new(),
            last: HashMap::new(),
            transitions: HashMap::new(),
            users: HashSet::new(),
        }
    }
}

impl CountedEvents {
    /// What was counted. `patterns` select the persistent files.
    pub fn finish(self, patterns: Option<&Patterns>) -> EventCounts {
        let definitions = self.live.definitions();
        let selection = self.survey.select(definitions, patterns);
        let persistent = definitions
            .files()
            .filter(|file| selection.is_persistent(file.id))
            .map(|file| file.path.clone());
        let persistent: Vec<PathBuf> = persistent.collect();
        let mut transitions: Vec<(u64, u32)> = self.transitions.into_iter().collect();
        transitions.sort_unstable();
        EventCounts {
            // What the target did to files that are not persistent is no feedback.
            transitions: match persistent.is_empty() {
                true => Vec::new(),
                false => transitions,
            },
            shares_memory: self.users.len() > 1,
            persistent,
        }
    }

    fn operation(&mut self, event: &Event<'_>, kind: u32) {
        let key = (event.process, event.pc, event.context, kind);
        let definitions = self.live.definitions();
        let identity = *self.identities.entry(key).or_insert_with(|| {
            let process = definitions.process(event.process);
            process.map_or(0, |process| identity(process, event, kind))
        });
        let thread = (event.process, event.thread);
        let from = self.last.insert(thread, identity).unwrap_or_default();
        let mut hasher = Xxh3Default::new();
        hasher.write_u64(from);
        hasher.write_u64(identity);
        let count = self.transitions.entry(hasher.finish()).or_default();
        *count = count.saturating_add(1);
    }
}

/// The identity of an operation, which is the same in other processes that run the same files.
fn identity(process: &Process, event: &Event<'_>, kind: u32) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.write_u32(kind);
    let mut address = event.pc;
    let mut callers = process.context_frames(event.context);
    while let Some(module) = process.module_at(address) {
        let offset = (address.0 - module.addr.0).wrapping_add(module.file_offset);
        let name = module.path.file_name().unwrap_or_default();
        let is_site = address == event.pc;
        let is_library = name.to_str().is_some_and(is_library_module);
        if is_site || !is_library {
            hasher.write(name.as_bytes());
            hasher.write_u64(offset);
        }
        if !is_library {
            break;
        }
        match callers.next() {
            Some(caller) => address = caller,
            None => break,
        }
    }
    hasher.finish()
}

/// The parts of the code that were executed, and the directions of branches, with their counts.
pub fn edges_of(coverage: &Coverage) -> Vec<(u64, u32)> {
    let mut edges: BTreeMap<u64, u32> = BTreeMap::new();
    let clamp = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    for (path, module) in &coverage.modules {
        let name = path.file_name().unwrap_or_default();
        let key = |kind: u8, offset: u64| {
            let mut hasher = Xxh3Default::new();
            hasher.write_u8(kind);
            hasher.write(name.as_bytes());
            hasher.write_u64(offset);
            hasher.finish()
        };
        for (range, _) in module.executed() {
            for part in range.start / PART..range.end.div_ceil(PART) {
                // Branches have the counts.
                edges.insert(key(0, part), 1);
            }
        }
        for branch in module.branches() {
            let ways = [(1, branch.taken), (2, branch.not_taken)];
            for (kind, count) in ways.into_iter().filter(|&(_, count)| count > 0) {
                edges.insert(key(kind, branch.offset), clamp(count));
            }
        }
    }
    edges.into_iter().collect()
}

impl EventDestination for CountedEvents {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        self.live.function(name)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.live.known_file(identity)
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        self.live.file(identity, path)
    }

    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        self.live.context(process, context, parent, return_address)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        self.live.event(event)?;
        self.survey.observe(event, self.live.definitions());
        let kind = match event.kind {
            EventKind::Load { .. } => 1,
            EventKind::Store { .. } => 2,
            EventKind::Flush {
                volatile: false, ..
            } => 3,
            EventKind::Fence { .. } => 4,
            EventKind::Sync(_) => 5,
            EventKind::KernelWrite { .. } | EventKind::FileWrite { .. } => 6,
            EventKind::Call { function, .. } => 8 + function.0,
            _ => return Ok(()),
        };
        if kind <= 2 {
            self.users.insert((event.process, event.thread));
        }
        self.operation(event, kind);
        Ok(())
    }

    fn events(&self) -> u64 {
        self.live.events()
    }
}
