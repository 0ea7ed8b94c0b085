//! Selects the mapped files that are persistent memory.
//!
//! Every writable shared mapping of a regular file is recorded. The selection among them is made here, afterwards, so that
//! it can be changed without recording again. If the user gives patterns, only the patterns decide. Without patterns, a
//! file is persistent if the run treats it as persistent at least once: it is on DAX or mapped with `MAP_SYNC`, or one of
//! its lines is flushed, or a non-temporal store to it is followed by a fence of the same thread, or it is written back
//! (`msync` on its mapping, or `fsync` or `fdatasync` after stores through the mapping). Other files (semaphores,
//! shared-memory indexes) are listed but not checked.
//!
//! Can miss: a file whose durability is left to a later run or to `sync`.
//!
//! ```
//! use std::path::Path;
//!
//! use brownout_trace::FileId;
//! use brownout_trace::selection::{Patterns, Reason, Selection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let patterns = Patterns::new(&["*.pool".into()], Path::new("/mnt/pmem"))?;
//! let patterns = patterns.expect("one was given");
//! assert!(patterns.matches(Path::new("/mnt/pmem/kv.pool")));
//! assert!(!patterns.matches(Path::new("/mnt/pmem/kv.log")));
//!
//! let selection: Selection = [FileId(1)].into_iter().collect();
//! assert_eq!(selection.reason(FileId(1)), Some(Reason::Named));
//! assert!(!selection.is_persistent(FileId(2)));
//! # Ok(())
//! # }
//! ```

mod patterns;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::definitions::Definitions;
use crate::event::{Event, EventKind, Sync};
use crate::failed_sync::{FailedCall, FailedSync};
use crate::ids::{Address, FileId, ProcessId, ThreadId};

pub use patterns::{PatternError, Patterns};

/// Why a file counts as persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A pattern of the user matches it.
    Named,
    /// On a DAX file system or device, or mapped with `MAP_SYNC`.
    Dax,
    /// A line of it was flushed.
    Flushed,
    /// A fence followed a non-temporal store to it.
    FencedNonTemporal,
    /// It was written back by `msync`, `fsync` or `fdatasync`.
    WrittenBack,
}

impl Reason {
    /// A stable name, as used in output.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Named => "named",
            Reason::Dax => "dax",
            Reason::Flushed => "flushed",
            Reason::FencedNonTemporal => "fenced-non-temporal",
            Reason::WrittenBack => "written-back",
        }
    }
}

/// A file that can be persistent memory, and whether it was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file.
    pub file: FileId,
    /// Why it was selected; `None` if it was not.
    pub reason: Option<Reason>,
}

/// The selection for a whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    candidates: BTreeMap<FileId, Option<Reason>>,
    /// Files that were not selected although the target stores to them.
    unselected: BTreeSet<FileId>,
    /// Patterns that no file matches.
    unmatched: Vec<String>,
}

/// Files that are known to be persistent memory, whatever the run does with them.
impl FromIterator<FileId> for Selection {
    fn from_iter<I: IntoIterator<Item = FileId>>(files: I) -> Self {
        let named = files.into_iter().map(|file| (file, Some(Reason::Named)));
        Self {
            candidates: named.collect(),
            ..Self::default()
        }
    }
}

impl Selection {
    /// Whether a file was selected as persistent memory.
    pub fn is_persistent(&self, file: FileId) -> bool {
        self.reason(file).is_some()
    }

    /// Why `file` is persistent; `None` if it is not, or was never mapped.
    pub fn reason(&self, file: FileId) -> Option<Reason> {
        self.candidates.get(&file).copied().flatten()
    }

    /// All files that were mapped, in the order of their numbers.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.candidates
            .iter()
            .map(|(&file, &reason)| Candidate { file, reason })
    }

    /// The files that were not selected although the target stores to them.
    pub fn unselected(&self) -> impl Iterator<Item = FileId> + '_ {
        self.unselected.iter().copied()
    }

    /// The patterns that no file matches, as they were given.
    pub fn unmatched_patterns(&self) -> &[String] {
        &self.unmatched
    }

    /// Whether no file was selected.
    pub fn is_empty(&self) -> bool {
        self.candidates.values().all(Option::is_none)
    }
}

/// Determines how a run treats its files. Must be given every event, in order.
#[derive(Debug, Default)]
pub struct Survey {
    files: BTreeMap<FileId, Option<Reason>>,
    /// The number of files without a reason. At 0, most events can be skipped.
    open: usize,
    /// Files that were stored to through a mapping.
    stored: HashSet<FileId>,
    /// Files with non-temporal stores that no fence has followed yet.
    unfenced: HashMap<(ProcessId, ThreadId), Vec<FileId>>,
    /// The paths at which files were mapped. They may have been renamed since.
    mapped_at: HashSet<(FileId, PathBuf)>,
}

impl Survey {
    /// Observes an event. `definitions` are those after it.
    #[inline]
    pub fn observe(&mut self, event: &Event<'_>, definitions: &Definitions) {
        match event.kind {
            EventKind::Map(mapping) => {
                if let Some(file) = definitions.file(mapping.file) {
                    self.mapped_at.insert((mapping.file, file.path.clone()));
                }
                self.mapped(mapping.file, mapping.dax);
            }
            _ if self.open == 0 => {}
            _ => self.observe_undecided(event, definitions),
        }
    }

    /// Whether some file has no reason yet. If not, only mappings need to be observed.
    #[inline]
    pub fn is_undecided(&self) -> bool {
        self.open > 0
    }

    fn observe_undecided(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let thread = (event.process, event.thread);
        match event.kind {
            EventKind::Store {
                addr,
                flavor,
                locked,
                ..
            } => {
                if let Some(file) = file_at(definitions, event.process, addr) {
                    self.stored.insert(file);
                    if !flavor.is_cached() {
                        let unfenced = self.unfenced.entry(thread).or_default();
                        if !unfenced.contains(&file) {
                            unfenced.push(file);
                        }
                    }
                }
                if locked {
                    self.fenced(thread);
                }
            }
            EventKind::KernelWrite { addr, .. } => {
                self.stored
                    .extend(file_at(definitions, event.process, addr));
            }
            EventKind::Flush {
                addr,
                volatile: false,
                ..
            } => {
                if let Some(file) = file_at(definitions, event.process, addr) {
                    self.decide(file, Reason::Flushed);
                }
            }
            EventKind::Fence { .. } => self.fenced(thread),
            EventKind::Sync(Sync::Msync { addr, len, .. }) => {
                for file in files_in(definitions, event.process, addr, len) {
                    self.decide(file, Reason::WrittenBack);
                }
            }
            EventKind::Sync(Sync::Fsync { file } | Sync::Fdatasync { file })
                if self.stored.contains(&file) =>
            {
                self.decide(file, Reason::WrittenBack);
            }
            EventKind::Note { text } => self.sync_failed(event.process, text, definitions),
            EventKind::ThreadExit => {
                self.unfenced.remove(&thread);
            }
            _ => {}
        }
    }

    /// Who asks for durability takes the file for persistent, even if the call fails.
    #[cold]
    fn sync_failed(&mut self, process: ProcessId, text: &str, definitions: &Definitions) {
        match FailedSync::parse(text).map(|failed| failed.call) {
            Some(FailedCall::Msync { addr, len }) => {
                for file in files_in(definitions, process, addr, len) {
                    self.decide(file, Reason::WrittenBack);
                }
            }
            Some(FailedCall::Fsync(identity) | FailedCall::Fdatasync(identity)) => {
                let mut files = definitions.files();
                let file = files.find(|file| file.identity == identity);
                if let Some(file) = file
                    .map(|file| file.id)
                    .filter(|id| self.stored.contains(id))
                {
                    self.decide(file, Reason::WrittenBack);
                }
            }
            None => {}
        }
    }

    /// The selection after the events so far. If patterns are given, only they decide.
    pub fn select(&self, definitions: &Definitions, patterns: Option<&Patterns>) -> Selection {
        let Some(patterns) = patterns else {
            let undecided = |file: &&FileId| self.files.get(file).is_some_and(Option::is_none);
            return Selection {
                candidates: self.files.clone(),
                unselected: self.stored.iter().filter(undecided).copied().collect(),
                unmatched: Vec::new(),
            };
        };
        let renamed = |file| definitions.file(file).map(|file| &file.path);
        let named = |file| {
            let mapped_at = self.mapped_at.iter().filter(|(mapped, _)| *mapped == file);
            mapped_at
                .map(|(_, path)| path)
                .chain(renamed(file))
                .any(|path| patterns.matches(path))
        };
        let candidates = self
            .files
            .keys()
            .map(|&file| (file, named(file).then_some(Reason::Named)));
        let candidates: BTreeMap<FileId, Option<Reason>> = candidates.collect();
        // Stores to a file are not observed any more once it is known to be treated as persistent.
        let is_stored = |file| {
            self.stored.contains(&file) || self.files.get(&file).is_some_and(Option::is_some)
        };
        let others = candidates.iter().filter(|(_, named)| named.is_none());
        let unselected = others
            .map(|(&file, _)| file)
            .filter(|&file| is_stored(file));
        let mapped_at = self.mapped_at.iter().map(|(_, path)| path.as_path());
        let named_later = definitions.files().map(|file| file.path.as_path());
        Selection {
            unselected: unselected.collect(),
            unmatched: patterns.without_match(mapped_at.chain(named_later)),
            candidates,
        }
    }

    fn mapped(&mut self, file: FileId, dax: bool) {
        let open = &mut self.open;
        self.files.entry(file).or_insert_with(|| {
            *open += 1;
            None
        });
        if dax {
            self.decide(file, Reason::Dax);
        }
    }

    fn fenced(&mut self, thread: (ProcessId, ThreadId)) {
        for file in self.unfenced.remove(&thread).unwrap_or_default() {
            self.decide(file, Reason::FencedNonTemporal);
        }
    }

    /// Records the first reason for a file.
    fn decide(&mut self, file: FileId, reason: Reason) {
        if let Some(undecided @ None) = self.files.get_mut(&file) {
            *undecided = Some(reason);
            self.open -= 1;
        }
    }
}

fn file_at(definitions: &Definitions, process: ProcessId, addr: Address) -> Option<FileId> {
    let space = definitions.process(process)?.address_space();
    space.mapping_at(addr).map(|mapping| mapping.file)
}

fn files_in(
    definitions: &Definitions,
    process: ProcessId,
    addr: Address,
    len: u64,
) -> impl Iterator<Item = FileId> {
    let end = addr.0.saturating_add(len);
    definitions
        .process(process)
        .into_iter()
        .flat_map(|process| process.address_space().mappings())
        .filter(move |mapping| {
            mapping.addr.0 < end && addr.0 < mapping.addr.0.saturating_add(mapping.len)
        })
        .map(|mapping| mapping.file)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;
    use crate::definitions::FileIdentity;
    use crate::event::{FenceKind, FlushKind, Mapping, StoreFlavor};
    use crate::ids::{AppPc, ContextId, EventIndex};

    const POOL: FileId = FileId(0);
    const OTHER: FileId = FileId(1);
    const IN_POOL: Address = Address(0x10_0040);
    const MAIN: ThreadId = ThreadId(1);
    const SECOND: ThreadId = ThreadId(2);

    fn event(thread: ThreadId, kind: EventKind<'_>) -> Event<'_> {
        Event {
            index: EventIndex(0),
            process: ProcessId(0),
            thread,
            pc: AppPc(0),
            context: ContextId::ROOT,
            kind,
        }
    }

    fn map(file: FileId, addr: u64, dax: bool) -> EventKind<'static> {
        EventKind::Map(Mapping {
            addr: Address(addr),
            len: 0x1000,
            file,
            offset: 0,
            file_len: 0x1000,
            prot: 3,
            flags: 1,
            dax,
            snapshot: true,
        })
    }

    fn store(flavor: StoreFlavor, locked: bool) -> EventKind<'static> {
        let (addr, bytes, string) = (IN_POOL, &[1_u8][..], false);
        EventKind::Store {
            addr,
            bytes,
            flavor,
            locked,
            string,
        }
    }

    fn flush(addr: Address, volatile: bool) -> EventKind<'static> {
        EventKind::Flush {
            addr,
            kind: FlushKind::Clwb,
            volatile,
        }
    }

    const FENCE: EventKind<'static> = EventKind::Fence {
        kind: FenceKind::Sfence,
    };
    const NON_TEMPORAL: StoreFlavor = StoreFlavor::NonTemporal;

    /// The selection after `/mnt/pool` and `/dev/shm/sem` were mapped and `events` happened.
    fn select(events: &[(ThreadId, EventKind<'_>)], patterns: &[&str]) -> [Option<Reason>; 2] {
        let selection = selection(events, patterns);
        assert_eq!(selection.candidates().count(), 2);
        [selection.reason(POOL), selection.reason(OTHER)]
    }

    fn selection(events: &[(ThreadId, EventKind<'_>)], patterns: &[&str]) -> Selection {
        let mut definitions = Definitions::default();
        definitions.define_file(
            POOL,
            FileIdentity { dev: 1, ino: 1 },
            Path::new("/mnt/pool"),
        );
        definitions.define_file(
            OTHER,
            FileIdentity { dev: 1, ino: 2 },
            Path::new("/dev/shm/sem"),
        );
        let mut survey = Survey::default();
        let maps = [
            (MAIN, map(POOL, 0x10_0000, false)),
            (MAIN, map(OTHER, 0x20_0000, false)),
        ];
        for &(thread, kind) in maps.iter().chain(events) {
            let event = event(thread, kind);
            definitions.apply(&event);
            survey.observe(&event, &definitions);
        }
        let patterns: Vec<OsString> = patterns.iter().map(OsString::from).collect();
        let patterns = Patterns::new(&patterns, Path::new("/")).unwrap();
        survey.select(&definitions, patterns.as_ref())
    }

    #[test]
    fn a_file_that_is_only_stored_to_is_not_selected() {
        let events = [(MAIN, store(StoreFlavor::Temporal, false)), (MAIN, FENCE)];
        assert_eq!(select(&events, &[]), [None, None]);
    }

    #[test]
    fn a_file_on_dax_is_selected() {
        let events = [(MAIN, map(POOL, 0x30_0000, true))];
        assert_eq!(select(&events, &[]), [Some(Reason::Dax), None]);
    }

    #[test]
    fn one_flush_selects_a_file() {
        let events = [(MAIN, flush(IN_POOL, false))];
        assert_eq!(select(&events, &[]), [Some(Reason::Flushed), None]);
    }

    #[test]
    fn a_flush_of_other_memory_selects_no_file() {
        let events = [
            (MAIN, flush(Address(0x999), true)),
            (MAIN, flush(Address(0x999), false)),
        ];
        assert_eq!(select(&events, &[]), [None, None]);
    }

    #[test]
    fn a_non_temporal_store_counts_once_its_own_thread_fences() {
        let stored = (MAIN, store(NON_TEMPORAL, false));
        assert_eq!(select(&[stored], &[]), [None, None]);
        assert_eq!(select(&[stored, (SECOND, FENCE)], &[]), [None, None]);
        let reason = Some(Reason::FencedNonTemporal);
        assert_eq!(select(&[stored, (MAIN, FENCE)], &[]), [reason, None]);
        let locked = (MAIN, store(StoreFlavor::Temporal, true));
        assert_eq!(select(&[stored, locked], &[]), [reason, None]);
    }

    #[test]
    fn msync_counts_for_every_file_in_its_range() {
        let range = |addr, len| {
            let addr = Address(addr);
            [(
                MAIN,
                EventKind::Sync(Sync::Msync {
                    addr,
                    len,
                    asynchronous: false,
                }),
            )]
        };
        let reason = Some(Reason::WrittenBack);
        assert_eq!(select(&range(0x10_0000, 0x1000), &[]), [reason, None]);
        assert_eq!(select(&range(0x10_0000, 0x20_0000), &[]), [reason, reason]);
        assert_eq!(select(&range(0x11_0000, 0x1000), &[]), [None, None]);
    }

    #[test]
    fn fsync_counts_only_after_stores_through_the_mapping() {
        let sync = (MAIN, EventKind::Sync(Sync::Fsync { file: POOL }));
        let stored = (MAIN, store(StoreFlavor::Temporal, false));
        assert_eq!(select(&[sync], &[]), [None, None]);
        assert_eq!(
            select(&[stored, sync], &[]),
            [Some(Reason::WrittenBack), None]
        );
    }

    #[test]
    fn files_that_are_only_stored_to_are_known() {
        let in_other = EventKind::Store {
            addr: Address(0x20_0040),
            bytes: &[1],
            flavor: StoreFlavor::Temporal,
            locked: false,
            string: false,
        };
        let events = [
            (MAIN, in_other),
            (MAIN, store(StoreFlavor::Temporal, false)),
            (MAIN, flush(IN_POOL, false)),
        ];
        let unselected = |patterns: &[&str]| -> Vec<FileId> {
            let selection = selection(&events, patterns);
            selection.unselected().collect()
        };
        assert_eq!(unselected(&[]), [OTHER]);
        assert_eq!(unselected(&["sem"]), [POOL]);
        assert_eq!(unselected(&["sem", "pool"]), []);
        let selection = selection(&events, &["sem", "seem"]);
        assert_eq!(selection.unmatched_patterns(), ["seem"]);
    }

    #[test]
    fn patterns_decide_alone() {
        let events = [(MAIN, flush(IN_POOL, false))];
        assert_eq!(select(&events, &["sem"]), [None, Some(Reason::Named)]);
        assert_eq!(select(&events, &["/nothing"]), [None, None]);
    }
}
