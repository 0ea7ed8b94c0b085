//! The streaming face of the model: takes events in the order of their effect, holds what is not
//! guaranteed, and tells a [`Watcher`] what becomes so.
//!
//! What is held follows the stores that a crash could still lose, not the number of events: lines are
//! forgotten when nothing of them is live, and flushes that no fence follows are held once for each line.
//! A watcher without [history](Watcher::HISTORY) makes that a fixed bound per line, as only the latest
//! store to each byte counts for it.

use std::ops::Range;

use crate::crash_states::CrashStates;
use crate::live::{ListId, LiveStore, Slab};
use crate::pending::{Pending, PendingList};
use crate::place::{ByteMask, LINE, LineSlot, PAGE, Place, SpaceId, ThreadSlot, Time};
use crate::profile::{Profile, Wait};
use crate::shadow::{LineRef, Shadow};
use crate::unit_states::Tearing;

/// How a store travels to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// Through the cache, as part of its line's sequence.
    Cached,
    /// Past the cache, on its own.
    NonTemporal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushKind {
    /// `clflush`: takes effect at once.
    Immediate,
    /// `clflushopt`, `clwb`: takes effect at the next fence of its thread.
    Deferred,
}

/// Who does something, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub thread: ThreadSlot,
    pub time: Time,
}

/// Is told what happens to stores, and says what to remember of them.
pub trait Watcher {
    /// Remembered of each store.
    type Store: Copy;
    /// Remembered of each flush that waits for a fence.
    type Flush: Copy;
    /// Kept for each line; lines whose note is the default are forgotten when nothing of them is live.
    type Note: Clone + Default + PartialEq;

    /// Keep stores that are wholly overwritten by later ones: a crash may still show them.
    const HISTORY: bool;

    /// `store` is guaranteed from `by.time` on, by what `by.thread` did then.
    fn guaranteed(
        &mut self,
        line: LineRef<'_>,
        note: &mut Self::Note,
        store: &LiveStore<Self::Store>,
        by: Access,
    );

    /// Some `bytes` of `older`, which is not guaranteed, are overwritten by `newer`. Only without history.
    fn overwritten(
        &mut self,
        line: LineRef<'_>,
        older: &LiveStore<Self::Store>,
        newer: &mut LiveStore<Self::Store>,
        bytes: ByteMask,
    );

    /// `store` is guaranteed, and so are all before it to the same bytes: it belongs to what every
    /// crash from now on leaves. Stores to a byte settle in the order of issue.
    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<Self::Store>) {
        let _ = (line, store);
    }
}

#[derive(Clone, Default)]
struct LineState<N> {
    live: ListId,
    note: N,
}

/// Follows an execution.
pub struct Tracker<W: Watcher> {
    profile: Profile,
    lines: Shadow<LineState<W::Note>>,
    live: Slab<W::Store>,
    threads: Vec<PendingList<W::Flush>>,
    /// Pages past which idle ones are looked for.
    page_limit: usize,
}

const FIRST_PAGE_LIMIT: usize = 4096;

impl<W: Watcher> Tracker<W> {
    pub fn new(profile: Profile) -> Self {
        Tracker {
            profile,
            lines: Shadow::new(),
            live: Slab::new(),
            threads: Vec::new(),
            page_limit: FIRST_PAGE_LIMIT,
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Announces a thread.
    pub fn add_thread(&mut self) -> ThreadSlot {
        self.threads.push(PendingList::new());
        ThreadSlot(self.threads.len() as u32 - 1)
    }

    /// The line that holds `place`. Lines of which nothing is known, neither store nor note, may be forgotten.
    #[inline]
    pub fn line(&mut self, place: Place) -> LineSlot {
        match self.find_line(place) {
            Some(line) => line,
            None => {
                let first = self.new_page(place.space, place.offset / PAGE);
                first.in_page(place.offset % PAGE / LINE)
            }
        }
    }

    #[cold]
    fn new_page(&mut self, space: SpaceId, page: u64) -> LineSlot {
        if self.lines.len() >= self.page_limit {
            let nothing = W::Note::default();
            self.lines
                .forget(|line| line.live.is_empty() && line.note == nothing);
            self.page_limit = FIRST_PAGE_LIMIT.max(self.lines.len() * 2);
        }
        self.lines.touch(space, page)
    }

    /// The line that holds `place`, if anything is known of it; for those who will ask for its neighbours.
    #[inline]
    pub fn find_line(&mut self, place: Place) -> Option<LineSlot> {
        let first = self.lines.find_again(place.space, place.offset / PAGE)?;
        Some(first.in_page(place.offset % PAGE / LINE))
    }

    /// The line that holds `place`, if anything is known of it.
    pub fn known_line(&self, place: Place) -> Option<LineSlot> {
        let first = self.lines.find(place.space, place.offset / PAGE)?;
        Some(first.in_page(place.offset % PAGE / LINE))
    }

    /// Where a line is.
    #[inline]
    pub fn place(&self, line: LineSlot) -> Place {
        self.lines.place(line)
    }

    #[inline]
    pub fn note(&self, line: LineSlot) -> &W::Note {
        &self.lines[line].note
    }

    #[inline]
    pub fn note_mut(&mut self, line: LineSlot) -> &mut W::Note {
        &mut self.lines[line].note
    }

    /// Stores to `bytes` of a line.
    #[inline]
    pub fn store(
        &mut self,
        watcher: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: W::Store,
    ) {
        self.store_with(watcher, by, line, bytes, kind, || tag);
    }

    /// As [`store`](Self::store), with a tag that is made where it is kept and not moved there.
    #[inline]
    pub fn store_with(
        &mut self,
        watcher: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: impl FnOnce() -> W::Store,
    ) {
        let wait = self.profile.wait(kind);
        let live = &mut self.lines[line].live;
        let overwrites = !W::HISTORY && !self.live.bytes(*live).and(bytes).is_empty();
        if overwrites || wait == Wait::Nothing {
            self.store_over(watcher, by, line, bytes, kind, tag());
        } else {
            self.live
                .append(live, LiveStore::new(by, bytes, kind, false, tag()));
        }
        if wait == Wait::Fence {
            self.pend(
                by.thread,
                Pending::NonTemporal {
                    line,
                    time: by.time,
                },
            );
        }
    }

    /// A store that others hear of: those whose bytes it takes, or the watcher, as it is guaranteed.
    #[inline(never)]
    fn store_over(
        &mut self,
        watcher: &mut W,
        by: Access,
        line: LineSlot,
        bytes: ByteMask,
        kind: StoreKind,
        tag: W::Store,
    ) {
        let wait = self.profile.wait(kind);
        let mut store = LiveStore::new(by, bytes, kind, wait == Wait::Nothing, tag);
        if !W::HISTORY {
            self.overwrite(watcher, line, &mut store);
        }
        let (state, at) = self.lines.split(line);
        if store.guaranteed {
            watcher.guaranteed(at, &mut state.note, &store, by);
            if !W::HISTORY || state.live.is_empty() {
                watcher.settled(at, &store);
                return;
            }
        }
        self.live.append(&mut state.live, store);
    }

    /// Takes what a new store covers away from older ones.
    fn overwrite(&mut self, watcher: &mut W, line: LineSlot, newer: &mut LiveStore<W::Store>) {
        let (state, at) = self.lines.split(line);
        self.live.retain(&mut state.live, |older| {
            let covered = older.bytes.and(newer.bytes);
            if !covered.is_empty() {
                watcher.overwritten(at, older, newer, covered);
                older.bytes = older.bytes.without(covered);
            }
            !older.bytes.is_empty()
        });
    }

    /// Flushes a line.
    #[inline]
    pub fn flush(
        &mut self,
        watcher: &mut W,
        by: Access,
        line: LineSlot,
        kind: FlushKind,
        tag: W::Flush,
    ) {
        if !self.profile.needs_flushes() || self.lines[line].live.is_empty() {
            return;
        }
        match kind {
            FlushKind::Immediate => self.guarantee(watcher, by, line, |store| {
                store.kind == StoreKind::Cached && store.time <= by.time
            }),
            FlushKind::Deferred => {
                let time = by.time;
                self.pend(by.thread, Pending::Flush { line, time, tag });
            }
        }
    }

    #[inline]
    fn pend(&mut self, thread: ThreadSlot, pending: Pending<W::Flush>) {
        if self.threads[thread.index()].push(pending) {
            self.compact(thread);
        }
    }

    #[cold]
    fn compact(&mut self, thread: ThreadSlot) {
        let (lines, live) = (&self.lines, &self.live);
        self.threads[thread.index()].compact(|pending| {
            let mut stores = live.iter(lines[pending.line()].live);
            stores.any(|store| covers(pending, store))
        });
    }

    /// A fence: what the thread has pending is guaranteed.
    #[inline]
    pub fn fence(&mut self, watcher: &mut W, by: Access) {
        let thread = by.thread.index();
        if self.threads[thread].entries().is_empty() {
            return;
        }
        let pending = self.threads[thread].take();
        for entry in &pending {
            if !self.lines[entry.line()].live.is_empty() {
                self.guarantee(watcher, by, entry.line(), |store| covers(entry, store));
            }
        }
        self.threads[thread].reuse(pending);
    }

    /// The kernel wrote back the pages that hold bytes of `range`.
    pub fn write_back(&mut self, watcher: &mut W, by: Access, space: SpaceId, range: Range<u64>) {
        for (_, first) in self.lines.pages_in(space, range) {
            for number in 0..PAGE / LINE {
                let line = first.in_page(number);
                if !self.lines[line].live.is_empty() {
                    self.guarantee(watcher, by, line, |_| true);
                }
            }
        }
    }

    /// What the thread's next fence will guarantee. Entries may have become moot: see
    /// [`live`](Self::live).
    #[inline]
    pub fn pending(&self, thread: ThreadSlot) -> &[Pending<W::Flush>] {
        self.threads[thread.index()].entries()
    }

    /// The threads announced so far.
    pub fn threads(&self) -> impl Iterator<Item = ThreadSlot> + use<W> {
        (0..self.threads.len() as u32).map(ThreadSlot)
    }

    /// The stores to a line that are not settled, in the order of issue.
    pub fn live(&self, line: LineSlot) -> impl Iterator<Item = &LiveStore<W::Store>> {
        self.live.iter(self.lines[line].live)
    }

    /// Shows `visit` the stores to a line that are not settled, in the order of issue, and their tags, which
    /// it may change.
    #[inline]
    pub fn visit_live(
        &mut self,
        line: LineSlot,
        mut visit: impl FnMut(StoreKind, Time, &mut W::Store),
    ) {
        let list = self.lines[line].live;
        self.live.for_each(list, |store| {
            visit(store.kind, store.time, &mut store.tag);
        });
    }

    /// The stores to bytes of `range` that are not settled, in the order of places, then of issue.
    pub fn live_in(
        &self,
        space: SpaceId,
        range: Range<u64>,
    ) -> impl Iterator<Item = (Place, LineSlot, &LiveStore<W::Store>)> {
        let pages = self.lines.pages_in(space, range.clone()).into_iter();
        let lines = pages.flat_map(|(offset, first)| {
            (0..PAGE / LINE).map(move |number| (offset + number * LINE, first.in_page(number)))
        });
        lines.flat_map(move |(offset, line)| {
            let inside = bytes_in(offset, &range);
            let stores = self.live(line);
            stores
                .filter(move |store| !store.bytes.and(inside).is_empty())
                .map(move |store| (Place { space, offset }, line, store))
        })
    }

    /// The bytes of a line that are not settled.
    #[inline]
    pub fn live_bytes(&self, line: LineSlot) -> ByteMask {
        self.live.bytes(self.lines[line].live)
    }

    /// Number of stores, or parts of them, that are not settled.
    pub fn live_stores(&self) -> usize {
        self.live.len()
    }

    /// Pages of 4 KiB that state is held for.
    pub fn pages(&self) -> usize {
        self.lines.len()
    }

    /// Shows `visit` every live store to a byte of `range`, in the order of places, then of issue; it
    /// says whether to keep it.
    pub fn retain(
        &mut self,
        space: SpaceId,
        range: Range<u64>,
        mut visit: impl FnMut(Place, LineSlot, &mut W::Note, &mut LiveStore<W::Store>) -> bool,
    ) {
        for (offset, first) in self.lines.pages_in(space, range.clone()) {
            for number in 0..PAGE / LINE {
                let start = offset + number * LINE;
                let inside = bytes_in(start, &range);
                let line = first.in_page(number);
                let state = &mut self.lines[line];
                if self.live.bytes(state.live).and(inside).is_empty() {
                    continue;
                }
                let offset = start;
                let (place, note) = (Place { space, offset }, &mut state.note);
                self.live.retain(&mut state.live, |store| {
                    store.bytes.and(inside).is_empty() || visit(place, line, note, store)
                });
            }
        }
    }

    /// The bytes of `range` are no more, or no longer those that were stored: what is live of them is
    /// dropped.
    pub fn discard(&mut self, space: SpaceId, range: Range<u64>) {
        let gone = range.clone();
        self.retain(space, range, |place, _, _, store| {
            store.bytes = store.bytes.without(bytes_in(place.offset, &gone));
            !store.bytes.is_empty()
        });
    }

    /// What a crash now can leave.
    pub fn crash_states(&self, tearing: Tearing) -> CrashStates<W::Store> {
        let lines = self
            .lines
            .all_pages()
            .into_iter()
            .flat_map(|(place, first)| {
                (0..PAGE / LINE).map(move |number| {
                    let offset = place.offset + number * LINE;
                    (Place { offset, ..place }, first.in_page(number))
                })
            });
        let live = lines.filter_map(|(place, line)| {
            let list = self.lines[line].live;
            (!list.is_empty()).then(|| (place, self.live.iter(list)))
        });
        CrashStates::new(&self.profile, tearing, live)
    }

    /// Guarantees the stores of a line that `which` accepts.
    #[inline]
    fn guarantee(
        &mut self,
        watcher: &mut W,
        by: Access,
        line: LineSlot,
        which: impl Fn(&LiveStore<W::Store>) -> bool,
    ) {
        let (LineState { live, note }, at) = self.lines.split(line);
        let mut waits = ByteMask::NONE;
        self.live.retain(live, |store| {
            if !store.guaranteed && which(store) {
                store.guaranteed = true;
                watcher.guaranteed(at, note, store, by);
            }
            // Without history no two live stores share a byte, so that none has to wait.
            if store.guaranteed && (!W::HISTORY || waits.and(store.bytes).is_empty()) {
                watcher.settled(at, store);
                return false;
            }
            waits = waits.or(store.bytes);
            true
        });
    }
}

/// Whether a pending operation guarantees a store to its line once it is fenced.
#[inline]
fn covers<F, T>(pending: &Pending<F>, store: &LiveStore<T>) -> bool {
    match pending {
        Pending::Flush { time, .. } => store.kind == StoreKind::Cached && store.time <= *time,
        Pending::NonTemporal { time, .. } => {
            store.kind == StoreKind::NonTemporal && store.time == *time
        }
    }
}

/// The bytes of the line at `start` that lie in `range`.
fn bytes_in(start: u64, range: &Range<u64>) -> ByteMask {
    let from = range.start.saturating_sub(start).min(LINE);
    let to = range.end.saturating_sub(start).min(LINE);
    ByteMask::range(from, to.saturating_sub(from))
}
