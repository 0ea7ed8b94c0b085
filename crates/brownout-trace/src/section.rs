//! Reads the preamble of a file, and its sections with their checksums.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Damage, Flaw, ReadError};
use crate::ids::EventIndex;
use crate::section_header::{
    FORMAT_VERSION, MAGIC, OLDEST_VERSION, PREAMBLE_LEN, SectionHeader, verify_preamble,
};
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
    // First, because an altered version is no other version.
    verify_preamble(preamble, found).map_err(|flaw| damage(0, EventIndex(0), flaw))?;
    if found < OLDEST_VERSION {
        return Err(ReadError::VersionTooOld { found });
    }
    if found > FORMAT_VERSION {
        return Err(ReadError::VersionTooNew { found });
    }
    Ok(found)
}

/// Reads `len` bytes, or fewer at the end. Allocates memory for the bytes that exist, not for `len`.
pub(crate) fn read_up_to(source: &mut impl Read, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
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
