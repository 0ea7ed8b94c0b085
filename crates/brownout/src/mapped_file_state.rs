//! Restores the files that a target has mapped to what they held before, so that the target can be run once more.
//!
//! These are the user's own files, so nothing is written that is not known: of a file that was there before, the bytes that
//! the trace shows as the target first mapped them, where they differ now, and its length if the trace shows that system calls
//! have changed it. The rest of the file is left as it is. A file that was created while the target ran is removed. If that
//! does not restore a persistent file, nothing is written at all, and the reason is said.
//!
//! What it can miss: what the target did to a file before it mapped it.

use std::fs::{self, File};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use brownout_crash::{StartFollower, StartingContent};
use brownout_trace::replay::Content;
use brownout_trace::{EventKind, FileId, FileIdentity, MappedFile};
use rustc_hash::FxHashMap;

use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// The kernel's times of files lag behind the clock by at most this.
const CLOCK_LAG: Duration = Duration::from_millis(10);

const PIECE: usize = 64 << 10;

/// A time that separates files which existed before from those that are created after it.
pub struct Beginning(SystemTime);

impl Beginning {
    pub fn now() -> Self {
        let now = SystemTime::now();
        sleep(CLOCK_LAG * 2);
        Self(now)
    }

    /// Whether a file was created since. If the file system does not say when, it was there before.
    fn is_before(&self, file: &fs::Metadata) -> bool {
        file.created().is_ok_and(|created| created > self.0)
    }
}

/// What has to be done to restore the files of a run.
pub struct Restoration {
    steps: Vec<(PathBuf, FileRestoration)>,
}

enum FileRestoration {
    Remove,
    Write(StartingContent),
}

/// A file of the run, as the target first mapped it.
struct FirstMapped<'f> {
    path: PathBuf,
    file: &'f MappedFile,
    start: StartingContent,
    is_persistent: bool,
}

impl Restoration {
    /// How the files of the run in `trace`, which began after `beginning`, are restored; or why they cannot be, in a sentence.
    pub fn plan(
        trace: &Path,
        beginning: &Beginning,
        settings: &Settings,
        console: &Console,
    ) -> Result<Result<Self, String>, Failure> {
        let mut trace = TraceFile::open(trace)?;
        let selection = trace.select(&settings.patterns, console)?;
        let here = trace.header().cwd.clone();
        let mut follower = StartFollower::of_all_files();
        let mut paths: FxHashMap<FileId, PathBuf> = FxHashMap::default();
        trace.walk(&mut Progress::hidden(), |event, definitions| {
            if let EventKind::Map(mapping) = event.kind
                && let Some(file) = definitions.file(mapping.file)
            {
                let path = || here.join(&file.path);
                paths.entry(mapping.file).or_insert_with(path);
            }
            follower.observe(event);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut steps = Vec::new();
        for file in trace.definitions().files() {
            let (Some(path), Some(start)) = (paths.remove(&file.id), follower.start(file.id))
            else {
                continue;
            };
            let first = FirstMapped {
                is_persistent: selection.is_persistent(file.id),
                path,
                file,
                start,
            };
            let path = first.path.clone();
            let unreadable = |source| restore_error(&path, source);
            match first.step(beginning, &here).map_err(unreadable)? {
                Ok(step) => steps.extend(step.map(|step| (path, step))),
                Err(why) => {
                    return Ok(Err(format!(
                        "{} cannot be restored for another run, and was left as it is: {why}",
                        path.display()
                    )));
                }
            }
        }
        Ok(Ok(Self { steps }))
    }

    /// Writes what the files held, and removes files that were created.
    pub fn restore(&self) -> Result<(), Failure> {
        for (path, step) in &self.steps {
            let restored = match step {
                FileRestoration::Remove => fs::remove_file(path),
                FileRestoration::Write(start) => write(path, start),
            };
            restored.map_err(|source| restore_error(path, source))?;
        }
        Ok(())
    }
}

fn restore_error(path: &Path, source: io::Error) -> Failure {
    let path = path.to_owned();
    Failure::RestoreFile { path, source }
}

impl FirstMapped<'_> {
    /// What restores the file, if anything is to be done; or why nothing does.
    fn step(
        &self,
        beginning: &Beginning,
        here: &Path,
    ) -> io::Result<Result<Option<FileRestoration>, String>> {
        let is_gone = |why: &str| {
            // Of a file that the run does not rely on, or that held nothing, there is nothing to restore.
            match self.is_persistent && !is_zero(&self.start.content) {
                true => Err(why.to_owned()),
                false => Ok(None),
            }
        };
        if self
            .path
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(b" (deleted)")
        {
            return Ok(Ok(None));
        }
        if self.is_persistent && here.join(&self.file.path) != self.path {
            return Ok(Err("the program has renamed it".to_owned()));
        }
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(is_gone("the program has removed it"));
            }
            Err(error) => return Err(error),
        };
        let FileIdentity { dev, ino } = self.file.identity;
        if (found.dev(), found.ino()) != (dev, ino) {
            return Ok(is_gone("it has been replaced"));
        }
        if !found.is_file() {
            return Ok(Err("it is not a regular file".to_owned()));
        }
        if beginning.is_before(&found) {
            return Ok(Ok(Some(FileRestoration::Remove)));
        }
        let start = &self.start;
        if start.has_lost_bytes {
            return Ok(Err(
                "the program has overwritten parts of it with system calls before it mapped them"
                    .to_owned(),
            ));
        }
        if found.len() != start.content.len() && !start.is_resized {
            return Ok(Err(
                "its length has changed without being recorded".to_owned()
            ));
        }
        Ok(Ok(Some(FileRestoration::Write(start.clone()))))
    }
}

fn is_zero(content: &Content) -> bool {
    content.pages().next().is_none()
}

/// Writes the known bytes of a file that differ.
fn write(path: &Path, start: &StartingContent) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    if start.is_resized {
        file.set_len(start.content.len())?;
    }
    let (mut wanted, mut found) = (vec![0; PIECE], vec![0; PIECE]);
    for Range { start: from, end } in start.known.iter().cloned() {
        let mut at = from;
        while at < end {
            let len = (end - at).min(PIECE as u64) as usize;
            let (wanted, found) = (&mut wanted[..len], &mut found[..len]);
            start.content.read(at, wanted);
            file.read_exact_at(found, at)?;
            if wanted != found {
                file.write_all_at(wanted, at)?;
            }
            at += len as u64;
        }
    }
    Ok(())
}
