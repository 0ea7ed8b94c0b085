//! Writes a trace while its events happen.
//!
//! Each finished chunk is written to the file immediately. If the recorder is killed, all chunks but the last can be read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::chunk::{ChunkEncoder, MAX_EVENT};
use crate::closing::put_trailer;
use crate::definitions::FileIdentity;
use crate::error::WriteError;
use crate::event::Event;
use crate::header::Header;
use crate::ids::{AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId};
use crate::index::Index;
use crate::section_header::{MAX_SECTION, SectionHeader, Tag, preamble};
use crate::summary::{Ending, EventCounts, Summary};

/// Where a trace is written to.
pub trait TraceSink: Write {
    /// Truncates the output to `len` bytes. The next write appends there.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl TraceSink for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(SeekFrom::Start(len))?;
        Ok(())
    }
}

impl TraceSink for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
}

/// Writes a trace.
pub struct TraceWriter<S: TraceSink = File> {
    sink: S,
    /// Bytes of complete sections in the sink.
    written: u64,
    chunk: ChunkEncoder,
    index: Index,
    counts: EventCounts,
    files: HashMap<FileIdentity, (FileId, PathBuf)>,
    functions: HashMap<String, FunctionId>,
    /// A section could not be written.
    closed: bool,
    buffer: Vec<u8>,
}

impl TraceWriter<File> {
    /// Creates a trace at `path`. Replaces an existing file.
    pub fn create(path: impl AsRef<Path>, header: &Header) -> Result<Self, WriteError> {
        Self::new(File::create(path)?, header)
    }
}

impl<S: TraceSink> TraceWriter<S> {
    /// Starts a trace in an empty sink.
    pub fn new(sink: S, header: &Header) -> Result<Self, WriteError> {
        let mut writer = TraceWriter {
            sink,
            written: 0,
            chunk: ChunkEncoder::new()?,
            index: Index::default(),
            counts: EventCounts::default(),
            files: HashMap::new(),
            functions: HashMap::new(),
            closed: false,
            buffer: Vec::new(),
        };
        let header = header.encode();
        check_section(header.len())?;
        writer.buffer.extend_from_slice(&preamble());
        writer.append(&SectionHeader::plain(Tag::Header, header.len()), &header);
        writer.write_out()?;
        Ok(writer)
    }

    /// Appends an event and returns its index. The index in `event` is ignored.
    // Inlined, so that a caller that knows the kind of the event pays only for that kind.
    #[inline(always)]
    pub fn write(&mut self, event: &Event<'_>) -> Result<EventIndex, WriteError> {
        self.check_open()?;
        let index = EventIndex(self.events());
        self.chunk.event(event)?;
        if self.chunk.is_full() {
            self.flush_chunk()?;
        }
        Ok(index)
    }

    /// Number of events written so far, including those not yet in the file.
    pub fn events(&self) -> u64 {
        self.index.events + u64::from(self.chunk.events())
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Defines a file and returns its number. A file keeps its number when its path changes; the latest path is valid.
    pub fn file(&mut self, identity: FileIdentity, path: &Path) -> Result<FileId, WriteError> {
        if let Some((id, known)) = self.files.get(&identity)
            && known == path
        {
            return Ok(*id);
        }
        self.check_open()?;
        check_name(path.as_os_str().len())?;
        let next = FileId(self.files.len() as u32);
        let id = self.files.get(&identity).map_or(next, |(id, _)| *id);
        self.files.insert(identity, (id, path.to_owned()));
        self.chunk.define_file(id, identity, path);
        self.after_definition().map(|()| id)
    }

    /// The number of a file that [`file`](Self::file) has defined.
    pub fn known_file(&self, identity: FileIdentity) -> Option<FileId> {
        self.files.get(&identity).map(|(id, _)| *id)
    }

    /// Defines the watched function `name` and returns its number.
    pub fn function(&mut self, name: &str) -> Result<FunctionId, WriteError> {
        if let Some(&id) = self.functions.get(name) {
            return Ok(id);
        }
        self.check_open()?;
        check_name(name.len())?;
        let id = FunctionId(self.functions.len() as u32);
        self.functions.insert(name.to_owned(), id);
        self.chunk.define_function(id, name);
        self.after_definition().map(|()| id)
    }

    /// Defines a calling context of a process: it returns to `return_address` in the context `parent`.
    pub fn context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) -> Result<(), WriteError> {
        self.check_open()?;
        self.chunk
            .define_context(process, context, parent, return_address);
        self.after_definition()
    }

    /// Writes the current rows as a chunk, even if it is small, so that they survive the end of the recorder.
    pub fn flush_chunk(&mut self) -> Result<(), WriteError> {
        self.check_open()?;
        if self.chunk.is_empty() {
            return Ok(());
        }
        let events = self.chunk.events();
        let mut section = SectionHeader {
            first_event: self.index.events,
            events,
            rows: self.chunk.rows(),
            defines: self.chunk.defines(),
            ..SectionHeader::plain(Tag::Chunk, 0)
        };
        let counts = self.chunk.counts().clone();
        self.buffer.resize(SectionHeader::LEN, 0);
        if let Err(error) = self.chunk.finish(&mut self.buffer) {
            self.closed = true;
            return Err(error.into());
        }
        section.stored_len = (self.buffer.len() - SectionHeader::LEN) as u32;
        let (head, stored) = self.buffer.split_at_mut(SectionHeader::LEN);
        head.copy_from_slice(&section.encode(stored));
        let offset = self.written;
        self.write_out()?;
        self.index.push(offset, &section);
        self.counts.merge(&counts);
        Ok(())
    }

    /// Completes the trace. After an error such as a full disk, this still closes the part that was written, if there is
    /// room.
    pub fn finish(mut self, ending: Ending) -> Result<(Summary, S), WriteError> {
        let flushed = if self.closed {
            Ok(())
        } else {
            self.flush_chunk()
        };
        // The events of a chunk that could not be written are lost, but the trace is closed.
        self.chunk.clear();
        let summary = Summary {
            ending,
            counts: self.counts.clone(),
        };
        let bytes = summary.encode();
        check_section(bytes.len())?;
        self.index.summary = Some(self.written);
        self.append(&SectionHeader::plain(Tag::Summary, bytes.len()), &bytes);
        let index = self.index.encode();
        let mut offset = 0;
        // A reader that finds no index builds its own.
        if check_section(index.len()).is_ok() {
            offset = self.written + self.buffer.len() as u64;
            self.append(&SectionHeader::plain(Tag::Index, index.len()), &index);
        }
        put_trailer(&mut self.buffer, offset);
        self.write_out()?;
        flushed?;
        Ok((summary, self.sink))
    }

    fn check_open(&self) -> Result<(), WriteError> {
        if self.closed {
            Err(WriteError::Closed)
        } else {
            Ok(())
        }
    }

    fn after_definition(&mut self) -> Result<(), WriteError> {
        if self.chunk.is_full() {
            self.flush_chunk()
        } else {
            Ok(())
        }
    }

    /// Adds a section to the buffer.
    fn append(&mut self, section: &SectionHeader, stored: &[u8]) {
        self.buffer.extend_from_slice(&section.encode(stored));
        self.buffer.extend_from_slice(stored);
    }

    /// Writes the buffer to the sink: all of it, or, after an error, nothing.
    fn write_out(&mut self) -> Result<(), WriteError> {
        let result = self
            .sink
            .write_all(&self.buffer)
            .and_then(|()| self.sink.flush());
        let len = self.buffer.len() as u64;
        self.buffer.clear();
        let Err(source) = result else {
            self.written += len;
            return Ok(());
        };
        self.closed = true;
        // A partly written section would be reported as damage. If it cannot be truncated, as in a pipe, the reader still
        // stops before it.
        let _ = self.sink.cut(self.written);
        Err(match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => WriteError::StorageFull {
                events: self.index.events,
                source,
            },
            _ => WriteError::Io(source),
        })
    }
}

fn check_name(len: usize) -> Result<(), WriteError> {
    if len > MAX_EVENT {
        return Err(WriteError::EventTooLong {
            len,
            limit: MAX_EVENT,
        });
    }
    Ok(())
}

fn check_section(len: usize) -> Result<(), WriteError> {
    if len > MAX_SECTION {
        return Err(WriteError::EventTooLong {
            len,
            limit: MAX_SECTION,
        });
    }
    Ok(())
}
