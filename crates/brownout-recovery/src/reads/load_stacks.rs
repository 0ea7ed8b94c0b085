//! Where a recovery first reads bytes: each first read with the calls that led to it.
//!
//! Reads are written while recovery runs, so that those of a recovery that is killed at its time limit are known, too.
//!
//! Can miss: the calls that led to a read by a system call, or of a private mapping, which is read as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use serde::{Deserialize, Serialize};

use super::FirstRead;
use crate::RawFrame;

/// A first read of recovery, and the calls that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryLoad {
    pub read: FirstRead,
    /// Innermost first; empty if it is not a load.
    pub stack: Vec<RawFrame>,
}

/// What is written, one after the other.
#[derive(Serialize, Deserialize)]
enum LoadRecord {
    /// The next stack; they are numbered from 0.
    Stack(Vec<RawFrame>),
    Read {
        read: FirstRead,
        stack: Option<u32>,
    },
}

/// The loads in what a [`LoadWriter`] has written. An incomplete end is ignored.
pub(crate) fn read_loads(mut written: &[u8]) -> Vec<RecoveryLoad> {
    let (mut stacks, mut loads) = (Vec::new(), Vec::new());
    while let Ok((record, rest)) = postcard::take_from_bytes(written) {
        written = rest;
        match record {
            LoadRecord::Stack(frames) => stacks.push(frames),
            LoadRecord::Read { read, stack } => {
                let known = stack.and_then(|number| stacks.get(number as usize));
                loads.push(RecoveryLoad {
                    read,
                    stack: known.cloned().unwrap_or_default(),
                });
            }
        }
    }
    loads
}

/// Writes first reads to a file, behind what it holds.
pub(crate) struct LoadWriter {
    output: File,
    end: u64,
    /// The directory that relative paths of modules refer to.
    directory: PathBuf,
    stacks: HashMap<Vec<RawFrame>, u32>,
    /// The stacks of instructions, as long as their processes have the same modules.
    by_site: HashMap<(ProcessId, AppPc, ContextId), u32>,
    /// Reads of an instruction that also stores, until the event of the store.
    modified: Vec<FirstRead>,
    error: Option<io::Error>,
}

impl LoadWriter {
    pub(crate) fn new(output: File) -> io::Result<Self> {
        Ok(Self {
            end: output.metadata()?.len(),
            output,
            directory: std::env::current_dir()?,
            stacks: HashMap::new(),
            by_site: HashMap::new(),
            modified: Vec::new(),
            error: None,
        })
    }

    /// Must see each event, before the reads of the event are [written](Self::read).
    pub(crate) fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        if let EventKind::Module { .. } | EventKind::ProcessStart { .. } = event.kind {
            let process = event.process;
            self.by_site.retain(|(known, ..), _| *known != process);
        }
        if !self.modified.is_empty() {
            let reads = std::mem::take(&mut self.modified);
            self.read(&reads, event, definitions);
        }
    }

    /// Writes what an event has read for the first time.
    pub(crate) fn read(
        &mut self,
        reads: &[FirstRead],
        event: &Event<'_>,
        definitions: &Definitions,
    ) {
        if reads.is_empty() {
            return;
        }
        let stack = (event.pc.0 != 0).then(|| self.stack_of(event, definitions));
        for &read in reads {
            self.write(&LoadRecord::Read { read, stack });
        }
    }

    /// Writes what was read otherwise than by a load.
    pub(crate) fn read_otherwise(&mut self, reads: &[FirstRead]) {
        for &read in reads {
            self.write(&LoadRecord::Read { read, stack: None });
        }
    }

    /// Keeps what an instruction has read until the event of its store, which follows.
    pub(crate) fn read_and_modified(&mut self, reads: Vec<FirstRead>) {
        self.modified = reads;
    }

    /// Fails if something could not be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn stack_of(&mut self, event: &Event<'_>, definitions: &Definitions) -> u32 {
        let site = (event.process, event.pc, event.context);
        if let Some(&known) = self.by_site.get(&site) {
            return known;
        }
        let mut frames = vec![self.frame(event, event.pc, false, definitions)];
        for caller in definitions.context_frames(event.process, event.context) {
            frames.push(self.frame(event, caller, true, definitions));
        }
        let next = self.stacks.len() as u32;
        let number = *self.stacks.entry(frames.clone()).or_insert(next);
        if number == next {
            self.write(&LoadRecord::Stack(frames));
        }
        self.by_site.insert(site, number);
        number
    }

    fn frame(
        &self,
        event: &Event<'_>,
        pc: AppPc,
        is_return: bool,
        definitions: &Definitions,
    ) -> RawFrame {
        let module = definitions.module_at(event.process, pc);
        let in_file = module.filter(|module| is_file(&module.path));
        match in_file {
            Some(module) => RawFrame {
                module: Some(self.directory.join(&module.path).components().collect()),
                build_id: module.build_id.to_vec(),
                offset: module.file_offset.saturating_add(pc.0 - module.addr.0),
                is_return,
            },
            None => RawFrame {
                module: None,
                build_id: Vec::new(),
                offset: pc.0,
                is_return,
            },
        }
    }

    fn write(&mut self, record: &LoadRecord) {
        if self.error.is_some() {
            return;
        }
        let bytes = postcard::to_stdvec(record).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| {
            self.output.write_all_at(&bytes, self.end)?;
            self.end += bytes.len() as u64;
            Ok(())
        });
        self.error = written.err();
    }
}

/// Code that is not in a file has a name in brackets.
fn is_file(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().starts_with(b"[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_known_up_to_where_recovery_was_killed() {
        let frame = RawFrame {
            module: Some("/bin/list".into()),
            build_id: vec![7],
            offset: 0x40,
            is_return: false,
        };
        let read = |offset| FirstRead {
            file: 0,
            offset,
            len: 8,
        };
        let records = [
            LoadRecord::Stack(vec![frame.clone()]),
            LoadRecord::Read {
                read: read(64),
                stack: Some(0),
            },
            LoadRecord::Read {
                read: read(128),
                stack: None,
            },
        ];
        let mut written = Vec::new();
        for record in &records {
            written.extend(postcard::to_stdvec(record).unwrap());
        }
        let loads = [
            RecoveryLoad {
                read: read(64),
                stack: vec![frame],
            },
            RecoveryLoad {
                read: read(128),
                stack: Vec::new(),
            },
        ];
        assert_eq!(read_loads(&written), loads);
        assert_eq!(read_loads(&written[..written.len() - 1]), loads[..1]);
    }
}
