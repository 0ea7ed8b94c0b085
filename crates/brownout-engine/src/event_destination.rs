//! Destinations for the events of a target: a trace, a consumer in this process, or nothing at all.

use crate::file_use::FileUse;
use brownout_trace::{
    AppPc, ContextId, Definitions, Event, EventIndex, FileId, FileIdentity, FunctionId, ProcessId,
    TraceSink, TraceWriter, WriteError,
};
use std::collections::HashMap;
use std::path::Path;

/// Receives the events of a target and all its descendants, in one order.
///
/// Files, watched functions and calling contexts are defined before the first event that refers to them.
pub trait EventDestination: Send {
    /// Defines the watched function `name` and returns its number. Numbers start at 0.
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError>;

    /// The number of a file, if it has one.
    fn known_file(&self, identity: FileIdentity) -> Option<FileId>;

    /// Defines a file, now at `path`, and returns its number.
    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError>;

    /// Defines a calling context of a process.
    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError>;

    /// Receives the next event. Its index is not set; events are numbered in the order in which they arrive.
    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError>;

    /// A process of the target has used a file in a way that is no event. Only called if the options of the target ask for reads.
    fn file_use(&mut self, _: ProcessId, _: FileUse) {}

    /// Saves what was received so far, so that it survives the end of this process.
    fn save(&mut self) -> Result<(), WriteError> {
        Ok(())
    }

    /// Whether the events are read later, when the files that they are about may be others.
    fn is_kept(&self) -> bool {
        false
    }

    /// Events received so far.
    fn events(&self) -> u64;

    /// Bytes written so far.
    fn bytes(&self) -> u64 {
        0
    }
}

/// Writes the events to a trace.
impl<S: TraceSink + Send> EventDestination for TraceWriter<S> {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        TraceWriter::function(self, name)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        TraceWriter::known_file(self, identity)
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        TraceWriter::file(self, identity, path)
    }

    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        TraceWriter::context(self, process, context, parent, return_address)
    }

    #[inline(always)]
    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        self.write(event).map(drop)
    }

    fn save(&mut self) -> Result<(), WriteError> {
        self.flush_chunk()
    }

    fn is_kept(&self) -> bool {
        true
    }

    fn events(&self) -> u64 {
        TraceWriter::events(self)
    }

    fn bytes(&self) -> u64 {
        TraceWriter::bytes(self)
    }
}

/// Passes each event to a function while the target runs, in the form that a trace reader would: with its index and with
/// all definitions up to that event.
pub struct LiveEvents<F> {
    consume: F,
    definitions: Definitions,
    files: HashMap<FileIdentity, FileId>,
    functions: HashMap<String, FunctionId>,
    events: u64,
}

impl<F: FnMut(&Event<'_>, &Definitions) + Send> LiveEvents<F> {
    pub fn new(consume: F) -> Self {
        Self {
            consume,
            definitions: Definitions::default(),
            files: HashMap::new(),
            functions: HashMap::new(),
            events: 0,
        }
    }
}

impl<F> LiveEvents<F> {
    /// The definitions up to the last event.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }
}

impl LiveEvents<fn(&Event<'_>, &Definitions)> {
    /// Counts the events and discards them.
    pub fn discard() -> Self {
        Self::new(|_, _| ())
    }
}

impl<F: FnMut(&Event<'_>, &Definitions) + Send> EventDestination for LiveEvents<F> {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        if let Some(&id) = self.functions.get(name) {
            return Ok(id);
        }
        let id = FunctionId(self.functions.len() as u32);
        self.functions.insert(name.to_owned(), id);
        self.definitions.define_function(id, name);
        Ok(id)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.files.get(&identity).copied()
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        let next = FileId(self.files.len() as u32);
        let id = *self.files.entry(identity).or_insert(next);
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
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        let event = Event {
            index: EventIndex(self.events),
            ..*event
        };
        self.events += 1;
        self.definitions.apply(&event);
        (self.consume)(&event, &self.definitions);
        Ok(())
    }

    fn events(&self) -> u64 {
        self.events
    }
}
