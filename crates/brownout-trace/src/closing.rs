//! The end of a trace: the summary, the index, and the trailer that closes the file.
//!
//! A trace whose recorder was killed ends after a chunk and has none of them; the index is then rebuilt by following the
//! sections. If any of them is present, all must be, and each must end where the next one starts. Otherwise the end of a
//! finished trace was cut off or altered, which would go unnoticed if the rest were simply ignored.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Damage, Flaw};
use crate::ids::EventIndex;
use crate::index::Index;
use crate::section::{Section, read_section, read_up_to, section_len};
use crate::section_header::{CHECKED_ENDS, FORMAT_VERSION, SectionHeader, Tag};
use crate::summary::Summary;

/// Last bytes of a finished trace.
const END_MAGIC: [u8; 8] = *b"BRNTREND";

/// What a trace contains after its chunks.
pub(crate) struct Closing {
    pub(crate) index: Index,
    /// `None` if the recorder did not finish, or if the summary cannot be read.
    pub(crate) summary: Option<Summary>,
    /// What is wrong with the end of the file.
    pub(crate) damage: Option<Damage>,
}

/// A flaw at an offset in the file.
type FlawAt = (u64, Flaw);

/// The length of the trailer: the offset of the index, a checksum since version 4, and the magic.
fn trailer_len(version: u32) -> u64 {
    let checksum = if version >= CHECKED_ENDS { 4 } else { 0 };
    8 + checksum + END_MAGIC.len() as u64
}

/// Appends the trailer of a trace whose index is at `offset`; 0 means that it has no index.
pub(crate) fn put_trailer(out: &mut Vec<u8>, offset: u64) {
    let offset = offset.to_le_bytes();
    out.extend_from_slice(&offset);
    out.extend_from_slice(&crc32fast::hash(&offset).to_le_bytes());
    out.extend_from_slice(&END_MAGIC);
    debug_assert!(out.len() as u64 >= trailer_len(FORMAT_VERSION));
}

impl Closing {
    /// Reads the end of a trace of `source_len` bytes whose first chunk is at `first_chunk`.
    pub(crate) fn read<R: Read + Seek>(
        source: &mut R,
        (first_chunk, source_len): (u64, u64),
        version: u32,
        stored: &mut Vec<u8>,
    ) -> io::Result<Self> {
        let trailer = source_len.checked_sub(trailer_len(version));
        let trailer = trailer.filter(|&trailer| trailer >= first_chunk);
        let offset = match trailer {
            Some(trailer) => read_trailer(source, trailer, version)?,
            None => None,
        };
        if let (Some(trailer), Some(offset)) = (trailer, offset.filter(|&offset| offset != 0)) {
            return Self::behind_index(source, first_chunk, offset, trailer, stored);
        }
        let (index, end) = rebuild_index(source, first_chunk)?;
        let Some(at) = index.summary else {
            // Not closed. If the file ends inside a section, reading the events reports that.
            return Ok(Self {
                index,
                summary: None,
                damage: None,
            });
        };
        let (summary, end) = match read_summary(source, at, stored)? {
            Ok(summary) => (Some(summary), end),
            Err(flaw) => return Ok(Self::flawed(index, None, (at, flaw))),
        };
        // Writers leave out an index that is too large for a section; before version 4 the trailer, too.
        let complete = match (trailer, offset) {
            (Some(trailer), Some(_)) => end == trailer,
            _ => version < CHECKED_ENDS && end == source_len,
        };
        if complete {
            return Ok(Self {
                index,
                summary,
                damage: None,
            });
        }
        Ok(Self::flawed(index, summary, (end, Flaw::Trailer)))
    }

    /// Reads the index at `offset`, which must end at the trailer, and the summary that must end at the index.
    fn behind_index<R: Read + Seek>(
        source: &mut R,
        first_chunk: u64,
        offset: u64,
        trailer: u64,
        stored: &mut Vec<u8>,
    ) -> io::Result<Self> {
        // Offsets that point behind what they are stored in are not followed: files refuse to seek to some of them.
        let index = match offset < trailer {
            true => read_index(source, offset, trailer, stored)?,
            false => Err(Flaw::OutOfOrder),
        };
        let index = match index {
            Ok(index) => index,
            Err(flaw) => {
                let (index, _) = rebuild_index(source, first_chunk)?;
                let summary = match index.summary {
                    Some(at) => read_summary(source, at, stored)?.ok(),
                    None => None,
                };
                return Ok(Self::flawed(index, summary, (offset, flaw)));
            }
        };
        let at = index.summary.unwrap_or(offset);
        Ok(match read_summary(source, at, stored)? {
            Ok(summary) if at + section_len(stored) == offset => Self {
                index,
                summary: Some(summary),
                damage: None,
            },
            Ok(summary) => Self::flawed(index, Some(summary), (at, Flaw::OutOfOrder)),
            Err(flaw) => Self::flawed(index, None, (at, flaw)),
        })
    }

    fn flawed(index: Index, summary: Option<Summary>, (byte, flaw): FlawAt) -> Self {
        let event = EventIndex(index.events);
        Self {
            index,
            summary,
            damage: Some(Damage { byte, event, flaw }),
        }
    }
}

/// The index at `offset`, if it ends at `end` and all that it lists is before it.
fn read_index<R: Read + Seek>(
    source: &mut R,
    offset: u64,
    end: u64,
    stored: &mut Vec<u8>,
) -> io::Result<Result<Index, Flaw>> {
    Ok(match read_section(source, offset, stored)? {
        Section::Whole(section) if section.tag == Tag::Index => match Index::decode(stored) {
            Ok(index) if offset + section_len(stored) == end && index.is_before(offset) => {
                Ok(index)
            }
            Ok(_) => Err(Flaw::OutOfOrder),
            Err(flaw) => Err(flaw),
        },
        Section::Whole(_) | Section::End => Err(Flaw::OutOfOrder),
        Section::Flawed(flaw) => Err(flaw),
    })
}

/// The offset of the index according to the trailer; `None` if there is no trailer at `offset`.
fn read_trailer<R: Read + Seek>(
    source: &mut R,
    offset: u64,
    version: u32,
) -> io::Result<Option<u64>> {
    let mut trailer = Vec::new();
    source.seek(SeekFrom::Start(offset))?;
    read_up_to(source, trailer_len(version), &mut trailer)?;
    let Some((index, rest)) = trailer.split_first_chunk::<8>() else {
        return Ok(None);
    };
    let Some((sum, magic)) = rest.split_at_checked(rest.len().saturating_sub(END_MAGIC.len()))
    else {
        return Ok(None);
    };
    let checked = sum.is_empty() || sum == crc32fast::hash(index).to_le_bytes();
    Ok((checked && magic == END_MAGIC).then(|| u64::from_le_bytes(*index)))
}

/// Rebuilds the index by reading the section headers from the first chunk on. Also returns where the last section that
/// was found ends.
fn rebuild_index<R: Read + Seek>(source: &mut R, first_chunk: u64) -> io::Result<(Index, u64)> {
    let mut index = Index::default();
    let mut offset = first_chunk;
    let mut head = Vec::new();
    loop {
        head.clear();
        source.seek(SeekFrom::Start(offset))?;
        read_up_to(source, SectionHeader::LEN as u64, &mut head)?;
        let Some(head) = head.first_chunk::<{ SectionHeader::LEN }>() else {
            return Ok((index, offset));
        };
        let Ok(section) = SectionHeader::decode(head) else {
            return Ok((index, offset));
        };
        let end = offset + (SectionHeader::LEN + section.stored_len as usize) as u64;
        match section.tag {
            Tag::Chunk if section.first_event == index.events => index.push(offset, &section),
            Tag::Summary => {
                index.summary = Some(offset);
                return Ok((index, end));
            }
            _ => return Ok((index, offset)),
        }
        offset = end;
    }
}

/// The summary at `offset`, whose content is then in `stored`.
fn read_summary<R: Read + Seek>(
    source: &mut R,
    offset: u64,
    stored: &mut Vec<u8>,
) -> io::Result<Result<Summary, Flaw>> {
    Ok(match read_section(source, offset, stored)? {
        Section::Whole(section) if section.tag == Tag::Summary => Summary::decode(stored),
        Section::Whole(_) | Section::End => Err(Flaw::OutOfOrder),
        Section::Flawed(flaw) => Err(flaw),
    })
}
