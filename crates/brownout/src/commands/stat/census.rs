//! Counts events by kind, thread and file.

use std::collections::BTreeMap;

use brownout_engine::{NameNote, WrittenFile};
use brownout_trace::replay::FinalContent;
use brownout_trace::{
    Address, Definitions, Event, EventCounts, EventKind, FailedSync, FileId, ProcessId,
    RENAME_NOTE, ThreadId,
};
use rustc_hash::FxHashMap;

/// The counts.
#[derive(Default)]
pub struct Census {
    counts: EventCounts,
    threads: FxHashMap<(ProcessId, ThreadId), u64>,
    files: BTreeMap<FileId, FileCensus>,
    notes: Vec<String>,
}

/// How many different notes are kept.
const MAX_NOTES: usize = 16;

/// Counts for one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCensus {
    /// Its length, as far as it was recorded.
    pub len: u64,
    pub mappings: u64,
    /// Stores through a mapping, by the target or the kernel.
    pub stores: u64,
    pub stored_bytes: u64,
    pub flushes: u64,
    /// Writes through a descriptor.
    pub writes: u64,
}

impl Census {
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        self.counts.add(event.kind.class());
        *self
            .threads
            .entry((event.process, event.thread))
            .or_default() += 1;
        match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                if let Some(file) = self.at(definitions, event.process, addr) {
                    file.stores += 1;
                    file.stored_bytes += bytes.len() as u64;
                }
            }
            EventKind::Flush { addr, .. } => {
                if let Some(file) = self.at(definitions, event.process, addr) {
                    file.flushes += 1;
                }
            }
            EventKind::Map(mapping) => {
                let file = self.file(mapping.file);
                file.mappings += 1;
                file.len = mapping.file_len;
            }
            EventKind::Note { text } => self.note(text),
            EventKind::FileResize { file, len } => self.file(file).len = len,
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let file = self.file(file);
                file.writes += 1;
                file.len = file.len.max(offset.saturating_add(bytes.len() as u64));
            }
            _ => {}
        }
    }

    /// Takes a note of the recording.
    pub fn note(&mut self, note: &str) {
        // Ordinary files and new names are no gap in the recording.
        let is_gap = WrittenFile::parse(note).is_none()
            && FinalContent::parse(note).is_none()
            && !note.starts_with(RENAME_NOTE);
        if !is_gap || self.notes.len() >= MAX_NOTES {
            return;
        }
        let name = NameNote::parse(note).map(|note| note.sentence());
        let failed = || FailedSync::parse(note).map(|failed| failed.to_string());
        let text = name.or_else(failed).unwrap_or_else(|| note.to_owned());
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The notes of the recording, without repetitions.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// The threads of a process that have events, with the number of events, ordered by thread id.
    pub fn threads_of(&self, process: ProcessId) -> Vec<(ThreadId, u64)> {
        let mut threads: Vec<_> = self
            .threads
            .iter()
            .filter(|((of, _), _)| *of == process)
            .map(|(&(_, thread), &events)| (thread, events))
            .collect();
        threads.sort_unstable();
        threads
    }

    pub fn of_file(&self, file: FileId) -> FileCensus {
        self.files.get(&file).copied().unwrap_or_default()
    }

    fn file(&mut self, file: FileId) -> &mut FileCensus {
        self.files.entry(file).or_default()
    }

    fn at(
        &mut self,
        definitions: &Definitions,
        process: ProcessId,
        addr: Address,
    ) -> Option<&mut FileCensus> {
        let space = definitions.process(process)?.address_space();
        let file = space.mapping_at(addr)?.file;
        Some(self.file(file))
    }
}
