//! Sections as they are found in a file: the preamble, each section with its checksum, and the index at
//! the end, or one made anew by following the sections.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Damage, Flaw, ReadError};
use crate::frame::{
    END_MAGIC, FORMAT_VERSION, FrameHeader, MAGIC, OLDEST_VERSION, PREAMBLE_LEN, TRAILER_LEN, Tag,
};
use crate::ids::EventIndex;
use crate::index::Index;
use crate::summary::Summary;
use crate::varint;

/// What is found where a section should start.
pub(crate) enum Section {
    /// Its content is in the buffer, with padding.
    Whole(FrameHeader),
    /// The file ends here.
    End,
    Flawed(Flaw),
}

/// Length in the file of the section whose padded content is `stored`.
pub(crate) fn section_len(stored: &[u8]) -> u64 {
    (FrameHeader::LEN + stored.len() - varint::PADDING) as u64
}

pub(crate) fn damage(byte: u64, event: EventIndex, flaw: Flaw) -> ReadError {
    ReadError::Damaged(Damage { byte, event, flaw })
}

/// Reads the preamble and returns the version of the format.
pub(crate) fn read_preamble(source: &mut impl Read) -> Result<u32, ReadError> {
    let mut preamble = Vec::new();
    source
        .take(PREAMBLE_LEN as u64)
        .read_to_end(&mut preamble)?;
    let Some(preamble) = preamble.first_chunk::<PREAMBLE_LEN>() else {
        let known = preamble.len().min(MAGIC.len());
        if preamble.is_empty() || preamble[..known] != MAGIC[..known] {
            return Err(ReadError::NotATrace);
        }
        return Err(damage(0, EventIndex(0), Flaw::Truncated));
    };
    if preamble[..8] != MAGIC {
        return Err(ReadError::NotATrace);
    }
    let found = u32::from_le_bytes([preamble[8], preamble[9], preamble[10], preamble[11]]);
    if found < OLDEST_VERSION {
        return Err(ReadError::VersionTooOld { found });
    }
    if found > FORMAT_VERSION {
        return Err(ReadError::VersionTooNew { found });
    }
    Ok(found)
}

/// Reads `len` bytes, or fewer at the end. Memory grows with what is there, not with `len`.
fn read_up_to(source: &mut impl Read, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
    source.take(len).read_to_end(out)?;
    Ok(())
}

pub(crate) fn read_section<R: Read + Seek>(
    source: &mut R,
    offset: u64,
    stored: &mut Vec<u8>,
) -> io::Result<Section> {
    stored.clear();
    source.seek(SeekFrom::Start(offset))?;
    read_up_to(source, FrameHeader::LEN as u64, stored)?;
    if stored.is_empty() {
        return Ok(Section::End);
    }
    let Some(&head) = stored.first_chunk::<{ FrameHeader::LEN }>() else {
        return Ok(Section::Flawed(Flaw::Truncated));
    };
    let frame = match FrameHeader::decode(&head) {
        Ok(frame) => frame,
        Err(flaw) => return Ok(Section::Flawed(flaw)),
    };
    stored.clear();
    read_up_to(source, u64::from(frame.stored_len), stored)?;
    if stored.len() < frame.stored_len as usize {
        return Ok(Section::Flawed(Flaw::Truncated));
    }
    if let Err(flaw) = FrameHeader::verify(&head, stored) {
        return Ok(Section::Flawed(flaw));
    }
    stored.resize(stored.len() + varint::PADDING, 0);
    Ok(Section::Whole(frame))
}

/// The index at the end of a finished trace; `None` when it is missing or cannot be trusted.
pub(crate) fn read_index<R: Read + Seek>(
    source: &mut R,
    source_len: u64,
    stored: &mut Vec<u8>,
) -> io::Result<Option<Index>> {
    let Some(offset) = source_len.checked_sub(TRAILER_LEN as u64) else {
        return Ok(None);
    };
    stored.clear();
    source.seek(SeekFrom::Start(offset))?;
    read_up_to(source, TRAILER_LEN as u64, stored)?;
    let Some((offset, magic)) = stored.split_first_chunk::<8>() else {
        return Ok(None);
    };
    if magic != END_MAGIC {
        return Ok(None);
    }
    let offset = u64::from_le_bytes(*offset);
    if offset >= source_len {
        return Ok(None);
    }
    match read_section(source, offset, stored)? {
        Section::Whole(frame) if frame.tag == Tag::Index => Ok(Index::decode(stored).ok()),
        _ => Ok(None),
    }
}

/// Follows the sections from the first chunk on by their headers alone.
pub(crate) fn rebuild_index<R: Read + Seek>(source: &mut R, first_chunk: u64) -> io::Result<Index> {
    let mut index = Index::default();
    let mut offset = first_chunk;
    let mut head = Vec::new();
    loop {
        head.clear();
        source.seek(SeekFrom::Start(offset))?;
        read_up_to(source, FrameHeader::LEN as u64, &mut head)?;
        let Some(head) = head.first_chunk::<{ FrameHeader::LEN }>() else {
            return Ok(index);
        };
        let Ok(frame) = FrameHeader::decode(head) else {
            return Ok(index);
        };
        let end = offset + (FrameHeader::LEN + frame.stored_len as usize) as u64;
        match frame.tag {
            Tag::Chunk if frame.first_event == index.events => index.push(offset, &frame),
            Tag::Summary => {
                index.summary = Some(offset);
                return Ok(index);
            }
            _ => return Ok(index),
        }
        offset = end;
    }
}

pub(crate) fn read_summary<R: Read + Seek>(
    source: &mut R,
    index: &Index,
    stored: &mut Vec<u8>,
) -> io::Result<Option<Summary>> {
    let Some(offset) = index.summary else {
        return Ok(None);
    };
    match read_section(source, offset, stored)? {
        Section::Whole(frame) if frame.tag == Tag::Summary => Ok(Summary::decode(stored).ok()),
        _ => Ok(None),
    }
}
