//! Mapped files as byte strings that gimli can share: the crate's only unsafe code.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use gimli::{CloneStableDeref, StableDeref};
use memmap2::Mmap;

/// Bytes that many readers share: a range of a mapped file, or a section that had to be inflated.
#[derive(Clone, Debug)]
pub(crate) enum SharedBytes {
    Mapped { map: Arc<Mmap>, range: Range<usize> },
    Inflated(Arc<[u8]>),
}

impl SharedBytes {
    pub(crate) fn empty() -> Self {
        Self::Inflated(Arc::from([]))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped { map, range } => &map[range.clone()],
            Self::Inflated(bytes) => bytes,
        }
    }
}

// SAFETY: both variants deref into memory behind an `Arc` that is never mutated, so the address
// stays the same however the value is moved.
unsafe impl StableDeref for SharedBytes {}
// SAFETY: a clone holds the same `Arc` and the same range, hence derefs to the same address.
unsafe impl CloneStableDeref for SharedBytes {}

/// Maps a regular file for reading.
pub(crate) fn map_file(path: &Path) -> io::Result<Arc<Mmap>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    // SAFETY: the bytes must not change while they are mapped. Program and debug files are replaced
    // by their writers (linkers and package managers write a new inode), never edited in place; an
    // edit in place would be as fatal to every process that runs the file.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Arc::new(map))
}
