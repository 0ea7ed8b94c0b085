//! Learns from the events of a recovery what it reads and, if that is wanted, what it does.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use brownout_engine::{EventDestination, FileUse, LiveEvents};
use brownout_trace::{
    Address, AppPc, ContextId, Definitions, Event, EventKind, FileId, FileIdentity, FunctionId,
    ProcessId, Sync, WriteError,
};

use super::action_recorder::{ActionRecorder, Reach};
use super::first_reads::{FirstRead, FirstReads};
use super::load_stacks::LoadWriter;
use super::outliving::OutlivingProcesses;
use super::{ByteRanges, FileReads, ReadsMessage, ReadsQuestion, RecoveryReads};

/// Follows a recovery and notes what it reads.
pub(crate) struct ReadObserver {
    live: LiveEvents<fn(&Event<'_>, &Definitions)>,
    /// The index in `files` of each persistent file.
    by_identity: HashMap<FileIdentity, usize>,
    files: Vec<ObservedFile>,
    outliving: OutlivingProcesses,
    is_blind: bool,
    first_reads: FirstReads,
    /// Writes first reads with their stacks, if that is asked for.
    loads: Option<LoadWriter>,
    /// The first reads since the last event.
    new_reads: Vec<FirstRead>,
    actions: Option<ActionRecorder>,
    /// Where each persistent file is, if it exists.
    persistent_files: Vec<PathBuf>,
}

const REPLACED: &str = "recovery creates, removes, renames or replaces persistent files, so not all crashes inside recovery are explored";

struct ObservedFile {
    /// Among all persistent files, those that do not exist included.
    number: usize,
    /// When recovery started.
    size: u64,
    reads: FileReads,
    /// What recovery has written: these bytes are its own.
    written: ByteRanges,
}

impl ReadObserver {
    /// For the persistent files at the first path of each pair, as far as they exist; the second is their original path.
    pub(crate) fn new(
        persistent_files: &[[PathBuf; 2]],
        question: ReadsQuestion,
    ) -> io::Result<Self> {
        let actions = question.actions.then(ActionRecorder::new).transpose();
        let mut observer = Self {
            live: LiveEvents::discard(),
            by_identity: HashMap::new(),
            files: Vec::new(),
            outliving: OutlivingProcesses::default(),
            is_blind: false,
            first_reads: FirstReads::new(question.in_order),
            loads: None,
            new_reads: Vec::new(),
            actions: actions.map_err(io::Error::other)?,
            persistent_files: persistent_files
                .iter()
                .map(|[here, _]| here.clone())
                .collect(),
        };
        for (number, [here, original]) in persistent_files.iter().enumerate() {
            let Some((identity, size)) = file_at(here)? else {
                continue;
            };
            observer.by_identity.insert(identity, observer.files.len());
            let reads = FileReads {
                path: original.clone(),
                ..FileReads::default()
            };
            observer.files.push(ObservedFile {
                number,
                size,
                reads,
                written: ByteRanges::default(),
            });
        }
        Ok(observer)
    }

    /// Lets first reads be written with their stacks.
    pub(crate) fn write_loads(&mut self, writer: LoadWriter) {
        self.loads = Some(writer);
    }

    /// Ends the writing of first reads, if it was asked for. Returns whether it was.
    pub(crate) fn finish_loads(&mut self) -> io::Result<bool> {
        match self.loads.take() {
            Some(writer) => writer.finish().map(|()| true),
            None => Ok(false),
        }
    }

    /// What was read until now.
    pub(crate) fn finish(self) -> io::Result<ReadsMessage> {
        let is_replaced = self.actions.is_some() && self.are_files_replaced()?;
        let actions = self.actions.map(|recorder| {
            let mut sizes = vec![None; self.persistent_files.len()];
            let mut other_reads = vec![ByteRanges::exact(); self.persistent_files.len()];
            for file in &self.files {
                sizes[file.number] = Some(file.size);
                let wanted = self.first_reads.wanted().get(file.number);
                for range in file.reads.ranges.ranges() {
                    let others = match wanted {
                        Some(wanted) => wanted.missing(range),
                        None => vec![range],
                    };
                    for range in others {
                        other_reads[file.number].insert(range);
                    }
                }
            }
            let mut actions = recorder.finish(sizes)?;
            actions.other_reads = other_reads;
            Ok::<_, WriteError>(actions)
        });
        let blind = "recovery uses io_uring or io_submit, whose reads are not observed";
        let reads = RecoveryReads {
            left_processes: self.outliving.exist(),
            files: self.files.into_iter().map(|file| file.reads).collect(),
            gaps: [(self.is_blind, blind), (is_replaced, REPLACED)]
                .into_iter()
                .filter(|(applies, _)| *applies)
                .map(|(_, gap)| gap.to_owned())
                .collect(),
        };
        Ok(ReadsMessage {
            reads,
            first_reads: self.first_reads.finish(),
            actions: actions.transpose().map_err(io::Error::other)?,
            other_inputs: Vec::new(),
        })
    }

    /// Whether other files are where the persistent files were.
    fn are_files_replaced(&self) -> io::Result<bool> {
        for (number, path) in self.persistent_files.iter().enumerate() {
            let known = self.files.iter().position(|file| file.number == number);
            let now = file_at(path)?.map(|(identity, _)| self.by_identity.get(&identity));
            if now != known.as_ref().map(Some) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of a persistent file that a process uses, among those that exist; `None` if it is another file.
    fn used_by(&mut self, process: ProcessId, identity: FileIdentity) -> Option<usize> {
        let &index = self.by_identity.get(&identity)?;
        self.outliving.uses(process);
        Some(index)
    }

    fn read(&mut self, process: ProcessId, identity: FileIdentity, offset: u64, len: u64) {
        if let Some(index) = self.used_by(process, identity) {
            let file = &mut self.files[index];
            let range = offset..offset.saturating_add(len);
            file.reads.opened = true;
            for part in file.written.missing(range.clone()) {
                file.reads.ranges.insert(part);
            }
            let new = self.first_reads.read(file.number, range);
            if let Some(actions) = &mut self.actions {
                actions.first_reads(new.len());
            }
            if self.loads.is_some() {
                self.new_reads.extend_from_slice(new);
            }
        }
    }

    fn write(&mut self, process: ProcessId, identity: FileIdentity, offset: u64, len: u64) {
        if let Some(index) = self.used_by(process, identity) {
            let file = &mut self.files[index];
            let range = offset..offset.saturating_add(len);
            for part in file.reads.ranges.missing(range.clone()) {
                file.reads.overwritten.insert_if_room(part);
            }
            file.written.insert_if_room(range.clone());
            self.first_reads.write(file.number, range);
        }
    }

    /// Calls `access` with each part of a range of memory that is mapped from a file.
    fn in_memory(
        &mut self,
        process: ProcessId,
        Address(start): Address,
        len: u64,
        access: fn(&mut Self, ProcessId, FileIdentity, u64, u64),
    ) {
        let end = start.saturating_add(len);
        let mut at = start;
        while at < end {
            let definitions = self.live.definitions();
            let known = definitions.process(process);
            let range = known.and_then(|process| {
                let space = process.address_space();
                space.resolve(Address(at), end - at)
            });
            let Some(range) = range.filter(|range| range.len > 0) else {
                return;
            };
            let identity = definitions.file(range.file).map(|file| file.identity);
            if let Some(identity) = identity {
                access(self, process, identity, range.offset, range.len);
            }
            at += range.len;
        }
    }

    fn identity(&self, file: FileId) -> Option<FileIdentity> {
        let file = self.live.definitions().file(file);
        file.map(|file| file.identity)
    }

    /// Whether a byte of a range of memory is in a persistent file.
    fn reaches(&self, process: ProcessId, Address(start): Address, len: u64) -> Reach {
        let definitions = self.live.definitions();
        let space = definitions
            .process(process)
            .map(|known| known.address_space());
        let end = start.saturating_add(len.max(1));
        let mut at = start;
        while let Some(range) = space
            .filter(|_| at < end)
            .and_then(|space| space.resolve(Address(at), end - at))
            .filter(|range| range.len > 0)
        {
            let identity = definitions.file(range.file).map(|file| file.identity);
            if identity.is_some_and(|identity| self.by_identity.contains_key(&identity)) {
                return Reach::Persistent;
            }
            at += range.len;
        }
        Reach::Elsewhere
    }

    /// Records what an event does.
    fn record(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        let reach = match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.reaches(event.process, addr, bytes.len() as u64)
            }
            EventKind::Flush { addr, .. } => self.reaches(event.process, addr, 1),
            EventKind::Sync(Sync::Msync { addr, len, .. }) => {
                self.reaches(event.process, addr, len)
            }
            EventKind::FileWrite { file, .. } | EventKind::FileResize { file, .. } => {
                match self.identity(file) {
                    Some(identity) if self.by_identity.contains_key(&identity) => Reach::Persistent,
                    _ => Reach::Elsewhere,
                }
            }
            _ => Reach::Persistent,
        };
        match &mut self.actions {
            Some(actions) => actions.event(event, reach),
            None => Ok(()),
        }
    }
}

/// The file at a path, and its size; `None` if there is none.
fn file_at(path: &Path) -> io::Result<Option<(FileIdentity, u64)>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    let identity = FileIdentity {
        dev: metadata.dev(),
        ino: metadata.ino(),
    };
    Ok(Some((identity, metadata.len())))
}

impl EventDestination for ReadObserver {
    fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        self.live.function(name)
    }

    fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.live.known_file(identity)
    }

    fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        let id = self.live.file(identity, path)?;
        if let Some(actions) = &mut self.actions {
            let known = self.by_identity.get(&identity).map(|&at| &self.files[at]);
            let original = known.map_or(path, |file| &file.reads.path);
            actions.file(identity, original, known.map(|file| file.number))?;
        }
        Ok(id)
    }

    fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        if let Some(actions) = &mut self.actions {
            actions.context(process, context, parent, return_address)?;
        }
        self.live.context(process, context, parent, return_address)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        self.live.event(event)?;
        self.outliving.event(event);
        if let Some(loads) = &mut self.loads {
            loads.observe(event, self.live.definitions());
        }
        if self.actions.is_some() {
            self.record(event)?;
        }
        match event.kind {
            EventKind::Load { addr, bytes } => {
                self.in_memory(event.process, addr, bytes.len() as u64, Self::read);
            }
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.in_memory(event.process, addr, bytes.len() as u64, Self::write);
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                if let Some(identity) = self.identity(file) {
                    self.write(event.process, identity, offset, bytes.len() as u64);
                }
            }
            EventKind::FileResize { file, len } => {
                if let Some(identity) = self.identity(file) {
                    self.write(event.process, identity, len, u64::MAX - len);
                }
            }
            EventKind::Map(mapping) => {
                if let Some(identity) = self.identity(mapping.file) {
                    self.read(event.process, identity, mapping.offset, 0);
                }
            }
            _ => {}
        }
        if let Some(loads) = &mut self.loads {
            loads.read(&self.new_reads, event, self.live.definitions());
            self.new_reads.clear();
        }
        Ok(())
    }

    fn file_use(&mut self, process: ProcessId, file_use: FileUse) {
        let is_modified = matches!(file_use, FileUse::Modified { .. });
        match file_use {
            FileUse::Opened(file) => self.read(process, file, 0, 0),
            FileUse::Read { file, offset, len } => self.read(process, file, offset, len),
            FileUse::Modified { addr, len } => {
                self.in_memory(process, addr, len, Self::read);
            }
            _ => self.is_blind = true,
        }
        if let Some(loads) = &mut self.loads {
            let reads = std::mem::take(&mut self.new_reads);
            match is_modified {
                true => loads.read_and_modified(reads),
                false => loads.read_otherwise(&reads),
            }
        }
    }

    fn events(&self) -> u64 {
        self.live.events()
    }
}
