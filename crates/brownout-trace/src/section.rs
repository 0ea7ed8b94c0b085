//! Reads the sections of a file: the preamble, each section with its checksum, and the index at the end. If the index is
//! missing, rebuilds it by following the sections.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Damage, Flaw, ReadError};
use crate::ids::EventIndex;
use crate::index::Index;
use crate::section_header::{
    END_MAGIC, FORMAT_VERSION, MAGIC, OLDEST_VERSION, PREAMBLE_LEN, SectionHeader, TRAILER_LEN, Tag,
};
use crate::summary::Summary;
use crate::varint;

/// What was read where a section should start.
pub(crate) enum Section {
    /// A complete section. Its content is in the buffer, with padding.
    Whole(SectionHeader),
    /// The file ends here.
    End,
    Flawed(Flaw),
}

/// The length in the file of the section with the padded content `stored`.
pub(crate) fn section_len(stored: &[u8]) -> u64 {
    (SectionHeader::LEN + stored.len() - varint::PADDING) as u64
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

/// Reads `len` bytes, or fewer at the end. Allocates memory for the bytes that exist, not for `len`.
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
    read_up_to(source, SectionHeader::LEN as u64, stored)?;
    if stored.is_empty() {
        return Ok(Section::End);
    }
    let Some(&head) = stored.first_chunk::<{ SectionHeader::LEN }>() else {
        return Ok(Section::Flawed(Flaw::Truncated));
    };
    let section = match SectionHeader::decode(&head) {
        Ok(section) => section,
        Err(flaw) => return Ok(Section::Flawed(flaw)),
    };
    stored.clear();
    read_up_to(source, u64::from(section.stored_len), stored)?;
    if stored.len() < section.stored_len as usize {
        return Ok(Section::Flawed(Flaw::Truncated));
    }
    if let Err(flaw) = SectionHeader::verify(&head, stored) {
        return Ok(Section::Flawed(flaw));
    }
    stored.resize(stored.len() + varint::PADDING, 0);
    Ok(Section::Whole(section))
}

/// The index at the end of a finished trace; `None` if it is missing or invalid.
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
        Section::Whole(section) if section.tag == Tag::Index => Ok(Index::decode(stored).ok()),
        _ => Ok(None),
    }
}

/// Rebuilds the index by reading the section headers from the first chunk on.
pub(crate) fn rebuild_index<R: Read + Seek>(source: &mut R, first_chunk: u64) -> io::Result<Index> {
    let mut index = Index::default();
    let mut offset = first_chunk;
    let mut head = Vec::new();
    loop {
        head.clear();
        source.seek(SeekFrom::Start(offset))?;
        read_up_to(source, SectionHeader::LEN as u64, &mut head)?;
        let Some(head) = head.first_chunk::<{ SectionHeader::LEN }>() else {
            return Ok(index);
        };
        let Ok(section) = SectionHeader::decode(head) else {
            return Ok(index);
        };
        let end = offset + (SectionHeader::LEN + section.stored_len as usize) as u64;
        match section.tag {
            Tag::Chunk if section.first_event == index.events => index.push(offset, &section),
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
        Section::Whole(section) if section.tag == Tag::Summary => Ok(Summary::decode(stored).ok()),
        _ => Ok(None),
    }
}
