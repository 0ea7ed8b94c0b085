//! Stores, flushes and fences take effect.

use brownout_model::{
    Access, ByteMask, FlushKind, LineSlot, Pending, PmAddress, StoreKind, ThreadSlot,
};
use brownout_trace::{FenceKind, FileId};

use crate::follower::Lint;
use crate::follower::line_marks::{self, DIRTY, NON_TEMPORAL};
use crate::follower::overwrites::NOTHING;
use crate::follower::thread::{AccidentallyOrdered, Ordered};
use crate::rule_inputs::{FenceMoment, FlushMoment, StoreTag, Work};
use crate::site_keys::SiteId;

/// What a store does to one line.
#[derive(Clone, Copy)]
pub(crate) struct StorePart {
    pub(crate) line: LineSlot,
    /// Where in the line it begins, and its length there.
    pub(crate) start: u8,
    pub(crate) len: u8,
    /// The first bytes, as a little-endian number.
    pub(crate) value: u64,
    pub(crate) kind: StoreKind,
    pub(crate) spoken_for: bool,
}

impl<A> Lint<A> {
    #[inline(always)]
    pub(crate) fn store_part(&mut self, by: Access, site: SiteId, part: StorePart) {
        let StorePart {
            line,
            start,
            len,
            value,
            kind,
            spoken_for,
        } = part;
        let bytes = ByteMask::range(start.into(), len.into());
        let tag = || StoreTag {
            value,
            site,
            overwrote: NOTHING,
            start,
            len,
            spoken_for,
            flushed: false,
            abandoned: false,
        };
        self.tracker
            .store_with(&mut self.watch, by, line, bytes, kind, tag);
        match kind {
            StoreKind::Cached => self.tracker.marks(line).set(DIRTY),
            StoreKind::NonTemporal => {
                self.tracker.marks(line).set(NON_TEMPORAL);
                self.non_temporal(by, site, line);
            }
        }
    }

    /// A non-temporal store has begun to wait for a fence.
    #[inline(never)]
    fn non_temporal(&mut self, by: Access, site: SiteId, line: LineSlot) {
        if !self.tracker.profile().needs_fences() {
            return;
        }
        let thread = &mut self.watch.threads[by.thread.index()];
        thread.waiting += 1;
        let before = thread.last_non_temporal.replace((line, site));
        let known = &self.watch.known;
        let same = |(other, of): (LineSlot, SiteId)| other == line && known.is_one_copy(of, site);
        let counts = thread.ordering == 0 || !before.is_some_and(same);
        if counts && known.is_users(site) {
            thread.begin(Ordered {
                role: "store",
                site,
                time: by.time.0,
                line: self.tracker.address(line),
            });
        }
    }

    /// Flushes a line, whose first byte is at `place`.
    #[inline(always)]
    pub(crate) fn flush_line(
        &mut self,
        by: Access,
        site: SiteId,
        (line, place): (LineSlot, PmAddress),
        kind: FlushKind,
    ) {
        let work = self.work(by, line);
        self.tracker.flush(&mut self.watch, by, line, kind, site);
        line_marks::flush(self.tracker.marks(line));
        let thread = &mut self.watch.threads[by.thread.index()];
        if thread.transaction.is_at_work() {
            thread.transaction.flushed(place);
        }
        if kind == FlushKind::Deferred {
            thread.waiting += 1;
            let works = matches!(work, Work::Stores { .. } | Work::Other);
            if works && self.watch.known.is_users(site) {
                thread.begin(Ordered {
                    role: "flush",
                    site,
                    time: by.time.0,
                    line: place,
                });
            }
        }
        let moment = FlushMoment {
            time: by.time.0,
            site,
            line: place,
            work,
        };
        self.watch.rules.flushed(&self.watch.known, &moment);
    }

    /// What a flush of the line by this thread has to do. From now on its stores are flushed.
    #[inline(always)]
    fn work(&mut self, by: Access, line: LineSlot) -> Work {
        let known = &self.watch.known;
        // Kept apart, not as the answer that they become: that would be copied before it is whole.
        let nothing = (SiteId::NONE, 0);
        let (mut count, mut first, mut last) = (0, nothing, nothing);
        let mut non_temporal = nothing;
        let mut flushed_before = false;
        self.tracker.visit_live(line, |kind, time, tag| {
            let (site, time) = (tag.site, time.0);
            if kind == StoreKind::NonTemporal {
                if non_temporal == nothing {
                    non_temporal = (site, time);
                }
            } else if tag.flushed {
                flushed_before = true;
            } else {
                tag.flushed = true;
                if count == 0 {
                    (count, first) = (1, (site, time));
                } else {
                    count += u16::from(!known.is_one_copy(last.0, site));
                }
                last = (site, time);
            }
        });
        if self.tracker.has_mark(line, DIRTY) {
            if count > 0 {
                Work::Stores { count, first, last }
            } else {
                Work::Other
            }
        } else if non_temporal != nothing && self.tracker.has_mark(line, NON_TEMPORAL) {
            let (store, time) = non_temporal;
            Work::NonTemporal { store, time }
        } else if flushed_before && !self.has_flushed(by.thread, line) {
            Work::Other
        } else {
            Work::Nothing
        }
    }

    /// Whether a flush of the line by this thread waits for its fence.
    fn has_flushed(&self, thread: ThreadSlot, line: LineSlot) -> bool {
        let mut pending = self.tracker.pending(thread).iter().rev();
        pending
            .any(|pending| matches!(pending, Pending::Flush { line: other, .. } if *other == line))
    }

    pub(crate) fn flush_volatile(&mut self, by: Access, site: SiteId, kind: FlushKind) {
        let watch = &mut self.watch;
        if kind == FlushKind::Deferred {
            watch.threads[by.thread.index()].waiting += 1;
        }
        if watch.known.is_users(site) {
            watch.rules.flush_volatile.flushed(site, by.time.0);
        }
    }

    #[inline]
    pub(crate) fn fence(&mut self, by: Access, site: SiteId, kind: FenceKind) {
        if kind == FenceKind::Locked {
            return self.locked(by, site);
        }
        let thread = &self.watch.threads[by.thread.index()];
        let moment = FenceMoment {
            time: by.time.0,
            site,
            kind,
            awaited: thread.waiting > 0,
            ordered: thread.ordering,
            examples: &thread.examples,
            file: thread.file,
        };
        self.watch.rules.fenced(&self.watch.known, &moment);
        self.real_fence(by, site);
    }

    /// A fence, or a locked store to a candidate, which is a fence before it is a store.
    #[inline]
    pub(crate) fn real_fence(&mut self, by: Access, site: SiteId) {
        self.tracker.fence(&mut self.watch, by);
        let thread = &mut self.watch.threads[by.thread.index()];
        thread.waiting = 0;
        thread.accidental.clear();
        thread.fenced(site, by.time.0);
    }

    /// A locked instruction elsewhere.
    #[inline(never)]
    fn locked(&mut self, by: Access, site: SiteId) {
        for pending in self.tracker.pending(by.thread) {
            let line = pending.line();
            let (role, begun, time) = match *pending {
                Pending::Flush { time, tag, .. } => ("flush", tag, time),
                Pending::NonTemporal { time, .. } => {
                    let mut stores = self.tracker.live(line);
                    match stores.find(|store| store.time == time) {
                        Some(store) => ("store", store.tag.site, time),
                        None => continue,
                    }
                }
            };
            if self.watch.known.is_users(begun) {
                let file = FileId(self.tracker.address(line).space.0);
                let thread = &mut self.watch.threads[by.thread.index()];
                thread.ordered_by_accident(AccidentallyOrdered {
                    role,
                    site: begun,
                    time: time.0,
                    fence: site,
                    fence_time: by.time.0,
                    file,
                    count: 1,
                });
            }
        }
        self.tracker.fence(&mut self.watch, by);
        self.watch.threads[by.thread.index()].fenced(site, by.time.0);
    }
}
