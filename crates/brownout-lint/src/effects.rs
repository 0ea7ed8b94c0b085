//! Stores, flushes and fences take effect, some dozens at a time.
//!
//! A line's state is wherever the line is, so that most of the time that linting takes is waiting for
//! memory. What is known of an event without looking there is queued; when the queue is full, all its
//! lines are touched in a row, which makes the processor fetch them at once, before the first is needed.

use std::hint::black_box;

use brownout_model::{Access, ByteMask, FlushKind, LineSlot, Pending, StoreKind, ThreadSlot};
use brownout_trace::{FenceKind, FileId};

use crate::lint::Lint;
use crate::moments::{FenceMoment, FlushMoment, StoreTag, Work};
use crate::overwrites::NOTHING;
use crate::sites::SiteId;
use crate::thread::{AccidentallyOrdered, Ordered};

/// Something that a thread did at a place of the program.
pub(crate) struct Effect {
    pub(crate) by: Access,
    pub(crate) site: SiteId,
    pub(crate) act: Act,
}

#[derive(Clone, Copy)]
pub(crate) enum Act {
    Store(StorePart),
    Flush {
        line: LineSlot,
        kind: FlushKind,
    },
    FlushVolatile {
        kind: FlushKind,
    },
    Fence {
        kind: FenceKind,
        /// What the thread had to do with last; `None` if it never touched persistent memory.
        file: Option<FileId>,
    },
    /// A locked store to a candidate is a fence before it is a store.
    LockedStore,
}

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

/// What has not taken effect yet, in order.
#[derive(Default)]
pub(crate) struct Queue(Vec<Effect>);

const QUEUED: usize = 48;

impl<A> Lint<A> {
    #[inline]
    pub(crate) fn queue_up(&mut self, effect: Effect) {
        self.queue.0.push(effect);
        if self.queue.0.len() >= QUEUED {
            self.take_effect();
        }
    }

    /// Lets what is queued take effect. Due before anything else looks at lines or threads.
    #[inline(never)]
    pub(crate) fn take_effect(&mut self) {
        let mut queue = std::mem::take(&mut self.queue.0);
        let mut touched = 0;
        for effect in &queue {
            if let Act::Store(StorePart { line, .. }) | Act::Flush { line, .. } = effect.act {
                touched += u32::from(self.tracker.note(line).dirty);
            }
        }
        black_box(touched);
        for effect in &queue {
            let (by, site) = (effect.by, effect.site);
            match effect.act {
                Act::Store(part) => self.store_part(by, site, part),
                Act::Flush { line, kind } => self.flush_line(by, site, line, kind),
                Act::FlushVolatile { kind } => self.flush_volatile(by, site, kind),
                Act::Fence { kind, file } => match kind {
                    FenceKind::Sfence | FenceKind::Mfence => self.fence(by, site, kind, file),
                    FenceKind::Locked => self.locked(by, site),
                },
                Act::LockedStore => self.real_fence(by, site),
            }
        }
        queue.clear();
        self.queue.0 = queue;
    }

    #[inline]
    fn store_part(&mut self, by: Access, site: SiteId, part: StorePart) {
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
        let note = self.tracker.note_mut(line);
        match kind {
            StoreKind::Cached => note.dirty = true,
            StoreKind::NonTemporal => {
                note.non_temporal = true;
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
                line: self.tracker.place(line),
            });
        }
    }

    #[inline]
    fn flush_line(&mut self, by: Access, site: SiteId, line: LineSlot, kind: FlushKind) {
        let place = self.tracker.place(line);
        let work = self.work(by, line);
        self.tracker.flush(&mut self.watch, by, line, kind, site);
        self.tracker.note_mut(line).flush();
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
    #[inline]
    fn work(&mut self, by: Access, line: LineSlot) -> Work {
        let known = &self.watch.known;
        let mut cached: Option<Work> = None;
        let mut non_temporal = None;
        let mut flushed_before = false;
        self.tracker.visit_live(line, |kind, time, tag| {
            let (site, time) = (tag.site, time.0);
            if kind == StoreKind::NonTemporal {
                let store = site;
                non_temporal.get_or_insert(Work::NonTemporal { store, time });
            } else if tag.flushed {
                flushed_before = true;
            } else {
                tag.flushed = true;
                match &mut cached {
                    Some(Work::Stores { count, last, .. }) => {
                        *count += u16::from(!known.is_one_copy(last.0, site));
                        *last = (site, time);
                    }
                    _ => {
                        cached = Some(Work::Stores {
                            count: 1,
                            first: (site, time),
                            last: (site, time),
                        });
                    }
                }
            }
        });
        let note = self.tracker.note(line);
        if note.dirty {
            cached.unwrap_or(Work::Other)
        } else if let Some(work) = non_temporal.filter(|_| note.non_temporal) {
            work
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

    fn flush_volatile(&mut self, by: Access, site: SiteId, kind: FlushKind) {
        let watch = &mut self.watch;
        if kind == FlushKind::Deferred {
            watch.threads[by.thread.index()].waiting += 1;
        }
        if watch.known.is_users(site) {
            watch.rules.flush_volatile.flushed(site, by.time.0);
        }
    }

    #[inline]
    fn fence(&mut self, by: Access, site: SiteId, kind: FenceKind, file: Option<FileId>) {
        let thread = &self.watch.threads[by.thread.index()];
        let moment = FenceMoment {
            time: by.time.0,
            site,
            kind,
            awaited: thread.waiting > 0,
            ordered: thread.ordering,
            examples: &thread.examples,
            file,
        };
        self.watch.rules.fenced(&self.watch.known, &moment);
        self.real_fence(by, site);
    }

    #[inline]
    fn real_fence(&mut self, by: Access, site: SiteId) {
        self.tracker.fence(&mut self.watch, by);
        let thread = &mut self.watch.threads[by.thread.index()];
        thread.waiting = 0;
        thread.accidental.clear();
        thread.fenced(site, by.time.0);
    }

    /// A locked instruction elsewhere.
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
                let file = FileId(self.tracker.place(line).space.0);
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
