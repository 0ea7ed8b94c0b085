//! Mapped files as shared bytes for gimli. The only unsafe code of the crate.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use gimli::{CloneStableDeref, StableDeref};
use memmap2::Mmap;

/// Shared bytes: a range of a mapped file, or a decompressed section.
#[derive(Clone, Debug)]
pub(crate) enum SharedBytes {
    Mapped { map: Arc<Mmap>, range: Range<usize> },
    Decompressed(Arc<[u8]>),
}

impl SharedBytes {
    pub(crate) fn empty() -> Self {
        Self::Decompressed(Arc::from([]))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped { map, range } => &map[range.clone()],
            Self::Decompressed(bytes) => bytes,
        }
    }
}

// SAFETY: both variants deref into memory owned by an `Arc` that is never mutated, so moving the value does not
// change the address.
unsafe impl StableDeref for SharedBytes {}
// SAFETY: a clone has the same `Arc` and the same range, so it derefs to the same address.
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
    // SAFETY: the bytes must not change while they are mapped. Linkers and package managers replace program and
    // debug files with new inodes and never write to them in place, which would also break every process that
    // runs the file.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Arc::new(map))
}
