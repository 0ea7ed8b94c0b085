//! Reads a trace as a stream of events, from the start or from any event.
//!
//! For a truncated or altered trace, the reader returns all events before the first damage, then one
//! [`Damage`] with its position.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use crate::chunk::{ChunkDecoder, Definition, RowKind};
use crate::closing::Closing;
use crate::definitions::Definitions;
use crate::error::{Damage, Flaw, ReadError};
use crate::event::Event;
use crate::header::Header;
use crate::ids::EventIndex;
use crate::index::Index;
use crate::section::{Section, damage, read_preamble, read_section, section_len};
use crate::section_header::{PREAMBLE_LEN, Tag};
use crate::summary::Summary;
use crate::varint;
use crate::visitor::{EveryEvent, Visitor};

/// Reads a trace.
pub struct TraceReader<R: Read + Seek = File> {
    source: R,
    source_len: u64,
    version: u32,
    header: Header,
    summary: Option<Summary>,
    index: Index,
    /// What is wrong with the file after its chunks. It is reported after the last event.
    damaged_end: Option<Damage>,
    first_chunk: u64,
    /// Offset of the section after the chunk that is being read.
    next_section: u64,
    /// Offset of the chunk that is being read.
    this_section: u64,
    chunk: ChunkDecoder,
    definitions: Definitions,
    /// There are no more chunks: the last one was read, or damage was reported.
    ended: bool,
    stored: Vec<u8>,
}

impl TraceReader<File> {
    /// Opens the trace at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        Self::new(File::open(path)?)
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads a trace from any source that can be positioned.
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let source_len = source.seek(SeekFrom::End(0))?;
        source.seek(SeekFrom::Start(0))?;
        let version = read_preamble(&mut source)?;
        let mut stored = Vec::new();
        let at_start = |byte, flaw| damage(byte, EventIndex(0), flaw);
        let offset = PREAMBLE_LEN as u64;
        let header = match read_section(&mut source, offset, &mut stored)? {
            Section::Whole(section) if section.tag == Tag::Header => {
                Header::decode(&stored, version).map_err(|flaw| at_start(offset, flaw))?
            }
            Section::Whole(_) => return Err(at_start(offset, Flaw::OutOfOrder)),
            Section::End => return Err(at_start(offset, Flaw::Truncated)),
            Section::Flawed(flaw) => return Err(at_start(offset, flaw)),
        };
        let first_chunk = offset + section_len(&stored);
        let extent = (first_chunk, source_len);
        let closing = Closing::read(&mut source, extent, version, &mut stored)?;
        Ok(TraceReader {
            source,
            source_len,
            version,
            header,
            summary: closing.summary,
            index: closing.index,
            damaged_end: closing.damage,
            first_chunk,
            next_section: first_chunk,
            this_section: first_chunk,
            chunk: ChunkDecoder::new()?,
            definitions: Definitions::default(),
            ended: false,
            stored,
        })
    }

    /// The version of the format that the trace is written in, at most [`FORMAT_VERSION`](crate::FORMAT_VERSION).
    ///
    /// Before version 3, no [`ThreadJoin`](crate::EventKind::ThreadJoin) was recorded and no thread has a parent.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The header of the trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What is wrong with the file after its last event: its end was cut off or altered. Known before any event is read.
    pub fn damaged_end(&self) -> Option<&Damage> {
        self.damaged_end.as_ref()
    }

    /// `None` when the recorder did not complete the trace.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The definitions of all events read so far.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The number of events in the trace. In a damaged trace, those that can be found by following the section headers.
    pub fn events(&self) -> u64 {
        self.index.events
    }

    /// The size of the trace in bytes.
    pub fn byte_len(&self) -> u64 {
        self.source_len
    }

    /// How many bytes of the trace have been read: a measure of progress.
    pub fn bytes_read(&self) -> u64 {
        self.next_section
    }

    /// The index of the event that [`next`](Self::next) returns.
    pub fn position(&self) -> EventIndex {
        self.chunk.next_event()
    }

    /// Returns the next event. After an error and after the last event, there is none.
    #[expect(
        clippy::should_implement_trait,
        reason = "an Iterator's items cannot borrow from it"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        Ok(self.next_defined()?.map(|(event, _)| event))
    }

    /// Returns the next event, and the definitions including those of this event.
    #[inline]
    pub fn next_defined(&mut self) -> Result<Option<(Event<'_>, &Definitions)>, ReadError> {
        if !self.find_event()? {
            return Ok(None);
        }
        let event = self.chunk.next_event();
        match self.chunk.event() {
            Ok(event) => {
                if event.defines() {
                    self.definitions.apply(&event);
                }
                Ok(Some((event, &self.definitions)))
            }
            Err(flaw) => {
                self.ended = true;
                Err(damage(self.this_section, event, flaw))
            }
        }
    }

    /// Passes all following events to `visit`, until it breaks.
    #[inline]
    pub fn for_each<B>(
        &mut self,
        visit: impl FnMut(&Event<'_>, &Definitions) -> ControlFlow<B>,
    ) -> Result<Option<B>, ReadError> {
        self.visit(&mut EveryEvent(visit))
    }

    /// Passes all following events to a visitor, until it breaks. This is the fastest way to read.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// use brownout_trace::*;
    /// # use std::io::Cursor;
    /// # fn trace(texts: &[&str]) -> Result<Cursor<Vec<u8>>, Box<dyn std::error::Error>> {
    /// #     let header = Header {
    /// #         brownout_version: "0.1.0".into(),
    /// #         command: vec!["./kvstore".into()],
    /// #         cwd: "/home/user".into(),
    /// #         pm: Vec::new(),
    /// #         loads: false,
    /// #         shared_loads: false,
    /// #         started: std::time::SystemTime::now(),
    /// #     };
    /// #     let mut writer = TraceWriter::new(Vec::new(), &header)?;
    /// #     for text in texts {
    /// #         writer.write(&Event {
    /// #             index: EventIndex(0),
    /// #             process: ProcessId(0),
    /// #             thread: ThreadId(100),
    /// #             pc: AppPc(0x401000),
    /// #             context: ContextId::ROOT,
    /// #             kind: EventKind::Store {
    /// #                 addr: Address(0x7f00_0000_0000),
    /// #                 bytes: text.as_bytes(),
    /// #                 flavor: StoreFlavor::Temporal,
    /// #                 locked: false,
    /// #                 string: false,
    /// #             },
    /// #         })?;
    /// #     }
    /// #     Ok(Cursor::new(writer.finish(Ending::default())?.1))
    /// # }
    /// #
    /// /// Adds up the bytes of stores, in most cases without building an event.
    /// #[derive(Default)]
    /// struct StoredBytes(usize);
    ///
    /// impl Visitor for StoredBytes {
    ///     type Break = ();
    ///
    ///     // A store is passed as an event if its instruction has not occurred before.
    ///     fn event(&mut self, event: &Event<'_>, _: &Definitions) -> ControlFlow<()> {
    ///         if let EventKind::Store { bytes, .. } = event.kind {
    ///             self.0 += bytes.len();
    ///         }
    ///         ControlFlow::Continue(())
    ///     }
    ///
    ///     fn store(&mut self, _: EventPosition, _: Address, bytes: &[u8], _: StoreFlavor) -> bool {
    ///         self.0 += bytes.len();
    ///         true
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let recorded = trace(&["key", "value"])?;
    /// let mut stored = StoredBytes::default();
    /// let mut reader = TraceReader::new(recorded)?;
    /// assert_eq!(reader.visit(&mut stored)?, None); // it did not break
    /// assert_eq!(stored.0, 8);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V) -> Result<Option<V::Break>, ReadError> {
        while !self.ended {
            match self.chunk.pass_run(visitor, &self.definitions) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(value)) => return Ok(Some(value)),
                Err(flaw) => {
                    self.ended = true;
                    return Err(damage(self.this_section, self.chunk.next_event(), flaw));
                }
            }
            // The next row, if there is one, is neither plain nor a call, or belongs to another thread.
            match self.next_defined()? {
                Some((event, definitions)) => {
                    if let ControlFlow::Break(value) = visitor.event(&event, definitions) {
                        return Ok(Some(value));
                    }
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// Seeks to `event`, so that it is returned next. The index after the last event means the end. The definitions are then
    /// those of all earlier events. Only chunks that change definitions are read on the way.
    pub fn seek(&mut self, event: EventIndex) -> Result<(), ReadError> {
        if event.0 > self.index.events {
            return Err(ReadError::NoSuchEvent {
                event,
                events: self.index.events,
            });
        }
        self.definitions = Definitions::default();
        self.ended = false;
        match self.index.chunk_of(event) {
            Some(target) => self.enter_chunk_of(event, target)?,
            None => self.restart()?,
        }
        if self.chunk.next_event() == event {
            Ok(())
        } else {
            // The index was wrong.
            self.ended = true;
            Err(damage(self.this_section, event, Flaw::OutOfOrder))
        }
    }

    fn enter_chunk_of(&mut self, event: EventIndex, target: usize) -> Result<(), ReadError> {
        for place in 0..target {
            if self.index.chunks[place].defines {
                self.enter_chunk(place)?;
                while self.chunk_has_event()? {
                    self.next_defined()?;
                }
            }
        }
        self.enter_chunk(target)?;
        while self.chunk.next_event() < event && self.chunk_has_event()? {
            self.next_defined()?;
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), ReadError> {
        self.next_section = self.first_chunk;
        self.this_section = self.first_chunk;
        self.chunk = ChunkDecoder::new()?;
        Ok(())
    }

    fn enter_chunk(&mut self, place: usize) -> Result<(), ReadError> {
        let entry = self.index.chunks[place];
        self.next_section = entry.offset;
        if self.load_chunk(entry.first_event)? {
            Ok(())
        } else {
            self.ended = true;
            Err(damage(
                entry.offset,
                EventIndex(entry.first_event),
                Flaw::OutOfOrder,
            ))
        }
    }

    /// Reads definitions, and loads chunks as needed, until the next row is an event. Returns false at the end.
    #[inline]
    fn find_event(&mut self) -> Result<bool, ReadError> {
        loop {
            if self.ended {
                return Ok(false);
            }
            if self.chunk_has_event()? {
                return Ok(true);
            }
            self.load_chunk(self.chunk.next_event().0)?;
        }
    }

    /// Reads definitions until the next row of this chunk is an event. Returns false at the end of the chunk.
    #[inline]
    fn chunk_has_event(&mut self) -> Result<bool, ReadError> {
        match self.chunk.peek() {
            Ok(RowKind::Event) => Ok(true),
            other => self.take_definitions(other),
        }
    }

    #[cold]
    fn take_definitions(&mut self, mut row: Result<RowKind, Flaw>) -> Result<bool, ReadError> {
        loop {
            let taken = match row {
                Ok(RowKind::Event) => return Ok(true),
                Ok(RowKind::End) => return Ok(false),
                Ok(RowKind::Definition) => self.chunk.definition(),
                Err(flaw) => Err(flaw),
            };
            match taken {
                Ok(Definition::Context {
                    process,
                    context,
                    parent,
                    return_address,
                }) => {
                    self.definitions
                        .define_context(process, context, parent, return_address);
                }
                Ok(Definition::File {
                    file,
                    identity,
                    path,
                }) => {
                    self.definitions.define_file(file, identity, path);
                }
                Ok(Definition::Function { function, name }) => {
                    self.definitions.define_function(function, name);
                }
                Err(flaw) => {
                    self.ended = true;
                    return Err(damage(self.this_section, self.chunk.next_event(), flaw));
                }
            }
            row = self.chunk.peek();
        }
    }

    /// Loads the chunk at `next_section`, which must start with event `first`. Returns false at the end, if there are no more
    /// chunks.
    #[cold]
    fn load_chunk(&mut self, first: u64) -> Result<bool, ReadError> {
        let offset = self.next_section;
        self.this_section = offset;
        let flaw = match read_section(&mut self.source, offset, &mut self.stored)? {
            Section::End => None,
            Section::Flawed(flaw) => Some(flaw),
            Section::Whole(section) => match section.tag {
                Tag::Chunk if section.first_event == first => {
                    self.next_section = offset + section_len(&self.stored);
                    let stored = &self.stored[..self.stored.len() - varint::PADDING];
                    match self.chunk.load(&section, stored) {
                        Ok(()) => return Ok(true),
                        Err(flaw) => Some(flaw),
                    }
                }
                Tag::Summary => None,
                Tag::Chunk | Tag::Header | Tag::Index => Some(Flaw::OutOfOrder),
            },
        };
        self.ended = true;
        match (flaw, &self.damaged_end) {
            (None, None) => Ok(false),
            (None, Some(damage)) => Err(damage.clone().into()),
            (Some(flaw), _) => Err(damage(offset, EventIndex(first), flaw)),
        }
    }
}
