//! Follows the events of a target whose threads are held: which loads read a store that is held, and what their threads do then.
//!
//! What is decided here only says when the target can be ended. The trace shows what has happened.
//!
//! Can miss: what makes a store durable without a flush or fence of its own thread; the target then runs a little longer.

use super::supervisor::HoldProgress;
use super::{HoldPlan, location};
use crate::event_destination::EventDestination;
use crate::file_use::FileUse;
use brownout_trace::{
    Address, AppPc, ContextId, Definitions, Event, EventIndex, EventKind, FileId, FileIdentity,
    FileRange, FlushKind, FunctionId, ProcessId, StoreFlavor, ThreadKey, WriteError,
};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// A store of the plan that is not durable yet.
struct HeldStore {
    range: FileRange,
    /// A fence of its thread makes it durable.
    flushed: bool,
}

/// A thread that has read a held store, and what it did since.
struct Reader {
    thread: ThreadKey,
    /// Whose store it has read.
    from: ThreadKey,
    lines: BTreeSet<(FileId, u64)>,
    /// A fence makes some of its stores durable.
    flushed: bool,
}

/// Passes events on, and notes in [`HoldProgress`] what matters for the thread that is held.
pub(crate) struct HeldEvents<D> {
    destination: D,
    plan: HoldPlan,
    progress: Arc<HoldProgress>,
    definitions: Definitions,
    /// Whether an instruction in a calling context is the store of the plan.
    sites: HashMap<(ProcessId, AppPc, ContextId), bool>,
    outputs: Vec<FunctionId>,
    held: HashMap<ThreadKey, HeldStore>,
    readers: Vec<Reader>,
}

impl<D: EventDestination> HeldEvents<D> {
    pub(crate) fn new(destination: D, plan: HoldPlan, progress: Arc<HoldProgress>) -> Self {
        Self {
            destination,
            plan,
            progress,
            definitions: Definitions::default(),
            sites: HashMap::new(),
            outputs: Vec::new(),
            held: HashMap::new(),
            readers: Vec::new(),
        }
    }

    pub(crate) fn into_destination(self) -> D {
        self.destination
    }

    fn observe(&mut self, event: &Event<'_>) {
        let thread = (event.process, event.thread);
        match event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                ..
            } => {
                let range = self.resolve(event.process, addr, bytes.len() as u64);
                if locked {
                    self.fence(thread);
                }
                // An instruction that also reads what it overwrites is a load.
                if locked || flavor == StoreFlavor::Modifying {
                    self.load(thread, range);
                }
                let direct = matches!(flavor, StoreFlavor::NonTemporal | StoreFlavor::Direct);
                self.store(event, range, direct);
            }
            EventKind::Load { addr, bytes } => {
                let range = self.resolve(event.process, addr, bytes.len() as u64);
                self.load(thread, range);
            }
            EventKind::Flush {
                addr,
                kind,
                volatile: false,
            } => {
                let range = self.resolve(event.process, addr, 1);
                self.flush(thread, range);
                if kind == FlushKind::Clflush {
                    self.fence(thread);
                }
            }
            EventKind::Fence { .. } => self.fence(thread),
            EventKind::Sync(_) => {
                if let Some(reader) = self.reader_of(thread) {
                    reader.flushed |= !reader.lines.is_empty();
                }
                self.fence(thread);
            }
            EventKind::Return { function, .. }
                if self.outputs.contains(&function) && self.reader_of(thread).is_some() =>
            {
                self.progress.acted.store(true, Ordering::Release);
            }
            _ => {}
        }
    }

    fn resolve(&self, process: ProcessId, addr: Address, len: u64) -> Option<FileRange> {
        let space = self.definitions.process(process)?.address_space();
        space.resolve(addr, len)
    }

    fn reader_of(&mut self, thread: ThreadKey) -> Option<&mut Reader> {
        let mut readers = self.readers.iter_mut();
        readers.find(|reader| reader.thread == thread)
    }

    fn store(&mut self, event: &Event<'_>, range: Option<FileRange>, direct: bool) {
        let thread = (event.process, event.thread);
        if let (Some(reader), Some(range)) = (self.reader_of(thread), range) {
            reader.lines.insert(line_of(range));
            reader.flushed |= direct;
        }
        let site = (event.process, event.pc, event.context);
        let is_it = match self.sites.get(&site) {
            Some(&known) => known,
            None => {
                let is_it = self.is_store_of_plan(event);
                self.sites.insert(site, is_it);
                is_it
            }
        };
        if self.is_instruction(event) {
            self.progress
                .note_store(event.process.0, event.thread.0, is_it);
        }
        if let Some(range) = range.filter(|_| is_it) {
            self.held.insert(
                thread,
                HeldStore {
                    range,
                    flushed: direct,
                },
            );
        }
    }

    fn load(&mut self, thread: ThreadKey, range: Option<FileRange>) {
        let is_known = self.reader_of(thread).is_some();
        let Some(range) = range.filter(|_| !is_known) else {
            return;
        };
        let mut held = self.held.iter();
        let read = held.find(|(by, store)| **by != thread && overlaps(store.range, range));
        if let Some((&from, _)) = read {
            self.progress.loaded.store(true, Ordering::Release);
            self.readers.push(Reader {
                thread,
                from,
                lines: BTreeSet::new(),
                flushed: false,
            });
        }
    }

    fn flush(&mut self, thread: ThreadKey, range: Option<FileRange>) {
        let Some(line) = range.map(line_of) else {
            return;
        };
        if let Some(store) = self.held.get_mut(&thread) {
            store.flushed |= line_of(store.range) == line;
        }
        if let Some(reader) = self.reader_of(thread) {
            reader.flushed |= reader.lines.contains(&line);
        }
    }

    fn fence(&mut self, thread: ThreadKey) {
        if self.reader_of(thread).is_some_and(|reader| reader.flushed) {
            self.progress.acted.store(true, Ordering::Release);
        }
        if self.held.get(&thread).is_some_and(|store| store.flushed) {
            self.held.remove(&thread);
            self.readers.retain(|reader| reader.from != thread);
            let is_read = !self.readers.is_empty();
            self.progress.loaded.store(is_read, Ordering::Release);
        }
    }

    /// Whether an event is of the instruction of the plan, in any calling context.
    fn is_instruction(&self, event: &Event<'_>) -> bool {
        self.is_at(event.process, event.pc.0, 0)
    }

    fn is_store_of_plan(&self, event: &Event<'_>) -> bool {
        if !self.is_instruction(event) {
            return false;
        }
        let Some(process) = self.definitions.process(event.process) else {
            return false;
        };
        let frames = process.context_frames(event.context);
        let wanted = 1..self.plan.store.len();
        wanted
            .zip(frames)
            .all(|(depth, frame)| self.is_at(event.process, frame.0, depth))
    }

    fn is_at(&self, process: ProcessId, address: u64, depth: usize) -> bool {
        let module = self.definitions.module_at(process, AppPc(address));
        let wanted = self.plan.store.get(depth);
        module.zip(wanted).is_some_and(|(module, wanted)| {
            location(module, address) == (wanted.path.as_path(), wanted.offset)
        })
    }
}

fn line_of(range: FileRange) -> (FileId, u64) {
    (range.file, range.offset / LINE)
}

fn overlaps(one: FileRange, other: FileRange) -> bool {
    one.file == other.file
        && one.offset < other.offset.saturating_add(other.len)
        && other.offset < one.offset.saturating_add(one.len)
}

impl<D: EventDestination> EventDestination for HeldEvents<D> {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        let id = self.destination.function(name)?;
        self.definitions.define_function(id, name);
        if self.plan.output_functions.iter().any(|known| known == name) {
            self.outputs.push(id);
        }
        Ok(id)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.destination.known_file(identity)
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        let id = self.destination.file(identity, path)?;
        self.definitions.define_file(id, identity, path);
        Ok(id)
    }

    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        self.definitions
            .define_context(process, context, parent, return_address);
        self.destination
            .context(process, context, parent, return_address)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        let numbered = Event {
            index: EventIndex(self.destination.events()),
            ..*event
        };
        self.definitions.apply(&numbered);
        self.observe(&numbered);
        self.progress.events.fetch_add(1, Ordering::Relaxed);
        self.destination.event(event)
    }

    fn file_use(&mut self, process: ProcessId, used: FileUse) {
        self.destination.file_use(process, used);
    }

    fn save(&mut self) -> Result<(), WriteError> {
        self.destination.save()
    }

    fn is_kept(&self) -> bool {
        self.destination.is_kept()
    }

    fn events(&self) -> u64 {
        self.destination.events()
    }

    fn bytes(&self) -> u64 {
        self.destination.bytes()
    }
}

#[cfg(test)]
mod tests;
