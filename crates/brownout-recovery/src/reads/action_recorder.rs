//! Records what a recovery does to persistent memory while it runs.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use brownout_trace::{
    AppPc, ContextId, Ending, Event, EventKind, FileId, FileIdentity, Header, Mapping, ProcessId,
    Sync, ThreadId, TraceWriter, WriteError,
};

use super::RecoveryActions;

/// Writes the events that change the persistent files, or make changes durable, to a trace in memory.
pub(super) struct ActionRecorder {
    trace: TraceWriter<Vec<u8>>,
    /// The persistent files, by their numbers in the trace.
    files: Vec<(FileId, usize)>,
    /// Threads that have stored to or flushed a persistent file since their last fence.
    unfenced: HashSet<(ProcessId, ThreadId)>,
    events_before_reads: Vec<u64>,
}

/// Whether an event concerns persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It concerns a persistent file, or its effect does not depend on a file.
    Persistent,
    Elsewhere,
}

impl ActionRecorder {
    pub(super) fn new() -> Result<Self, WriteError> {
        let header = Header {
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: Vec::new(),
            cwd: std::env::current_dir()?,
            pm: Vec::new(),
            loads: false,
            shared_loads: false,
            started: SystemTime::UNIX_EPOCH,
        };
        Ok(Self {
            trace: TraceWriter::new(Vec::new(), &header)?,
            files: Vec::new(),
            unfenced: HashSet::new(),
            events_before_reads: Vec::new(),
        })
    }

    /// Defines a file; `number` is that of a persistent file.
    pub(super) fn file(
        &mut self,
        identity: FileIdentity,
        path: &Path,
        number: Option<usize>,
    ) -> Result<(), WriteError> {
        let file = self.trace.file(identity, path)?;
        let known = number.map(|number| (file, number));
        let known = known.filter(|known| !self.files.contains(known));
        self.files.extend(known);
        Ok(())
    }

    pub(super) fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        self.trace.context(process, context, parent, return_address)
    }

    /// Takes the next event.
    pub(super) fn event(&mut self, event: &Event<'_>, reach: Reach) -> Result<(), WriteError> {
        let thread = (event.process, event.thread);
        let is_kept = match event.kind {
            EventKind::Load { .. } | EventKind::Note { .. } => false,
            EventKind::Fence { .. } => self.unfenced.remove(&thread),
            EventKind::Store { locked, .. } => {
                let is_fence = locked && self.unfenced.remove(&thread);
                reach == Reach::Persistent || is_fence
            }
            EventKind::KernelWrite { .. }
            | EventKind::Flush { .. }
            | EventKind::Sync(Sync::Msync { .. })
            | EventKind::FileWrite { .. }
            | EventKind::FileResize { .. } => reach == Reach::Persistent,
            _ => true,
        };
        if !is_kept {
            return Ok(());
        }
        if let EventKind::Store { .. } | EventKind::Flush { .. } = event.kind
            && reach == Reach::Persistent
        {
            self.unfenced.insert(thread);
        }
        // No event has the content of a file, which is already known.
        let kind = match event.kind {
            EventKind::Map(mapping) => EventKind::Map(Mapping {
                snapshot: false,
                ..mapping
            }),
            kind => kind,
        };
        self.trace.write(&Event { kind, ..*event }).map(drop)
    }

    /// Bytes are read for the first time, in so many parts.
    pub(super) fn first_reads(&mut self, count: usize) {
        let events = self.trace.events();
        self.events_before_reads
            .extend(std::iter::repeat_n(events, count));
    }

    /// What was recorded.
    pub(super) fn finish(self, sizes: Vec<Option<u64>>) -> Result<RecoveryActions, WriteError> {
        let (_, trace) = self.trace.finish(Ending::default())?;
        Ok(RecoveryActions::new(
            sizes,
            self.events_before_reads,
            self.files,
            trace,
        ))
    }
}
