//! Counts events by kind, thread and file.

use std::collections::BTreeMap;

use brownout_trace::{
    Address, Definitions, Event, EventCounts, EventKind, FileId, ProcessId, ThreadId,
};
use rustc_hash::FxHashMap;

/// How much of everything there was.
#[derive(Default)]
pub struct Census {
    counts: EventCounts,
    threads: FxHashMap<(ProcessId, ThreadId), u64>,
    files: BTreeMap<FileId, FileCensus>,
    notes: Vec<String>,
}

/// Different notes that are shown.
const MAX_NOTES: usize = 16;

/// What happened to one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCensus {
    /// Its length, as far as the trace tells.
    pub len: u64,
    pub mappings: u64,
    /// Stores through a mapping, by the program or the kernel.
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
            EventKind::Note { text } if self.is_news(text) => self.notes.push(text.to_owned()),
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

    fn is_news(&self, note: &str) -> bool {
        self.notes.len() < MAX_NOTES && self.notes.iter().all(|known| known != note)
    }

    /// What recording had to say, each once.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// Threads of a process that had events, with how many, by their numbers.
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
