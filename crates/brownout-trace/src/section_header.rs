//! Sections of a trace file: a fixed header with a checksum, then the stored bytes.

use crate::error::Flaw;

/// First bytes of a trace.
pub(crate) const MAGIC: [u8; 8] = *b"BRNTRACE";

/// The version of the format that this build writes. `docs/trace-format.md` lists the versions.
///
/// Version 7 has the sizes of the words of recognised locks, and whether they were released by exchanges. Events of versions 2 to 6 mean
/// the same in version 7.
pub const FORMAT_VERSION: u32 = 7;

/// The oldest version that this build reads.
pub const OLDEST_VERSION: u32 = 2;

/// The first version whose preamble and trailer have checksums.
pub(crate) const CHECKED_ENDS: u32 = 4;

/// The first version whose header says whether loads were recorded while persistent memory was shared.
pub(crate) const SHARED_LOADS: u32 = 5;

/// Magic, version and, since [`CHECKED_ENDS`], the checksum of both.
pub(crate) const PREAMBLE_LEN: usize = 16;

/// No section stores more bytes than this, and no chunk holds more after decompression.
pub(crate) const MAX_SECTION: usize = 16 << 20;

/// The maximum number of rows in a chunk, and therefore of its sites: one less than the number of two-byte values.
pub(crate) const MAX_ROWS: u32 = (1 << 16) - 1;

pub(crate) fn preamble() -> [u8; PREAMBLE_LEN] {
    let mut bytes = [0; PREAMBLE_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks the last four bytes of a preamble: a checksum, or zeros before there was one.
pub(crate) fn verify_preamble(bytes: &[u8; PREAMBLE_LEN], version: u32) -> Result<(), Flaw> {
    let found = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let expected = if version >= CHECKED_ENDS {
        crc32fast::hash(&bytes[..12])
    } else {
        0
    };
    if found == expected {
        Ok(())
    } else {
        Err(Flaw::Preamble)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Header,
    Chunk,
    Summary,
    Index,
}

impl Tag {
    const ALL: [(Tag, [u8; 4]); 4] = [
        (Tag::Header, *b"HEAD"),
        (Tag::Chunk, *b"CHNK"),
        (Tag::Summary, *b"SUMM"),
        (Tag::Index, *b"INDX"),
    ];

    fn bytes(self) -> [u8; 4] {
        Tag::ALL[self as usize].1
    }
}

/// The 32 bytes at the start of each section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionHeader {
    pub(crate) tag: Tag,
    pub(crate) stored_len: u32,
    /// For a chunk: the index of its first event; else 0, like the three below.
    pub(crate) first_event: u64,
    pub(crate) events: u32,
    /// Events and definitions.
    pub(crate) rows: u32,
    /// Whether the chunk changes [`Definitions`](crate::Definitions), so that seeking past it requires reading it.
    pub(crate) defines: bool,
}

impl SectionHeader {
    pub(crate) const LEN: usize = 32;

    pub(crate) fn plain(tag: Tag, stored_len: usize) -> Self {
        SectionHeader {
            tag,
            stored_len: stored_len as u32,
            first_event: 0,
            events: 0,
            rows: 0,
            defines: false,
        }
    }

    pub(crate) fn encode(&self, stored: &[u8]) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..4].copy_from_slice(&self.tag.bytes());
        bytes[4..8].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first_event.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.events.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.rows.to_le_bytes());
        bytes[24..28].copy_from_slice(&u32::from(self.defines).to_le_bytes());
        let sum = checksum(&bytes, stored);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the fields without checking them; [`verify`](Self::verify) does that.
    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, Flaw> {
        let tag = Tag::ALL.iter().find(|(_, name)| bytes[0..4] == *name);
        let &(tag, _) = tag.ok_or(Flaw::UnknownSection)?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let header = SectionHeader {
            tag,
            stored_len: word(4),
            first_event: u64::from(word(8)) | u64::from(word(12)) << 32,
            events: word(16),
            rows: word(20),
            defines: word(24) & 1 != 0,
        };
        if header.stored_len as usize > MAX_SECTION
            || header.rows > MAX_ROWS
            || header.events > header.rows
        {
            return Err(Flaw::TooLarge);
        }
        Ok(header)
    }

    pub(crate) fn verify(bytes: &[u8; Self::LEN], stored: &[u8]) -> Result<(), Flaw> {
        let recorded = u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
        if recorded == checksum(bytes, stored) {
            Ok(())
        } else {
            Err(Flaw::Checksum)
        }
    }
}

/// CRC-32 of the header without its checksum, then the stored bytes.
fn checksum(header: &[u8; SectionHeader::LEN], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..28]);
    hasher.update(stored);
    hasher.finalize()
}
