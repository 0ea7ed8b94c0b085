//! When stores can no longer become persistent, and what is then said of them.
//!
//! Stores are judged at the end of the trace, when it is known which lines were ever flushed. Those whose
//! bytes were unmapped before anything was done for them are marked at that moment: a flush through a
//! later mapping comes too late for them, `fsync` does not. A flush that waits for its fence, and a
//! non-temporal store, can be finished after unmapping.

use std::ops::Range;

use brownout_model::{LineSlot, LiveStore, PAGE, Pending, PmAddress, SpaceId, StoreKind, Time};
use brownout_trace::selection::Selection;
use brownout_trace::{FileId, FileRange};
use rustc_hash::FxHashMap;

use crate::follower::Lint;
use crate::follower::line_marks::FLUSHED;
use crate::rule_inputs::{Lost, LostStore, StoreTag};
use crate::site_keys::SiteId;

/// Parts of files that were written back at some time, by pages.
#[derive(Default)]
pub(crate) struct WrittenBack {
    files: FxHashMap<FileId, Vec<Range<u64>>>,
}

impl WrittenBack {
    pub(crate) fn add(&mut self, file: FileId, bytes: Range<u64>) {
        let mut new = bytes.start - bytes.start % PAGE
            ..bytes.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let ranges = self.files.entry(file).or_default();
        // Ranges that touch become one, which keeps them few.
        ranges.retain(|range| {
            let apart = range.end < new.start || new.end < range.start;
            if !apart {
                new = range.start.min(new.start)..range.end.max(new.end);
            }
            apart
        });
        ranges.push(new);
    }

    fn contains(&self, place: PmAddress) -> bool {
        let ranges = self.files.get(&FileId(place.space.0));
        ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&place.offset)))
    }
}

impl<A> Lint<A> {
    /// No process maps these bytes any more.
    pub(crate) fn abandon(&mut self, gone: Vec<FileRange>) {
        if gone.is_empty() || self.tracker.live_stores() == 0 {
            return;
        }
        let flushes = self.unfenced_flushes();
        for range in gone {
            let bytes = range.offset..range.offset.saturating_add(range.len);
            let space = SpaceId(range.file.0);
            self.tracker.retain(space, bytes, |_, line, store| {
                if store.kind == StoreKind::Cached && flushes.of(line, store.time).is_none() {
                    store.tag.abandoned = true;
                }
                true
            });
        }
    }

    /// The trace has ended: nothing that is live will be guaranteed any more.
    pub(crate) fn judge(&mut self, selection: &Selection) {
        let flushes = self.unfenced_flushes();
        let persistent = selection.candidates().filter(|file| file.reason.is_some());
        let mut lost: Vec<LostStore> = Vec::new();
        for candidate in persistent {
            let space = SpaceId(candidate.file.0);
            // Deciding needs the tracker that is gone through.
            let live = self.tracker.live_in(space, 0..u64::MAX);
            let live: Vec<_> = live
                .filter(|(_, _, store)| !self.in_flight(store))
                .map(|(place, line, store)| (place, line, *store))
                .collect();
            for (place, line, store) in live {
                let why = match flushes.of(line, store.time) {
                    _ if store.kind == StoreKind::NonTemporal
                        && self.tracker.profile().needs_fences() =>
                    {
                        Lost::NotFenced
                    }
                    Some((flush, time)) if !store.tag.abandoned => {
                        Lost::FlushNotFenced { flush, time }
                    }
                    _ => self.not_flushed(place),
                };
                lost.push(LostStore::new(place, &store, why));
                if matches!(why, Lost::NotFlushed | Lost::NeverFlushed) {
                    self.lost_below(&store.tag, why, &mut lost);
                }
            }
        }
        let undecided = std::mem::take(&mut self.watch.undecided);
        let mut undecided: Vec<_> = undecided.into_iter().collect();
        undecided.sort_unstable_by_key(|((site, line), store)| (store.time, *line, *site));
        for ((_, line), store) in undecided {
            lost.push(LostStore::new(line, &store, self.not_flushed(line)));
        }
        for lost in &lost {
            self.watch.rules.lost(&self.watch.known, lost);
        }
    }

    /// What a lost store has overwritten was lost before it. Stores to bytes that were unmapped in between are
    /// judged on their own.
    fn lost_below(&mut self, tag: &StoreTag, why: Lost, lost: &mut Vec<LostStore>) {
        self.watch.overwrites.take(tag.overwrote, |overwriting| {
            if !overwriting.older_value.abandoned {
                lost.push(LostStore {
                    line: overwriting.line,
                    bytes: overwriting.bytes,
                    time: overwriting.older_time,
                    tag: overwriting.older_value,
                    count: overwriting.count,
                    why,
                });
            }
        });
    }

    /// Whether the store may simply not have been finished when its process was killed, or the recording
    /// stopped: its thread had not come to a fence after it.
    fn in_flight(&self, store: &LiveStore<StoreTag>) -> bool {
        let thread = &self.watch.threads[store.thread.index()];
        let cut_short = !self.completed.contains(&thread.process) && !store.tag.abandoned;
        cut_short && thread.last_fence < store.time.0
    }

    fn not_flushed(&self, line: PmAddress) -> Lost {
        let known = self.tracker.known_line(line);
        let flushed = known.is_some_and(|line| self.tracker.has_mark(line, FLUSHED));
        if flushed || self.written_back.contains(line) {
            Lost::NotFlushed
        } else {
            Lost::NeverFlushed
        }
    }

    fn unfenced_flushes(&self) -> UnfencedFlushes {
        let mut flushes = UnfencedFlushes::default();
        for thread in self.tracker.threads() {
            for pending in self.tracker.pending(thread) {
                if let Pending::Flush { line, time, tag } = *pending {
                    flushes.by_line.entry(line).or_default().push((time, tag));
                }
            }
        }
        flushes
    }
}

/// Flushes that no fence has followed.
#[derive(Default)]
struct UnfencedFlushes {
    by_line: FxHashMap<LineSlot, Vec<(Time, SiteId)>>,
}

impl UnfencedFlushes {
    /// The first flush that covers a store issued at `time`.
    fn of(&self, line: LineSlot, time: Time) -> Option<(SiteId, u64)> {
        let flushes = self.by_line.get(&line)?;
        let covering = flushes.iter().filter(|(flush, _)| time <= *flush);
        covering.min().map(|&(flush, site)| (site, flush.0))
    }
}
