//! The files that are mapped in each process according to its records, and their content.

use crate::final_content::MappedRanges;
use brownout_trace::replay::FinalContent;
use brownout_trace::{
    Address, AddressSpace, Event, EventKind, FileId, FileIdentity, ProcessId, ProcessOrigin,
};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The mapped files of all processes.
#[derive(Default)]
pub(crate) struct MappedFiles {
    spaces: HashMap<ProcessId, AddressSpace>,
    files: HashMap<FileId, (FileIdentity, PathBuf)>,
    /// The parts of each file that were ever mapped.
    ranges: BTreeMap<FileId, MappedRanges>,
}

/// Why the bytes at an address cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("no file is mapped there")]
    Unmapped,
    #[error("{} is no longer the file that was mapped", path.display())]
    Replaced { path: PathBuf },
    #[error("{} cannot be read: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl MappedFiles {
    /// Remembers the identity and path of a file.
    pub(crate) fn name(&mut self, file: FileId, identity: FileIdentity, path: &Path) {
        self.files.insert(file, (identity, path.to_owned()));
    }

    /// Applies an event to the mappings of its process.
    pub(crate) fn follow(&mut self, event: &Event<'_>) {
        if let EventKind::ProcessStart { parent, origin, .. } = event.kind {
            // A forked process inherits the mappings of its parent; a new program starts with none.
            let inherited = parent.filter(|_| origin == ProcessOrigin::Fork);
            let inherited = inherited.and_then(|parent| self.spaces.get(&parent).cloned());
            self.spaces
                .insert(event.process, inherited.unwrap_or_default());
            return;
        }
        let space = self.spaces.entry(event.process).or_default();
        match event.kind {
            EventKind::Map(mapping) => {
                space.map(mapping);
                let end = mapping.offset.saturating_add(mapping.len);
                let ranges = self.ranges.entry(mapping.file).or_default();
                ranges.add(mapping.offset..end);
            }
            EventKind::Unmap { addr, len } => space.unmap(addr, len),
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => space.remap(old, old_len, new, new_len),
            EventKind::ProcessExit { .. } => {
                self.spaces.remove(&event.process);
            }
            _ => {}
        }
    }

    /// What the files that are still there hold now.
    pub(crate) fn contents(&self) -> impl Iterator<Item = FinalContent> {
        self.ranges.iter().filter_map(|(file, ranges)| {
            let (identity, path) = self.files.get(file)?;
            ranges.content(&open(path).ok()?, *identity).ok()?
        })
    }

    /// Reads `len` bytes at an address of a process from the mapped file. Returns fewer bytes if the mapping or the file ends
    /// before.
    pub(crate) fn read(
        &self,
        process: ProcessId,
        addr: Address,
        len: u64,
    ) -> Result<Vec<u8>, Unreadable> {
        let space = self.spaces.get(&process).ok_or(Unreadable::Unmapped)?;
        let range = space.resolve(addr, len).ok_or(Unreadable::Unmapped)?;
        let (identity, path) = self.files.get(&range.file).ok_or(Unreadable::Unmapped)?;
        let unreadable = |source| Unreadable::File {
            path: path.clone(),
            source,
        };
        let file = open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let found = FileIdentity {
            dev: metadata.dev(),
            ino: metadata.ino(),
        };
        if found != *identity {
            return Err(Unreadable::Replaced { path: path.clone() });
        }
        let mut bytes = vec![0; range.len as usize];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], range.offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }
}

/// Opens a file for reading. Does not block if the path now names something else, such as a FIFO.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_trace::{AppPc, Arguments, ContextId, EventIndex, Mapping, ThreadId};
    use std::io::Write;

    fn event(process: u32, kind: EventKind<'_>) -> Event<'_> {
        Event {
            index: EventIndex::default(),
            process: ProcessId(process),
            thread: ThreadId(1),
            pc: AppPc(0),
            context: ContextId::ROOT,
            kind,
        }
    }

    fn mapping() -> EventKind<'static> {
        EventKind::Map(Mapping {
            addr: Address(0x1_0000),
            len: 0x1000,
            file: FileId(0),
            offset: 4,
            file_len: 16,
            prot: 3,
            flags: 1,
            dax: false,
            snapshot: true,
        })
    }

    fn started(process: u32, parent: u32, origin: ProcessOrigin) -> Event<'static> {
        event(
            process,
            EventKind::ProcessStart {
                pid: 10 + process,
                parent_pid: 10 + parent,
                parent: Some(ProcessId(parent)),
                origin,
                exe: Path::new("/bin/program"),
                args: Arguments::from_bytes(b""),
            },
        )
    }

    /// Process 0 has a file of sixteen bytes mapped, starting at offset 4.
    fn mapped(path: &Path) -> MappedFiles {
        let metadata = std::fs::metadata(path).unwrap();
        let identity = FileIdentity {
            dev: metadata.dev(),
            ino: metadata.ino(),
        };
        let mut files = MappedFiles::default();
        files.name(FileId(0), identity, path);
        files.follow(&event(0, mapping()));
        files
    }

    #[test]
    fn a_forked_process_inherits_mappings_and_an_executed_program_does_not() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789abcdef").unwrap();
        let mut files = mapped(file.path());
        files.follow(&started(1, 0, ProcessOrigin::Fork));
        files.follow(&started(2, 0, ProcessOrigin::Exec));
        let read = |process, at| files.read(ProcessId(process), Address(at), 4);
        assert_eq!(read(0, 0x1_0002).unwrap(), b"6789");
        assert_eq!(read(1, 0x1_0002).unwrap(), b"6789");
        assert_eq!(read(0, 0x1_000a).unwrap(), b"ef");
        assert!(matches!(read(0, 0x2_0000), Err(Unreadable::Unmapped)));
        assert!(matches!(read(2, 0x1_0002), Err(Unreadable::Unmapped)));
    }

    #[test]
    fn a_file_that_replaced_the_mapped_one_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        let files = mapped(&path);
        std::fs::write(dir.path().join("new"), "0123456789abcdef").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        let read = files.read(ProcessId(0), Address(0x1_0000), 4);
        assert!(matches!(read, Err(Unreadable::Replaced { .. })));
    }
}
