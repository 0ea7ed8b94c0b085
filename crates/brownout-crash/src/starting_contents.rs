//! What the persistent files held when the run started, so that the program can be run again from there.
//!
//! A program may map a part of a file first, such as the header of a pool, and the whole file later. The content of each byte is the one
//! that was recorded with the first mapping that covers it, unless a system call had changed the byte before.
//!
//! What it can miss: bytes that were never mapped, which it names; what system calls wrote before the file was first mapped counts as
//! content of the start.

use std::ops::Range;
use std::path::Path;

use brownout_trace::replay::Content;
use brownout_trace::{Event, EventKind, FileId, Mapping, ProcessId, ThreadId};
use rustc_hash::FxHashMap;

use crate::persistent_files::PersistentFiles;

/// The contents of all persistent files at the start, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct StartingContents {
    files: Vec<Option<StartingContent>>,
}

/// The content of one file at the start.
#[derive(Clone, Debug)]
pub struct StartingContent {
    pub content: Content,
    /// Whether each byte is known. Those that are not are zero in `content`.
    pub is_complete: bool,
    /// The bytes that are known.
    pub known: Vec<Range<u64>>,
    /// Whether system calls have changed the length of the file after it was mapped.
    pub is_resized: bool,
    /// Whether system calls have changed bytes that the file had at the start, and that are not known.
    pub has_lost_bytes: bool,
}

/// A thread that maps files.
type Reporter = (ProcessId, ThreadId);
type Ranges = Vec<Range<u64>>;

/// Follows the events of a run.
#[derive(Default)]
pub struct StartFollower {
    files: FxHashMap<FileId, FileStart>,
    /// Whether files are followed from the time on at which they are mapped.
    follows_all: bool,
    /// The ranges whose content a thread reports now.
    reporting: FxHashMap<Reporter, (FileId, Ranges)>,
}

/// What is known so far of how a file started.
#[derive(Default)]
struct FileStart {
    content: Content,
    is_mapped: bool,
    /// Bytes whose content is known.
    known: Ranges,
    /// Bytes that system calls have changed since the start.
    changed: Ranges,
    is_resized: bool,
}

impl FileStart {
    fn content(&self) -> StartingContent {
        let len = self.content.len();
        let lost = self
            .changed
            .iter()
            .map(|range| range.start..range.end.min(len));
        let has_lost_bytes = lost
            .flat_map(|range| without(range, &self.known))
            .next()
            .is_some();
        StartingContent {
            is_complete: without(0..len, &self.known).is_empty(),
            content: self.content.clone(),
            known: self.known.clone(),
            is_resized: self.is_resized,
            has_lost_bytes,
        }
    }
}

impl StartFollower {
    /// Follows every file that the target maps.
    pub fn of_all_files() -> Self {
        Self {
            follows_all: true,
            ..Self::default()
        }
    }

    /// How a file started; `None` if it was not mapped.
    pub fn start(&self, file: FileId) -> Option<StartingContent> {
        let start = self.files.get(&file).filter(|start| start.is_mapped)?;
        Some(start.content())
    }

    pub(crate) fn new(files: &PersistentFiles) -> Self {
        let starts = files.first_files().flatten();
        Self {
            files: starts.map(|file| (file, FileStart::default())).collect(),
            ..Self::default()
        }
    }

    /// Takes the next event of a whole run.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Map(mapping) => self.mapped((event.process, event.thread), &mapping),
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                let by = (event.process, event.thread);
                let reporting = self.reporting.get(&by).filter(|(of, _)| *of == file);
                if let (Some((_, open)), Some(start)) = (reporting, self.files.get_mut(&file)) {
                    let end = offset.saturating_add(bytes.len() as u64);
                    for open in open {
                        let part = open.start.max(offset)..open.end.min(end);
                        if !part.is_empty() {
                            let inside =
                                (part.start - offset) as usize..(part.end - offset) as usize;
                            start.content.write(part.start, &bytes[inside]);
                        }
                    }
                }
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let end = offset.saturating_add(bytes.len() as u64);
                let start = self.files.get_mut(&file);
                if let Some(start) = start.filter(|start| start.is_mapped) {
                    start.is_resized |= end > start.content.len();
                }
                self.changed(file, offset..end);
            }
            EventKind::FileResize { file, len } => {
                let start = self.files.get_mut(&file);
                if let Some(start) = start.filter(|start| start.is_mapped) {
                    start.is_resized = true;
                }
                self.changed(file, len..u64::MAX);
            }
            _ => {}
        }
    }

    fn mapped(&mut self, by: Reporter, mapping: &Mapping) {
        if self.follows_all {
            self.files.entry(mapping.file).or_default();
        }
        let Some(start) = self.files.get_mut(&mapping.file) else {
            return;
        };
        if !std::mem::replace(&mut start.is_mapped, true) {
            start.content.resize(mapping.file_len);
        }
        if !mapping.snapshot {
            return;
        }
        let end = mapping.offset.saturating_add(mapping.len);
        let covered = mapping.offset..end.min(start.content.len());
        let open = without(covered.clone(), &start.known);
        let open = open
            .into_iter()
            .flat_map(|open| without(open, &start.changed))
            .collect::<Vec<_>>();
        start.known.extend(open.iter().cloned());
        self.reporting.insert(by, (mapping.file, open));
    }

    fn changed(&mut self, file: FileId, range: Range<u64>) {
        if let Some(start) = self.files.get_mut(&file).filter(|start| start.is_mapped) {
            for range in without(range, &start.changed) {
                start.changed.push(range);
            }
        }
    }

    pub(crate) fn finish(self, files: &PersistentFiles) -> StartingContents {
        let contents = files
            .first_files()
            .map(|file| Some(self.files.get(&file?)?.content()));
        StartingContents {
            files: contents.collect(),
        }
    }
}

impl StartingContents {
    /// The content of the file at each path; `None` if there was nothing.
    pub fn files(&self) -> impl ExactSizeIterator<Item = Option<&StartingContent>> {
        self.files.iter().map(Option::as_ref)
    }

    /// The paths of files of which not every byte is known.
    pub fn incomplete<'f>(
        &'f self,
        files: &'f PersistentFiles,
    ) -> impl Iterator<Item = &'f Path> + 'f {
        let starts = files.paths().iter().zip(self.files());
        let incomplete = starts.filter(|(_, start)| start.is_some_and(|start| !start.is_complete));
        incomplete.map(|(path, _)| path.as_path())
    }

    /// What the file at the path with this number held; `None` if there was nothing.
    pub fn content(&self, number: usize) -> Option<&Content> {
        Some(&self.files.get(number)?.as_ref()?.content)
    }
}

/// The parts of a range that none of `others` has.
fn without(range: Range<u64>, others: &[Range<u64>]) -> Ranges {
    let mut parts = vec![range];
    for other in others {
        parts = parts
            .into_iter()
            .flat_map(|part| {
                let before = part.start..part.end.min(other.start);
                let after = part.start.max(other.end)..part.end;
                [before, after]
            })
            .collect();
        parts.retain(|part| !part.is_empty());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use brownout_trace::selection::Survey;
    use brownout_trace::{Address, AppPc, ContextId, Definitions, EventIndex, FileIdentity};

    use super::*;

    const FILE: FileId = FileId(0);
    const PAGE: u64 = 4096;

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

    fn map(pages: u64) -> EventKind<'static> {
        EventKind::Map(Mapping {
            addr: Address(0x10_0000),
            len: pages * PAGE,
            file: FILE,
            offset: 0,
            file_len: 3 * PAGE,
            prot: 3,
            flags: 1,
            dax: true,
            snapshot: true,
        })
    }

    fn content(bytes: &[u8]) -> EventKind<'_> {
        EventKind::Content {
            file: FILE,
            offset: 0,
            bytes,
        }
    }

    fn start_of(events: &[EventKind<'_>]) -> StartingContent {
        let mut definitions = Definitions::default();
        let identity = FileIdentity { dev: 1, ino: 1 };
        definitions.define_file(FILE, identity, Path::new("/pool"));
        let mut survey = Survey::default();
        for kind in events {
            survey.observe(&event(*kind), &definitions);
        }
        let selection = survey.select(&definitions, None);
        let mut files = PersistentFiles::default();
        for kind in events {
            files.observe(&event(*kind), &definitions, &selection);
        }
        files.settle(&definitions);
        let mut follower = StartFollower::new(&files);
        for kind in events {
            follower.observe(&event(*kind));
        }
        let starts = follower.finish(&files);
        starts.files().next().flatten().cloned().unwrap()
    }

    fn byte(start: &StartingContent, page: u64) -> u8 {
        let mut byte = [0];
        start.content.read(page * PAGE, &mut byte);
        byte[0]
    }

    #[test]
    fn what_a_later_mapping_adds_belongs_to_the_start() {
        let (header, whole) = (vec![1; PAGE as usize], vec![2; 3 * PAGE as usize]);
        let start = start_of(&[map(1), content(&header), map(3), content(&whole)]);
        assert_eq!([0, 1, 2].map(|page| byte(&start, page)), [1, 2, 2]);
        assert!(start.is_complete);
    }

    #[test]
    fn what_was_written_meanwhile_is_not_known() {
        let (header, whole) = (vec![1; PAGE as usize], vec![2; 3 * PAGE as usize]);
        let written = EventKind::FileWrite {
            file: FILE,
            offset: PAGE,
            bytes: &header,
            syscall: 1,
        };
        let start = start_of(&[map(1), content(&header), written, map(3), content(&whole)]);
        assert_eq!([0, 1, 2].map(|page| byte(&start, page)), [1, 0, 2]);
        assert!(!start.is_complete);
    }

    #[test]
    fn what_is_never_mapped_is_not_known() {
        let header = vec![1; PAGE as usize];
        assert!(!start_of(&[map(1), content(&header)]).is_complete);
    }
}
