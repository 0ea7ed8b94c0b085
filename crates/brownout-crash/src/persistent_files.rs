//! The persistent files of a run: their paths, and what they held at first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use brownout_trace::replay::Content;
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};

/// The paths at which persistent files were mapped, and what they held when they first were.
#[derive(Debug, Default)]
pub struct PersistentFiles {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, usize>,
    /// For each path the file that was mapped there first, and its content then.
    first: Vec<(FileId, Content, Initial)>,
}

/// Whether the initial content of a file is known completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Initial {
    Partial,
    Complete,
}

impl PersistentFiles {
    /// Takes the next event of a whole run.
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions, selection: &Selection) {
        match event.kind {
            EventKind::Map(mapping) if selection.is_persistent(mapping.file) => {
                let Some(known) = definitions.file(mapping.file) else {
                    return;
                };
                if let Some(&number) = self.numbers.get(&known.path) {
                    self.first[number].2 = Initial::Complete;
                    return;
                }
                self.numbers.insert(known.path.clone(), self.paths.len());
                self.paths.push(known.path.clone());
                let mut content = Content::default();
                content.resize(mapping.file_len);
                self.first.push((mapping.file, content, Initial::Partial));
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let partial = self
                    .first
                    .iter_mut()
                    .filter(|first| first.0 == file && first.2 == Initial::Partial);
                partial.for_each(|first| first.1.write(offset, bytes));
            }
            _ => {}
        }
    }

    /// The number of a path.
    pub fn number_of(&self, path: &Path) -> Option<usize> {
        self.numbers.get(path).copied()
    }

    /// The content that a file had when it was first mapped.
    pub fn initial_content(&self, number: usize) -> &Content {
        &self.first[number].1
    }

    /// In the order in which they were first mapped.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}
