//! Decodes merged records into events and passes them to their destination.

use crate::build_ids::BuildIds;
use crate::decode::{Decoded, EventConsumer, WholeEvent, decode, decode_frequent, event};
use crate::event_destination::EventDestination;
use crate::file_names::{FileNames, NameChange};
use crate::file_use::FileUse;
use crate::last_store::LastStore;
use crate::mapped_files::MappedFiles;
use crate::merge::{Sink, SinkError, SinkProgress};
use crate::name_note::{NameNote, NameNoteKind};
use crate::slot_owner::SlotOwner;
use crate::thread_relations::ThreadRelations;
use crate::watched_functions::WatchTable;
use crate::written_file::WrittenFile;
use brownout_ring::{Record, kind};
use brownout_trace::replay::FinalContent;
use brownout_trace::{
    Address, AppPc, ContextId, Event, EventIndex, EventKind, FailedSync, FunctionId, ProcessEnd,
    ProcessId, RENAME_NOTE, ThreadId, WriteError,
};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// Why recording stopped while the target had not ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    #[error(transparent)]
    Trace(#[from] WriteError),
    #[error("cannot read the memory that is shared with the program")]
    Wire(#[from] io::Error),
    #[error("recording was interrupted while processes that the program had started were running")]
    Interrupted,
}

/// Decodes merged records and passes on their events.
pub(crate) struct EventSink<D: EventDestination> {
    destination: D,
    build_ids: BuildIds,
    /// The latest process with each process id, until its end is recorded.
    running: HashMap<u32, ProcessId>,
    /// The number of functions whose calls and returns become events.
    watched: usize,
    /// For each function, by number, whether it joins threads.
    joins: Vec<bool>,
    threads: ThreadRelations,
    mapped: MappedFiles,
    names: FileNames,
    /// The notes of the target's processes, without repetitions.
    notes: Vec<String>,
    /// Files that notes have named.
    written: HashSet<WrittenFile>,
}

/// How many different notes are kept.
const MAX_NOTES: usize = 16;
/// Files written with system calls that are named, at most.
const MAX_WRITTEN: usize = 4096;

impl<D: EventDestination> EventSink<D> {
    pub(crate) fn new(destination: D) -> EventSink<D> {
        EventSink {
            destination,
            build_ids: BuildIds::default(),
            running: HashMap::new(),
            watched: 0,
            joins: Vec::new(),
            threads: ThreadRelations::default(),
            mapped: MappedFiles::default(),
            names: FileNames::default(),
            notes: Vec::new(),
            written: HashSet::new(),
        }
    }

    /// Defines the functions of a table. This must happen before the first call.
    pub(crate) fn watch(&mut self, table: &WatchTable) -> Result<(), WriteError> {
        for (number, name) in table.names.iter().enumerate() {
            let id = self.destination.function(name)?;
            debug_assert_eq!(id, FunctionId(number as u32), "names differ");
        }
        self.watched = table.names.len();
        self.joins.clone_from(&table.joins);
        Ok(())
    }

    /// Whether a record is a call or return of a function that joins threads.
    #[inline]
    fn is_join(&self, head: &Record) -> bool {
        matches!(head.kind, kind::CALL | kind::RETURN)
            && self.joins.get(head.addr as usize) == Some(&true)
    }

    /// Writes a call or return of a function that joins threads, if that function is watched, and the join.
    #[cold]
    fn write_join(
        &mut self,
        owner: &SlotOwner,
        head: &Record,
        payload: &[u8],
    ) -> Result<(), SinkError<StopReason>> {
        let whole = WholeEvent { owner, head };
        let decoded = decode_frequent(head, payload, self.joins.len(), whole);
        let Some(event) = decoded.map_err(SinkError::Corrupt)? else {
            return Ok(());
        };
        if (head.addr as usize) < self.watched {
            self.destination.event(&event).map_err(refused)?;
        }
        let thread = (event.process, event.thread);
        let joined = match event.kind {
            EventKind::Call { function, args } => {
                self.threads.join_called(thread, function, args.get(0));
                None
            }
            EventKind::Return { function, value } => {
                let result = value.map(|[result, _]| result);
                self.threads.join_returned(thread, function, result)
            }
            _ => None,
        };
        if let Some(joined) = joined {
            let kind = EventKind::ThreadJoin { joined };
            let event = Event { kind, ..event };
            self.destination.event(&event).map_err(refused)?;
        }
        Ok(())
    }

    /// Adds how the process `pid` ended, if the process did not record that itself.
    pub(crate) fn ended(&mut self, pid: u32, end: ProcessEnd) -> Result<(), WriteError> {
        if let Some(process) = self.running.remove(&pid) {
            self.destination.event(&remark(
                process,
                ThreadId(pid),
                EventKind::ProcessExit { end },
            ))?;
        }
        Ok(())
    }

    /// Adds a note about the whole recording.
    pub(crate) fn remark(&mut self, text: &str) -> Result<(), WriteError> {
        let kind = EventKind::Note { text };
        self.destination
            .event(&remark(ProcessId(0), ThreadId(0), kind))?;
        Ok(())
    }

    /// Adds notes about names of mapped files that are not in the trace.
    pub(crate) fn remark_names(&mut self) -> Result<(), WriteError> {
        let others = self.names.other_names().map(|(identity, path)| NameNote {
            identity: (identity.dev, identity.ino),
            kind: NameNoteKind::OtherName,
            path: path.to_owned(),
        });
        let known = self.names.known();
        let with_more = known.filter(|&(identity, path, names)| {
            fs::symlink_metadata(path).is_ok_and(|file| {
                (file.dev(), file.ino()) == (identity.dev, identity.ino)
                    && file.nlink() > names as u64
            })
        });
        let unknown = with_more.map(|(identity, path, _)| NameNote {
            identity: (identity.dev, identity.ino),
            kind: NameNoteKind::UnknownNames,
            path: path.to_owned(),
        });
        for note in others.chain(unknown).collect::<Vec<_>>() {
            self.remark(&note.to_string())?;
        }
        Ok(())
    }

    /// Adds notes about what the mapped files hold now that no process writes to them any more.
    pub(crate) fn remark_contents(&mut self) -> Result<(), WriteError> {
        if self.destination.is_kept() {
            let contents: Vec<FinalContent> = self.mapped.contents().collect();
            for content in contents {
                self.remark(&content.to_string())?;
            }
        }
        Ok(())
    }

    /// Removes and returns the notes for the user.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn into_destination(self) -> D {
        self.destination
    }

    fn write(&mut self, owner: &SlotOwner, decoded: Decoded<'_>) -> Result<(), WriteError> {
        match decoded {
            Decoded::Event(event) => {
                match event.kind {
                    EventKind::ProcessStart { parent, origin, .. } => {
                        self.running.insert(owner.pid, event.process);
                        let process = event.process;
                        self.threads.process_started(process, parent, origin);
                    }
                    EventKind::ProcessExit { .. } => {
                        self.running.remove(&owner.pid);
                        self.threads.process_ended(event.process);
                    }
                    _ => {}
                }
                self.mapped.follow(&event);
                self.destination.event(&event)?;
            }
            Decoded::Map {
                file,
                path,
                mut event,
            } => {
                let number = self.destination.file(file, path)?;
                if let EventKind::Map(mapping) = &mut event.kind {
                    mapping.file = number;
                }
                self.mapped.name(number, file, path);
                self.names.mapped(number, file, path);
                self.mapped.follow(&event);
                self.destination.event(&event)?;
            }
            Decoded::Module { path, mut event } => {
                if let EventKind::Module { build_id, .. } = &mut event.kind {
                    *build_id = self.build_ids.of(owner.pid, path);
                }
                self.destination.event(&event)?;
            }
            Decoded::Note { text, event } => {
                let text = String::from_utf8_lossy(text);
                if let Some(file) = WrittenFile::parse(&text) {
                    // Each process notes its files; one note for all of them is enough.
                    if self.written.len() >= MAX_WRITTEN || !self.written.insert(file) {
                        return Ok(());
                    }
                } else {
                    // A call may fail for each of many addresses.
                    let failed = FailedSync::parse(&text).map(|failed| failed.sentence());
                    let note = failed.unwrap_or_else(|| text.clone().into_owned());
                    if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
                self.destination.event(&Event {
                    kind: EventKind::Note { text: &text },
                    ..event
                })?;
            }
            Decoded::ThreadCreate { creation, pointer } => {
                let creator = (ProcessId(owner.process), ThreadId(owner.tid));
                let next = EventIndex(self.destination.events());
                self.threads.created(creator, creation, pointer, next);
            }
            Decoded::ThreadStart { creation, event } => {
                let thread = (event.process, event.thread);
                let parent = self.threads.started(thread, creation);
                self.destination.event(&Event {
                    kind: EventKind::ThreadStart { parent },
                    ..event
                })?;
            }
            Decoded::ThreadExit { pointer, event } => {
                let thread = (event.process, event.thread);
                self.threads.exited(thread, pointer);
                self.destination.event(&event)?;
            }
            Decoded::Context {
                process,
                context,
                parent,
                return_address,
            } => {
                self.destination
                    .context(process, context, parent, return_address)?;
            }
            Decoded::Name { change, event } => self.rename(owner, change, &event)?,
            Decoded::FileUse(file_use) => {
                let process = ProcessId(owner.process);
                self.destination.file_use(process, file_use);
            }
            Decoded::Unrelated => {}
        }
        Ok(())
    }

    /// Defines the paths that change with names. The event before each is an instant at which the file still has its old one.
    fn rename(
        &mut self,
        owner: &SlotOwner,
        change: NameChange<'_>,
        event: &Event<'_>,
    ) -> Result<(), WriteError> {
        let renamed = self.names.apply(change);
        if let Some(first) = renamed.first() {
            let text = &format!("{RENAME_NOTE}{}", first.path.display());
            self.destination.event(&Event {
                kind: EventKind::Note { text },
                ..*event
            })?;
        }
        for renamed in renamed {
            self.destination.file(renamed.identity, &renamed.path)?;
            self.mapped
                .name(renamed.file, renamed.identity, &renamed.path);
        }
        if let NameChange::Renamed {
            new,
            replaced_unknown: true,
            ..
        } = change
            && let Some(identity) = self.names.named(new)
        {
            let note = NameNote {
                identity: (identity.dev, identity.ino),
                kind: NameNoteKind::ReplacedUnknown,
                path: new.to_owned(),
            };
            let (process, thread) = (ProcessId(owner.process), ThreadId(owner.tid));
            let text = &note.to_string();
            let kind = EventKind::Note { text };
            self.destination.event(&remark(process, thread, kind))?;
        }
        Ok(())
    }
}

/// An event that no instruction caused.
fn remark(process: ProcessId, thread: ThreadId, kind: EventKind<'_>) -> Event<'_> {
    let index = EventIndex::default();
    Event {
        index,
        process,
        thread,
        pc: AppPc(0),
        context: ContextId::ROOT,
        kind,
    }
}

fn refused(error: WriteError) -> SinkError<StopReason> {
    SinkError::Failed(error.into())
}

/// Passes the event of a record to the destination.
struct ForwardEvent<'r, D: EventDestination> {
    destination: &'r mut D,
    owner: &'r SlotOwner,
    head: &'r Record,
}

impl<'a, D: EventDestination> EventConsumer<'a> for ForwardEvent<'_, D> {
    type Output = Result<(), WriteError>;

    #[inline(always)]
    fn consume(self, kind: EventKind<'a>) -> Self::Output {
        let event = event(self.owner, self.head, kind);
        self.destination.event(&event)
    }
}

impl<D: EventDestination> Sink for EventSink<D> {
    type Error = StopReason;

    fn record(
        &mut self,
        owner: &SlotOwner,
        head: &Record,
        payload: &[u8],
    ) -> Result<(), SinkError<StopReason>> {
        if self.is_join(head) {
            return self.write_join(owner, head, payload);
        }
        if let Some(modified) = FileUse::of_store(head) {
            let process = ProcessId(owner.process);
            self.destination.file_use(process, modified);
        }
        let forward = ForwardEvent {
            destination: &mut self.destination,
            owner,
            head,
        };
        let frequent = decode_frequent(head, payload, self.watched, forward);
        let written = match frequent.map_err(SinkError::Corrupt)? {
            Some(written) => written,
            None => {
                let known = |file| self.destination.known_file(file);
                let decoded = decode(owner, head, payload, self.watched, known);
                self.write(owner, decoded.map_err(SinkError::Corrupt)?)
            }
        };
        written.map_err(refused)
    }

    fn last_store(&mut self, owner: &SlotOwner, store: &LastStore) -> Result<bool, StopReason> {
        let (process, addr) = (ProcessId(owner.process), Address(store.head.addr));
        let now = match self.mapped.read(process, addr, store.head.size.into()) {
            Ok(now) => now,
            Err(reason) => {
                let (tid, pid) = (owner.tid, owner.pid);
                let text = format!(
                    "thread {tid} of process {pid} was killed while it stored to {addr}; cannot determine whether \
                     the store was executed: {reason}"
                );
                return self.note(owner, &text).map(|()| false);
            }
        };
        let parts = store.made(&now);
        let made = !parts.is_empty();
        for part in parts {
            let head = Record {
                addr: store.head.addr + part.start as u64,
                size: part.len() as u32,
                ..store.head
            };
            match self.record(owner, &head, &now[part]) {
                // Impossible flags: the thread had overwritten its intent.
                Ok(()) | Err(SinkError::Corrupt(_)) => {}
                Err(SinkError::Failed(error)) => return Err(error),
            }
        }
        Ok(made)
    }

    fn note(&mut self, owner: &SlotOwner, text: &str) -> Result<(), StopReason> {
        let (process, thread) = (ProcessId(owner.process), ThreadId(owner.tid));
        self.destination
            .event(&remark(process, thread, EventKind::Note { text }))?;
        Ok(())
    }

    fn save(&mut self) -> Result<(), StopReason> {
        Ok(self.destination.save()?)
    }

    fn progress(&self) -> SinkProgress {
        SinkProgress {
            events: self.destination.events(),
            bytes: self.destination.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
