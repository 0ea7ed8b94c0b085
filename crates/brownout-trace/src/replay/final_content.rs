//! Digests of what a mapped file held at the end of the recording. An image rebuilt from the trace that differs shows that the
//! file was changed without an event: by a process that was not recorded, or by a system call that the recorder does not know.
//!
//! A recorder adds them to the trace as the text of a note. They are digests of pieces, so that a difference can be located;
//! pages of zeros add nothing, so that a sparse file costs what it holds. Only the parts of the file that were mapped are
//! covered: of the others, the trace does not have the content.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::content::{Content, PAGE};
use crate::definitions::FileIdentity;

/// Pieces of a file, at most.
const MAX_PIECES: u64 = 4096;
/// How the text of the note begins.
const PREFIX: &str = "content at the end: file ";

/// Digests of what a file held at the end of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalContent {
    /// The file.
    pub identity: FileIdentity,
    /// The numbers of the pages that are covered, in order and without overlap.
    covered: Vec<Range<u64>>,
    /// The number of pages in a piece.
    piece: u64,
    /// The digests of the pieces that are not zero, by number.
    digests: BTreeMap<u64, u64>,
    /// The number of pages that are not zero.
    pages: u64,
}

impl FinalContent {
    /// A file of zeros. `mapped` are the ranges of bytes to cover, in order and without overlap.
    pub fn new(identity: FileIdentity, mapped: &[Range<u64>]) -> Self {
        let page = PAGE as u64;
        let pages = mapped
            .iter()
            .map(|range| range.start / page..range.end.div_ceil(page));
        let covered: Vec<Range<u64>> = pages.collect();
        let end = covered.last().map_or(0, |range| range.end);
        Self::with(identity, covered, end.div_ceil(MAX_PIECES).max(1))
    }

    fn with(identity: FileIdentity, covered: Vec<Range<u64>>, piece: u64) -> Self {
        Self {
            identity,
            covered,
            piece,
            digests: BTreeMap::new(),
            pages: 0,
        }
    }

    /// Whether a page is covered.
    pub fn covers(&self, page: u64) -> bool {
        let after = self.covered.partition_point(|range| range.start <= page);
        after > 0 && page < self.covered[after - 1].end
    }

    /// Adds a page, which must not be added twice. Pages of zeros can be left out.
    pub fn add(&mut self, page: u64, bytes: &[u8; PAGE]) {
        if self.covers(page) && bytes.iter().any(|&byte| byte != 0) {
            let digest = self.digests.entry(page / self.piece).or_default();
            *digest = digest.wrapping_add(xxh3_64_with_seed(bytes, page));
            self.pages += 1;
        }
    }

    /// The number of bytes in pages that are not zero.
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE as u64)
    }

    /// The first piece in which an image of the file differs, as a range of bytes.
    pub fn difference(&self, image: &Content) -> Option<Range<u64>> {
        let mut rebuilt = Self::with(self.identity, self.covered.clone(), self.piece);
        let mut bytes = [0; PAGE];
        for (page, _) in image.pages().filter(|(page, _)| self.covers(*page)) {
            // What was stored past the end is not part of the file.
            image.read(page * PAGE as u64, &mut bytes);
            rebuilt.add(page, &bytes);
        }
        let numbers = self.digests.keys().chain(rebuilt.digests.keys());
        let differs = |number: &&u64| self.digests.get(number) != rebuilt.digests.get(number);
        let first = numbers.filter(differs).min()?;
        let size = self.piece * PAGE as u64;
        Some(first * size..(first + 1) * size)
    }

    /// The content that a note is about; `None` for any other note.
    pub fn parse(note: &str) -> Option<Self> {
        let mut words = note.strip_prefix(PREFIX)?.split(' ');
        let (dev, ino) = words.next()?.split_once(':')?;
        let identity = FileIdentity {
            dev: dev.parse().ok()?,
            ino: ino.parse().ok()?,
        };
        let piece = words.next()?.parse().ok().filter(|&piece| piece > 0)?;
        let mut content = Self::with(identity, Vec::new(), piece);
        content.pages = words.next()?.parse().ok()?;
        for range in words.next()?.split(',').filter(|text| !text.is_empty()) {
            let (start, end) = range.split_once('-')?;
            content.covered.push(start.parse().ok()?..end.parse().ok()?);
        }
        for digest in words.next()?.split(',').filter(|text| !text.is_empty()) {
            let (number, digest) = digest.split_once(':')?;
            let digest = u64::from_str_radix(digest, 16).ok()?;
            content.digests.insert(number.parse().ok()?, digest);
        }
        words.next().is_none().then_some(content)
    }
}

/// The text of the note.
impl fmt::Display for FinalContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileIdentity { dev, ino } = self.identity;
        write!(f, "{PREFIX}{dev}:{ino} {} {} ", self.piece, self.pages)?;
        for (number, range) in self.covered.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}-{}", range.start, range.end)?;
        }
        write!(f, " ")?;
        for (number, (piece, digest)) in self.digests.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{piece}:{digest:x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = PAGE as u64;
    const POOL: FileIdentity = FileIdentity { dev: 1, ino: 2 };

    fn image(writes: &[(u64, u8)]) -> Content {
        let mut content = Content::default();
        content.resize(1 << 40);
        for &(at, byte) in writes {
            content.write(at, &[byte]);
        }
        content
    }

    fn of(image: &Content, mapped: &[Range<u64>]) -> FinalContent {
        let mut content = FinalContent::new(POOL, mapped);
        for (number, bytes) in image.pages() {
            content.add(number, bytes);
        }
        content
    }

    #[test]
    fn a_difference_is_located_in_what_was_mapped() {
        let mapped = [0..2 * PAGES, 4 * PAGES..6 * PAGES];
        let file = of(&image(&[(1, 7), (5 * PAGES, 7)]), &mapped);
        assert_eq!(file.bytes(), 2 * PAGES);
        assert_eq!(file.difference(&image(&[(1, 7), (5 * PAGES, 7)])), None);
        let differs = |writes: &[(u64, u8)]| file.difference(&image(writes));
        assert_eq!(differs(&[(1, 7), (5 * PAGES, 7), (3 * PAGES, 1)]), None);
        assert_eq!(differs(&[(1, 8), (5 * PAGES, 7)]), Some(0..PAGES));
        let second = PAGES..2 * PAGES;
        assert_eq!(differs(&[(1, 7), (5 * PAGES, 7), (PAGES, 1)]), Some(second));
        assert_eq!(differs(&[(1, 7)]), Some(5 * PAGES..6 * PAGES));
    }

    #[test]
    fn bytes_past_the_end_of_the_file_do_not_count() {
        let file = of(&image(&[(1, 7)]), &[0..PAGES, 2 * PAGES..3 * PAGES]);
        let mut shorter = image(&[(1, 7)]);
        shorter.resize(100);
        shorter.write(200, &[9]);
        assert_eq!(file.difference(&shorter), None);
    }

    #[test]
    fn a_note_survives_as_text_and_other_notes_are_not_mistaken_for_it() {
        let ranges = [0..PAGES, 1 << 30..1 << 40];
        for mapped in (0..=ranges.len()).map(|count| &ranges[..count]) {
            let file = of(&image(&[(1, 7), (1 << 39, 1)]), mapped);
            let text = file.to_string();
            assert!(text.len() < 1 << 17);
            assert_eq!(FinalContent::parse(&text), Some(file));
        }
        for other in ["something", PREFIX, "content at the end: file 1:2 0 0  "] {
            assert_eq!(FinalContent::parse(other), None);
        }
    }
}
