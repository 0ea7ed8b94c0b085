//! What analyses have found, in a directory: one file for each build-id.
//!
//! A file has a header with the version of the analysis and a checksum. One that does not fit is ignored, and written anew.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Found;
use super::elf::Image;

/// Increased when the analysis finds something else, or its result is laid out in another way.
const HEADER: &[u8; 16] = b"brownout-pm-002\n";

/// The place of one file's result.
pub(super) struct Entry {
    path: PathBuf,
}

impl Entry {
    /// `None` if the file has no build-id. Files of one build with and without symbols have different lengths.
    pub fn of(directory: &Path, image: &Image, length: usize) -> Option<Self> {
        let build_id = image.build_id.as_ref()?;
        let mut name = String::new();
        for byte in build_id {
            let _ = write!(name, "{byte:02x}");
        }
        let path = directory.join(format!("{name}-{length}"));
        Some(Self { path })
    }

    /// What was kept, if it is whole.
    pub fn load(&self) -> Option<Found> {
        let bytes = fs::read(&self.path).ok()?;
        let rest = bytes.strip_prefix(HEADER)?;
        let (checksum, content) = rest.split_first_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        postcard::from_bytes(content).ok()
    }

    /// Keeps a result. Readers see the old file or the new one.
    pub fn store(&self, found: &Found) {
        let Ok(content) = postcard::to_allocvec(found) else {
            return;
        };
        let write = || -> std::io::Result<()> {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(directory)?;
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(HEADER)?;
            file.write_all(&crc32fast::hash(&content).to_le_bytes())?;
            file.write_all(&content)?;
            file.persist(&self.path)?;
            Ok(())
        };
        // Without it, the next analysis takes its time again.
        let _ = write();
    }
}
