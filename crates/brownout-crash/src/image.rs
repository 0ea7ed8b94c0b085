//! Crash images: the persistent files as a crash before some event leaves them.

mod states;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use brownout_trace::replay::{Content, Images};
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};
use serde::{Deserialize, Serialize};

use crate::persistency::Persistency;
use crate::persistent_files::PersistentFiles;

pub(crate) use states::TornPart;
pub use states::{ChosenImage, LostBytes, TornBytes};

/// Distinguishes crash images: equal for equal images only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImageDigest(pub u128);

/// What a crash leaves of all persistent files, in the order of their paths.
#[derive(Clone, Debug)]
pub struct CrashImage {
    /// `None` for a file that is not there.
    pub files: Vec<Option<Content>>,
}

/// Follows a run and builds the crash image of the current instant.
///
/// A file that is not mapped yet has the content that it will have when it is: the trace does not say whether it existed
/// before the target created it. A file that lost its path to another is gone. A file that was renamed has its new path
/// from then on, and nothing is at its old path.
#[derive(Debug)]
pub struct ImageBuilder<'a> {
    files: &'a PersistentFiles,
    selection: &'a Selection,
    images: Images,
    /// For each path whether a file was mapped there.
    mapped: Vec<bool>,
    /// The state of the model, if images of choices are wanted.
    persistency: Option<Persistency>,
}

impl<'a> ImageBuilder<'a> {
    pub fn new(files: &'a PersistentFiles, selection: &'a Selection) -> Self {
        Self {
            files,
            selection,
            images: Images::default(),
            mapped: vec![false; files.paths().len()],
            persistency: None,
        }
    }

    /// For a run that starts with these contents, of which no event tells the content.
    pub(crate) fn over(
        files: &'a PersistentFiles,
        selection: &'a Selection,
        contents: impl Iterator<Item = (FileId, Content)>,
    ) -> Self {
        Self {
            images: Images::with_contents(contents),
            ..Self::new(files, selection)
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn apply(&mut self, event: &Event<'_>, definitions: &Definitions) {
        if let EventKind::Map(mapping) = event.kind
            && let Some(number) = definitions
                .file(mapping.file)
                .and_then(|file| self.files.number_of(&file.path))
        {
            self.mapped[number] = true;
        }
        if let Some(persistency) = &mut self.persistency {
            persistency.apply(event, definitions, self.selection, &self.images);
        }
        self.images.apply(event);
    }

    /// The image in program order.
    pub fn image(&self, definitions: &Definitions) -> CrashImage {
        let holders = self.holders(definitions);
        let files = holders.iter().enumerate().map(|(number, holder)| {
            match holder.and_then(|file| self.images.file(file)) {
                Some(image) => Some(image.content().clone()),
                None if self.is_absent(number) => None,
                None => self.files.initial_content(number).cloned(),
            }
        });
        CrashImage {
            files: files.collect(),
        }
    }

    /// Whether there is nothing at a path that no file has now.
    fn is_absent(&self, number: usize) -> bool {
        self.mapped[number] || self.files.initial_content(number).is_none()
    }

    /// The digest of [`image`](Self::image), at the cost of what changed since it was asked for last.
    pub fn digest(&mut self, definitions: &Definitions) -> ImageDigest {
        self.digest_with(definitions, |_| None)
    }

    /// The digest of an image in which `variant` gives, for some numbers of files, another content and the pages in which
    /// it differs.
    fn digest_with<'v>(
        &mut self,
        definitions: &Definitions,
        variant: impl Fn(usize) -> Option<(&'v Content, &'v BTreeSet<u64>)>,
    ) -> ImageDigest {
        let mut digests = Vec::new();
        for (number, holder) in self.holders(definitions).into_iter().enumerate() {
            let digest = match holder.and_then(|file| self.images.file_mut(file)) {
                Some(image) => match variant(number) {
                    Some((content, pages)) => {
                        image.digest_of_variant(content, pages.iter().copied())
                    }
                    None => image.digest(),
                },
                // No content is assumed to have the digests 0 and 1.
                None => u128::from(self.is_absent(number)),
            };
            digests.extend(digest.to_le_bytes());
        }
        ImageDigest(xxhash_rust::xxh3::xxh3_128(&digests))
    }

    /// The size of the file at each path; `None` if there is none.
    pub(crate) fn sizes(&self, definitions: &Definitions) -> Vec<Option<u64>> {
        let holders = self.holders(definitions).into_iter().enumerate();
        let sizes =
            holders.map(
                |(number, holder)| match holder.and_then(|file| self.images.file(file)) {
                    Some(image) => Some(image.content().len()),
                    None if self.is_absent(number) => None,
                    None => self.files.initial_content(number).map(Content::len),
                },
            );
        sizes.collect()
    }

    /// For each path the file that has it: of several, the one mapped last.
    pub(crate) fn holders(&self, definitions: &Definitions) -> Vec<Option<FileId>> {
        let mut holders: Vec<Option<(u64, FileId)>> = vec![None; self.files.paths().len()];
        for (file, image) in self.images.files() {
            let Some(known) = definitions.file(file) else {
                continue;
            };
            if !self.selection.is_persistent(file) {
                continue;
            }
            if let Some(number) = self.files.number_of(&known.path) {
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
    /// The digest of an image that no [builder](ImageBuilder) has made; takes time proportional to its size.
    pub(crate) fn digest(&self) -> ImageDigest {
        let files = self.files.iter();
        let digests = files.flat_map(|content| {
            let digest = content.as_ref().map_or(1, Content::digest);
            digest.to_le_bytes()
        });
        ImageDigest(xxhash_rust::xxh3::xxh3_128(&digests.collect::<Vec<u8>>()))
    }

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
