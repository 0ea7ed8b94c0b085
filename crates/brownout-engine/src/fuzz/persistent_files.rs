//! The persistent files of a target: what they hold at the fork point, and how that is restored.
//!
//! Most executions store to few pages, which the runtime has noted. From time to time, and if it is not known what has changed, whole files
//! are compared. A page that was changed and not noted is then found; from then on files are always compared as a whole. Holes of files
//! are skipped, so that the time depends on what a file holds and not on its length.

use super::{FuzzServerError, FuzzTarget};
use brownout_trace::replay::{Content, PAGE};
use rustix::fs::SeekFrom;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

/// After so many executions, files are compared as a whole.
const VERIFIED_EVERY: u64 = 1000;

/// The persistent files.
pub(super) struct FuzzedFiles {
    files: Vec<FuzzedFile>,
    restored: u64,
    /// Whether a page was found that had changed without being noted.
    is_unreliable: bool,
}

struct FuzzedFile {
    path: PathBuf,
    /// The file, as long as it exists.
    open: Option<File>,
    /// What it holds at the fork point; `None` if it does not exist there.
    base: Option<Content>,
}

/// Whether executions can go on from where they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    Completely,
    /// A file was removed, created or replaced: processes may have the old one open.
    Anew,
}

impl FuzzedFiles {
    /// The files of a target as they are now.
    pub(super) fn of(target: &FuzzTarget) -> Result<Self, FuzzServerError> {
        let files = target.files.iter().map(|path| {
            let mut file = FuzzedFile {
                path: path.clone(),
                open: None,
                base: None,
            };
            file.reopen()
                .and_then(|()| {
                    file.base = file.read_all(&Content::default())?;
                    Ok(file)
                })
                .map_err(|source| FuzzServerError::File {
                    path: path.clone(),
                    source,
                })
        });
        Ok(Self {
            files: files.collect::<Result<_, _>>()?,
            restored: 0,
            is_unreliable: false,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Makes the files hold an image, which is what is restored from now on.
    pub(super) fn put(&mut self, image: &[Option<Content>]) -> Result<(), FuzzServerError> {
        for (file, content) in self.files.iter_mut().zip(image) {
            file.base.clone_from(content);
            file.restore_anew().map_err(|source| file.error(source))?;
        }
        Ok(())
    }

    /// What the files hold now is what is restored from now on. `changed` are the pages that may have changed since.
    pub(super) fn keep(&mut self, changed: Option<&[(usize, u64)]>) -> Result<(), FuzzServerError> {
        let now = self.now(changed)?;
        for (file, content) in self.files.iter_mut().zip(now) {
            file.base = content;
            file.reopen().map_err(|source| file.error(source))?;
        }
        Ok(())
    }

    /// What the files hold now, given the pages that may have changed.
    pub(super) fn now(
        &self,
        changed: Option<&[(usize, u64)]>,
    ) -> Result<Vec<Option<Content>>, FuzzServerError> {
        let changed = changed.filter(|_| !self.is_unreliable);
        let contents = self.files.iter().enumerate().map(|(number, file)| {
            let pages = changed.map(|changed| pages_of(changed, number));
            file.now(pages).map_err(|source| file.error(source))
        });
        contents.collect()
    }

    /// Restores what the files held at the fork point.
    pub(super) fn restore(
        &mut self,
        changed: Option<&[(usize, u64)]>,
    ) -> Result<Restored, FuzzServerError> {
        self.restored += 1;
        let verifies = self.restored.is_multiple_of(VERIFIED_EVERY);
        let known = changed.filter(|_| !self.is_unreliable);
        let mut all = Restored::Completely;
        for (number, file) in self.files.iter_mut().enumerate() {
            if !file.is_in_place() {
                file.restore_anew().map_err(|source| file.error(source))?;
                all = Restored::Anew;
                continue;
            }
            let corrected = match known.map(|changed| pages_of(changed, number)) {
                Some(pages) => {
                    let mut pages = pages;
                    pages
                        .try_for_each(|page| file.restore_page(page))
                        .and_then(|()| {
                            file.restore_length()?;
                            match verifies {
                                true => file.correct_all(),
                                false => Ok(false),
                            }
                        })
                }
                None => file
                    .restore_length()
                    .and_then(|()| file.correct_all())
                    .map(|_| false),
            };
            self.is_unreliable |= corrected.map_err(|source| file.error(source))?;
        }
        Ok(all)
    }

    /// Whether a page has changed that the runtime had not noted.
    pub(super) fn is_unreliable(&self) -> bool {
        self.is_unreliable
    }
}

fn pages_of(changed: &[(usize, u64)], number: usize) -> impl Iterator<Item = u64> {
    let of_file = changed.iter().filter(move |(file, _)| *file == number);
    of_file.map(|&(_, page)| page)
}

impl FuzzedFile {
    fn error(&self, source: io::Error) -> FuzzServerError {
        FuzzServerError::File {
            path: self.path.clone(),
            source,
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.open = match File::options().read(true).write(true).open(&self.path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Whether the path leads to the same file as before.
    fn is_in_place(&self) -> bool {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        let now = fs::symlink_metadata(&self.path).map(identity).ok();
        let before = (self.open.as_ref()).and_then(|file| file.metadata().map(identity).ok());
        now == before
    }

    /// Makes the file what it was, at its path.
    fn restore_anew(&mut self) -> io::Result<()> {
        let Some(base) = &self.base else {
            self.open = None;
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let base = base.clone();
        if self.open.is_none() || !self.is_in_place() {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            self.open = Some(options.open(&self.path)?);
        }
        if let Some(file) = &self.open {
            file.set_len(base.len())?;
        }
        self.correct_all().map(|_| ())
    }

    fn restore_length(&self) -> io::Result<()> {
        match (&self.open, &self.base) {
            (Some(file), Some(base)) if file.metadata()?.len() != base.len() => {
                file.set_len(base.len())
            }
            _ => Ok(()),
        }
    }

    fn restore_page(&self, number: u64) -> io::Result<()> {
        let (Some(file), Some(base)) = (&self.open, &self.base) else {
            return Ok(());
        };
        let mut bytes = [0; PAGE];
        base.read(number * PAGE as u64, &mut bytes);
        write_page(file, base.len(), number, &bytes)
    }

    /// Corrects all pages that differ. Returns whether there were some.
    fn correct_all(&self) -> io::Result<bool> {
        let (Some(file), Some(base)) = (&self.open, &self.base) else {
            return Ok(false);
        };
        let mut now = [0; PAGE];
        let mut expected = [0; PAGE];
        let mut differs = false;
        for number in pages_with_data(file, base)? {
            let at = number * PAGE as u64;
            if at >= base.len() {
                break;
            }
            read_padded(file, at, &mut now)?;
            base.read(at, &mut expected);
            if now != expected {
                differs = true;
                write_page(file, base.len(), number, &expected)?;
            }
        }
        Ok(differs)
    }

    /// What the file holds now, given the pages that may differ from those at the fork point.
    fn now(&self, pages: Option<impl Iterator<Item = u64>>) -> io::Result<Option<Content>> {
        let (Some(pages), Some(base), true) = (pages, &self.base, self.is_in_place()) else {
            return match File::open(&self.path) {
                Ok(_) => {
                    let mut file = Self {
                        path: self.path.clone(),
                        open: None,
                        base: None,
                    };
                    file.reopen()?;
                    file.read_all(self.base.as_ref().unwrap_or(&Content::default()))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            };
        };
        let Some(file) = &self.open else {
            return Ok(None);
        };
        let mut now = base.clone();
        now.resize(file.metadata()?.len());
        let mut bytes = [0; PAGE];
        for number in pages {
            put_page(&mut now, base, file, number, &mut bytes)?;
        }
        Ok(Some(now))
    }

    /// Reads the whole file. Pages that are as in `similar` are shared with it.
    fn read_all(&self, similar: &Content) -> io::Result<Option<Content>> {
        let Some(file) = &self.open else {
            return Ok(None);
        };
        let len = file.metadata()?.len();
        let mut now = similar.clone();
        now.resize(len);
        let mut bytes = [0; PAGE];
        for number in pages_with_data(file, similar)? {
            put_page(&mut now, similar, file, number, &mut bytes)?;
        }
        Ok(Some(now))
    }
}

/// The pages that are not zero in a file or in `content`, or may not be. All others are zero in both.
fn pages_with_data(file: &File, content: &Content) -> io::Result<BTreeSet<u64>> {
    let mut numbers: BTreeSet<u64> = content.pages().map(|(number, _)| number).collect();
    let len = file.metadata()?.len();
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is only a hole behind.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        numbers.extend(start / PAGE as u64..at.div_ceil(PAGE as u64));
    }
    Ok(numbers)
}

/// Puts a page of a file into `content`, if it is not as in `before`.
fn put_page(
    content: &mut Content,
    before: &Content,
    file: &File,
    number: u64,
    bytes: &mut [u8; PAGE],
) -> io::Result<()> {
    let at = number * PAGE as u64;
    read_padded(file, at, bytes)?;
    let mut old = [0; PAGE];
    before.read(at, &mut old);
    let len = content.len().saturating_sub(at).min(PAGE as u64) as usize;
    if old[..len] != bytes[..len] {
        content.write(at, &bytes[..len]);
    }
    Ok(())
}

fn write_page(file: &File, len: u64, number: u64, bytes: &[u8]) -> io::Result<()> {
    let at = number * PAGE as u64;
    let rest = len.saturating_sub(at).min(bytes.len() as u64) as usize;
    file.write_all_at(&bytes[..rest], at)
}

/// Fills `bytes` from a file; what is behind its end is zero.
fn read_padded(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes[done..].fill(0);
    Ok(())
}
