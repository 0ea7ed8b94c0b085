//! Crash images: the persistent files as a crash before some event leaves them, in program order.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brownout_trace::replay::{Content, Images, PAGE};
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};
use rustix::fs::{FallocateFlags, SeekFrom};
use serde::{Deserialize, Serialize};

/// Tells crash images apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImageDigest(pub u128);

/// What a crash leaves of all persistent files, in the order of their paths.
#[derive(Clone, Debug)]
pub struct CrashImage {
    /// `None` for a file that is not there.
    pub files: Vec<Option<Content>>,
}

/// The paths at which persistent files were mapped, and what they held when they first were.
#[derive(Debug, Default)]
pub struct PersistentFiles {
    paths: Vec<PathBuf>,
    places: HashMap<PathBuf, usize>,
    /// For each path the file that was mapped there first, and its content then.
    first: Vec<(FileId, Content, Initial)>,
}

/// Whether the content that a file had at first is still being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Initial {
    Told,
    Known,
}

impl PersistentFiles {
    /// Takes notice of an event of a whole run.
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions, selection: &Selection) {
        match event.kind {
            EventKind::Map(mapping) if selection.is_persistent(mapping.file) => {
                let Some(known) = definitions.file(mapping.file) else {
                    return;
                };
                if let Some(&place) = self.places.get(&known.path) {
                    self.first[place].2 = Initial::Known;
                    return;
                }
                self.places.insert(known.path.clone(), self.paths.len());
                self.paths.push(known.path.clone());
                let mut content = Content::default();
                content.resize(mapping.file_len);
                self.first.push((mapping.file, content, Initial::Told));
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let told = self
                    .first
                    .iter_mut()
                    .filter(|first| first.0 == file && first.2 == Initial::Told);
                told.for_each(|first| first.1.write(offset, bytes));
            }
            _ => {}
        }
    }

    /// The number of a path.
    pub fn place_of(&self, path: &Path) -> Option<usize> {
        self.places.get(path).copied()
    }

    /// In the order in which they were first mapped.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

/// Follows a run and gives the crash image of the instant it has come to.
///
/// A file that is not mapped yet has the content that it will have when it is: whether it was there before the
/// program made it cannot be told. A file that lost its path to another is gone.
#[derive(Debug)]
pub struct ImageBuilder<'a> {
    files: &'a PersistentFiles,
    selection: &'a Selection,
    images: Images,
    /// For each path whether a file was mapped there.
    mapped: Vec<bool>,
}

impl<'a> ImageBuilder<'a> {
    pub fn new(files: &'a PersistentFiles, selection: &'a Selection) -> Self {
        Self {
            files,
            selection,
            images: Images::default(),
            mapped: vec![false; files.paths.len()],
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn apply(&mut self, event: &Event<'_>, definitions: &Definitions) {
        if let EventKind::Map(mapping) = event.kind
            && let Some(place) = definitions
                .file(mapping.file)
                .and_then(|file| self.files.places.get(&file.path))
        {
            self.mapped[*place] = true;
        }
        self.images.apply(event);
    }

    /// What a crash would leave now.
    pub fn image(&self, definitions: &Definitions) -> CrashImage {
        let holders = self.holders(definitions);
        let files = holders.iter().enumerate().map(|(place, holder)| {
            match holder.and_then(|file| self.images.file(file)) {
                Some(image) => Some(image.content().clone()),
                None if self.mapped[place] => None,
                None => Some(self.files.first[place].1.clone()),
            }
        });
        CrashImage {
            files: files.collect(),
        }
    }

    /// The digest of [`image`](Self::image), at the cost of what changed since it was asked for last.
    pub fn digest(&mut self, definitions: &Definitions) -> ImageDigest {
        let mut text = Vec::new();
        for (place, holder) in self.holders(definitions).into_iter().enumerate() {
            let digest = match holder.and_then(|file| self.images.file_mut(file)) {
                Some(image) => image.digest(),
                // No content has the digests 0 and 1, or so it may be taken.
                None => u128::from(self.mapped[place]),
            };
            text.extend(digest.to_le_bytes());
        }
        ImageDigest(xxhash_rust::xxh3::xxh3_128(&text))
    }

    /// For each path the file that has it: of several, the one mapped last.
    fn holders(&self, definitions: &Definitions) -> Vec<Option<FileId>> {
        let mut holders: Vec<Option<(u64, FileId)>> = vec![None; self.files.paths.len()];
        for (file, image) in self.images.files() {
            let Some(known) = definitions.file(file) else {
                continue;
            };
            if !self.selection.is_persistent(file) {
                continue;
            }
            if let Some(&place) = self.files.places.get(&known.path) {
                let candidate = Some((image.last_mapped(), file));
                holders[place] = holders[place].max(candidate);
            }
        }
        holders
            .into_iter()
            .map(|holder| holder.map(|(_, file)| file))
            .collect()
    }
}

/// Bytes compared at a time.
const WINDOW: usize = 64 * PAGE;

/// Makes `file` hold `content`. What is there already is not written again, so that after a recovery that changed
/// little there is little to do; what either does not hold is not looked at.
pub fn lay_out(content: &Content, file: &File) -> io::Result<()> {
    if file.metadata()?.len() != content.len() {
        file.set_len(content.len())?;
    }
    let page = PAGE as u64;
    let mut window = vec![0; WINDOW];
    let mut held: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = data_from(file, at)? {
        let (first, last) = (start / page, end.div_ceil(page));
        held.push((first, last));
        let mut number = first;
        while number < last {
            let count = (WINDOW / PAGE).min((last - number) as usize);
            let window = &mut window[..count * PAGE];
            read_padded(file, number * page, window)?;
            for (number, old) in (number..).zip(window.chunks_exact(PAGE)) {
                correct(content, file, number, old)?;
            }
            number += count as u64;
        }
        at = last * page;
    }
    for (number, bytes) in content.pages() {
        let before = held.partition_point(|&(first, _)| first <= number);
        let was_there = before > 0 && number < held[before - 1].1;
        if !was_there {
            write_page(content, file, number, bytes)?;
        }
    }
    Ok(())
}

fn correct(content: &Content, file: &File, number: u64, old: &[u8]) -> io::Result<()> {
    match content.page(number) {
        Some(bytes) if bytes[..] == *old => Ok(()),
        Some(bytes) => write_page(content, file, number, bytes),
        None if old.iter().all(|&byte| byte == 0) => Ok(()),
        None => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, number * PAGE as u64, PAGE as u64)?;
            Ok(())
        }
    }
}

fn write_page(content: &Content, file: &File, number: u64, bytes: &[u8]) -> io::Result<()> {
    let start = number * PAGE as u64;
    let len = content.len().saturating_sub(start).min(PAGE as u64) as usize;
    file.write_all_at(&bytes[..len], start)
}

/// The next stretch of a file that is not a hole.
fn data_from(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some((start, end)))
}

/// Reads all of `out`, taking what lies past the end as zeros.
fn read_padded(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    out[done..].fill(0);
    Ok(())
}

impl CrashImage {
    /// Writes the image of a single file to `target`, or of several below the directory `target`, each at its
    /// absolute path.
    pub fn write_to(&self, target: &Path, paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        let several = self.files.len() > 1;
        for (content, path) in self.files.iter().zip(paths) {
            let Some(content) = content else {
                continue;
            };
            let target = if several {
                target.join(path.strip_prefix("/").unwrap_or(path))
            } else {
                target.to_owned()
            };
            if let Some(parent) = target.parent().filter(|_| several) {
                std::fs::create_dir_all(parent)?;
            }
            content.write_file(&target)?;
            written.push(target);
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A write: where, how long, which byte.
    fn writes() -> impl Strategy<Value = Vec<(u64, usize, u8)>> {
        let place = 0..(3 * WINDOW as u64);
        prop::collection::vec((place, 1..9000usize, 0..4u8), 0..12)
    }

    fn content(len: u64, writes: &[(u64, usize, u8)]) -> Content {
        let mut content = Content::default();
        content.resize(len);
        for &(at, count, byte) in writes {
            let count = count.min(len.saturating_sub(at) as usize);
            content.write(at, &vec![byte; count]);
        }
        content
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_becomes_the_content_whatever_it_held(
            old in writes(), new in writes(), old_len in 0..800_000u64, new_len in 0..800_000u64,
        ) {
            let file = tempfile::tempfile().unwrap();
            for (len, writes) in [(old_len, &old), (new_len, &new)] {
                let wanted = content(len, writes);
                lay_out(&wanted, &file).unwrap();
                let mut expected = vec![0; len as usize];
                wanted.read(0, &mut expected);
                let mut found = vec![1; len as usize];
                file.read_exact_at(&mut found, 0).unwrap();
                prop_assert_eq!(file.metadata().unwrap().len(), len);
                prop_assert!(found == expected);
            }
        }
    }

    #[test]
    fn a_large_sparse_file_costs_what_it_holds() {
        let file = tempfile::tempfile().unwrap();
        let mut wanted = Content::default();
        wanted.resize(1 << 40);
        wanted.write(1 << 39, b"here");
        lay_out(&wanted, &file).unwrap();
        lay_out(&wanted, &file).unwrap();
        use std::os::unix::fs::MetadataExt as _;
        assert!(file.metadata().unwrap().blocks() <= 64);
    }
}
