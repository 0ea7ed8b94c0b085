//! Crash images: the persistent files as a crash before some event leaves them, in program order.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use brownout_trace::replay::{Content, Images};
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};
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
    numbers: HashMap<PathBuf, usize>,
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
                if let Some(&number) = self.numbers.get(&known.path) {
                    self.first[number].2 = Initial::Known;
                    return;
                }
                self.numbers.insert(known.path.clone(), self.paths.len());
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
    pub fn number_of(&self, path: &Path) -> Option<usize> {
        self.numbers.get(path).copied()
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
            && let Some(number) = definitions
                .file(mapping.file)
                .and_then(|file| self.files.numbers.get(&file.path))
        {
            self.mapped[*number] = true;
        }
        self.images.apply(event);
    }

    /// What a crash would leave now.
    pub fn image(&self, definitions: &Definitions) -> CrashImage {
        let holders = self.holders(definitions);
        let files = holders.iter().enumerate().map(|(number, holder)| {
            match holder.and_then(|file| self.images.file(file)) {
                Some(image) => Some(image.content().clone()),
                None if self.mapped[number] => None,
                None => Some(self.files.first[number].1.clone()),
            }
        });
        CrashImage {
            files: files.collect(),
        }
    }

    /// The digest of [`image`](Self::image), at the cost of what changed since it was asked for last.
    pub fn digest(&mut self, definitions: &Definitions) -> ImageDigest {
        let mut text = Vec::new();
        for (number, holder) in self.holders(definitions).into_iter().enumerate() {
            let digest = match holder.and_then(|file| self.images.file_mut(file)) {
                Some(image) => image.digest(),
                // No content has the digests 0 and 1, or so it may be taken.
                None => u128::from(self.mapped[number]),
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
            if let Some(&number) = self.files.numbers.get(&known.path) {
                let candidate = Some((image.last_mapped(), file));
                holders[number] = holders[number].max(candidate);
            }
        }
        holders
            .into_iter()
            .map(|holder| holder.map(|(_, file)| file))
            .collect()
    }
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
