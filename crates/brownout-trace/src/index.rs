//! The index of a trace: the offsets of its chunks, so that a reader can seek to an event without reading everything
//! before it.

use crate::error::Flaw;
use crate::fields::{FieldReader, FieldWriter};
use crate::ids::EventIndex;
use crate::section_header::SectionHeader;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    /// Offset of the chunk's section in the file.
    pub(crate) offset: u64,
    pub(crate) first_event: u64,
    pub(crate) defines: bool,
}

/// The chunks of a trace in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) chunks: Vec<ChunkEntry>,
    /// Events in all chunks.
    pub(crate) events: u64,
    /// Offset of the summary section, if there is one.
    pub(crate) summary: Option<u64>,
}

impl Index {
    pub(crate) fn push(&mut self, offset: u64, section: &SectionHeader) {
        let SectionHeader {
            first_event,
            defines,
            ..
        } = *section;
        self.chunks.push(ChunkEntry {
            offset,
            first_event,
            defines,
        });
        self.events = first_event + u64::from(section.events);
    }

    /// The index in `chunks` of the chunk that contains `event`.
    pub(crate) fn chunk_of(&self, event: EventIndex) -> Option<usize> {
        self.chunks
            .partition_point(|chunk| chunk.first_event <= event.0)
            .checked_sub(1)
    }

    /// Whether all sections that it lists start before `offset`.
    pub(crate) fn is_before(&self, offset: u64) -> bool {
        // Chunks are in the order of their offsets.
        let last = self.chunks.last().map(|chunk| chunk.offset);
        let mut listed = last.into_iter().chain(self.summary);
        listed.all(|listed| listed < offset)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put(self.summary.map_or(0, |offset| offset));
        out.put(self.events);
        out.put(self.chunks.len() as u64);
        let (mut offset, mut event) = (0, 0);
        for chunk in &self.chunks {
            out.put(chunk.offset - offset);
            out.put((chunk.first_event - event) << 1 | u64::from(chunk.defines));
            (offset, event) = (chunk.offset, chunk.first_event);
        }
        out
    }

    pub(crate) fn decode(padded: &[u8]) -> Result<Self, Flaw> {
        let mut fields = FieldReader::new(padded, 0);
        let summary = fields.take()?;
        let events = fields.take()?;
        let count = fields.take()?;
        let mut chunks = Vec::new();
        let (mut offset, mut first_event) = (0u64, 0u64);
        for _ in 0..count {
            offset = offset.checked_add(fields.take()?).ok_or(Flaw::BadField)?;
            let word = fields.take()?;
            first_event = first_event.checked_add(word >> 1).ok_or(Flaw::BadField)?;
            chunks.push(ChunkEntry {
                offset,
                first_event,
                defines: word & 1 != 0,
            });
        }
        fields.finish()?;
        Ok(Index {
            chunks,
            events,
            summary: (summary != 0).then_some(summary),
        })
    }
}
