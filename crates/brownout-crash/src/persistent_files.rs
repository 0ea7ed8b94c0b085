//! The persistent files of a run: their paths, and what they held at first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use brownout_trace::replay::Content;
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};

/// The paths that persistent files had, and what they held when they were first mapped.
#[derive(Debug, Default)]
pub struct PersistentFiles {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, usize>,
    /// For each path the file that had it first, and what was there before.
    first: Vec<(FileId, Initial)>,
    renamed: Vec<(PathBuf, PathBuf)>,
    /// How many changes of paths have been observed.
    path_changes: u64,
}

/// What was at a path before the first event of its file.
#[derive(Debug)]
enum Initial {
    /// The content of the file, which is not known completely yet.
    Partial(Content),
    Complete(Content),
    /// Nothing: the file was renamed to this path later.
    Absent,
}

impl PersistentFiles {
    /// Takes the next event of a whole run.
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions, selection: &Selection) {
        if definitions.path_changes() != self.path_changes {
            self.path_changes = definitions.path_changes();
            self.observe_names(definitions, selection);
        }
        match event.kind {
            EventKind::Map(mapping) if selection.is_persistent(mapping.file) => {
                let Some(known) = definitions.file(mapping.file) else {
                    return;
                };
                if let Some(&number) = self.numbers.get(&known.path) {
                    self.first[number].1.complete();
                    return;
                }
                let mut content = Content::default();
                content.resize(mapping.file_len);
                self.add(&known.path, mapping.file, Initial::Partial(content));
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                for (first, initial) in &mut self.first {
                    if let Initial::Partial(content) = initial
                        && *first == file
                    {
                        content.write(offset, bytes);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the paths that files which were mapped before have now.
    fn observe_names(&mut self, definitions: &Definitions, selection: &Selection) {
        let mapped: Vec<FileId> = self.first.iter().map(|(file, _)| *file).collect();
        for known in definitions.files() {
            let is_renamed = mapped.contains(&known.id) && !self.numbers.contains_key(&known.path);
            if is_renamed && selection.is_persistent(known.id) && !is_nameless(&known.path) {
                self.add(&known.path, known.id, Initial::Absent);
            }
        }
    }

    fn add(&mut self, path: &Path, file: FileId, initial: Initial) {
        self.numbers.insert(path.to_owned(), self.paths.len());
        self.paths.push(path.to_owned());
        self.first.push((file, initial));
    }

    /// Puts the paths into their final order, after the last event of the run: first those that files have at the end, which
    /// are the ones that a recovery command names.
    pub(crate) fn settle(&mut self, definitions: &Definitions) {
        let lasting: Vec<usize> = (0..self.paths.len())
            .map(|number| {
                let file = definitions.file(self.first[number].0);
                let path = file.and_then(|file| self.numbers.get(&file.path));
                path.copied().unwrap_or(number)
            })
            .collect();
        let mut order: Vec<usize> = Vec::new();
        for number in lasting.iter().copied().chain(0..lasting.len()) {
            // A file that got a name later had none before.
            let had_none = is_nameless(&self.paths[number]) && lasting[number] != number;
            if !order.contains(&number) && !had_none {
                order.push(number);
            }
        }
        let is_earlier = |number: &&usize| !lasting.contains(number);
        let renamed = order.iter().filter(is_earlier).map(|&number| {
            let now = lasting[number];
            (self.paths[number].clone(), self.paths[now].clone())
        });
        self.renamed = renamed.collect();
        let mut first: Vec<Option<_>> = self.first.drain(..).map(Some).collect();
        let taken = order.iter().filter_map(|&number| first[number].take());
        self.first = taken.collect();
        let paths = order.iter().map(|&number| self.paths[number].clone());
        self.paths = paths.collect();
        self.numbers = self.paths.iter().cloned().zip(0..).collect();
    }

    /// Names that files had before they were renamed, each with the name of the file at the end.
    pub fn renamed(&self) -> &[(PathBuf, PathBuf)] {
        &self.renamed
    }

    /// The number of a path.
    pub fn number_of(&self, path: &Path) -> Option<usize> {
        self.numbers.get(path).copied()
    }

    /// The content that a file had when it was first mapped; `None` if there was nothing at its path.
    pub fn initial_content(&self, number: usize) -> Option<&Content> {
        match &self.first[number].1 {
            Initial::Partial(content) | Initial::Complete(content) => Some(content),
            Initial::Absent => None,
        }
    }

    /// In the order in which the files were first mapped; names that they no longer have at the end come last.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl Initial {
    fn complete(&mut self) {
        if let Self::Partial(content) = self {
            *self = Self::Complete(std::mem::take(content));
        }
    }
}

/// Whether a path is that of a file without a name.
fn is_nameless(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)")
}
