//! Learns from the events of a recovery what it reads.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use brownout_engine::{EventDestination, FileUse, LiveEvents};
use brownout_trace::{
    Address, AppPc, ContextId, Definitions, Event, EventKind, FileId, FileIdentity, FunctionId,
    ProcessId, WriteError,
};

use super::{ByteRanges, FileReads, RecoveryReads};

/// Follows a recovery and notes what it reads.
pub(crate) struct ReadObserver {
    live: LiveEvents<fn(&Event<'_>, &Definitions)>,
    /// The index in `files` of each PM file.
    by_identity: HashMap<FileIdentity, usize>,
    files: Vec<ObservedFile>,
    is_blind: bool,
}

struct ObservedFile {
    reads: FileReads,
    /// What recovery has written: these bytes are its own.
    written: ByteRanges,
}

impl ReadObserver {
    /// For the PM files at the first path of each pair, as far as they exist; the second is their original path.
    pub(crate) fn new(pm_files: &[[PathBuf; 2]]) -> io::Result<Self> {
        let mut observer = Self {
            live: LiveEvents::discard(),
            by_identity: HashMap::new(),
            files: Vec::new(),
            is_blind: false,
        };
        for [here, original] in pm_files {
            let metadata = match fs::metadata(here) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let identity = FileIdentity {
                dev: metadata.dev(),
                ino: metadata.ino(),
            };
            observer.by_identity.insert(identity, observer.files.len());
            let reads = FileReads {
                path: original.clone(),
                ..FileReads::default()
            };
            let written = ByteRanges::default();
            observer.files.push(ObservedFile { reads, written });
        }
        Ok(observer)
    }

    /// What was read until now.
    pub(crate) fn finish(self) -> RecoveryReads {
        let blind = "recovery uses io_uring or io_submit, whose reads are not observed";
        RecoveryReads {
            files: self.files.into_iter().map(|file| file.reads).collect(),
            gaps: self
                .is_blind
                .then(|| blind.to_owned())
                .into_iter()
                .collect(),
        }
    }

    fn file_mut(&mut self, identity: FileIdentity) -> Option<&mut ObservedFile> {
        let &index = self.by_identity.get(&identity)?;
        Some(&mut self.files[index])
    }

    fn read(&mut self, identity: FileIdentity, offset: u64, len: u64) {
        if let Some(file) = self.file_mut(identity) {
            file.reads.opened = true;
            for part in file.written.missing(offset..offset.saturating_add(len)) {
                file.reads.ranges.insert(part);
            }
        }
    }

    fn write(&mut self, identity: FileIdentity, offset: u64, len: u64) {
        if let Some(file) = self.file_mut(identity) {
            file.written
                .insert_if_room(offset..offset.saturating_add(len));
        }
    }

    /// Calls `access` with each part of a range of memory that is mapped from a file.
    fn in_memory(
        &mut self,
        process: ProcessId,
        Address(start): Address,
        len: u64,
        access: fn(&mut Self, FileIdentity, u64, u64),
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
                access(self, identity, range.offset, range.len);
            }
            at += range.len;
        }
    }

    fn identity(&self, file: FileId) -> Option<FileIdentity> {
        let file = self.live.definitions().file(file);
        file.map(|file| file.identity)
    }
}

impl EventDestination for ReadObserver {
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
                    self.write(identity, offset, bytes.len() as u64);
                }
            }
            EventKind::Map(mapping) => {
                if let Some(identity) = self.identity(mapping.file) {
                    self.read(identity, mapping.offset, 0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn file_use(&mut self, file_use: FileUse) {
        match file_use {
            FileUse::Opened(file) => self.read(file, 0, 0),
            FileUse::Read { file, offset, len } => self.read(file, offset, len),
            FileUse::Modified { process, addr, len } => {
                self.in_memory(process, addr, len, Self::read);
            }
            _ => self.is_blind = true,
        }
    }

    fn events(&self) -> u64 {
        self.live.events()
    }
}
