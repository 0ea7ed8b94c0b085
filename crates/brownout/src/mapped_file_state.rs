//! Restores the files that a target has mapped to what they held before, so that the target can be run once more.
//!
//! What a file held is known from the trace, from the time on at which the target first mapped it. A file that was created while the
//! target ran is removed.
//!
//! What it can miss: what the target did to a file before it mapped it, parts of a file that it never mapped, and a file that it
//! has removed, which stays removed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use brownout_trace::{EventKind, FileId};

use crate::failure::Failure;
use crate::progress::Progress;
use crate::trace_file::TraceFile;

/// The kernel's times of files lag behind the clock by at most this.
const CLOCK_LAG: Duration = Duration::from_millis(10);

/// The files of a run as they were when it first mapped them.
pub struct InitialFiles {
    started: SystemTime,
    files: HashMap<FileId, InitialFile>,
}

struct InitialFile {
    path: PathBuf,
    len: u64,
    /// Bytes that were not zero, with their offsets.
    content: Vec<(u64, Vec<u8>)>,
    /// Whether something has changed the file since it was mapped.
    is_changed: bool,
}

impl InitialFiles {
    /// The files of a recorded run.
    pub fn of(trace: &Path) -> Result<Self, Failure> {
        let mut trace = TraceFile::open(trace)?;
        let mut files: HashMap<FileId, InitialFile> = HashMap::new();
        let here = trace.header().cwd.clone();
        trace.walk(&mut Progress::hidden(), |event, definitions| {
            match event.kind {
                EventKind::Map(mapping) => {
                    if let Some(file) = definitions.file(mapping.file) {
                        files.entry(mapping.file).or_insert_with(|| InitialFile {
                            path: here.join(&file.path),
                            len: mapping.file_len,
                            content: Vec::new(),
                            is_changed: false,
                        });
                    }
                }
                EventKind::Content {
                    file,
                    offset,
                    bytes,
                } => {
                    if let Some(file) = files.get_mut(&file).filter(|file| !file.is_changed) {
                        file.content.push((offset, bytes.to_vec()));
                    }
                }
                EventKind::FileWrite { file, .. } | EventKind::FileResize { file, .. } => {
                    if let Some(file) = files.get_mut(&file) {
                        file.is_changed = true;
                    }
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let started = trace.header().started;
        Ok(Self { started, files })
    }

    /// Writes what the files held, and removes files that were created.
    pub fn restore(&self) -> Result<(), Failure> {
        for file in self.files.values() {
            let restored = match self.is_created(&file.path) {
                true => fs::remove_file(&file.path),
                false => file.write(),
            };
            restored.map_err(|source| Failure::RestoreFile {
                path: file.path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Whether a file was created after the run had started. If the file system does not say when, it was there before.
    fn is_created(&self, path: &Path) -> bool {
        let created = fs::metadata(path).and_then(|metadata| metadata.created());
        created.is_ok_and(|created| created + CLOCK_LAG >= self.started)
    }
}

impl InitialFile {
    fn write(&self) -> io::Result<()> {
        let mut options = File::options();
        let file = match options.write(true).truncate(true).open(&self.path) {
            Ok(file) => file,
            // The target has removed it, and may have created it, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.set_len(self.len)?;
        for (offset, bytes) in &self.content {
            let inside = self.len.saturating_sub(*offset).min(bytes.len() as u64);
            file.write_all_at(&bytes[..inside as usize], *offset)?;
        }
        Ok(())
    }
}
