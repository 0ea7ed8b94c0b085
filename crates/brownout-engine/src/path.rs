//! The path of a target from the first symbolic byte on: what is symbolic is written to the wire before the start, and what was recorded is
//! read from it at the end (`brownout_ring::path`).
//!
//! The records belong to the target, which may have overwritten them: their reader must expect anything.

use brownout_ring::path::{
    MAX_NAME, PAGE, PathPage, RECORDS, RECORDS_BYTES, SOURCES, Source, source,
};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

/// An input of the target whose bytes are symbolic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolicSource {
    /// A file that exists, however the target opens it.
    File(PathBuf),
    /// An argument; 0 is the name of the program.
    Argument(u32),
    /// The value of an environment variable, which the target gets.
    Variable { name: OsString, value: OsString },
}

/// What was recorded of a path.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PathRecording {
    /// The records. Empty if no symbolic byte was read.
    pub records: Vec<u8>,
    /// Whether the path is longer than what was recorded.
    pub is_cut_off: bool,
    /// Processes that read symbolic bytes and were not recorded.
    pub other_processes: u32,
}

/// Writes what is symbolic, before the target starts.
pub(crate) fn put_sources(wire: &File, sources: &[SymbolicSource]) -> io::Result<()> {
    if sources.len() > SOURCES {
        return Err(io::Error::from(io::ErrorKind::ArgumentListTooLong));
    }
    for (index, symbolic) in sources.iter().enumerate() {
        let (mut kind, mut number, mut dev, mut ino) = (source::FILE, 0, 0, 0);
        let mut name: &[u8] = &[];
        match symbolic {
            SymbolicSource::File(path) => {
                let metadata = std::fs::metadata(path)?;
                (dev, ino) = (metadata.dev(), metadata.ino());
            }
            SymbolicSource::Argument(index) => (kind, number) = (source::ARGUMENT, *index),
            SymbolicSource::Variable { name: variable, .. } => {
                name = variable.as_bytes();
                (kind, number) = (source::VARIABLE, name.len() as u32);
                if name.len() > MAX_NAME {
                    return Err(io::Error::from(io::ErrorKind::InvalidFilename));
                }
            }
        }
        let at = PAGE + offset_of!(PathPage, sources) + index * size_of::<Source>();
        let fields: [(usize, &[u8]); 5] = [
            (offset_of!(Source, kind), &kind.to_ne_bytes()),
            (offset_of!(Source, number), &number.to_ne_bytes()),
            (offset_of!(Source, dev), &dev.to_ne_bytes()),
            (offset_of!(Source, ino), &ino.to_ne_bytes()),
            (offset_of!(Source, name), name),
        ];
        for (field, bytes) in fields {
            wire.write_all_at(bytes, (at + field) as u64)?;
        }
    }
    let count = (sources.len() as u32).to_ne_bytes();
    wire.write_all_at(&count, (PAGE + offset_of!(PathPage, count)) as u64)
}

/// The environment variables among the sources.
pub(crate) fn variables(sources: &[SymbolicSource]) -> Vec<(OsString, OsString)> {
    let variables = sources.iter().filter_map(|source| match source {
        SymbolicSource::Variable { name, value } => Some((name.clone(), value.clone())),
        _ => None,
    });
    variables.collect()
}

/// Reads what the target has recorded.
pub(crate) fn read(wire: &File) -> io::Result<PathRecording> {
    let word = |field: usize| {
        let mut bytes = [0; 8];
        wire.read_exact_at(&mut bytes, (PAGE + field) as u64)?;
        Ok::<_, io::Error>(u64::from_ne_bytes(bytes))
    };
    let used = word(offset_of!(PathPage, used))?.min(RECORDS_BYTES as u64);
    let mut records = vec![0; used as usize];
    wire.read_exact_at(&mut records, RECORDS as u64)?;
    Ok(PathRecording {
        records,
        is_cut_off: word(offset_of!(PathPage, is_full))? as u32 != 0,
        other_processes: word(offset_of!(PathPage, others))? as u32,
    })
}
