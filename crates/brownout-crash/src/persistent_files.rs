//! The persistent files of a run: their paths, and what they held at first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use brownout_trace::replay::Content;
use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event, EventKind, FileId};

/// The paths that persistent files had, and what they held when they were first mapped.
#[derive(Clone, Debug, Default)]
pub struct PersistentFiles {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, usize>,
    /// For each path the file that had it first, and what was there before.
    first: Vec<(FileId, Initial)>,
    renamed: Vec<(PathBuf, PathBuf)>,
    /// The files among them.
    mapped: HashSet<FileId>,
    /// How many changes of paths have been observed.
    path_changes: usize,
}

/// What was at a path before the first event of its file.
#[derive(Clone, Debug)]
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
        if definitions.path_changes().len() != self.path_changes {
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
        let changes = definitions.path_changes();
        let changed: BTreeSet<FileId> = changes[self.path_changes..].iter().copied().collect();
        self.path_changes = changes.len();
        for known in changed
            .into_iter()
            .filter_map(|file| definitions.file(file))
        {
            let is_renamed =
                self.mapped.contains(&known.id) && !self.numbers.contains_key(&known.path);
            if is_renamed && selection.is_persistent(known.id) && !is_nameless(&known.path) {
                self.add(&known.path, known.id, Initial::Absent);
            }
        }
    }

    fn add(&mut self, path: &Path, file: FileId, initial: Initial) {
        self.numbers.insert(path.to_owned(), self.paths.len());
        self.paths.push(path.to_owned());
        self.first.push((file, initial));
        self.mapped.insert(file);
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
        let mut ordered: HashSet<usize> = HashSet::new();
        for number in lasting.iter().copied().chain(0..lasting.len()) {
            // A file that got a name later had none before.
            let had_none = is_nameless(&self.paths[number]) && lasting[number] != number;
            if !had_none && ordered.insert(number) {
                order.push(number);
            }
        }
        let at_the_end: HashSet<usize> = lasting.iter().copied().collect();
        let is_earlier = |number: &&usize| !at_the_end.contains(number);
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

    /// The file that was at each path first; `None` if there was nothing at the path before.
    pub(crate) fn first_files(&self) -> impl Iterator<Item = Option<FileId>> {
        self.first.iter().map(|(file, initial)| match initial {
            Initial::Partial(_) | Initial::Complete(_) => Some(*file),
            Initial::Absent => None,
        })
    }

    /// The files that had a path first, and the content that they had when they were first mapped.
    pub(crate) fn initial_contents(&self) -> impl Iterator<Item = (FileId, &Content)> {
        (0..self.paths.len()).filter_map(|number| {
            let content = self.initial_content(number)?;
            Some((self.first[number].0, content))
        })
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

#[cfg(test)]
mod tests {
    use brownout_trace::selection::Survey;
    use brownout_trace::{
        Address, AppPc, ContextId, EventIndex, FileIdentity, Mapping, ProcessId, ThreadId,
    };

    use super::*;

    const FILES: u32 = 2_000;

    fn event(kind: EventKind<'_>) -> Event<'_> {
        Event {
            index: EventIndex(0),
            process: ProcessId(0),
            thread: ThreadId(1),
            pc: AppPc(0),
            context: ContextId::ROOT,
            kind,
        }
    }

    fn map(number: u32) -> EventKind<'static> {
        EventKind::Map(Mapping {
            addr: Address(0x10_0000 + u64::from(number) * 0x1000),
            len: 0x1000,
            file: FileId(number),
            offset: 0,
            file_len: 0x1000,
            prot: 3,
            flags: 1,
            dax: true,
            snapshot: true,
        })
    }

    fn define(definitions: &mut Definitions, number: u32, path: &str) {
        let identity = FileIdentity {
            dev: 1,
            ino: number.into(),
        };
        definitions.define_file(FileId(number), identity, Path::new(path));
    }

    /// Comparing all files with all others for each rename, this would take minutes.
    #[test]
    fn thousands_of_renames_are_followed() {
        let mut definitions = Definitions::default();
        let mut survey = Survey::default();
        (0..FILES).for_each(|number| survey.observe(&event(map(number)), &definitions));
        let selection = survey.select(&definitions, None);
        let mut files = PersistentFiles::default();
        for number in 0..FILES {
            define(&mut definitions, number, &format!("/d/{number}.tmp"));
            files.observe(&event(map(number)), &definitions, &selection);
        }
        for number in 0..FILES {
            define(&mut definitions, number, &format!("/d/{number}"));
            files.observe(&event(EventKind::ThreadExit), &definitions, &selection);
        }
        files.settle(&definitions);
        assert_eq!(files.paths().len(), 2 * FILES as usize);
        assert_eq!(files.paths()[0], Path::new("/d/0"));
        assert_eq!(files.renamed().len(), FILES as usize);
        let last = (PathBuf::from("/d/1999.tmp"), PathBuf::from("/d/1999"));
        assert_eq!(files.renamed().last(), Some(&last));
    }
}
