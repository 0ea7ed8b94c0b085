//! System calls on files, unmapping, and the ends of processes take effect.

use std::ops::Range;

use brownout_model::{Access, PAGE, PmAddress, SpaceId, StoreKind, line_parts};
use brownout_trace::{Definitions, FileId, FileRange, ProcessId, Sync};
use rustc_hash::FxHashMap;

use crate::attribution::Attribution;
use crate::follower::line_marks::DIRTY;
use crate::follower::store_marks::StoreMarks;
use crate::follower::unfenced_flushes::UnfencedFlushes;
use crate::follower::{Follower, pm_address};
use crate::site_keys::SiteKey;

/// How many stores there were to each file.
#[derive(Default)]
pub(crate) struct StoreCounts {
    by_file: FxHashMap<FileId, u64>,
    /// The file that was stored to last, whose stores are not in the table yet.
    current: FileId,
    stores: u64,
}

impl StoreCounts {
    #[inline(always)]
    pub(crate) fn count(&mut self, file: FileId) {
        if file != self.current {
            self.switch_to(file);
        }
        self.stores += 1;
    }

    #[inline(never)]
    fn switch_to(&mut self, file: FileId) {
        let stores = std::mem::take(&mut self.stores);
        *self.by_file.entry(self.current).or_default() += stores;
        self.current = file;
    }

    pub(crate) fn of(&self, file: FileId) -> u64 {
        let counted = self.by_file.get(&file).copied().unwrap_or(0);
        let current = if file == self.current { self.stores } else { 0 };
        counted + current
    }
}

/// Parts of files that system calls have written back at some time, by pages.
#[derive(Default)]
pub(crate) struct WrittenBack {
    files: FxHashMap<FileId, Vec<Range<u64>>>,
}

impl WrittenBack {
    fn add(&mut self, file: FileId, bytes: Range<u64>) {
        let mut new = bytes.start - bytes.start % PAGE
            ..bytes.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let ranges = self.files.entry(file).or_default();
        // Ranges that touch are merged, which keeps the list short.
        ranges.retain(|range| {
            let apart = range.end < new.start || new.end < range.start;
            if !apart {
                new = range.start.min(new.start)..range.end.max(new.end);
            }
            apart
        });
        ranges.push(new);
    }

    pub(crate) fn has(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn contains(&self, address: PmAddress) -> bool {
        let ranges = self.files.get(&FileId(address.space.0));
        ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&address.offset)))
    }
}

impl<A: Attribution> Follower<A> {
    pub(crate) fn sync(&mut self, process: ProcessId, by: Access, site: SiteKey, sync: Sync) {
        let whole = |file| {
            vec![FileRange {
                file,
                offset: 0,
                len: u64::MAX,
            }]
        };
        let ranges = match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous: false,
            } => self.addresses.resolve_all(process, addr, len),
            Sync::Msync {
                addr,
                len,
                asynchronous: true,
            } => {
                for range in self.addresses.resolve_all(process, addr, len) {
                    let bytes = range.offset..range.offset.saturating_add(range.len);
                    self.not_waited_for.add(range.file, bytes);
                }
                return;
            }
            Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => whole(file),
            // The others do not wait for all that is needed.
            _ => return,
        };
        self.guarantees.writing_back = true;
        for range in ranges {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            self.written_back.add(range.file, bytes.clone());
            let thread = &mut self.guarantees.threads[by.thread.index()];
            thread.transaction.written_back(range);
            let came_first = !thread.accidental.are_none();
            thread.accidental.written_back(range.file);
            if came_first && thread.accidental.are_none() {
                self.guarantees.threads_with_accidents -= 1;
            }
            let space = SpaceId(range.file.0);
            self.tracker
                .write_back(&mut self.guarantees, by, space, bytes);
        }
        self.guarantees.writing_back = false;
        self.guarantees.threads[by.thread.index()].synced(site, by.time.0);
        self.judge_pointers(by, site);
    }

    /// The kernel wrote to the file. Earlier stores to these bytes are gone, and making the new content durable is up
    /// to the file system; but flushing the lines is not redundant.
    pub(crate) fn file_written(&mut self, file: FileId, bytes: Range<u64>) {
        self.written_files.insert(file);
        self.discard(file, bytes.clone());
        let len = bytes.end - bytes.start;
        for (offset, _, _) in line_parts(bytes.start, len) {
            let line = self.tracker.line(pm_address(file, offset));
            self.tracker.marks(line).set(DIRTY);
        }
    }

    /// Stores to the bytes `gone` of a file no longer exist.
    pub(crate) fn discard(&mut self, file: FileId, gone: Range<u64>) {
        let guarantees = &mut self.guarantees;
        let release = |tag: &_| guarantees.release(tag);
        self.tracker.discard(SpaceId(file.0), gone, release);
    }

    /// No process maps these bytes any more. Stores to them that were not flushed are marked: a flush through a
    /// later mapping comes too late for them, `fsync` does not.
    ///
    /// What the threads of `process` have flushed or stored past the cache, and not fenced by now, is reported.
    pub(crate) fn abandon(&mut self, process: ProcessId, gone: Vec<FileRange>) {
        if gone.is_empty() || self.tracker.live_stores() == 0 {
            return;
        }
        for thread in self.tracker.threads() {
            if self.guarantees.threads[thread.index()].process == process {
                self.judge_unfenced(thread, Some(&gone));
            }
        }
        let flushes = UnfencedFlushes::new(&self.tracker);
        for range in gone {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            let space = SpaceId(range.file.0);
            self.tracker.retain(space, bytes, |_, line, store| {
                if store.kind == StoreKind::Cached && flushes.of(line, store.time).is_none() {
                    store.tag.marks.set(StoreMarks::ABANDONED);
                }
                true
            });
        }
    }

    /// `exec` has replaced the process with the same pid, if there was one.
    pub(crate) fn replaced_by(&mut self, process: ProcessId, pid: u32, definitions: &Definitions) {
        let others = definitions
            .processes()
            .filter(|other| other.pid == pid && other.id != process && other.end.is_none());
        let others: Vec<ProcessId> = others.map(|other| other.id).collect();
        for other in others {
            self.process_ended(other, true);
        }
    }

    pub(crate) fn process_ended(&mut self, process: ProcessId, completed: bool) {
        if completed {
            self.completed.insert(process);
        }
        let gone = self.addresses.end(process);
        if completed {
            self.abandon(process, gone);
        }
        let threads = &mut self.threads;
        let mut ended = Vec::new();
        threads.retain(|&(of, _), &mut slot| {
            if of == process {
                ended.push(slot);
            }
            of != process
        });
        for thread in ended {
            self.thread_ended(thread, completed);
        }
        self.current = None;
    }
}
