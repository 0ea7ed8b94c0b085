//! The table of open bytes that the processes of an exploration read at their start.

use super::ExploreError;
use brownout_ring::explore::TABLE_BYTES;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A file, and which of its bytes the caller chooses.
#[derive(Clone, Debug)]
pub struct OpenFile {
    pub path: PathBuf,
    /// The open bytes, in ranges.
    pub open: Vec<Range<u64>>,
}

/// The words of the table.
pub(super) fn encode(files: &[OpenFile]) -> Result<Vec<u8>, ExploreError> {
    let mut words = vec![files.len() as u64];
    for file in files {
        let metadata = fs::metadata(&file.path).map_err(|source| ExploreError::File {
            path: file.path.clone(),
            source,
        })?;
        words.extend([metadata.dev(), metadata.ino(), file.open.len() as u64]);
        words.extend(file.open.iter().flat_map(|range| [range.start, range.end]));
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    match bytes.len() <= TABLE_BYTES {
        true => Ok(bytes),
        false => Err(ExploreError::TooManyRanges),
    }
}
